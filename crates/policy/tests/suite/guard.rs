//! Tests of the block `guard { ... }`, about what no application's block decides (docs/design/0016).

use policy::{AppTable, Compiled, GUARD, GUARD_NUMBER, compile, parse};
use sadb::spd::{Class, Spd};

fn compiled(text: &str, generation: u64) -> Compiled {
    compile(&parse("g.policy", text), &mut AppTable::new(), generation)
}

fn closed(spd: &Spd) -> Vec<(String, Class)> {
    spd.guard.networks().iter().map(|network| (network.prefix.to_string(), network.class)).collect()
}

const APPLICATION: &str = "application curl { network 0.0.0.0/0, ::/0 trusted; }\n";

#[test]
fn its_networks_are_in_the_tables_and_it_is_no_application() {
    let text = format!(
        "{APPLICATION}guard {{\n  network ::/0, 192.0.2.0/24 untrusted;\n  network 192.0.2.53 trusted;\n}}\n"
    );
    let parsed = parse("g.policy", &text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    let compiled = compiled(&text, 1);
    let names: Vec<&str> = compiled.applications.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["curl"]);
    let closed = closed(&compiled.spd);
    // The longest first; IPv4 is not in the IPv6 network around it.
    assert_eq!(closed.len(), 4, "{closed:?}");
    assert_eq!(closed[0].1, Class::Trusted);
    assert!(
        closed.iter().any(|(prefix, class)| prefix.contains("0.0.0.0/0") && *class == Class::Trusted),
        "{closed:?}"
    );
    let rules: Vec<_> = compiled.rules.iter().filter(|rule| rule.app == GUARD_NUMBER).collect();
    assert_eq!(rules.iter().map(|rule| rule.line).collect::<Vec<_>>(), [3, 3, 4]);
    assert_eq!(policy::format(&text), policy::format(&policy::format(&text)));
    assert!(policy::format(&text).contains("guard {\n"), "{}", policy::format(&text));
}

#[test]
fn an_error_opens_nothing() {
    let good = compiled(&format!("{APPLICATION}guard {{ network 192.0.2.0/24 untrusted; }}\n"), 1);
    // Broken itself; hidden by an error elsewhere.
    for text in [
        format!("{APPLICATION}guard {{ network 192.0.2.0/24 untrusted; network 192.0.2.1 protected P; }}\n"),
        format!("{APPLICATION}application wget {{ network \"\n"),
    ] {
        let mut after = compiled(&text, 2);
        assert!(after.spd.guard.networks().is_empty());
        let kept = after.carry_over(&good);
        assert!(kept.contains(&GUARD.to_owned()), "{kept:?}");
        assert_eq!(closed(&after.spd), closed(&good.spd));
        assert!(after.rules.iter().any(|rule| rule.app == GUARD_NUMBER));
    }
    // Taken out by a text without errors.
    let mut after = compiled(APPLICATION, 2);
    assert!(after.carry_over(&good).is_empty());
    assert!(after.spd.guard.networks().is_empty());
}

#[test]
fn the_papers_language_has_none() {
    let parsed = parse("g.policy", "syntax 2005;\nguard { network 192.0.2.0/24 untrusted; }\n");
    assert!(parsed.diagnostics.iter().any(|d| d.code.as_str() == "RVL-P114"), "{}", parsed.render(false));
    // A program of this name is one.
    let parsed = parse("g.policy", "application guard { network 0.0.0.0/0, ::/0 trusted; }\n");
    assert!(!parsed.has_errors());
    assert_eq!(parsed.blocks[0].names(), ["guard"]);
}
