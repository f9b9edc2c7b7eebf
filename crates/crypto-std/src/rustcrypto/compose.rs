//! A cipher and a MAC made one transform: encrypt, then MAC (RFC 4303 section 3.3.2.1); verify, then decrypt (section
//! 3.4.4.1).
//!
//! Under the MAC: SPI and sequence number, IV, ciphertext, and behind them the upper half of an extended sequence
//! number (section 2.2.1).

use crypto::{HEADER_LEN, MAX_ICV_LEN, OpenOp, SealOp, StepState, SuiteId, Transform, UnitFailed};

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

/// The steps of one packet. Sealing, the MAC follows the cipher from step to step; opening, it goes first, over the whole
/// packet.
impl EncryptThenMac {
    /// What the MAC takes in behind the data.
    fn upper(&self, sequence: u64) -> ([u8; 4], usize) {
        (((sequence >> 32) as u32).to_be_bytes(), if self.extended { 4 } else { 0 })
    }

    /// The MAC of one packet that lies whole.
    fn tag(&self, sequence: u64, header: &[u8; HEADER_LEN], iv: &[u8], data: &[u8]) -> Tag {
        let mut tags = [[0; MAX_ICV_LEN]; LANES];
        self.tags(std::iter::once((sequence, header, iv, data)), &mut tags);
        let [tag, ..] = tags;
        tag
    }

    /// Encrypt the next part and take it into the MAC. Returns whether the packet is sealed.
    fn seal_part(
        &self,
        op: &mut SealOp<'_>,
        state: &mut StepState,
        octets: &mut usize,
    ) -> Result<bool, UnitFailed> {
        let from = state.ciphered;
        let to = self.cipher.encrypt_part(op, from, *octets, &mut state.chain)?;
        state.ciphered = to;
        *octets = octets.saturating_sub(to.saturating_sub(from));
        let steps = self.mac.steps();
        if let Some(mac) = steps {
            if !std::mem::replace(&mut state.has_begun, true) {
                mac.begin(&mut state.hash);
                mac.absorb(&mut state.hash, op.header);
                mac.absorb(&mut state.hash, op.iv);
            }
            mac.absorb(&mut state.hash, op.data.get(from..to).ok_or(UnitFailed)?);
        }
        if to < op.data.len() {
            return Ok(false);
        }
        let tag = match steps {
            Some(mac) => {
                let (upper, len) = self.upper(op.sequence);
                mac.absorb(&mut state.hash, upper.get(..len).unwrap_or(&[]));
                mac.end(&mut state.hash)
            }
            None => self.tag(op.sequence, op.header, op.iv, op.data),
        };
        op.icv.copy_from_slice(tag.get(..op.icv.len()).ok_or(UnitFailed)?);
        Ok(true)
    }

    /// Take the next part into the MAC. Returns whether the ICV is right, once all is taken in.
    fn verify_part(&self, op: &OpenOp<'_>, state: &mut StepState, octets: &mut usize) -> Option<bool> {
        let slowness = self.cipher.slowness().max(1);
        let (from, len) = (state.authenticated, op.data.len());
        let to = match self.mac.steps() {
            Some(_) => from.saturating_add((*octets).max(1).saturating_mul(slowness)).min(len),
            None => len,
        };
        state.authenticated = to;
        *octets = octets.saturating_sub(to.saturating_sub(from).div_ceil(slowness));
        let tag = match self.mac.steps() {
            Some(mac) => {
                if !std::mem::replace(&mut state.has_begun, true) {
                    mac.begin(&mut state.hash);
                    mac.absorb(&mut state.hash, op.header);
                    mac.absorb(&mut state.hash, op.iv);
                }
                mac.absorb(&mut state.hash, op.data.get(from..to).unwrap_or_default());
                if to < len {
                    return None;
                }
                let (upper, upper_len) = self.upper(op.sequence);
                mac.absorb(&mut state.hash, upper.get(..upper_len).unwrap_or(&[]));
                mac.end(&mut state.hash)
            }
            None => self.tag(op.sequence, op.header, op.iv, op.data),
        };
        Some(tag.get(..self.suite.icv_len()).is_some_and(|tag| same(tag, op.icv)))
    }

    /// Verify or decrypt the next part. Returns whether the ICV was right, once the packet is open or known to be forged.
    fn open_part(
        &self,
        op: &mut OpenOp<'_>,
        state: &mut StepState,
        octets: &mut usize,
    ) -> Result<Option<bool>, UnitFailed> {
        if !state.is_right {
            match self.verify_part(op, state, octets) {
                Some(true) => state.is_right = true,
                Some(false) => return Ok(Some(false)),
                None => return Ok(None),
            }
            if *octets == 0 && !op.data.is_empty() {
                return Ok(None);
            }
        }
        op.ok = true;
        let from = state.ciphered;
        let to = self.cipher.decrypt_part(op, from, *octets, &mut state.chain)?;
        state.ciphered = to;
        *octets = octets.saturating_sub(to.saturating_sub(from));
        Ok((to >= op.data.len()).then_some(true))
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

    fn seal_step(
        &self,
        mut op: SealOp<'_>,
        state: &mut StepState,
        octets: &mut usize,
    ) -> Result<bool, UnitFailed> {
        let sealed = match self.fits(op.iv, op.data, op.icv) {
            true => self.seal_part(&mut op, state, octets),
            false => blank(&mut op).map(|()| false),
        };
        if sealed != Ok(false) {
            state.clear();
        }
        sealed
    }

    fn open_step(
        &self,
        mut op: OpenOp<'_>,
        state: &mut StepState,
        octets: &mut usize,
    ) -> Result<Option<bool>, UnitFailed> {
        let opened = match self.fits(op.iv, op.data, op.icv) {
            true => self.open_part(&mut op, state, octets),
            false => Ok(Some(false)),
        };
        if opened != Ok(None) {
            state.clear();
        }
        opened
    }
}
