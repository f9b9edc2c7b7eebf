//! The cipher's work on another thread, and in steps: what it gives is, octet for octet, what the owner's own thread
//! gives at once. The job has no part of the association, which may be gone meanwhile.

use crate::auth::{ah_config, ah_suites, esp_suites, sha256};
use crate::support::*;
use crypto::SuiteId;
use ipsec::slot::{self, Opened};
use ipsec::{Codec, Outer, Steps};
use proptest::prelude::*;
use sadb::sa::Key;
use sadb::{InboundSa, Mode, OutboundSa, SaConfig};
use wire::ip::Headers;
use wire::{DropReason, OuterHeader, Time, protocol};

type Seal = fn(&mut OutboundSa, &[u8]) -> Result<Vec<u8>, DropReason>;
type Open = fn(&mut InboundSa, &[u8]) -> Result<Vec<u8>, DropReason>;

/// The result of `work` on a thread of its own.
#[allow(clippy::disallowed_methods, reason = "a test has a thread of its own")]
fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(work).join().unwrap()
}

/// Seal in three parts, the middle one elsewhere.
fn seal_apart(sa: &mut OutboundSa, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
    let limit = usize::from(sa.config().path_mtu);
    let mut packet = scheduled_out(packet);
    let prepared = ipsec::prepare_seal_member(sa, &mut packet, limit, &mut Codec::default());
    let (packet, done) = match prepared {
        Ok(job) => {
            let key = sa.key().clone();
            elsewhere(move || {
                let done = job.compute(&key, packet.bytes_mut());
                (packet, done)
            })
        }
        Err(reason) => (packet, Err(reason)),
    };
    ipsec::finish_seal(sa, packet, done, &mut pool()).map(|packet| packet.bytes().to_vec())
}

/// What stands in front of the ESP or AH header of an outer packet.
pub fn find(bytes: &[u8]) -> Outer {
    let headers = Headers::parse(bytes).unwrap();
    match headers.protocol {
        protocol::UDP => Outer::find(bytes, &headers, 4500).unwrap(),
        _ => Outer::nested(bytes, &headers).unwrap(),
    }
}

/// Open in three parts, the middle one elsewhere.
fn open_apart(sa: &mut InboundSa, bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
    let outer = find(bytes);
    let mut packet = scheduled_in(bytes);
    let job = ipsec::prepare_open(sa, &packet, &outer)?;
    let key = sa.key().clone();
    let (packet, authentic) = elsewhere(move || {
        let authentic = job.compute(&key, packet.bytes_mut());
        (packet, authentic)
    });
    ipsec::finish_open(sa, packet, &outer, &job, authentic, &mut pool()).map(|packet| packet.bytes().to_vec())
}

/// Do steps of so many octets until there is a result.
fn in_steps<T>(octets: usize, mut step: impl FnMut(&mut usize) -> Option<T>) -> T {
    (0..100_000).find_map(|_| step(&mut octets.clone())).unwrap()
}

fn seal_in_steps(sa: &mut OutboundSa, packet: &[u8], octets: usize) -> Result<Vec<u8>, DropReason> {
    let limit = usize::from(sa.config().path_mtu);
    let mut packet = scheduled_out(packet);
    let done = ipsec::prepare_seal_member(sa, &mut packet, limit, &mut Codec::default()).and_then(|job| {
        let mut steps = Steps::default();
        in_steps(octets, |octets| job.step(sa.key(), packet.bytes_mut(), &mut steps, octets).transpose())
    });
    ipsec::finish_seal(sa, packet, done, &mut pool()).map(|packet| packet.bytes().to_vec())
}

fn open_in_steps(sa: &mut InboundSa, bytes: &[u8], octets: usize) -> Result<Vec<u8>, DropReason> {
    let outer = find(bytes);
    let mut packet = scheduled_in(bytes);
    let job = ipsec::prepare_open(sa, &packet, &outer)?;
    let mut steps = Steps::default();
    let authentic =
        in_steps(octets, |octets| job.step(sa.key(), packet.bytes_mut(), &mut steps, octets).transpose());
    ipsec::finish_open(sa, packet, &outer, &job, authentic, &mut pool()).map(|packet| packet.bytes().to_vec())
}

fn open_here(sa: &mut InboundSa, bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
    ipsec::decap(sa, scheduled_in(bytes), &find(bytes), &mut pool()).map(|packet| packet.bytes().to_vec())
}

fn seal_here(sa: &mut OutboundSa, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
    let sealed = ipsec::encap(sa, scheduled_out(packet), &mut pool());
    sealed.map(|packet| packet.bytes().to_vec())
}

/// All ways to work on the same packets, one of which is damaged and one of which comes twice.
fn compare(config: &SaConfig, v6: bool, lengths: &[usize], damaged: usize) {
    let (mut out_here, mut in_here) = pair(config);
    let (mut out_apart, mut in_apart) = pair(config);
    let (mut out_steps, mut in_steps) = pair(config);
    for (index, len) in lengths.iter().enumerate() {
        let packet = alice_to_bob(v6, 0, *len);
        let sealed = seal_here(&mut out_here, &packet);
        assert_eq!(sealed, seal_apart(&mut out_apart, &packet), "sealing {len} octets");
        let octets = 1 + len % 300;
        assert_eq!(sealed, seal_in_steps(&mut out_steps, &packet, octets), "sealing {len} octets in steps");
        let Ok(mut sealed) = sealed else { continue };
        if index == damaged
            && let Some(last) = sealed.last_mut()
        {
            *last ^= 1;
        }
        for _ in 0..2 {
            let opened = open_here(&mut in_here, &sealed);
            assert_eq!(opened, open_apart(&mut in_apart, &sealed), "opening {len} octets");
            assert_eq!(
                opened,
                open_in_steps(&mut in_steps, &sealed, octets),
                "opening {len} octets in steps"
            );
        }
    }
    assert_eq!(out_here.counters, out_apart.counters);
    assert_eq!(in_here.counters, in_apart.counters);
    assert_eq!(out_here.counters, out_steps.counters);
    assert_eq!(in_here.counters, in_steps.counters);
    assert_eq!(out_here.next_sequence(), out_apart.next_sequence());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// ESP, of every suite.
    #[test]
    fn esp_elsewhere_is_esp_here(
        suite in proptest::sample::select(esp_suites()),
        mode in proptest::sample::select(MODES.to_vec()),
        v6: bool,
        extended: bool,
        lengths in proptest::collection::vec(0..1400usize, 1..6),
        damaged in 0..8usize,
    ) {
        let mut config = outbound_config(mode, suite, v6);
        config.options.extended_sequence = extended;
        compare(&config, v6, &lengths, damaged);
    }

    /// AH, of every algorithm.
    #[test]
    fn ah_elsewhere_is_ah_here(
        suite in proptest::sample::select(ah_suites()),
        mode in proptest::sample::select(MODES.to_vec()),
        v6: bool,
        lengths in proptest::collection::vec(0..1200usize, 1..6),
        damaged in 0..8usize,
    ) {
        compare(&ah_config(mode, suite, v6), v6, &lengths, damaged);
    }

    /// A batch in slots, sealed and opened, with damaged, repeated and short datagrams in it.
    #[test]
    fn slots_elsewhere_are_slots_here(
        suite in proptest::sample::select(SUITES.into_iter().chain(esp_suites()).collect::<Vec<_>>()),
        octets in 1..2000usize,
        count in 1..=slot::BATCH,
        len in 60..900usize,
        damaged in 0..20usize,
        repeated in 0..20usize,
    ) {
        let config = outbound_config(Mode::Tunnel, suite, false);
        let (mut sender, _) = pair(&config);
        let sealed = slots(&mut sender, count, len, Execution::Here);
        for execution in [Execution::Apart, Execution::Steps(octets)] {
            let (mut again, _) = pair(&config);
            prop_assert_eq!(&sealed, &slots(&mut again, count, len, execution));
        }

        let stride = sealed.len() / count;
        let mut sealed = sealed;
        if damaged < count {
            sealed[damaged * stride + stride - 1] ^= 1;
        }
        if repeated + 1 < count {
            sealed.copy_within(repeated * stride..(repeated + 1) * stride, (repeated + 1) * stride);
        }
        sealed.truncate(sealed.len() - usize::from(damaged == count) * 3);
        let (_, mut here) = pair(&config);
        let left = open_slots(&mut here, sealed.clone(), stride, Execution::Here);
        prop_assert!(left.0.iter().any(|opened| opened.dropped.is_none()) || count <= 2);
        for execution in [Execution::Apart, Execution::Steps(octets)] {
            let (_, mut other) = pair(&config);
            prop_assert_eq!(&left, &open_slots(&mut other, sealed.clone(), stride, execution));
            prop_assert_eq!(&here.counters, &other.counters);
        }
    }

    /// A member of a bundle: ESP in AH, both elsewhere.
    #[test]
    fn a_bundle_elsewhere_is_a_bundle_here(v6: bool, len in 0..1000usize) {
        let inner = alice_to_bob(v6, 0, len);
        let esp = crate::auth::bare_config(
            sadb::sa::SaProtocol::Esp, Mode::Tunnel, SuiteId::AES_128_GCM, v6,
        );
        let ah = ah_config(Mode::Transport, sha256(), v6);
        let mut results = Vec::new();
        for apart in [false, true] {
            let ((mut esp_out, mut esp_in), (mut ah_out, mut ah_in)) = (pair(&esp), pair(&ah));
            let seal: Seal = if apart { seal_apart } else { seal_here };
            let open: Open = if apart { open_apart } else { open_here };
            let first = seal(&mut esp_out, &inner).unwrap();
            let both = seal(&mut ah_out, &first).unwrap();
            let outside = open(&mut ah_in, &both).unwrap();
            prop_assert_eq!(&open(&mut esp_in, &outside).unwrap(), &inner);
            results.push((first, both, outside));
        }
        prop_assert_eq!(&results[0], &results[1]);
    }
}

/// Where the cipher's work is done.
#[derive(Clone, Copy)]
enum Execution {
    /// The job is computed at once.
    Here,
    /// The job is computed on another thread.
    Apart,
    /// In steps of so many octets.
    Steps(usize),
}

/// Datagrams of `count` packets, sealed in slots.
fn slots(sa: &mut OutboundSa, count: usize, len: usize, execution: Execution) -> Vec<u8> {
    let packet = alice_to_bob(false, 0, len);
    let frame = slot::Frame::new(sa, &packet, &Headers::parse(&packet).unwrap()).unwrap();
    let stride = frame.slot_len(packet.len());
    let mut octets = vec![0; stride * count];
    let first = sa.next_sequence();
    for slot in octets.chunks_mut(stride) {
        slot[frame.front()..frame.front() + packet.len()].copy_from_slice(&packet);
        let sequence = sa.next_packet(Time(1), packet.len()).unwrap();
        frame.write(slot, packet.len(), sequence).unwrap();
    }
    let (key, shape): (Key, _) = (sa.key().clone(), sa.shape());
    let sealed = octets.clone();
    let work = move || {
        let mut octets = sealed;
        slot::seal(&key, shape, first, octets.chunks_mut(stride)).unwrap();
        octets
    };
    match execution {
        Execution::Here => work(),
        Execution::Apart => elsewhere(work),
        Execution::Steps(most) => {
            let mut steps = Steps::default();
            in_steps(most, |most| {
                let slots = octets.chunks_mut(stride);
                slot::seal_step(sa.key(), shape, first, slots, &mut steps, most).transpose()
            })
            .unwrap();
            octets
        }
    }
}

/// The datagrams after opening, and what became of each.
fn open_slots(
    sa: &mut InboundSa,
    octets: Vec<u8>,
    stride: usize,
    execution: Execution,
) -> (Vec<Opened>, Vec<u8>) {
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
    let mut octets = octets;
    let mut opened = vec![Opened::NONE; octets.len().div_ceil(stride)];
    if matches!(execution, Execution::Here) {
        slot::open(sa, Time(1), &outer, &mut octets, (stride, 0), &mut opened);
        return (opened, octets);
    }
    slot::prepare_batch(sa, &octets, (stride, 0), &mut opened);
    let (key, shape) = (sa.key().clone(), sa.shape());
    if let Execution::Steps(most) = execution {
        let (mut steps, ends) = (Steps::default(), (stride, 0));
        in_steps(most, |most| {
            slot::compute_step(&key, shape, &mut octets, ends, &mut opened, &mut steps, most).then_some(())
        });
    } else {
        (opened, octets) = elsewhere(move || {
            slot::compute_batch(&key, shape, &mut octets, (stride, 0), &mut opened);
            (opened, octets)
        });
    }
    slot::finish_batch(sa, Time(1), &outer, &mut octets, (stride, 0), &mut opened);
    (opened, octets)
}

/// A job that is computed after its association is gone gives the same octets.
#[test]
fn a_job_outlives_its_association() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_256_GCM, false);
    let (mut here, _) = pair(&config);
    let expected = seal_here(&mut here, &alice_to_bob(false, 0, 100)).unwrap();
    let (mut sa, _) = pair(&config);
    let mut packet = scheduled_out(&alice_to_bob(false, 0, 100));
    let job = ipsec::prepare_seal(&mut sa, &mut packet, 1500).unwrap();
    let key = sa.key().clone();
    drop(sa);
    job.compute(&key, packet.bytes_mut()).unwrap();
    assert_eq!(packet.bytes(), expected);
}

/// A limit of the lifetime counts packets that are being computed: the second packet is refused though the first is not
/// finished.
#[test]
fn the_lifetime_knows_of_jobs_under_way() {
    let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    config.options.lifetime.hard.packets = 1;
    let (mut sa, _) = pair(&config);
    let mut first = scheduled_out(&alice_to_bob(false, 0, 10));
    assert!(ipsec::prepare_seal(&mut sa, &mut first, 1500).is_ok());
    let mut second = scheduled_out(&alice_to_bob(false, 0, 10));
    assert_eq!(ipsec::prepare_seal(&mut sa, &mut second, 1500).err(), Some(DropReason::SaExpired));
}

/// Nothing is open that was not computed: a datagram is dropped until it is proved.
#[test]
fn what_is_not_computed_is_not_opened() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let (mut sender, mut sa) = pair(&config);
    let octets = slots(&mut sender, 2, 100, Execution::Here);
    let mut opened = [Opened::NONE; 2];
    slot::prepare_batch(&sa, &octets, (octets.len() / 2, 0), &mut opened);
    assert!(opened.iter().all(|opened| opened.dropped == Some(DropReason::AuthFailed)));
    slot::compute_batch(&Key::None, sa.shape(), &mut octets.clone(), (octets.len() / 2, 0), &mut opened);
    assert!(opened.iter().all(|opened| opened.dropped == Some(DropReason::AuthFailed)));
    assert_eq!(sa.age(Time(1)), None);
}

/// Who gives a burst up in the middle and forgets to say so seals no other one as if its first packets were done.
#[test]
fn steps_of_one_burst_do_not_go_on_with_another() {
    let config = outbound_config(Mode::Tunnel, "aes256ctr-sha256".parse().unwrap(), false);
    let (sa, _) = pair(&config);
    let (mut steps, mut octets) = (Steps::default(), vec![1; 500]);
    let mut step = |first, slots: &mut [u8]| {
        slot::seal_step(sa.key(), sa.shape(), first, slots.chunks_mut(100), &mut steps, &mut 20)
    };
    assert_eq!(step(1, &mut octets), Ok(None));
    assert_eq!(step(6, &mut octets), Err(DropReason::UnitFailed));
    assert_eq!(octets, [0; 500]);
}
