//! Tests of block ciphers: blocks, and the modes that the host makes of them. These few lines are a second reading of
//! the modes, apart from those that packets go through.

use crypto::UnitFailed;
use crypto::custom::{BlockKey, CbcOp, CtrOp, ctr_over_blocks};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use subtle::ConstantTimeEq;

use super::failure::Failure;
use super::{BLOCK, Sealed};

/// Blocks in both directions, all at once and each for itself.
pub(super) fn blocks(key: &dyn BlockKey, block: usize, msg: &[u8], ct: &[u8]) -> Result<(), Failure> {
    let mut data = msg.to_vec();
    key.encrypt_blocks(&mut data)?;
    equal(&data, ct, "the ciphertext is another")?;
    key.decrypt_blocks(&mut data)?;
    equal(&data, msg, "the plaintext is another")?;
    for one in data.chunks_exact_mut(block) {
        key.encrypt_blocks(one)?;
    }
    equal(&data, ct, "blocks one by one give another ciphertext than all at once")?;
    for one in data.chunks_exact_mut(block) {
        key.decrypt_blocks(one)?;
    }
    equal(&data, msg, "blocks one by one give another plaintext than all at once")
}

/// Counter mode, by the cipher's own way and by the host's.
pub(super) fn ctr(key: &dyn BlockKey, counter: &[u8; BLOCK], msg: &[u8], ct: &[u8]) -> Result<(), Failure> {
    let mut data = msg.to_vec();
    key.ctr_xor_batch(&mut [CtrOp { counter: *counter, data: &mut data }])?;
    equal(&data, ct, "the ciphertext is another")?;
    ctr_over_blocks(
        |blocks| key.encrypt_blocks(blocks),
        &mut [CtrOp { counter: *counter, data: &mut data }],
    )?;
    equal(&data, msg, "the cipher's own counter mode and its blocks differ")
}

/// CBC, by the cipher's own way if it has one and over its blocks.
pub(super) fn cbc(key: &dyn BlockKey, iv: &[u8], msg: &[u8], ct: &[u8]) -> Result<(), Failure> {
    let mut data = msg.to_vec();
    let mut previous = iv.to_vec();
    for one in data.chunks_exact_mut(iv.len()) {
        xor(one, &previous);
        key.encrypt_blocks(one)?;
        previous.copy_from_slice(one);
    }
    equal(&data, ct, "the ciphertext is another")?;
    key.decrypt_blocks(&mut data)?;
    for (one, previous) in data.chunks_exact_mut(iv.len()).zip(std::iter::once(iv).chain(ct.chunks(iv.len())))
    {
        xor(one, previous);
    }
    equal(&data, msg, "the plaintext is another")?;
    let mut own = [0; BLOCK];
    own.iter_mut().zip(iv).for_each(|(to, from)| *to = *from);
    if key.cbc_encrypt_batch(&mut [CbcOp { iv: own, data: &mut data }])? {
        equal(&data, ct, "the cipher's own CBC and its blocks differ")?;
    }
    Ok(())
}

/// GCM (NIST SP 800-38D sections 7.1 and 7.2).
pub(super) fn gcm(key: &dyn BlockKey, test: &Sealed, valid: bool) -> Result<(), Failure> {
    let mut first = [0; BLOCK];
    first.iter_mut().zip(test.nonce).for_each(|(to, from)| *to = from);
    let counter = |number: u32| {
        let mut block = first;
        if let Some(low) = block.last_chunk_mut::<4>() {
            *low = number.to_be_bytes();
        }
        block
    };
    let right = bool::from(tag(key, counter(1), &test.aad, &test.ct)?.ct_eq(&test.tag));
    match (valid, right) {
        (false, false) => return Ok(()),
        (false, true) => return Err(Failure::Differs("the test is invalid, and its tag is right")),
        (true, false) => return Err(Failure::Differs("the tag is another")),
        (true, true) => {}
    }
    let mut data = test.msg.clone();
    key.ctr_xor_batch(&mut [CtrOp { counter: counter(2), data: &mut data }])?;
    equal(&data, &test.ct, "the ciphertext is another")
}

fn tag(key: &dyn BlockKey, mask: [u8; BLOCK], aad: &[u8], ct: &[u8]) -> Result<[u8; BLOCK], UnitFailed> {
    let (mut h, mut mask) = ([0; BLOCK], mask);
    key.encrypt_blocks(&mut h)?;
    key.encrypt_blocks(&mut mask)?;
    let mut hash = GHash::new(&h.into());
    hash.update_padded(aad);
    hash.update_padded(ct);
    let lengths = ((aad.len() as u128 * 8) << 64) | (ct.len() as u128 * 8);
    hash.update(&[lengths.to_be_bytes().into()]);
    let mut tag: [u8; BLOCK] = hash.finalize().into();
    xor(&mut tag, &mask);
    Ok(tag)
}

fn xor(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

fn equal(got: &[u8], want: &[u8], why: &'static str) -> Result<(), Failure> {
    if got == want { Ok(()) } else { Err(Failure::Differs(why)) }
}
