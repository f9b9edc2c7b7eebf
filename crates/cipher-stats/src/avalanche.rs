//! What one flipped bit does to the output: on average, in its distribution, and for each pair of bits (the strict
//! avalanche criterion, Webster and Tavares 1985).

use api::Avalanche;

use crate::bits::{self, add_bits, furthest};
use crate::probability::{chi_square, least_of, two_sided_normal};
use crate::random::Random;
use crate::subject::{Subject, SubjectError, flip};

/// The least count that a bin of the distribution of weights is expected to have; smaller ones are joined.
const LEAST_EXPECTED: f64 = 20.0;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Trials {
    /// The number of keys.
    pub keys: usize,
    /// The number of inputs for each key. Every bit is flipped keys times inputs times.
    pub inputs: usize,
}

/// What became of the flips.
pub struct Flips {
    trials: u64,
    output_bits: usize,
    /// For each flipped bit, and in it for each output bit, how often that bit changed.
    matrix: Vec<u32>,
    /// How often so many output bits changed.
    weights: Vec<u64>,
}

impl Flips {
    fn new(flipped_bits: usize, output_len: usize) -> Flips {
        let output_bits = output_len * 8;
        let (matrix, weights) = (vec![0; flipped_bits * output_bits], vec![0; output_bits + 1]);
        Flips { trials: 0, output_bits, matrix, weights }
    }

    /// Count an output beside the one without the flip.
    fn add(&mut self, bit: usize, before: &[u8], after: &[u8], changed: &mut [u8]) {
        let pairs = before.iter().zip(after);
        changed.iter_mut().zip(pairs).for_each(|(to, (before, after))| *to = before ^ after);
        let weight: u32 = changed.iter().map(|octet| octet.count_ones()).sum();
        if let Some(count) = self.weights.get_mut(weight as usize) {
            *count += 1;
        }
        let row = self.matrix.chunks_mut(self.output_bits).nth(bit);
        add_bits(row.unwrap_or_default(), changed);
    }

    /// Flip each bit of the input.
    ///
    /// # Errors
    /// [`SubjectError`].
    pub fn of_input(
        subject: &Subject,
        trials: Trials,
        random: &mut Random,
        refused: &mut u64,
    ) -> Result<Flips, SubjectError> {
        let (input_len, output_len) = (subject.input_len(), subject.output_len());
        let mut flips = Flips::new(input_len * 8, output_len);
        let (mut outputs, mut changed) = (Vec::new(), vec![0; output_len]);
        for _ in 0..trials.keys {
            let (_, keyed) = subject.random_key(random, refused)?;
            for _ in 0..trials.inputs {
                let input = random.octets(input_len);
                let mut inputs = input.repeat(input_len * 8 + 1);
                for (bit, input) in inputs.chunks_mut(input_len).skip(1).enumerate() {
                    flip(input, bit);
                }
                keyed.outputs(&inputs, &mut outputs)?;
                let (before, after) = outputs.split_at(output_len.min(outputs.len()));
                for (bit, after) in after.chunks(output_len).enumerate() {
                    flips.add(bit, before, after, &mut changed);
                }
                flips.trials += 1;
            }
        }
        Ok(flips)
    }

    /// Flip each bit of the key.
    ///
    /// # Errors
    /// [`SubjectError`].
    pub fn of_key(
        subject: &Subject,
        trials: Trials,
        random: &mut Random,
        refused: &mut u64,
    ) -> Result<Flips, SubjectError> {
        let output_len = subject.output_len();
        let mut flips = Flips::new(subject.key_len() * 8, output_len);
        let (mut before, mut after, mut changed) = (Vec::new(), Vec::new(), vec![0; output_len]);
        for _ in 0..trials.keys {
            let (mut key, keyed) = subject.random_key(random, refused)?;
            let inputs = random.octets(subject.input_len() * trials.inputs);
            keyed.outputs(&inputs, &mut before)?;
            for bit in 0..subject.key_len() * 8 {
                flip(&mut key, bit);
                let keyed = subject.set_key(&key)?.ok_or(SubjectError::Keys)?;
                flip(&mut key, bit);
                keyed.outputs(&inputs, &mut after)?;
                for (before, after) in before.chunks(output_len).zip(after.chunks(output_len)) {
                    flips.add(bit, before, after, &mut changed);
                }
            }
            flips.trials += trials.inputs as u64;
        }
        Ok(flips)
    }

    /// Whether half of all output bits change on average.
    pub fn mean(&self) -> bits::Result {
        let cells = self.matrix.len() as f64 * self.trials as f64;
        let changed: f64 = self.matrix.iter().map(|count| f64::from(*count)).sum();
        let share = changed / cells;
        (two_sided_normal((2.0 * changed - cells) / cells.sqrt()), format!("mean share {share:.6}"))
    }

    /// Whether the number of output bits that change is binomially distributed.
    pub fn weights(&self) -> bits::Result {
        let total: u64 = self.weights.iter().sum();
        let (total, bits) = (total as f64, self.output_bits as f64);
        let (mut square, mut bins) = (0.0, 0.0);
        let mut bin = (0.0, 0.0);
        let mut left = total;
        let mut probability = 0.5f64.powf(bits);
        for (weight, count) in (0u32..).zip(&self.weights) {
            bin.0 += *count as f64;
            bin.1 += total * probability;
            left -= total * probability;
            probability *= (bits - f64::from(weight)) / (f64::from(weight) + 1.0);
            // The last bin takes the rest.
            if bin.1 >= LEAST_EXPECTED && left >= LEAST_EXPECTED || weight as usize == self.output_bits {
                square += (bin.0 - bin.1).powi(2) / bin.1;
                bins += 1.0;
                bin = (0.0, 0.0);
            }
        }
        let degrees = bins - 1.0;
        (chi_square(square, degrees), format!("chi-square {square:.1}, {degrees} degrees of freedom"))
    }

    /// Whether each output bit depends on each flipped bit as it should: all cells together, and the one that is
    /// furthest from one half.
    pub fn dependence(&self) -> (bits::Result, bits::Result) {
        let trials = self.trials as f64;
        let z: Vec<f64> =
            self.matrix.iter().map(|count| (2.0 * f64::from(*count) - trials) / trials.sqrt()).collect();
        let square: f64 = z.iter().map(|z| z * z).sum();
        let cells = z.len() as f64;
        let (worst, z) = furthest(&z);
        let share = 0.5 + z / 2.0 / trials.sqrt();
        let (bit, output) = (worst / self.output_bits, worst % self.output_bits);
        (
            (chi_square(square, cells), format!("chi-square {square:.1} over {cells} cells")),
            (
                least_of(two_sided_normal(z), cells),
                format!("flipped bit {bit} changes output bit {output} in a share of {share:.5}"),
            ),
        )
    }

    /// The figures for drawings.
    pub fn figures(&self) -> Avalanche {
        let trials = self.trials as f64;
        let shares = || self.matrix.iter().map(|count| f64::from(*count) / trials);
        let by_bit: Vec<f64> = self
            .matrix
            .chunks(self.output_bits)
            .map(|row| row.iter().map(|count| f64::from(*count)).sum::<f64>() / trials / row.len() as f64)
            .collect();
        Avalanche {
            trials: self.trials,
            mean: shares().sum::<f64>() / self.matrix.len() as f64,
            least: shares().fold(1.0, f64::min),
            greatest: shares().fold(0.0, f64::max),
            by_bit,
            weights: self.weights.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
