//! ChaCha20-Poly1305 in ESP (RFC 7634).

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use crypto::{OpenOp, SealOp, Transform};
use zeroize::Zeroize;

use super::MAX_DATA;
use crate::aad::Aad;

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
}

impl Transform for ChaCha {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) {
        for op in ops {
            let iv = op.sequence.to_be_bytes();
            let (Ok(out), Ok(icv)) =
                (<&mut [u8; 8]>::try_from(&mut *op.iv), <&mut [u8; 16]>::try_from(&mut *op.icv))
            else {
                super::blank(op);
                continue;
            };
            *out = iv;
            let aad = Aad::new(op.header, op.sequence, self.extended);
            let nonce = self.nonce(&iv).into();
            let fits = op.data.len() <= MAX_DATA;
            let data = (&mut *op.data).into();
            match fits.then(|| self.key.encrypt_inout_detached(&nonce, aad.octets(), data)) {
                Some(Ok(tag)) => *icv = tag.into(),
                _ => super::blank(op),
            }
        }
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) {
        for op in ops {
            let (Ok(iv), Ok(icv)) = (<&[u8; 8]>::try_from(op.iv), <&[u8; 16]>::try_from(op.icv)) else {
                op.ok = false;
                continue;
            };
            let aad = Aad::new(op.header, op.sequence, self.extended);
            let nonce = self.nonce(iv).into();
            op.ok = op.data.len() <= MAX_DATA
                && self
                    .key
                    .decrypt_inout_detached(&nonce, aad.octets(), (&mut *op.data).into(), icv.into())
                    .is_ok();
        }
    }
}

impl Drop for ChaCha {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}
