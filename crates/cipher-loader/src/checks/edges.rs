//! Batches at the edge of memory: what a function writes or reads beyond its packets meets a page that it cannot touch.

use crypto::custom::{AeadOp, CbcOp, CtrOp, CustomKey, ctr_over_blocks};

use super::{CANARY, Checks, Memory, NONCE, Outcome, failed, random};
use crate::context::Guarded;

impl Checks<'_> {
    /// Batches whose packets, tags and nonces end in front of memory that cannot be touched.
    pub(super) fn edges(&self) -> Outcome {
        let key = self.key(7)?;
        let lengths = [0usize, 1, 7, 8, 15, 16, 17, 31, 33, 64, 100, 200];
        match &key {
            CustomKey::Block(key) if self.unit() == 16 => {
                for len in lengths {
                    let mut host = random(len as u64, len);
                    let mut edge = self.edge(&host)?;
                    let counter = [0xfe; 16];
                    key.ctr_xor_batch(&mut [CtrOp { counter, data: edge.inner() }]).map_err(failed)?;
                    let mut ops = [CtrOp { counter, data: &mut host }];
                    ctr_over_blocks(|blocks| key.encrypt_blocks(blocks), &mut ops).map_err(failed)?;
                    edge.check(&host, "its own counter mode")?;
                    let plain = random(len as u64, len * 16);
                    let mut edge = self.edge(&plain)?;
                    let mut alone = plain.clone();
                    let op = |data| CbcOp { iv: [9; 16], data };
                    key.cbc_encrypt_batch(&mut [op(edge.inner())]).map_err(failed)?;
                    key.cbc_encrypt_batch(&mut [op(&mut alone)]).map_err(failed)?;
                    edge.check(&alone, "its own CBC")?;
                }
            }
            CustomKey::Aead(key) => {
                for len in lengths {
                    let plain = random(len as u64, len);
                    let (mut alone, mut alone_tag) = (plain.clone(), vec![0; self.tag_len()]);
                    let mut ops = [op(&NONCE, &mut alone, &mut alone_tag)];
                    key.seal_batch(&mut ops).map_err(failed)?;
                    let mut nonce = self.edge(&NONCE)?;
                    let (mut data, mut tag) = (self.edge(&plain)?, self.edge(&alone_tag)?);
                    tag.inner().fill(0);
                    key.seal_batch(&mut [op(nonce.inner(), data.inner(), tag.inner())]).map_err(failed)?;
                    data.check(&alone, "sealing")?;
                    tag.check(&alone_tag, "sealing")?;
                    let mut open = [op(nonce.inner(), data.inner(), tag.inner())];
                    key.open_batch(&mut open).map_err(failed)?;
                    let [AeadOp { ok, .. }] = open;
                    if !ok {
                        return Err(format!("a packet of {len} octets does not open at the end of a page"));
                    }
                    data.check(&plain, "opening")?;
                    tag.check(&alone_tag, "opening")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn edge(&self, octets: &[u8]) -> Result<Edge, String> {
        let mut memory = Guarded::new(octets.len()).map_err(|error| format!("no memory: {error}"))?;
        let all = memory.octets();
        let (start, size) = (all.as_ptr() as usize, all.len());
        (self.watch)(Memory::Buffer, (start.saturating_sub(4096), start + size + 4096));
        all.fill(CANARY);
        let mut edge = Edge { memory, len: octets.len() };
        edge.inner().copy_from_slice(octets);
        Ok(edge)
    }
}

/// Octets that end in front of memory that cannot be touched, behind octets that must stay as they are.
struct Edge {
    memory: Guarded,
    len: usize,
}

impl Edge {
    fn inner(&mut self) -> &mut [u8] {
        let len = self.len;
        let all = self.memory.octets();
        let front = all.len().saturating_sub(len);
        all.get_mut(front..).unwrap_or_default()
    }

    /// Whether these octets are there now, and the others as they were.
    fn check(&mut self, want: &[u8], during: &str) -> Outcome {
        if self.inner() != want {
            return Err(format!("{} octets at the end of a page give another result: {during}", want.len()));
        }
        let front = self.memory.octets().len().saturating_sub(self.len);
        let canaries = self.memory.octets().get(..front).unwrap_or_default();
        if canaries.iter().any(|octet| *octet != CANARY) {
            return Err(format!("octets in front of {} octets are written: {during}", want.len()));
        }
        Ok(())
    }
}

fn op<'a>(nonce: &'a [u8], data: &'a mut [u8], tag: &'a mut [u8]) -> AeadOp<'a> {
    AeadOp { nonce, aad: b"", data, tag, ok: false }
}
