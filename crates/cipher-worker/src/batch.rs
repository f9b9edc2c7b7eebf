//! Batches through a lane: what is written, and what is read again.

use crypto::UnitFailed;

use crate::core::{Claim, Core};
use crate::layout::{self, ENTRIES, ENTRY, LANE_DATA, Op, Status, entry, lane};
use crate::memory::Outside;
use crate::report::Failure;

/// One packet of a batch. The lengths and places that count for reading are those here, never the worker's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    data: usize,
    len: usize,
    tag: usize,
}

/// A batch that is being filled.
pub(crate) struct Batch<'a> {
    core: &'a Core,
    claim: &'a Claim<'a>,
    used: usize,
    count: usize,
}

/// What an entry says beside its data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry<'a> {
    /// Counter block, IV or nonce.
    pub(crate) nonce: [u8; 16],
    /// The first octet of a stream cipher's key stream.
    pub(crate) offset: u64,
    /// The associated data of the packet.
    pub(crate) aad: &'a [u8],
    /// The tag, for opening.
    pub(crate) tag: &'a [u8],
    /// The octets that a tag has.
    pub(crate) tag_len: usize,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(core: &'a Core, claim: &'a Claim<'a>) -> Batch<'a> {
        Batch { core, claim, used: 0, count: 0 }
    }

    /// Whether a packet with so much data, associated data and tag still fits.
    pub(crate) fn fits(&self, octets: usize) -> bool {
        // Each of the three begins at a multiple of 64.
        self.count < ENTRIES && octets.saturating_add(self.used + 192) <= LANE_DATA
    }

    fn reserve(&mut self, len: usize) -> usize {
        let at = self.used;
        self.used += len.max(1).next_multiple_of(64);
        self.core.note_used(self.claim.index, self.used);
        at
    }

    /// Add a packet to the batch. Without `input` the worker gets a length and no octet.
    pub(crate) fn add(
        &mut self,
        entry: &Entry<'_>,
        input: Option<&[u8]>,
        len: usize,
    ) -> Result<Place, Outside> {
        if !self.fits(len.saturating_add(entry.aad.len()).saturating_add(entry.tag_len)) {
            return Err(Outside);
        }
        let base = layout::lane_data(self.claim.index);
        let host = &self.core.link.host;
        let place = Place { data: self.reserve(len), len, tag: self.reserve(entry.tag_len) };
        let aad = self.reserve(entry.aad.len());
        if let Some(input) = input {
            host.put(base + place.data, input)?;
        }
        host.put(base + place.tag, entry.tag)?;
        host.put(base + aad, entry.aad)?;
        let mut octets = [0; ENTRY];
        let number = |number: usize| u32::try_from(number).map(u32::to_ne_bytes).map_err(|_| Outside);
        let mut field = |at: usize, from: &[u8]| {
            octets.iter_mut().skip(at).zip(from).for_each(|(to, from)| *to = *from);
        };
        field(entry::DATA, &number(place.data)?);
        field(entry::LEN, &number(len)?);
        field(entry::AAD, &number(aad)?);
        field(entry::AAD_LEN, &number(entry.aad.len())?);
        field(entry::OFFSET, &entry.offset.to_ne_bytes());
        field(entry::TAG, &number(place.tag)?);
        field(entry::NONCE, &entry.nonce);
        let at = layout::lane(self.claim.index) + lane::ENTRIES + self.count * ENTRY;
        host.put(at, &octets)?;
        self.count += 1;
        Ok(place)
    }

    /// Hand it over and wait. The places can be read then.
    pub(crate) fn run(&self, op: Op, key: usize) -> Result<Status, UnitFailed> {
        self.claim.run(op, key, self.count)
    }

    /// The same for what packets need.
    pub(crate) fn run_all(&self, op: Op, key: usize) -> Result<(), UnitFailed> {
        match self.run(op, key)? {
            Status::Ok => Ok(()),
            Status::Failed => Err(UnitFailed),
            // No packet can make a key bad: this is not the worker that took the key.
            Status::Length | Status::Weak | Status::Refused => {
                self.core.fail(Failure::Answer);
                Err(UnitFailed)
            }
        }
    }

    /// Overwrite what was handed over: a key.
    pub(crate) fn wipe(&self) -> Result<(), Outside> {
        self.core.link.host.clear(layout::lane_data(self.claim.index), self.used)
    }

    fn at(&self, place: usize) -> usize {
        layout::lane_data(self.claim.index) + place
    }

    /// What the worker made of a packet.
    pub(crate) fn take(&self, place: &Place, data: &mut [u8]) -> Result<(), Outside> {
        if data.len() != place.len {
            return Err(Outside);
        }
        self.core.link.worker.take(self.at(place.data), data)
    }

    /// The same for a part of it that begins at this octet, a multiple of 8.
    pub(crate) fn take_part(&self, place: &Place, from: usize, data: &mut [u8]) -> Result<(), Outside> {
        if from.checked_add(data.len()).is_none_or(|end| end > place.len) {
            return Err(Outside);
        }
        self.core.link.worker.take(self.at(place.data) + from, data)
    }

    /// The same for a packet that was encrypted.
    ///
    /// # Errors
    /// [`UnitFailed`]: part of it is what it was, and the worker is restarted.
    pub(crate) fn take_encrypted(&self, place: &Place, data: &mut [u8]) -> Result<(), UnitFailed> {
        let used = if data.len() == place.len {
            self.core.link.worker.replace(self.at(place.data), data)
        } else {
            Err(Outside)
        };
        self.changed(used)
    }

    /// The same for a packet whose key stream the worker made.
    pub(crate) fn xor(&self, place: &Place, data: &mut [u8]) -> Result<(), UnitFailed> {
        let used = if data.len() == place.len {
            self.core.link.worker.xor(self.at(place.data), data)
        } else {
            Err(Outside)
        };
        self.changed(used)
    }

    fn changed(&self, used: Result<crate::memory::Used, Outside>) -> Result<(), UnitFailed> {
        if used.map_err(|_| UnitFailed)?.unchanged {
            self.core.fail(Failure::Unchanged);
            return Err(UnitFailed);
        }
        Ok(())
    }

    /// The tag that the worker made.
    pub(crate) fn take_tag(&self, place: &Place, tag: &mut [u8]) -> Result<(), Outside> {
        self.core.link.worker.take(self.at(place.tag), tag)
    }

    /// Whether the worker says that the tag of a packet was right.
    pub(crate) fn verdict(&self, index: usize) -> Result<bool, Outside> {
        let at = layout::lane(self.claim.index) + lane::RESULTS + index * 4;
        Ok(self.core.link.worker.word(at)?.load(std::sync::atomic::Ordering::Relaxed) == 1)
    }
}
