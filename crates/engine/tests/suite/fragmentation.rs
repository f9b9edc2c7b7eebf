//! Tests of packets that do not fit the path and may be fragmented: before the tunnel or behind it, as the association
//! says.

use crate::support;

use crypto::SuiteId;
use engine::Outcome;
use proptest::prelude::*;
use sadb::sa::{DontFragment, Encapsulation, Fragmentation};
use sadb::{Mode, SaConfig};
use support::*;
use wire::ip::Headers;
use wire::{DropReason, Gso, GsoKind};

fn config(fragment: Fragmentation, path_mtu: u16, udp: bool) -> SaConfig {
    let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    config.path_mtu = path_mtu;
    config.options.headers.fragment = fragment;
    config.options.encapsulation = if udp { Encapsulation::Udp } else { Encapsulation::None };
    config
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_cut_before_fits_the_path_and_comes_out_whole(
        len in 0..9000_usize,
        path_mtu in prop::sample::select(&[576_u16, 1280, 1500][..]),
        udp in any::<bool>(),
        gathering in any::<bool>(),
    ) {
        let config = config(Fragmentation::Before, path_mtu, udp);
        let mut alice = Sender::new(mandatory(), std::slice::from_ref(&config));
        if gathering {
            alice.engine = alice.engine.gathering();
        }
        let mut bob = Receiver::new(std::slice::from_ref(&config));
        let (from, to) = hosts(false);
        let whole = udp_packet((from, 40000), (to, 53), 0, false, &vec![7; len]);
        let sent = alice.send(stamped(APP, &whole));
        prop_assert_eq!(sent.len() > 1, whole.len() > ipsec::inner_mtu(&config));
        let mut came = None;
        for outer in &sent {
            prop_assert!(outer.bytes().len() <= usize::from(path_mtu));
            match bob.handle(outer.bytes()) {
                Ok((packet, _)) => prop_assert!(came.replace(packet.bytes().to_vec()).is_none()),
                Err(dropped) => prop_assert_eq!(dropped.reason, DropReason::FragmentHeld),
            }
        }
        let came = came.expect("the last fragment completes it");
        // Its flags say nothing of what happened on the way; all else is as it was.
        prop_assert_eq!(&came[20..], &whole[20..]);
        prop_assert_eq!(Headers::parse(&came).unwrap().total_len, whole.len());
        prop_assert_eq!(alice.engine.sad().list().next().unwrap().1.counters.packets, sent.len() as u64);
    }
}

#[test]
fn behind_the_tunnel_it_is_one_packet() {
    let (from, to) = hosts(false);
    let whole = udp_packet((from, 40000), (to, 53), 0, false, &[7; 3000]);
    let mut alice = Sender::new(mandatory(), &[config(Fragmentation::After, 1500, false)]);
    let sent = alice.send(stamped(APP, &whole));
    assert_eq!(sent.len(), 1);
    assert!(sent[0].bytes().len() > 3000 && sent[0].meta.may_fragment);
    assert!(!Headers::parse(sent[0].bytes()).unwrap().dont_fragment);
}

#[test]
fn who_forbids_it_is_told() {
    let (from, to) = hosts(false);
    let whole = udp_packet((from, 40000), (to, 53), 0, true, &[7; 3000]);
    for fragment in [Fragmentation::Before, Fragmentation::After] {
        let mut alice = Sender::new(mandatory(), &[config(fragment, 1500, true)]);
        let outcomes = alice.handle(stamped(APP, &whole));
        assert!(matches!(outcomes[0], Outcome::Reply(..)), "{outcomes:?}");
    }
}

/// RFC 4301 section 8.1: no outer packet of such a tunnel may be fragmented, whatever the inner one may be.
#[test]
fn where_the_flag_is_always_set_super_packets_are_cut_or_refused() {
    let (from, to) = hosts(false);
    let mut config = config(Fragmentation::After, 1500, true);
    config.options.headers.df = DontFragment::Set;
    let flagged = |outer: &[u8]| Headers::parse(outer).unwrap().dont_fragment && outer.len() <= 1500;
    for gathering in [false, true] {
        let mut alice = Sender::new(mandatory(), std::slice::from_ref(&config));
        if gathering {
            alice.engine = alice.engine.gathering();
        }
        // A stream is cut to what fits.
        let (packet, _) = tcp_super(false, 7, 1448, 14480);
        let sent = alice.send(packet);
        assert!(sent.len() > 10, "{}", sent.len());
        assert!(sent.iter().all(|outer| flagged(outer.bytes()) && !outer.meta.may_fragment));
        // Datagrams in one are what they are: those that fit leave, longer ones nothing cuts.
        let datagrams = |size: u16| {
            let mut bytes = udp_packet((from, 40000), (to, 53), 0, false, &[7; 6000]);
            let gso = half_checksum(&mut bytes, 6);
            let mut packet = stamped(APP, &bytes);
            packet.meta.gso = Gso { kind: GsoKind::Udp, size, ..gso };
            packet
        };
        let sent = alice.send(datagrams(1200));
        assert_eq!(sent.len(), 5);
        assert!(sent.iter().all(|outer| flagged(outer.bytes()) && !outer.meta.may_fragment));
        let outcomes = alice.handle(datagrams(1480));
        assert!(
            matches!(outcomes.as_slice(), [Outcome::Reply(..), Outcome::Drop(d)] if d.reason == DropReason::TooBig),
            "{outcomes:?}"
        );
        // One datagram is cut in front of the tunnel.
        let sent = alice.send(stamped(APP, &udp_packet((from, 40000), (to, 53), 0, false, &[7; 3000])));
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|outer| flagged(outer.bytes()) && !outer.meta.may_fragment));
    }
}

/// Outer packets come here as fragments only where they are taken as frames; anybody on the way may send fragments too.
#[test]
fn outer_fragments_of_one_source_do_not_push_out_those_of_others() {
    let config = config(Fragmentation::After, 9000, true);
    let (mut alice, mut bob) = (
        Sender::new(mandatory(), std::slice::from_ref(&config)),
        Receiver::new(std::slice::from_ref(&config)),
    );
    let (from, to) = hosts(false);
    let whole = udp_packet((from, 40000), (to, 53), 0, false, &[7; 1000]);
    let sent = alice.send(stamped(APP, &whole));
    let [outer] = &sent[..] else { panic!("{} packets", sent.len()) };
    let honest = fragment(outer.bytes(), 1, 512);
    let (last, first) = honest.split_last().unwrap();
    for piece in first {
        assert_eq!(bob.refuse(piece), DropReason::FragmentHeld);
    }
    let mut forged = outer.bytes().to_vec();
    forged[12..16].copy_from_slice(&[203, 0, 113, 9]);
    for id in 0..300 {
        assert_eq!(bob.refuse(&fragment(&forged, id, 512)[0]), DropReason::FragmentHeld);
    }
    assert_eq!(bob.handle(last).expect("the rest of an honest packet").0.bytes(), whole);
}
