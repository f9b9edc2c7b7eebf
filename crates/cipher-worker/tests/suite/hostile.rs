//! A worker that writes anything into its memory at any time: no panic, no plaintext, no forged packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cipher_worker::{Isolated, Settings, layout, serve};
use crypto::custom::{CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError};
use crypto::{Provider, Secret, SuiteId, Suites, Transform, UnitFailed};
use crypto_std::CustomProvider;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::lies::{Lie, MARK, lie, tell};
use crate::start::{Packet, open, seal, until};

/// A description of each kind.
fn descriptions() -> [CustomDescription; 3] {
    [Primitive::Block { block_len: 16 }, Primitive::Stream, Primitive::Aead { tag_len: 16 }].map(
        |primitive| CustomDescription {
            name: "hostile".to_owned(),
            version: "1".to_owned(),
            vendor: "tests".to_owned(),
            primitive,
            key_len: 32,
            max_octets: None,
        },
    )
}

/// A cipher that is as simple as it can be, for a worker in a thread and for the host itself.
struct Simple(CustomDescription);

struct SimpleKey(u8);

impl SimpleKey {
    fn octet(&self, at: usize) -> u8 {
        (at as u8).wrapping_mul(31) ^ self.0 | 1
    }
}

impl crypto::custom::BlockKey for SimpleKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        blocks
            .iter_mut()
            .enumerate()
            .for_each(|(at, octet)| *octet = octet.wrapping_add(self.octet(at % 16)));
        Ok(())
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        blocks
            .iter_mut()
            .enumerate()
            .for_each(|(at, octet)| *octet = octet.wrapping_sub(self.octet(at % 16)));
        Ok(())
    }
}

impl crypto::custom::StreamKey for SimpleKey {
    fn xor_batch(&self, ops: &mut [crypto::custom::StreamOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let last = op.nonce.last().copied().unwrap_or(0);
            op.data
                .iter_mut()
                .enumerate()
                .for_each(|(at, octet)| *octet ^= self.octet(at).wrapping_add(last) | 1);
        }
        Ok(())
    }
}

impl crypto::custom::AeadKey for SimpleKey {
    fn seal_batch(&self, ops: &mut [crypto::custom::AeadOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            op.data.iter_mut().enumerate().for_each(|(at, octet)| *octet ^= self.octet(at));
            op.tag.fill(op.data.iter().fold(self.0, |sum, octet| sum.rotate_left(1) ^ octet));
        }
        Ok(())
    }

    fn open_batch(&self, ops: &mut [crypto::custom::AeadOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let tag = op.data.iter().fold(self.0, |sum, octet| sum.rotate_left(1) ^ octet);
            op.ok = op.tag.iter().all(|octet| *octet == tag);
            op.data.iter_mut().enumerate().for_each(|(at, octet)| *octet ^= self.octet(at));
        }
        Ok(())
    }
}

impl CustomCipher for Simple {
    fn description(&self) -> &CustomDescription {
        &self.0
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let key = SimpleKey(key.first().copied().unwrap_or(0));
        Ok(match self.0.primitive {
            Primitive::Block { .. } => CustomKey::Block(Box::new(key)),
            Primitive::Stream => CustomKey::Stream(Box::new(key)),
            Primitive::Aead { .. } => CustomKey::Aead(Box::new(key)),
        })
    }
}

/// The host's half with an honest worker in a thread, which ends when it is told.
struct Lab {
    isolated: Arc<Isolated>,
    suites: Suites,
}

/// The key of the suite that the host makes of this kind, set up by an honest worker.
fn honest<R>(
    description: &CustomDescription,
    then: impl FnOnce(&Lab, Vec<Box<dyn Transform>>, SuiteId) -> R,
) -> R {
    let settings = Settings {
        keys: 4,
        deadline: Duration::from_secs(1),
        key_deadline: Duration::from_secs(1),
        ..Settings::default()
    };
    let isolated = Arc::new(Isolated::detached(description.clone(), settings).unwrap());
    let mut suites = Suites::standard();
    suites.register(description, 61_000, true).unwrap();
    let lab = Lab { isolated: isolated.clone(), suites };
    let (stop, worker) = (AtomicBool::new(false), isolated.clone());
    let (keys, suite) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let cipher = Simple(description.clone());
            serve(&cipher, worker.host_memory(), worker.worker_memory(), &stop).unwrap();
        });
        let stopped = Stop(&stop);
        // What is asked before it looks is old.
        until("the worker is ready", || {
            isolated.worker_memory().word(layout::worker::STATE).unwrap().load(Ordering::Acquire) == 1
        });
        let provider = CustomProvider::new(isolated.clone(), &lab.suites).unwrap();
        let name = match description.primitive {
            Primitive::Block { .. } => "hostilectr-sha256",
            Primitive::Stream => "hostile-sha256",
            Primitive::Aead { .. } => "hostile",
        };
        let suite = lab.suites.find(name).unwrap();
        let keymat = Secret::new(vec![7; suite.keymat_len()]);
        let keys: Vec<_> = (0..2).map(|_| provider.transform(suite, &keymat, false).unwrap()).collect();
        // A series, so that there is a ring.
        for first in [1, 17] {
            let mut packets: Vec<Packet> = (first..first + 16).map(|n| plain(suite, n)).collect();
            seal(&*keys[0], &mut packets).unwrap();
        }
        drop(stopped);
        (keys, suite)
    });
    then(&lab, keys, suite)
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A packet whose every eight octets are known.
fn plain(suite: SuiteId, sequence: u64) -> Packet {
    let mut packet = Packet::new(suite, sequence, 400);
    packet.data.as_chunks_mut::<8>().0.fill(MARK);
    packet
}

/// What must be true of a batch that was sealed and opened among lies.
fn check(
    suite: SuiteId,
    key: &dyn Transform,
    first: u64,
    lies: &[Lie],
    isolated: &Isolated,
) -> Result<(), TestCaseError> {
    isolated.resume();
    lies.iter().for_each(|lie| tell(isolated, lie, 0));
    let mut packets: Vec<Packet> = (first..first + 4).map(|number| plain(suite, number)).collect();
    let sealed = seal(key, &mut packets);
    for packet in &packets {
        let leaks = packet.data.as_chunks::<8>().0.contains(&MARK);
        prop_assert!(!leaks, "plaintext {}", if sealed.is_ok() { "leaves" } else { "is left" });
        prop_assert!(sealed.is_ok() || packet.data.iter().all(|octet| *octet == 0));
    }
    // Forged packets: integrity is the host's, unless the suite rests on the cipher alone.
    isolated.resume();
    lies.iter().for_each(|lie| tell(isolated, lie, 0));
    let mut forged: Vec<Packet> = (first..first + 4).map(|number| plain(suite, number)).collect();
    if let Ok(genuine) = open(key, &mut forged) {
        let alone = suite.icv_len() == 16 && !suite.to_string().contains("sha256");
        prop_assert!(alone || genuine.iter().all(|ok| !ok), "a forged packet");
    }
    Ok(())
}

/// The lies come between calls, one thread; a call finds its answer there or is refused by a short deadline.
#[test]
fn lies_between_calls_give_no_plaintext_and_no_forged_packet() {
    for description in descriptions() {
        let settings = Settings {
            keys: 4,
            deadline: Duration::from_micros(200),
            key_deadline: Duration::from_micros(200),
            spin: Duration::ZERO,
            ..Settings::default()
        };
        let strategy = proptest::collection::vec(proptest::collection::vec(lie(), 0..12), 1..6);
        TestRunner::new(ProptestConfig { cases: 60, ..ProptestConfig::default() })
            .run(&strategy, |rounds| {
                let isolated = Arc::new(Isolated::detached(description.clone(), settings).unwrap());
                // The worker says yes to a key that it never had.
                (0..layout::LANES).for_each(|lane| tell(&isolated, &Lie::Reply(lane, 1), 0));
                let Ok(key) = isolated.set_key(&[7; 32]) else { return Err(TestCaseError::fail("no key")) };
                calls(&key, &isolated, &rounds)
            })
            .unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The calls of a key among lies, without the host's integrity around them.
fn calls(key: &CustomKey, isolated: &Isolated, rounds: &[Vec<Lie>]) -> Result<(), TestCaseError> {
    use crypto::custom::{AeadOp, CbcOp, CtrOp, StreamOp};
    for (lies, number) in rounds.iter().zip(30u64..) {
        let tells = || {
            (0..layout::LANES).for_each(|lane| tell(isolated, &Lie::Reply(lane, 1), 0));
            lies.iter().for_each(|lie| tell(isolated, lie, 0));
        };
        let mut nonce = [3; 16];
        nonce[4..12].copy_from_slice(&number.to_be_bytes());
        let mut data = MARK.repeat(50);
        isolated.resume();
        tells();
        let done = match key {
            CustomKey::Block(key) => {
                let mut blocks = MARK.repeat(4);
                let done = key.encrypt_blocks(&mut blocks);
                prop_assert!(!blocks.as_chunks::<8>().0.contains(&MARK));
                prop_assert!(done.is_ok() || blocks == [0; 32]);
                isolated.resume();
                tells();
                let mut chained = MARK.repeat(8);
                let done = key.cbc_encrypt_batch(&mut [CbcOp { iv: nonce, data: &mut chained }]);
                prop_assert!(!chained.as_chunks::<8>().0.contains(&MARK));
                prop_assert!(done.is_ok() || chained == [0; 64]);
                isolated.resume();
                tells();
                key.ctr_xor_batch(&mut [CtrOp { counter: nonce, data: &mut data }])
            }
            CustomKey::Stream(key) => {
                key.xor_batch(&mut [StreamOp { nonce: &nonce[..12], offset: 0, data: &mut data }])
            }
            CustomKey::Aead(key) => {
                let mut tag = [0; 16];
                let op =
                    AeadOp { nonce: &nonce[..12], aad: b"header", data: &mut data, tag: &mut tag, ok: false };
                key.seal_batch(&mut [op])
            }
        };
        prop_assert!(!data.as_chunks::<8>().0.contains(&MARK), "{done:?}");
        prop_assert!(done.is_ok() || data.iter().all(|octet| *octet == 0));
    }
    Ok(())
}

/// The lies come from another thread while packets are sealed and opened.
#[test]
fn lies_during_calls_give_no_plaintext_and_no_forged_packet() {
    for description in descriptions() {
        honest(&description, |lab, keys, suite| {
            let (stop, now) = (AtomicBool::new(false), AtomicU64::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut runner = TestRunner::deterministic();
                    let lies = lie();
                    while !stop.load(Ordering::Relaxed) {
                        let value = lies.new_tree(&mut runner).unwrap().current();
                        tell(&lab.isolated, &value, now.load(Ordering::Relaxed));
                        for lane in 0..layout::LANES {
                            tell(&lab.isolated, &Lie::Reply(lane, 0), 0);
                            // Who sleeps is woken, or every call would end by its deadline.
                            let at = layout::lane(lane) + layout::lane::REPLY;
                            let reply = lab.isolated.worker_memory().word(at).unwrap();
                            rustix::thread::futex::wake(reply, rustix::thread::futex::Flags::empty(), 9)
                                .unwrap();
                        }
                    }
                });
                let stopped = Stop(&stop);
                for round in 0..400 {
                    let first = 33 + round * 4;
                    now.store(round * 4, Ordering::Relaxed);
                    if let Err(error) = check(suite, &*keys[(round % 2) as usize], first, &[], &lab.isolated)
                    {
                        panic!("{suite}: {error}");
                    }
                }
                drop(stopped);
            });
        });
    }
}

/// The forms that a device or a cheat would have: what the ring has is used only if it is for this packet and hides it.
#[test]
fn the_ring_is_used_only_where_it_is_for_this_packet_and_hides_it() {
    let [block, ..] = descriptions();
    honest(&block, |lab, keys, suite| {
        let asked =
            |key| lab.isolated.host_memory().word(layout::record(key)).unwrap().load(Ordering::Relaxed);
        let ring = (0..4).find(|key| asked(*key) != 0).expect("a ring");
        let generation = asked(ring);
        let write = |number: u64, stated: u64, generation: u32, len: u32, stream: &[u8]| {
            let (worker, at) = (lab.isolated.worker_memory(), layout::place(ring, number));
            worker.word(at + layout::place::GENERATION).unwrap().store(generation, Ordering::Relaxed);
            worker.word(at + layout::place::LEN).unwrap().store(len, Ordering::Relaxed);
            worker.long(at + layout::place::NUMBER).unwrap().store(stated, Ordering::Relaxed);
            worker.put(at + layout::PLACE_HEAD, stream).unwrap();
        };
        let used = |number: u64| {
            lab.isolated.resume();
            let before = lab.isolated.report().ahead;
            let mut packets = [plain(suite, number)];
            let done = seal(&*keys[0], &mut packets);
            (done.is_ok(), lab.isolated.report().ahead - before, packets[0].data.clone())
        };
        let good = [0xa5; 512];
        // Key stream that is for it. The key stream is whatever the worker says; that is what a worker is.
        write(200, 200, generation, 512, &good);
        let (done, ahead, data) = used(200);
        assert!(done && ahead == 1);
        assert!(data.iter().zip(MARK.iter().cycle()).all(|(got, plain)| got ^ plain == 0xa5));
        // Key stream that would hide nothing of eight octets.
        let mut zero = good;
        zero[96..104].fill(0);
        write(201, 201, generation, 512, &zero);
        let (done, _, data) = used(201);
        assert!(!done && data.iter().all(|octet| *octet == 0));
        // What is for something else is no answer: the host asks.
        for (number, stated, with, len) in
            [(202, 202 + 682, generation, 512), (203, 203, generation + 1, 512), (204, 204, generation, 399)]
        {
            write(number, stated, with, len, &good);
            // The answer is there already: other key stream, in the first lane.
            tell(&lab.isolated, &Lie::Fill(0, 0x3c), 0);
            tell(&lab.isolated, &Lie::Status(0, 0), 0);
            tell(&lab.isolated, &Lie::Reply(0, 1), 0);
            let (done, ahead, data) = used(number);
            assert!(done && ahead == 0, "{number}");
            assert!(data.iter().zip(MARK.iter().cycle()).all(|(got, plain)| got ^ plain == 0x3c), "{number}");
        }
        // Length that no place has: the host's own length counts.
        write(205, 205, generation, u32::MAX, &good);
        assert!(used(205).0);
    });
}
