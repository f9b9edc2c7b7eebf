//! Modes that need integrity beside them: CTR (RFC 3686), CBC (RFC 3602), and the key stream of a stream cipher.

use std::array::from_fn;

use crypto::custom::{BlockKey, CbcOp, CtrOp, StreamKey, StreamOp};
use crypto::{OpenOp, SealOp, UnitFailed};
use zeroize::Zeroize;

use crate::rustcrypto::{LANES, PacketCipher};

/// Octets of the longest block.
const BLOCK: usize = 16;
/// Octets of nonce of a stream cipher: salt and IV.
const NONCE: usize = 12;
/// Octets that CBC decryption takes at once.
const CHUNK: usize = 64 * BLOCK;

/// Salt, IV and a counter that starts with `first` (RFC 3686 section 4, RFC 4106 section 4).
pub(super) fn counter_block(salt: &[u8; 4], iv: &[u8], first: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let octets = salt.iter().chain(iv.iter().take(8));
    block.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
    if let Some(last) = block.last_mut() {
        *last = first;
    }
    block
}

/// Counter mode over a block cipher of one's own (RFC 3686).
pub(super) struct Ctr {
    key: Box<dyn BlockKey>,
    salt: [u8; 4],
}

impl Ctr {
    pub(super) fn new(key: Box<dyn BlockKey>, salt: [u8; 4]) -> Ctr {
        Ctr { key, salt }
    }
}

impl Drop for Ctr {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

impl PacketCipher for Ctr {
    fn encrypt(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        let mut lanes: [CtrOp<'_>; LANES] = from_fn(|_| CtrOp { counter: [0; BLOCK], data: &mut [] });
        let mut count = 0;
        for (lane, op) in lanes.iter_mut().zip(ops) {
            let iv = op.sequence.to_be_bytes();
            op.iv.copy_from_slice(&iv);
            *lane = CtrOp { counter: counter_block(&self.salt, &iv, 1), data: op.data };
            count += 1;
        }
        self.key.ctr_xor_batch(lanes.get_mut(..count).unwrap_or_default())
    }

    fn decrypt(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        let mut lanes: [CtrOp<'_>; LANES] = from_fn(|_| CtrOp { counter: [0; BLOCK], data: &mut [] });
        let mut count = 0;
        for (lane, op) in lanes.iter_mut().zip(ops.iter_mut().filter(|op| op.ok)) {
            *lane = CtrOp { counter: counter_block(&self.salt, op.iv, 1), data: op.data };
            count += 1;
        }
        self.key.ctr_xor_batch(lanes.get_mut(..count).unwrap_or_default())
    }
}

/// The key stream of a stream cipher. The nonce is salt and sequence number.
pub(super) struct Stream {
    key: Box<dyn StreamKey>,
    salt: [u8; 4],
}

impl Stream {
    pub(super) fn new(key: Box<dyn StreamKey>, salt: [u8; 4]) -> Stream {
        Stream { key, salt }
    }

    fn nonce(&self, iv: &[u8]) -> [u8; NONCE] {
        let block = counter_block(&self.salt, iv, 0);
        block.first_chunk().copied().unwrap_or_default()
    }

    fn xor<'a>(&self, packets: impl Iterator<Item = ([u8; NONCE], &'a mut [u8])>) -> Result<(), UnitFailed> {
        let mut nonces = [[0; NONCE]; LANES];
        let mut data: [&mut [u8]; LANES] = from_fn(|_| &mut [][..]);
        let mut count = 0;
        for ((nonce, lane), (from, octets)) in nonces.iter_mut().zip(&mut data).zip(packets) {
            (*nonce, *lane) = (from, octets);
            count += 1;
        }
        let mut rest = nonces.iter().zip(data);
        let mut ops: [StreamOp<'_>; LANES] = from_fn(|_| match rest.next() {
            Some((nonce, data)) => StreamOp { nonce, offset: 0, data },
            None => StreamOp { nonce: &[0; NONCE], offset: 0, data: &mut [] },
        });
        self.key.xor_batch(ops.get_mut(..count).unwrap_or_default())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

impl PacketCipher for Stream {
    fn encrypt(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        for op in &mut *ops {
            op.iv.copy_from_slice(&op.sequence.to_be_bytes());
        }
        self.xor(ops.iter_mut().map(|op| (self.nonce(op.iv), &mut *op.data)))
    }

    fn decrypt(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        self.xor(ops.iter_mut().filter(|op| op.ok).map(|op| (self.nonce(op.iv), &mut *op.data)))
    }
}

/// CBC mode over a block cipher of one's own (RFC 3602). The IV is the sequence number, encrypted as one block under the same key (NIST SP 800-38A appendix C).
pub(super) struct Cbc {
    key: Box<dyn BlockKey>,
    block_len: usize,
}

impl Cbc {
    pub(super) fn new(key: Box<dyn BlockKey>, block_len: usize) -> Cbc {
        Cbc { key, block_len: block_len.clamp(1, BLOCK) }
    }

    /// The IVs of these packets, one behind the other.
    fn ivs(&self, ops: &mut [SealOp<'_>]) -> Result<[u8; BLOCK * LANES], UnitFailed> {
        let mut ivs = [0; BLOCK * LANES];
        let all = ivs.get_mut(..self.block_len * ops.len()).ok_or(UnitFailed)?;
        for (iv, op) in all.chunks_exact_mut(self.block_len).zip(&*ops) {
            let number = op.sequence.to_be_bytes();
            iv.iter_mut().rev().zip(number.iter().rev()).for_each(|(to, from)| *to = *from);
        }
        self.key.encrypt_blocks(all)?;
        for (iv, op) in all.chunks_exact(self.block_len).zip(ops) {
            op.iv.copy_from_slice(iv);
        }
        Ok(ivs)
    }

    /// Chain the packets side by side: the block cipher is called for one block of every packet at a time.
    fn chain(&self, ops: &mut [SealOp<'_>], states: &mut [u8]) -> Result<(), UnitFailed> {
        let len = self.block_len;
        let longest = ops.iter().map(|op| op.data.len()).max().unwrap_or(0);
        let mut next = [0; BLOCK * LANES];
        for at in (0..longest).step_by(len) {
            let mut filled = 0;
            for (state, op) in states.chunks_exact(len).zip(&*ops) {
                let Some(block) = op.data.get(at..at + len) else { continue };
                let Some(place) = next.get_mut(filled..filled + len) else { return Err(UnitFailed) };
                place.iter_mut().zip(state.iter().zip(block)).for_each(|(to, (a, b))| *to = a ^ b);
                filled += len;
            }
            let blocks = next.get_mut(..filled).ok_or(UnitFailed)?;
            self.key.encrypt_blocks(blocks)?;
            let mut made = blocks.chunks_exact(len);
            for (state, op) in states.chunks_exact_mut(len).zip(&mut *ops) {
                let Some(block) = op.data.get_mut(at..at + len) else { continue };
                let Some(cipher) = made.next() else { return Err(UnitFailed) };
                state.copy_from_slice(cipher);
                block.copy_from_slice(cipher);
            }
        }
        Ok(())
    }

    fn decrypt_one(&self, op: &mut OpenOp<'_>) -> Result<(), UnitFailed> {
        let len = self.block_len;
        let mut before = [0; BLOCK];
        let before = before.get_mut(..len).ok_or(UnitFailed)?;
        if op.iv.len() != len {
            return Err(UnitFailed);
        }
        before.copy_from_slice(op.iv);
        let mut cipher = [0; CHUNK];
        for data in op.data.chunks_mut(CHUNK) {
            let cipher = cipher.get_mut(..data.len()).ok_or(UnitFailed)?;
            cipher.copy_from_slice(data);
            self.key.decrypt_blocks(data)?;
            let chained = before.iter().chain(&*cipher);
            data.iter_mut().zip(chained).for_each(|(to, from)| *to ^= from);
            if let Some(last) = cipher.len().checked_sub(len).and_then(|at| cipher.get(at..)) {
                before.copy_from_slice(last);
            }
        }
        Ok(())
    }
}

impl PacketCipher for Cbc {
    fn encrypt(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        let mut ivs = self.ivs(ops)?;
        let states = ivs.get_mut(..self.block_len * ops.len()).ok_or(UnitFailed)?;
        let mut lanes: [CbcOp<'_>; LANES] = from_fn(|_| CbcOp { iv: [0; BLOCK], data: &mut [] });
        let mut count = 0;
        for ((lane, op), iv) in lanes.iter_mut().zip(&mut *ops).zip(states.chunks_exact(self.block_len)) {
            lane.iv.iter_mut().zip(iv).for_each(|(to, from)| *to = *from);
            lane.data = &mut *op.data;
            count += 1;
        }
        if self.key.cbc_encrypt_batch(lanes.get_mut(..count).unwrap_or_default())? {
            return Ok(());
        }
        self.chain(ops, states)
    }

    fn decrypt(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        let mut lanes: [CbcOp<'_>; LANES] = from_fn(|_| CbcOp { iv: [0; BLOCK], data: &mut [] });
        let mut count = 0;
        for (lane, op) in lanes.iter_mut().zip(ops.iter_mut().filter(|op| op.ok)) {
            if op.iv.len() != self.block_len {
                return Err(UnitFailed);
            }
            lane.iv.iter_mut().zip(op.iv).for_each(|(to, from)| *to = *from);
            lane.data = &mut *op.data;
            count += 1;
        }
        if self.key.cbc_decrypt_batch(lanes.get_mut(..count).unwrap_or_default())? {
            return Ok(());
        }
        ops.iter_mut().filter(|op| op.ok).try_for_each(|op| self.decrypt_one(op))
    }
}
