//! AES-GCM with every length of ICV (RFC 4106), and AES-GMAC in ESP and AH (RFC 4543).

use aes::Block;
use cipher::common::BlockSizeUser;
use cipher::consts::U16;
use cipher::{Array, BlockCipherEncrypt};
use crypto::{Authenticator, OpenOp, SealOp, Transform, UnitFailed};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use zeroize::Zeroize;

use super::chain::xor;
use super::cipher_modes::{apply, counter_block};
use super::limit::{MAX_DATA, blank, each};
use super::mac::same;
use crypto::AssociatedData;

const ICV_LEN: usize = 16;

/// A block cipher of 128 bits that encrypts.
pub(super) trait Aes: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync {}

impl<A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync> Aes for A {}

/// The parts that both modes share: the cipher, the hash key and the salt.
struct Key<A> {
    aes: A,
    hash: GHash,
    salt: [u8; 4],
}

impl<A: Aes> Key<A> {
    fn new(aes: A, salt: [u8; 4]) -> Key<A> {
        let mut h = Block::default();
        aes.encrypt_block(&mut h);
        let hash = GHash::new(&h);
        h.0.zeroize();
        Key { aes, hash, salt }
    }

    /// The tag of a hash: lengths in octets, and the encrypted counter block 1.
    #[inline]
    fn tag(&self, mut hash: GHash, iv: &[u8; 8], aad: usize, data: usize) -> [u8; ICV_LEN] {
        let mut lengths = Block::default();
        lengths[..8].copy_from_slice(&(aad as u64 * 8).to_be_bytes());
        lengths[8..].copy_from_slice(&(data as u64 * 8).to_be_bytes());
        hash.update(&[lengths]);
        let mut tag = counter_block(&self.salt, iv, 1);
        self.aes.encrypt_block(&mut tag);
        xor(&mut tag.0, &hash.finalize().0);
        tag.0
    }
}

impl<A> Drop for Key<A> {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

/// AES-GCM as an ESP transform. The associated data is SPI and sequence number, in full where it is extended (RFC 4106
/// section 5).
pub(super) struct Gcm<A> {
    key: Key<A>,
    icv_len: usize,
    extended: bool,
}

impl<A: Aes> Gcm<A> {
    pub(super) fn new(aes: A, salt: [u8; 4], icv_len: usize, extended: bool) -> Gcm<A> {
        Gcm { key: Key::new(aes, salt), icv_len, extended }
    }

    #[inline]
    fn tag(&self, iv: &[u8; 8], aad: &[u8], data: &[u8]) -> [u8; ICV_LEN] {
        let mut hash = self.key.hash.clone();
        hash.update_padded(aad);
        hash.update_padded(data);
        self.key.tag(hash, iv, aad.len(), data.len())
    }

    #[inline]
    pub(super) fn protect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; ICV_LEN] {
        apply(&self.key.aes, &counter_block(&self.key.salt, iv, 2), data);
        self.tag(iv, aad, data)
    }

    #[inline]
    pub(super) fn unprotect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8], icv: &[u8]) -> bool {
        let tag = self.tag(iv, aad, data);
        let right = tag.get(..self.icv_len).is_some_and(|tag| same(tag, icv));
        if right {
            apply(&self.key.aes, &counter_block(&self.key.salt, iv, 2), data);
        }
        right
    }

    #[inline]
    fn seal_one(&self, op: &mut SealOp<'_>) -> Result<(), UnitFailed> {
        let Ok(out) = <&mut [u8; 8]>::try_from(&mut *op.iv) else { return blank(op) };
        if op.icv.len() != self.icv_len || op.data.len() > MAX_DATA {
            return blank(op);
        }
        let iv = op.sequence.to_be_bytes();
        *out = iv;
        let aad = AssociatedData::new(op.header, op.sequence, self.extended);
        let tag = self.protect(&iv, aad.octets(), op.data);
        if let Some(tag) = tag.get(..self.icv_len) {
            op.icv.copy_from_slice(tag);
        }
        Ok(())
    }

    #[inline]
    fn open_one(&self, op: &mut OpenOp<'_>) -> bool {
        let Ok(iv) = <&[u8; 8]>::try_from(op.iv) else { return false };
        let aad = AssociatedData::new(op.header, op.sequence, self.extended);
        op.data.len() <= MAX_DATA && self.unprotect(iv, aad.octets(), op.data, op.icv)
    }
}

impl<A: Aes> Transform for Gcm<A> {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        each(ops, |op| self.seal_one(op))
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            op.ok = self.open_one(op);
        }
        Ok(())
    }
}

/// AES-GMAC: everything is associated data, the IV too: in ESP by RFC 4543 section 3.5 figure 4, in AH by section 7.
pub(super) struct Gmac<A> {
    key: Key<A>,
    extended: bool,
}

impl<A: Aes> Gmac<A> {
    /// `extended` counts in ESP alone: AH has the upper half among its parts.
    pub(super) fn new(aes: A, salt: [u8; 4], extended: bool) -> Gmac<A> {
        Gmac { key: Key::new(aes, salt), extended }
    }

    fn tag(&self, iv: &[u8; 8], parts: &[&[u8]]) -> [u8; ICV_LEN] {
        let mut hash = self.key.hash.clone();
        let mut tail = Block::default();
        let (mut filled, mut octets) = (0, 0);
        for part in parts {
            octets += part.len();
            let mut part = *part;
            if filled > 0 {
                let take = part.len().min(tail.len() - filled);
                let (now, rest) = part.split_at(take);
                tail.iter_mut().skip(filled).zip(now).for_each(|(to, from)| *to = *from);
                filled += take;
                part = rest;
                if filled < tail.len() {
                    continue;
                }
                hash.update(&[tail]);
            }
            let (blocks, rest) = Array::slice_as_chunks(part);
            hash.update(blocks);
            tail.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            filled = rest.len();
        }
        if let Some(last) = tail.get(..filled) {
            hash.update_padded(last);
        }
        self.key.tag(hash, iv, octets, 0)
    }

    fn esp_tag(&self, iv: &[u8; 8], header: &[u8; 8], sequence: u64, data: &[u8]) -> [u8; ICV_LEN] {
        self.tag(iv, &[AssociatedData::new(header, sequence, self.extended).octets(), iv, data])
    }
}

impl<A: Aes> Transform for Gmac<A> {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        each(ops, |op| {
            let iv = op.sequence.to_be_bytes();
            if op.iv.len() != iv.len() || op.icv.len() != ICV_LEN || op.data.len() > MAX_DATA {
                return blank(op);
            }
            op.iv.copy_from_slice(&iv);
            op.icv.copy_from_slice(&self.esp_tag(&iv, op.header, op.sequence, op.data));
            Ok(())
        })
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            op.ok = op.data.len() <= MAX_DATA
                && op
                    .iv
                    .try_into()
                    .is_ok_and(|iv| same(&self.esp_tag(iv, op.header, op.sequence, op.data), op.icv));
        }
        Ok(())
    }
}

/// IV and tag (RFC 4543 section 4). The parts hold the IV, since in AH it is associated data (section 7).
impl<A: Aes> Authenticator for Gmac<A> {
    fn len(&self) -> usize {
        8 + ICV_LEN
    }

    fn put_iv(&self, sequence: u64, out: &mut [u8]) {
        out.iter_mut().zip(sequence.to_be_bytes()).for_each(|(to, from)| *to = from);
    }

    fn sign(&self, sequence: u64, parts: &[&[u8]], out: &mut [u8]) {
        match <&mut [u8; 8 + ICV_LEN]>::try_from(&mut *out) {
            Ok(both) => {
                let iv = sequence.to_be_bytes();
                both[..8].copy_from_slice(&iv);
                both[8..].copy_from_slice(&self.tag(&iv, parts));
            }
            Err(_) => out.fill(0),
        }
    }

    fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool {
        icv.split_first_chunk::<8>().is_some_and(|(iv, tag)| same(&self.tag(iv, parts), tag))
    }
}
