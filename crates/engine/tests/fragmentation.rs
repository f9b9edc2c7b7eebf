//! Packets that do not fit the path and may be fragmented: before the tunnel or behind it, as the association says.

mod support;

use crypto::SuiteId;
use proptest::prelude::*;
use sadb::sa::{Encapsulation, Fragmentation};
use sadb::{Mode, SaConfig};
use support::*;
use wire::DropReason;
use wire::ip::Headers;

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
        assert!(matches!(outcomes[0], engine::Outcome::Reply(..)), "{outcomes:?}");
    }
}
