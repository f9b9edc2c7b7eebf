//! A bounded table whose keys strangers choose: a keyed hash over sets of eight places, made once and never grown.
//!
//! The keys of a set lie together in one cache line, so that a lookup among 100,000 keys costs that line and the value's.

/// The places of one set.
const WAYS: usize = 8;

/// The tags of the keys of one set: 0 is an empty place.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Tags([u64; WAYS]);

/// The place of one value.
#[derive(Clone, Copy, Debug, Default)]
struct Slot<V> {
    /// The turn at which it was claimed last.
    used: u64,
    value: V,
}

/// A table of values by key. A key that comes takes the place of the least of its set once the set is full.
#[derive(Clone, Debug)]
pub(crate) struct Table<V> {
    tags: Box<[Tags]>,
    slots: Box<[[Slot<V>; WAYS]]>,
    secret: u64,
    turn: u64,
}

/// The tag of a key. The greatest key shares the tag of 0, which costs no more than a shared entry.
const fn tag(key: u64) -> u64 {
    let tag = key.wrapping_add(1);
    if tag == 0 { 1 } else { tag }
}

impl<V: Copy + Default> Table<V> {
    /// A table for this many keys, at least; `secret` keys the hash.
    pub(crate) fn new(capacity: usize, secret: u64) -> Table<V> {
        let sets = capacity.div_ceil(WAYS).next_power_of_two();
        let slots = vec![[Slot::default(); WAYS]; sets].into_boxed_slice();
        Table { tags: vec![Tags::default(); sets].into_boxed_slice(), slots, secret, turn: 0 }
    }

    /// The number of keys that it has room for.
    pub(crate) const fn capacity(&self) -> usize {
        self.tags.len() * WAYS
    }

    /// The set of a key.
    fn set(&self, key: u64) -> usize {
        let mixed = fold(key ^ self.secret, 0x9e37_79b9_7f4a_7c15 ^ self.secret.rotate_left(32));
        let hash = fold(mixed ^ 0xa076_1d64_78bd_642f, self.secret | 1);
        hash as usize & (self.tags.len() - 1)
    }

    /// The set and the place of a key.
    fn place(&self, key: u64) -> (usize, Option<usize>) {
        let (set, tag) = (self.set(key), tag(key));
        (set, self.tags[set].0.iter().position(|its| *its == tag))
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: u64) -> Option<&V> {
        let (set, place) = self.place(key);
        Some(&self.slots[set][place?].value)
    }

    /// Empty the place of a key.
    pub(crate) fn remove(&mut self, key: u64) {
        if let (set, Some(place)) = self.place(key) {
            self.tags[set].0[place] = 0;
        }
    }

    /// The value of a key; if it has none, a place is made for what `fresh` makes of the value that leaves its place.
    /// That is the value with the lowest rank in a full set, and of several the one that was not claimed for longest.
    pub(crate) fn claim(
        &mut self,
        key: u64,
        rank: impl Fn(&V) -> u64,
        fresh: impl FnOnce(Option<V>) -> V,
    ) -> &mut V {
        let (set, place) = self.place(key);
        self.turn += 1;
        let (tags, slots) = (&mut self.tags[set].0, &mut self.slots[set]);
        let place = place.unwrap_or_else(|| {
            let order = |place: &usize| {
                let Slot { used, value } = &slots[*place];
                if tags[*place] == 0 { (0, 0, 0) } else { (1, rank(value), *used) }
            };
            let place = (0..WAYS).min_by_key(order).unwrap_or(0);
            slots[place].value = fresh((tags[place] != 0).then_some(slots[place].value));
            tags[place] = tag(key);
            place
        });
        slots[place].used = self.turn;
        &mut slots[place].value
    }
}

/// The two halves of the product of two numbers, added without carry.
const fn fold(x: u64, y: u64) -> u64 {
    let product = x as u128 * y as u128;
    product as u64 ^ (product >> 64) as u64
}
