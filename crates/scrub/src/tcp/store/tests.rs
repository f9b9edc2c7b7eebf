use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ROOM: Room = Room { pieces: 4096, next: 0, unit: 0 };

fn arena(memory: usize) -> Arena {
    Arena::new(&StoreLimits { memory, hashes_from: 256, ..StoreLimits::default() }, [1; 16])
}

#[derive(Clone, Debug)]
enum Step {
    Record(u16, Vec<u8>),
    Forget(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u16..3000, prop::collection::vec(any::<u8>(), 1..700)).prop_map(|(at, data)| Step::Record(at, data)),
        1 => (0_u16..3000).prop_map(Step::Forget),
    ]
}

proptest! {
    /// The store agrees with a map from number to octet: the first value of an octet stays until it is forgotten.
    #[test]
    fn the_first_copy_wins(base in any::<u32>(), steps in prop::collection::vec(step(), 1..60)) {
        let mut arena = arena(1 << 20);
        let mut store = arena.store();
        let (mut model, mut low) = (BTreeMap::<u16, u8>::new(), 0_u16);
        for step in steps {
            match step {
                Step::Record(at, mut data) => {
                    // The scrubber cuts what was acknowledged before it records.
                    let at = at.max(low);
                    let recorded = store.record(&mut arena, ROOM, base.wrapping_add(at.into()), &mut data, true);
                    prop_assert_eq!(recorded.kept, data.len());
                    for (number, octet) in (at..).zip(&data) {
                        prop_assert_eq!(*model.entry(number).or_insert(*octet), *octet);
                    }
                }
                Step::Forget(to) => {
                    low = low.max(to);
                    store.forget(&mut arena, base.wrapping_add(to.into()));
                    model = model.split_off(&low);
                }
            }
            let mut reach = low;
            while model.contains_key(&reach) {
                reach += 1;
            }
            prop_assert_eq!(store.reaches(base.wrapping_add(low.into())), base.wrapping_add(reach.into()));
            let behind = model.range(low.saturating_add(100)..).count();
            prop_assert_eq!(store.octets_behind(base.wrapping_add(u32::from(low) + 100), usize::MAX), behind);
            for pair in store.pieces.iter().collect::<Vec<_>>().windows(2) {
                prop_assert!(!seq::before(pair[1].start, pair[0].end()));
            }
        }
        store.close(&mut arena);
        prop_assert_eq!(arena.used(), 0);
    }

    /// Whatever is kept is a run from the front and in the store, however little room there is.
    #[test]
    fn without_room_nothing_unrecorded_is_kept(
        limit in 0_usize..3000,
        pieces in 0_usize..8,
        steps in prop::collection::vec((0_u16..3000, prop::collection::vec(any::<u8>(), 1..700)), 1..40),
    ) {
        let mut arena = arena(limit);
        let mut store = arena.store();
        let mut model = BTreeMap::<u32, u8>::new();
        for (at, mut data) in steps {
            let recorded = store.record(&mut arena, Room { pieces, next: 0, unit: 0 }, at.into(), &mut data, true);
            prop_assert!(recorded.kept <= data.len() && arena.used() <= limit);
            for (number, octet) in (u32::from(at)..).zip(&data[..recorded.kept]) {
                prop_assert_eq!(*model.entry(number).or_insert(*octet), *octet);
            }
            prop_assert_eq!(store.octets_behind(0, usize::MAX), model.len());
        }
    }
}

/// The store agrees with the map for every way to record and forget in four steps on a stream of five octets.
#[test]
fn every_four_steps_on_five_octets() {
    #[derive(Clone, Copy)]
    enum Small {
        Record(u32, u32, u8),
        Forget(u32),
    }
    let mut steps: Vec<Small> = (1..=5).map(Small::Forget).collect();
    for start in 0..5 {
        for len in 1..=(5 - start).min(3) {
            steps.extend([b'a', b'A'].map(|first| Small::Record(start, len, first)));
        }
    }
    // Numbers wrap in the middle of the stream.
    let number = |at: u32| (u32::MAX - 2).wrapping_add(at);
    let mut arena = arena(1 << 20);
    let count = steps.len();
    for case in 0..count.pow(4) {
        let mut store = arena.store();
        let (mut model, mut low) = ([None; 5], 0);
        for place in 0..4 {
            match steps[case / count.pow(place) % count] {
                Small::Record(start, len, first) => {
                    let skip = low.max(start) - start;
                    if skip >= len {
                        continue;
                    }
                    let mut data: Vec<u8> = (skip..len).map(|at| first + (start + at) as u8).collect();
                    let expected: Vec<u8> = (start + skip..)
                        .zip(&data)
                        .map(|(at, octet)| *model[at as usize].get_or_insert(*octet))
                        .collect();
                    let differs = expected != data;
                    let recorded = store.record(&mut arena, ROOM, number(start + skip), &mut data, true);
                    assert_eq!((recorded.kept, recorded.differs), (data.len(), differs));
                    assert_eq!(data, expected);
                }
                Small::Forget(to) => {
                    low = low.max(to);
                    store.forget(&mut arena, number(to));
                    model[..low as usize].fill(None);
                }
            }
            let reach = (low..5).find(|at| model[*at as usize].is_none()).unwrap_or(5);
            assert_eq!(store.reaches(number(low)), number(reach));
            let behind = model[low as usize..].iter().flatten().count();
            assert_eq!(store.octets_behind(number(low), usize::MAX), behind);
        }
        store.close(&mut arena);
        assert_eq!(arena.used(), 0);
    }
}
