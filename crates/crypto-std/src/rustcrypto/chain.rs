//! CBC chains of several packets side by side: CBC encryption, and the MACs that are its last block.
//!
//! A chain waits a whole AES latency for each of its blocks. The chains of different packets do not wait for each other, so
//! a batch is walked one block of every packet at a time and the unit of the processor stays full.

use aes::Block;
use cipher::array::{Array, ArraySize};
use cipher::common::BlockSizeUser;
use cipher::consts::U16;
use cipher::{BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt};
use crypto::SealOp;

/// Chains that are walked together.
pub(crate) const LANES: usize = 8;

/// Reads octets that lie in several places, one block at a time.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    here: &'a [u8],
    later: &'a [&'a [u8]],
}

impl Cursor<'_> {
    /// Add (exclusive or) the next 16 octets into `block`, or as many as are left; how many that were.
    #[inline(always)]
    fn add_into(&mut self, block: &mut Block) -> usize {
        if let Some((next, rest)) = self.here.split_first_chunk::<16>() {
            xor(&mut block.0, next);
            self.here = rest;
            return 16;
        }
        self.add_pieces(block)
    }

    fn add_pieces(&mut self, block: &mut Block) -> usize {
        let mut filled = 0;
        loop {
            let take = self.here.len().min(16 - filled);
            let (now, rest) = self.here.split_at(take);
            for (to, from) in block.iter_mut().skip(filled).zip(now) {
                *to ^= from;
            }
            filled += take;
            self.here = rest;
            match self.later.split_first() {
                Some((next, later)) if filled < 16 => (self.here, self.later) = (next, later),
                _ => return filled,
            }
        }
    }
}

/// Add `from` to `to` (exclusive or). Both are read as values first: references that might overlap would be worked off
/// octet by octet.
#[inline(always)]
pub(super) fn xor<const N: usize>(to: &mut [u8; N], from: &[u8; N]) {
    let (a, b) = (*to, *from);
    *to = std::array::from_fn(|i| a[i] ^ b[i]);
}

/// The change of the last block of a chain before it is encrypted.
pub(super) struct Ending<'a> {
    /// The block that is added to a last block that the message fills.
    pub full: &'a [u8; 16],
    /// The block that is added to a last block that the message does not fill.
    pub padded: &'a [u8; 16],
    /// The octet behind the last octet of a message that does not fill its last block.
    pub pad: u8,
}

struct Lane<'a> {
    cursor: Cursor<'a>,
    /// Blocks of the chain that are still to come.
    blocks: usize,
}

struct CbcMac<'a, 'm> {
    lanes: &'a mut [Lane<'m>],
    states: &'a mut [Block],
    ending: Ending<'a>,
}

impl BlockSizeUser for CbcMac<'_, '_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for CbcMac<'_, '_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let CbcMac { lanes, states, ending } = self;
        if let ([lane], [out]) = (&mut *lanes, &mut *states) {
            // Alone: the state stays in a register.
            let mut state = *out;
            for _ in 1..lane.blocks {
                lane.cursor.add_into(&mut state);
                backend.encrypt_block((&mut state).into());
            }
            end(lane, &mut state, &ending);
            backend.encrypt_block((&mut state).into());
            *out = state;
            return;
        }
        let shortest = lanes.iter().map(|lane| lane.blocks).min().unwrap_or(0);
        for _ in 1..shortest {
            for (lane, state) in lanes.iter_mut().zip(&mut *states) {
                lane.cursor.add_into(state);
                backend.encrypt_block(state.into());
            }
        }
        // From here on some may end.
        let longest = lanes.iter().map(|lane| lane.blocks).max().unwrap_or(0);
        let common = shortest.saturating_sub(1);
        for lane in lanes.iter_mut() {
            lane.blocks -= common;
        }
        for _ in common..longest {
            for (lane, state) in lanes.iter_mut().zip(&mut *states) {
                match lane.blocks {
                    0 => continue,
                    1 => end(lane, state, &ending),
                    _ => {
                        lane.cursor.add_into(state);
                    }
                }
                lane.blocks -= 1;
                backend.encrypt_block(state.into());
            }
        }
    }
}

#[inline(always)]
fn end(lane: &mut Lane<'_>, state: &mut Block, ending: &Ending<'_>) {
    let state: &mut Block = state;
    match lane.cursor.add_into(state) {
        16 => xor(&mut state.0, ending.full),
        filled => {
            if let Some(octet) = state.get_mut(filled) {
                *octet ^= ending.pad;
            }
            xor(&mut state.0, ending.padded);
        }
    }
}

/// The last block of the chain over each message; at most [`LANES`] messages, and as many places in `out`.
pub(super) fn cbc_mac<C>(cipher: &C, ending: Ending<'_>, messages: &[&[&[u8]]], out: &mut [Block])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    const NONE: Lane<'static> = Lane { cursor: Cursor { here: &[], later: &[] }, blocks: 0 };
    let mut lanes = [NONE; LANES];
    let mut count = 0;
    for ((lane, parts), state) in lanes.iter_mut().zip(messages).zip(&mut *out) {
        let octets: usize = parts.iter().map(|part| part.len()).sum();
        // An empty message is one block of padding.
        *lane = Lane { cursor: Cursor { here: &[], later: parts }, blocks: octets.div_ceil(16).max(1) };
        *state = Block::default();
        count += 1;
    }
    if let (Some(lanes), Some(states)) = (lanes.get_mut(..count), out.get_mut(..count)) {
        cipher.encrypt_with_backend(CbcMac { lanes, states, ending });
    }
}

/// CBC encryption of every packet that fits, in place. The IVs are already written.
struct CbcEncrypt<'a, 'b, C: BlockSizeUser> {
    ops: &'a mut [SealOp<'b>],
    states: &'a mut [Array<u8, C::BlockSize>],
}

impl<C: BlockSizeUser> BlockSizeUser for CbcEncrypt<'_, '_, C> {
    type BlockSize = C::BlockSize;
}

impl<C: BlockSizeUser> BlockCipherEncClosure for CbcEncrypt<'_, '_, C> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = C::BlockSize>>(self, backend: &B) {
        let CbcEncrypt { ops, states } = self;
        for (state, op) in states.iter_mut().zip(&mut *ops) {
            put_counter(op.sequence, state);
            backend.encrypt_block(state.into());
            for (to, from) in op.iv.iter_mut().zip(&*state) {
                *to = *from;
            }
        }
        if let ([op], [state]) = (&mut *ops, &mut *states) {
            encrypt_chain(backend, op.data, state);
            return;
        }
        let longest = ops.iter().map(|op| op.data.len()).max().unwrap_or(0);
        let block_len = std::mem::size_of::<Array<u8, C::BlockSize>>();
        for at in (0..longest).step_by(block_len) {
            for (op, state) in ops.iter_mut().zip(&mut *states) {
                let Some(block) = op.data.get_mut(at..at + block_len) else { continue };
                let Ok(block) = <&mut Array<u8, C::BlockSize>>::try_from(block) else { continue };
                let mut chained = added(state, block);
                backend.encrypt_block((&mut chained).into());
                *block = chained.clone();
                *state = chained;
            }
        }
    }
}

/// The sequence number as one block, zeros on the left. The block holds zeros.
#[inline(always)]
fn put_counter<N: ArraySize>(sequence: u64, block: &mut Array<u8, N>) {
    let counter = sequence.to_be_bytes();
    for (to, from) in block.iter_mut().rev().zip(counter.iter().rev()) {
        *to = *from;
    }
}

/// Encrypt the blocks of one packet, the first of them chained to `state`, which becomes the last.
#[inline(always)]
fn encrypt_chain<B: BlockCipherEncBackend>(
    backend: &B,
    data: &mut [u8],
    state: &mut Array<u8, B::BlockSize>,
) {
    let (blocks, _) = Array::<u8, B::BlockSize>::slice_as_chunks_mut(data);
    let mut chained = state.clone();
    for block in blocks {
        chained = added(&chained, block);
        backend.encrypt_block((&mut chained).into());
        *block = chained.clone();
    }
    *state = chained;
}

/// CBC encryption of a part of one packet.
struct CbcPart<'a, C: BlockSizeUser> {
    data: &'a mut [u8],
    state: &'a mut Array<u8, C::BlockSize>,
}

impl<C: BlockSizeUser> BlockSizeUser for CbcPart<'_, C> {
    type BlockSize = C::BlockSize;
}

impl<C: BlockSizeUser> BlockCipherEncClosure for CbcPart<'_, C> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = C::BlockSize>>(self, backend: &B) {
        encrypt_chain(backend, self.data, self.state);
    }
}

/// Write the IV of a packet as [`cbc_encrypt`] does, and to `state`, which its first block is chained to.
pub(super) fn cbc_begin<C: BlockCipherEncrypt>(
    cipher: &C,
    op: &mut SealOp<'_>,
    state: &mut Array<u8, C::BlockSize>,
) {
    state.fill(0);
    put_counter(op.sequence, state);
    cipher.encrypt_block(state);
    for (to, from) in op.iv.iter_mut().zip(&*state) {
        *to = *from;
    }
}

/// Encrypt the next blocks of a packet, the first of them chained to `state`, which becomes the last.
pub(super) fn cbc_continue<C: BlockCipherEncrypt>(
    cipher: &C,
    data: &mut [u8],
    state: &mut Array<u8, C::BlockSize>,
) {
    cipher.encrypt_with_backend(CbcPart::<C> { data, state });
}

#[inline(always)]
fn added<N: ArraySize>(a: &Array<u8, N>, b: &Array<u8, N>) -> Array<u8, N> {
    let (a, b) = (a.clone(), b.clone());
    Array::from_fn(|i| a[i] ^ b[i])
}

/// Encrypt at most [`LANES`] packets: write each IV, which is the sequence number encrypted under the same key (NIST SP
/// 800-38A appendix C, first method: a nonce never used before, so nobody can tell the IV in advance), then the data.
pub(super) fn cbc_encrypt<C: BlockCipherEncrypt>(cipher: &C, ops: &mut [SealOp<'_>]) {
    let mut states: [Array<u8, C::BlockSize>; LANES] = Default::default();
    let count = ops.len().min(LANES);
    if let (Some(ops), Some(states)) = (ops.get_mut(..count), states.get_mut(..count)) {
        cipher.encrypt_with_backend(CbcEncrypt::<C> { ops, states });
    }
}
