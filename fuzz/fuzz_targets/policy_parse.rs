//! The policy language: any octets give diagnostics with places inside the text, or a policy.
//!
//! What is sound compiles; in canonical layout it says the same (same tables, same problems), and that layout is its
//! own. A sound block stays the same whatever stands behind the next one (paper 000 section 3.1). Read over an earlier text, from which
//! something was missing, it is what it is by itself (docs/design/0021).
#![no_main]

use libfuzzer_sys::fuzz_target;
use policy::{
    AppTable, Code, Compiled, NoHost, Parsed, compare, compile, compile_over, explain, format, parse,
    parse_bytes, parse_over,
};
use sadb::spd::{Action, Order};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;
use wire::Flow;

const SENTINEL: &str = "application sentinel { network 10.0.0.0/8 protected p;
    protection p { localport=any remoteport=1-1023 encryption mandatory; } }\n";
/// Takes the damage of what follows it: a stray brace means that the block before it was closed too early.
const FENCE: &str = "application fence { network 192.0.2.1 trusted; }\n";

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse_bytes("fuzz.policy", bytes);
    places(&parsed);
    let _ = parsed.render(false);
    let compiled = compiled(&parsed);
    questions(&compiled);
    let _ = parsed.summary();
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    assert_eq!(parsed.tree.print(&parsed.text), *parsed.text, "the tree holds every octet");
    layout(text, &parsed, &compiled);
    isolation(text);
    over(text, &parsed, &compiled);
});

fn compiled(parsed: &Parsed) -> Compiled {
    compile(parsed, &mut AppTable::new(), 1)
}

fn places(parsed: &Parsed) {
    let lines: Vec<usize> = parsed.text.split('\n').map(|line| line.chars().count()).collect();
    let columns = |line: usize| lines.get(line - 1).copied().expect("a line of the text") + 1;
    for diagnostic in &parsed.diagnostics {
        let place = |line, column| (1..=columns(line)).contains(&column);
        assert!(place(diagnostic.line, diagnostic.column), "{diagnostic:?}");
        assert!(place(diagnostic.end.line, diagnostic.end.column), "{diagnostic:?}");
        assert!(!diagnostic.message.is_empty() && !diagnostic.help.is_empty(), "{diagnostic:?}");
        for related in &diagnostic.related {
            assert!(place(related.at.line, related.at.column), "{diagnostic:?}");
        }
    }
    assert!(parsed.broken.is_empty() || parsed.has_errors(), "nothing is left out silently");
}

/// What `explain` says is what the tables decide.
fn questions(compiled: &Compiled) {
    for application in compiled.applications.iter().take(4) {
        let tables = compiled.spd.get(application.id).expect("every application has its tables");
        assert_eq!(compare(tables, tables), Order::Same);
        let peers =
            tables.networks().iter().take(4).map(|network| wire::addr::from_bits(network.prefix.first()));
        for remote in peers.chain([IpAddr::V6(Ipv6Addr::LOCALHOST)]) {
            let flow = Flow {
                opaque: false,
                local: remote,
                remote,
                local_port: 40000,
                remote_port: 443,
                protocol: 6,
            };
            let said = explain(compiled, &application.name, &flow).verdict;
            let action = compiled.spd.decide(application.id, &flow).action;
            let agree = match action {
                Action::Bypass => said == policy::Verdict::Bypass,
                Action::Discard => said == policy::Verdict::Discard,
                Action::Protect { .. } => said == policy::Verdict::Protect,
            };
            assert!(agree, "{} {flow:?}: {said} but {action:?}", application.name);
        }
    }
}

fn layout(text: &str, parsed: &Parsed, said: &Compiled) {
    let laid_out = format(text);
    assert_eq!(format(&laid_out), laid_out, "the canonical layout is its own");
    let again = parse("fuzz.policy", &laid_out);
    assert_eq!(codes(&again), codes(parsed), "{laid_out}");
    assert_eq!(compiled(&again).spd, said.spd, "{laid_out}");
}

fn codes(parsed: &Parsed) -> Vec<Code> {
    // One about nothing in particular stands at the first octet, in front of others there.
    let mut codes: Vec<Code> = parsed.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    codes.sort();
    codes
}

fn isolation(text: &str) {
    static ALONE: LazyLock<Compiled> = LazyLock::new(|| compiled(&parse("fuzz.policy", SENTINEL)));
    let together = compiled(&parse("fuzz.policy", &[SENTINEL, FENCE, text].concat()));
    let first = ALONE.applications[0].id;
    assert_eq!(together.spd.get(first), ALONE.spd.get(first), "{text}");
}

fn over(text: &str, parsed: &Parsed, said: &Compiled) {
    let boundary = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (first, last) = (boundary(text.len() / 3), boundary(text.len() / 2));
    let before = compiled(&parse("fuzz.policy", &[&text[..first], &text[last..]].concat()));
    for before in [&before, said] {
        let over = parse_over("fuzz.policy", text.as_bytes(), &NoHost, before);
        assert_eq!(over.diagnostics, parsed.diagnostics, "{text}");
        assert_eq!(compile_over(&over, &mut AppTable::new(), 1, before).spd, said.spd, "{text}");
    }
}
