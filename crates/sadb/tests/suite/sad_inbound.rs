//! The inbound database against a map, and the SPIs it chooses.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::inbound;
use proptest::prelude::*;
use sadb::{InboundSad, MAX_SAS, SadError, Spi};

/// The number of slots as long as there are no more associations.
const FIRST_SLOTS: usize = 4096;

#[test]
fn chosen_spis_are_free_unreserved_and_name_their_slot() {
    for random in [0, 0xfff, u32::MAX, 0xdead_beef] {
        let mut sad = InboundSad::new();
        let mut chosen = BTreeSet::new();
        for _ in 0..MAX_SAS {
            let spi = sad.allocate_spi(random).unwrap();
            assert!(!spi.is_reserved());
            assert!(chosen.insert(spi), "{spi} twice");
            assert!(sad.get_mut(spi).is_none(), "promised is not there yet");
        }
        let slots: BTreeSet<_> = chosen.iter().map(|spi| spi.0 as usize % MAX_SAS).collect();
        assert_eq!(slots.len(), MAX_SAS);
        assert_eq!(sad.allocate_spi(random), Err(SadError::TooMany(MAX_SAS)));
        assert_eq!(
            sad.insert(inbound(5000)),
            if chosen.contains(&Spi(5000)) { Ok(()) } else { Err(SadError::TooMany(MAX_SAS)) }
        );
        // One given up makes room for one.
        let first = *chosen.first().unwrap();
        sad.release_spi(first);
        assert!(sad.insert(inbound(first.0)).is_ok());
    }
}

#[test]
fn the_high_bits_are_the_random_ones() {
    let mut sad = InboundSad::new();
    assert_eq!(sad.allocate_spi(0xabcd_efff).unwrap(), Spi(0xabcd_e000));
    assert_eq!(sad.allocate_spi(0x1234_5678).unwrap(), Spi(0x1234_5001));
}

#[test]
fn a_slot_used_again_has_another_spi_even_if_the_random_number_repeats() {
    for random in [0, 0x7777_7777, u32::MAX] {
        let mut sad = InboundSad::new();
        let mut last = BTreeMap::new();
        for round in 0..3 * FIRST_SLOTS {
            let spi = sad.allocate_spi(random).unwrap();
            assert!(!spi.is_reserved(), "{spi} in round {round}");
            assert_ne!(last.insert(spi.0 as usize % FIRST_SLOTS, spi), Some(spi), "round {round}");
            sad.insert(inbound(spi.0)).unwrap();
            sad.remove(spi).unwrap();
        }
        assert_eq!(last.len(), FIRST_SLOTS, "slots rest before they are used again");
    }
}

#[test]
fn an_spi_is_there_once() {
    let mut sad = InboundSad::new();
    sad.insert(inbound(0x5001)).unwrap();
    assert_eq!(sad.insert(inbound(0x5001)), Err(SadError::DuplicateSpi(Spi(0x5001))));
    // 0x9001 has the same home and lives elsewhere; both are found, neither is mistaken for the other.
    sad.insert(inbound(0x9001)).unwrap();
    assert_eq!(sad.insert(inbound(0x9001)), Err(SadError::DuplicateSpi(Spi(0x9001))));
    for spi in [Spi(0x5001), Spi(0x9001)] {
        assert_eq!(sad.get_mut(spi).unwrap().spi(), spi);
    }
    for stranger in [0, 1, 255, 0x1001, 0xd001, 0x5002, u32::MAX] {
        assert!(sad.get_mut(Spi(stranger)).is_none(), "{stranger:#x}");
    }
    assert_eq!(sad.remove(Spi(0x5001)).unwrap().spi(), Spi(0x5001));
    assert_eq!(sad.remove(Spi(0x5001)).err(), Some(SadError::UnknownSpi(Spi(0x5001))));
    assert_eq!(sad.get_mut(Spi(0x9001)).unwrap().spi(), Spi(0x9001));
    assert_eq!(sad.len(), 1);
}

#[test]
fn an_spi_chosen_by_hand_is_never_chosen_again() {
    let mut sad = InboundSad::new();
    // Its home is slot 0, but slot 0 is taken: it lives in slot 1, and slot 0 will be free again.
    sad.insert(inbound(0x4000)).unwrap();
    sad.insert(inbound(0x7000)).unwrap();
    sad.remove(Spi(0x4000)).unwrap();
    for _ in 0..MAX_SAS - 1 {
        assert_ne!(sad.allocate_spi(0x7fff), Ok(Spi(0x7000)));
    }
    assert_eq!(sad.get_mut(Spi(0x7000)).unwrap().spi(), Spi(0x7000));
}

#[test]
fn giving_up_an_spi_in_use_changes_nothing() {
    let mut sad = InboundSad::new();
    sad.insert(inbound(0x5001)).unwrap();
    sad.release_spi(Spi(0x5001));
    sad.release_spi(Spi(0x5002));
    assert_eq!(sad.len(), 1);
    let promised = sad.allocate_spi(0x1_0000).unwrap();
    assert_eq!(sad.remove(promised).err(), Some(SadError::UnknownSpi(promised)));
    sad.insert(inbound(promised.0)).unwrap();
    assert_eq!(sad.len(), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u32),
    Insert(u32),
    InsertPromised(prop::sample::Index),
    Release(prop::sample::Index),
    Remove(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    // Few homes and few tags, so that SPIs collide at every turn.
    let spi = (1u32..6, 0u32..4).prop_map(|(tag, slot)| tag << 12 | slot);
    prop_oneof![
        3 => (0u32..6).prop_map(|tag| Step::Allocate(tag << 12)),
        4 => spi.prop_map(Step::Insert),
        2 => any::<prop::sample::Index>().prop_map(Step::InsertPromised),
        1 => any::<prop::sample::Index>().prop_map(Step::Release),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec(step(), 1..150)) {
        let mut sad = InboundSad::new();
        let (mut held, mut promised) = (BTreeSet::<u32>::new(), BTreeSet::<u32>::new());
        let nth = |set: &BTreeSet<u32>, at: prop::sample::Index| {
            (!set.is_empty()).then(|| *set.iter().nth(at.index(set.len())).unwrap())
        };
        for step in steps {
            match step {
                Step::Allocate(random) => {
                    let spi = sad.allocate_spi(random).unwrap().0;
                    prop_assert!(!held.contains(&spi) && promised.insert(spi), "{:#x} was taken", spi);
                }
                Step::Insert(spi) => {
                    let want = if held.contains(&spi) { Err(SadError::DuplicateSpi(Spi(spi))) } else { Ok(()) };
                    prop_assert_eq!(sad.insert(inbound(spi)), want);
                    promised.remove(&spi);
                    held.insert(spi);
                }
                Step::InsertPromised(at) => if let Some(spi) = nth(&promised, at) {
                    prop_assert_eq!(sad.insert(inbound(spi)), Ok(()));
                    promised.remove(&spi);
                    held.insert(spi);
                },
                Step::Release(at) => if let Some(spi) = nth(&promised, at) {
                    sad.release_spi(Spi(spi));
                    promised.remove(&spi);
                },
                Step::Remove(at) => if let Some(spi) = nth(&held, at) {
                    prop_assert_eq!(sad.remove(Spi(spi)).unwrap().spi(), Spi(spi));
                    held.remove(&spi);
                },
            }
            for tag in 0..7 {
                for slot in 0..160 {
                    let spi = tag << 12 | slot;
                    let found = sad.get_mut(Spi(spi)).map(|sa| sa.spi().0);
                    prop_assert_eq!(found, held.contains(&spi).then_some(spi));
                }
            }
            prop_assert_eq!(sad.len(), held.len());
            let listed: BTreeSet<_> = sad.list().map(|sa| sa.spi().0).collect();
            prop_assert_eq!(&listed, &held);
        }
    }
}

#[test]
fn a_full_table_grows_and_forgets_nothing() {
    let mut sad = InboundSad::new();
    // Of every kind: chosen here, promised only, chosen by hand with the same home, which no larger table parts.
    let (mut held, mut promised) = (Vec::new(), Vec::new());
    for n in 0..3 * FIRST_SLOTS as u32 {
        let spi = match n % 3 {
            0 => sad.allocate_spi(0x5a5a_a5a5_u32.wrapping_mul(n)).unwrap(),
            1 => {
                promised.push(sad.allocate_spi(n).unwrap());
                continue;
            }
            _ => Spi((n + 300) << 17 >> 3 | 7),
        };
        if sad.insert(inbound(spi.0)).is_ok() {
            held.push(spi);
        }
    }
    assert!(held.len() > FIRST_SLOTS, "{}", held.len());
    assert_eq!(sad.len(), held.len());
    for spi in &held {
        assert_eq!(sad.get(*spi).unwrap().spi(), *spi);
        assert_eq!(sad.insert(inbound(spi.0)), Err(SadError::DuplicateSpi(*spi)));
    }
    for spi in &promised {
        assert!(sad.get(*spi).is_none());
        assert!(sad.insert(inbound(spi.0)).is_ok(), "{spi} was promised");
    }
    for spi in held.iter().chain(&promised) {
        assert_eq!(sad.remove(*spi).unwrap().spi(), *spi);
    }
    assert!(sad.is_empty());
}

/// SPIs chosen by hand that all want one slot, in the middle of the table and at its end. Some live near, some far, and
/// each is found.
#[test]
fn many_spis_with_one_home_are_all_found() {
    for home in [0x123, FIRST_SLOTS as u32 - 1, FIRST_SLOTS as u32 - 20] {
        let mut sad = InboundSad::new();
        let spi = |number: u32| (number + 1) * FIRST_SLOTS as u32 + home;
        let mut there = BTreeSet::new();
        for number in 0..100 {
            sad.insert(inbound(spi(number))).unwrap();
            there.insert(number);
        }
        // Taken out in another order, some of them put back, while the others stay what they are.
        for step in 0..300_u32 {
            let number = step * 37 % 100;
            if there.remove(&number) {
                assert_eq!(sad.remove(Spi(spi(number))).unwrap().spi(), Spi(spi(number)));
            } else {
                sad.insert(inbound(spi(number))).unwrap();
                there.insert(number);
            }
            if step % 10 == 0 {
                for number in 0..110 {
                    let found = sad.get(Spi(spi(number))).map(sadb::InboundSa::spi);
                    assert_eq!(found, there.contains(&number).then_some(Spi(spi(number))));
                }
            }
        }
        assert_eq!(sad.len(), there.len());
    }
}

/// Growth keeps the SPIs that have no home of their own.
#[test]
fn crowded_homes_survive_growth() {
    let mut sad = InboundSad::new();
    let spis: Vec<u32> = (0..9000_u32).map(|n| 0x0100_0000 | (n.wrapping_mul(0x9e37_79b1) >> 8)).collect();
    let crowd: Vec<u32> = (1..300_u32).map(|n| n << 20 | 0x77).collect();
    for spi in spis.iter().chain(&crowd) {
        sad.insert(inbound(*spi)).unwrap();
    }
    for spi in spis.iter().chain(&crowd) {
        assert_eq!(sad.get(Spi(*spi)).map(|sa| sa.spi()), Some(Spi(*spi)));
    }
    for spi in spis.iter().chain(&crowd) {
        sad.remove(Spi(*spi)).unwrap();
    }
    assert!(sad.is_empty());
}
