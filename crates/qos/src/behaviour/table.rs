//! A bounded table whose keys strangers choose: a keyed hash over sets of eight places, made once and never grown.

/// The places of one set.
const WAYS: usize = 8;

/// One place of the table.
#[derive(Clone, Debug)]
pub(crate) struct Slot<V> {
    key: u64,
    /// The turn at which it was last looked up; 0 if it is empty.
    used: u64,
    pub(crate) value: V,
}

/// A table of values by key. A key that comes takes the place of the least of its set once the set is full.
#[derive(Clone, Debug)]
pub(crate) struct Table<V> {
    slots: Box<[Slot<V>]>,
    secret: u64,
    turn: u64,
}

impl<V: Copy + Default> Table<V> {
    /// A table for this many keys, at least; `secret` keys the hash.
    pub(crate) fn new(capacity: usize, secret: u64) -> Table<V> {
        let sets = capacity.div_ceil(WAYS).next_power_of_two();
        let slots = vec![Slot { key: 0, used: 0, value: V::default() }; sets * WAYS];
        Table { slots: slots.into_boxed_slice(), secret, turn: 0 }
    }

    /// The number of keys that it has room for.
    pub(crate) const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The first place of a key's set.
    fn set(&self, key: u64) -> usize {
        let mixed = fold(key ^ self.secret, 0x9e37_79b9_7f4a_7c15 ^ self.secret.rotate_left(32));
        let hash = fold(mixed ^ 0xa076_1d64_78bd_642f, self.secret | 1);
        (hash as usize & (self.slots.len() / WAYS - 1)) * WAYS
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: u64) -> Option<&V> {
        let set = self.set(key);
        let slot = self.slots[set..set + WAYS].iter().find(|slot| slot.used != 0 && slot.key == key)?;
        Some(&slot.value)
    }

    /// Empty the place of a key.
    pub(crate) fn remove(&mut self, key: u64) {
        let set = self.set(key);
        let found = self.slots[set..set + WAYS].iter_mut().find(|slot| slot.used != 0 && slot.key == key);
        if let Some(slot) = found {
            slot.used = 0;
        }
    }

    /// The value of a key; if it has none, a place is made for what `fresh` makes of the value that leaves its place.
    /// That is the value with the lowest rank in a full set, and of several the one that was not used for longest.
    pub(crate) fn claim(
        &mut self,
        key: u64,
        rank: impl Fn(&V) -> u64,
        fresh: impl FnOnce(Option<V>) -> V,
    ) -> &mut V {
        let set = self.set(key);
        self.turn += 1;
        let slots = &mut self.slots[set..set + WAYS];
        let place = slots.iter().position(|slot| slot.used != 0 && slot.key == key);
        let (place, is_new) = match place {
            Some(place) => (place, false),
            None => {
                let order = |place: &usize| {
                    let slot = &slots[*place];
                    if slot.used == 0 { (0, 0, 0) } else { (1, rank(&slot.value), slot.used) }
                };
                ((0..WAYS).min_by_key(order).unwrap_or(0), true)
            }
        };
        let slot = &mut slots[place];
        if is_new {
            slot.value = fresh((slot.used != 0).then_some(slot.value));
            slot.key = key;
        }
        slot.used = self.turn;
        &mut slot.value
    }
}

/// The two halves of the product of two numbers, added without carry.
const fn fold(x: u64, y: u64) -> u64 {
    let product = x as u128 * y as u128;
    product as u64 ^ (product >> 64) as u64
}
