//! Counter mode and stream ciphers: key stream that is ahead, and what is not by a call without any input.

use std::sync::atomic::Ordering::Relaxed;

use crypto::UnitFailed;
use crypto::custom::{CtrOp, StreamKey, StreamOp};

use super::Key;
use crate::ahead::{Lookup, NONCE, Wanted};
use crate::batch::{Batch, Entry, Place};
use crate::core::Claim;
use crate::layout::{ENTRIES, Op};
use crate::report::Failure;

/// Octets of a counter's block.
const BLOCK: usize = 16;

/// A packet that key stream is XORed into.
pub(super) trait Packet {
    /// Counter block, or nonce with zeros behind it.
    fn nonce(&self) -> Result<[u8; NONCE], UnitFailed>;
    /// The octet of the key stream that meets the first octet.
    fn offset(&self) -> u64;
    /// Counter block or nonce, and offset, so many octets further on.
    fn later(&self, octets: usize) -> Result<([u8; NONCE], u64), UnitFailed>;
    fn data(&mut self) -> &mut [u8];
}

impl Packet for CtrOp<'_> {
    fn nonce(&self) -> Result<[u8; NONCE], UnitFailed> {
        Ok(self.counter)
    }

    fn offset(&self) -> u64 {
        0
    }

    fn later(&self, octets: usize) -> Result<([u8; NONCE], u64), UnitFailed> {
        let mut counter = self.counter;
        let low = counter.last_chunk_mut::<4>().ok_or(UnitFailed)?;
        // Beyond 2^32 blocks the counter wraps as well.
        let blocks = (octets / BLOCK) as u32;
        *low = u32::from_be_bytes(*low).wrapping_add(blocks).to_be_bytes();
        Ok((counter, 0))
    }

    fn data(&mut self) -> &mut [u8] {
        self.data
    }
}

impl Packet for StreamOp<'_> {
    fn nonce(&self) -> Result<[u8; NONCE], UnitFailed> {
        let mut nonce = [0; NONCE];
        nonce.get_mut(..self.nonce.len()).ok_or(UnitFailed)?.copy_from_slice(self.nonce);
        Ok(nonce)
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn later(&self, octets: usize) -> Result<([u8; NONCE], u64), UnitFailed> {
        let octets = u64::try_from(octets).map_err(|_| UnitFailed)?;
        Ok((self.nonce()?, self.offset.checked_add(octets).ok_or(UnitFailed)?))
    }

    fn data(&mut self) -> &mut [u8] {
        self.data
    }
}

impl Key {
    /// XOR key stream into every packet.
    pub(super) fn xor(&self, packets: &mut [impl Packet]) -> Result<(), UnitFailed> {
        let result = packets.chunks_mut(ENTRIES).try_for_each(|packets| self.xor_some(packets));
        if result.is_err() {
            packets.iter_mut().for_each(|packet| packet.data().fill(0));
        }
        self.ended(result)
    }

    fn xor_some(&self, packets: &mut [impl Packet]) -> Result<(), UnitFailed> {
        let missing = self.xor_ahead(packets)?;
        if missing == 0 {
            return Ok(());
        }
        self.core.counts.called.fetch_add(missing.count_ones().into(), Relaxed);
        let claim = self.claim()?;
        self.xor_called(&claim, packets, missing)
    }

    /// Use what is there. The result has a bit for each packet that found nothing.
    fn xor_ahead(&self, packets: &mut [impl Packet]) -> Result<u64, UnitFailed> {
        let core = &*self.core;
        let mut key = core.key(self.index).ok_or(UnitFailed)?;
        if !key.ready {
            return Err(UnitFailed);
        }
        let (mut missing, mut used) = (0u64, 0);
        for (index, packet) in packets.iter_mut().enumerate() {
            let (wanted, offset) = (Wanted::of(&packet.nonce()?), packet.offset());
            let data = packet.data();
            let found = match (data.is_empty(), offset) {
                (true, _) => Lookup::Hit,
                (false, 0) => key.ahead.take(&core.link, self.index, &wanted, data)?,
                _ => Lookup::Miss,
            };
            match found {
                Lookup::Hit => used += 1,
                Lookup::Miss => missing |= 1 << index,
                Lookup::Unusable => {
                    core.fail(Failure::Unchanged);
                    return Err(UnitFailed);
                }
            }
        }
        core.counts.ahead.fetch_add(used, Relaxed);
        for packet in packets.iter_mut().filter(|packet| packet.offset() == 0) {
            let wanted = Wanted::of(&packet.nonce()?);
            key.ahead.learn(&core.link, self.index, &wanted, packet.data().len())?;
        }
        key.ahead.publish(&core.link, self.index)?;
        Ok(missing)
    }

    fn xor_called(
        &self,
        claim: &Claim<'_>,
        packets: &mut [impl Packet],
        missing: u64,
    ) -> Result<(), UnitFailed> {
        let is_missing = |index: usize| missing >> index & 1 == 1;
        let mut index = 0;
        while index < packets.len() {
            let mut batch = Batch::new(&self.core, claim);
            let mut places: [Option<Place>; ENTRIES] = [None; ENTRIES];
            while let Some(packet) = packets.get_mut(index) {
                let len = packet.data().len();
                if is_missing(index) && len > self.piece() {
                    // It takes the lane for itself, before or behind the others.
                    if places.iter().all(Option::is_none) {
                        self.xor_long(claim, packet)?;
                        index += 1;
                    }
                    break;
                }
                if is_missing(index) {
                    if !batch.fits(len) {
                        break;
                    }
                    let entry = Entry { nonce: packet.nonce()?, offset: packet.offset(), ..Entry::default() };
                    let place = batch.add(&entry, None, len)?;
                    *places.get_mut(index).ok_or(UnitFailed)? = Some(place);
                }
                index += 1;
            }
            if places.iter().any(Option::is_some) {
                batch.run_all(Op::KeyStream, self.index)?;
            }
            for (packet, place) in packets.iter_mut().zip(&places) {
                if let Some(place) = place {
                    batch.xor(place, packet.data())?;
                }
            }
        }
        Ok(())
    }

    fn xor_long(&self, claim: &Claim<'_>, packet: &mut impl Packet) -> Result<(), UnitFailed> {
        let mut done = 0;
        while done < packet.data().len() {
            let (nonce, offset) = packet.later(done)?;
            let data = packet.data().get_mut(done..).ok_or(UnitFailed)?;
            let len = data.len().min(self.piece());
            let data = data.get_mut(..len).ok_or(UnitFailed)?;
            let mut batch = Batch::new(&self.core, claim);
            let place = batch.add(&Entry { nonce, offset, ..Entry::default() }, None, len)?;
            batch.run_all(Op::KeyStream, self.index)?;
            batch.xor(&place, data)?;
            done += len;
        }
        Ok(())
    }
}

impl StreamKey for Key {
    fn xor_batch(&self, ops: &mut [StreamOp<'_>]) -> Result<(), UnitFailed> {
        self.xor(ops)
    }
}
