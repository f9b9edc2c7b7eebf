//! The source of keys and inputs: a sequence that a seed gives and anybody can repeat.

/// SplitMix64 (Steele, Lea, Flood 2014, "Fast Splittable Pseudorandom Number Generators"). It knows nothing of ciphers, so
/// what a cipher makes of it owes it no structure. Nothing secret comes from it.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// The constant by which the state grows: the golden ratio in 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A sequence of its own for each use of a seed, so that more octets for one test leave the others as they were.
    pub fn for_use(seed: u64, name: &str) -> Random {
        let mut state = seed;
        for octet in name.bytes() {
            state = mix(state ^ u64::from(octet)).wrapping_add(STEP);
        }
        Random(state)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Fill octets with numbers, the least significant octet first.
    pub fn fill(&mut self, octets: &mut [u8]) {
        for chunk in octets.chunks_mut(8) {
            let number = self.number().to_le_bytes();
            chunk.iter_mut().zip(number).for_each(|(to, from)| *to = from);
        }
    }

    /// So many octets.
    pub fn octets(&mut self, count: usize) -> Vec<u8> {
        let mut octets = vec![0; count];
        self.fill(&mut octets);
        octets
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first outputs of the reference implementation for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let numbers: Vec<u64> = (0..5).map(|_| random.number()).collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn uses_differ() {
        let first = |name| Random::for_use(1, name).number();
        assert_ne!(first("a"), first("b"));
        assert_ne!(first("ab"), first("ba"));
        assert_ne!(Random::for_use(2, "a").number(), first("a"));
    }
}
