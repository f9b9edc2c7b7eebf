//! `compare` against a plain reading of its definition at every peer and port where an opinion can change.

use crate::common;

use common::{PROTOCOLS, flow_of, parse, parts, peers, ports_of, strict};
use policy::{AppTable, compare, compile};
use proptest::prelude::*;
use sadb::spd::{Action, AppPolicy, Decision, Failure, Negotiating, Order};
use wire::AppId;

fn policy(text: &str) -> Option<AppPolicy> {
    let compiled = compile(&parse("p", text), &mut AppTable::new(), 1);
    compiled.spd.get(AppId(1)).cloned()
}

/// A rank of its own for services, so that the test does not lean on `Services::satisfies`.
fn at_least(a: &Decision, b: &Decision) -> bool {
    let rank = |services: wire::Services| services.bits().count_ones();
    // What lets more pass in clear is the weaker one; a demand for a suite is met by that suite only.
    let clear = |d: &Decision| {
        [d.terms.negotiating == Negotiating::Pass, d.terms.failure == Failure::Pass].map(u8::from)
    };
    match (a.action, b.action) {
        (Action::Discard, _) => true,
        (_, Action::Bypass) => true,
        (Action::Protect { services: s, level: l }, Action::Protect { services: t, level: m }) => {
            let terms = clear(a).iter().zip(clear(b)).all(|(a, b)| *a <= b)
                && b.terms.suite.is_none_or(|suite| a.terms.suite == Some(suite));
            rank(s) >= rank(t) && strict(l) >= strict(m) && terms
        }
        _ => false,
    }
}

fn plain(a: &AppPolicy, b: &AppPolicy) -> Order {
    let (mut up, mut down) = (true, true);
    for peer in peers() {
        for protocol in PROTOCOLS {
            for &local in ports_of(protocol) {
                for &remote in ports_of(protocol) {
                    let flow = flow_of(protocol, peer, local, remote);
                    let (x, y) = (a.decide(&flow), b.decide(&flow));
                    up &= at_least(&x, &y);
                    down &= at_least(&y, &x);
                }
            }
        }
    }
    match (up, down) {
        (true, true) => Order::Same,
        (true, false) => Order::Stricter,
        (false, true) => Order::Weaker,
        (false, false) => Order::Incomparable,
    }
}

fn turned(order: Order) -> Order {
    match order {
        Order::Stricter => Order::Weaker,
        Order::Weaker => Order::Stricter,
        same => same,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn as_defined(a in parts(), b in parts()) {
        let (Some(a), Some(b)) = (policy(&a.text("x")), policy(&b.text("x"))) else { return Ok(()) };
        prop_assert_eq!(compare(&a, &b), plain(&a, &b));
        prop_assert_eq!(compare(&b, &a), turned(compare(&a, &b)));
        prop_assert_eq!(compare(&a, &a), Order::Same);
        prop_assert_ne!(compare(&a, &AppPolicy::default()), Order::Weaker);
    }

    #[test]
    fn one_item_apart(a in parts(), other in common::item(), place in any::<prop::sample::Index>()) {
        // Close relatives: where random pairs are nearly always incomparable, these are not.
        let mut b = a.clone();
        let count = b.protections[0].len();
        b.protections[0][place.index(count)] = other;
        let (Some(a), Some(b)) = (policy(&a.text("x")), policy(&b.text("x"))) else { return Ok(()) };
        prop_assert_eq!(compare(&a, &b), plain(&a, &b));
    }
}

#[test]
fn known_pairs() {
    let of = |body: &str| policy(&format!("application x {{ {body} }}")).unwrap();
    let protected = |item: &str| {
        of(&format!("network 0.0.0.0/0 protected P; network ::/0 protected P; protection P {{ {item} }}"))
    };
    let all = |demand: &str| protected(&format!("localport=any remoteport=any {demand};"));
    let bypass = of("");
    let trusted = of("network 0.0.0.0/0 trusted;");
    let discard = of("network 0.0.0.0/0 untrusted; network ::/0 untrusted;");
    let halves = of("network 0.0.0.0/1 untrusted; network 128.0.0.0/1 untrusted; network ::/0 untrusted;");
    let v4_only = of("network 0.0.0.0/0 untrusted;");
    let v6_only = of("network ::/0 untrusted;");
    let names = [
        "authentication optional",
        "encryption optional",
        "authentication mandatory",
        "encryption mandatory",
    ];
    let [ao, eo, am, em] = names.map(all);
    let some = protected(
        "localport=22 remoteport=any encryption mandatory; \
                          localport=any remoteport=any authentication optional;",
    );
    let open = protected("localport=22 remoteport=any encryption mandatory;");
    for (a, b, want) in [
        (&bypass, &trusted, Order::Same),
        (&discard, &halves, Order::Same),
        (&discard, &em, Order::Stricter),
        (&em, &am, Order::Stricter),
        (&em, &eo, Order::Stricter),
        (&em, &ao, Order::Stricter),
        (&am, &ao, Order::Stricter),
        (&eo, &ao, Order::Stricter),
        (&am, &eo, Order::Incomparable),
        (&ao, &bypass, Order::Stricter),
        (&some, &ao, Order::Stricter),
        (&some, &am, Order::Incomparable),
        (&some, &em, Order::Weaker),
        (&open, &em, Order::Stricter),
        (&all("encryption accept-only"), &eo, Order::Weaker),
        (&all("encryption accept-only"), &bypass, Order::Stricter),
        (&all("never"), &bypass, Order::Same),
        (&all("encryption require suite aes128gcm"), &em, Order::Stricter),
        (
            &all("encryption require suite aes128gcm"),
            &all("encryption require suite aes256gcm"),
            Order::Incomparable,
        ),
        (&all("encryption require while-negotiating drop"), &em, Order::Same),
        (&all("encryption prefer while-negotiating hold"), &eo, Order::Stricter),
        (&all("encryption prefer on-failure drop"), &eo, Order::Stricter),
        (&all("encryption prefer on-failure drop"), &em, Order::Weaker),
        (&protected("protocol=tcp encryption require;"), &em, Order::Stricter),
        (&protected("protocol=icmp never; encryption require;"), &em, Order::Weaker),
        (&v4_only, &v6_only, Order::Incomparable),
        (&v4_only, &discard, Order::Weaker),
    ] {
        assert_eq!(compare(a, b), want, "{a:?}\n{b:?}");
        assert_eq!(compare(b, a), turned(want), "{a:?}\n{b:?}");
    }
}

#[test]
fn orders_of_a_policy() {
    let text = "application curl, wget { network 0.0.0.0/0 untrusted; network ::/0 untrusted; }
                application ssh { network 10.0.0.0/8 untrusted; }";
    let compiled = compile(&parse("p", text), &mut AppTable::new(), 1);
    let nobody = AppPolicy::default();
    let of = |name: &str| match name {
        "" => &nobody,
        _ => compiled.spd.get(compiled.find(name).unwrap().id).unwrap(),
    };
    for (a, b, want) in [
        ("curl", "wget", Order::Same),
        ("curl", "ssh", Order::Stricter),
        ("ssh", "wget", Order::Weaker),
        ("", "ssh", Order::Weaker),
        ("ssh", "", Order::Stricter),
    ] {
        assert_eq!(compare(of(a), of(b)), want, "{a} {b}");
    }
}
