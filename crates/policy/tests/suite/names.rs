//! Host names as networks: whatever addresses they have, the tables are those of the policy with the addresses written
//! out, and nothing that was merely observed makes anything less strict.

use crate::common;

use std::net::IpAddr;

use common::{PORTS, blocks, evaluate, flow, join, parse, peers};
use policy::{AppTable, Compiled, Names, Source, Target, compile, explain};
use proptest::prelude::*;
use sadb::spd::{Action, Class, Order, Spd};

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn compiled(text: &str) -> Compiled {
    let parsed = parse("p", text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    compile(&parsed, &mut AppTable::new(), 1)
}

fn with(text: &str, names: &[(&str, &str, Source)]) -> Compiled {
    let mut out = compiled(text);
    let mut known = Names::default();
    for (name, addr, source) in names {
        known.insert(name, addr.parse().unwrap(), *source);
    }
    out.resolve(&known);
    out
}

fn action(compiled: &Compiled, to: &str) -> Action {
    let flow = to.parse::<Target>().unwrap().flow(None, 1);
    compiled.spd.decide(compiled.applications[0].id, &flow).action
}

const ENCRYPT: &str = "protection E { localport=any remoteport=any encryption mandatory; }
    protection O { localport=any remoteport=any encryption optional; }
    protection T { protocol=tcp encryption mandatory; never; }
    protection U { protocol=udp encryption mandatory; never; }
    protection S { encryption mandatory scrub strict; }";

fn block(networks: &str) -> String {
    format!("{ENCRYPT} application curl {{ {networks} }}")
}

#[test]
fn a_name_is_its_addresses_and_nothing_without_them() {
    let text =
        block("network host.example protected E; network 0.0.0.0/0 untrusted; network ::/0 untrusted;");
    let none = compiled(&text);
    assert_eq!(action(&none, "192.0.2.7:1/tcp"), Action::Discard);
    let mut some = with(
        &text,
        &[("host.example", "192.0.2.7", Source::Resolver), ("host.example", "2001:db8::7", Source::Kept)],
    );
    for to in ["192.0.2.7:1/tcp", "[2001:db8::7]:1/tcp"] {
        assert!(matches!(action(&some, to), Action::Protect { .. }), "{to}");
    }
    assert_eq!(action(&some, "192.0.2.8:1/tcp"), Action::Discard);
    some.resolve(&Names::default());
    assert_eq!(some.spd, none.spd);
}

#[test]
fn the_stricter_of_equal_prefixes_decides() {
    let both = |first: &str, second: &str| {
        let text = block(&format!("network a.example {first}; network b.example {second};"));
        let names =
            [("a.example", "192.0.2.7", Source::Resolver), ("b.example", "192.0.2.7", Source::Resolver)];
        with(&text, &names)
    };
    for (first, second) in
        [("trusted", "untrusted"), ("protected O", "untrusted"), ("protected E", "untrusted")]
    {
        assert_eq!(action(&both(first, second), "192.0.2.7:1/tcp"), Action::Discard);
        assert_eq!(action(&both(second, first), "192.0.2.7:1/tcp"), Action::Discard);
    }
    let strict = action(&both("protected E", "protected E"), "192.0.2.7:1/tcp");
    for (first, second) in
        [("protected E", "protected O"), ("protected O", "protected E"), ("trusted", "protected E")]
    {
        assert_eq!(action(&both(first, second), "192.0.2.7:1/tcp"), strict, "{first} {second}");
    }
    let flow = "192.0.2.7:1/tcp".parse::<Target>().unwrap().flow(None, 1);
    for (first, second) in [("protected E", "protected S"), ("protected S", "protected E")] {
        let both = both(first, second);
        assert_eq!(both.spd.scrub(&flow), scrub::Profile::Strict.id(), "{first} {second}");
        assert!(both.named.resolution.contested.is_empty());
    }
    // What is written of the very address counts as much as a name.
    for written in ["192.0.2.7", "192.0.2.7/32"] {
        let text = block(&format!("network a.example trusted; network {written} protected E;"));
        assert_eq!(
            action(&with(&text, &[("a.example", "192.0.2.7", Source::Resolver)]), "192.0.2.7:1/tcp"),
            strict
        );
        let text = block(&format!("network a.example protected E; network {written} trusted;"));
        assert_eq!(
            action(&with(&text, &[("a.example", "192.0.2.7", Source::Resolver)]), "192.0.2.7:1/tcp"),
            strict
        );
    }
}

#[test]
fn what_does_not_compare_is_refused_and_said() {
    let text = block("network a.example protected T; network b.example protected U;");
    let names = [("a.example", "192.0.2.7", Source::Resolver), ("b.example", "192.0.2.7", Source::Resolver)];
    let both = with(&text, &names);
    for to in ["192.0.2.7:1/tcp", "192.0.2.7:1/udp"] {
        assert_eq!(action(&both, to), Action::Discard);
    }
    assert_eq!(both.named.resolution.contested.len(), 1);
    let got = explain(&both, "curl", &"192.0.2.7:1/tcp".parse::<Target>().unwrap().flow(None, 1));
    assert!(got.why.iter().any(|why| why.contains("neither is at least as strict")), "{got}");
}

#[test]
fn clear_text_needs_a_fresh_answer_to_our_own_question() {
    let text = block("network a.example trusted; network 0.0.0.0/0 protected E;");
    for (source, clear) in [(Source::Resolver, true), (Source::Kept, false), (Source::Observed, false)] {
        let got = with(&text, &[("a.example", "192.0.2.7", source)]);
        assert_eq!(action(&got, "192.0.2.7:1/tcp") == Action::Bypass, clear, "{source:?}");
    }
}

#[test]
fn explain_names_the_name_and_who_said_so() {
    let text = block("network a.example, b.example protected E; network 0.0.0.0/0 untrusted;");
    for (source, said) in [
        (Source::Resolver, "by name `a.example`: 192.0.2.7 is its address by the resolver's answer"),
        (
            Source::Observed,
            "by name `a.example`: 192.0.2.7 is its address by an answer that an application received",
        ),
    ] {
        // An observed one would be less strict than "untrusted".
        let text =
            if source == Source::Observed { text.replace("untrusted", "trusted") } else { text.clone() };
        let got = with(&text, &[("a.example", "192.0.2.7", source)]);
        let got = explain(&got, "curl", &"192.0.2.7:1/tcp".parse::<Target>().unwrap().flow(None, 1));
        assert!(got.why.iter().any(|why| why == said), "{got}");
        assert!(got.notes.iter().any(|n| n.contains("no address is known here of b.example")), "{got}");
        assert_eq!(got.network.unwrap().text, "network a.example protected E;");
    }
}

#[test]
fn a_block_that_is_kept_keeps_its_names() {
    let mut table = AppTable::new();
    let good = parse("p", &block("network a.example protected E;"));
    let mut old = compile(&good, &mut table, 1);
    let mut names = Names::default();
    names.insert("a.example", addr("192.0.2.7"), Source::Resolver);
    old.resolve(&names);
    let mut new = compile(&parse("p", &block("network a.example protected;")), &mut table, 2);
    assert_eq!(new.carry_over(&old), ["curl"]);
    names.insert("a.example", addr("192.0.2.8"), Source::Resolver);
    new.resolve(&names);
    for to in ["192.0.2.7:1/tcp", "192.0.2.8:1/tcp"] {
        assert!(matches!(action(&new, to), Action::Protect { .. }), "{to}");
    }
}

#[test]
fn there_is_an_end_to_what_names_come_to() {
    let hosts: Vec<String> = (0..policy::MAX_HOSTS).map(|n| format!("h{n}.example")).collect();
    let mut compiled = compiled(&block(&format!("network {} untrusted;", hosts.join(", "))));
    let mut names = Names::default();
    for (n, host) in hosts.iter().enumerate() {
        for k in 0..40u32 {
            names.insert(
                host,
                IpAddr::from((0x0a00_0000 + n as u32 * 64 + k).to_be_bytes()),
                Source::Resolver,
            );
        }
    }
    compiled.resolve(&names);
    let networks = compiled.spd.get(compiled.applications[0].id).unwrap().networks().len();
    assert_eq!(networks, policy::MAX_NAMED_ADDRESSES);
    assert_eq!(compiled.named.resolution.left_out, policy::MAX_HOSTS * 40 - policy::MAX_NAMED_ADDRESSES);
}

/// What may pass in clear is left out first: without an entry an address has the policy of the network around it.
#[test]
fn what_must_not_pass_in_clear_is_left_out_last() {
    let hosts: Vec<String> = (0..policy::MAX_HOSTS).map(|n| format!("h{n}.example")).collect();
    let (strict, loose) = hosts.split_at(policy::MAX_HOSTS / 2);
    let text = format!("network {} trusted; network {} untrusted;", loose.join(", "), strict.join(", "));
    let mut compiled = compiled(&block(&text));
    let mut names = Names::default();
    // The highest addresses are those of the strict ones.
    for (n, host) in loose.iter().chain(strict).enumerate() {
        for k in 0..40u32 {
            let addr = IpAddr::from((0x0a00_0000 + n as u32 * 64 + k).to_be_bytes());
            names.insert(host, addr, Source::Resolver);
        }
    }
    compiled.resolve(&names);
    let networks = compiled.spd.get(compiled.applications[0].id).unwrap().networks();
    let untrusted = networks.iter().filter(|network| network.class == Class::Untrusted).count();
    assert_eq!((networks.len(), untrusted), (policy::MAX_NAMED_ADDRESSES, strict.len() * 40));
}

/// Whether `a` is at least as strict as `b` for every application.
fn at_least(a: &Spd, b: &Spd) -> bool {
    b.apps().all(|(app, policy)| {
        matches!(policy::compare(a.get(app).unwrap(), policy), Order::Same | Order::Stricter)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Where no other setting speaks of the very address, a name is as if its addresses were written.
    #[test]
    fn a_name_means_what_its_addresses_written_out_mean(
        parts in blocks(1..3), own in prop::collection::btree_set(0u8..32, 1..6)
    ) {
        let text = join(&parts);
        let parsed = parse("p", &text);
        let mut names = Names::default();
        let list: Vec<IpAddr> = own.iter().map(|n| IpAddr::from([10, 0, 0, *n])).collect();
        for addr in &list {
            names.insert("host.example", *addr, Source::Resolver);
        }
        let mut got = compile(&parsed, &mut AppTable::new(), 1);
        got.resolve(&names);
        let written: Vec<String> = list.iter().map(IpAddr::to_string).collect();
        let parsed = parse("p", &text.replace("host.example", &written.join(", ")));
        for block in &parsed.blocks {
            let Some(app) = got.find(&block.subjects[0].name()) else { continue };
            for peer in peers() {
                for (local, remote) in PORTS.iter().flat_map(|l| PORTS.iter().map(move |r| (*l, *r))).step_by(7) {
                    let flow = flow(peer, local, remote);
                    let want = evaluate(block, &flow);
                    prop_assert_eq!(got.spd.decide(app.id, &flow).action, want.action, "{} {}\n{}", app.name, flow, text);
                    let said = got.explain_app(app.id, &flow);
                    let verdict = match want.action {
                        Action::Bypass => policy::Verdict::Bypass,
                        Action::Discard => policy::Verdict::Discard,
                        Action::Protect { .. } => policy::Verdict::Protect,
                    };
                    prop_assert_eq!(said.verdict, verdict);
                }
            }
        }
    }

    /// Never silently widened: observed answers, and settings that share an address, only ever take away.
    #[test]
    fn observed_answers_make_nothing_less_strict(
        parts in blocks(1..3),
        own in prop::collection::vec(0u8..32, 0..4),
        observed in prop::collection::vec(0u8..32, 1..6),
    ) {
        let parsed = parse("p", &join(&parts));
        let mut names = Names::default();
        for n in own {
            names.insert("host.example", IpAddr::from([10, 0, 0, n]), Source::Resolver);
        }
        let mut before = compile(&parsed, &mut AppTable::new(), 1);
        before.resolve(&names);
        for n in observed {
            names.insert("host.example", IpAddr::from([10, 0, 0, n]), Source::Observed);
        }
        let mut after = before.clone();
        after.resolve(&names);
        prop_assert!(at_least(&after.spd, &before.spd), "{}", join(&parts));
    }
}
