//! Key stream for numbers to come.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use crypto::UnitFailed;
use crypto::custom::{CtrOp, CustomKey, StreamOp};

use crate::ahead::{NONCE, Wanted};
use crate::layout::{self, PLACE_DATA, PLACE_HEAD, PLACES, place, record};
use crate::memory::{Memory, Outside};

/// Numbers that are computed between two looks at the lanes.
const NUMBERS: usize = 2;

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
struct Window {
    generation: u32,
    octets: usize,
    from: u64,
    template: [u8; NONCE],
}

impl Window {
    /// The host's record about a key, if it asks for anything and did not change meanwhile.
    fn read(host: &Memory, key: usize) -> Result<Option<Window>, Outside> {
        let at = layout::record(key);
        let word = host.word(at + record::GENERATION)?;
        let generation = word.load(Acquire);
        if generation == 0 {
            return Ok(None);
        }
        let octets = host.word(at + record::OCTETS)?.load(Relaxed) as usize;
        let from = host.long(at + record::FROM)?.load(Relaxed);
        let mut template = [0; NONCE];
        host.take(at + record::TEMPLATE, &mut template)?;
        fence(Acquire);
        let same = word.load(Relaxed) == generation && octets <= PLACE_DATA;
        Ok(same.then_some(Window { generation, octets, from, template }))
    }
}

impl Progress {
    /// Compute key stream for a few numbers of the key of this index. Whether there was anything to compute.
    pub(super) fn go_on(
        &mut self,
        host: &Memory,
        worker: &Memory,
        index: usize,
        key: &CustomKey,
        scratch: &mut Scratch,
    ) -> Result<bool, Outside> {
        let Some(window) = Window::read(host, index)? else { return Ok(false) };
        if self.generation != window.generation {
            *self = Progress { generation: window.generation, next: window.from };
        }
        let first = self.next.max(window.from);
        let left = window.from.saturating_add(PLACES as u64).saturating_sub(first);
        let count = usize::try_from(left).unwrap_or(NUMBERS).min(NUMBERS);
        if count == 0 {
            return Ok(false);
        }
        self.next = first.saturating_add(count as u64);
        let lines = scratch.get_mut(..count).ok_or(Outside)?;
        if compute(key, &window, first, lines).is_err() {
            // The call for the number will tell the host.
            return Ok(true);
        }
        for (line, number) in lines.iter().zip(first..) {
            let at = layout::place(index, number);
            let generation = worker.word(at + place::GENERATION)?;
            generation.store(0, Relaxed);
            fence(Release);
            worker.put(at + PLACE_HEAD, line.0.get(..window.octets).ok_or(Outside)?)?;
            let len = u32::try_from(window.octets).map_err(|_| Outside)?;
            worker.word(at + place::LEN)?.store(len, Relaxed);
            worker.long(at + place::NUMBER)?.store(number, Relaxed);
            generation.store(window.generation, Release);
        }
        Ok(true)
    }
}

fn compute(key: &CustomKey, window: &Window, first: u64, lines: &mut [Line]) -> Result<(), UnitFailed> {
    let mut nonces = [[0; NONCE]; NUMBERS];
    for (nonce, number) in nonces.iter_mut().zip(first..) {
        *nonce = Wanted::nonce(&window.template, number);
    }
    let count = lines.len();
    let mut rest = lines.iter_mut().zip(&nonces).map(|(line, nonce)| {
        let data = line.0.get_mut(..window.octets).unwrap_or_default();
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
