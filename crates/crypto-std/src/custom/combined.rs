//! Modes whose integrity rests on the cipher of one's own: GCM over its blocks (RFC 4106), and its own combined mode.
//! They are refused unless policy and configuration say `alone`.

use std::array::from_fn;

use crypto::custom::{AeadKey, AeadOp, BlockKey, CtrOp, SetKeyError};
use crypto::{AssociatedData, OpenOp, SealOp, Transform, UnitFailed};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use zeroize::{Zeroize, Zeroizing};

use super::modes::counter_block;
use crate::rustcrypto::{KEY_SETUP_STACK, LANES, MAX_DATA, same};

const BLOCK: usize = 16;
/// Octets of the explicit IV: the sequence number.
const IV: usize = 8;
/// Octets of the nonce: salt and IV.
const NONCE: usize = 12;
/// Octets of the longest tag.
const TAG: usize = 16;

/// GCM over a block cipher of one's own.
pub(super) struct Gcm {
    key: Box<dyn BlockKey>,
    hash: GHash,
    salt: [u8; 4],
    extended: bool,
}

impl Gcm {
    pub(super) fn new(key: Box<dyn BlockKey>, salt: [u8; 4], extended: bool) -> Result<Gcm, SetKeyError> {
        let mut h = Zeroizing::new([0; BLOCK]);
        key.encrypt_blocks(&mut *h)?;
        let hash = GHash::new(&(*h).into());
        // Padding between fields takes what is on the stack.
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        Ok(Gcm { key, hash, salt, extended })
    }

    /// The hash of one packet: associated data, ciphertext, lengths (NIST SP 800-38D section 7.1).
    fn hash(&self, aad: &[u8], data: &[u8]) -> [u8; BLOCK] {
        let mut hash = self.hash.clone();
        hash.update_padded(aad);
        hash.update_padded(data);
        let lengths = ((aad.len() as u128 * 8) << 64) | (data.len() as u128 * 8);
        hash.update(&[lengths.to_be_bytes().into()]);
        hash.finalize().into()
    }

    fn crypt<'a>(
        &self,
        packets: impl Iterator<Item = ([u8; BLOCK], &'a mut [u8])>,
    ) -> Result<(), UnitFailed> {
        let mut lanes: [CtrOp<'_>; LANES] = from_fn(|_| CtrOp { counter: [0; BLOCK], data: &mut [] });
        let mut count = 0;
        for (lane, (counter, data)) in lanes.iter_mut().zip(packets) {
            *lane = CtrOp { counter, data };
            count += 1;
        }
        self.key.ctr_xor_batch(lanes.get_mut(..count).unwrap_or_default())
    }

    /// The masks of these tags: counter block 1 of each packet, encrypted.
    fn masks<'a>(&self, ivs: impl Iterator<Item = &'a [u8]>) -> Result<[[u8; BLOCK]; LANES], UnitFailed> {
        let mut masks = [[0; BLOCK]; LANES];
        let mut count = 0;
        for (mask, iv) in masks.iter_mut().zip(ivs) {
            *mask = counter_block(&self.salt, iv, 1);
            count += 1;
        }
        let blocks = masks.get_mut(..count).unwrap_or_default();
        self.key.encrypt_blocks(blocks.as_flattened_mut())?;
        Ok(masks)
    }

    fn seal_lanes(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        for op in &mut *ops {
            if op.iv.len() != IV || op.icv.len() != TAG || op.data.len() > MAX_DATA {
                return Err(UnitFailed);
            }
            op.iv.copy_from_slice(&op.sequence.to_be_bytes());
        }
        self.crypt(ops.iter_mut().map(|op| (counter_block(&self.salt, op.iv, 2), &mut *op.data)))?;
        let masks = self.masks(ops.iter().map(|op| &*op.iv))?;
        for (op, mask) in ops.iter_mut().zip(masks) {
            let aad = AssociatedData::new(op.header, op.sequence, self.extended);
            let hash = self.hash(aad.octets(), op.data);
            op.icv.iter_mut().zip(hash.iter().zip(mask)).for_each(|(to, (a, b))| *to = a ^ b);
        }
        Ok(())
    }

    fn open_lanes(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        let masks = self.masks(ops.iter().map(|op| op.iv))?;
        for (op, mask) in ops.iter_mut().zip(masks) {
            let aad = AssociatedData::new(op.header, op.sequence, self.extended);
            let mut tag = self.hash(aad.octets(), op.data);
            tag.iter_mut().zip(mask).for_each(|(to, from)| *to ^= from);
            op.ok = op.iv.len() == IV && op.data.len() <= MAX_DATA && same(&tag, op.icv);
        }
        let right = ops.iter_mut().filter(|op| op.ok);
        self.crypt(right.map(|op| (counter_block(&self.salt, op.iv, 2), &mut *op.data)))
    }
}

impl Drop for Gcm {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

impl Transform for Gcm {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        ops.chunks_mut(LANES).try_for_each(|lanes| self.seal_lanes(lanes))
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        ops.chunks_mut(LANES).try_for_each(|lanes| self.open_lanes(lanes))
    }
}

/// The combined mode of a cipher of one's own. The nonce is salt and sequence number, the associated data that of RFC
/// 4106 section 5 and RFC 7634 section 2.1.
pub(super) struct Aead {
    key: Box<dyn AeadKey>,
    salt: [u8; 4],
    icv_len: usize,
    extended: bool,
}

impl Aead {
    pub(super) fn new(key: Box<dyn AeadKey>, salt: [u8; 4], icv_len: usize, extended: bool) -> Aead {
        Aead { key, salt, icv_len, extended }
    }

    fn nonce(&self, iv: &[u8]) -> [u8; NONCE] {
        counter_block(&self.salt, iv, 0).first_chunk().copied().unwrap_or_default()
    }

    fn seal_lanes(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        for op in &mut *ops {
            if op.iv.len() != IV || op.icv.len() != self.icv_len || op.data.len() > MAX_DATA {
                return Err(UnitFailed);
            }
            op.iv.copy_from_slice(&op.sequence.to_be_bytes());
        }
        let mut nonces = [[0; NONCE]; LANES];
        let mut aads = [None; LANES];
        for ((nonce, aad), op) in nonces.iter_mut().zip(&mut aads).zip(&*ops) {
            *nonce = self.nonce(op.iv);
            *aad = Some(AssociatedData::new(op.header, op.sequence, self.extended));
        }
        let count = ops.len().min(LANES);
        let mut rest = ops.iter_mut().zip(nonces.iter().zip(&aads));
        let mut lanes: [AeadOp<'_>; LANES] = from_fn(|_| match rest.next() {
            Some((op, (nonce, aad))) => AeadOp {
                nonce,
                aad: aad.as_ref().map(AssociatedData::octets).unwrap_or_default(),
                data: &mut *op.data,
                tag: &mut *op.icv,
                ok: false,
            },
            None => nothing(),
        });
        self.key.seal_batch(lanes.get_mut(..count).unwrap_or_default())
    }

    fn open_lanes(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        let mut nonces = [[0; NONCE]; LANES];
        let mut aads = [None; LANES];
        let mut tags = [[0; TAG]; LANES];
        let places = nonces.iter_mut().zip(&mut aads).zip(&mut tags);
        for (((nonce, aad), tag), op) in places.zip(&mut *ops) {
            op.ok = op.iv.len() == IV && op.icv.len() == self.icv_len && op.data.len() <= MAX_DATA;
            *nonce = self.nonce(op.iv);
            *aad = Some(AssociatedData::new(op.header, op.sequence, self.extended));
            tag.iter_mut().zip(op.icv).for_each(|(to, from)| *to = *from);
        }
        let inputs = nonces.iter().zip(&aads).zip(&mut tags);
        let mut rest = ops.iter_mut().zip(inputs).filter(|(op, _)| op.ok);
        let mut verdicts: [Option<&mut bool>; LANES] = [const { None }; LANES];
        let mut count = 0;
        let mut lanes: [AeadOp<'_>; LANES] = from_fn(|index| {
            let Some((op, ((nonce, aad), tag))) = rest.next() else { return nothing() };
            // The cipher alone says yes from here on.
            op.ok = false;
            if let Some(place) = verdicts.get_mut(index) {
                *place = Some(&mut op.ok);
            }
            count += 1;
            AeadOp {
                nonce,
                aad: aad.as_ref().map(AssociatedData::octets).unwrap_or_default(),
                data: &mut *op.data,
                tag: tag.get_mut(..self.icv_len).unwrap_or_default(),
                ok: false,
            }
        });
        self.key.open_batch(lanes.get_mut(..count).unwrap_or_default())?;
        for (verdict, lane) in verdicts.into_iter().zip(&lanes) {
            if let Some(verdict) = verdict {
                *verdict = lane.ok;
            }
        }
        Ok(())
    }
}

fn nothing<'a>() -> AeadOp<'a> {
    AeadOp { nonce: &[0; NONCE], aad: &[], data: &mut [], tag: &mut [], ok: false }
}

impl Drop for Aead {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

impl Transform for Aead {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        ops.chunks_mut(LANES).try_for_each(|lanes| self.seal_lanes(lanes))
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        ops.chunks_mut(LANES).try_for_each(|lanes| self.open_lanes(lanes))
    }
}
