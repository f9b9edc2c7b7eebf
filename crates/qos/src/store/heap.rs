//! A binary heap whose entries are found by their index: they can change their key, and leave from anywhere.

use super::NONE;

/// The entry with the greatest key is on top. Each entry is an index with a key.
#[derive(Debug)]
pub(super) struct Heap<K> {
    entries: Vec<(K, u32)>,
    /// The place in `entries` of each index; `NONE` if it is not there.
    places: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    pub(super) fn with_capacity(indices: usize) -> Heap<K> {
        Heap { entries: Vec::with_capacity(indices), places: Vec::with_capacity(indices) }
    }

    pub(super) fn top(&self) -> Option<u32> {
        self.entries.first().map(|&(_, index)| index)
    }

    pub(super) fn entries(&self) -> &[(K, u32)] {
        &self.entries
    }

    /// Put an index in, or change its key.
    pub(super) fn set(&mut self, index: u32, key: K) {
        if self.places.len() <= index as usize {
            self.places.resize(index as usize + 1, NONE);
        }
        let place = self.places[index as usize];
        let at = if place == NONE {
            self.entries.push((key, index));
            self.entries.len() - 1
        } else {
            self.entries[place as usize].0 = key;
            place as usize
        };
        let at = self.rise(at);
        self.sink(at);
    }

    pub(super) fn remove(&mut self, index: u32) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        let at = std::mem::replace(place, NONE);
        if at == NONE {
            return;
        }
        self.entries.swap_remove(at as usize);
        if (at as usize) < self.entries.len() {
            let at = self.rise(at as usize);
            self.sink(at);
        }
    }

    /// Move an entry up to where it belongs, and answer its place. It notes the place in any case.
    fn rise(&mut self, mut at: usize) -> usize {
        while at > 0 && self.entries[at].0 > self.entries[(at - 1) / 2].0 {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        self.note(at);
        at
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let mut most = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.entries.len() && self.entries[child].0 > self.entries[most].0 {
                    most = child;
                }
            }
            if most == at {
                return;
            }
            self.swap(at, most);
            at = most;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.entries.swap(one, other);
        self.note(one);
        self.note(other);
    }

    fn note(&mut self, at: usize) {
        self.places[self.entries[at].1 as usize] = at as u32;
    }
}
