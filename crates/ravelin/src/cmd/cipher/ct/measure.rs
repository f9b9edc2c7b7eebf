//! The times of a cipher, as the clock of this process has them.

use std::hint::black_box;
use std::time::Instant;

use cipher_stats::timing::{Class, Timing, Verdict};
use cipher_stats::{Keyed, Random, Subject, SubjectError};

/// What is fixed for one class and random for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// The input, under one key.
    Inputs,
    /// The key, over random inputs.
    Keys,
}

impl Experiment {
    /// The words for it in reports.
    pub fn method(self) -> &'static str {
        match self {
            Experiment::Inputs => "timing inputs",
            Experiment::Keys => "timing keys",
        }
    }
}

/// Inputs of one call, so that the clock itself is the smaller part of a time.
const INPUTS: usize = 4;
/// Keys of each class; those of the fixed class are one key, set up as often as the random ones.
const KEYS: usize = 32;
/// Calls that are prepared before any of them is measured.
const PIECE: usize = 1000;
/// Measurements that say where to cut and count no further.
const FIRST: usize = 10_000;

/// A call that is about to be measured.
struct Call {
    class: Class,
    key: usize,
}

/// Measure so many calls of both classes, in random order.
///
/// # Errors
/// [`SubjectError`].
pub fn measure(
    subject: &Subject,
    experiment: Experiment,
    samples: u64,
    random: &mut Random,
) -> Result<Verdict, SubjectError> {
    let keys = keys(subject, experiment, random)?;
    let len = subject.input_len() * INPUTS;
    let fixed = random.octets(len);
    let mut inputs = vec![0; len * PIECE];
    let (mut calls, mut outputs, mut first, mut left) = (Vec::new(), Vec::new(), Vec::new(), samples);
    let mut timing: Option<Timing> = None;
    while left > 0 {
        calls.clear();
        for place in inputs.chunks_mut(len) {
            let number = random.number();
            let class = if number & 1 == 0 { Class::Fixed } else { Class::Random };
            // Both kinds of input are drawn and copied for both classes, so that the caches have met the same.
            random.fill(place);
            if class == Class::Fixed && experiment == Experiment::Inputs {
                place.copy_from_slice(&fixed);
            }
            calls.push(Call { class, key: (number >> 32) as usize % KEYS });
        }
        for (call, input) in calls.iter().zip(inputs.chunks(len)) {
            let side = match (experiment, call.class) {
                (Experiment::Keys, Class::Random) => &keys.random,
                _ => &keys.fixed,
            };
            let Some(keyed) = side.get(call.key % side.len().max(1)) else { continue };
            let begin = Instant::now();
            keyed.outputs(black_box(input), &mut outputs)?;
            black_box(&outputs);
            let time = begin.elapsed().as_nanos() as f64;
            match &mut timing {
                None => first.push(time),
                Some(timing) => {
                    timing.push(call.class, time);
                    left = left.saturating_sub(1);
                }
            }
        }
        if timing.is_none() && first.len() >= FIRST {
            timing = Some(Timing::after(&first));
        }
    }
    Ok(timing.unwrap_or_else(|| Timing::after(&first)).verdict())
}

/// The keys of both classes, set up in turns.
struct Keys {
    fixed: Vec<Keyed>,
    random: Vec<Keyed>,
}

fn keys(subject: &Subject, experiment: Experiment, random: &mut Random) -> Result<Keys, SubjectError> {
    let (fixed_key, first) = subject.random_key(random, &mut 0)?;
    let mut keys = Keys { fixed: vec![first], random: Vec::new() };
    if experiment == Experiment::Keys {
        for _ in 0..KEYS {
            keys.random.push(subject.random_key(random, &mut 0)?.1);
            keys.fixed.extend(subject.set_key(&fixed_key)?);
        }
        keys.fixed.truncate(KEYS);
    }
    Ok(keys)
}
