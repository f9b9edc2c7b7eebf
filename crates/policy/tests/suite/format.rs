//! The formatter: idempotent, keeps every comment and the meaning, and has one opinion about each text.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use crate::common;

use common::{blocks, join, parse};
use policy::{AppTable, compile, format};
use proptest::prelude::*;

/// The comments of a text, by a scan that shares nothing with the lexer.
fn comments(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let line = || rest.lines().next().unwrap_or("").trim_end().to_string();
        let taken = if c == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if c == '#' || rest.starts_with("//") {
            out.push(line());
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(inside) = rest.strip_prefix("/*") {
            let end = inside.find("*/").map_or(rest.len(), |end| end + 4);
            out.push(rest[..end].to_string());
            end
        } else {
            c.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}

/// What stands between two tokens.
fn trivia() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just(" ".to_string()),
        2 => Just("\n".to_string()),
        1 => Just("\n\n\n".to_string()),
        1 => Just("\t \r\n".to_string()),
        1 => "[a-z{};]{0,6}".prop_map(|c| format!(" # {c}\n")),
        1 => "[a-z{};]{0,6}".prop_map(|c| format!("\n\n // {c}  \r\n")),
        1 => "[a-z{};\n]{0,8}".prop_map(|c| format!(" /* {c} */ ")),
        1 => Just("/**/ /* two */ # three\n".to_string()),
    ]
}

fn check(text: &str) -> Result<(), TestCaseError> {
    let once = format(text);
    prop_assert_eq!(&format(&once), &once, "not idempotent for\n{}", text);
    let mut kept = comments(text);
    let mut got = comments(&once);
    kept.sort();
    got.sort();
    prop_assert_eq!(got, kept, "{}", once);
    let mut sound = parse("p", text).diagnostics;
    sound.retain(|d| d.is_error() && d.code < policy::Code::DuplicateApplication);
    prop_assert!(sound.is_empty(), "{:?}", sound);
    let (before, after) = (parse("p", text), parse("p", &once));
    let mut tables = (AppTable::new(), AppTable::new());
    prop_assert_eq!(compile(&before, &mut tables.0, 1).spd, compile(&after, &mut tables.1, 1).spd);
    prop_assert_eq!(before.summary().left_out, after.summary().left_out);
    prop_assert!(text.contains("/*") || !once.lines().any(|l| l.ends_with([' ', '\t', '\r'])), "{:?}", once);
    Ok(())
}

proptest! {
    #[test]
    fn any_layout_comes_to_one(parts in blocks(0..4), between in prop::collection::vec(trivia(), 400)) {
        let text = join(&parts).replace('=', " = ").replace(';', " ; ").replace(',', " , ");
        let mut gaps = between.iter().cycle();
        let mut loud = String::new();
        for word in text.split_whitespace() {
            loud.push_str(gaps.next().unwrap());
            loud.push_str(word);
        }
        loud.push_str(gaps.next().unwrap());
        check(&loud)?;
        // Without comments there is one layout only.
        if comments(&loud).is_empty() {
            let dense = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let lines = |t: &str| t.lines().filter(|l| !l.is_empty()).map(String::from).collect::<Vec<_>>();
            prop_assert_eq!(lines(&format(&loud)), lines(&format(&dense)));
        }
    }

    #[test]
    fn what_the_paper_does_not_have_in_any_layout(between in prop::collection::vec(trivia(), 300)) {
        let path = format!("{}/../../examples/policy/extended.policy", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let plain: String = text.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n");
        // Names with blanks stay one word.
        let held = plain.replace("the backup reaches its server and nothing else", "one");
        let held = held.replace("what has no name has no network", "two");
        let spaced = held.replace('=', " = ").replace(';', " ; ").replace(',', " , ");
        let mut gaps = between.iter().cycle();
        let mut loud = String::new();
        for word in spaced.split_whitespace() {
            // `default` and `test` start a statement where they lead a line.
            let gap = gaps.next().unwrap();
            loud.push_str(if matches!(word, "default" | "test") { "\n" } else { gap });
            loud.push_str(word);
        }
        check(&loud)?;
        let (before, after) = (parse("p", &loud), parse("p", &format(&loud)));
        prop_assert_eq!((before.tested.passed, before.tested.failed), (6, 0), "{}", before.render(false));
        prop_assert_eq!(before.tested, after.tested);
        if comments(&loud).is_empty() {
            let lines = |t: &str| t.lines().filter(|l| !l.is_empty()).map(String::from).collect::<Vec<_>>();
            prop_assert_eq!(lines(&format(&loud)), lines(&format(&held)));
        }
    }

    #[test]
    fn soup_comes_back_as_it_is_or_better(text in "[a-z{};=,\"#/* \n0-9.:-]{0,200}") {
        let once = format(&text);
        prop_assert_eq!(format(&once), once);
    }
}

#[test]
fn golden() {
    let path = |name: &str| format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let got = format(&read("format.in.policy"));
    if std::env::var_os("RAVELIN_BLESS").is_some() {
        std::fs::write(path("format.out.policy"), &got).unwrap();
    }
    assert_eq!(got, read("format.out.policy"));
}

#[test]
fn quoted_names_stay_as_they_are() {
    let text = "application \"a , b\",\"c;{}\"{network ::/0 protected \"x = y\";\
                protection \"x = y\"{localport=any remoteport=any encryption optional;}}";
    let want = "application \"a , b\", \"c;{}\"\n{\n  network ::/0 protected \"x = y\";\n  protection \"x = y\" {\n    \
                localport=any remoteport=any\n    encryption optional;\n  }\n}\n";
    assert_eq!(format(text), want);
}

#[test]
fn a_text_with_syntax_errors_keeps_them() {
    for text in ["application ssh {", "application ssh { network 10.0.0.0/8 trustd", "x", "/*"] {
        assert_eq!(format(text), format!("{text}\n"));
    }
    assert_eq!(format(""), "");
    assert_eq!(format("  # only\n\n\n\n/* these */"), "# only\n\n/* these */\n");
}
