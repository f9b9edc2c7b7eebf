//! The short form of the checks: what no vector shows. They run in the trial.

mod edges;

use crypto::UnitFailed;
use crypto::custom::{
    AeadKey, AeadOp, BlockKey, CbcOp, CtrOp, CustomCipher as _, CustomKey, NONCE_LEN, Primitive, StreamOp,
    ctr_over_blocks,
};

use crate::context::Guarded;
use crate::library::{KeyError, LoadedCipher};

/// A check that was not passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckError {
    /// The name of the check.
    pub(crate) check: &'static str,
    /// What was wrong, in words for the author.
    pub(crate) why: String,
}

/// The nonce of every packet of these checks.
const NONCE: [u8; NONCE_LEN] = [7; NONCE_LEN];
/// Octets around a buffer that must stay as they are.
const CANARY: u8 = 0xc5;
/// Blocks, or 16 octets, that are encrypted and decrypted under each key.
const UNITS: usize = 1024;
const KEYS: u64 = 16;
/// Octets of the longest tag.
const TAG: usize = 16;

type Outcome = Result<(), String>;
/// The name of a check, and what does it.
type Check<T> = (&'static str, fn(&T) -> Outcome);

/// A cipher under test.
pub(crate) struct Checks<'a> {
    /// The cipher that is checked.
    pub(crate) cipher: &'a LoadedCipher,
    /// Told of a check before it begins.
    pub(crate) begin: &'a dyn Fn(&'static str),
    /// Told of memory that no function may write: the contexts, and the guard pages around a buffer.
    pub(crate) watch: &'a dyn Fn(Memory, (usize, usize)),
}

/// Memory that only a faulty function writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The context of a key.
    Context,
    /// A buffer with its guard pages.
    Buffer,
}

impl Checks<'_> {
    /// All checks, in the order in which they run.
    const ALL: [Check<Self>; 7] = [
        ("setkey", Self::lengths),
        ("inverse", Self::inverse),
        ("multiblock", Self::multiblock),
        ("batch", Self::batch),
        ("keys", Self::keys),
        ("placement", Self::placement),
        ("edges", Self::edges),
    ];

    /// Run all checks, until one fails.
    pub(crate) fn run(&self) -> Result<(), CheckError> {
        for (check, function) in Self::ALL {
            (self.begin)(check);
            function(self).map_err(|why| CheckError { check, why })?;
        }
        Ok(())
    }

    /// The check of this name alone.
    pub(crate) fn one(&self, name: &str) -> Outcome {
        let found = Self::ALL.iter().find(|(check, _)| *check == name);
        let (_, function) = found.ok_or_else(|| format!("there is no check {name:.40}"))?;
        function(self)
    }

    /// The length that data must be a multiple of.
    fn unit(&self) -> usize {
        match self.cipher.description().primitive {
            Primitive::Block { block_len } => block_len,
            Primitive::Stream | Primitive::Aead { .. } => 1,
        }
    }

    fn key(&self, number: u64) -> Result<CustomKey, String> {
        let key = random(number, self.cipher.description().key_len);
        let (key, pages) = self.cipher.try_key(&key).map_err(|error| error.to_string())?;
        (self.watch)(Memory::Context, pages);
        Ok(key)
    }

    fn seal(&self, key: &CustomKey, data: &mut [u8]) -> Result<Vec<u8>, String> {
        seal(key, data, self.tag_len()).map_err(failed)
    }

    fn tag_len(&self) -> usize {
        match self.cipher.description().primitive {
            Primitive::Aead { tag_len } => tag_len,
            _ => 0,
        }
    }

    /// Keys of other lengths are refused as such.
    fn lengths(&self) -> Outcome {
        let right = self.cipher.description().key_len;
        for len in [0, 1, right - 1, right + 1, right * 2, 200].into_iter().filter(|len| *len != right) {
            match self.cipher.try_key(&random(1, len)) {
                Err(KeyError::Length) => {}
                Err(other) => return Err(format!("a key of {len} octets instead of {right}: {other}")),
                Ok(_) => return Err(format!("setkey takes a key of {len} octets instead of {right}")),
            }
        }
        self.key(1).map(|_| ())
    }

    /// What was encrypted is decrypted again.
    fn inverse(&self) -> Outcome {
        for number in 0..KEYS {
            let key = self.key(number)?;
            let plain = random(number + 100, UNITS * 16);
            let mut data = plain.clone();
            let mut tag = self.seal(&key, &mut data)?;
            if data == plain {
                return Err("the ciphertext is the plaintext".to_owned());
            }
            let sealed = data.clone();
            if !open(&key, &mut data, &mut tag).map_err(failed)? {
                return Err("what was sealed does not open".to_owned());
            }
            if let Some(at) = data.iter().zip(&plain).position(|(a, b)| a != b) {
                return Err(format!("octet {at} of a message of {} is decrypted wrongly", plain.len()));
            }
            if let Some(first) = tag.first_mut() {
                *first ^= 1;
                data.copy_from_slice(&sealed);
                if open(&key, &mut data, &mut tag).map_err(failed)? {
                    return Err("a packet with a wrong tag opens".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Many blocks at once are single blocks; a key stream in pieces is the whole.
    fn multiblock(&self) -> Outcome {
        let key = self.key(3)?;
        let unit = self.unit();
        for count in 1..=33 {
            let plain = random(count, usize::try_from(count).unwrap_or(1) * unit);
            let (mut whole, mut single) = (plain.clone(), plain.clone());
            let (mut back, mut back_single) = (plain.clone(), plain.clone());
            match &key {
                CustomKey::Block(key) => {
                    key.encrypt_blocks(&mut whole).map_err(failed)?;
                    key.decrypt_blocks(&mut back).map_err(failed)?;
                    for block in single.chunks_mut(unit) {
                        key.encrypt_blocks(block).map_err(failed)?;
                    }
                    for block in back_single.chunks_mut(unit) {
                        key.decrypt_blocks(block).map_err(failed)?;
                    }
                }
                CustomKey::Stream(key) => {
                    let nonce = &NONCE;
                    let op = |offset, data| StreamOp { nonce, offset, data };
                    key.xor_batch(&mut [op(61, &mut whole)]).map_err(failed)?;
                    for (offset, octet) in (61..).zip(single.chunks_mut(1)) {
                        key.xor_batch(&mut [op(offset, octet)]).map_err(failed)?;
                    }
                }
                CustomKey::Aead(_) => return Ok(()),
            }
            if whole != single || back != back_single {
                return Err(format!("{count} at once are not the same as {count} one by one"));
            }
        }
        Ok(())
    }

    /// The cipher's own modes and batches give what the host makes of its single calls.
    fn batch(&self) -> Outcome {
        let lengths = [0, 1, 15, 16, 17, 100, 1400, 4097, 33, 64, 0, 2048, 48, 7, 1024, 31, 129, 500, 3];
        match &self.key(4)? {
            CustomKey::Block(key) if self.unit() == 16 => {
                ctr(&**key, &lengths)?;
                cbc(&**key, &lengths)
            }
            CustomKey::Aead(key) => aead(&**key, &lengths, self.tag_len()),
            _ => Ok(()),
        }
    }

    /// Keys know nothing of each other.
    fn keys(&self) -> Outcome {
        let plain = random(5, self.unit() * 64);
        let made = |key: &CustomKey| {
            let mut data = plain.clone();
            self.seal(key, &mut data).map(|tag| (data, tag))
        };
        let first = self.key(10)?;
        let alone = made(&first)?;
        let second = self.key(11)?;
        if made(&first)? != alone {
            return Err(
                "a second key changes what the first one encrypts: the key is not in the context".to_owned()
            );
        }
        let other = made(&second)?;
        if other.0 == alone.0 {
            return Err("two keys give one ciphertext".to_owned());
        }
        if made(&first)? != alone || made(&second)? != other {
            return Err("encrypting under one key changes what another encrypts".to_owned());
        }
        drop(second);
        let again = self.key(10)?;
        if made(&first)? != alone || made(&again)? != alone {
            return Err("a key set again does not give the same ciphertext".to_owned());
        }
        Ok(())
    }

    /// Buffers at any address, up to the last octet in front of memory that cannot be touched.
    fn placement(&self) -> Outcome {
        let key = self.key(6)?;
        let unit = self.unit();
        let mut memory = Guarded::new(8192).map_err(|error| format!("no memory: {error}"))?;
        let size = memory.octets().len();
        let start = memory.octets().as_ptr() as usize;
        (self.watch)(Memory::Buffer, (start.saturating_sub(4096), start + size + 4096));
        let lengths =
            [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 80, 100, 127, 200].map(|n| n * unit);
        for len in lengths {
            let plain = random(len as u64, len);
            let mut want = plain.clone();
            let tag = self.seal(&key, &mut want)?;
            let behind = size - len;
            for at in (0..=17).chain([63]).chain(behind.saturating_sub(17)..=behind) {
                let octets = memory.octets();
                octets.fill(CANARY);
                let place = octets.get_mut(at..at + len).unwrap_or_default();
                place.copy_from_slice(&plain);
                let made = self.seal(&key, place)?;
                if place != want || made != tag {
                    return Err(format!("{len} octets at offset {at} of a page give another ciphertext"));
                }
                let mut made = made;
                if !open(&key, place, &mut made).map_err(failed)? || place != plain {
                    return Err(format!("{len} octets at offset {at} of a page give another plaintext"));
                }
                let outside =
                    |(index, octet): (usize, &u8)| *octet != CANARY && !(at..at + len).contains(&index);
                if octets.iter().enumerate().any(outside) {
                    return Err(format!("octets beside a buffer of {len} octets are written"));
                }
            }
        }
        Ok(())
    }
}

fn failed(_: UnitFailed) -> String {
    "the cipher gave an answer that has no meaning".to_owned()
}

/// Octets that look random and are the same in each run (xorshift64*).
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    std::iter::repeat_with(|| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes()
    })
    .flatten()
    .take(len)
    .collect()
}

fn seal(key: &CustomKey, data: &mut [u8], tag_len: usize) -> Result<Vec<u8>, UnitFailed> {
    let mut tag = vec![0; tag_len];
    match key {
        CustomKey::Block(key) => key.encrypt_blocks(data)?,
        CustomKey::Stream(key) => key.xor_batch(&mut [StreamOp { nonce: &NONCE, offset: 5, data }])?,
        CustomKey::Aead(key) => {
            key.seal_batch(&mut [AeadOp { nonce: &NONCE, aad: b"header", data, tag: &mut tag, ok: false }])?;
        }
    }
    Ok(tag)
}

fn open(key: &CustomKey, data: &mut [u8], tag: &mut [u8]) -> Result<bool, UnitFailed> {
    match key {
        CustomKey::Block(key) => key.decrypt_blocks(data)?,
        CustomKey::Stream(key) => key.xor_batch(&mut [StreamOp { nonce: &NONCE, offset: 5, data }])?,
        CustomKey::Aead(key) => {
            let mut ops = [AeadOp { nonce: &NONCE, aad: b"header", data, tag, ok: false }];
            key.open_batch(&mut ops)?;
            let [AeadOp { ok, .. }] = ops;
            return Ok(ok);
        }
    }
    Ok(true)
}

fn ctr(key: &dyn BlockKey, lengths: &[usize]) -> Outcome {
    // The last two blocks in front of the place where 32 bits wrap.
    let counter = u128::MAX - 2;
    let mut own: Vec<Vec<u8>> = lengths.iter().map(|len| random(*len as u64, *len)).collect();
    let mut host = own.clone();
    let ops = |packets: &mut Vec<Vec<u8>>, call: &dyn Fn(&mut [CtrOp<'_>]) -> Result<(), UnitFailed>| {
        let op = |(at, data)| CtrOp { counter: (counter - at as u128).to_be_bytes(), data };
        let mut ops: Vec<CtrOp<'_>> = packets.iter_mut().map(Vec::as_mut_slice).enumerate().map(op).collect();
        call(&mut ops).map_err(failed)
    };
    ops(&mut own, &|ops| key.ctr_xor_batch(ops))?;
    ops(&mut host, &|ops| ctr_over_blocks(|blocks| key.encrypt_blocks(blocks), ops))?;
    match own.iter().zip(&host).position(|(own, host)| own != host) {
        Some(at) => Err(format!("its own counter mode differs from its blocks in packet {at} of a batch")),
        None => Ok(()),
    }
}

fn cbc(key: &dyn BlockKey, lengths: &[usize]) -> Outcome {
    let whole = |len: usize| len / 16 * 16;
    let plain: Vec<Vec<u8>> = lengths.iter().map(|len| random(*len as u64, whole(*len))).collect();
    let mut own = plain.clone();
    let iv = [9; 16];
    let mut ops: Vec<CbcOp<'_>> = own.iter_mut().map(|data| CbcOp { iv, data }).collect();
    if !key.cbc_encrypt_batch(&mut ops).map_err(failed)? {
        return Ok(());
    }
    for (at, (own, mut host)) in own.into_iter().zip(plain).enumerate() {
        let mut previous = iv;
        for block in host.as_chunks_mut::<16>().0 {
            block.iter_mut().zip(previous).for_each(|(to, from)| *to ^= from);
            key.encrypt_blocks(block).map_err(failed)?;
            previous = *block;
        }
        if own != host {
            return Err(format!("its own CBC differs from its blocks in packet {at} of a batch"));
        }
    }
    Ok(())
}

fn aead(key: &dyn AeadKey, lengths: &[usize], tag_len: usize) -> Outcome {
    let plain: Vec<Vec<u8>> = lengths.iter().map(|len| random(*len as u64, *len)).collect();
    let mut many = plain.clone();
    let mut tags = vec![[0; TAG]; many.len()];
    let mut ops: Vec<AeadOp<'_>> = many
        .iter_mut()
        .zip(&mut tags)
        .map(|(data, tag)| AeadOp {
            nonce: &NONCE,
            aad: b"",
            data,
            tag: tag.get_mut(..tag_len).unwrap_or_default(),
            ok: false,
        })
        .collect();
    key.seal_batch(&mut ops).map_err(failed)?;
    for (at, (mut data, sealed)) in plain.iter().cloned().zip(&ops).enumerate() {
        let mut tag = vec![0; tag_len];
        let op = AeadOp { nonce: &NONCE, aad: b"", data: &mut data, tag: &mut tag, ok: false };
        key.seal_batch(&mut [op]).map_err(failed)?;
        if data != sealed.data || tag != sealed.tag {
            return Err(format!("packet {at} of a batch differs from the same packet alone"));
        }
    }
    // One wrong tag in the middle: it alone must not open.
    let wrong = ops.len() / 2;
    if let Some(op) = ops.get_mut(wrong) {
        op.tag.iter_mut().take(1).for_each(|octet| *octet ^= 1);
    }
    key.open_batch(&mut ops).map_err(failed)?;
    for (at, (op, plain)) in ops.iter().zip(&plain).enumerate() {
        if op.ok != (at != wrong) || op.ok && op.data != plain {
            return Err(format!("packet {at} of a batch with one wrong tag is opened wrongly"));
        }
    }
    Ok(())
}
