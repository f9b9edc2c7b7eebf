//! Broken policies as people write them: every error is found, on its line, and says what to do. The table
//! `data/broken.cases` was written with the files, not from what the checker says of them.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use std::collections::BTreeSet;

use policy::{AppTable, compile, format, parse};

fn data() -> String {
    format!("{}/tests/data", env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn every_error_is_on_its_line_and_has_a_remedy() {
    let table = read(&format!("{}/broken.cases", data()));
    let (mut files, mut errors, mut helped) = (BTreeSet::new(), 0, 0);
    let mut codes = BTreeSet::new();
    let mut wrong = Vec::new();
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let (name, wants) = row.split_once(" | ").unwrap_or_else(|| panic!("{row}"));
        let text = read(&format!("{}/broken/{name}.policy", data()));
        let parsed = parse(&format!("{name}.policy"), &text);
        let got: Vec<_> = parsed.diagnostics.iter().filter(|d| d.is_error()).collect();
        let said: Vec<String> = got
            .iter()
            .map(|d| format!("{} {}", d.line, d.code.as_str().trim_start_matches("RVL-")))
            .collect();
        if said.join(", ") != wants {
            wrong.push(format!("{name}: expected {wants}\n{text}\n{}", parsed.render(false)));
        }
        errors += got.len();
        helped += got.iter().filter(|d| !d.help.is_empty()).count();
        codes.extend(got.iter().map(|d| d.code));
        assert!(parsed.has_errors());
        // Nothing that a person may do with it panics, and what is left out is named or hidden by an error of the grammar.
        let compiled = compile(&parsed, &mut AppTable::new(), 1);
        let _ = parsed.summary().to_string();
        for (_, policy) in compiled.spd.apps() {
            assert_eq!(policy::compare(policy, policy), sadb::spd::Order::Same);
        }
        assert_eq!(format(&format(&text)), format(&text), "{name}");
        files.insert(format!("{name}.policy"));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), files.len(), wrong.join("\n"));
    assert!(helped * 10 >= errors * 9, "{helped} of {errors} errors have a remedy");
    let folder = std::fs::read_dir(format!("{}/broken", data())).unwrap();
    let there: BTreeSet<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(there, files, "the table and the folder differ");
    assert!(files.len() >= 200, "{}", files.len());
    assert!(codes.len() >= 45, "{} kinds of errors", codes.len());
}
