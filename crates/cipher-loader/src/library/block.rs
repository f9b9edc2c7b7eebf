//! Calls into a block cipher.

use std::array::from_fn;
use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;

use crypto::UnitFailed;
use crypto::custom::{BlockKey, CbcOp, CtrOp, ctr_over_blocks};

use super::batch::{COPY, LANES, copied};
use crate::abi::{IN_PLACE, Raw, RawCbc, RawCtr};
use crate::context::Context;

type Blocks = unsafe extern "C" fn(*const c_void, *mut u8, *const u8, usize);
type CtrXor = unsafe extern "C" fn(*const c_void, *const u8, *mut u8, *const u8, usize);
type CtrBatch = unsafe extern "C" fn(*const c_void, *mut RawCtr, usize);
type CbcBatch = unsafe extern "C" fn(*const c_void, *mut RawCbc, usize);

const BLOCK: usize = 16;

/// The functions of a block cipher.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    block_len: usize,
    pub(super) in_place: bool,
    encrypt: Blocks,
    decrypt: Blocks,
    ctr: Option<CtrXor>,
    ctr_batch: Option<CtrBatch>,
    cbc_batch: Option<CbcBatch>,
}

impl Functions {
    /// Without what is optional.
    pub(super) fn plain(self) -> Functions {
        Functions { ctr: None, ctr_batch: None, cbc_batch: None, ..self }
    }

    /// Whether there is anything optional.
    pub(super) fn has_more(self) -> bool {
        self.ctr.is_some() || self.ctr_batch.is_some() || self.cbc_batch.is_some()
    }

    /// Only for a description that was checked: mandatory functions are there, and all are code of the library.
    pub(super) fn new(raw: &Raw, block_len: usize) -> Functions {
        // SAFETY: the addresses are code of the library or, where a function is optional, 0, which is `None`. The
        // header gives the functions these types.
        unsafe {
            Functions {
                block_len,
                in_place: raw.flags & IN_PLACE != 0,
                encrypt: transmute::<usize, Blocks>(raw.encrypt_blocks),
                decrypt: transmute::<usize, Blocks>(raw.decrypt_blocks),
                ctr: transmute::<usize, Option<CtrXor>>(raw.ctr_xor),
                ctr_batch: transmute::<usize, Option<CtrBatch>>(raw.ctr_xor_batch),
                cbc_batch: transmute::<usize, Option<CbcBatch>>(raw.cbc_encrypt_batch),
            }
        }
    }
}

/// A key of a block cipher in a library.
pub(super) struct Key {
    pub(super) context: Context,
    pub(super) functions: Functions,
}

impl Key {
    fn blocks(&self, function: Blocks, data: &mut [u8]) {
        let Functions { block_len, in_place, .. } = self.functions;
        let whole = data.len() - data.len() % block_len;
        let data = data.get_mut(..whole).unwrap_or_default();
        if in_place {
            let at = data.as_mut_ptr();
            // SAFETY: the slice has so many whole blocks, and the cipher says that dst may be src.
            unsafe { function(self.context.at(), at, at, data.len() / block_len) };
            return;
        }
        copied(data, |to, from| {
            // SAFETY: both slices have so many whole blocks, and they do not overlap.
            unsafe { function(self.context.at(), to.as_mut_ptr(), from.as_ptr(), to.len() / block_len) };
        });
    }

    fn ctr_one(&self, function: CtrXor, op: &mut CtrOp<'_>) {
        if self.functions.in_place {
            let at = op.data.as_mut_ptr();
            // SAFETY: the slice has so many octets, the counter has 16, and the cipher says that dst may be src.
            unsafe { function(self.context.at(), op.counter.as_ptr(), at, at, op.data.len()) };
            return;
        }
        let CtrOp { counter, data } = op;
        copied(data, |to, from| {
            // SAFETY: both slices have so many octets and do not overlap; the counter has 16.
            unsafe {
                function(self.context.at(), counter.as_ptr(), to.as_mut_ptr(), from.as_ptr(), to.len())
            };
            if let Some(low) = counter.last_chunk_mut::<4>() {
                // Below 2^32 blocks the sum is exact; above them the counter would have wrapped as well.
                let blocks = (COPY / BLOCK) as u32;
                *low = u32::from_be_bytes(*low).wrapping_add(blocks).to_be_bytes();
            }
        });
    }

    fn ctr_lanes(&self, function: CtrBatch, ops: &mut [CtrOp<'_>]) {
        let mut lanes: [RawCtr; LANES] =
            from_fn(|_| RawCtr { counter: [0; BLOCK], data: ptr::null_mut(), len: 0 });
        let mut count = 0;
        for (lane, op) in lanes.iter_mut().zip(ops) {
            *lane = RawCtr { counter: op.counter, data: op.data.as_mut_ptr(), len: op.data.len() };
            count += 1;
        }
        // SAFETY: so many records are filled, and each names the octets of one slice, which nothing else has.
        unsafe { function(self.context.at(), lanes.as_mut_ptr(), count) };
    }
}

impl BlockKey for Key {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.blocks(self.functions.encrypt, blocks);
        Ok(())
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.blocks(self.functions.decrypt, blocks);
        Ok(())
    }

    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), UnitFailed> {
        match (self.functions.ctr_batch, self.functions.ctr) {
            (Some(function), _) => ops.chunks_mut(LANES).for_each(|lanes| self.ctr_lanes(function, lanes)),
            (None, Some(function)) => ops.iter_mut().for_each(|op| self.ctr_one(function, op)),
            (None, None) => return ctr_over_blocks(|blocks| self.encrypt_blocks(blocks), ops),
        }
        Ok(())
    }

    fn cbc_encrypt_batch(&self, ops: &mut [CbcOp<'_>]) -> Result<bool, UnitFailed> {
        let Some(function) = self.functions.cbc_batch else { return Ok(false) };
        for ops in ops.chunks_mut(LANES) {
            let mut lanes: [RawCbc; LANES] =
                from_fn(|_| RawCbc { iv: [0; BLOCK], data: ptr::null_mut(), len: 0 });
            let mut count = 0;
            for (lane, op) in lanes.iter_mut().zip(ops) {
                let whole = op.data.len() - op.data.len() % self.functions.block_len;
                *lane = RawCbc { iv: op.iv, data: op.data.as_mut_ptr(), len: whole };
                count += 1;
            }
            // SAFETY: so many records are filled, and each names the octets of one slice, which nothing else has.
            unsafe { function(self.context.at(), lanes.as_mut_ptr(), count) };
        }
        Ok(true)
    }
}
