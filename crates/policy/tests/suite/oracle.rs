//! The compiled tables against a slow evaluator over the syntax tree: same action, same lines, for every peer and
//! port at which a random policy can change its mind.

use crate::common;

use common::{CLASSES, PROTOCOLS, blocks, evaluate, flow_of, join, parse, peers, ports_of};
use policy::{AppTable, compile};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use sadb::spd::{Failure, Negotiating, RuleId};

/// The line and column a span starts at, counted by hand.
fn place(text: &str, span: policy::ast::Span) -> (usize, usize) {
    let before = &text[..span.range().start];
    (before.matches('\n').count() + 1, before.chars().rev().take_while(|c| *c != '\n').count() + 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn tables_mean_what_the_tree_says(parts in blocks(1..4)) {
        let text = join(&parts);
        let parsed = parse("p", &text);
        let compiled = compile(&parsed, &mut AppTable::new(), 1);
        prop_assert_eq!(
            compiled.applications.len() + compiled.left_out.len(), parts.len(), "{}", parsed.render(false));
        for block in &parsed.blocks {
            let app = compiled.find(&block.subjects[0].name()).unwrap();
            // One protocol for each peer in turn would miss little; all of them are asked of every third.
            for (index, peer) in peers().into_iter().enumerate() {
                for protocol in PROTOCOLS.into_iter().filter(|p| *p == 6 || (index + usize::from(*p)) % 3 == 0) {
                  for &local in ports_of(protocol) {
                    for &remote in ports_of(protocol) {
                        let flow = flow_of(protocol, peer, local, remote);
                        let want = evaluate(block, &flow);
                        let got = compiled.spd.decide(app.id, &flow);
                        prop_assert_eq!(got.action, want.action, "{} {}\n{}", app.name, flow, text);
                        for (rule, span) in [(got.network, want.network), (got.item, want.item)] {
                            let source = compiled.rule(rule).map(|r| (r.line, r.column));
                            prop_assert_eq!(source, span.map(|s| place(&text, s)), "{} {}\n{}", app.name, flow, text);
                            prop_assert_eq!(rule == RuleId::NONE, span.is_none());
                        }
                        if matches!(want.action, sadb::spd::Action::Protect { .. }) {
                            let terms = got.terms;
                            let passes =
                                (terms.negotiating == Negotiating::Pass, terms.failure == Failure::Pass);
                            let suite = terms.suite.map(|suite| suite.to_string());
                            let scrub = scrub::Profile::of_id(terms.scrub).map(scrub::Profile::name);
                            let class = CLASSES.iter().find(|(_, id)| *id == terms.class);
                            let class = class.map(|(name, _)| (*name).to_owned());
                            prop_assert_eq!(compiled.class(got.item).map(str::to_owned), class.clone());
                            let want = (want.suite, want.passes, want.scrub, want.class);
                            prop_assert_eq!((suite, passes, scrub, class), want, "{}", text);
                        }
                    }
                  }
                }
            }
        }
    }
}

#[test]
fn random_policies_are_mostly_sound() {
    // The property above says nothing about blocks that are left out.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sound = 0;
    for _ in 0..200 {
        let parts = blocks(1..2).new_tree(&mut runner).unwrap().current();
        sound += parse("p", &join(&parts)).blocks.len();
    }
    assert!(sound > 100, "{sound} of 200");
}
