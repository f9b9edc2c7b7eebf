//! Two engines back to back: what Alice's host hands over, Bob's host gets, whatever had to be cut on the way.

use crate::support;

use crypto::SuiteId;
use engine::Outcome;
use proptest::prelude::*;
use sadb::{Mode, SaConfig};
use std::collections::BTreeMap;
use support::*;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp};
use wire::udp::Udp;
use wire::{DropReason, Gso, GsoKind, Packet, checksum, icmp, record, stage};

fn configs() -> Vec<SaConfig> {
    let modes = MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]);
    modes.map(|(mode, v6)| outbound_config(mode, SuiteId::AES_128_GCM, v6)).collect()
}

fn pair_of(config: &SaConfig) -> (Sender, Receiver) {
    (Sender::new(mandatory(), std::slice::from_ref(config)), Receiver::new(std::slice::from_ref(config)))
}

const PROVEN: u32 = record::PROOF | record::AUTHENTICATED | record::ENCRYPTED;

#[test]
fn a_tcp_super_packet_arrives_as_the_same_stream() {
    for mut config in configs() {
        for path_mtu in [1280, 1500] {
            config.path_mtu = path_mtu;
            let v6 = config.endpoints.local.is_ipv6();
            // As large as the path wants, smaller, larger, and one segment only.
            for (size, len) in [(1400, 60_000), (536, 5000), (1448, 1448 * 3), (9000, 30_000), (1400, 100)] {
                let (mut alice, mut bob) = pair_of(&config);
                let (packet, payload) = tcp_super(v6, 1000, size, len);
                let outer = alice.send(packet);
                let mut stream = BTreeMap::new();
                for (index, packet) in outer.iter().enumerate() {
                    assert!(packet.bytes().len() <= usize::from(path_mtu));
                    assert_eq!(packet.meta.sequence, index as u64 + 1);
                    assert_eq!(packet.meta.app, APP);
                    let (inner, mark) = bob.handle(packet.bytes()).unwrap();
                    assert_eq!(mark, PROVEN);
                    let headers = Headers::parse(inner.bytes()).unwrap();
                    assert_eq!(checksum::verify_transport(inner.bytes(), &headers), Some(true));
                    let tcp = Tcp::new_checked(headers.upper(inner.bytes())).unwrap();
                    assert!(tcp.payload().len() <= usize::from(size));
                    let last = index + 1 == outer.len();
                    assert_eq!(tcp.flags().contains(Flags::FIN), last);
                    assert_eq!(tcp.flags().contains(Flags::CWR), index == 0);
                    stream.insert(tcp.seq(), tcp.payload().to_vec());
                }
                let joined: Vec<u8> = stream.into_values().flatten().collect();
                assert!(joined == payload, "{config:?} {size} {len}");
                assert_eq!(alice.engine.stats().protected.packets, bob.engine.stats().protected.packets);
            }
        }
    }
}

#[test]
fn a_run_of_datagrams_stays_a_run_of_the_same_datagrams() {
    for config in configs() {
        let v6 = config.endpoints.local.is_ipv6();
        let (from, to) = hosts(v6);
        let (mut alice, mut bob) = pair_of(&config);
        let payload: Vec<u8> = (0..5000).map(|i| i as u8).collect();
        let mut bytes = udp_packet((from, 40000), (to, 53), 0, true, &payload);
        let gso = half_checksum(&mut bytes, 6);
        let mut packet = stamped(APP, &bytes);
        packet.meta.gso = Gso { kind: GsoKind::Udp, size: 1200, ..gso };
        let got: Vec<_> = alice
            .send(packet)
            .iter()
            .map(|outer| {
                let (inner, _) = bob.handle(outer.bytes()).unwrap();
                let headers = Headers::parse(inner.bytes()).unwrap();
                assert_eq!(checksum::verify_transport(inner.bytes(), &headers), Some(true));
                Udp::new_checked(headers.upper(inner.bytes())).unwrap().payload().to_vec()
            })
            .collect();
        assert_eq!(got, payload.chunks(1200).map(<[u8]>::to_vec).collect::<Vec<_>>());

        // Datagrams that do not fit: their sender is told once, about the first.
        let mut packet = stamped(APP, &bytes);
        packet.meta.gso = Gso { kind: GsoKind::Udp, size: 1480, ..gso };
        let outcomes = alice.handle(packet);
        assert!(
            matches!(outcomes.as_slice(), [Outcome::Reply(..), Outcome::Drop(d)] if d.reason == DropReason::TooBig),
            "{outcomes:?}"
        );
    }
}

#[test]
fn a_half_done_checksum_is_completed() {
    for config in configs() {
        let (mut alice, mut bob) = pair_of(&config);
        let mut bytes = alice_to_bob(config.endpoints.local.is_ipv6(), 0, 333);
        let want = bytes.clone();
        let gso = half_checksum(&mut bytes, 6);
        let mut packet = stamped(APP, &bytes);
        packet.meta.gso = gso;
        let [outer] = &alice.send(packet)[..] else { panic!("one packet") };
        let (inner, _) = bob.handle(outer.bytes()).unwrap();
        let headers = Headers::parse(&want).unwrap();
        assert_eq!(inner.bytes()[headers.header_len..], want[headers.header_len..]);

        // A field outside the packet.
        let mut packet = stamped(APP, &bytes);
        packet.meta.gso = Gso { checksum_start: bytes.len() as u16 - 1, ..gso };
        assert_eq!(alice.refuse(packet).reason, DropReason::GsoInvalid);
    }
}

#[test]
fn fragments_are_joined_before_anything_looks_at_them() {
    for config in configs() {
        let v6 = config.endpoints.local.is_ipv6();
        let (from, to) = hosts(v6);
        let (mut alice, mut bob) = pair_of(&config);
        let payload: Vec<u8> = (0..4000).map(|i| (i * 3) as u8).collect();
        let whole = udp_packet((from, 40000), (to, 53), 0, false, &payload);
        let mut pieces = fragment(&whole, 99, 1200);
        pieces.swap(0, 2);
        let last = pieces.pop().unwrap();
        for piece in pieces {
            assert_eq!(alice.refuse(stamped(APP, &piece)).reason, DropReason::FragmentHeld);
        }
        // The outer packet is too long for the path, and may be fragmented.
        let [outer] = &alice.send(stamped(APP, &last))[..] else { panic!("one packet") };
        assert!(outer.meta.may_fragment && outer.bytes().len() > 4000);

        // The path does so.
        let mut pieces = fragment(outer.bytes(), 5, 1400);
        let last = pieces.pop().unwrap();
        for piece in pieces {
            assert_eq!(bob.refuse(&piece), DropReason::FragmentHeld);
        }
        let (inner, mark) = bob.handle(&last).unwrap();
        assert_eq!(mark, PROVEN);
        let headers = Headers::parse(inner.bytes()).unwrap();
        assert_eq!(headers.fragment, None);
        assert_eq!(checksum::verify_transport(inner.bytes(), &headers), Some(true));
        assert_eq!(Udp::new_checked(headers.upper(inner.bytes())).unwrap().payload(), payload);
    }
}

#[test]
fn fragments_of_two_applications_never_meet() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let (mut alice, _) = pair_of(&config);
    let (from, to) = hosts(false);
    let whole = udp_packet((from, 40000), (to, 53), 0, false, &[7; 2000]);
    let pieces = fragment(&whole, 99, 1200);
    assert_eq!(alice.refuse(stamped(APP, &pieces[0])).reason, DropReason::FragmentHeld);
    assert_eq!(alice.refuse(stamped(wire::AppId(8), &pieces[1])).reason, DropReason::FragmentHeld);
    assert_eq!(alice.refuse(from_host(&pieces[1])).reason, DropReason::Unstamped);
    // In time they are given up, and counted.
    alice.engine.expire(wire::Time::from_secs(200), &mut alice.pool, &mut Vec::new());
    assert_eq!(alice.engine.stats().drops_for(DropReason::FragmentTimeout), 2);
}

/// The MTU in an ICMP error, which must be to the packet's source and quote it. It is from an address of the host's own
/// in IPv6, and from the packet's destination in IPv4.
fn told_mtu(reply: &Packet<stage::Admitted>, about: &[u8]) -> usize {
    let headers = Headers::parse(reply.bytes()).unwrap();
    let original = Headers::parse(about).unwrap();
    let from = if headers.version == 4 { original.dst } else { original.src };
    assert_eq!((headers.src, headers.dst), (from, original.src));
    assert_eq!(checksum::verify_transport(reply.bytes(), &headers), Some(true));
    let message = headers.upper(reply.bytes());
    if headers.version == 4 {
        let message = icmp::Icmpv4::new_checked(message).unwrap();
        assert!(about.starts_with(message.payload()));
        message.mtu().unwrap()
    } else {
        let message = icmp::Icmpv6::new_checked(message).unwrap();
        assert!(about.starts_with(message.payload()));
        message.mtu().unwrap()
    }
}

#[test]
fn a_packet_too_big_is_answered_and_one_of_the_size_it_was_told_passes() {
    for config in configs() {
        let v6 = config.endpoints.local.is_ipv6();
        let (mut alice, mut bob) = pair_of(&config);
        let mtu = ipsec::inner_mtu(&config);
        let header = alice_to_bob(v6, 0, 0).len();
        let big = alice_to_bob(v6, 0, mtu - header + 1);
        let outcomes = alice.handle(stamped(APP, &big));
        let [Outcome::Reply(reply, mark), Outcome::Drop(dropped)] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert_eq!(
            (*mark, dropped.reason, dropped.app),
            (PROVEN | record::STAMPED | u32::from(APP.0), DropReason::TooBig, APP)
        );
        assert_eq!(told_mtu(reply, &big), mtu);
        let [outer] = &alice.send(stamped(APP, &alice_to_bob(v6, 0, mtu - header)))[..] else {
            panic!("one")
        };
        assert!(outer.bytes().len() <= 1500 && !outer.meta.may_fragment);
        assert!(bob.handle(outer.bytes()).is_ok());
    }
}

#[test]
fn an_ipv6_packet_of_the_least_mtu_is_carried_over_any_path() {
    let (alice_addr, bob_addr) = hosts(true);
    let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, true);
    config.path_mtu = 1280;
    let (mut alice, mut bob) = pair_of(&config);
    let packet = udp_packet((alice_addr, 1), (bob_addr, 2), 0, true, &[1; 1280 - 48]);
    let [outer] = &alice.send(stamped(APP, &packet))[..] else { panic!("one packet") };
    assert!(outer.meta.may_fragment && outer.bytes().len() > 1280);
    assert_eq!(bob.handle(outer.bytes()).unwrap().0.bytes(), packet);
    let packet = udp_packet((alice_addr, 1), (bob_addr, 2), 0, true, &[1; 1281 - 48]);
    let outcomes = alice.handle(stamped(APP, &packet));
    let [Outcome::Reply(reply, _), Outcome::Drop(_)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(told_mtu(reply, &packet), 1280);
}

#[test]
fn what_may_be_fragmented_is_not_answered() {
    let config = outbound_config(Mode::Tunnel, SuiteId::CHACHA20_POLY1305, false);
    let (mut alice, mut bob) = pair_of(&config);
    let (from, to) = hosts(false);
    let packet = udp_packet((from, 1), (to, 2), 0, false, &[1; 3000]);
    let [outer] = &alice.send(stamped(APP, &packet))[..] else { panic!("one packet") };
    assert!(outer.meta.may_fragment);
    assert_eq!(bob.handle(outer.bytes()).unwrap().0.bytes(), packet);
    // Up to what a datagram can hold.
    let packet = udp_packet((from, 1), (to, 2), 0, false, &[1; 65535 - 28]);
    assert_eq!(alice.refuse(stamped(APP, &packet)).reason, DropReason::TooLong);
}

#[test]
fn octets_behind_the_packet_are_not_sent() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let (mut alice, mut bob) = pair_of(&config);
    let packet = alice_to_bob(false, 0, 40);
    let trailing = [&packet[..], b"secret of another packet"].concat();
    let [outer] = &alice.send(stamped(APP, &trailing))[..] else { panic!("one packet") };
    let padded = [outer.bytes(), &[0; 9]].concat();
    assert_eq!(bob.handle(&padded).unwrap().0.bytes(), packet);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A network that loses, repeats and reorders within the window: everything that arrives is delivered exactly once.
    #[test]
    fn loss_repetition_and_order(
        order in prop::collection::vec(0usize..64, 1..300),
        tunnel: bool,
        v6: bool,
    ) {
        let mode = if tunnel { Mode::Tunnel } else { Mode::Transport };
        let (mut alice, mut bob) = pair_of(&outbound_config(mode, SuiteId::AES_128_GCM, v6));
        let sent: Vec<_> = (0..64)
            .map(|n| alice.send(stamped(APP, &alice_to_bob(v6, 0, n))).remove(0).bytes().to_vec())
            .collect();
        let mut seen = [false; 64];
        for index in order {
            match bob.handle(&sent[index]) {
                Ok((inner, _)) => {
                    prop_assert!(!seen[index]);
                    prop_assert_eq!(inner.bytes().len(), alice_to_bob(v6, 0, index).len());
                    seen[index] = true;
                }
                Err(dropped) => {
                    prop_assert_eq!(dropped.reason, DropReason::Replayed);
                    prop_assert_eq!((dropped.spi, dropped.sequence), (SPI, index as u64 + 1));
                    prop_assert!(seen[index]);
                }
            }
        }
    }

    /// A flipped bit behind the outer IP header: never delivered, whatever it makes of the packet.
    #[test]
    fn nothing_forged_is_delivered(bit in any::<prop::sample::Index>(), tunnel: bool, v6: bool) {
        let mode = if tunnel { Mode::Tunnel } else { Mode::Transport };
        let (mut alice, mut bob) = pair_of(&outbound_config(mode, SuiteId::AES_256_GCM, v6));
        let mut outer = alice.send(stamped(APP, &alice_to_bob(v6, 0, 80))).remove(0).bytes().to_vec();
        let esp = Headers::parse(&outer).unwrap().header_len + 8;
        let bit = esp * 8 + bit.index((outer.len() - esp) * 8);
        outer[bit / 8] ^= 1 << (bit % 8);
        let reason = bob.refuse(&outer);
        let allowed = match bit / 8 - esp {
            0..4 => DropReason::UnknownSpi,
            // The first packet's number is one: a flip can make it zero.
            4..8 if outer[esp + 4..esp + 8] == [0; 4] => DropReason::SequenceZero,
            _ => DropReason::AuthFailed,
        };
        prop_assert_eq!(reason, allowed);
    }

    /// Any bytes at all, on both sides: outcomes, no panic, no packet.
    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..120), mark: u32, kind in 0u8..3, size: u16, start: u16, offset: u16) {
        let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
        let (mut alice, mut bob) = pair_of(&config);
        prop_assert!(bob.handle(&bytes).is_err());
        let mut packet = stamped(APP, &bytes);
        packet.meta.mark = mark;
        packet.meta.gso = Gso {
            kind: [GsoKind::None, GsoKind::Tcp, GsoKind::Udp][usize::from(kind)],
            needs_checksum: size % 2 == 0,
            size,
            checksum_start: start % 128,
            checksum_offset: offset % 32,
        };
        alice.handle(packet);
    }
}
