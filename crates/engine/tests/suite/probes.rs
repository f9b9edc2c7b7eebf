//! Probes of the path and their answers, from one engine to the other.

use crate::support;

use crypto::SuiteId;
use engine::{Delivery, Event, Order, Outcome, PathMessage};
use sadb::sa::{DontFragment, Encapsulation, HeaderPolicy, SaOptions};
use sadb::{Mode, SaConfig, Spi};
use support::*;
use wire::ip::Headers;
use wire::probe::Message;
use wire::{Burst, DropReason, OuterHeader};

const PROBE: Message = Message::Probe { token: 0x1122_3344_5566_7788, answer_by: 77 };

fn configs() -> Vec<SaConfig> {
    let mut all = Vec::new();
    for v6 in [false, true] {
        for mode in [Mode::Tunnel, Mode::Transport] {
            for suite in [SuiteId::AES_128_GCM, SuiteId::CHACHA20_POLY1305] {
                let one = outbound_config(mode, suite, v6);
                let options = SaOptions { encapsulation: Encapsulation::None, ..one.options.clone() };
                all.extend([SaConfig { options, ..one.clone() }, one]);
            }
        }
    }
    all
}

fn order(config: &SaConfig, size: u16) -> Order {
    let ends = &config.endpoints;
    Order { spi: Spi(SPI), local: ends.local, remote: ends.remote, message: PROBE, size }
}

impl Sender {
    /// The packets that leave for an order.
    fn ordered(&mut self, order: Order) -> Vec<Vec<u8>> {
        self.engine.order(order);
        let mut out = Vec::new();
        self.engine.release(NOW, &mut self.pool, &mut out);
        let bytes = |outcome: Outcome| match outcome {
            Outcome::Send(packet) => {
                assert!(!packet.meta.may_fragment, "a probe in pieces shows nothing");
                packet.bytes().to_vec()
            }
            other => panic!("{other:?}"),
        };
        out.into_iter().map(bytes).collect()
    }
}

fn sender(config: &SaConfig) -> Sender {
    let spd = policy(APP, config.services(), sadb::spd::Level::Mandatory);
    Sender::new(spd, std::slice::from_ref(config))
}

fn said(receiver: &mut Receiver) -> Option<PathMessage> {
    match receiver.engine.poll_event() {
        Some(Event::Path(said)) => Some(said),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_probe_has_its_length_and_says_what_it_says_once() {
    for config in configs() {
        let mut alice = sender(&config);
        let mut bob = Receiver::new(std::slice::from_ref(&config));
        // Also longer than the path MTU in force: that is what is asked.
        for size in [0, 600, 1280, 1499, 1500, 4000, 9000] {
            let packets = alice.ordered(order(&config, size));
            let [outer] = packets.as_slice() else { panic!("{config:?}: {} packets", packets.len()) };
            if size == 0 {
                assert!(outer.len() < 160, "{}", outer.len());
            } else {
                let len = outer.len();
                assert!(len <= size.into() && len + 16 > size.into(), "{config:?}: {len} for {size}");
            }
            if outer[0] >> 4 == 4 {
                assert!(Headers::parse(outer).unwrap().dont_fragment);
            }
            assert_eq!(bob.refuse(outer), DropReason::EspDummy);
            let heard = said(&mut bob).unwrap();
            assert_eq!((heard.spi, heard.message), (Spi(SPI), PROBE));
            // From the receiver's side.
            assert_eq!((heard.local, heard.remote), (config.endpoints.remote, config.endpoints.local));
            // Sent again by somebody on the way, or changed: it says nothing.
            assert_eq!(bob.refuse(outer), DropReason::Replayed);
            let mut forged = alice.ordered(order(&config, size)).remove(0);
            let last = forged.len() - 1;
            forged[last] ^= 1;
            let reason = bob.refuse(&forged);
            assert!(matches!(reason, DropReason::AuthFailed | DropReason::BadChecksum), "{reason:?}");
            assert_eq!(said(&mut bob), None);
        }
        // What others' dummies hold says nothing.
        if config.mode == Mode::Tunnel {
            let mut out = Vec::new();
            let mut dummies = outbound_config(config.mode, config.suite, config.endpoints.local.is_ipv6());
            dummies.options.dummy = 10;
            let mut carol = sender(&dummies);
            for now in 0..20 {
                carol.engine.handle_timeout(
                    NOW + std::time::Duration::from_millis(now * 100),
                    &mut carol.pool,
                    &mut out,
                );
            }
            let mut dave = Receiver::new(std::slice::from_ref(&config));
            assert!(!out.is_empty());
            for outcome in out {
                let Outcome::Send(packet) = outcome else { panic!("{outcome:?}") };
                assert_eq!(dave.refuse(packet.bytes()), DropReason::EspDummy);
            }
            assert_eq!(said(&mut dave), None);
        }
    }
}

#[test]
fn probes_among_other_datagrams_of_a_burst_are_heard() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(&config);
    let mut bob = Receiver::new(std::slice::from_ref(&config));
    let first = alice.ordered(order(&config, 1200)).remove(0);
    let between = alice.out(false, first.len() - 28 - 28 - 20 - 20 - 14);
    let last = alice.ordered(order(&config, 1200)).remove(0);
    let headers = Headers::parse(&first).unwrap();
    let front = headers.header_len + 8;
    let payloads: Vec<&[u8]> = [&first, &last].iter().map(|packet| &packet[front..]).collect();
    assert!(payloads.iter().all(|payload| payload.len() == payloads[0].len()));
    let header = OuterHeader {
        src: headers.src,
        dst: headers.dst,
        src_port: PORT,
        dst_port: PORT,
        tos: 0,
        ttl: 64,
        may_fragment: false,
    };
    let mut buf = bob.pool.take();
    for payload in &payloads {
        buf.push_back(payload.len()).unwrap().copy_from_slice(payload);
    }
    let burst = Burst::raw(buf, header, payloads[0].len(), NOW).unwrap();
    let mut delivery = Delivery::new();
    bob.engine.handle_burst(NOW, burst, &mut bob.pool, &mut delivery);
    assert_eq!(delivery.len(), 0);
    assert_eq!(said(&mut bob).unwrap().message, PROBE);
    assert_eq!(said(&mut bob).unwrap().message, PROBE);
    assert_eq!(said(&mut bob), None);
    bob.handle(&between).unwrap();
}

#[test]
fn a_message_leaves_only_by_an_association_with_that_peer_and_whole() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(&config);
    let right = order(&config, 0);
    assert_eq!(alice.ordered(right).len(), 1);
    for wrong in [
        Order { spi: Spi(SPI + 1), ..right },
        Order { remote: ip("192.0.2.99"), ..right },
        Order { local: ip("192.0.2.98"), ..right },
    ] {
        assert_eq!(alice.ordered(wrong).len(), 0, "{wrong:?}");
    }
    // Its packets may be cut on the way: then no length of theirs shows anything.
    let headers = HeaderPolicy { df: DontFragment::Clear, ..HeaderPolicy::default() };
    let options = SaOptions { headers, ..config.options.clone() };
    let mut alice = sender(&SaConfig { options, ..config });
    assert_eq!(alice.ordered(right).len(), 0);
}

#[test]
fn long_packets_are_seen_and_what_probes_find_is_in_force_for_all_of_the_path() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(&config);
    let (seen, next) = alice.engine.look_at_paths(0, 10, &[]);
    assert_eq!((seen.len(), next), (0, 0), "nothing was sent");
    alice.out(false, 100);
    assert_eq!(alice.engine.look_at_paths(0, 10, &[]).0.len(), 0, "nothing long was sent");
    alice.out(false, 1360);
    let (seen, _) = alice.engine.look_at_paths(0, 10, &[]);
    let [one] = seen.as_slice() else { panic!("{seen:?}") };
    assert!(one.long && (one.in_force, one.configured, one.floor) == (1500, 1500, 576));
    let path = one.path;
    assert_eq!(alice.engine.look_at_paths(0, 10, &[]).0.len(), 0, "since the last look");
    alice.engine.prove(NOW, &path, 1300);
    let Some(Event::Pmtu(change)) = alice.engine.poll_event() else { panic!("no event") };
    assert_eq!((change.before, change.mtu, change.from, change.cause.word()), (1500, 1300, None, "probe"));
    assert_eq!(alice.engine.learned_path_mtu(Spi(SPI), config.endpoints.remote), Some(1300));
    let (seen, _) = alice.engine.look_at_paths(0, 10, &[(Spi(SPI), config.endpoints.remote)]);
    assert!(!seen[0].long && (seen[0].in_force, seen[0].configured) == (1300, 1500));
    // Another path is left alone.
    let other = engine::Path { ports: None, ..path };
    alice.engine.prove(NOW, &other, 1280);
    assert!(alice.engine.poll_event().is_none());
    alice.engine.prove(NOW, &path, 9000);
    assert_eq!(alice.engine.learned_path_mtu(Spi(SPI), config.endpoints.remote), None);
    assert_eq!(alice.engine.path_mtu(Spi(SPI), config.endpoints.remote), Some(1500));
}

#[test]
fn a_flood_of_messages_is_bounded_in_a_second_and_pushes_nothing_else_out() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let (mut alice, mut bob) = (sender(&config), Receiver::new(std::slice::from_ref(&config)));
    let mut flood = |bob: &mut Receiver, now: wire::Time| {
        for _ in 0..2 * engine::MAX_MESSAGES {
            for packet in alice.ordered(order(&config, 128)) {
                let packet = wire::Packet::raw(wire::Buf::from_slice(&packet, 64, 0), wire::Meta::default());
                bob.engine.handle(now, packet, &mut bob.pool, &mut Vec::new());
            }
        }
        let mut heard = 0;
        while said(bob).is_some() {
            heard += 1;
        }
        heard
    };
    assert_eq!(flood(&mut bob, NOW), engine::MAX_MESSAGES);
    assert_eq!(flood(&mut bob, NOW), 0, "in the same second");
    assert_eq!(bob.engine.take_lost_events(), 0, "no other event was in danger");
    assert_eq!(flood(&mut bob, NOW + std::time::Duration::from_secs(1)), engine::MAX_MESSAGES);
}
