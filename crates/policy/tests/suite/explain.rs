//! `explain` names the right block and lines: the table of `data/explain.cases` over `data/explain.policy`. The
//! command's tests run the same table through `ravelin policy explain`.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use policy::{AppTable, Compiled, Explanation, Target, compile, explain, parse};
use wire::Flow;

fn data(name: &str) -> String {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn policy() -> Compiled {
    let parsed = parse("explain.policy", &data("explain.policy"));
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    compile(&parsed, &mut AppTable::new(), 1)
}

fn row(explanation: &Explanation) -> Vec<String> {
    let line = |line: Option<usize>| line.map_or("-".to_string(), |l| l.to_string());
    let word = |word: &Option<String>| word.clone().unwrap_or("-".to_string());
    vec![
        explanation.verdict.to_string(),
        line(explanation.application.as_ref().map(|a| a.line)),
        line(explanation.network.as_ref().map(|n| n.line)),
        line(explanation.item.as_ref().map(|i| i.line)),
        word(&explanation.service),
        word(&explanation.level),
    ]
}

#[test]
fn table() {
    let (compiled, cases) = (policy(), data("explain.cases"));
    let (mut count, mut ipv6) = (0, 0);
    for case in cases.lines().filter(|l| !l.starts_with('#')) {
        let fields: Vec<&str> = case.split('|').map(str::trim).collect();
        let [program, to, local_port, want @ ..] = &fields[..] else { panic!("{case}") };
        let target: Target = to.parse().unwrap_or_else(|e| panic!("{case}: {e}"));
        let flow = target.flow(None, local_port.parse().unwrap());
        let got = explain(&compiled, program, &flow);
        assert_eq!(row(&got), want, "{case}\n{got}");
        count += 1;
        ipv6 += usize::from(target.remote.is_ipv6());
    }
    assert!(count >= 20 && ipv6 >= 8, "{count} cases, {ipv6} of them IPv6");
}

fn ask(program: &str, to: &str, local_port: u16) -> Explanation {
    explain(&policy(), program, &to.parse::<Target>().unwrap().flow(None, local_port))
}

#[test]
fn the_rule_is_quoted_as_written() {
    let got = ask("/usr/sbin/vsftpd", "10.9.9.9:21/tcp", 40_050);
    assert_eq!(got.application.unwrap().text, "application /usr/sbin/vsftpd");
    assert_eq!(got.network.unwrap().text, "network 10.0.0.0/8 protected Ftp;");
    let item = got.item.unwrap();
    assert_eq!((item.text.as_str(), item.column), ("localport=any remoteport=21 encryption mandatory;", 5));
    assert_eq!(got.protection.as_deref(), Some("Ftp"));
}

#[test]
fn notes_say_what_else_matters() {
    let has = |e: &Explanation, text: &str| e.notes.iter().chain(&e.why).any(|n| n.contains(text));
    let unknown = ask("/usr/sbin/vsftpd", "10.9.9.9:22/tcp", 0);
    assert!(has(&unknown, "local port is not known"), "{unknown}");
    assert!(has(&unknown, "refused, since clear would be a guess"), "{unknown}");
    let known = ask("/usr/sbin/vsftpd", "10.9.9.9:22/tcp", 9);
    assert!(!has(&known, "local port is not known"), "{known}");
    assert!(has(&ask("/usr/sbin/vsftpd", "10.9.9.9/icmp", 0), "has no ports"));
    assert!(has(&ask("dig", "[2001:db8::53]:53/udp", 1), "demands no secrecy"));
    assert!(!has(&ask("dig", "[2001:db8::53]:54/udp", 1), "demands no secrecy"));
    assert!(has(&ask("rsync", "10.0.0.1:1/tcp", 1), "`/opt/tools/rsync`"));
    assert!(has(&ask("/bin/ssh", "10.0.0.1:1/tcp", 1), "executable of the name `ssh`"));
    assert!(!has(&ask("/bin/ssh", "10.0.0.1:1/tcp", 1), "has no policy unless"));
    assert!(has(&ask("/home/me/ssh", "10.0.0.1:1/tcp", 1), "has no policy unless its path is named"));
    assert!(has(&ask("ssh", "239.1.2.3:9/udp", 1), "multicast"));
    assert!(has(&ask("dig", "192.0.2.53:53/udp", 1), "no network of the block covers 192.0.2.53"));
}

#[test]
fn a_left_out_program_is_told_so() {
    let parsed = parse("p", "application ssh { network 10.0.0.0/8 trustd; }");
    let compiled = compile(&parsed, &mut AppTable::new(), 1);
    let flow = "10.0.0.1:22/tcp".parse::<Target>().unwrap().flow(None, 1);
    let got = explain(&compiled, "ssh", &flow);
    assert!(got.application.is_none() && got.notes[0].contains("line 1 names it but has errors"), "{got}");
}

#[test]
fn by_number_and_by_name_agree() {
    let compiled = policy();
    let flow = "10.1.0.4:50000/tcp".parse::<Target>().unwrap().flow(None, 21);
    for app in &compiled.applications {
        assert_eq!(compiled.explain_app(app.id, &flow), explain(&compiled, &app.name, &flow));
    }
    let nobody = compiled.explain_app(wire::AppId::NONE, &flow);
    assert_eq!(nobody.verdict, policy::Verdict::Bypass);
}

#[test]
fn json_there_and_back() {
    let got = ask("dig", "[2001:db8::53]:53/udp", 33_000);
    let json = serde_json::to_value(&got).unwrap();
    assert_eq!(json["verdict"], "protect");
    assert_eq!(json["network"]["line"], 37);
    assert_eq!(serde_json::from_value::<Explanation>(json).unwrap(), got);
}

#[test]
fn who_asks_about_one_program_of_many_reads_its_name_and_not_all_of_them() {
    let list: Vec<String> = (0..57).map(|number| format!("/opt/p{number}")).collect();
    let text = format!("application {}\n{{ network 0.0.0.0/0 untrusted; }}\n", list.join(",\n"));
    let compiled = compile(&parse("p", &text), &mut AppTable::new(), 1);
    let flow = Flow {
        opaque: false,
        local: std::net::Ipv4Addr::UNSPECIFIED.into(),
        remote: "192.0.2.1".parse().unwrap(),
        local_port: 0,
        remote_port: 80,
        protocol: 6,
    };
    let explained = explain(&compiled, "/opt/p7", &flow);
    let matched = explained.application.as_ref().unwrap();
    assert_eq!((matched.line, matched.text.as_str()), (8, "application /opt/p7, and 56 more"));
    assert_eq!(explained.why[0], "line 8: the block `application /opt/p7, and 56 more` speaks for it");
}
