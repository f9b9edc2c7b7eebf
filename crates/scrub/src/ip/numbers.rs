//! Identifications that tell nothing about the host behind (rule 4.4, RFC 6864, RFC 7739), and those of fragments that
//! are cut here.

use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use wire::ip::Headers;

/// The number of counters. Several pairs of hosts share one, each from a start of its own, so more pairs take no more
/// memory and no pair's numbers ever start again.
const COUNTERS: usize = 4096;

/// The source of identifications for each sender, receiver and protocol: a secret start and a counter.
#[derive(Debug)]
pub(crate) struct Numbers {
    key: [u8; 16],
    counters: Vec<u32>,
}

impl Numbers {
    pub fn new(seed: [u8; 16]) -> Numbers {
        Numbers { key: seed, counters: vec![0; COUNTERS] }
    }

    /// Take `count` numbers in succession. Returns the first of them.
    pub fn take(&mut self, headers: &Headers, count: u32) -> u32 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        ("identification", headers.src, headers.dst, headers.protocol).hash(&mut hasher);
        let hash = hasher.finish();
        let start = (hash >> 32) as u32;
        let Some(counter) = self.counters.get_mut(hash as usize % COUNTERS) else { return start };
        let number = start.wrapping_add(*counter);
        *counter = counter.wrapping_add(count);
        number
    }
}
