//! The fuzz targets of `fuzz/`, run by an ordinary test: over their committed corpora, and over inputs that are made of
//! these by small changes.
//!
//! The search with libFuzzer has a command of its own (`make fuzz`), which needs a nightly compiler and minutes to build.
//! What is here shows in seconds that every target compiles, that no input of a corpus fails again, and that nothing near
//! these inputs fails. The inputs are the same in each run.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Changed inputs of each target.
const CHANGED: usize = 10_000;
/// Octets that a changed input may have.
const MOST: usize = 4096;

/// The macro of libFuzzer's crate, for a target that is a module of a test: the function `run` takes an input.
#[macro_export]
macro_rules! fuzz_target {
    (|$octets:ident: &[u8]| $body:expr) => {
        /// Run the target over one input.
        pub(crate) fn run($octets: &[u8]) {
            $body
        }
    };
}

/// Run a target over its corpus and over changed inputs.
///
/// # Panics
/// If the target fails. The message has the input, which goes to `fuzz/corpus/TARGET`.
pub fn try_all(target: &str, run: fn(&[u8])) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "fuzz/corpus/{target} is empty");
    for (number, input) in corpus.iter().enumerate() {
        try_one(target, run, number, input);
    }
    let mut random = Random(0x005e_ed0f_5e7e_57ed);
    for number in 0..CHANGED {
        try_one(target, run, corpus.len() + number, &random.changed(&corpus));
    }
}

fn try_one(target: &str, run: fn(&[u8]), number: usize, input: &[u8]) {
    // A failure is the end of the test, whatever state a target keeps from one input to the next.
    if catch_unwind(AssertUnwindSafe(|| run(input))).is_err() {
        let hex: String = input.iter().map(|octet| format!("{octet:02x}")).collect();
        panic!(
            "the fuzz target {target} fails with its input {number}, {hex}; write it to fuzz/corpus/{target}"
        );
    }
}

/// The inputs of a target in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files
        .iter()
        .map(|file| fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
        .collect()
}

/// SplitMix64: the same numbers in each run.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.number() % most.max(1) as u64).unwrap_or(0)
    }

    /// One of the inputs with one to four changes: bits, octets that mean something, parts taken out, put twice or taken
    /// from another input, the end cut off.
    fn changed(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        const EDGES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
        let (one, other) = (self.below(corpus.len()), self.below(corpus.len()));
        let mut input = corpus.get(one).cloned().unwrap_or_default();
        input.truncate(MOST);
        for _ in 0..1 + self.below(4) {
            let at = self.below(input.len() + 1);
            match (self.below(6), input.get_mut(at)) {
                (0, Some(octet)) => *octet ^= 1 << self.below(8),
                (1, Some(octet)) => *octet = EDGES.get(self.below(EDGES.len())).copied().unwrap_or(0),
                (2, _) => {
                    let end = (at + 1 + self.below(8)).min(input.len());
                    input.drain(at.min(end)..end);
                }
                (3, _) => {
                    let end = (at + 1 + self.below(32)).min(input.len());
                    let part = input.get(at..end).unwrap_or_default().to_vec();
                    input.splice(at..at, part);
                }
                (4, _) => {
                    let from = corpus.get(other).map(Vec::as_slice).unwrap_or_default();
                    let first = self.below(from.len() + 1);
                    let part =
                        from.get(first..).unwrap_or_default().iter().take(64).copied().collect::<Vec<_>>();
                    input.splice(at..at, part);
                }
                _ => input.truncate(at),
            }
        }
        input
    }
}
