//! Tests of what ICMP errors from the unprotected side teach, and what they do not.

use crate::support;

use crypto::{Integrity, SuiteId};
use engine::{Event, IcmpKind, IcmpPolicy, Outcome};
use sadb::sa::{Encapsulation, PathMtuLimits, SaOptions, SaProtocol};
use sadb::{Mode, SaConfig, Spi};
use std::net::IpAddr;
use std::time::Duration;
use support::*;
use wire::ip::Headers;
use wire::tcp::Flags;
use wire::{DropReason, Packet, Time, checksum, icmp, protocol, stage};

fn router(v6: bool) -> IpAddr {
    if v6 { ip("2001:db8:ffff::1") } else { ip("203.0.113.1") }
}

/// An error of this type and code to Alice, with this MTU, about a packet of which `quoted` octets are left.
fn error(kind: u8, code: u8, mtu: u32, quoted: &[u8]) -> Vec<u8> {
    let v6 = quoted[0] >> 4 == 6;
    let mut message = vec![kind, code, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(quoted);
    let number = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
    let src = Headers::parse(quoted).map_or(hosts(v6).0, |headers| headers.src);
    let mut bytes = ip_packet(router(v6), src, number, 0xc0, false, &message);
    let headers = Headers::parse(&bytes).unwrap();
    checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

fn too_big(mtu: u32, outer: &[u8]) -> Vec<u8> {
    if outer[0] >> 4 == 6 {
        error(2, 0, mtu, &outer[..outer.len().min(1200)])
    } else {
        error(3, 4, mtu, outer)
    }
}

impl Sender {
    fn hear(&mut self, bytes: &[u8]) -> Option<DropReason> {
        self.hear_at(NOW, bytes)
    }

    fn hear_at(&mut self, now: Time, bytes: &[u8]) -> Option<DropReason> {
        self.engine.hear_icmp(now, raw(bytes), &mut self.pool)
    }

    fn mtu(&self) -> u16 {
        self.engine.sad().list().next().unwrap().1.config().path_mtu
    }
}

fn ah(config: SaConfig) -> SaConfig {
    let suite = SuiteId::authenticating(Integrity::HmacSha256).unwrap();
    let options =
        SaOptions { protocol: SaProtocol::Ah, encapsulation: Encapsulation::None, ..config.options };
    SaConfig { suite, keymat: keymat(suite, 3), options, ..config }
}

fn bare(config: SaConfig) -> SaConfig {
    let options = SaOptions { encapsulation: Encapsulation::None, ..config.options };
    SaConfig { options, ..config }
}

/// Configurations of every encapsulation, mode and family of the outer packet.
fn configs() -> Vec<SaConfig> {
    let mut all = Vec::new();
    for v6 in [false, true] {
        for mode in [Mode::Tunnel, Mode::Transport] {
            let one = outbound_config(mode, SuiteId::AES_128_GCM, v6);
            all.extend([one.clone(), bare(one.clone()), ah(one)]);
        }
    }
    all
}

fn sender(config: &SaConfig) -> Sender {
    let spd = policy(APP, config.services(), sadb::spd::Level::Mandatory);
    Sender::new(spd, std::slice::from_ref(config))
}

#[test]
fn an_error_that_quotes_our_packet_lowers_the_path_and_the_next_packet_is_answered() {
    for config in configs() {
        let v6 = config.endpoints.local.is_ipv6();
        let mut alice = sender(&config);
        let outer = alice.out(v6, 1360);
        assert!(outer.len() > 1400);
        assert_eq!(alice.hear(&too_big(1400, &outer)), Some(DropReason::IcmpTaken), "{config:?}");
        assert_eq!(alice.mtu(), 1400);
        let Some(Event::Pmtu(change)) = alice.engine.poll_event() else { panic!("no event") };
        assert_eq!((change.spi, change.before, change.mtu), (Spi(SPI), 1500, 1400));
        assert_eq!(change.from, Some(router(v6)));

        // The next packet of that size is answered, inside, with what fits inside.
        let bytes = alice_to_bob(v6, 0, 1360);
        let outcomes = alice.handle(stamped(APP, &bytes));
        let [Outcome::Reply(reply, _), Outcome::Drop(dropped)] = outcomes.as_slice() else {
            panic!("{outcomes:?}")
        };
        assert_eq!(dropped.reason, DropReason::TooBig);
        let headers = Headers::parse(reply.bytes()).unwrap();
        let upper = headers.upper(reply.bytes());
        let told = match v6 {
            true => icmp::Icmpv6::new_checked(upper).unwrap().mtu(),
            false => icmp::Icmpv4::new_checked(upper).unwrap().mtu(),
        };
        assert_eq!(told, Some(change.inner_mtu));
        // And one of the size that it was told fits the path exactly as well as can be.
        let own = if v6 { 48 } else { 28 };
        let outer = alice.out(v6, change.inner_mtu - own);
        assert!(outer.len() <= 1400 && outer.len() + 16 > 1400, "{}", outer.len());
        // The error again: nothing new, and no event.
        assert_eq!(alice.hear(&too_big(1400, &alice_big(&outer))), Some(DropReason::IcmpTaken));
        assert!(alice.engine.poll_event().is_none());
    }
}

/// The packet with a total length of 1500, like one of those that were on their way already.
fn alice_big(outer: &[u8]) -> Vec<u8> {
    let mut bytes = outer.to_vec();
    let (at, len) = if bytes[0] >> 4 == 6 { (4, 1460u16) } else { (2, 1500) };
    bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn a_tunnel_of_the_other_family_learns_as_well() {
    for outer_v6 in [false, true] {
        let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, outer_v6);
        let mut alice = sender(&config);
        let outer = alice.out(!outer_v6, 1380);
        assert_eq!(outer[0] >> 4, if outer_v6 { 6 } else { 4 });
        assert_eq!(alice.hear(&too_big(1390, &outer)), Some(DropReason::IcmpTaken));
        let bytes = alice_to_bob(!outer_v6, 0, 1380);
        let outcomes = alice.handle(stamped(APP, &bytes));
        assert!(matches!(outcomes.as_slice(), [Outcome::Reply(..), Outcome::Drop(_)]), "{outcomes:?}");
    }
}

#[test]
fn super_packets_are_cut_smaller_and_connections_begin_smaller() {
    for gathering in [false, true] {
        let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
        let mut alice = sender(&config);
        let outer = alice.out(false, 1400);
        if gathering {
            alice.engine = std::mem::replace(&mut alice.engine, sender(&config).engine).gathering();
        }
        assert_eq!(alice.hear(&too_big(1000, &outer)), Some(DropReason::IcmpTaken));
        let (packet, payload) = tcp_super(false, 9, 1400, 20_000);
        let mut out = alice.handle_gathered(packet);
        let longest = out.iter().map(Vec::len).max().unwrap();
        assert!(longest <= 1000 - 20 - 8 && longest > 900, "{longest}");
        assert!(out.len() > payload.len() / 1000);
        out.clear();
        let (from, to) = hosts(false);
        let mut syn = tcp_packet((from, 40001), (to, 443), 1, Flags::SYN, true, &[]);
        // An MSS option of 1460, in a header of six words.
        syn[32] = 6 << 4;
        syn.extend([2, 4, 0x05, 0xb4]);
        syn[3] = 44;
        wire::ipv4::Ipv4::new_checked(&mut syn[..]).unwrap().fill_checksum();
        let headers = Headers::parse(&syn).unwrap();
        checksum::complete_transport(&mut syn, &headers).unwrap();
        let mut bob = Receiver::new(std::slice::from_ref(&config));
        let mut ungathered = sender(&config);
        let first = ungathered.out(false, 1400);
        ungathered.hear(&too_big(1000, &first));
        let outer = ungathered.send(stamped(APP, &syn));
        let (inner, _) = bob.handle(outer[0].bytes()).unwrap();
        let mss = u16::from_be_bytes([inner.bytes()[42], inner.bytes()[43]]);
        let want = ipsec::inner_mtu(ungathered.engine.sad().list().next().unwrap().1.config()) - 40;
        assert_eq!(usize::from(mss), want);
    }
}

impl Sender {
    /// The UDP payloads that leave, or whole packets less headers.
    fn handle_gathered(&mut self, packet: Packet<stage::Inner>) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        self.engine.handle(NOW, packet, &mut self.pool, &mut out);
        self.engine.flush(&mut self.pool, &mut out);
        let mut payloads = Vec::new();
        for outcome in out {
            match outcome {
                Outcome::Send(packet) => payloads.push(packet.bytes()[28..].to_vec()),
                Outcome::Burst(burst) => payloads.extend(burst.datagrams().map(<[u8]>::to_vec)),
                other => panic!("{other:?}"),
            }
        }
        payloads
    }
}

#[test]
fn what_may_be_fragmented_is_not_answered_whatever_was_learned() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(&config);
    let outer = alice.out(false, 1400);
    alice.hear(&too_big(1000, &outer));
    let (from, to) = hosts(false);
    let bytes = udp_packet((from, 40000), (to, 53), 0, false, &[7; 1400]);
    let [outer] = &alice.send(stamped(APP, &bytes))[..] else { panic!("one packet") };
    assert!(outer.meta.may_fragment && outer.bytes().len() > 1000);
    assert!(!Headers::parse(outer.bytes()).unwrap().dont_fragment);
}

#[test]
fn a_stranger_teaches_nothing() {
    for config in configs() {
        let v6 = config.endpoints.local.is_ipv6();
        let mut alice = sender(&config);
        let outer = alice.out(v6, 1360);
        let headers = Headers::parse(&outer).unwrap();
        let udp = headers.protocol == protocol::UDP;
        let spi_at = headers.header_len
            + if udp { 8 } else { 0 }
            + if headers.protocol == protocol::AH { 4 } else { 0 };
        let (src_at, dst_at) = if v6 { (8, 24) } else { (12, 16) };
        let mut cases = vec![
            (spi_at + 3, DropReason::IcmpUnrelated),
            (spi_at, DropReason::IcmpUnrelated),
            (src_at + 3, DropReason::IcmpUnrelated),
            (dst_at + 3, DropReason::IcmpUnrelated),
            (spi_at + 4, DropReason::IcmpSequence),
            (spi_at + 7, DropReason::IcmpSequence),
        ];
        if udp {
            cases.push((headers.header_len + 3, DropReason::IcmpUnrelated));
        }
        for (at, want) in cases {
            let mut forged = outer.clone();
            forged[at] ^= 2;
            assert_eq!(alice.hear(&too_big(1400, &forged)), Some(want), "octet {at} of {config:?}");
        }
        // The quotation ends before the name does.
        let short = headers.header_len + if udp { 8 } else { 4 };
        let cut = &outer[..short];
        let answer = match v6 {
            true => error(2, 0, 1400, cut),
            false => error(3, 4, 1400, cut),
        };
        assert_eq!(alice.hear(&answer), Some(DropReason::IcmpShort));
        // An MTU that the packet would have fitted, and one that no link has.
        for mtu in [u32::try_from(outer.len()).unwrap(), 9000, 67] {
            assert_eq!(alice.hear(&too_big(mtu, &outer)), Some(DropReason::IcmpMtu));
        }
        // Damaged on its way.
        let mut damaged = too_big(1400, &outer);
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(alice.hear(&damaged), Some(DropReason::BadChecksum));
        assert_eq!(alice.mtu(), 1500);
        assert!(alice.engine.poll_event().is_none());
        let counted: u64 = alice.engine.stats().drops().map(|(_, count)| count).sum();
        assert_eq!(counted, if udp { 12 } else { 11 });
        // All the same it listens on.
        assert_eq!(alice.hear(&too_big(1400, &outer)), Some(DropReason::IcmpTaken));
        assert_eq!(alice.mtu(), 1400);
    }
}

#[test]
fn errors_about_other_programs_packets_are_nobodys() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(&config);
    let (from, to) = hosts(false);
    let tcp = tcp_packet((from, 4500), (to, 80), 1, Flags::ACK, true, &[0; 1400]);
    let dns = udp_packet((from, 5353), (to, 53), 0, true, &[7; 400]);
    for bytes in [tcp, dns] {
        assert_eq!(alice.hear(&too_big(1200, &bytes)), None);
    }
    assert_eq!(alice.engine.stats().drops().count(), 0);
}

#[test]
fn an_error_about_a_packet_of_long_ago_comes_too_late() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(&config);
    let old = alice.out(false, 1400);
    for _ in 0..0x10000 {
        alice.out(false, 1);
    }
    assert_eq!(alice.hear(&too_big(1400, &old)), Some(DropReason::IcmpSequence));
    let new = alice.out(false, 1400);
    assert_eq!(alice.hear(&too_big(1400, &new)), Some(DropReason::IcmpTaken));
}

#[test]
fn what_was_learned_is_forgotten_after_its_time() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(&config);
    let path = PathMtuLimits { age: Duration::from_secs(30), floor_v4: 1100 };
    alice.engine.set_icmp(IcmpPolicy { path, ..IcmpPolicy::default() });
    let outer = alice.out(false, 1400);
    alice.hear(&too_big(1000, &outer));
    assert_eq!(alice.mtu(), 1100, "no lower than the floor");
    alice.engine.poll_event();
    let mut out = Vec::new();
    alice.engine.expire(NOW + Duration::from_secs(29), &mut alice.pool, &mut out);
    assert_eq!(alice.mtu(), 1100);
    alice.engine.expire(NOW + Duration::from_secs(30), &mut alice.pool, &mut out);
    assert_eq!(alice.mtu(), 1500);
    let Some(Event::Pmtu(change)) = alice.engine.poll_event() else { panic!("no event") };
    assert_eq!((change.before, change.mtu, change.from), (1100, 1500, None));
    // A successor starts from what was configured.
    assert_eq!(alice.engine.export()[0].config.path_mtu, 1500);
    let outer = alice.out(false, 1400);
    alice.hear(&too_big(1200, &outer));
    assert_eq!((alice.mtu(), alice.engine.export()[0].config.path_mtu), (1200, 1500));
}

#[test]
fn the_operator_says_which_errors_count_and_how_many() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(&config);
    let outer = alice.out(false, 1400);
    assert_eq!(alice.hear(&error(3, 1, 0, &outer)), Some(DropReason::IcmpRefused));
    assert_eq!(alice.hear(&error(11, 0, 0, &outer)), Some(DropReason::IcmpRefused));
    let accept = vec![IcmpKind { version: 4, kind: 3, code: Some(1) }];
    alice.engine.set_icmp(IcmpPolicy { accept, per_second: 3, ..IcmpPolicy::default() });
    assert_eq!(alice.hear(&too_big(1400, &outer)), Some(DropReason::IcmpRefused));
    for _ in 0..3 {
        assert_eq!(alice.hear(&error(3, 1, 0, &outer)), Some(DropReason::IcmpTaken));
        // Those of strangers do not use up what there is room for.
        let mut stranger = outer.clone();
        stranger[28] ^= 1;
        assert_eq!(alice.hear(&error(3, 1, 0, &stranger)), Some(DropReason::IcmpUnrelated));
    }
    assert_eq!(alice.hear(&error(3, 1, 0, &outer)), Some(DropReason::IcmpRate));
    assert_eq!(
        alice.hear_at(NOW + Duration::from_secs(1), &error(3, 1, 0, &outer)),
        Some(DropReason::IcmpTaken)
    );
    assert_eq!(alice.mtu(), 1500, "it was told, and nothing changed");
    let Some(Event::Icmp(seen)) = alice.engine.poll_event() else { panic!("no event") };
    assert_eq!((seen.spi, seen.kind, seen.code, seen.version), (Spi(SPI), 3, 1, 4));
}
