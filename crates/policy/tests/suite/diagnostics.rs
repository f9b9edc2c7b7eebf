//! Every diagnostic code: what a person reads and what a tool gets. `RAVELIN_BLESS=1` writes the expected texts anew;
//! read the difference before you keep it.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use std::sync::LazyLock;

use policy::{
    Code, Host, MAX_DIAGNOSTICS, MAX_STATEMENTS, MAX_SUBJECTS, MAX_TEXT, ProgramFile, Severity, parse,
    parse_bytes, parse_for,
};
use qos::graph::Aggregates;

/// The classes of the host's graph.
static CLASSES: LazyLock<Aggregates> =
    LazyLock::new(|| Aggregates::default().only(|name| matches!(name, "be" | "control" | "ef")));

/// A host that lacks one program, has a script in place of another, and has a graph.
struct ThisHost;

impl Host for ThisHost {
    fn aggregates(&self) -> &Aggregates {
        &CLASSES
    }

    fn user(&self, _: &str) -> Option<u32> {
        None
    }

    fn unit_file(&self, _: &str) -> Option<String> {
        None
    }

    fn program(&self, name: &str) -> ProgramFile {
        let (path, interpreter) = ("/usr/bin/psql".to_owned(), "/usr/bin/perl".to_owned());
        match name {
            "/usr/bin/crul" | "no-such-program" => ProgramFile::Missing,
            "psql" => ProgramFile::Script { path, interpreter },
            _ => ProgramFile::NotKnown,
        }
    }

    fn near_program(&self, name: &str) -> Option<String> {
        match name {
            "/usr/bin/crul" => Some("/usr/bin/curl".to_owned()),
            "psql" => Some("/usr/lib/postgresql/15/bin/psql".to_owned()),
            _ => None,
        }
    }
}

fn folder() -> String {
    format!("{}/tests/data/diagnostics", env!("CARGO_MANIFEST_DIR"))
}

fn short(code: Code) -> &'static str {
    code.as_str().strip_prefix("RVL-").expect("every code starts so")
}

/// Codes that need texts too large to read; their tests are below.
const LARGE: [Code; 8] = [
    Code::TooLong,
    Code::TooManyStatements,
    Code::NotUtf8,
    Code::TooManyProblems,
    Code::TooManyNetworks,
    Code::TooManyApplications,
    Code::TooManyExpectations,
    Code::TooManyHosts,
];

#[test]
fn each_code_reads_as_expected() {
    let bless = std::env::var_os("RAVELIN_BLESS").is_some();
    for code in Code::ALL.iter().copied().filter(|c| !LARGE.contains(c)) {
        let name = short(code);
        let source = format!("{}/{name}.policy", folder());
        let text = std::fs::read_to_string(&source).unwrap_or_else(|e| panic!("{source}: {e}"));
        let parsed = parse_for(&format!("{name}.policy"), &text, &ThisHost);
        assert!(parsed.diagnostics.iter().any(|d| d.code == code), "{code}:\n{}", parsed.render(false));
        let got = format!("{}\n{}", parsed.render(false), parsed.summary());
        let expected = format!("{}/{name}.txt", folder());
        if bless {
            std::fs::write(&expected, &got).unwrap();
        }
        let want = std::fs::read_to_string(&expected).unwrap_or_else(|e| panic!("{expected}: {e}"));
        assert_eq!(got, want, "{code} changed; see {expected}");
    }
}

#[test]
fn every_problem_names_its_place_and_a_remedy() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "policy") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed = parse_for("p", &text, &ThisHost);
        assert!(!parsed.diagnostics.is_empty(), "{}", path.display());
        for d in &parsed.diagnostics {
            assert!(!d.help.is_empty() && !d.message.is_empty(), "{}: {d:?}", path.display());
            assert!(d.line >= 1 && d.column >= 1 && d.line <= text.lines().count() + 1, "{d:?}");
            assert!((d.end.line, d.end.column) >= (d.line, d.column), "{d:?}");
            assert_eq!(d.severity, d.code.severity());
            assert!(!d.help.contains("TODO") && !d.help.ends_with('.'), "{}", d.help);
            let line = text.lines().nth(d.line - 1).unwrap_or("");
            assert!(d.column <= line.chars().count() + 1, "{}: {d:?}", path.display());
        }
    }
}

#[test]
fn the_next_error_is_found() {
    // Each of these texts holds several slips of one kind; none hides the next.
    for (name, lines) in [
        ("P105", &[2, 3, 4][..]),
        ("P106", &[2, 3, 4]),
        ("P109", &[4, 5, 6, 7]),
        ("P110", &[4, 5, 6]),
        ("P111", &[4, 5, 6]),
        ("P112", &[4, 5, 6]),
        ("P201", &[2, 3, 4, 5, 6, 7, 8, 9]),
        ("P205", &[4, 5, 6]),
    ] {
        let text = std::fs::read_to_string(format!("{}/{name}.policy", folder())).unwrap();
        let parsed = parse("p", &text);
        let got: Vec<usize> = parsed.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.line).collect();
        assert_eq!(got, lines, "{name}:\n{}", parsed.render(false));
    }
}

#[test]
fn one_broken_block_leaves_the_others_intact() {
    for (name, sound, broken) in [
        ("P001", &[][..], &["größe", "ssh"][..]),
        ("P002", &["curl"], &[]),
        ("P003", &["curl"], &["ssh"]),
        ("P101", &["wget"], &["curl", "ssh"]),
        ("P102", &["curl"], &["ssh"]),
        ("P113", &["curl"], &["scp", "ssh", "wget"]),
        ("P301", &["curl", "ssh"], &["scp"]),
    ] {
        let text = std::fs::read_to_string(format!("{}/{name}.policy", folder())).unwrap();
        let summary = parse("p", &text).summary();
        let mut names: Vec<String> = summary.applications.into_iter().flat_map(|a| a.names).collect();
        names.sort();
        assert_eq!(
            (names.iter().map(String::as_str).collect::<Vec<_>>(), summary.left_out),
            { (sound.to_vec(), broken.iter().map(ToString::to_string).collect()) },
            "{name}"
        );
    }
}

#[test]
fn json_has_what_a_tool_needs() {
    let parsed = parse("a.policy", "application ssh {\n  network 10.0.0.0/8 trustd;\n}\n");
    let json = serde_json::to_value(&parsed.diagnostics).unwrap();
    assert_eq!(
        json[0],
        serde_json::json!({
            "code": "RVL-P106",
            "severity": "error",
            "file": "a.policy",
            "line": 2,
            "column": 22,
            "end": { "line": 2, "column": 28 },
            "message": "expected `trusted`, `untrusted` or `protected`, found `trustd`",
            "expected": ["`trusted`", "`untrusted`", "`protected`"],
            "help": "did you mean `trusted`?",
            "related": [],
        })
    );
}

/// A host where every program is missing and another one is near; it counts how often it is asked for that.
#[derive(Default)]
struct Elsewhere(std::cell::Cell<usize>);

impl Host for Elsewhere {
    fn user(&self, _: &str) -> Option<u32> {
        None
    }

    fn unit_file(&self, _: &str) -> Option<String> {
        None
    }

    fn program(&self, _: &str) -> ProgramFile {
        ProgramFile::Missing
    }

    fn near_program(&self, _: &str) -> Option<String> {
        self.0.set(self.0.get() + 1);
        Some("/usr/bin/other".to_owned())
    }
}

/// A proposal searches directories: a policy of another host, with many programs that are not here, must not take
/// seconds.
#[test]
fn proposals_are_bounded() {
    let block = |number| format!("application /usr/bin/p{number} {{ network 0.0.0.0/0 trusted; }}\n");
    let text: String = (0..40).map(block).collect();
    let host = Elsewhere::default();
    let parsed = parse_for("p", &text, &host);
    let unknown: Vec<_> = parsed.diagnostics.iter().filter(|d| d.code == Code::UnknownProgram).collect();
    assert_eq!(unknown.len(), 40);
    let proposed = |d: &&&policy::Diagnostic| d.help.contains("did you mean");
    assert_eq!((unknown.iter().filter(proposed).count(), host.0.get()), (8, 8));
}

#[test]
fn columns_count_characters() {
    let parsed = parse("p", "/* \u{fc}\u{20ac}\u{1f512} */ application ssh { network 10.0.0.256 trusted; }");
    let d = &parsed.diagnostics[0];
    assert_eq!((d.code, d.line, d.column), (Code::BadAddress, 1, 37));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let parsed = parse("p", "application \"a\u{1b}[2Jb\" { network \u{1b}[31m trusted; }");
    assert!(parsed.has_errors());
    assert!(!parsed.render(false).contains('\u{1b}'), "{:?}", parsed.render(false));
    let json = serde_json::to_string(&parsed.diagnostics).unwrap();
    assert!(!json.contains('\u{1b}'));
}

fn codes(text: &str) -> Vec<Code> {
    codes_of(&parse("p", text))
}

#[test]
fn too_long_a_text_is_refused() {
    let text = "#".repeat(MAX_TEXT + 1);
    assert_eq!(codes(&text), [Code::TooLong]);
    assert!(parse("p", &text).render(false).contains("p:1:1"), "{}", parse("p", &text).render(false));
    assert_eq!(codes(&text[..MAX_TEXT]), [Code::EmptyPolicy]);
}

#[test]
fn a_text_of_too_many_statements_is_refused_whole() {
    let sound = "application a { network ::/0 untrusted; }\n";
    for (unit, most) in [(";", MAX_STATEMENTS), ("application b{}", MAX_SUBJECTS / 2)] {
        let fits = sound.to_owned() + &unit.repeat(most - 2);
        let parsed = parse("p", &fits);
        assert!(!parsed.blocks.is_empty() && !codes_of(&parsed).contains(&Code::TooManyStatements), "{unit}");
        assert!(!parsed.tree.nodes().is_empty());
        let parsed = parse("p", &(fits + &unit.repeat(3)));
        let [found] = &parsed.diagnostics[..] else { panic!("{unit}: {}", parsed.render(false)) };
        assert_eq!((found.code, found.line), (Code::TooManyStatements, 2));
        assert!(found.column > unit.len() * (most - 3), "{}", found.column);
        assert!(parsed.has_errors() && parsed.blocks.is_empty() && parsed.tree.nodes().is_empty());
        assert!(parsed.render(false).contains("p:2:") && parsed.render(false).len() < 2000);
    }
}

fn codes_of(parsed: &policy::Parsed) -> Vec<Code> {
    parsed.diagnostics.iter().map(|d| d.code).collect()
}

#[test]
fn octets_that_are_not_text_are_placed() {
    let parsed = parse_bytes("p", b"application ssh {\n  network \xff\xfe trusted;\n}");
    let [d] = &parsed.diagnostics[..] else { panic!("{:?}", parsed.diagnostics) };
    assert_eq!((d.code, d.line, d.column), (Code::NotUtf8, 2, 11));
    assert!(parsed.has_errors() && parsed.blocks.is_empty());
    assert!(parsed.render(false).contains("p:2:11"));
}

#[test]
fn problems_are_capped_and_errors_are_not_crowded_out() {
    let text: String =
        (0..300).map(|n| format!("application a{n} {{ network 10.0.0.1/8 trusted; }}\n")).collect();
    let text = text + "application z { network 10.0.0.0/8 trustd; }";
    let parsed = parse("p", &text);
    assert!(parsed.diagnostics.len() <= 2 * MAX_DIAGNOSTICS + 2);
    assert!(parsed.diagnostics.iter().any(|d| d.code == Code::TooManyProblems));
    assert!(parsed.diagnostics.iter().any(|d| d.code == Code::ExpectedType));
    assert!(parsed.has_errors());
    assert_eq!(parsed.blocks.len(), 300);
}

#[test]
fn too_many_networks_and_applications_leave_their_block_out() {
    let ranges: String = (1..700).map(|n| format!("network {n:x}::1-{n:x}:ffff::1 trusted;")).collect();
    let parsed =
        parse("p", &format!("application a {{ {ranges} }} application b {{ network ::/0 trusted; }}"));
    assert!(parsed.diagnostics.iter().any(|d| d.code == Code::TooManyNetworks));
    assert_eq!(parsed.summary().left_out, ["a"]);
    assert_eq!(parsed.blocks.len(), 1);

    let lines = "a to 192.0.2.1:1/tcp trusted;\n".repeat(policy::MAX_EXPECTATIONS + 1);
    let parsed =
        parse("p", &format!("application a {{ network 0.0.0.0/0, ::/0 trusted; }}\ntest t {{\n{lines}}}"));
    let errors: Vec<_> =
        parsed.diagnostics.iter().filter(|d| d.is_error()).map(|d| (d.code, d.line)).collect();
    assert_eq!(errors, [(Code::TooManyExpectations, 3 + policy::MAX_EXPECTATIONS)]);
    assert!(parsed.tests_failed() && parsed.tested.passed == policy::MAX_EXPECTATIONS);

    let hosts: Vec<String> = (0..=policy::MAX_HOSTS).map(|n| format!("h{n}.example")).collect();
    let block = |hosts: &[String]| format!("application a {{ network {} untrusted; }}", hosts.join(", "));
    assert!(!parse("p", &block(&hosts[1..])).has_errors());
    let parsed = parse("p", &block(&hosts));
    assert!(parsed.blocks.is_empty() && codes(&block(&hosts)).contains(&Code::TooManyHosts));
    assert_eq!(parsed.summary().left_out, ["a"]);

    let names: Vec<String> = (0..70_000).map(|n| format!("x{n}")).collect();
    let parsed = parse("p", &format!("application a {{}} application {} {{}}", names.join(",")));
    assert!(parsed.diagnostics.iter().any(|d| d.code == Code::TooManyApplications));
    assert_eq!(parsed.blocks.len(), 1);
}

#[test]
fn the_manual_names_every_code_with_its_title() {
    let path = format!("{}/../../docs/man/ravelin-policy.5.md", env!("CARGO_MANIFEST_DIR"));
    let manual = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    for code in Code::ALL {
        let row = manual.lines().find(|l| l.starts_with(&format!("| {code} |")));
        let row = row.unwrap_or_else(|| panic!("{code} is not in {path}"));
        assert!(row.contains(code.title()), "{code}: `{}` not in `{row}`", code.title());
        let severity = match code.severity() {
            Severity::Error => "| error |",
            Severity::Warning => "| warning |",
            Severity::Note => "| note |",
        };
        assert!(row.contains(severity), "{row}");
    }
}
