//! Copies of a key that are left when the key is gone.
//!
//! What is looked for is kept changed by a constant, so that the search does not find itself.

use std::array::from_fn;
use std::ops::Range;

use zeroize::Zeroizing;

use super::Subject;
use crate::library::LoadedCipher;
use crypto::custom::{CustomCipher as _, CustomKey};

/// Octets that are looked for in a row.
const ROW: usize = 8;
/// What the rows are changed by as they are kept.
const CHANGE: u64 = 0x9c63_5a17_e08b_d42f;
/// Different octets that a row must have, so that it is no number or address by chance.
const DISTINCT: usize = 5;

/// A copy that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// In the library's own memory.
    Library,
    /// In memory that was allocated.
    Heap,
    /// On the stack, where a later call writes over it.
    Stack,
}

/// Rows of octets, each changed by [`CHANGE`].
struct Needles {
    rows: Vec<u64>,
    /// Whether a row begins with this octet.
    first: [bool; 256],
}

impl Needles {
    fn new(rows: Vec<u64>) -> Needles {
        let mut first = [false; 256];
        for row in &rows {
            let [octet, ..] = (row ^ CHANGE).to_le_bytes();
            if let Some(first) = first.get_mut(usize::from(octet)) {
                *first = true;
            }
        }
        Needles { rows, first }
    }

    /// Whether one of them is in this memory.
    fn are_in(&self, at: &Range<usize>) -> bool {
        let last = at.end.saturating_sub(ROW);
        (at.start..=last).any(|address| {
            let begins = self.first.get(usize::from(octet(address))).copied().unwrap_or(false);
            let row = || u64::from_le_bytes(from_fn(|number| octet(address + number)));
            begins && self.rows.contains(&(row() ^ CHANGE))
        })
    }
}

/// The octet at an address in a mapping that can be read.
fn octet(address: usize) -> u8 {
    // SAFETY: the kernel's list says that this process has the mapping and may read it, and no other thread is at work.
    // The octet may be anything, also a part of this function's own frame, and is read once as it is.
    unsafe { (address as *const u8).read_volatile() }
}

/// The rows of a text, changed, without those that could stand anywhere.
fn rows(octets: &[u8]) -> Vec<u64> {
    octets.as_chunks::<ROW>().0.iter().map(|row| u64::from_le_bytes(*row) ^ CHANGE).collect()
}

fn is_telling(row: u64) -> bool {
    let mut octets = (row ^ CHANGE).to_le_bytes();
    octets.sort_unstable();
    1 + octets.windows(2).filter(|pair| pair.first() != pair.last()).count() >= DISTINCT
}

impl Subject<'_> {
    /// Set a key that `fill` makes of a number, use it, drop it, and look for copies of it and of its context.
    ///
    /// # Errors
    /// The key was refused, memory cannot be looked at, or the host's own memory of the key is not wiped.
    pub fn leftovers(
        &self,
        cipher: &LoadedCipher,
        fill: &dyn Fn(u64, &mut [u8]),
        use_it: &dyn Fn(&CustomKey) -> Result<(), String>,
    ) -> Result<Vec<Leftover>, String> {
        let len = cipher.description().key_len;
        let mut contexts = Vec::new();
        let mut needles = Vec::new();
        for number in [1, 2] {
            let mut octets = Zeroizing::new(vec![0; len]);
            fill(number, &mut octets);
            let (key, (_, end)) = cipher.try_key(&octets).map_err(|error| error.to_string())?;
            use_it(&key)?;
            let words = cipher.context_words(end).map(|word| word ^ CHANGE);
            contexts.push(words.collect::<Vec<u64>>());
            needles.extend(rows(&octets));
        }
        if !cipher.contexts_are_wiped() {
            return Err("the memory of a key is not wiped when the key is gone".to_owned());
        }
        // What both keys have in their contexts is no secret: an address, a constant.
        if let [one, two] = contexts.as_slice() {
            let other = |(one, two): &(&u64, &u64)| one != two;
            needles.extend(one.iter().zip(two).filter(other).flat_map(|(one, two)| [*one, *two]));
        }
        needles.retain(|row| is_telling(*row));
        if needles.is_empty() {
            return Err("there is nothing to look for: keys are too short, or all the same".to_owned());
        }
        self.search(&Needles::new(needles))
    }

    fn search(&self, needles: &Needles) -> Result<Vec<Leftover>, String> {
        let writable = self.maps.writable(&self.written).map_err(|error| error.to_string())?;
        let here = std::ptr::from_ref(needles) as usize;
        let mut found = Vec::new();
        if writable.own.iter().any(|at| needles.are_in(at)) {
            found.push(Leftover::Library);
        }
        let (stack, heap): (Vec<_>, Vec<_>) = writable.others.into_iter().partition(|at| at.contains(&here));
        if heap.iter().any(|at| needles.are_in(at)) {
            found.push(Leftover::Heap);
        }
        if stack.iter().any(|at| needles.are_in(at)) {
            found.push(Leftover::Stack);
        }
        Ok(found)
    }
}
