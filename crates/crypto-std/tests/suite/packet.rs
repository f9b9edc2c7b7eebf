//! One packet that owns its parts, as the tests of this crate handle it.
#![allow(dead_code, reason = "each test file uses a part of this")]

use crypto::{OpenOp, SealOp, Secret, SuiteId, Transform};

/// The parts of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub sequence: u64,
    pub header: [u8; 8],
    pub iv: Vec<u8>,
    pub data: Vec<u8>,
    pub icv: Vec<u8>,
}

impl Packet {
    /// A packet that is not yet sealed: its IV and ICV are zeros.
    pub fn new(suite: SuiteId, sequence: u64, data: Vec<u8>) -> Packet {
        let header = [1, 2, 3, 4, 5, 6, 7, 8];
        Packet { sequence, header, iv: vec![0; suite.iv_len()], data, icv: vec![0; suite.icv_len()] }
    }

    pub fn seal_op(&mut self) -> SealOp<'_> {
        let Packet { sequence, header, iv, data, icv } = self;
        SealOp { sequence: *sequence, header, iv, data, icv }
    }

    pub fn open_op(&mut self, ok: bool) -> OpenOp<'_> {
        let Packet { sequence, header, iv, data, icv } = self;
        OpenOp { sequence: *sequence, header, iv, data, icv, ok }
    }

    pub fn sealed(mut self, key: &dyn Transform) -> Packet {
        key.seal(self.seal_op()).unwrap();
        self
    }

    /// The data, if the ICV is right.
    pub fn opened(&self, key: &dyn Transform) -> Option<Vec<u8>> {
        let mut packet = self.clone();
        key.open(packet.open_op(false)).unwrap().then_some(packet.data)
    }
}

/// Digits, with any white space.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
    assert_eq!(digits.len() % 2, 0);
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A key, with zeros behind it: the same key to HMAC, which pads with zeros to the block (RFC 2104 section 2).
pub fn padded(key: &[u8], len: usize) -> Secret {
    assert!(key.len() <= len);
    let mut key = key.to_vec();
    key.resize(len, 0);
    Secret::new(key)
}

/// Keying material that differs from octet to octet.
pub fn keymat(len: usize, seed: u8) -> Secret {
    Secret::new((0..len).map(|i| (i as u8).wrapping_mul(37) ^ seed).collect())
}
