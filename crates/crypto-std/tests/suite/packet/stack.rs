//! What making a key leaves on the stack.
//!
//! Two different keys of one suite must leave the same words behind, addresses aside: whatever differs was made of the key.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test looks at its own memory")]

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use crypto::{CryptoError, Integrity, Registry};

use crate::packet::keymat;

/// Octets that are looked at.
const SEEN: usize = 48 << 10;
/// Octets above them, for who looks.
const ABOVE: usize = 16 << 10;

/// Do this below room for who looks at what it leaves.
#[inline(never)]
fn below<T>(work: impl FnOnce() -> T) -> T {
    let room = black_box([0u8; ABOVE]);
    let done = work();
    black_box(&room);
    done
}

/// The words of the stack that this leaves behind, zeros in place of addresses. What it makes is dropped later.
#[inline(never)]
pub fn left_by<T>(work: impl FnOnce() -> T) -> Vec<u64> {
    let here = 0u64;
    let here = &raw const here as u64;
    let memory = File::open("/proc/self/mem").unwrap();
    let mut left = vec![0; SEEN];
    below(zeroize::zeroize_stack::<SEEN>);
    let made = below(work);
    memory.read_exact_at(&mut left, here - (ABOVE + SEEN) as u64).unwrap();
    drop(made);
    let heap = left.as_ptr() as u64;
    // And how often the test has asked, which goes through the registers of all.
    let passing = |word: &u64| *word < 2 || [here, heap].iter().any(|base| word >> 40 == base >> 40);
    let words = left.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.map(|word| if passing(&word) { 0 } else { word }).collect()
}

/// The test sees what is left.
pub fn sees() {
    let [one, two] = [1, 0xc7].map(|seed| {
        let key = keymat(32, seed);
        left_by(|| black_box(<[u8; 32]>::try_from(key.expose()).unwrap())[0])
    });
    // The nearest of the four words may have been written over.
    assert!(different(&one, &two) >= 3);
}

/// How many words differ; which of them is nobody's business.
pub fn different(one: &[u64], two: &[u64]) -> usize {
    assert_eq!(one.len(), two.len());
    one.iter().zip(two).filter(|(one, two)| one != two).count()
}

/// Every unit of the registry makes keys of every suite and algorithm that it has.
pub fn keys_leave_nothing(mut registry: Registry, units: &[&str]) {
    registry.allow_legacy(true).unwrap();
    for unit in units {
        let mut made = 0;
        for suite in registry.suites().all().collect::<Vec<_>>() {
            if registry.prefer(Some(suite), unit).is_err() {
                continue;
            }
            let keys = [1, 0xc7].map(|seed| keymat(suite.keymat_len(), seed));
            let [one, two] =
                keys.each_ref().map(|key| left_by(|| registry.transform(suite, key, true).unwrap()));
            assert_eq!(different(&one, &two), 0, "{unit} {suite}");
            made += 1;
        }
        assert!(made > 0, "{unit} has no suite");
    }
    for integrity in Integrity::ALL.iter().copied() {
        let make = |key| match registry.authenticator(integrity, key) {
            Ok(key) => Some(key),
            Err(CryptoError::NoAuthenticator(_)) => None,
            Err(other) => panic!("{other}"),
        };
        let keys = [1, 0xc7].map(|seed| keymat(integrity.keymat_len(), seed));
        let [one, two] = keys.each_ref().map(|key| left_by(|| make(key)));
        assert_eq!(different(&one, &two), 0, "{}", integrity.name());
    }
}
