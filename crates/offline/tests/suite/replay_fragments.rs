//! The offline door and fragments: what waits gets its end, what is too long is cut, and nothing is sent the wrong way.

use crate::replay_kit;

use api::{ReplayDirection, ReplayLine, ReplayVerdict};
use documents::associations::{self, Defaults};
use offline::replay::{EngineOptions, Replay};
use replay_kit::{Line, cut, datagram, hosts, inner_hosts, registry, replay, same, step, step_at};
use sadb::sa::Padding;
use wire::stage::Selected;
use wire::{Buf, Meta, Packet, Pool};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

fn door(file: &str) -> Replay {
    replay(&EngineOptions::default(), file).unwrap()
}

fn tunnel(v6: bool) -> Line {
    let (ours, theirs) = inner_hosts(false);
    Line::new(v6, "tunnel", "aes128gcm", 20)
        .with("selector_local", ours.to_string())
        .with("selector_remote", theirs.to_string())
}

fn without_df(mut packet: Vec<u8>) -> Vec<u8> {
    packet[6] = 0;
    let mut view = wire::ipv4::Ipv4::new_checked(&mut packet[..]).unwrap();
    view.fill_checksum();
    packet
}

/// The engine may have one reason for what came too late and for what had no room, or two.
fn is_late(reason: Option<&str>) -> bool {
    matches!(reason, Some("fragment_timeout" | "fragment_limit"))
}

fn seconds(lines: &[ReplayLine]) -> Vec<(u64, Option<&str>)> {
    lines.iter().map(|line| (line.index, line.reason.as_deref())).collect()
}

#[test]
fn what_the_path_does_not_carry_leaves_in_fragments_and_comes_back_whole() {
    for v6 in [false, true] {
        for encapsulation in ["udp", "none"] {
            let line = tunnel(v6).with("path_mtu", 1400).with("encapsulation", encapsulation);
            let (mut alice, mut bob) = (door(&line.text("out")), door(&line.text("in")));
            let packet = without_df(datagram(inner_hosts(false), 443, &[0x77; 1472]));
            let (sealed, outer) = step(&mut alice, &packet);
            assert_eq!((sealed.verdict, outer.len()), (ReplayVerdict::Protect, 2), "{sealed:?}");
            assert!(outer.iter().all(|piece| piece.len() <= 1400));
            // Also when they change places: the first one to come has no ports.
            for order in [[0, 1], [1, 0]] {
                let mut bob = door(&line.text("in"));
                let (first, none) = step(&mut bob, &outer[order[0]]);
                assert_eq!((first.verdict, first.direction), (ReplayVerdict::Hold, ReplayDirection::Inbound));
                assert!(none.is_empty());
                let (second, inner) = step(&mut bob, &outer[order[1]]);
                assert_eq!(second.verdict, ReplayVerdict::Deliver, "{encapsulation} {order:?} {second:?}");
                assert_eq!(inner[0], packet);
                bob.finish();
                assert!(bob.take_ended().is_empty());
            }
            // One that must not be fragmented is answered.
            let whole = datagram(inner_hosts(false), 443, &[0x77; 1472]);
            let (refused, answer) = step(&mut alice, &whole);
            assert_eq!(refused.reason.as_deref(), Some("too_big"));
            assert_eq!((refused.verdict, answer[0][9]), (ReplayVerdict::Reply, 1));
            let (opened, _) = step(&mut bob, &outer[0]);
            assert_eq!(opened.verdict, ReplayVerdict::Hold);
        }
    }
}

#[test]
fn a_fragment_that_waited_in_vain_says_so() {
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let mut alice = door(&line.text("out"));
    let packet = datagram(hosts(false), 443, &[1; 1000]);
    let pieces = cut(&packet, 77, 600);
    assert_eq!(step_at(&mut alice, 100, &pieces[0]).0.verdict, ReplayVerdict::Hold);
    assert!(alice.take_ended().is_empty());
    // 59 seconds are not enough to give it up, 60 are.
    let other = datagram(inner_hosts(false), 443, b"x");
    step_at(&mut alice, 159, &other);
    assert!(alice.take_ended().is_empty());
    step_at(&mut alice, 160, &other);
    let ended = alice.take_ended();
    assert!(matches!(seconds(&ended)[..], [(1, reason)] if is_late(reason)), "{ended:?}");
    assert_eq!((ended[0].verdict, ended[0].time), (ReplayVerdict::Drop, 100.0));
    // At the end of the capture nothing comes any more.
    step_at(&mut alice, 170, &pieces[1]);
    alice.finish();
    assert!(matches!(seconds(&alice.take_ended())[..], [(1, reason)] if is_late(reason)));
    // What became whole has no second line.
    let mut alice = door(&line.text("out"));
    step(&mut alice, &pieces[1]);
    let (done, _) = step(&mut alice, &pieces[0]);
    assert_eq!(done.verdict, ReplayVerdict::Protect, "{done:?}");
    alice.finish();
    assert!(alice.take_ended().is_empty());
}

#[test]
fn fragments_that_contradict_each_other_end_together() {
    let mut alice = door(&Line::new(false, "transport", "aes128gcm", 20).text("out"));
    let pieces = cut(&datagram(hosts(false), 443, &[1; 1000]), 77, 600);
    let others = cut(&datagram(hosts(false), 443, &[2; 1000]), 77, 300);
    step(&mut alice, &pieces[0]);
    let (overlap, _) = step(&mut alice, &others[1]);
    assert!(matches!(overlap.reason.as_deref(), Some("fragment" | "fragment_overlap")), "{overlap:?}");
    assert_eq!(seconds(&alice.take_ended()), [(1, Some("fragment"))]);
}

#[test]
fn a_full_table_gives_up_the_oldest() {
    let mut alice = door(&Line::new(false, "transport", "aes128gcm", 20).text("out"));
    let packet = datagram(hosts(false), 443, &[1; 1000]);
    for id in 0..65 {
        step(&mut alice, &cut(&packet, id, 600)[0]);
    }
    assert_eq!(alice.take_ended().len(), 1);
    alice.finish();
    assert_eq!(alice.take_ended().len(), 64);
}

#[test]
fn fragments_inside_an_association_have_ends_too() {
    let line = tunnel(false);
    // Sealed as they are: an association that carries fragments, as other implementations send them.
    let packet = datagram(inner_hosts(false), 443, &[9; 1200]);
    let pieces = cut(&packet, 5, 700);
    let sealed = seal_each(&line, &pieces);
    let mut bob = door(&line.text("in"));
    let (held, _) = step(&mut bob, &sealed[0]);
    assert_eq!((held.verdict, held.reason.as_deref()), (ReplayVerdict::Hold, Some("fragment_held")));
    let (done, inner) = step(&mut bob, &sealed[1]);
    assert_eq!(done.verdict, ReplayVerdict::Deliver);
    assert!(same(&inner[0], &packet));
    bob.finish();
    assert!(bob.take_ended().is_empty());
    let mut bob = door(&line.text("in"));
    step_at(&mut bob, 10, &sealed[0]);
    bob.finish();
    assert!(matches!(seconds(&bob.take_ended())[..], [(1, reason)] if is_late(reason)));
}

/// Each piece in ESP by itself, as implementations send them that do not join what they protect.
fn seal_each(line: &Line, pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let request = serde_json::from_str(&line.text("out")).unwrap();
    let nobody = |_: &str| None;
    let defaults = Defaults {
        suites: &crypto::Suites::standard(),
        classes: &Default::default(),
        path_mtu: None,
        keepalive: 20,
        app: &nobody,
        random: 0,
        padding: Padding::Least,
    };
    let config = associations::configuration(request, sadb::Spi(0x1001), &defaults).unwrap();
    let mut sa = sadb::OutboundSa::new(config, registry()).unwrap();
    let mut pool = Pool::new(engine::BUF_CAPACITY, engine::HEADROOM, 4);
    let seal = |piece: &Vec<u8>| {
        let buf = Buf::from_slice(piece, engine::HEADROOM, engine::TAILROOM);
        let packet = Packet::from_host(buf, Meta::default()).advance::<Selected>(&Placed).advance(&Placed);
        match ipsec::encap(&mut sa, packet, &mut pool) {
            Ok(outer) => outer.bytes().to_vec(),
            other => panic!("{other:?}"),
        }
    };
    pieces.iter().map(seal).collect()
}
