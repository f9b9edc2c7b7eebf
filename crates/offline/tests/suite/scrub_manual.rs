//! docs/scrub.md has every rule, as it is.

const MANUAL: &str = include_str!("../../../../docs/scrub.md");

#[test]
fn the_table_of_rules_is_the_one_in_use() {
    let section = MANUAL.split("\n## Rules\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let expected = offline::scrub::rules().rules.into_iter().map(|rule| {
        let structural = if rule.structural { " Structural." } else { "" };
        format!(
            "| {} | `{}` | {} | {} | {} | {}{structural} |",
            rule.id, rule.name, rule.minimal, rule.standard, rule.strict, rule.text
        )
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
}
