//! Calls into a combined mode.

use std::array::from_fn;
use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;

use crypto::UnitFailed;
use crypto::custom::{AeadKey, AeadOp, NONCE_LEN};

use super::batch::{COPY, LANES};
use crate::abi::{BAD_TAG, IN_PLACE, OK, Raw, RawAead};
use crate::context::Context;

type Seal =
    unsafe extern "C" fn(*const c_void, *const u8, *const u8, usize, *mut u8, *const u8, usize, *mut u8);
type Open = unsafe extern "C" fn(
    *const c_void,
    *const u8,
    *const u8,
    usize,
    *mut u8,
    *const u8,
    usize,
    *const u8,
) -> i32;
type Batch = unsafe extern "C" fn(*const c_void, *mut RawAead, usize);

/// Octets of the longest packet that is copied for a cipher that cannot work in place: what an IP packet may have.
const LONGEST: usize = 65536;

/// The functions of a combined mode.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    tag_len: usize,
    pub(super) in_place: bool,
    seal: Seal,
    open: Open,
    seal_batch: Option<Batch>,
    open_batch: Option<Batch>,
}

impl Functions {
    /// Without what is optional.
    pub(super) fn plain(self) -> Functions {
        Functions { seal_batch: None, open_batch: None, ..self }
    }

    /// Whether there is anything optional.
    pub(super) fn has_more(self) -> bool {
        self.seal_batch.is_some() || self.open_batch.is_some()
    }

    /// Only for a description that was checked: mandatory functions are there, and all are code of the library.
    pub(super) fn new(raw: &Raw, tag_len: usize) -> Functions {
        // SAFETY: the addresses are code of the library or, where a function is optional, 0, which is `None`. The
        // header gives the functions these types.
        unsafe {
            Functions {
                tag_len,
                in_place: raw.flags & IN_PLACE != 0,
                seal: transmute::<usize, Seal>(raw.seal),
                open: transmute::<usize, Open>(raw.open),
                seal_batch: transmute::<usize, Option<Batch>>(raw.seal_batch),
                open_batch: transmute::<usize, Option<Batch>>(raw.open_batch),
            }
        }
    }
}

/// A key of a combined mode in a library.
pub(super) struct Key {
    pub(super) context: Context,
    pub(super) functions: Functions,
}

impl Key {
    /// Whether every packet has a nonce and a tag of the right length, so that no library reads beyond them.
    fn fit(&self, ops: &[AeadOp<'_>]) -> Result<(), UnitFailed> {
        let fits = |op: &AeadOp<'_>| op.nonce.len() == NONCE_LEN && op.tag.len() == self.functions.tag_len;
        if ops.iter().all(fits) { Ok(()) } else { Err(UnitFailed) }
    }

    fn batch(&self, function: Batch, ops: &mut [AeadOp<'_>]) -> [i32; LANES] {
        let mut lanes: [RawAead; LANES] = from_fn(|_| RawAead {
            nonce: ptr::null(),
            aad: ptr::null(),
            aad_len: 0,
            data: ptr::null_mut(),
            len: 0,
            tag: ptr::null_mut(),
            result: BAD_TAG,
            reserved: 0,
        });
        let mut count = 0;
        for (lane, op) in lanes.iter_mut().zip(ops) {
            *lane = RawAead {
                nonce: op.nonce.as_ptr(),
                aad: op.aad.as_ptr(),
                aad_len: op.aad.len(),
                data: op.data.as_mut_ptr(),
                len: op.data.len(),
                tag: op.tag.as_mut_ptr(),
                ..*lane
            };
            count += 1;
        }
        // SAFETY: so many records are filled; each names the slices of one packet, whose lengths `fit` has checked.
        unsafe { function(self.context.at(), lanes.as_mut_ptr(), count) };
        lanes.map(|lane| lane.result)
    }

    /// One packet by a call that has source and destination. The packet is copied where the cipher needs it.
    fn one(&self, data: &mut [u8], call: impl FnOnce(*mut u8, *const u8) -> i32) -> Result<i32, UnitFailed> {
        if self.functions.in_place || data.is_empty() {
            let at = data.as_mut_ptr();
            return Ok(call(at, at));
        }
        if data.len() <= COPY { copied::<COPY>(data, call) } else { copied::<LONGEST>(data, call) }
    }
}

/// A call with a copy of the packet as its source, on the stack. What a packet leaves there is not wiped, as everywhere.
#[inline(never)]
fn copied<const N: usize>(
    data: &mut [u8],
    call: impl FnOnce(*mut u8, *const u8) -> i32,
) -> Result<i32, UnitFailed> {
    let mut copy = [0; N];
    let from = copy.get_mut(..data.len()).ok_or(UnitFailed)?;
    from.copy_from_slice(data);
    Ok(call(data.as_mut_ptr(), from.as_ptr()))
}

impl AeadKey for Key {
    fn seal_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        self.fit(ops)?;
        if let Some(function) = self.functions.seal_batch {
            for lanes in ops.chunks_mut(LANES) {
                self.batch(function, lanes);
            }
            return Ok(());
        }
        let (seal, at) = (self.functions.seal, self.context.at());
        for op in ops {
            let (nonce, aad, aad_len) = (op.nonce.as_ptr(), op.aad.as_ptr(), op.aad.len());
            let (len, tag) = (op.data.len(), op.tag.as_mut_ptr());
            self.one(op.data, |to, from| {
                // SAFETY: `one` hands over so many octets twice; nonce and tag have the cipher's lengths.
                unsafe { seal(at, nonce, aad, aad_len, to, from, len, tag) };
                OK
            })?;
        }
        Ok(())
    }

    fn open_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        self.fit(ops)?;
        let (open, at) = (self.functions.open, self.context.at());
        let mut all = Ok(());
        for ops in ops.chunks_mut(LANES) {
            let mut answers = [BAD_TAG; LANES];
            if let Some(function) = self.functions.open_batch {
                answers = self.batch(function, ops);
            } else {
                for (answer, op) in answers.iter_mut().zip(&mut *ops) {
                    let (nonce, aad, aad_len) = (op.nonce.as_ptr(), op.aad.as_ptr(), op.aad.len());
                    let (len, tag) = (op.data.len(), op.tag.as_ptr());
                    let opened = self.one(op.data, |to, from| {
                        // SAFETY: as in `seal_batch`.
                        unsafe { open(at, nonce, aad, aad_len, to, from, len, tag) }
                    });
                    // A packet that is too long to be copied was not opened.
                    *answer = opened.unwrap_or(BAD_TAG - 1);
                }
            }
            for (answer, op) in answers.into_iter().zip(ops) {
                op.ok = answer == OK;
                if !op.ok {
                    // The cipher leaves no plaintext; should it do so all the same, nobody sees it.
                    op.data.fill(0);
                }
                if !matches!(answer, OK | BAD_TAG) {
                    all = Err(UnitFailed);
                }
            }
        }
        all
    }
}
