//! Which associations carry what cannot be compressed (RFC 3173 section 2.2 asks for an adaptive algorithm).

/// Places; associations that meet in one share its judgement.
const PLACES: usize = 64;
/// Failures in a row before packets are skipped.
const PATIENCE: u8 = 4;
/// The most packets that are skipped before another is tried.
const LONGEST: u16 = 512;

#[derive(Clone, Copy, Default)]
struct Place {
    failures: u8,
    /// Packets still to skip.
    skip: u16,
    /// Number of packets that were skipped the last time.
    last: u16,
}

/// After some failures in a row packets go uncompressed, twice as many after each new failure. One success ends that.
pub(super) struct Backoff([Place; PLACES]);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff([Place::default(); PLACES])
    }
}

impl Backoff {
    fn place(&mut self, spi: u32) -> Option<&mut Place> {
        self.0.get_mut(spi as usize % PLACES)
    }

    /// Whether this association's next packet is not to be tried.
    pub fn skips(&mut self, spi: u32) -> bool {
        match self.place(spi) {
            Some(place) if place.skip > 0 => {
                place.skip -= 1;
                true
            }
            _ => false,
        }
    }

    /// What came of a packet that was tried.
    pub fn learn(&mut self, spi: u32, shorter: bool) {
        let Some(place) = self.place(spi) else { return };
        if shorter {
            *place = Place::default();
            return;
        }
        place.failures = place.failures.saturating_add(1);
        if place.failures >= PATIENCE {
            place.last = (place.last * 2).clamp(8, LONGEST);
            place.skip = place.last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_double_the_wait_and_a_success_ends_it() {
        let mut backoff = Backoff::default();
        let mut tried = Vec::new();
        for packet in 0..2000 {
            if !backoff.skips(300) {
                tried.push(packet);
                backoff.learn(300, false);
            }
        }
        assert_eq!(tried[..7], [0, 1, 2, 3, 12, 29, 62]);
        assert!(tried.len() < 16, "{tried:?}");
        backoff.learn(300, true);
        assert!(!backoff.skips(300));
        assert!(!backoff.skips(301));
    }
}
