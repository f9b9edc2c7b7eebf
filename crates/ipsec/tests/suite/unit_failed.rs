//! A crypto unit that fails: nothing of its packets leaves or is delivered, no number is used twice, and the replay
//! window stays where it is.

use crate::auth::{ah_config, bare_config, sha256};
use crate::elsewhere::find;
use crate::faulty::*;
use crate::support::*;
use crypto::SuiteId;
use ipsec::Codec;
use ipsec::slot::{self, Opened};
use sadb::sa::{Limits, SaProtocol};
use sadb::{InboundSa, Mode, OutboundSa, SaConfig};
use std::sync::Arc;
use wire::ip::Headers;
use wire::plain::Plain;
use wire::probe::Message;
use wire::{DropReason, OuterHeader, Time};

const FAILED: DropReason = DropReason::UnitFailed;

/// ESP in UDP and bare, in every mode, family and suite of the fast path, and one suite with two algorithms.
fn configs() -> Vec<(SaConfig, bool)> {
    let composed = "aes256ctr-sha256".parse().unwrap();
    let mut all = Vec::new();
    for suite in SUITES.into_iter().chain([composed]) {
        for mode in MODES {
            for v6 in [false, true] {
                all.push((outbound_config(mode, suite, v6), v6));
                all.push((bare_config(SaProtocol::Esp, mode, suite, v6), v6));
            }
        }
    }
    all
}

fn outbound(config: &SaConfig, plan: &Arc<Plan>) -> OutboundSa {
    OutboundSa::new(config.clone(), &plan.registry()).unwrap()
}

fn inbound(config: &SaConfig, plan: &Arc<Plan>) -> InboundSa {
    InboundSa::new(mirror(config), &plan.registry()).unwrap()
}

fn opened(sa: &mut InboundSa, bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
    ipsec::decap(sa, scheduled_in(bytes), &find(bytes), &mut pool()).map(|packet| packet.bytes().to_vec())
}

#[test]
fn the_marker_is_found_in_the_clear_and_not_under_a_cipher() {
    for (config, v6) in configs() {
        let (mut out, mut inb) = pair(&config);
        for len in [16, 17, 100, 1200] {
            let packet = marked_datagram(v6, len);
            assert!((0..8).all(|cut| shows_plaintext(&packet[packet.len() - 8 - cut..packet.len() - cut])));
            let sealed = ipsec::encap(&mut out, scheduled_out(&packet), &mut pool()).unwrap();
            assert!(!shows_plaintext(sealed.bytes()));
            assert!(shows_plaintext(&opened(&mut inb, sealed.bytes()).unwrap()));
        }
    }
}

#[test]
fn a_packet_that_is_not_sealed_ends_and_takes_its_number_with_it() {
    for (config, v6) in configs() {
        for (fault, every) in FAULTS.into_iter().flat_map(|fault| [1, 2, 3].map(|every| (fault, every))) {
            let plan = Plan::new(fault, every);
            let mut out = outbound(&config, &plan);
            let (_, mut inb) = pair(&config);
            let mut octets = 0;
            for n in 1..=7 {
                let packet = marked_datagram(v6, 20 + 90 * n as usize);
                octets += packet.len() as u64;
                let sealed = ipsec::encap(&mut out, scheduled_out(&packet), &mut pool());
                match sealed {
                    Ok(sealed) => {
                        assert_ne!(n % every, 0, "{config:?} {fault:?}");
                        assert_eq!(sealed.meta.sequence, n);
                        assert!(!shows_plaintext(sealed.bytes()));
                        assert!(shows_plaintext(&opened(&mut inb, sealed.bytes()).unwrap()));
                    }
                    Err(reason) => assert_eq!((reason, n % every), (FAILED, 0), "{config:?} {fault:?}"),
                }
                assert_eq!(out.next_sequence(), n + 1);
            }
            // Each has taken a number and may have used the key, so that the lifetime knows of it.
            assert_eq!((out.counters.packets, out.counters.bytes), (7, octets));
            assert_eq!(out.counters.drops().collect::<Vec<_>>(), [(FAILED, 7 / every)]);
        }
    }
}

#[test]
fn nothing_is_left_in_the_buffer_of_a_packet_that_was_not_sealed_or_not_opened() {
    for (config, v6) in configs() {
        for fault in FAULTS {
            let plan = Plan::new(fault, 1);
            let mut out = outbound(&config, &plan);
            let mut packet = scheduled_out(&marked_datagram(v6, 500));
            let job = ipsec::prepare_seal(&mut out, &mut packet, 1500).unwrap();
            assert!(shows_plaintext(packet.bytes()));
            assert_eq!(job.compute(out.key(), packet.bytes_mut()).unwrap_err(), FAILED);
            assert!(!shows_plaintext(packet.bytes()), "{config:?} {fault:?}");

            let mut sender = pair(&config).0;
            let sealed = ipsec::encap(&mut sender, scheduled_out(&marked_datagram(v6, 500)), &mut pool());
            let (sealed, mut inb) = (sealed.unwrap(), inbound(&config, &plan));
            let mut packet = scheduled_in(sealed.bytes());
            let job = ipsec::prepare_open(&mut inb, &packet, &find(sealed.bytes())).unwrap();
            assert_eq!(job.compute(inb.key(), packet.bytes_mut()).unwrap_err(), FAILED);
            assert!(!shows_plaintext(packet.bytes()), "{config:?} {fault:?}");
        }
    }
}

#[test]
fn a_packet_that_is_not_opened_moves_no_window_and_may_come_again() {
    for (config, v6) in configs() {
        for fault in FAULTS {
            let plan = Plan::new(fault, 0);
            let mut sender = pair(&config).0;
            let mut inb = inbound(&config, &plan);
            let mut sealed = || {
                let packet = scheduled_out(&marked_datagram(v6, 300));
                ipsec::encap(&mut sender, packet, &mut pool()).unwrap().bytes().to_vec()
            };
            let (first, second, third) = (sealed(), sealed(), sealed());
            opened(&mut inb, &first).unwrap();
            let (window, carried) = (inb.replay.export(), inb.counters.packets);
            plan.fail_every(1);
            assert_eq!(opened(&mut inb, &third), Err(FAILED));
            assert_eq!(opened(&mut inb, &second), Err(FAILED));
            // A replay is known as one without the unit.
            assert_eq!(opened(&mut inb, &first), Err(DropReason::Replayed));
            assert_eq!((inb.replay.export(), inb.counters.packets), (window, carried));
            plan.fail_every(0);
            assert!(shows_plaintext(&opened(&mut inb, &third).unwrap()));
            assert!(shows_plaintext(&opened(&mut inb, &second).unwrap()));
            let drops: Vec<_> = inb.counters.drops().collect();
            assert_eq!(drops, [(DropReason::Replayed, 1), (FAILED, 2)], "{config:?} {fault:?}");
        }
    }
}

#[test]
fn failed_packets_count_for_limits() {
    for limits in [Limits { packets: 3, ..Limits::default() }, Limits { bytes: 400, ..Limits::default() }] {
        let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
        config.options.lifetime.hard = limits;
        let mut out = outbound(&config, &Plan::new(Fault::First, 1));
        let reasons: Vec<_> = (0..4)
            .map(|_| ipsec::encap(&mut out, scheduled_out(&marked_datagram(false, 100)), &mut pool()).err())
            .collect();
        assert_eq!(reasons, [Some(FAILED), Some(FAILED), Some(FAILED), Some(DropReason::SaExpired)]);
    }
}

/// Slots of `count` packets, complete but for the cipher's work, and octets from one to the next.
fn slots(sa: &mut OutboundSa, count: usize, v6: bool) -> (Vec<u8>, usize) {
    let packet = marked_datagram(v6, 200);
    let frame = slot::Frame::new(sa, &packet, &Headers::parse(&packet).unwrap()).unwrap();
    let body = &packet[frame.left_out()..];
    let stride = frame.slot_len(packet.len());
    let mut octets = vec![0; stride * count];
    for slot in octets.chunks_mut(stride) {
        slot[frame.front()..frame.front() + body.len()].copy_from_slice(body);
        let sequence = sa.next_packet(Time(1), packet.len()).unwrap();
        frame.write(slot, packet.len(), sequence).unwrap();
    }
    (octets, stride)
}

fn burst_configs() -> Vec<(SaConfig, bool)> {
    configs().into_iter().filter(|(config, _)| slot::serves(config)).collect()
}

#[test]
fn no_slot_of_a_burst_keeps_plaintext_whichever_batch_fails() {
    let count = 2 * slot::BATCH + 5;
    for (config, v6) in burst_configs() {
        for (fault, batch) in FAULTS.into_iter().flat_map(|fault| [1, 2, 3].map(|batch| (fault, batch))) {
            let mut out = outbound(&config, &Plan::new(fault, batch));
            let (mut octets, stride) = slots(&mut out, count, v6);
            assert!(octets.chunks(stride).all(shows_plaintext));
            let sealed = slot::seal(out.key(), out.shape(), 1, octets.chunks_mut(stride));
            assert_eq!(sealed.unwrap_err(), FAILED);
            assert!(!shows_plaintext(&octets), "{config:?} {fault:?} in batch {batch}");
        }
    }
}

fn open_slots(sa: &mut InboundSa, octets: &mut [u8], stride: usize) -> Vec<Opened> {
    let ends = sa.config().endpoints;
    let outer = OuterHeader {
        src: ends.remote,
        dst: ends.local,
        src_port: 4500,
        dst_port: 4500,
        tos: 0,
        ttl: 64,
        may_fragment: false,
    };
    let mut opened = vec![Opened::NONE; octets.len() / stride];
    slot::open(sa, Time(1), &outer, octets, (stride, 0), &mut opened);
    opened
}

#[test]
fn a_batch_that_is_not_opened_ends_as_a_whole_and_the_others_go_on() {
    let batch = slot::BATCH;
    for (config, v6) in burst_configs().into_iter().filter(|(config, _)| slot::opens_with(config) == Some(0))
    {
        for fault in FAULTS {
            let mut sender = pair(&config).0;
            let (mut octets, stride) = slots(&mut sender, 2 * batch + 5, v6);
            slot::seal(sender.key(), sender.shape(), 1, octets.chunks_mut(stride)).unwrap();
            // In the second batch one that came in the first, and one that is forged.
            octets.copy_within(..stride, batch * stride);
            octets[(batch + 2) * stride - 1] ^= 1;
            let plan = Plan::new(fault, 2);
            let mut inb = inbound(&config, &plan);
            let mut once = octets.clone();
            let results = open_slots(&mut inb, &mut once, stride);
            for (n, result) in results.iter().enumerate() {
                let expected = match n {
                    _ if n == batch => Some(DropReason::Replayed),
                    _ if n / batch == 1 => Some(FAILED),
                    _ => None,
                };
                assert_eq!(result.dropped, expected, "{config:?} {fault:?} {n}");
            }
            assert!(!shows_plaintext(&once[batch * stride..2 * batch * stride]));
            let drops: Vec<_> = inb.counters.drops().collect();
            assert_eq!(drops, [(DropReason::Replayed, 1), (FAILED, batch as u64 - 1)]);

            // They come again, and the unit works.
            plan.fail_every(0);
            let mut again = octets.clone();
            let results = open_slots(&mut inb, &mut again, stride);
            for (n, result) in results.iter().enumerate() {
                let expected = match n {
                    _ if n == batch + 1 => Some(DropReason::AuthFailed),
                    _ if n / batch == 1 && n != batch => None,
                    _ => Some(DropReason::Replayed),
                };
                assert_eq!(result.dropped, expected, "{config:?} {fault:?} {n} again");
            }
        }
    }
}

#[test]
fn a_large_packet_that_is_not_sealed_ends_and_is_counted_once() {
    let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    config.path_mtu = 9000;
    for fault in FAULTS {
        let plan = Plan::new(fault, 2);
        let mut out = outbound(&config, &plan);
        let bytes = marked_datagram(false, 4000);
        let plain = Plain::read(&bytes).unwrap();
        assert!(ipsec::takes_large_packet(&out, &plain));
        for n in 1..=4 {
            let mut packet = from_host(&bytes);
            let sealed = ipsec::seal_large_packet(&mut out, &plain, &mut packet, &Placed).unwrap();
            assert_eq!(sealed.err(), (n % 2 == 0).then_some(FAILED), "{fault:?}");
            assert!(!shows_plaintext(packet.bytes()), "{fault:?}");
            assert_eq!((packet.meta.sequence, out.next_sequence()), (n, n + 1));
        }
        assert_eq!((out.counters.packets, out.counters.bytes), (4, 4 * bytes.len() as u64));
        assert_eq!(out.counters.drops().collect::<Vec<_>>(), [(FAILED, 2)]);
        // Without room nothing is touched.
        let mut packet = wire::Packet::from_host(wire::Buf::from_slice(&bytes, 10, 0), wire::Meta::default());
        assert!(ipsec::seal_large_packet(&mut out, &plain, &mut packet, &Placed).is_none());
        assert_eq!((packet.bytes(), out.next_sequence(), out.counters.packets), (&bytes[..], 5, 4));
    }
}

#[test]
fn dummies_and_probes_end_like_other_packets() {
    for (config, _) in configs() {
        for fault in FAULTS {
            let plan = Plan::new(fault, 2);
            let mut out = outbound(&config, &plan);
            let mut pool = pool();
            let message = Message::Probe { token: 9, answer_by: 7 };
            for n in 1..=6 {
                let empty = scheduled_empty(&mut pool, Time(1));
                // In transport mode there are probes only.
                let sealed = if n % 3 == 0 && config.mode == Mode::Tunnel {
                    ipsec::dummy(&mut out, empty, &marked(300), &mut pool)
                } else {
                    ipsec::probe(&mut out, empty, &message, 400, &mut pool)
                };
                match sealed {
                    Ok(sealed) => {
                        assert_eq!((sealed.meta.sequence, n % 2), (n, 1));
                        assert!(!shows_plaintext(sealed.bytes()));
                    }
                    Err(reason) => assert_eq!((reason, n % 2), (FAILED, 0), "{config:?} {fault:?}"),
                }
                assert_eq!(out.next_sequence(), n + 1);
            }
            assert_eq!((out.counters.packets, out.counters.bytes), (6, 0));
            assert_eq!(out.counters.drops().collect::<Vec<_>>(), [(FAILED, 3)]);
        }
    }
}

#[test]
fn ah_knows_of_no_such_failure() {
    let config = ah_config(Mode::Transport, sha256(), false);
    let plan = Plan::new(Fault::First, 1);
    let (mut out, mut inb) = (outbound(&config, &plan), inbound(&config, &plan));
    let packet = scheduled_out(&marked_datagram(false, 100));
    let sealed = ipsec::encap_member(&mut out, packet, 1500, &mut Codec::default(), &mut pool()).unwrap();
    assert!(shows_plaintext(&opened(&mut inb, sealed.bytes()).unwrap()));
}
