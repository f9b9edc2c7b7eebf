//! Networks that are only watched (docs/design/0018): everything passes in clear, and what would have become of it is counted.
//! Needs root.

use crate::common;

use common::*;
use sadb::spd::{AppPolicy, Class, Level, Network, RuleId, Spd};
use sockmon::{Amount, AppTraffic, Attempt, FlowCounting};

/// The policy of STRICT: bob is protected and 10.99.0.64/26 untrusted, both watched; 10.99.0.33 is protected in
/// earnest.
fn watched() -> Spd {
    let network = |text: &str, class, rule| Network { prefix: prefix(text), class, rule: RuleId(rule) };
    let networks = vec![
        network("10.99.0.0/24", Class::Protected(0), 11),
        network("10.99.0.64/26", Class::Untrusted, 12),
        network("10.99.0.33/32", Class::Protected(0), 13),
    ];
    let policy = AppPolicy::new(networks, vec![vec![everything(Level::Mandatory)]]);
    let observed = [(RuleId(11), Class::Protected(0)), (RuleId(12), Class::Untrusted)];
    let mut spd = Spd::new(1);
    spd.insert(STRICT, policy.observing(observed.into_iter().collect()));
    spd
}

fn amount(packets: u64, octets: u64) -> Amount {
    Amount { packets, octets }
}

#[test]
fn what_is_watched_passes_in_clear_and_is_counted_as_what_it_would_be() {
    let mut world = World::new("watched");
    world.attach_with(|options| options.flows = FlowCounting::Applications);
    world.load(&watched(), &[]);
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "bind s 10.99.0.1:7001", "sendto s 10.99.0.2:9 100"]);
    program.run(&["sendto s 10.99.0.65:9 5", "sendto s 10.99.0.65:9 5"]);
    // Beside it, what is in force stays in force.
    program.run(&["sendto s 10.99.0.33:9 50"]);
    assert_eq!(world.drain().len(), 1, "to the engine: the one that is not watched");
    // 10.99.0.65 has no neighbour: nobody on the wire sees those.
    let wire = world.wire_within(SOON / 10);
    assert_eq!(wire.iter().map(Vec::len).collect::<Vec<_>>(), [128]);
    let mut bob = world.start_in_bob("unnamed");
    bob.run(&["open s udp4", "bind s 10.99.0.2:5000", "sendto s 10.99.0.1:7001 20"]);
    assert_eq!(program.ask("recv s 5000"), "20");

    let sums = world.sockmon().traffic().unwrap().remove(&STRICT).unwrap();
    let want = AppTraffic {
        out_clear: amount(1, 128),
        would_encrypt: amount(1, 128),
        out_encrypted: amount(1, 78),
        in_clear: amount(1, 48),
        in_would_refuse: amount(1, 48),
        would_reasons: [("sendmsg_untrusted", 2)].into(),
        ..AppTraffic::default()
    };
    assert_eq!(sums, want);
    let events = world.sockmon().events().unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.attempt, event.reason, event.observed)).collect();
    assert_eq!(told, [(Attempt::Send, "sendmsg_untrusted", true)]);
    assert_eq!(world.counter("sendmsg_untrusted"), 0, "nothing was refused");
    // The same, flow by flow.
    let flows = world.sockmon().flows().unwrap();
    let of = |port| {
        flows.iter().find(|flow| {
            flow.id.flow().remote_port == port && flow.id.flow().remote.to_string() == "10.99.0.2"
        })
    };
    assert_eq!(of(9).unwrap().traffic.would_encrypt, amount(1, 128));
    assert_eq!(of(5000).unwrap().traffic.in_would_refuse, amount(1, 48));
}

#[test]
fn a_device_that_nobody_guards_carries_what_is_watched() {
    let mut world = World::new("watchedother");
    world.attach_with(|options| options.uplinks = Vec::new());
    world.load(&watched(), &[]);
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "sendto s 10.99.0.2:9 100"]);
    assert_eq!(world.wire_within(SOON / 10).len(), 1);
    assert_eq!(program.ask("sendto s 10.99.0.33:9 50"), "EPERM");
    let sums = world.sockmon().traffic().unwrap().remove(&STRICT).unwrap();
    assert_eq!((sums.would_refuse, sums.out_clear), (amount(1, 128), amount(1, 128)));
}
