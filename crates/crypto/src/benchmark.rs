//! Which of several providers of a suite is the fastest here: sealing of a few packets, timed with a clock of the caller.

use crate::{HEADER_LEN, MAX_ICV_LEN, MAX_IV_LEN, Provider, SealOp, Secret, SuiteId, Transform};

/// The octets of a short packet (an acknowledgement) and of a full one, rounded up to the cipher's block.
const SIZES: [usize; 2] = [64, 1400];
/// Packets sealed in one go.
const BATCH: usize = 16;
/// The best of so many counts: whatever else the machine does makes a measurement longer, never shorter.
const ROUNDS: usize = 5;

/// The time that one provider needs for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The name of the provider that was measured.
    pub provider: &'static str,
    /// Nanoseconds to seal 64 octets.
    pub short_ns: u64,
    /// Nanoseconds to seal 1400 octets.
    pub full_ns: u64,
}

impl Measurement {
    /// Nanoseconds for one short and one full packet: traffic has as many acknowledgements as full packets.
    fn cost(&self) -> u64 {
        self.short_ns + self.full_ns
    }
}

/// The first of all that needs less than nine tenths of everyone before it: noise alone does not change the choice.
pub(crate) fn fastest(all: &[Measurement]) -> Option<&'static str> {
    let mut rest = all.iter();
    let mut best = rest.next()?;
    for one in rest {
        if one.cost() * 10 < best.cost() * 9 {
            best = one;
        }
    }
    Some(best.provider)
}

/// Measure each of the providers, in turns. One that makes no key, or fails to seal, is left out.
pub(crate) fn run(
    providers: &[&dyn Provider],
    suite: SuiteId,
    clock: &mut dyn FnMut() -> u64,
) -> Vec<Measurement> {
    // A key that protects nothing.
    let keymat = Secret::new((0..suite.keymat_len()).map(|i| i as u8).collect());
    let keys = providers.iter().filter_map(|p| Some((p.name(), p.transform(suite, &keymat, true).ok()?)));
    let keys: Vec<_> = keys.collect();
    // `None`: it has failed.
    let mut best = vec![[Some(u64::MAX); SIZES.len()]; keys.len()];
    let mut packets = Packets::default();
    for _ in 0..ROUNDS {
        for ((_, key), best) in keys.iter().zip(&mut best) {
            for (octets, best) in SIZES.iter().zip(best) {
                let octets = octets.next_multiple_of(suite.block_len());
                let spent = packets.seal(key.as_ref(), suite, octets, clock);
                *best = best.zip(spent).map(|(best, spent)| best.min(spent));
            }
        }
    }
    let all = keys.iter().zip(best);
    all.filter_map(|((provider, _), [short_ns, full_ns])| {
        Some(Measurement { provider, short_ns: short_ns?, full_ns: full_ns? })
    })
    .collect()
}

#[derive(Default)]
struct Packets {
    sequence: u64,
    data: Vec<u8>,
}

impl Packets {
    /// Nanoseconds for each of [`BATCH`] packets; `None` if the unit fails.
    fn seal(
        &mut self,
        key: &dyn Transform,
        suite: SuiteId,
        octets: usize,
        clock: &mut dyn FnMut() -> u64,
    ) -> Option<u64> {
        self.data.resize(BATCH * octets, 0);
        let mut ivs = [[0; MAX_IV_LEN]; BATCH];
        let mut icvs = [[0; MAX_ICV_LEN]; BATCH];
        let header = [0; HEADER_LEN];
        let data = self.data.chunks_exact_mut(octets.max(1));
        let mut ops: Vec<_> = data
            .zip(&mut ivs)
            .zip(&mut icvs)
            .filter_map(|((data, iv), icv)| {
                self.sequence += 1;
                let (iv, icv) = (iv.get_mut(..suite.iv_len())?, icv.get_mut(..suite.icv_len())?);
                Some(SealOp { sequence: self.sequence, header: &header, iv, data, icv })
            })
            .collect();
        let start = clock();
        let sealed = key.seal_batch(&mut ops);
        let spent = clock().saturating_sub(start) / BATCH as u64;
        sealed.ok().map(|()| spent)
    }
}
