//! What an item says beyond ports and two levels: the protocol, `accept-only` and `never`, as the kernel decides. Needs root.

use crate::common;

use common::packets::*;
use common::*;
use sadb::spd::{AppPolicy, Class, Item, Level, PortRange, Spd};
use wire::Services;

const PROOF: u32 = 0x8000_0000;
const AUTHENTICATED: u32 = 0x0100_0000;
const FULL: u32 = PROOF | AUTHENTICATED | 0x0200_0000;

/// UDP port 7001 never, 7002 accept-only, 7003 optional; all of TCP mandatory; ICMP never; nothing else.
fn table() -> Spd {
    let any = PortRange::ANY;
    let of = |protocol, item| Item { protocol: Some(protocol), ..item };
    let udp = |port, services, level| of(17, item(PortRange::one(port), any, services, level));
    let items = vec![
        udp(7001, Services::NONE, Level::AcceptOnly),
        udp(7002, Services::ENCRYPTED, Level::AcceptOnly),
        udp(7003, Services::ENCRYPTED, Level::Optional),
        of(6, everything(Level::Mandatory)),
        // The number of the other family's ICMP means both.
        of(58, item(any, any, Services::NONE, Level::AcceptOnly)),
    ];
    let networks =
        vec![network("10.99.0.0/24", Class::Protected(0)), network("fd99::/64", Class::Protected(0))];
    let mut spd = Spd::new(1);
    spd.insert(STRICT, AppPolicy::new(networks, vec![items]));
    spd
}

fn world(name: &str) -> World {
    let mut world = World::new(name);
    world.attach();
    world.load(&table(), &[]);
    world
}

/// How a packet arrives: in clear by the wire (`None`), or through the TUN with this mark.
type By = Option<u32>;

#[test]
fn what_arrives_is_judged_by_protocol_and_level() {
    let mut world = world("items-in");
    let mut program = world.start("strict");
    for port in 7001..=7004 {
        program.run(&[&format!("open p{port} udp4"), &format!("bind p{port} 10.99.0.1:{port}")]);
    }
    let clear: By = None;
    let mut check = |world: &mut World, port: u16, by: By, refused: Option<&str>| {
        let case = format!("port {port} by {by:x?}");
        let before = refused.map(|counter| world.counter(counter));
        let packet = udp((BOB, 5000), (ALICE, port), b"payload");
        match by {
            None => world.bob_sends(&packet),
            Some(mark) => world.inject(mark, &packet),
        }
        match refused {
            None => assert_eq!(program.ask(&format!("recv p{port} 5000")), "7", "{case}"),
            Some(counter) => {
                assert_eq!(program.ask(&format!("recv p{port} 40")), "ETIMEDOUT", "{case}");
                assert_eq!(world.counter(counter), before.unwrap() + 1, "{case}: {counter}");
            }
        }
    };
    for (port, by, refused) in [
        (7001, clear, None),
        // Never protected by us; what the peer protects is taken all the same.
        (7001, Some(FULL), None),
        (7001, Some(PROOF | AUTHENTICATED), None),
        (7002, clear, None),
        (7002, Some(FULL), None),
        (7002, Some(PROOF | AUTHENTICATED), Some("ingress_services")),
        (7003, clear, None),
        // The item for every port is one of TCP.
        (7004, clear, Some("ingress_no_item")),
        (7004, Some(FULL), Some("ingress_no_item")),
    ] {
        check(&mut world, port, by, refused);
    }
    // Accept-only is sticky as optional is; never is not.
    world.sockmon().set_live_sas(&[serving("10.99.0.2/32")]).unwrap();
    for (port, by, refused) in [
        (7001, clear, None),
        (7002, clear, Some("ingress_sticky")),
        (7002, Some(FULL), None),
        (7003, clear, Some("ingress_sticky")),
    ] {
        check(&mut world, port, by, refused);
    }
}

#[test]
fn what_no_item_of_its_protocol_covers_is_refused_at_the_call() {
    let mut world = world("items-out");
    let mut program = world.start("strict");
    program.run(&["open u udp4", "bind u 10.99.0.1:7004"]);
    assert_eq!(program.ask("sendto u 10.99.0.2:53 40"), "EPERM");
    assert_eq!(world.counter("sendmsg_no_item"), 1);
    // Not bound yet: it may still come to be one of those.
    program.run(&["open v udp4", "connect v 10.99.0.2:53"]);
    program.run(&["open t tcp4"]);
    assert_eq!(program.ask("connect t 10.99.0.2:53"), "EINPROGRESS");
    let syn = world.seen_within(SOON).expect("a SYN on the TUN");
    assert_eq!((syn.mark, transport(&syn.packet).0), (stamp(STRICT), 6));
    world.drain();
    program.run(&["open i icmp4", "sendto i 10.99.0.2:0 40 echo"]);
    let echo = world.seen_within(SOON).expect("the engine has the last word on what is never protected");
    assert_eq!((echo.mark, transport(&echo.packet).0), (stamp(STRICT), 1));
}
