//! Keys of a worker: the calls of `crypto::custom`, by key stream that is ahead or by batches.
//!
//! A call that fails leaves zeros where the packets were.

mod aead;
mod block;
mod stream;

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crypto::UnitFailed;
use crypto::custom::{CustomKey, Primitive, SetKeyError};
use zeroize::Zeroize;

use crate::batch::{Batch, Entry};
use crate::core::{Claim, Core, KeyState};
use crate::layout::{self, Op, Status, spare};
use crate::memory::Outside;

/// The time that a new key waits for a worker that is being restarted.
const PATIENCE: Duration = Duration::from_millis(50);
/// Octets of a packet that go through a lane at once.
const PIECE: usize = layout::LANE_DATA / 2;
/// The same for known answers, behind which packets of others wait: as much as a packet.
const ANSWER_PIECE: usize = 2048;

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Packets of an association.
    Packets,
    /// Known answers, which are put to a cipher while it is in use.
    Answers,
}

impl From<Outside> for UnitFailed {
    fn from(_: Outside) -> UnitFailed {
        UnitFailed
    }
}

/// A key that the worker has.
struct Key {
    core: Arc<Core>,
    index: usize,
}

/// Have the worker prepare a key.
pub(crate) fn set_key(core: &Arc<Core>, octets: &[u8], is_for: Use) -> Result<CustomKey, SetKeyError> {
    if octets.len() != core.description.key_len {
        return Err(SetKeyError::Length);
    }
    loop {
        let begin = Instant::now();
        let made = try_set_key(core, octets, is_for);
        // A machine that starts everything at once may have ended this worker for being late.
        if !matches!(made, Err(SetKeyError::Unit(_))) || core.patience().is_zero() {
            return made;
        }
        // What refuses at once is not asked in a circle.
        std::thread::sleep(Duration::from_millis(1));
        core.use_patience(begin.elapsed());
    }
}

fn try_set_key(core: &Arc<Core>, octets: &[u8], is_for: Use) -> Result<CustomKey, SetKeyError> {
    let end = Instant::now() + PATIENCE;
    while !core.is_up() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    // From here on dropping the key gives its index back.
    let key = Key { core: core.clone(), index: reserve(core, octets, is_for)? };
    let epoch = core.epoch.load(Acquire);
    let status = {
        let claim = core.claim()?;
        prepare(core, &claim, key.index, octets)?
    };
    match status {
        Status::Ok => {}
        Status::Length => return Err(SetKeyError::Length),
        Status::Weak => return Err(SetKeyError::Weak),
        Status::Failed | Status::Refused => return Err(SetKeyError::Unit(UnitFailed)),
    }
    if let Some(mut state) = core.key(key.index) {
        // A worker that was started meanwhile was given the key by the thread that started it, or never saw it.
        if core.epoch.load(Acquire) != epoch && !state.ready {
            drop(state);
            return Err(SetKeyError::Unit(UnitFailed));
        }
        state.ready = true;
    }
    Ok(match core.description.primitive {
        Primitive::Block { .. } => CustomKey::Block(Box::new(key)),
        Primitive::Stream => CustomKey::Stream(Box::new(key)),
        Primitive::Aead { .. } => CustomKey::Aead(Box::new(key)),
    })
}

/// An index that is nobody's, with the key for a worker to come.
fn reserve(core: &Core, octets: &[u8], is_for: Use) -> Result<usize, SetKeyError> {
    let spare = spare(core.keys.len());
    let rooms = if is_for == Use::Packets { 0..spare } else { spare..core.keys.len() };
    let find = || {
        rooms.clone().find(|index| {
            core.key(*index).is_some_and(|mut key| {
                if key.state != KeyState::Free {
                    return false;
                }
                // Who starts a worker finds both or none: it holds the same lock.
                let mut secrets = core.secrets.lock().unwrap_or_else(PoisonError::into_inner);
                secrets.key(*index).iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
                *key = crate::core::Key { state: KeyState::Live, ..Default::default() };
                true
            })
        })
    };
    if let Some(index) = find() {
        return Ok(index);
    }
    reclaim(core)?;
    find().ok_or(SetKeyError::NoRoom(spare))
}

/// Have the worker forget keys that nobody uses any more, and give their rings back.
pub(crate) fn reclaim(core: &Core) -> Result<(), UnitFailed> {
    let dropped = |index| core.key(index).is_some_and(|key| key.state == KeyState::Dropped);
    // One thread at a time: otherwise the second would have the worker forget what the index was given to meanwhile.
    let _one = core.reclaiming.lock().unwrap_or_else(PoisonError::into_inner);
    let mut some = false;
    for index in 0..core.keys.len() {
        if !dropped(index) {
            continue;
        }
        let claim = core.claim()?;
        // While the lane is taken no new worker is started, and nobody else gives the index back.
        if !dropped(index) {
            continue;
        }
        let batch = Batch::new(core, &claim);
        batch.run_all(Op::DropKey, index)?;
        free(core, index);
        // What known answers leave in a lane is no secret.
        some |= index != spare(core.keys.len());
    }
    if some {
        // A lane that could not be wiped is known as one that was used, until the next time.
        let _ = core.wipe_lanes();
    }
    Ok(())
}

/// Give the index of a dropped key back. The worker does not have the key any more.
pub(crate) fn free(core: &Core, index: usize) {
    let Some(mut key) = core.key(index) else { return };
    if key.state == KeyState::Dropped && core.link.worker.give_back(layout::ring(index), layout::RING).is_ok()
    {
        *key = crate::core::Key::default();
    }
}

/// Hand a key to the worker.
pub(crate) fn prepare(
    core: &Core,
    claim: &Claim<'_>,
    index: usize,
    octets: &[u8],
) -> Result<Status, UnitFailed> {
    let mut batch = Batch::new(core, claim);
    batch.add(&Entry::default(), Some(octets), octets.len())?;
    let status = batch.run(Op::SetKey, index);
    batch.wipe()?;
    status
}

impl Key {
    /// Count what a call came to.
    fn ended(&self, result: Result<(), UnitFailed>) -> Result<(), UnitFailed> {
        if result.is_err() {
            self.core.counts.failed.fetch_add(1, Relaxed);
        }
        result
    }

    /// Octets that go through a lane at once.
    fn piece(&self) -> usize {
        if self.index == spare(self.core.keys.len()) { ANSWER_PIECE } else { PIECE }
    }

    /// A lane, if the worker has this key.
    fn claim(&self) -> Result<Claim<'_>, UnitFailed> {
        let claim = self.core.claim()?;
        // No worker is started while the lane is taken.
        if self.core.key(self.index).is_some_and(|key| key.ready) { Ok(claim) } else { Err(UnitFailed) }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        if let Some(mut key) = self.core.key(self.index) {
            let _ = key.ahead.stop(&self.core.link, self.index);
            key.ready = false;
            key.state = KeyState::Dropped;
            // Under the lock: behind it the index can be another key's.
            let mut secrets = self.core.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            secrets.key(self.index).zeroize();
        }
        self.core.bell.ring();
    }
}
