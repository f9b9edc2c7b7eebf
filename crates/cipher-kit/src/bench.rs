//! The costs of a cipher on this machine: a key, the cipher alone, whole packets of a suite.
//!
//! What enters: a cipher, in whatever isolation it runs. What leaves: nanoseconds and ticks of the time stamp counter, each the
//! median of some turns. What else runs on the machine is in it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{CipherCost, CipherLength};
use cipher_loader::cycles;
use crypto::custom::{AeadOp, CtrOp, CustomCipher, CustomKey, NONCE_LEN, SetKeyError, StreamOp};
use crypto::{CryptoError, OpenOp, Provider, SealOp, Secret, SuiteId, Suites, Transform, UnitFailed};
use crypto_std::{CustomError, CustomProvider};

/// The lengths of packets that are measured, in octets.
pub const LENGTHS: [usize; 6] = [64, 256, 576, 1400, 4096, 8192];
/// Packets of a batch, as in the daemon.
pub const BATCH: usize = 16;
const TURNS: usize = 7;
/// Octets that a turn works on, about.
const OCTETS: usize = 2_000_000;
/// Keys that a turn sets.
const KEYS: usize = 64;

/// Why a cipher could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The host could not make the suites of the cipher.
    #[error(transparent)]
    Provider(#[from] CustomError),
    /// The host could not make a key of the suite.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// The cipher took no key.
    #[error("the cipher refused a key: {0}")]
    Key(#[from] SetKeyError),
    /// What runs the cipher failed.
    #[error("the cipher failed on a batch of packets: {0}")]
    Unit(#[from] UnitFailed),
    /// A packet that was just sealed did not authenticate.
    #[error("a packet that was just sealed did not open; `ravelin cipher check` says what is wrong")]
    Open,
}

/// A cipher to be measured under one of its suites.
pub struct Bench {
    cipher: Arc<dyn CustomCipher>,
    provider: CustomProvider,
    suite: SuiteId,
    keymat: Secret,
    /// Sequence numbers that are left out behind each packet.
    gap: u64,
}

impl Bench {
    /// Prepare a cipher and a suite for the measurement. `gap` sequence numbers are left out behind each packet, so that there is
    /// no series for which key stream could be computed ahead; 0 leaves out none.
    ///
    /// # Errors
    /// [`BenchError::Provider`], if the host cannot make the cipher's suites.
    pub fn new(
        cipher: Arc<dyn CustomCipher>,
        suites: &Suites,
        suite: SuiteId,
        gap: u64,
    ) -> Result<Bench, BenchError> {
        let provider = CustomProvider::new(Arc::clone(&cipher), suites)?;
        let keymat = Secret::new((0..suite.keymat_len()).map(|octet| octet as u8 ^ 0x5a).collect());
        Ok(Bench { cipher, provider, suite, keymat, gap })
    }

    fn key(&self) -> Result<Box<dyn Transform>, BenchError> {
        Ok(self.provider.transform(self.suite, &self.keymat, false)?)
    }

    /// The cost of setting a key, with what the host keeps of it.
    ///
    /// # Errors
    /// [`BenchError`], if the cipher takes no key.
    pub fn setkey(&self) -> Result<CipherCost, BenchError> {
        let mut turns = Vec::new();
        for _ in 0..TURNS {
            let mut watch = Watch::default();
            for _ in 0..KEYS {
                watch.time(|| self.key().map(|key| drop(black_box(key))))?;
            }
            turns.push(watch.each(KEYS));
        }
        Ok(median(turns))
    }

    /// The costs of packets of each of [`LENGTHS`]; with `alone` those of the cipher alone, too.
    ///
    /// # Errors
    /// [`BenchError`], if the cipher or what runs it fails.
    pub fn lengths(&self, alone: bool) -> Result<Vec<CipherLength>, BenchError> {
        LENGTHS.iter().map(|octets| self.length(*octets, alone)).collect()
    }

    /// The cost of packets of one length, as [`Bench::lengths`] has it.
    ///
    /// # Errors
    /// [`BenchError`], if the cipher or what runs it fails.
    pub fn length(&self, octets: usize, alone: bool) -> Result<CipherLength, BenchError> {
        let (sender, receiver) = (self.key()?, self.key()?);
        let mut packets = Packets::new(self.suite, octets, self.gap + 1);
        let (mut sealed, mut opened) = (Vec::new(), Vec::new());
        let count = batches(octets);
        for _ in 0..TURNS {
            let (mut seal, mut open) = (Watch::default(), Watch::default());
            for _ in 0..count {
                packets.seal(sender.as_ref(), &mut seal)?;
                packets.open(receiver.as_ref(), &mut open)?;
                packets.first += BATCH as u64 * packets.step;
            }
            sealed.push(seal.each(count * BATCH));
            opened.push(open.each(count * BATCH));
        }
        let cipher = if alone { Some(self.alone(octets)?) } else { None };
        Ok(CipherLength { octets, cipher, seal: median(sealed), open: median(opened) })
    }

    /// The cost of the cipher alone for a packet.
    fn alone(&self, octets: usize) -> Result<CipherCost, BenchError> {
        let secret =
            (0..self.cipher.description().key_len).map(|octet| octet as u8 ^ 0x5a).collect::<Vec<_>>();
        let key = self.cipher.set_key(&secret)?;
        let mut data = vec![vec![0; octets]; BATCH];
        let count = batches(octets);
        let mut turns = Vec::new();
        for _ in 0..TURNS {
            let mut watch = Watch::default();
            for _ in 0..count {
                watch.time(|| cipher_batch(&key, &mut data))?;
            }
            turns.push(watch.each(count * BATCH));
        }
        Ok(median(turns))
    }
}

/// One batch by the cipher without the host's part.
fn cipher_batch(key: &CustomKey, data: &mut [Vec<u8>]) -> Result<(), UnitFailed> {
    let nonce = [7; NONCE_LEN];
    match key {
        CustomKey::Block(key) => {
            let mut ops: Vec<_> = data.iter_mut().map(|data| CtrOp { counter: [1; 16], data }).collect();
            key.ctr_xor_batch(&mut ops)
        }
        CustomKey::Stream(key) => {
            let mut ops: Vec<_> =
                data.iter_mut().map(|data| StreamOp { nonce: &nonce, offset: 0, data }).collect();
            key.xor_batch(&mut ops)
        }
        CustomKey::Aead(key) => {
            let mut tags = [[0; 16]; BATCH];
            let mut ops: Vec<_> = data
                .iter_mut()
                .zip(&mut tags)
                .map(|(data, tag)| AeadOp { nonce: &nonce, aad: &nonce, data, tag, ok: false })
                .collect();
            key.seal_batch(&mut ops)
        }
    }
}

/// Batches of a turn with packets of this length.
fn batches(octets: usize) -> usize {
    (OCTETS / (octets + 200) / BATCH).max(1)
}

/// Time that operations took together.
#[derive(Default)]
struct Watch {
    time: Duration,
    ticks: u64,
    has_no_ticks: bool,
}

impl Watch {
    fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let (start, before) = (Instant::now(), cycles::now());
        let outcome = operation();
        match (before, cycles::now()) {
            (Some(before), Some(after)) => self.ticks += after.saturating_sub(before),
            _ => self.has_no_ticks = true,
        }
        self.time += start.elapsed();
        outcome
    }

    /// The cost of one of `count` operations.
    fn each(&self, count: usize) -> CipherCost {
        let count = count.max(1) as f64;
        let cycles = (!self.has_no_ticks).then_some(self.ticks as f64 / count);
        CipherCost { ns: self.time.as_nanos() as f64 / count, cycles }
    }
}

/// The turn in the middle.
fn median(mut turns: Vec<CipherCost>) -> CipherCost {
    turns.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    turns.get(turns.len() / 2).copied().unwrap_or(CipherCost { ns: 0.0, cycles: None })
}

/// Sequence numbers from one on.
fn numbers(first: u64, step: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |packet| first + packet * step)
}

/// The parts of a batch of packets, and the sequence number of the first one.
struct Packets {
    headers: Vec<[u8; 8]>,
    ivs: Vec<Vec<u8>>,
    data: Vec<Vec<u8>>,
    icvs: Vec<Vec<u8>>,
    first: u64,
    /// The distance of two sequence numbers.
    step: u64,
}

impl Packets {
    fn new(suite: SuiteId, octets: usize, step: u64) -> Packets {
        let octets = octets.next_multiple_of(suite.block_len());
        Packets {
            headers: vec![[0; 8]; BATCH],
            ivs: vec![vec![0; suite.iv_len()]; BATCH],
            data: vec![vec![0; octets]; BATCH],
            icvs: vec![vec![0; suite.icv_len()]; BATCH],
            first: 1,
            step,
        }
    }

    fn seal(&mut self, key: &dyn Transform, watch: &mut Watch) -> Result<(), UnitFailed> {
        let parts = self.headers.iter().zip(&mut self.ivs).zip(&mut self.data).zip(&mut self.icvs);
        let mut ops: Vec<SealOp<'_>> = numbers(self.first, self.step)
            .zip(parts)
            .map(|(sequence, (((header, iv), data), icv))| SealOp { sequence, header, iv, data, icv })
            .collect();
        watch.time(|| key.seal_batch(&mut ops))
    }

    fn open(&mut self, key: &dyn Transform, watch: &mut Watch) -> Result<(), BenchError> {
        let parts = self.headers.iter().zip(&self.ivs).zip(&mut self.data).zip(&self.icvs);
        let mut ops: Vec<OpenOp<'_>> = numbers(self.first, self.step)
            .zip(parts)
            .map(|(sequence, (((header, iv), data), icv))| OpenOp {
                sequence,
                header,
                iv,
                data,
                icv,
                ok: false,
            })
            .collect();
        watch.time(|| key.open_batch(&mut ops))?;
        if ops.iter().all(|op| op.ok) { Ok(()) } else { Err(BenchError::Open) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto_maes::{Maes512, TRANSFORM_ID};

    #[test]
    fn every_length_is_sealed_opened_and_timed() {
        let cipher: Arc<dyn CustomCipher> = Arc::new(Maes512::new());
        let mut suites = Suites::standard();
        suites.register(cipher.description(), TRANSFORM_ID, true).unwrap();
        let suite = suites.find("maes512ctr-sha256").unwrap();
        let bench = Bench::new(cipher, &suites, suite, 3).unwrap();
        assert!(bench.setkey().unwrap().ns > 0.0);
        let costs = bench.length(1400, true).unwrap();
        // More is done in a whole packet than in its cipher; no bound on time is checked.
        assert!(costs.cipher.unwrap().ns > 0.0 && costs.seal.ns > 0.0 && costs.open.ns > 0.0);
        assert_eq!(costs.seal.cycles.is_some(), cfg!(target_arch = "x86_64"));
        let without = bench.length(64, false).unwrap();
        assert_eq!((without.cipher, without.octets), (None, 64));
    }
}
