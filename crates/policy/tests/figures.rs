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
    assert_eq!(codes, [Code::PeersNotCovered, Code::UnresolvedHost]);
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
        assert!(rest.notes[0].contains("AEAD suite"), "{:?}", rest.notes);
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
