//! `observe`: what is only watched decides as if it were trusted, whoever asks, and what it would decide stands beside
//! (docs/design/0018).

use policy::{AppTable, Compiled, Names, Verdict, compare, compile, explain, format, parse};
use proptest::prelude::*;
use sadb::spd::{Action, AppPolicy, Order};
use wire::Flow;

fn compiled(text: &str) -> Compiled {
    let parsed = parse("o.policy", text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    compile(&parsed, &mut AppTable::new(), 1)
}

fn flow(remote: [u8; 4], port: u16) -> Flow {
    Flow {
        opaque: false,
        local: [198, 51, 100, 1].into(),
        remote: remote.into(),
        local_port: 40_000,
        remote_port: port,
        protocol: 6,
    }
}

fn action(compiled: &Compiled, name: &str, flow: &Flow) -> (Action, Option<Action>) {
    let app = compiled.find(name).unwrap().id;
    let would = compiled.would(app, flow).map(|(decision, _)| decision.action);
    (compiled.spd.decide(app, flow).action, would)
}

const RULES: &str = "  network 0.0.0.0/0, ::/0 untrusted;\n  network 192.0.2.0/24 protected P;\n  protection P { localport=any \
                     remoteport=443 encryption mandatory; }\n";

#[test]
fn an_observed_block_is_trusted_and_its_line_is_told() {
    let observed = compiled(&format!("application curl {{\n  observe;\n{RULES}}}\n"));
    let refused = flow([203, 0, 113, 9], 80);
    assert_eq!(action(&observed, "curl", &refused), (Action::Bypass, Some(Action::Discard)));
    let (now, would) = action(&observed, "curl", &flow([192, 0, 2, 1], 443));
    assert_eq!(now, Action::Bypass);
    assert!(matches!(would, Some(Action::Protect { .. })), "{would:?}");
    // As strict as nothing at all.
    let app = observed.find("curl").unwrap().id;
    assert_eq!(compare(observed.spd.get(app).unwrap(), &AppPolicy::default()), Order::Same);
    let said = explain(&observed, "curl", &refused);
    assert_eq!(said.verdict, Verdict::Bypass);
    assert_eq!(said.observed.as_deref(), Some("would be refused (observed), line 3"));
    assert!(said.to_string().contains("would be refused (observed)"), "{said}");
    let list: Vec<String> = observed.observed().iter().map(ToString::to_string).collect();
    assert_eq!(list, ["application curl is observed: nothing of it is protected"]);
}

#[test]
fn one_network_beside_others() {
    let text = "application curl {\n  network 192.0.2.0/24 observe untrusted;\n  network 192.0.2.7 untrusted;\n  \
                network 198.51.100.0/24 protected P;\n  protection P { encryption mandatory; }\n}\n";
    let one = compiled(text);
    assert_eq!(action(&one, "curl", &flow([192, 0, 2, 1], 1)), (Action::Bypass, Some(Action::Discard)));
    assert_eq!(action(&one, "curl", &flow([192, 0, 2, 7], 1)), (Action::Discard, None));
    assert!(matches!(action(&one, "curl", &flow([198, 51, 100, 1], 1)), (Action::Protect { .. }, None)));
    assert_eq!(action(&one, "curl", &flow([203, 0, 113, 1], 1)), (Action::Bypass, None));
    let list: Vec<String> = one.observed().iter().map(ToString::to_string).collect();
    assert_eq!(
        list,
        ["application curl: 1 of its 3 networks are observed, and nothing in them is protected"]
    );
    // The layout keeps the word where it is.
    assert!(format(text).contains("network 192.0.2.0/24    observe untrusted;"), "{}", format(text));
    assert_eq!(format(&format(text)), format(text));
}

#[test]
fn guard_stays_in_force_for_what_is_observed() {
    let guard = "guard { network 192.0.2.0/25 untrusted; network 192.0.2.53 trusted; network 203.0.113.0/24 untrusted; }\n";
    let text = format!(
        "application curl {{\n  observe;\n  network 192.0.2.0/24 protected P;\n  network 192.0.2.64/26 trusted;\n  \
         network 203.0.113.9 protected P;\n  protection P {{ encryption mandatory; }}\n}}\n{guard}"
    );
    let both = compiled(&text);
    let now = |last| action(&both, "curl", &flow([192, 0, 2, last], 1)).0;
    assert_eq!(
        (now(1), now(70), now(200), now(53)),
        (Action::Discard, Action::Discard, Action::Bypass, Action::Bypass)
    );
    assert_eq!(action(&both, "curl", &flow([203, 0, 113, 9], 1)).0, Action::Discard);
    assert!(action(&both, "curl", &flow([192, 0, 2, 53], 1)).1.is_some(), "opened again, and watched");
    // What is enforced inside is not guard's business.
    let enforced =
        text.replace("  observe;\n", "").replace("192.0.2.0/24 protected", "192.0.2.0/24 observe protected");
    let enforced = compiled(&enforced);
    assert_eq!(action(&enforced, "curl", &flow([192, 0, 2, 70], 1)), (Action::Bypass, None));
    assert_eq!(action(&enforced, "curl", &flow([192, 0, 2, 1], 1)).0, Action::Discard);
    // Again does not change it.
    let mut again = both.clone();
    again.resolve(&Names::default());
    assert_eq!(again.spd, both.spd);
}

#[test]
fn it_is_an_extension_and_guard_has_none() {
    for text in [
        "syntax 2005;\napplication curl { observe; network 192.0.2.0/24 trusted; }\n",
        "syntax 2005;\napplication curl { network 192.0.2.0/24 observe trusted; }\n",
    ] {
        let parsed = parse("o.policy", text);
        assert!(parsed.diagnostics.iter().any(|d| d.code.as_str() == "RVL-P114"), "{}", parsed.render(false));
    }
    assert!(parse("o.policy", "guard { observe; network 192.0.2.0/24 untrusted; }\n").has_errors());
    assert!(parse("o.policy", "guard { network 192.0.2.0/24 observe untrusted; }\n").has_errors());
    // A host of this name is one.
    let parsed = parse("o.policy", "application curl { network observe untrusted; }\n");
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    assert!(parsed.blocks[0].networks.iter().all(|network| !network.observed));
}

proptest! {
    /// With `observe` nothing is decided otherwise than with every network trusted, and what would be decided is what
    /// the text without it decides.
    #[test]
    fn observing_is_trusting_and_remembering(
        networks in proptest::collection::vec((0u8..4, 24u8..33, 0usize..3, any::<bool>()), 1..8),
        probes in proptest::collection::vec((0u8..4, any::<u8>(), 440u16..446), 1..40),
    ) {
        let mut seen = std::collections::BTreeSet::new();
        let body = |observe: bool| {
            let mut text = String::from("application a {\n");
            for (third, len, class, observed) in &networks {
                let class = ["trusted", "untrusted", "protected P"][*class];
                let word = if observe && *observed { "observe " } else { "" };
                text.push_str(&format!("  network 192.0.{third}.0/{len} {word}{class};\n"));
            }
            text + "  protection P { remoteport=443-444 encryption mandatory; }\n}\n"
        };
        prop_assume!(networks.iter().all(|(third, len, ..)| seen.insert((*third, *len))));
        let (watched, whole) = (compiled(&body(true)), compiled(&body(false)));
        let app = whole.find("a").unwrap().id;
        for (third, last, port) in probes {
            let flow = flow([192, 0, third, last], port);
            let intended = whole.spd.decide(app, &flow);
            match watched.would(app, &flow) {
                Some((would, _)) => {
                    prop_assert_eq!(would.action, intended.action);
                    prop_assert_eq!(watched.spd.decide(app, &flow).action, Action::Bypass);
                }
                None => prop_assert_eq!(watched.spd.decide(app, &flow).action, intended.action),
            }
        }
    }
}
