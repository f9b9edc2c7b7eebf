//! Gateway mode between two daemons: what passes without the engine never grows, and what both let pass does not pause. Needs
//! root.

use crate::common;

use common::*;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sadb::Selectors;
use sockmon::{Span, abi};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::{Prefix, addr};

fn table(world: &World) -> MapHandle {
    MapHandle::from_pinned_path(format!("/sys/fs/bpf/ravelin/{}/spans", world.name)).unwrap()
}

/// The first number that the kernel half looks up for a peer; `None`: nothing covers it.
fn ways(table: &MapHandle, peer: IpAddr) -> Option<u32> {
    let mut key = 128u32.to_ne_bytes().to_vec();
    key.extend(addr::to_bits(peer).to_be_bytes());
    let value = table.lookup(&key, MapFlags::ANY).unwrap()?;
    Some(u32::from_ne_bytes(value[..4].try_into().unwrap()))
}

fn span(peers: &str, len: u8, bypass: bool) -> Span {
    let peers = Prefix::new(peers.parse().unwrap(), len).unwrap();
    Span { peers, bypass_out: bypass, bypass_in: bypass }
}

/// The world bypassed, and many protected networks.
fn spans() -> Vec<Span> {
    let networks = (0..4000u32).map(|n| span(&format!("10.{}.{}.0", n / 250, n % 250), 24, false));
    [Span { peers: Prefix::ANY, bypass_out: true, bypass_in: true }].into_iter().chain(networks).collect()
}

fn gateway(name: &str) -> World {
    let mut world = World::new(name);
    let inside = world.tun_ifindex;
    world.attach_with(move |options| options.insides = vec![inside]);
    world.monitor(|monitor| {
        monitor.narrow_spans(&spans()).unwrap();
        monitor.set_spans(&spans()).unwrap();
    });
    world
}

#[test]
fn a_start_without_rules_opens_no_protected_network_on_its_way() {
    let mut world = gateway("gwstart");
    let (outside, protected): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [10, 7, 7, 7].into());
    let spans = table(&world);
    assert_eq!((ways(&spans, outside), ways(&spans, protected)), (Some(3), Some(0)));
    drop(world.sockmon.take());
    let stop = Arc::new(AtomicBool::new(false));
    let watch = std::thread::spawn({
        let (stop, spans) = (stop.clone(), table(&world));
        move || {
            let mut looks = 0u64;
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(ways(&spans, protected).unwrap_or(0), 0, "after {looks} looks");
                looks += 1;
            }
            looks
        }
    });
    let inside = world.tun_ifindex;
    world.attach_with(move |options| options.insides = vec![inside]);
    stop.store(true, Ordering::Relaxed);
    assert!(watch.join().unwrap() > 100);
    assert_eq!(spans.keys().count(), 0);
}

#[test]
fn a_start_with_rules_goes_on_with_what_both_let_pass() {
    let mut world = gateway("gwtake");
    let (outside, other): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
    let table = table(&world);
    drop(world.sockmon.take());
    let stop = Arc::new(AtomicBool::new(false));
    let watch = std::thread::spawn({
        let stop = stop.clone();
        let table = MapHandle::try_from(&table).unwrap();
        move || {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(ways(&table, outside), Some(3));
            }
        }
    });
    let inside = world.tun_ifindex;
    let now = [spans(), vec![span("198.51.100.0", 24, false)]].concat();
    let first = now.clone();
    world.attach_with(move |options| (options.insides, options.spans) = (vec![inside], first));
    assert_eq!(ways(&table, other), Some(0), "narrowed before anything else happens");
    world.monitor(move |monitor| {
        monitor.narrow_spans(&now).unwrap();
        monitor.set_spans(&now).unwrap();
    });
    stop.store(true, Ordering::Relaxed);
    watch.join().unwrap();
    assert_eq!(table.keys().count(), 4002);
}

#[test]
fn every_peer_that_may_have_an_association_is_known_and_stale_ones_go() {
    let mut world = World::new("live");
    world.attach();
    let peer = |n: u32| {
        let remote = Prefix::host(IpAddr::from((0x0a00_0000 + n).to_be_bytes()));
        Selectors { remote, ..Selectors::ANY }
    };
    let table = MapHandle::from_pinned_path(format!("/sys/fs/bpf/ravelin/{}/live_sa", world.name)).unwrap();
    let many: Vec<Selectors> = (0..20_000).map(peer).collect();
    world.sockmon().set_live_sas(&many).unwrap();
    assert_eq!(table.keys().count(), 20_000);
    world.sockmon().set_live_sas(&many[..3]).unwrap();
    world.sockmon().add_live_sa(&peer(77)).unwrap();
    world.sockmon().remove_live_sa(&peer(0)).unwrap();
    world.sockmon().remove_live_sa(&peer(99)).unwrap();
    assert_eq!(table.keys().count(), 3);
    let count = |peer: [u8; 4]| ways(&table, peer.into());
    assert_eq!((count([10, 0, 0, 77]), count([10, 0, 0, 0])), (Some(abi::LIVE_ALL), None));
    // More than there is room for: those that are no peers any more go all the same.
    let too_many: Vec<Selectors> = (100..140_000).map(peer).collect();
    assert!(world.sockmon().set_live_sas(&too_many).is_err());
    assert_eq!(count([10, 0, 0, 77]), None);

    // One more that finds no room does not count as known: when there is room, it is written.
    let late = peer(200_000);
    let at: IpAddr = (0x0a00_0000 + 200_000u32).to_be_bytes().into();
    assert!(world.sockmon().add_live_sa(&late).is_err());
    let gone: Vec<Vec<u8>> = table.keys().take(10).collect();
    gone.iter().for_each(|key| table.delete(key).unwrap());
    world.sockmon().add_live_sa(&late).unwrap();
    assert_eq!(ways(&table, at), Some(abi::LIVE_ALL));
}
