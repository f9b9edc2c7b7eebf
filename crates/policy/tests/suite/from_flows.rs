//! A policy from flows that were seen gives each of them what was wanted, and nothing to anybody else
//! (docs/design/0018).

use std::net::IpAddr;

use policy::{
    AppTable, Compiled, ObservedFlow, PrefixWidening, Treatment, compile, format, from_flows, parse,
};
use proptest::prelude::*;
use sadb::spd::Action;
use wire::{Flow, Services};

fn seen(
    program: &str,
    flow: (u8, &str, u16, u16),
    begun_here: Option<bool>,
    want: Treatment,
) -> ObservedFlow {
    let (protocol, remote, local_port, remote_port) = flow;
    let remote: IpAddr = remote.parse().unwrap();
    let local = if remote.is_ipv4() { "198.51.100.1" } else { "2001:db8:9::1" };
    let flow =
        Flow { opaque: false, local: local.parse().unwrap(), remote, local_port, remote_port, protocol };
    ObservedFlow { program: program.into(), flow, begun_here, want }
}

/// Without errors, and laid out already.
fn compiled(text: &str) -> Compiled {
    let parsed = parse("suggested.policy", text);
    assert!(!parsed.has_errors(), "{text}\n{}", parsed.render(false));
    assert_eq!(format(text), text);
    compile(&parsed, &mut AppTable::new(), 1)
}

fn got(compiled: &Compiled, program: &str, flow: &Flow) -> Option<Treatment> {
    let app = compiled.find(program).unwrap_or_else(|| panic!("{program}")).id;
    match compiled.spd.decide(app, flow).action {
        Action::Discard => None,
        Action::Bypass => Some(Treatment::Clear),
        Action::Protect { services: Services::ENCRYPTED, .. } => Some(Treatment::Encryption),
        Action::Protect { .. } => Some(Treatment::Authentication),
    }
}

#[test]
fn what_was_seen_is_written_as_people_would() {
    let flows = [
        seen("/usr/bin/curl", (6, "192.0.2.1", 40_000, 443), Some(true), Treatment::Encryption),
        seen("/usr/bin/curl", (6, "192.0.2.2", 40_001, 443), Some(true), Treatment::Encryption),
        seen("/usr/bin/curl", (17, "192.0.2.53", 40_002, 53), Some(true), Treatment::Clear),
        seen("/usr/bin/curl", (58, "2001:db8::1", 0, 0), Some(true), Treatment::Authentication),
        seen("my daemon", (6, "192.0.2.9", 8080, 51_000), Some(false), Treatment::Clear),
        seen("my daemon", (17, "192.0.2.9", 0, 0), Some(false), Treatment::Clear),
    ];
    let text = from_flows(&flows, PrefixWidening::default());
    let want = "# Written from flows that were seen. Read it before it is put in force: what was not seen is refused.\n\
                # Left out: 1 flows of fragments, which have no ports.\n\n\
                application /usr/bin/curl\n{\n";
    assert!(text.starts_with(want), "{text}");
    assert!(text.contains("application \"my daemon\""), "{text}");
    let compiled = compiled(&text);
    for one in &flows[..5] {
        assert_eq!(got(&compiled, &one.program, &one.flow), Some(one.want), "{one:?}\n{text}");
    }
    // Neighbours of what was seen are refused: another peer, port, protocol, program's flow.
    for (program, flow) in [
        ("/usr/bin/curl", (6, "192.0.2.3", 40_000, 443)),
        ("/usr/bin/curl", (6, "192.0.2.1", 40_000, 80)),
        ("/usr/bin/curl", (17, "192.0.2.1", 40_000, 443)),
        ("my daemon", (6, "192.0.2.9", 40_000, 8080)),
    ] {
        let other = seen(program, flow, None, Treatment::Clear);
        assert_eq!(got(&compiled, program, &other.flow), None, "{other:?}\n{text}");
    }
    // The two peers that get the same share a protection.
    assert_eq!(text.matches("protected P").count() - text.matches("protection P").count(), 1, "{text}");
}

#[test]
fn the_name_of_a_file_is_one_subject_or_none() {
    let flow = |program: &str| seen(program, (6, "192.0.2.1", 40_000, 443), Some(true), Treatment::Clear);
    let sly = ["/tmp/curl,/usr/bin/ssh", "/tmp/a uid 0", "/tmp/a\" { } application \"/usr/bin/ssh"];
    for program in sly {
        let compiled = compiled(&from_flows(&[flow(program)], PrefixWidening::default()));
        let names: Vec<&str> = compiled.applications.iter().map(|app| app.name.as_str()).collect();
        assert!(names.len() == 1 && names[0].trim_start_matches('"').starts_with("/tmp/"), "{names:?}");
    }
    let text = from_flows(
        &[flow("/tmp/a\n\"; } application /usr/bin/ssh { }"), flow("curl")],
        PrefixWidening::default(),
    );
    assert!(text.contains("# Left out: a program whose name cannot stand in a policy: /tmp/a\\n"), "{text}");
    assert_eq!(compiled(&text).applications.len(), 1, "{text}");
}

#[test]
fn a_family_that_is_widened_to_all_has_no_rest() {
    let flow = seen("curl", (6, "192.0.2.1", 40_000, 443), Some(true), Treatment::Clear);
    let text = from_flows(&[flow], PrefixWidening { v4: Some(0), v6: None });
    let other = seen("curl", (6, "2001:db8::1", 40_000, 443), Some(true), Treatment::Clear);
    assert_eq!(got(&compiled(&text), "curl", &other.flow), None, "{text}");
}

#[test]
fn what_is_widened_says_so() {
    let flows: Vec<ObservedFlow> = (1..=3)
        .map(|n| {
            seen("curl", (6, &format!("192.0.2.{n}"), 40_000, 440 + n), Some(true), Treatment::Encryption)
        })
        .collect();
    let text = from_flows(&flows, PrefixWidening { v4: Some(24), v6: None });
    assert!(text.contains("# 192.0.2.0/24: widened from 3 addresses seen"), "{text}");
    let compiled = compiled(&text);
    for one in &flows {
        assert_eq!(got(&compiled, "curl", &one.flow), Some(Treatment::Encryption));
    }
    let many: Vec<ObservedFlow> =
        (1..=40).map(|n| seen("curl", (6, "192.0.2.1", 40_000, n), Some(true), Treatment::Clear)).collect();
    let text = from_flows(&many, PrefixWidening::default());
    assert!(text.contains("# widened from 40 ports seen"), "{text}");
    assert!(parse("p", &text).diagnostics.iter().all(|d| d.severity != policy::Severity::Error), "{text}");
}

fn one_seen() -> impl Strategy<Value = ObservedFlow> {
    let remote = prop_oneof![
        (0u8..4, 0u8..8).prop_map(|(net, host)| format!("192.0.{net}.{host}")),
        (0u8..8).prop_map(|host| format!("2001:db8::{host:x}")),
    ];
    let protocol = prop_oneof![Just(6u8), Just(17), Just(132), Just(1), Just(47)];
    let begun = proptest::option::of(any::<bool>());
    let want =
        prop_oneof![Just(Treatment::Clear), Just(Treatment::Authentication), Just(Treatment::Encryption)];
    let program = prop_oneof![Just("/usr/bin/a"), Just("b"), Just("odd name")];
    (program, protocol, remote, 0u16..6, 0u16..6, begun, want).prop_map(
        |(program, protocol, remote, local, peer, begun, want)| {
            let protocol = if protocol == 1 && remote.contains(':') { 58 } else { protocol };
            let ports = if matches!(protocol, 6 | 17 | 132) { (local, peer) } else { (0, 0) };
            seen(program, (protocol, &remote, ports.0, ports.1), begun, want)
        },
    )
}

proptest! {
    /// Each flow gets what was wanted for it, or something stricter that another flow of its kind wanted.
    #[test]
    fn what_was_seen_gets_what_was_wanted(flows in proptest::collection::vec(one_seen(), 0..60)) {
        let text = from_flows(&flows, PrefixWidening::default());
        let parsed = parse("suggested.policy", &text);
        prop_assert!(!parsed.has_errors(), "{}\n{}", text, parsed.render(false));
        prop_assert_eq!(format(&text), text.clone());
        let compiled = compile(&parsed, &mut AppTable::new(), 1);
        for one in &flows {
            let fragment = matches!(one.flow.protocol, 6 | 17 | 132) && (one.flow.local_port, one.flow.remote_port) == (0, 0);
            if fragment {
                continue;
            }
            let got = got(&compiled, &one.program, &one.flow);
            let alike = |other: &&ObservedFlow| {
                other.program == one.program
                    && other.flow.remote == one.flow.remote
                    && other.flow.protocol == one.flow.protocol
            };
            let wanted: Vec<Treatment> = flows.iter().filter(alike).map(|other| other.want).collect();
            prop_assert!(got.is_some_and(|got| wanted.contains(&got) && got >= one.want), "{:?} got {:?}\n{}", one, got, text);
            // Where all of its kind want one thing, it gets that.
            if wanted.iter().all(|want| *want == one.want) {
                prop_assert_eq!(got, Some(one.want));
            }
        }
    }
}
