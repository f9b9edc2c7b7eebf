//! A cipher and a MAC made one transform: encrypt, then MAC (RFC 4303 section 3.3.2.1); verify, then decrypt (section
//! 3.4.4.1).
//!
//! Under the MAC: SPI and sequence number, IV, ciphertext, and behind them the upper half of an extended sequence
//! number (section 2.2.1).

use crypto::{HEADER_LEN, MAX_ICV_LEN, OpenOp, SealOp, SuiteId, Transform, UnitFailed};

use super::chain::LANES;
use super::cipher_modes::PacketCipher;
use super::limit::{MAX_DATA, blank, each};
use super::mac::{Mac, Tag, same};

pub(crate) struct EncryptThenMac {
    suite: SuiteId,
    cipher: Box<dyn PacketCipher>,
    mac: Box<dyn Mac>,
    extended: bool,
}

impl EncryptThenMac {
    pub(crate) fn new(
        suite: SuiteId,
        cipher: Box<dyn PacketCipher>,
        mac: Box<dyn Mac>,
        extended: bool,
    ) -> EncryptThenMac {
        EncryptThenMac { suite, cipher, mac, extended }
    }

    fn fits(&self, iv: &[u8], data: &[u8], icv: &[u8]) -> bool {
        iv.len() == self.suite.iv_len()
            && icv.len() == self.suite.icv_len()
            && data.len().is_multiple_of(self.suite.block_len())
            && data.len() <= MAX_DATA
    }

    /// Packets that fit, at most [`LANES`].
    fn seal_lanes(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        self.cipher.encrypt(ops)?;
        let mut tags = [[0; MAX_ICV_LEN]; LANES];
        self.tags(ops.iter().map(|op| (op.sequence, op.header, &*op.iv, &*op.data)), &mut tags);
        for (op, tag) in ops.iter_mut().zip(&tags) {
            if let Some(tag) = tag.get(..op.icv.len()) {
                op.icv.copy_from_slice(tag);
            }
        }
        Ok(())
    }

    fn tags<'a>(
        &self,
        packets: impl Iterator<Item = (u64, &'a [u8; HEADER_LEN], &'a [u8], &'a [u8])>,
        tags: &mut [Tag; LANES],
    ) {
        let mut uppers = [[0; 4]; LANES];
        let mut parts: [[&[u8]; 4]; LANES] = [[&[]; 4]; LANES];
        let mut count = 0;
        for (((sequence, header, iv, data), parts), upper) in packets.zip(&mut parts).zip(&mut uppers) {
            *upper = ((sequence >> 32) as u32).to_be_bytes();
            let upper: &[u8] = if self.extended { upper } else { &[] };
            *parts = [header, iv, data, upper];
            count += 1;
        }
        let messages = parts.each_ref().map(|parts| parts.as_slice());
        if let (Some(messages), Some(tags)) = (messages.get(..count), tags.get_mut(..count)) {
            self.mac.mac(messages, tags);
        }
    }
}

impl Transform for EncryptThenMac {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        let mut all = Ok(());
        for run in ops.chunk_by_mut(|a, b| self.fits(a.iv, a.data, a.icv) == self.fits(b.iv, b.data, b.icv)) {
            let sealed = match run.first() {
                Some(op) if self.fits(op.iv, op.data, op.icv) => {
                    run.chunks_mut(LANES).try_for_each(|lanes| self.seal_lanes(lanes))
                }
                // Lengths of another suite. Whatever the caller does next, no plaintext may leave.
                _ => each(run, blank),
            };
            all = sealed.and(all);
        }
        all
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for lanes in ops.chunks_mut(LANES) {
            let mut tags = [[0; MAX_ICV_LEN]; LANES];
            self.tags(lanes.iter().map(|op| (op.sequence, op.header, op.iv, &*op.data)), &mut tags);
            for (op, tag) in lanes.iter_mut().zip(&tags) {
                let right = tag.get(..self.suite.icv_len()).is_some_and(|tag| same(tag, op.icv));
                op.ok = self.fits(op.iv, op.data, op.icv) && right;
            }
            self.cipher.decrypt(lanes)?;
        }
        Ok(())
    }
}
