//! Keys for ESP packets (RFC 4106).

use crypto::{AssociatedData, OpenOp, SealOp, Transform};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::Wide;
use crate::gcm::{Absorbed, Gcm, MAX_DATA, Run};
use crate::lanes::BLOCK;

/// Octets of salt behind a key.
pub(crate) const SALT_LEN: usize = 4;

/// A key with its salt, for ICVs of `ICV` octets and sequence numbers of 32 bits or extended ones. Wiped when dropped.
pub(crate) struct Key<const FOUR: bool, const ICV: usize, const EXTENDED: bool> {
    gcm: Gcm<FOUR>,
    /// Four octets, the first the lowest, and zeros: padding here would hold whatever was on the stack.
    salt: u64,
}

impl<const FOUR: bool, const ICV: usize, const EXTENDED: bool> Drop for Key<FOUR, ICV, EXTENDED> {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

impl<const FOUR: bool, const ICV: usize, const EXTENDED: bool> Key<FOUR, ICV, EXTENDED> {
    /// `None` if the lengths or the width do not fit.
    pub(crate) fn new(wide: Wide, key: &[u8], salt: [u8; SALT_LEN]) -> Option<Self> {
        Some(Key { gcm: Gcm::new(wide, key)?, salt: u32::from_le_bytes(salt).into() })
    }

    /// The tag; `data` is encrypted or decrypted.
    #[inline(always)]
    fn run<const SEAL: bool>(&self, iv: [u8; 8], header: &[u8; 8], sequence: u64, data: &mut [u8]) -> u128 {
        // Salt, then IV (RFC 4106 section 4).
        let nonce = u128::from(self.salt) | u128::from(u64::from_le_bytes(iv)) << 32;
        let aad = AssociatedData::new(header, sequence, EXTENDED);
        let aad = Absorbed::block(aad.padded(), aad.octets().len());
        self.gcm.run::<SEAL>(Run { nonce, aad }, data)
    }

    #[inline]
    fn seal_one(&self, op: &mut SealOp<'_>) {
        let SealOp { sequence, header, iv, data, icv } = op;
        let iv = <&mut [u8; 8]>::try_from(&mut **iv);
        let icv = <&mut [u8; ICV]>::try_from(&mut **icv);
        if let (Ok(iv), Ok(icv)) = (iv, icv)
            && data.len() <= MAX_DATA
        {
            *iv = sequence.to_be_bytes();
            let tag = self.run::<true>(sequence.to_be_bytes(), header, *sequence, data).to_le_bytes();
            icv.iter_mut().zip(tag).for_each(|(to, from)| *to = from);
            return;
        }
        // Lengths of another suite. Whatever the caller does next, no plaintext may leave.
        op.data.fill(0);
        op.icv.fill(0);
    }

    #[inline]
    fn open_one(&self, op: &mut OpenOp<'_>) -> bool {
        let (Ok(iv), Ok(icv)) = (<[u8; 8]>::try_from(op.iv), <[u8; ICV]>::try_from(op.icv)) else {
            return false;
        };
        if op.data.len() > MAX_DATA {
            return false;
        }
        let tag = self.run::<false>(iv, op.header, op.sequence, op.data);
        let right = is_right(tag, icv);
        if !right {
            op.data.fill(0);
        }
        right
    }
}

/// Whether an ICV is the beginning of a tag, in constant time.
#[inline(always)]
fn is_right<const ICV: usize>(tag: u128, icv: [u8; ICV]) -> bool {
    let mut octets = [0; BLOCK];
    octets.iter_mut().zip(icv).for_each(|(to, from)| *to = from);
    let wrong = (tag ^ u128::from_le_bytes(octets)) << (8 * (BLOCK - ICV));
    (wrong as u64 | (wrong >> 64) as u64).ct_eq(&0).into()
}

impl<const FOUR: bool, const ICV: usize, const EXTENDED: bool> Transform for Key<FOUR, ICV, EXTENDED> {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) {
        for op in ops {
            self.seal_one(op);
        }
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) {
        for op in ops {
            op.ok = self.open_one(op);
        }
    }

    fn seal(&self, mut op: SealOp<'_>) {
        self.seal_one(&mut op);
    }

    fn open(&self, mut op: OpenOp<'_>) -> bool {
        self.open_one(&mut op)
    }
}
