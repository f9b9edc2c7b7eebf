//! ChaCha20-Poly1305 in ESP (RFC 7634).

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use crypto::{OpenOp, SealOp, Transform, UnitFailed};
use zeroize::Zeroize;

use super::limit::{MAX_DATA, blank, each};
use crypto::AssociatedData;

pub(super) struct ChaCha {
    key: ChaCha20Poly1305,
    salt: [u8; 4],
    extended: bool,
}

impl ChaCha {
    pub(super) fn new(key: &[u8; 32], salt: [u8; 4], extended: bool) -> ChaCha {
        ChaCha { key: ChaCha20Poly1305::new(key.into()), salt, extended }
    }

    /// Salt, then IV (section 2).
    fn nonce(&self, iv: &[u8; 8]) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.salt);
        nonce[4..].copy_from_slice(iv);
        nonce
    }

    pub(super) fn protect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> Option<[u8; 16]> {
        let nonce = self.nonce(iv).into();
        Some(self.key.encrypt_inout_detached(&nonce, aad, data.into()).ok()?.into())
    }

    pub(super) fn unprotect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8], icv: &[u8; 16]) -> bool {
        let nonce = self.nonce(iv).into();
        self.key.decrypt_inout_detached(&nonce, aad, data.into(), icv.into()).is_ok()
    }
}

impl Transform for ChaCha {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        each(ops, |op| {
            let iv = op.sequence.to_be_bytes();
            let aad = AssociatedData::new(op.header, op.sequence, self.extended);
            let fits = op.iv.len() == iv.len() && op.icv.len() == 16 && op.data.len() <= MAX_DATA;
            match fits.then(|| self.protect(&iv, aad.octets(), op.data)) {
                Some(Some(tag)) => {
                    op.iv.copy_from_slice(&iv);
                    op.icv.copy_from_slice(&tag);
                    Ok(())
                }
                _ => blank(op),
            }
        })
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let aad = AssociatedData::new(op.header, op.sequence, self.extended);
            op.ok = match (op.iv.try_into(), op.icv.try_into()) {
                (Ok(iv), Ok(icv)) if op.data.len() <= MAX_DATA => {
                    self.unprotect(iv, aad.octets(), op.data, icv)
                }
                _ => false,
            };
        }
        Ok(())
    }
}

impl Drop for ChaCha {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}
