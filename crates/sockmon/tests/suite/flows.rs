//! The kernel half's table of flows, against what was on the wire. Needs root.

use crate::common;

use common::*;
use sockmon::{Amount, AppTraffic, CountedFlow, FlowCounting, FlowInitiator};
use wire::AppId;

fn world(name: &str, counted: FlowCounting) -> World {
    let mut world = World::new(name);
    world.attach_with(|options| options.flows = counted);
    world.load(&usual(), &usual_orders());
    world
}

/// The flow with this peer and port, as people write it.
fn flow(world: &mut World, app: AppId, remote: &str) -> Option<CountedFlow> {
    let all = world.sockmon().flows().unwrap();
    all.into_iter().find(|flow| {
        let f = flow.id.flow();
        flow.id.app() == app && std::net::SocketAddr::new(f.remote, f.remote_port).to_string() == remote
    })
}

fn amount(packets: u64, octets: u64) -> Amount {
    Amount { packets, octets }
}

#[test]
fn each_flow_is_counted_as_it_is_on_the_wire() {
    let mut world = world("flowsums", FlowCounting::Applications);
    world.wire();
    let mut program = world.start("weak");
    program.run(&["open s udp4", "open t udp6", "open u udp4", "segment u 1000"]);
    program.run(&["sendto s 10.99.0.2:9 100", "sendto s 10.99.0.2:9 200", "sendto s 10.99.0.2:10 50"]);
    program.run(&["sendto t [fd99::2]:9 7", "sendto u 10.99.0.2:11 5000"]);
    let wire = world.wire_within(SOON / 10);
    assert_eq!(wire.len(), 5);
    for (peer, want) in [
        ("10.99.0.2:9", amount(2, 100 + 200 + 2 * 28)),
        ("10.99.0.2:10", amount(1, 78)),
        ("[fd99::2]:9", amount(1, 7 + 48)),
        ("10.99.0.2:11", amount(5, 5000 + 5 * 28)),
    ] {
        let seen = flow(&mut world, WEAK, peer).unwrap_or_else(|| panic!("{peer}"));
        assert_eq!(seen.traffic, AppTraffic { out_clear: want, ..AppTraffic::default() }, "{peer}");
        assert_eq!(seen.begun, Some(FlowInitiator::Here));
        let sender = seen.sender.expect("seen sending");
        assert_eq!((sender.pid, sender.comm.as_str()), (program.pid(), "weak"));
        assert!(seen.first <= seen.last && seen.first.0 > 0);
    }
    // The sums of the application are those of its flows.
    let flows = world.sockmon().flows().unwrap();
    let sum = flows.iter().fold(Amount::default(), |sum, flow| sum.and(flow.traffic.out_clear));
    assert_eq!(world.sockmon().traffic().unwrap()[&WEAK].out_clear, sum);
    // What is taken out is there no more, and what comes then begins anew.
    let id = flow(&mut world, WEAK, "10.99.0.2:10").unwrap().id;
    assert_eq!(world.sockmon().take_flow(&id).unwrap().unwrap().traffic.out_clear, amount(1, 78));
    assert_eq!(world.sockmon().take_flow(&id).unwrap(), None);
    program.run(&["sendto s 10.99.0.2:10 50"]);
    assert_eq!(flow(&mut world, WEAK, "10.99.0.2:10").unwrap().traffic.out_clear, amount(1, 78));
}

#[test]
fn what_is_handed_over_or_refused_is_told_apart() {
    let mut world = world("flowkinds", FlowCounting::Applications);
    let mut program = world.start("strict");
    program.run(&["open s udp4", "bind s 10.99.0.1:7001", "sendto s 10.99.0.2:9 100"]);
    assert_eq!(world.drain().len(), 1);
    assert_eq!(program.ask("sendto s 10.99.0.65:9 5"), "EPERM");
    assert_eq!(program.ask("sendto s 10.99.0.65:9 5"), "EPERM");
    let mut bob = world.start_in_bob("unnamed");
    bob.run(&["open s udp4", "bind s 10.99.0.2:5000", "sendto s 10.99.0.1:7001 20"]);
    let want = AppTraffic { out_encrypted: amount(1, 128), ..AppTraffic::default() };
    assert_eq!(flow(&mut world, STRICT, "10.99.0.2:9").unwrap().traffic, want);
    let want = AppTraffic { out_refused: amount(2, 0), ..AppTraffic::default() };
    let refused = flow(&mut world, STRICT, "10.99.0.65:9").unwrap();
    assert_eq!((refused.traffic, refused.id.flow().local.to_string()), (want, "0.0.0.0".to_owned()));
    let want = AppTraffic { in_refused: amount(1, 48), ..AppTraffic::default() };
    let arrived = flow(&mut world, STRICT, "10.99.0.2:5000").unwrap();
    assert_eq!((arrived.traffic, arrived.begun), (want, Some(FlowInitiator::There)));
    // Nobody asked for those of programs without policy.
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "sendto s 10.99.0.2:99 100"]);
    assert_eq!(flow(&mut world, AppId::NONE, "10.99.0.2:99"), None);
}

#[test]
fn programs_without_policy_are_counted_if_that_is_asked_for() {
    let mut world = world("flowsall", FlowCounting::Everything);
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "bind s 10.99.0.1:7002", "sendto s 10.99.0.2:99 100"]);
    let mut bob = world.start_in_bob("unnamed");
    bob.run(&["open s udp4", "bind s 10.99.0.2:99", "sendto s 10.99.0.1:7002 20"]);
    let seen = flow(&mut world, AppId::NONE, "10.99.0.2:99").unwrap();
    let want = AppTraffic { out_clear: amount(1, 128), in_clear: amount(1, 48), ..AppTraffic::default() };
    assert_eq!((seen.traffic, seen.begun), (want, Some(FlowInitiator::Here)));
    assert_eq!(seen.sender.unwrap().comm, "unnamed");
    // The sums of applications know nothing of it.
    assert!(world.sockmon().traffic().unwrap().is_empty());
    // The daemon's own packets are nobody's flows.
    let mut own = world.start_in("daemon-own", "daemon");
    own.run(&["open s udp4", "sendto s 10.99.0.2:98 100"]);
    assert_eq!(flow(&mut world, AppId::NONE, "10.99.0.2:98"), None);
}

#[test]
fn what_finds_no_room_is_counted_and_decided_all_the_same() {
    let mut world = world("flowsfull", FlowCounting::Applications);
    let room = world.sockmon().flow_capacity().unwrap();
    let mut program = world.start("weak");
    program.run(&["open s udp4"]);
    assert_eq!(program.ask(&format!("sweep s 10.99.0.2 1 {}", u16::MAX)), "ok");
    assert_eq!(program.ask("sweep s 10.99.0.33 1 3000"), "ok");
    let flows = world.sockmon().flows().unwrap();
    assert_eq!(flows.len(), room);
    assert_eq!(world.counter("flows_lost"), u64::from(u16::MAX) + 3000 - room as u64);
    // Verdicts do not rest on it.
    let mut strict = world.start("strict");
    strict.run(&["open s udp4", "sendto s 10.99.0.2:9 100"]);
    assert_eq!(strict.ask("sendto s 10.99.0.65:9 5"), "EPERM");
    assert_eq!(world.drain().len(), 1);
    assert_eq!(world.sockmon().traffic().unwrap()[&STRICT].out_encrypted, amount(1, 128));
    // Whoever takes ended flows out makes room.
    for flow in &flows[..10] {
        assert!(world.sockmon().take_flow(&flow.id).unwrap().is_some());
    }
    strict.run(&["sendto s 10.99.0.2:9 100"]);
    assert!(flow(&mut world, STRICT, "10.99.0.2:9").is_some());
}
