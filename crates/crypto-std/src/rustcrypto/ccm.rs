//! AES-CCM in ESP (RFC 4309): salt of 3 octets, nonce of 11, hence a length field of 4 (RFC 3610 section 2).

use aes::Block;
use crypto::{OpenOp, SealOp, Transform, UnitFailed};
use zeroize::Zeroize;

use super::chain::{self, Ending, LANES, xor};
use super::cipher_modes::apply;
use super::gcm::Aes;
use super::limit::{MAX_DATA, blank};
use super::mac::same;
use crypto::AssociatedData;

/// The counter blocks start with the length of the length field, less one.
const COUNTER_FLAGS: u8 = 3;

pub(super) struct Ccm<A> {
    aes: A,
    salt: [u8; 3],
    icv_len: usize,
    extended: bool,
}

impl<A: Aes> Ccm<A> {
    pub(super) fn new(aes: A, salt: [u8; 3], icv_len: usize, extended: bool) -> Ccm<A> {
        Ccm { aes, salt, icv_len, extended }
    }

    /// A counter block, or with other flags and a length the first block of the MAC.
    #[inline]
    fn block(&self, flags: u8, iv: &[u8; 8], last: u32) -> Block {
        let mut block = [flags; 16];
        block[1..4].copy_from_slice(&self.salt);
        block[4..12].copy_from_slice(iv);
        block[12..].copy_from_slice(&last.to_be_bytes());
        block.into()
    }

    /// The octets in front of the plaintext in the MAC: the nonce with the lengths, and the associated data.
    #[inline]
    fn front(&self, iv: &[u8; 8], header: &[u8; 8], sequence: u64, octets: usize) -> [u8; 32] {
        let flags = 0x40 | ((self.icv_len as u8).saturating_sub(2) / 2) << 3 | COUNTER_FLAGS;
        let mut front = [0; 32];
        front[..16].copy_from_slice(&self.block(flags, iv, octets as u32));
        let aad = AssociatedData::new(header, sequence, self.extended);
        front[17] = aad.octets().len() as u8;
        front[18..].copy_from_slice(&aad.padded()[..14]);
        front
    }

    /// The ICV of each plaintext, in full length.
    fn tags<'a>(
        &self,
        packets: impl Iterator<Item = ([u8; 8], u64, &'a [u8; 8], &'a [u8])>,
        tags: &mut [Block; LANES],
    ) {
        const ZEROS: [u8; 16] = [0; 16];
        let mut fronts = [[0; 32]; LANES];
        let mut masks = [Block::default(); LANES];
        let mut parts: [[&[u8]; 2]; LANES] = [[&[]; 2]; LANES];
        let mut count = 0;
        let places = fronts.iter_mut().zip(&mut masks).zip(&mut parts);
        for ((iv, sequence, header, data), ((front, mask), parts)) in packets.zip(places) {
            *front = self.front(&iv, header, sequence, data.len());
            *mask = self.block(COUNTER_FLAGS, &iv, 0);
            *parts = [front, data];
            count += 1;
        }
        let messages = parts.each_ref().map(|parts| parts.as_slice());
        if let (Some(messages), Some(masks)) = (messages.get(..count), masks.get_mut(..count)) {
            // Zeros fill the last block, and nothing marks where they start: the length is in front.
            let ending = Ending { full: &ZEROS, padded: &ZEROS, pad: 0 };
            chain::cbc_mac(&self.aes, ending, messages, tags);
            self.aes.encrypt_blocks(masks);
            for (tag, mask) in tags.iter_mut().zip(masks) {
                xor(&mut tag.0, &mask.0);
            }
        }
    }

    fn seal_lanes(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        let mut all = Ok(());
        let mut tags = [Block::default(); LANES];
        let packets = ops.iter().map(|op| (op.sequence.to_be_bytes(), op.sequence, op.header, &*op.data));
        self.tags(packets, &mut tags);
        for (op, tag) in ops.iter_mut().zip(&tags) {
            let iv = op.sequence.to_be_bytes();
            if op.iv.len() != iv.len() || op.icv.len() != self.icv_len || op.data.len() > MAX_DATA {
                all = blank(op);
                continue;
            }
            apply(&self.aes, &self.block(COUNTER_FLAGS, &iv, 1), op.data);
            op.iv.copy_from_slice(&iv);
            if let Some(tag) = tag.get(..self.icv_len) {
                op.icv.copy_from_slice(tag);
            }
        }
        all
    }

    fn open_lanes(&self, ops: &mut [OpenOp<'_>]) {
        // The MAC is over the plaintext: this mode must decrypt before it knows.
        for op in ops.iter_mut() {
            let iv = <[u8; 8]>::try_from(op.iv).ok();
            op.ok = iv.is_some() && op.icv.len() == self.icv_len && op.data.len() <= MAX_DATA;
            if let (true, Some(iv)) = (op.ok, iv) {
                apply(&self.aes, &self.block(COUNTER_FLAGS, &iv, 1), op.data);
            }
        }
        let mut tags = [Block::default(); LANES];
        let packets = ops.iter().map(|op| {
            let iv = <[u8; 8]>::try_from(op.iv).unwrap_or_default();
            (iv, op.sequence, op.header, &*op.data)
        });
        self.tags(packets, &mut tags);
        for (op, tag) in ops.iter_mut().zip(&tags) {
            op.ok &= tag.get(..self.icv_len).is_some_and(|tag| same(tag, op.icv));
            if !op.ok {
                // Nothing decrypted under a forged ICV may be seen.
                op.data.fill(0);
            }
        }
    }
}

impl<A: Aes> Transform for Ccm<A> {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        let mut all = Ok(());
        for lanes in ops.chunks_mut(LANES) {
            all = self.seal_lanes(lanes).and(all);
        }
        all
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        ops.chunks_mut(LANES).for_each(|lanes| self.open_lanes(lanes));
        Ok(())
    }
}

impl<A> Drop for Ccm<A> {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}
