//! The paper's samples compile unchanged and mean what its text says.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use policy::{AppTable, Code, Compiled, Explanation, Verdict, compile, explain, parse};

const FIGURE_3: &str = "application app1, app2
{
  network 192.168.0.0/24 trusted;
  network 192.168.2.0/24 untrusted;
  network www.abc.com    protected P1;
  network 0.0.0.0/0      protected P2;
  protection P1 {
    localport=123 remoteport=any
    encryption mandatory;
    localport=any remoteport=any
    authentication mandatory;
  }
  protection P2 {
    localport=any remoteport=any
    authentication optional;
  }
}
";
/// Figure 7 as the paper's text has it: each column on one line.
const FIGURE_7_SERVER: &str = " application sshd { network 192.168.1.0/24 protected Enh; network 0.0.0.0/0 trusted; \
     protection Enh { localport=any remoteport=any authentication mandatory; } } ";
const FIGURE_7_CLIENT: &str = " application ssh, sftp, scp { network 192.168.1.0/24 protected Enh; \
     network 0.0.0.0/0 trusted; protection Enh { localport=any remoteport=any authentication mandatory; } } ";

fn example(name: &str) -> String {
    let path = format!("{}/../../examples/policy/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn compiled(text: &str) -> Compiled {
    let parsed = parse("figure", text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    let got = compile(&parsed, &mut AppTable::new(), 1);
    assert!(got.left_out.is_empty());
    got
}

fn ask(compiled: &Compiled, app: &str, target: &str, local_port: u16) -> Explanation {
    let target: policy::Target = target.parse().unwrap();
    explain(compiled, app, &target.flow(None, local_port))
}

#[test]
fn examples_are_the_papers() {
    assert_eq!(example("figure3.policy"), FIGURE_3);
    let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(words(&example("figure7-server.policy")), words(FIGURE_7_SERVER));
    assert_eq!(words(&example("figure7-client.policy")), words(FIGURE_7_CLIENT));
}

#[test]
fn figure_3_means_what_section_3_3_says() {
    let policy = compiled(FIGURE_3);
    let codes: Vec<Code> = parse("figure", FIGURE_3).diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(codes, [Code::PeersNotCovered, Code::WeakIdentity, Code::UnknownInClear]);
    for app in ["app1", "app2"] {
        let trusted = ask(&policy, app, "192.168.0.9:80/tcp", 4000);
        assert_eq!((trusted.verdict, trusted.network.unwrap().line), (Verdict::Bypass, 3));
        let untrusted = ask(&policy, app, "192.168.2.9:80/tcp", 4000);
        assert_eq!((untrusted.verdict, untrusted.network.unwrap().line), (Verdict::Discard, 4));
        let rest = ask(&policy, app, "203.0.113.1:80/tcp", 4000);
        assert_eq!((rest.verdict, rest.network.unwrap().line), (Verdict::Protect, 6));
        assert_eq!(
            (rest.service.as_deref(), rest.level.as_deref()),
            (Some("authentication"), Some("optional"))
        );
        assert_eq!((rest.protection.as_deref(), rest.item.unwrap().line), (Some("P2"), 14));
        assert!(rest.notes[0].contains("demands no secrecy"), "{:?}", rest.notes);
    }
}

#[test]
fn a_list_shares_the_body_and_not_the_number() {
    let policy = compiled(FIGURE_3);
    let [one, two] = &policy.applications[..] else { panic!("two applications") };
    assert_ne!(one.id, two.id);
    assert_eq!((one.block_line, two.block_line), (1, 1));
    let (a, b) = (policy.spd.get(one.id).unwrap(), policy.spd.get(two.id).unwrap());
    assert_eq!(policy::compare(a, b), sadb::spd::Order::Same);
    let prefixes =
        |p: &sadb::spd::AppPolicy| p.networks().iter().map(|n| (n.prefix, n.class)).collect::<Vec<_>>();
    assert_eq!(prefixes(a), prefixes(b));
}

#[test]
fn figure_7_means_what_section_5_1_says() {
    for (text, apps) in [(FIGURE_7_SERVER, &["sshd"][..]), (FIGURE_7_CLIENT, &["ssh", "sftp", "scp"])] {
        let policy = compiled(text);
        for app in apps {
            let lab = ask(&policy, app, "192.168.1.77:22/tcp", 50_000);
            assert_eq!(lab.verdict, Verdict::Protect);
            assert_eq!(
                (lab.service.as_deref(), lab.level.as_deref()),
                (Some("authentication"), Some("mandatory"))
            );
            assert_eq!(ask(&policy, app, "192.168.2.77:22/tcp", 50_000).verdict, Verdict::Bypass);
        }
    }
}

#[test]
fn examples_are_in_canonical_layout_and_sound() {
    let folder = format!("{}/../../examples/policy", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = example(&name);
        let parsed = parse(&name, &text);
        assert!(!parsed.has_errors(), "{}", parsed.render(false));
        if !name.starts_with("figure7") {
            assert_eq!(policy::format(&text), text, "{name}");
        }
        count += 1;
    }
    assert!(count >= 4);
}

#[test]
fn white_space_and_comments_do_not_matter() {
    let loud = FIGURE_3
        .replace('=', " =\t")
        .replace(';', " /* a; comment } */ ;# more {\n")
        .replace("mandatory", "\r\n mandatory // and more\n");
    let (quiet, loud) = (compiled(FIGURE_3), compiled(&loud));
    assert_eq!(quiet.spd, loud.spd);
}

/// `TARGET local-port -> verdict, service and level` for one program.
type Row = (&'static str, u16, Verdict, Option<(&'static str, &'static str)>);

fn rows(file: &str, app: &str, table: &[Row]) {
    let policy = compiled(&example(file));
    for (target, local, verdict, demand) in table {
        let got = ask(&policy, app, target, *local);
        let said = got.service.as_deref().zip(got.level.as_deref());
        assert_eq!((got.verdict, said), (*verdict, *demand), "{file} {target}\n{got}");
    }
}

const PROTECT: Verdict = Verdict::Protect;

#[test]
fn figure_4_means_what_section_3_4_1_says() {
    let control = Some(("encryption", "optional"));
    let data = Some(("authentication", "optional"));
    rows(
        "figure4-server.policy",
        "/usr/sbin/vsftpd",
        &[
            ("2.2.2.9:2222/tcp", 21, Verdict::Bypass, None),
            ("1.1.1.1:2222/tcp", 21, PROTECT, control),
            ("1.1.1.1:2223/tcp", 3333, PROTECT, data),
        ],
    );
    let control = Some(("encryption", "mandatory"));
    let data = Some(("authentication", "mandatory"));
    rows(
        "figure4-client.policy",
        "ftp",
        &[
            ("1.1.1.9:21/tcp", 2222, Verdict::Bypass, None),
            ("2.2.2.2:21/tcp", 2222, PROTECT, control),
            ("2.2.2.2:3333/tcp", 2223, PROTECT, data),
        ],
    );
}

#[test]
fn figure_5_means_what_section_3_4_2_says() {
    let optional = Some(("encryption", "optional"));
    rows(
        "figure5-server.policy",
        "udpsrv",
        &[("2.2.2.9:7/udp", 2345, Verdict::Bypass, None), ("1.1.1.1:7/udp", 2345, PROTECT, optional)],
    );
    let mandatory = Some(("encryption", "mandatory"));
    rows(
        "figure5-client.policy",
        "udp-cli",
        &[("1.1.1.9:2345/udp", 7, Verdict::Bypass, None), ("2.2.2.2:2345/udp", 7, PROTECT, mandatory)],
    );
}

#[test]
fn figure_9_means_what_section_5_2_says() {
    let (encrypted, authenticated) = (("encryption", "mandatory"), ("authentication", "mandatory"));
    for (suite, data) in [("secure", encrypted), ("fast", authenticated)] {
        rows(
            &format!("figure9-{suite}-server.policy"),
            "vsftpd",
            &[
                ("192.168.1.5:40000/tcp", 21, PROTECT, Some(encrypted)),
                ("192.168.1.5:40001/tcp", 50_000, PROTECT, Some(data)),
                ("192.168.2.5:40000/tcp", 21, Verdict::Bypass, None),
            ],
        );
        rows(
            &format!("figure9-{suite}-client.policy"),
            "ftp",
            &[
                ("192.168.1.5:21/tcp", 40_000, PROTECT, Some(encrypted)),
                ("192.168.1.5:50000/tcp", 40_001, PROTECT, Some(data)),
                ("192.168.2.5:21/tcp", 40_000, Verdict::Bypass, None),
            ],
        );
    }
}

#[test]
fn the_papers_language_holds_every_figure() {
    let folder = format!("{}/../../examples/policy", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with("figure") {
            continue;
        }
        let text = example(&name);
        let paper = if text.contains("syntax 2005;") { text.clone() } else { format!("syntax 2005;{text}") };
        let parsed = parse(&name, &paper);
        assert_eq!(parsed.syntax, policy::ast::Syntax::Paper);
        // The same tables as in the whole language.
        let whole = compiled(&text.replace("syntax 2005;", "syntax 2026;"));
        assert_eq!(compiled(&paper).spd, whole.spd, "{name}");
        count += 1;
    }
    assert_eq!(count, 11);
    // And nothing else of the examples.
    assert!(parse("p", &example("extended.policy").replace("2026", "2005")).has_errors());
}

#[test]
fn the_extended_example_passes_its_own_tests() {
    let parsed = parse("extended.policy", &example("extended.policy"));
    assert_eq!((parsed.tested.passed, parsed.tested.failed, parsed.tested.skipped), (6, 0, 0));
    let subjects = compiled(&example("extended.policy")).subjects;
    assert_eq!(subjects.iter().count(), 6);
    assert!(!subjects.is_plain());
}
