//! Key stream for numbers to come.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use crypto::UnitFailed;
use crypto::custom::{CtrOp, CustomKey, StreamOp};

use super::Server;
use crate::ahead::{NONCE, Wanted};
use crate::layout::{self, PLACE_DATA, PLACE_HEAD, PLACES, place, record};
use crate::memory::Outside;

/// Numbers that are computed between two looks at the lanes.
const NUMBERS: usize = 8;

/// Key stream on its way to the ring. A place never has anything but finished key stream: the host may be reading.
pub(super) type Scratch = [Line; NUMBERS];

/// Key stream of one number.
pub(super) struct Line([u8; PLACE_DATA]);

impl Default for Line {
    fn default() -> Line {
        Line([0; PLACE_DATA])
    }
}

/// How far a key's ring is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    generation: u32,
    /// The first number that is not there.
    next: u64,
}

/// What the host's record asks for.
struct Asked {
    generation: u32,
    octets: usize,
    from: u64,
    template: [u8; NONCE],
}

impl Server<'_> {
    /// The host's record about a key, if it is one and did not change meanwhile.
    fn asked(&self, key: usize) -> Result<Option<Asked>, Outside> {
        let at = layout::record(key);
        let word = self.host.word(at + record::GENERATION)?;
        let generation = word.load(Acquire);
        if generation == 0 {
            return Ok(None);
        }
        let octets = self.host.word(at + record::OCTETS)?.load(Relaxed) as usize;
        let from = self.host.long(at + record::FROM)?.load(Relaxed);
        let mut template = [0; NONCE];
        self.host.take(at + record::TEMPLATE, &mut template)?;
        fence(Acquire);
        let same = word.load(Relaxed) == generation && octets <= PLACE_DATA;
        Ok(same.then_some(Asked { generation, octets, from, template }))
    }

    /// Compute key stream for a few numbers. Whether there was anything to compute.
    pub(super) fn go_ahead(&mut self, key: usize) -> Result<bool, Outside> {
        let Some(asked) = self.asked(key)? else { return Ok(false) };
        let Some(held) = self.keys.get_mut(key).and_then(Option::as_mut) else { return Ok(false) };
        let progress = &mut held.ahead;
        if progress.generation != asked.generation {
            *progress = Progress { generation: asked.generation, next: asked.from };
        }
        let first = progress.next.max(asked.from);
        let left = asked.from.saturating_add(PLACES as u64).saturating_sub(first);
        let count = usize::try_from(left).unwrap_or(NUMBERS).min(NUMBERS);
        if count == 0 {
            return Ok(false);
        }
        progress.next = first.saturating_add(count as u64);
        let lines = self.scratch.get_mut(..count).ok_or(Outside)?;
        if compute(&held.key, &asked, first, lines).is_err() {
            // The call for the number will tell the host.
            return Ok(true);
        }
        for (line, number) in self.scratch.iter().take(count).zip(first..) {
            let at = layout::place(key, number);
            let generation = self.worker.word(at + place::GENERATION)?;
            generation.store(0, Relaxed);
            fence(Release);
            self.worker.put(at + PLACE_HEAD, line.0.get(..asked.octets).ok_or(Outside)?)?;
            let len = u32::try_from(asked.octets).map_err(|_| Outside)?;
            self.worker.word(at + place::LEN)?.store(len, Relaxed);
            self.worker.long(at + place::NUMBER)?.store(number, Relaxed);
            generation.store(asked.generation, Release);
        }
        Ok(true)
    }
}

fn compute(key: &CustomKey, asked: &Asked, first: u64, lines: &mut [Line]) -> Result<(), UnitFailed> {
    let mut nonces = [[0; NONCE]; NUMBERS];
    for (nonce, number) in nonces.iter_mut().zip(first..) {
        *nonce = Wanted::nonce(&asked.template, number);
    }
    let count = lines.len();
    let mut rest = lines.iter_mut().zip(&nonces).map(|(line, nonce)| {
        let data = line.0.get_mut(..asked.octets).unwrap_or_default();
        data.fill(0);
        (data, nonce)
    });
    match key {
        CustomKey::Block(key) => {
            let mut ops: [CtrOp<'_>; NUMBERS] = std::array::from_fn(|_| {
                let (data, nonce) = rest.next().unwrap_or((&mut [], &[0; NONCE]));
                CtrOp { counter: *nonce, data }
            });
            key.ctr_xor_batch(ops.get_mut(..count).ok_or(UnitFailed)?)
        }
        CustomKey::Stream(key) => {
            let mut ops: [StreamOp<'_>; NUMBERS] = std::array::from_fn(|_| {
                let (data, nonce) = rest.next().unwrap_or((&mut [], &[0; NONCE]));
                StreamOp { nonce: nonce.get(..12).unwrap_or_default(), offset: 0, data }
            });
            key.xor_batch(ops.get_mut(..count).ok_or(UnitFailed)?)
        }
        CustomKey::Aead(_) => Err(UnitFailed),
    }
}
