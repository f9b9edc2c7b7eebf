//! The times of a cipher, as the clock of this process has them.

use std::hint::black_box;
use std::time::Instant;

use cipher_stats::timing::{Class, Timing, Verdict};
use cipher_stats::{Random, Subject, SubjectError};

/// What is fixed for one class and random for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// The input, under one key.
    Inputs,
    /// The key, over one input: random inputs would hide what the key does. Each call has a key set up for it, in the same
    /// memory for both classes.
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
/// Calls that are prepared before any of them is measured.
const PIECE: usize = 1000;
/// Measurements that say where to cut and count no further.
const FIRST: usize = 10_000;

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
    let (fixed_key, fixed_keyed) = subject.random_key(random, &mut 0)?;
    let len = subject.input_len() * INPUTS;
    let fixed = random.octets(len);
    let mut inputs = vec![0; len * PIECE];
    let mut keys = vec![0; fixed_key.len() * PIECE];
    let (mut classes, mut outputs, mut first, mut left) = (Vec::new(), Vec::new(), Vec::new(), samples);
    let mut timing: Option<Timing> = None;
    while left > 0 {
        classes.clear();
        for (input, key) in inputs.chunks_mut(len).zip(keys.chunks_mut(fixed_key.len())) {
            let class = if random.number() & 1 == 0 { Class::Fixed } else { Class::Random };
            // Octets are drawn for both classes, so that the caches have met the same.
            random.fill(input);
            random.fill(key);
            if class == Class::Fixed || experiment == Experiment::Keys {
                input.copy_from_slice(&fixed);
            }
            if class == Class::Fixed || experiment == Experiment::Inputs {
                key.copy_from_slice(&fixed_key);
            }
            classes.push(class);
        }
        let prepared = inputs.chunks(len).zip(keys.chunks(fixed_key.len()));
        for (class, (input, key)) in classes.iter().zip(prepared) {
            let set_up = match experiment {
                Experiment::Inputs => None,
                // A random key may be weak: then there is no call.
                Experiment::Keys => match subject.set_key(key)? {
                    Some(keyed) => Some(keyed),
                    None => continue,
                },
            };
            let keyed = set_up.as_ref().unwrap_or(&fixed_keyed);
            let begin = Instant::now();
            keyed.outputs(black_box(input), &mut outputs)?;
            black_box(&outputs);
            let time = begin.elapsed().as_nanos() as f64;
            match &mut timing {
                None => first.push(time),
                Some(timing) => {
                    timing.push(*class, time);
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
