//! Keys for ESP packets (RFC 4106, RFC 7634).

use crypto::{AssociatedData, OpenOp, SealOp, Transform, UnitFailed};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::Wide;
use crate::chacha20_poly1305::ChaCha20Poly1305;
use crate::gcm::{Gcm, HashedData, MAX_DATA, Run};
use crate::lanes::BLOCK;

/// Octets of salt behind a key.
pub(crate) const SALT_LEN: usize = 4;

/// A combined mode under one key. Wiped when dropped.
pub(crate) trait Aead: Send + Sync + Sized {
    /// `None` if the length or the width does not fit.
    fn new(wide: Wide, key: &[u8]) -> Option<Self>;

    /// Encrypt `data`, at most [`MAX_DATA`] octets, where it lies; the tag. `nonce` has 12 octets, the first the lowest.
    fn seal(&self, nonce: u128, aad: &AssociatedData, data: &mut [u8]) -> u128;

    /// Decrypt `data` where it lies, whose content is worthless if its tag is not right.
    fn open(
        &self,
        nonce: u128,
        aad: &AssociatedData,
        data: &mut [u8],
        is_right: impl Fn(u128) -> bool,
    ) -> bool;
}

impl<const FOUR: bool> Aead for Gcm<FOUR> {
    fn new(wide: Wide, key: &[u8]) -> Option<Self> {
        Gcm::new(wide, key)
    }

    #[inline(always)]
    fn seal(&self, nonce: u128, aad: &AssociatedData, data: &mut [u8]) -> u128 {
        let aad = HashedData::block(aad.padded(), aad.octets().len());
        self.run::<true>(Run { nonce, aad }, data)
    }

    #[inline(always)]
    fn open(
        &self,
        nonce: u128,
        aad: &AssociatedData,
        data: &mut [u8],
        is_right: impl Fn(u128) -> bool,
    ) -> bool {
        let aad = HashedData::block(aad.padded(), aad.octets().len());
        is_right(self.run::<false>(Run { nonce, aad }, data))
    }
}

impl Aead for ChaCha20Poly1305 {
    fn new(wide: Wide, key: &[u8]) -> Option<Self> {
        ChaCha20Poly1305::new(wide, key)
    }

    #[inline(always)]
    fn seal(&self, nonce: u128, aad: &AssociatedData, data: &mut [u8]) -> u128 {
        ChaCha20Poly1305::seal(self, nonce, aad.octets(), data)
    }

    #[inline(always)]
    fn open(
        &self,
        nonce: u128,
        aad: &AssociatedData,
        data: &mut [u8],
        is_right: impl Fn(u128) -> bool,
    ) -> bool {
        ChaCha20Poly1305::open(self, nonce, aad.octets(), data, is_right)
    }
}

/// A key with its salt, for ICVs of `ICV` octets and sequence numbers of 32 bits or extended ones. Wiped when dropped.
pub(crate) struct Key<A, const ICV: usize, const EXTENDED: bool> {
    mode: A,
    /// Four octets, the first the lowest, and zeros: padding here would hold whatever was on the stack.
    salt: u64,
}

impl<A, const ICV: usize, const EXTENDED: bool> Drop for Key<A, ICV, EXTENDED> {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

impl<A: Aead, const ICV: usize, const EXTENDED: bool> Key<A, ICV, EXTENDED> {
    /// `None` if the lengths or the width do not fit.
    pub(crate) fn new(wide: Wide, key: &[u8], salt: &[u8; SALT_LEN]) -> Option<Self> {
        Some(Key { mode: A::new(wide, key)?, salt: u32::from_le_bytes(*salt).into() })
    }

    /// Salt, then IV (RFC 4106 section 4, RFC 7634 section 2).
    #[inline(always)]
    fn nonce(&self, iv: [u8; 8]) -> u128 {
        u128::from(self.salt) | u128::from(u64::from_le_bytes(iv)) << 32
    }

    #[inline]
    fn seal_one(&self, op: &mut SealOp<'_>) -> Result<(), UnitFailed> {
        let SealOp { sequence, header, iv, data, icv } = op;
        let iv = <&mut [u8; 8]>::try_from(&mut **iv);
        let icv = <&mut [u8; ICV]>::try_from(&mut **icv);
        if let (Ok(iv), Ok(icv)) = (iv, icv)
            && data.len() <= MAX_DATA
        {
            *iv = sequence.to_be_bytes();
            let aad = AssociatedData::new(header, *sequence, EXTENDED);
            let tag = self.mode.seal(self.nonce(*iv), &aad, data);
            icv.iter_mut().zip(tag.to_le_bytes()).for_each(|(to, from)| *to = from);
            return Ok(());
        }
        // Lengths of another suite. Whatever the caller does next, no plaintext may leave.
        op.data.fill(0);
        op.icv.fill(0);
        Err(UnitFailed)
    }

    #[inline]
    fn open_one(&self, op: &mut OpenOp<'_>) -> bool {
        let (Ok(iv), Ok(icv)) = (<[u8; 8]>::try_from(op.iv), <[u8; ICV]>::try_from(op.icv)) else {
            return false;
        };
        if op.data.len() > MAX_DATA {
            return false;
        }
        let aad = AssociatedData::new(op.header, op.sequence, EXTENDED);
        let right = self.mode.open(self.nonce(iv), &aad, op.data, |tag| is_right(tag, icv));
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

impl<A: Aead, const ICV: usize, const EXTENDED: bool> Transform for Key<A, ICV, EXTENDED> {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        let mut all = Ok(());
        for op in ops {
            all = self.seal_one(op).and(all);
        }
        all
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            op.ok = self.open_one(op);
        }
        Ok(())
    }

    fn seal(&self, mut op: SealOp<'_>) -> Result<(), UnitFailed> {
        self.seal_one(&mut op)
    }

    fn open(&self, mut op: OpenOp<'_>) -> Result<bool, UnitFailed> {
        Ok(self.open_one(&mut op))
    }
}
