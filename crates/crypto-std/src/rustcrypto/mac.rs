//! MACs over octets in several places, and AH made of them (RFC 4302).

use aes::Block;
use aes::{Aes128Enc, cipher::KeyInit};
use cipher::{Array, BlockCipherEncrypt};
use crypto::{Authenticator, HashState, MAX_ICV_LEN};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::chain::{self, Ending, LANES};

/// A MAC, cut to the longest ICV.
pub(crate) type Tag = [u8; MAX_ICV_LEN];

/// A keyed function whose leftmost octets are the ICV.
pub(crate) trait Mac: Send + Sync {
    /// The MAC of each message, which is the octets of its parts one behind the other; at most [`LANES`] messages, and as
    /// many places in `out`.
    fn mac(&self, messages: &[&[&[u8]]], out: &mut [Tag]);

    /// The same function for a message that comes in parts; `None` if it takes messages whole only.
    fn steps(&self) -> Option<&dyn MacSteps> {
        None
    }
}

/// A [`Mac`] over one message that comes in parts.
pub(crate) trait MacSteps {
    /// Begin a message, of which parts follow.
    fn begin(&self, state: &mut HashState);

    /// Take in the next octets of the message.
    fn absorb(&self, state: &mut HashState, octets: &[u8]);

    /// The MAC of the message, which ends here.
    fn end(&self, state: &mut HashState) -> Tag;
}

/// AES-CMAC and AES-XCBC-MAC: a CBC chain whose last block takes one of two keys of its own.
pub(super) struct BlockMac {
    aes: Aes128Enc,
    /// The key of the last block, for a message that fills it.
    full: [u8; 16],
    /// The key of the last block, for a message that does not fill it.
    padded: [u8; 16],
}

impl BlockMac {
    /// RFC 4493 section 2.3: the keys are L·x and L·x², L being the encrypted zero block.
    pub(super) fn cmac(key: &[u8; 16]) -> BlockMac {
        let aes = Aes128Enc::new(&Array(*key));
        let mut l = encrypted(&aes, 0);
        let full = doubled(&l);
        l.zeroize();
        let padded = doubled(&full);
        BlockMac { aes, full, padded }
    }

    /// RFC 3566 section 4: the constants 1, 2 and 3, encrypted.
    pub(super) fn xcbc(key: &[u8; 16]) -> BlockMac {
        let outer = Aes128Enc::new(&Array(*key));
        let mut first = encrypted(&outer, 1);
        let aes = Aes128Enc::new(&Array(first));
        first.zeroize();
        BlockMac { aes, full: encrypted(&outer, 2), padded: encrypted(&outer, 3) }
    }
}

fn encrypted(aes: &Aes128Enc, octet: u8) -> [u8; 16] {
    let mut block = Array([octet; 16]);
    aes.encrypt_block(&mut block);
    block.0
}

/// Times x in GF(2^128) (RFC 4493 section 2.3), in constant time.
fn doubled(block: &[u8; 16]) -> [u8; 16] {
    let number = u128::from_be_bytes(*block);
    let carry = (number >> 127) * 0x87;
    (number << 1 ^ carry).to_be_bytes()
}

impl Mac for BlockMac {
    fn mac(&self, messages: &[&[&[u8]]], out: &mut [Tag]) {
        let mut blocks = [Block::default(); LANES];
        let ending = Ending { full: &self.full, padded: &self.padded, pad: 0x80 };
        chain::cbc_mac(&self.aes, ending, messages, &mut blocks);
        for ((tag, block), _) in out.iter_mut().zip(&blocks).zip(messages) {
            let (left, right) = tag.split_at_mut(16);
            left.copy_from_slice(block);
            right.fill(0);
        }
    }
}

impl Drop for BlockMac {
    fn drop(&mut self) {
        self.full.zeroize();
        self.padded.zeroize();
    }
}

/// Whether two ICVs are the same, without telling by the time where they differ.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// An AH algorithm without an IV.
pub(super) struct Ah {
    mac: Box<dyn Mac>,
    icv_len: usize,
}

impl Ah {
    pub(super) fn new(mac: Box<dyn Mac>, icv_len: usize) -> Ah {
        Ah { mac, icv_len }
    }

    fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut tag = [[0; MAX_ICV_LEN]];
        self.mac.mac(&[parts], &mut tag);
        let [tag] = tag;
        tag
    }
}

impl Authenticator for Ah {
    fn len(&self) -> usize {
        self.icv_len
    }

    fn sign(&self, _: u64, parts: &[&[u8]], out: &mut [u8]) {
        let tag = self.tag(parts);
        match tag.get(..self.icv_len) {
            Some(icv) if icv.len() == out.len() => out.copy_from_slice(icv),
            _ => out.fill(0),
        }
    }

    fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool {
        let tag = self.tag(parts);
        icv.len() == self.icv_len && tag.get(..self.icv_len).is_some_and(|right| same(right, icv))
    }
}
