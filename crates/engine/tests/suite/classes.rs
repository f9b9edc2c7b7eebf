//! Inbound associations with one SPI (RFC 4301 section 4.1): the packet's addresses say which is meant, singly and in
//! bursts.

use crate::support;

use std::net::{IpAddr, Ipv4Addr};

use crypto::SuiteId;
use engine::Delivery;
use sadb::sa::KeyClass;
use sadb::{Mode, OutboundSa, SaConfig, Selectors};
use support::*;
use wire::esp;
use wire::ip::Headers;
use wire::{Burst, DropReason, OuterHeader, Prefix, Time};

fn config(class: KeyClass, source: IpAddr, destination: IpAddr, key: u8) -> SaConfig {
    let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    config.keymat = keymat(SuiteId::AES_128_GCM, key);
    config.selectors = Selectors::ANY;
    (config.endpoints.local, config.endpoints.remote) = (source, destination);
    config.options.class = class;
    config
}

/// The sending half of an association. A configuration for one host stands for the one for a group: the addresses of
/// the outer header are not authenticated, so they are written afterwards.
fn sender(config: &SaConfig) -> OutboundSa {
    let mut config = config.clone();
    config.endpoints.remote = hosts(false).1;
    pair(&config).0
}

fn seal(alice: &mut OutboundSa, config: &SaConfig, len: usize) -> Vec<u8> {
    let packet = scheduled_out(&alice_to_bob(false, 0, len));
    let outer = ipsec::encap(alice, packet, &mut pool()).unwrap();
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (config.endpoints.local, config.endpoints.remote)
    else {
        panic!("IPv4")
    };
    addressed(outer.bytes(), source, destination)
}

/// The packet between other addresses, with a right header checksum.
fn addressed(packet: &[u8], source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&destination.octets());
    wire::ipv4::Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
    packet
}

#[test]
fn the_addresses_say_which_association_is_meant() {
    let (alice, bob) = hosts(false);
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let speaker = Ipv4Addr::new(198, 51, 100, 7);
    let configs = [
        config(KeyClass::Spi, alice, bob, 1),
        config(KeyClass::SpiDestination, alice, group.into(), 2),
        config(KeyClass::SpiDestinationSource, speaker.into(), group.into(), 3),
    ];
    let mut receiver = Receiver::new(&configs);
    let mut senders = configs.each_ref().map(sender);
    for (sender, config) in senders.iter_mut().zip(&configs) {
        let packet = seal(sender, config, 50);
        assert!(receiver.handle(&packet).is_ok());
        assert_eq!(receiver.refuse(&packet), DropReason::Replayed);
    }
    // Anybody speaks to the group; who has an association of his own is held to its key.
    let of_group = seal(&mut senders[1], &configs[1], 50);
    assert!(receiver.handle(&addressed(&of_group, Ipv4Addr::new(203, 0, 113, 9), group)).is_ok());
    let of_group = seal(&mut senders[1], &configs[1], 50);
    assert_eq!(receiver.refuse(&addressed(&of_group, speaker, group)), DropReason::AuthFailed);
    let of_pair = seal(&mut senders[0], &configs[0], 50);
    let IpAddr::V4(bob) = bob else { panic!("IPv4") };
    assert_eq!(receiver.refuse(&addressed(&of_pair, speaker, bob)), DropReason::WrongPeer);
    let counts: Vec<_> = receiver.engine.sad().list().map(|sa| sa.counters.packets).collect();
    assert_eq!(counts.iter().sum::<u64>(), 4);
    assert_eq!(receiver.engine.sad().len(), 3);
}

#[test]
fn bursts_find_them_as_packets_do() {
    let (alice, bob) = hosts(false);
    let group: IpAddr = Ipv4Addr::new(239, 1, 2, 3).into();
    let configs = [config(KeyClass::Spi, alice, bob, 1), config(KeyClass::SpiDestination, alice, group, 2)];
    let mut receiver = Receiver::new(&configs);
    let mut delivery = Delivery::new();
    for config in &configs {
        let mut sender = sender(config);
        let packets: Vec<_> = (0..5).map(|_| seal(&mut sender, config, 60)).collect();
        let headers = Headers::parse(&packets[0]).unwrap();
        let header = OuterHeader {
            src: headers.src,
            dst: headers.dst,
            src_port: 4500,
            dst_port: PORT,
            tos: 0,
            ttl: 64,
            may_fragment: false,
        };
        let payloads: Vec<&[u8]> = packets.iter().map(|packet| &packet[28..]).collect();
        assert_eq!(esp::classify(payloads[0]), esp::UdpPayload::Esp);
        let bytes = payloads.concat();
        let mut buf = receiver.pool.take();
        buf.push_back(bytes.len()).unwrap().copy_from_slice(&bytes);
        let burst = Burst::raw(buf, header, payloads[0].len(), NOW).unwrap();
        receiver.engine.handle_burst(NOW, burst, &mut receiver.pool, &mut delivery);
    }
    assert_eq!(delivery.len(), 10, "{:?}", receiver.engine.stats().drops().collect::<Vec<_>>());
    let mut counts: Vec<_> = receiver.engine.sad().list().map(|sa| sa.counters.packets).collect();
    counts.sort_unstable();
    assert_eq!(counts, [5, 5]);
}

/// A group in transport mode takes packets of whoever has the key, as far as the selectors say.
#[test]
fn a_group_in_transport_mode_has_several_senders() {
    let group: IpAddr = Ipv4Addr::new(239, 1, 2, 3).into();
    let (alice, carol) = (hosts(false).0, IpAddr::from(Ipv4Addr::new(192, 0, 2, 99)));
    let stranger = IpAddr::from(Ipv4Addr::new(203, 0, 113, 5));
    let mut of_group = config(KeyClass::SpiDestination, alice, group, 2);
    of_group.mode = Mode::Transport;
    of_group.selectors.local = Prefix::new(Ipv4Addr::new(192, 0, 2, 0).into(), 24).unwrap();
    let mut receiver = Receiver::new(&[of_group.clone()]);
    for (number, from, takes) in [(1, alice, true), (2, carol, true), (3, stranger, false)] {
        let mut own = of_group.clone();
        own.selectors = Selectors::ANY;
        own.endpoints.local = from;
        own.endpoints.remote = hosts(false).1;
        let mut sender = OutboundSa::new(own, registry()).unwrap();
        while sender.next_sequence() < number {
            sender.next_packet(Time(1), 0).unwrap();
        }
        let packet = scheduled_out(&udp_packet((from, 1), (hosts(false).1, 2), 0, true, &[7; 30]));
        let outer = ipsec::encap(&mut sender, packet, &mut pool()).unwrap();
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (from, group) else { panic!("IPv4") };
        let packet = addressed(outer.bytes(), source, destination);
        if takes {
            assert_eq!(receiver.handle(&packet).unwrap().0.bytes()[12..16], source.octets());
        } else {
            assert_eq!(receiver.refuse(&packet), DropReason::SelectorMismatch);
        }
    }
}
