//! What is computed: inverse, permutation, many at once, any place.

use cipher_loader::Form;
use cipher_loader::subject::Subject;
use crypto::custom::{CustomKey, NONCE_LEN, StreamOp};
use zeroize::Zeroizing;

use crate::calls::{LENIENT, Lengths, Octets, Verdict, failed, open, seal, set};

/// Keys of `inverse`, each with a message of its own length.
const KEYS: usize = 10_000;
/// The messages under each key.
const MESSAGES: usize = 10;
/// Units of the longest message there: blocks, or 16 octets.
const MOST_UNITS: usize = 16;

/// What was encrypted is decrypted again.
pub(super) fn inverse(subject: &Subject<'_>) -> Verdict {
    subject.short("inverse", LENIENT)?;
    let cipher = subject.in_form(LENIENT);
    let lengths = Lengths::of(&cipher);
    let mut octets = Octets::new(3);
    let mut key = Zeroizing::new(vec![0; lengths.key]);
    let (mut data, mut tag) = (vec![0; MOST_UNITS * 16], vec![0; lengths.tag]);
    octets.fill(&mut key);
    let mut made = set(&cipher, &key)?;
    for number in 0..KEYS * MESSAGES {
        if number % MESSAGES == MESSAGES - 1 {
            octets.fill(&mut key);
            made = set(&cipher, &key)?;
        }
        let len = if lengths.unit > 1 {
            lengths.unit * (1 + octets.below(MOST_UNITS))
        } else {
            octets.below(data.len() + 1)
        };
        let nonce = octets.array::<NONCE_LEN>();
        let data = data.get_mut(..len).unwrap_or_default();
        octets.fill(data);
        let plain = data.to_vec();
        seal(&made, &nonce, data, &mut tag)?;
        if len >= 16 && data == plain {
            return Err(format!("in message {number} the ciphertext of {len} octets is the plaintext"));
        }
        if !open(&made, &nonce, data, &mut tag)? {
            return Err(format!("message {number} is sealed and does not open"));
        }
        if data != plain {
            return Err(format!("message {number} of {len} octets is decrypted to another"));
        }
    }
    Ok(format!("{} messages under {KEYS} keys: what was encrypted is decrypted again", KEYS * MESSAGES))
}

/// No two of 2^16 blocks have one ciphertext.
pub(super) fn permutation(subject: &Subject<'_>) -> Verdict {
    let cipher = subject.in_form(LENIENT);
    let lengths = Lengths::of(&cipher);
    if lengths.unit == 1 {
        return Ok("does not apply: only a block cipher is a permutation of blocks".to_owned());
    }
    let mut octets = Octets::new(4);
    for number in 0..2 {
        let CustomKey::Block(key) = set(&cipher, &octets.take(lengths.key))? else {
            return Err("the key is of another kind".to_owned());
        };
        for at in [0, lengths.unit - 2] {
            let mut blocks = vec![0; lengths.unit << 16];
            for (block, count) in blocks.chunks_mut(lengths.unit).zip(0u16..=u16::MAX) {
                block.iter_mut().skip(at).zip(count.to_be_bytes()).for_each(|(to, from)| *to = from);
            }
            key.encrypt_blocks(&mut blocks).map_err(failed)?;
            let mut sorted: Vec<(&[u8], u16)> = blocks.chunks(lengths.unit).zip(0u16..=u16::MAX).collect();
            sorted.sort_unstable();
            let twice = sorted.windows(2).find_map(|pair| match pair {
                [(one, first), (two, second)] if one == two => Some((*first, *second)),
                _ => None,
            });
            if let Some((first, second)) = twice {
                return Err(format!(
                    "under key {number} two blocks have one ciphertext: those with {first} and {second} in octets \
                     {at} and {}, and zeros",
                    at + 1
                ));
            }
        }
    }
    Ok("2^16 blocks that count in their first octets, and 2^16 in their last, under 2 keys: all ciphertexts differ"
        .to_owned())
}

/// One call for many is many calls for one.
pub(super) fn multiblock(subject: &Subject<'_>) -> Verdict {
    subject.short("multiblock", LENIENT)?;
    let cipher = subject.in_form(LENIENT);
    let lengths = Lengths::of(&cipher);
    let mut octets = Octets::new(5);
    let key = set(&cipher, &octets.take(lengths.key))?;
    let nonce = octets.array::<NONCE_LEN>();
    let unit = match &key {
        CustomKey::Aead(_) => {
            subject.short("batch", LENIENT)?;
            return Ok("a batch of 19 packets is the same as 19 packets".to_owned());
        }
        CustomKey::Stream(_) => 16,
        CustomKey::Block(_) => lengths.unit,
    };
    let piece = |data: &mut [u8], from: usize, back: bool| match &key {
        CustomKey::Block(key) if back => key.decrypt_blocks(data).map_err(failed),
        CustomKey::Block(key) => key.encrypt_blocks(data).map_err(failed),
        CustomKey::Stream(key) => {
            key.xor_batch(&mut [StreamOp { nonce: &nonce, offset: from as u64, data }]).map_err(failed)
        }
        CustomKey::Aead(_) => Ok(()),
    };
    for back in [false, true] {
        for count in 1..=64 {
            let plain = octets.take(count * unit);
            let (mut whole, mut single) = (plain.clone(), plain);
            piece(&mut whole, 0, back)?;
            for (number, data) in single.chunks_mut(unit).enumerate() {
                piece(data, number * unit, back)?;
            }
            if whole != single {
                return Err(format!("{count} at once are not the same as {count} one by one"));
            }
        }
        for _ in 0..200 {
            let plain = octets.take(200 * unit);
            let (mut whole, mut parts) = (plain.clone(), plain);
            piece(&mut whole, 0, back)?;
            let (mut rest, mut from) = (parts.as_mut_slice(), 0);
            while !rest.is_empty() {
                let most = rest.len() / unit;
                let now = unit * (1 + octets.below(most));
                let (first, others) = rest.split_at_mut(now);
                piece(first, from, back)?;
                (rest, from) = (others, from + now);
            }
            if whole != parts {
                return Err("200 at once are not the same as 200 in parts of random lengths".to_owned());
            }
        }
    }
    Ok("1 to 64 at once, and 200 in parts of random lengths, are the same as one by one, both ways"
        .to_owned())
}

/// Any address, in one place and in two.
pub(super) fn placement(subject: &Subject<'_>) -> Verdict {
    let apart = Form { apart: true, ..LENIENT };
    for form in [LENIENT, apart] {
        subject.short("placement", form)?;
        subject.short("edges", form)?;
    }
    let (one, two) = (subject.in_form(LENIENT), subject.in_form(apart));
    let lengths = Lengths::of(&one);
    let mut octets = Octets::new(6);
    let secret = octets.take(lengths.key);
    let keys = [set(&one, &secret)?, set(&two, &secret)?];
    let nonce = octets.array::<NONCE_LEN>();
    let mut memory = vec![0u8; 4096];
    // The first octet at a multiple of 64.
    let base = memory.as_ptr().addr().wrapping_neg() % 64 + 64;
    for len in [1, 2, 3, 5, 8, 17, 40].map(|count| count * lengths.unit) {
        let plain = octets.take(len);
        let mut want = plain.clone();
        let mut want_tag = vec![0; lengths.tag];
        for (number, key) in keys.iter().enumerate() {
            for offset in 0..64 {
                let at = base + offset;
                memory.fill(0xc5);
                let place = memory.get_mut(at..at + len).unwrap_or_default();
                place.copy_from_slice(&plain);
                let mut tag = vec![0; lengths.tag];
                seal(key, &nonce, place, &mut tag)?;
                if (number, offset) == (0, 0) {
                    want.copy_from_slice(place);
                    want_tag.clone_from(&tag);
                }
                let places = if number == 0 { "in one place" } else { "in two places" };
                if place != want || tag != want_tag {
                    return Err(format!(
                        "{len} octets {places}, {offset} behind a multiple of 64, give another ciphertext"
                    ));
                }
                if !open(key, &nonce, place, &mut tag)? || place != plain {
                    return Err(format!(
                        "{len} octets {places}, {offset} behind a multiple of 64, give another plaintext"
                    ));
                }
                let mut beside =
                    memory.iter().enumerate().filter(|(index, _)| !(at..at + len).contains(index));
                if beside.any(|(_, octet)| *octet != 0xc5) {
                    return Err(format!("octets beside a buffer of {len} octets are written"));
                }
            }
        }
    }
    Ok(if subject.cipher().works_in_place() {
        "addresses 0 to 63 behind a multiple of 64, in one place and in two, up to memory that cannot be touched"
    } else {
        "addresses 0 to 63 behind a multiple of 64, up to memory that cannot be touched; source and destination are two \
         places, as the library wants it"
    }
    .to_owned())
}
