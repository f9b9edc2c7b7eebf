//! Sets of outputs that tests of randomness look at: what an evaluation of AES looked at (Soto 1999, NIST IR 6390),
//! and sums over structured inputs.

use crypto::custom::Primitive;

use crate::random::Random;
use crate::subject::{Subject, SubjectError, flip};

/// The number of octets that a key stream is made in at once; a multiple of a packet.
const PIECE: usize = 256 * 1024;

/// A set of outputs, or the reason why there is none for this cipher.
pub type Set = Result<Vec<u8>, String>;

/// The key stream of one key.
pub fn counter(
    subject: &Subject,
    octets: usize,
    random: &mut Random,
    refused: &mut u64,
) -> Result<Set, SubjectError> {
    let (_, keyed) = subject.random_key(random, refused)?;
    let mut salt = [0; 4];
    random.fill(&mut salt);
    let mut stream = vec![0; octets];
    for (piece, place) in (0u64..).zip(stream.chunks_mut(PIECE)) {
        let first = piece * (PIECE / crate::subject::Keyed::PACKET) as u64 + 1;
        keyed.key_stream(salt, first, place)?;
    }
    Ok(Ok(stream))
}

/// All octets zero, or all ones, but for at most two bits: each value once, in a fixed order.
fn density(octets: usize, high: bool) -> Vec<u8> {
    let bits = octets * 8;
    let base = vec![if high { 0xff } else { 0 }; octets];
    let mut values = base.clone();
    let mut value = base;
    for first in 0..bits {
        flip(&mut value, first);
        values.extend_from_slice(&value);
        for second in first + 1..bits {
            flip(&mut value, second);
            values.extend_from_slice(&value);
            flip(&mut value, second);
        }
        flip(&mut value, first);
    }
    values
}

/// Inputs of few ones, or of few zeros, under as many keys as fill the set.
pub fn density_inputs(
    subject: &Subject,
    octets: usize,
    high: bool,
    random: &mut Random,
    refused: &mut u64,
) -> Result<Set, SubjectError> {
    let inputs = density(subject.input_len(), high);
    let (mut set, mut outputs) = (Vec::new(), Vec::new());
    while set.len() < octets {
        let (_, keyed) = subject.random_key(random, refused)?;
        keyed.outputs(&inputs, &mut outputs)?;
        set.extend_from_slice(&outputs);
    }
    set.truncate(octets);
    Ok(Ok(set))
}

/// Keys of few ones, or of few zeros: at most `most` of them, evenly over all that have at most two, with the same inputs
/// under each.
pub fn density_keys(
    subject: &Subject,
    octets: usize,
    most: usize,
    high: bool,
    random: &mut Random,
    refused: &mut u64,
) -> Result<Set, SubjectError> {
    let keys = density(subject.key_len(), high);
    let count = keys.len() / subject.key_len().max(1);
    // Each step of the walk is as long as the others, and the first key is that of no ones at all.
    let step = count.div_ceil(most.max(1)).max(1);
    let tried = count.div_ceil(step);
    let inputs = random.octets(subject.input_len() * octets.div_ceil(tried * subject.output_len()));
    let (mut set, mut outputs) = (Vec::new(), Vec::new());
    for key in keys.chunks(subject.key_len().max(1)).step_by(step) {
        match subject.set_key(key)? {
            Some(keyed) => {
                keyed.outputs(&inputs, &mut outputs)?;
                set.extend_from_slice(&outputs);
            }
            None => *refused += 1,
        }
    }
    set.truncate(octets);
    // Half of the keys may be weak, not more: the tests need enough of them.
    if set.len() < octets / 2 {
        let why = "the cipher refuses more than half of these keys as weak".to_owned();
        return Ok(Err(why));
    }
    Ok(Ok(set))
}

/// Each output is the next input: CBC of zeros.
pub fn chained(
    subject: &Subject,
    octets: usize,
    random: &mut Random,
    refused: &mut u64,
) -> Result<Set, SubjectError> {
    if !matches!(subject.primitive(), Primitive::Block { .. }) {
        return Ok(Err("the cipher has no blocks".to_owned()));
    }
    let (_, keyed) = subject.random_key(random, refused)?;
    let (mut block, mut next, mut set) = (random.octets(subject.input_len()), Vec::new(), Vec::new());
    while set.len() < octets {
        keyed.outputs(&block, &mut next)?;
        std::mem::swap(&mut block, &mut next);
        set.extend_from_slice(&block);
    }
    set.truncate(octets);
    Ok(Ok(set))
}

/// Random plaintexts XORed with their ciphertexts.
pub fn difference(
    subject: &Subject,
    octets: usize,
    random: &mut Random,
    refused: &mut u64,
) -> Result<Set, SubjectError> {
    if !matches!(subject.primitive(), Primitive::Block { .. }) {
        return Ok(Err("the cipher has no blocks".to_owned()));
    }
    let (_, keyed) = subject.random_key(random, refused)?;
    let inputs = random.octets(octets / subject.input_len() * subject.input_len());
    let mut outputs = Vec::new();
    keyed.outputs(&inputs, &mut outputs)?;
    outputs.iter_mut().zip(&inputs).for_each(|(to, from)| *to ^= from);
    Ok(Ok(outputs))
}

/// Sums of outputs (XOR) over inputs that take all values in `bits` bits beside each other and are constant in the
/// others: 4, 8 or 16 bits, at each place that is a multiple of it, or of 8 for 16. The sums of AES cut to three rounds
/// over an octet are zero (Daemen, Knudsen, Rijmen 1997, the attack on Square).
pub fn integral_sums(
    subject: &Subject,
    bits: usize,
    trials: usize,
    random: &mut Random,
    refused: &mut u64,
) -> Result<Vec<u8>, SubjectError> {
    let (input_len, output_len) = (subject.input_len(), subject.output_len());
    let places = (0..input_len * 8).step_by(bits.min(8)).filter(|place| place + bits <= input_len * 8);
    let places: Vec<usize> = places.collect();
    let (mut sums, mut outputs) = (Vec::new(), Vec::new());
    for _ in 0..trials {
        let (_, keyed) = subject.random_key(random, refused)?;
        for place in &places {
            let mut inputs = random.octets(input_len).repeat(1 << bits);
            for (value, input) in inputs.chunks_mut(input_len).enumerate() {
                for bit in (0..bits).filter(|bit| value >> bit & 1 == 1) {
                    flip(input, place + bit);
                }
            }
            keyed.outputs(&inputs, &mut outputs)?;
            let mut sum = vec![0; output_len];
            for output in outputs.chunks(output_len) {
                sum.iter_mut().zip(output).for_each(|(to, from)| *to ^= from);
            }
            sums.extend_from_slice(&sum);
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests;
