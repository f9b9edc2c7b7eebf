//! Tests of "packet too big": from an address of this host's own, about packets to groups as well, and no more often
//! than RFC 4443 section 2.4 f lets it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use crate::support;

use crypto::SuiteId;
use engine::Outcome;
use sadb::rules::{Action, Direction, Place, Protection, Rule, RuleKey, RuleTable, Template};
use sadb::spd::{Level, Spd};
use sadb::{Mode, SaConfig};
use support::*;
use wire::ip::Headers;
use wire::{DropReason, Packet, Services, Time, record, stage};

/// A length in octets that is more than every path here takes.
const LONG: usize = 1480;

fn tunnel(v6: bool) -> SaConfig {
    outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, v6)
}

/// The source and destination of the answer to a packet that does not fit, if there is one.
fn answer(alice: &mut Sender, now: Time, packet: Packet<stage::Inner>) -> Option<(IpAddr, IpAddr)> {
    let mut out = alice.handle_at(now, packet);
    let Some(Outcome::Drop(dropped)) = out.pop() else { panic!("not dropped: {out:?}") };
    assert_eq!(dropped.reason, DropReason::TooBig);
    let answer = out.pop()?;
    assert!(out.is_empty());
    let Outcome::Reply(error, _) = answer else { panic!("{answer:?}") };
    let headers = Headers::parse(error.bytes()).unwrap();
    assert_eq!(wire::checksum::verify_transport(error.bytes(), &headers), Some(true));
    Some((headers.src, headers.dst))
}

fn to(src: IpAddr, dst: IpAddr) -> Vec<u8> {
    udp_packet((src, 40_000), (dst, 53), 0, true, &[7; LONG])
}

/// The inside interface of a gateway with the address; the next one, 8, has none.
const INSIDE: u64 = 7;
const BARE: u64 = 8;

fn gateway() -> Sender {
    let mut gateway = Sender::new(Spd::new(1), &[tunnel(true)]);
    let protect = Action::Protect(Protection {
        bundle: vec![Template::ANY],
        services: Services::ENCRYPTED,
        level: Level::Mandatory,
        suite: None,
    });
    let mut table: RuleTable = RuleTable::new(0);
    table.add(Place::Last, Rule::new(RuleKey(1), Direction::Both, "any".parse().unwrap(), protect)).unwrap();
    gateway.engine.set_rules(Some(table.snapshot()));
    let own: Ipv6Addr = "2001:db8:1::1".parse().unwrap();
    gateway.engine.set_own_addresses(BTreeMap::from([(INSIDE as u32, own)]));
    gateway
}

fn forwarded(from: u64, bytes: &[u8]) -> Packet<stage::Inner> {
    let mut packet = from_host(bytes);
    (packet.meta.mark, packet.meta.cookie) = (record::FORWARDED, from);
    packet
}

#[test]
fn it_comes_from_an_address_of_this_host() {
    let (alice, bob) = hosts(true);
    let mut sender = Sender::new(mandatory(), &[tunnel(true)]);
    assert_eq!(answer(&mut sender, NOW, stamped(APP, &to(alice, bob))), Some((alice, alice)));
    // Of the interface that a forwarded packet came by.
    let (behind, own) = (ip("2001:db8:1::5"), ip("2001:db8:1::1"));
    let mut gateway = gateway();
    assert_eq!(answer(&mut gateway, NOW, forwarded(INSIDE, &to(behind, bob))), Some((own, behind)));
    // One without an address: better from the destination than not at all.
    assert_eq!(answer(&mut gateway, NOW, forwarded(BARE, &to(behind, bob))), Some((bob, behind)));
    // IPv4: Linux takes no packet from a device that bears an address of its own.
    let (alice, bob) = hosts(false);
    let mut sender = Sender::new(mandatory(), &[tunnel(false)]);
    assert_eq!(answer(&mut sender, NOW, stamped(APP, &to(alice, bob))), Some((bob, alice)));
}

/// RFC 4443 section 3.2 excepts "packet too big" from section 2.4 e; RFC 1122 section 3.2.2 excepts nothing.
#[test]
fn a_sender_to_a_group_is_told() {
    let group = ip("ff0e::1234");
    let alice = hosts(true).0;
    let mut sender = Sender::new(mandatory(), &[tunnel(true)]);
    assert_eq!(answer(&mut sender, NOW, stamped(APP, &to(alice, group))), Some((alice, alice)));
    let (behind, own) = (ip("2001:db8:1::5"), ip("2001:db8:1::1"));
    let mut gateway = gateway();
    assert_eq!(answer(&mut gateway, NOW, forwarded(INSIDE, &to(behind, group))), Some((own, behind)));
    // Never from a group.
    assert_eq!(answer(&mut gateway, NOW, forwarded(BARE, &to(behind, group))), None);
    let alice = hosts(false).0;
    let mut sender = Sender::new(mandatory(), &[tunnel(false)]);
    assert_eq!(answer(&mut sender, NOW, stamped(APP, &to(alice, ip("239.1.2.3")))), None);
}

#[test]
fn it_is_told_so_often_and_no_more() {
    for v6 in [false, true] {
        let (alice, bob) = hosts(v6);
        let mut sender = Sender::new(mandatory(), &[tunnel(v6)]);
        let mut told = |milliseconds: u64, dst: IpAddr, times: usize| {
            let now = Time(NOW.0 + milliseconds * 1_000_000);
            (0..times).filter(|_| answer(&mut sender, now, stamped(APP, &to(alice, dst))).is_some()).count()
        };
        // Ten at once about one destination, then one in a tenth of a second.
        assert_eq!(told(0, bob, 1000), 10);
        assert_eq!(told(99, bob, 10), 0);
        assert_eq!(told(100, bob, 10), 1);
        assert_eq!(told(10_000, bob, 1000), 10);
        // About many destinations: fifty at once, a thousand in a second.
        let other =
            |n: u16| if v6 { ip(&format!("2001:db8:5::{n:x}")) } else { ip(&format!("198.51.100.{n}")) };
        assert_eq!((0..250).map(|n| told(20_000, other(n), 2)).sum::<usize>(), 50);
        assert_eq!(told(20_001, bob, 2), 1);
    }
}
