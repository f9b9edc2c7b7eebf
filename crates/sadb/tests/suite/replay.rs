//! The replay window against tables, its edges, and a set that remembers everything (RFC 4303 section 3.4.3).

use std::collections::HashSet;

use proptest::prelude::*;
use sadb::{ReplayState, ReplayWindow};
use wire::DropReason::{self, ReplayTooOld, Replayed, SequenceZero};

const OK: Result<(), DropReason> = Ok(());

fn run(size: u32, steps: &[(u64, Result<(), DropReason>)]) {
    let mut window = ReplayWindow::new(size).unwrap();
    for (step, (sequence, want)) in steps.iter().enumerate() {
        assert_eq!(window.check(*sequence), *want, "check, step {step}, number {sequence}, window {size}");
        assert_eq!(window.commit(*sequence), *want, "commit, step {step}, number {sequence}, window {size}");
    }
}

#[test]
fn sizes() {
    for size in [64, 128, 1024, 65536] {
        assert_eq!(ReplayWindow::new(size).unwrap().size(), size);
    }
    for size in [0, 1, 32, 63, 65, 100, 65535, 65537, 131_072, u32::MAX] {
        assert!(ReplayWindow::new(size).is_none(), "{size}");
    }
}

#[test]
fn a_short_story() {
    run(
        64,
        &[
            (0, Err(SequenceZero)),
            (1, OK),
            (1, Err(Replayed)),
            (9, OK),
            (8, OK),
            (7, OK),
            (7, Err(Replayed)),
            (0, Err(SequenceZero)),
            (64, OK),
            (65, OK),
            (1, Err(ReplayTooOld)),
            (2, OK),
            (2, Err(Replayed)),
            (66, OK),
            (2, Err(ReplayTooOld)),
            (3, OK),
            (68, OK),
            (67, OK),
            (67, Err(Replayed)),
            (68, Err(Replayed)),
            (3, Err(ReplayTooOld)),
            (0, Err(SequenceZero)),
        ],
    );
}

#[test]
fn the_left_edge_is_exact_for_every_size_and_alignment() {
    for size in [64, 128, 256, 1024, 65536] {
        for top in (1..=130).map(|shift| 3 * u64::from(size) + shift) {
            let width = u64::from(size);
            run(
                size,
                &[
                    (top, OK),
                    (top - width, Err(ReplayTooOld)),
                    (top - width + 1, OK),
                    (top - width + 1, Err(Replayed)),
                    (top - 1, OK),
                    (top, Err(Replayed)),
                    (1, Err(ReplayTooOld)),
                ],
            );
        }
    }
}

#[test]
fn every_number_once_forwards_and_then_no_more() {
    let mut window = ReplayWindow::new(128).unwrap();
    for sequence in 1..=1000 {
        assert_eq!(window.commit(sequence), OK);
        assert_eq!(window.commit(sequence), Err(Replayed));
    }
    for sequence in 1..=872 {
        assert_eq!(window.commit(sequence), Err(ReplayTooOld));
    }
    for sequence in 873..=1000 {
        assert_eq!(window.commit(sequence), Err(Replayed));
    }
}

#[test]
fn every_number_once_backwards() {
    let mut window = ReplayWindow::new(1024).unwrap();
    for sequence in (977..=2000).rev() {
        assert_eq!(window.commit(sequence), OK);
    }
    assert_eq!(window.commit(976), Err(ReplayTooOld));
    for sequence in 977..=2000 {
        assert_eq!(window.commit(sequence), Err(Replayed));
    }
}

#[test]
fn a_jump_forgets_what_the_ring_held_there_before() {
    // Jumps by the window, the ring and around them land on words that were used.
    for jump in [63, 64, 65, 127, 128, 129, 191, 192, 255, 256, 257, 1 << 20] {
        let mut window = ReplayWindow::new(64).unwrap();
        for sequence in 1..=128 {
            window.commit(sequence).unwrap();
        }
        let top = 128 + jump;
        assert_eq!(window.commit(top), OK);
        for sequence in (top - 63).max(129)..top {
            assert_eq!(window.commit(sequence), OK, "jump {jump}, number {sequence}");
        }
    }
}

#[test]
fn the_ends_of_the_number_space() {
    for last in [u64::from(u32::MAX), u64::MAX] {
        run(
            1024,
            &[
                (last - 1, OK),
                (last, OK),
                (last, Err(Replayed)),
                (last - 1, Err(Replayed)),
                (last - 1023, OK),
                (last - 1024, Err(ReplayTooOld)),
                (1, Err(ReplayTooOld)),
                (0, Err(SequenceZero)),
            ],
        );
    }
}

#[test]
fn of_two_copies_checked_before_either_was_opened_one_passes() {
    let mut window = ReplayWindow::new(64).unwrap();
    assert_eq!((window.check(5), window.check(5)), (OK, OK));
    assert_eq!((window.commit(5), window.commit(5)), (OK, Err(Replayed)));
}

#[test]
fn states_that_no_window_exports_are_refused() {
    let good = ReplayState { size: 64, top: 3, seen: vec![0b101 << 61] };
    assert!(ReplayWindow::import(&good).is_some());
    let bad = [
        ReplayState { size: 65, ..good.clone() },
        ReplayState { size: 1 << 17, ..good.clone() },
        ReplayState { seen: vec![], ..good.clone() },
        ReplayState { seen: vec![0b101 << 61, 0], ..good.clone() },
        // The top is not marked.
        ReplayState { seen: vec![1 << 62], ..good.clone() },
        // Number zero, and one below it, are marked.
        ReplayState { seen: vec![0b1001 << 60], ..good.clone() },
        ReplayState { seen: vec![1 << 63 | 1], ..good.clone() },
        ReplayState { top: 0, ..good.clone() },
        ReplayState { size: 128, top: 64, seen: vec![1 << 63, 1 << 63] },
    ];
    for state in bad {
        assert!(ReplayWindow::import(&state).is_none(), "{state:?}");
    }
}

/// Numbers as an attacker and a network send them: ahead, a little behind, far behind, at the start.
#[derive(Clone, Debug)]
enum Step {
    Ahead(u64),
    Behind(u64),
    Exactly(u64),
}

fn steps() -> impl Strategy<Value = (u32, u64, Vec<Step>)> {
    let size = prop::sample::select(vec![64u32, 128, 256, 512]);
    let start = prop_oneof![Just(0u64), 0..5000u64, Just(u64::from(u32::MAX) - 300)];
    (size, start).prop_flat_map(|(size, start)| {
        let width = u64::from(size);
        let step = prop_oneof![
            4 => (1..4u64).prop_map(Step::Ahead),
            1 => (1..width * 5).prop_map(Step::Ahead),
            6 => (0..width + 70).prop_map(Step::Behind),
            1 => (0..3u64).prop_map(Step::Exactly),
        ];
        (Just(size), Just(start), prop::collection::vec(step, 1..400))
    })
}

proptest! {
    #[test]
    fn agrees_with_a_set_that_remembers_everything((size, start, steps) in steps()) {
        let mut window = ReplayWindow::new(size).unwrap();
        let (mut seen, mut top) = (HashSet::new(), 0);
        for (count, step) in steps.into_iter().enumerate() {
            let sequence = match step {
                Step::Ahead(by) => start.max(top) + by,
                Step::Behind(by) => top.saturating_sub(by),
                Step::Exactly(n) => n,
            };
            let want = if sequence == 0 {
                Err(SequenceZero)
            } else if sequence <= top && top - sequence >= u64::from(size) {
                Err(ReplayTooOld)
            } else if seen.contains(&sequence) {
                Err(Replayed)
            } else {
                Ok(())
            };
            prop_assert_eq!(window.check(sequence), want, "check {}", sequence);
            // Some packets pass the check and then fail their ICV: those must leave no trace.
            if count % 5 != 3 {
                prop_assert_eq!(window.commit(sequence), want, "commit {}", sequence);
                if want.is_ok() {
                    seen.insert(sequence);
                    top = top.max(sequence);
                }
            }
            prop_assert_eq!(window.top(), top);
        }
        // What is handed over decides alike, for every number that could matter.
        let state = window.export();
        let mut other = ReplayWindow::import(&state).expect("an exported window is a window");
        prop_assert_eq!(other.export(), state);
        for sequence in top.saturating_sub(2 * u64::from(size))..top + 70 {
            prop_assert_eq!(other.check(sequence), window.check(sequence), "after hand-over {}", sequence);
        }
        // And goes on alike.
        for sequence in [top + 65, top + 1, top + 64, top + 66 + u64::from(size)] {
            prop_assert_eq!(other.commit(sequence), window.commit(sequence));
        }
        prop_assert_eq!(other.export(), window.export());
    }

    #[test]
    fn import_never_panics(size in any::<u32>(), top in any::<u64>(), seen in prop::collection::vec(any::<u64>(), 0..20)) {
        for size in [size, 64 * seen.len() as u32] {
            let state = ReplayState { size, top, seen: seen.clone() };
            if let Some(window) = ReplayWindow::import(&state) {
                prop_assert_eq!(window.export(), state);
            }
        }
    }
}

/// The rule of RFC 4303 appendix A2 in words: of all numbers with this lower half the one that is at most 2^32 - W
/// above the top of the window, or inside it.
fn nearest(top: u64, size: u64, low: u32) -> u64 {
    let bottom = top.saturating_sub(size - 1);
    let lap = (bottom >> 32) << 32;
    let candidate = lap | u64::from(low);
    if candidate >= bottom { candidate } else { candidate + (1 << 32) }
}

#[test]
fn the_upper_half_is_inferred_around_every_lap() {
    for size in [64, 1024, 65536] {
        for lap in [0u64, 1, 2, 77] {
            for near in [0u64, 1, 63, 64, 1023, 1024, 65535, 1 << 31, (1 << 32) - 1024, (1 << 32) - 1] {
                let top = lap << 32 | near;
                let mut window = ReplayWindow::new(size).unwrap();
                if top > 0 {
                    window.commit(top).unwrap();
                }
                for low in [0u32, 1, 62, 63, 64, 1024, 1 << 31, u32::MAX - 65535, u32::MAX - 1023, u32::MAX] {
                    let want = nearest(top, u64::from(size), low);
                    assert_eq!(window.infer(low), want, "top {top:#x} window {size} low {low:#x}");
                }
            }
        }
    }
}

#[test]
fn a_window_that_is_off_lets_everything_pass() {
    let mut window = ReplayWindow::off();
    for sequence in [5, 5, 1, 5, u64::MAX] {
        assert_eq!(window.commit(sequence), Ok(()));
    }
    assert_eq!(window.commit(0), Ok(()));
    assert_eq!((window.top(), window.size()), (u64::MAX, 0));
    let again = ReplayWindow::import(&window.export()).unwrap();
    assert_eq!(again.export(), window.export());
}

proptest! {
    /// Resizing never accepts what the old window would have refused, and forgets nothing that the new one has room
    /// for.
    #[test]
    fn a_resized_window_refuses_at_least_as_much(
        sizes in (6u32..10, 6u32..10),
        start in 0u64..3000,
        steps in prop::collection::vec(0u64..700, 1..60),
    ) {
        let mut window = ReplayWindow::new(1 << sizes.0).unwrap();
        for step in steps {
            let _ = window.commit(start + step);
        }
        let resized = window.resized(1 << sizes.1).unwrap();
        prop_assert_eq!(resized.top(), window.top());
        for sequence in 1..=window.top() + 2 {
            if window.check(sequence).is_err() {
                prop_assert!(resized.check(sequence).is_err(), "{}", sequence);
            } else if window.top().saturating_sub(sequence) < 1 << sizes.1 {
                prop_assert!(resized.check(sequence).is_ok(), "{}", sequence);
            }
        }
        // From nothing known, nothing at or below the top is accepted.
        let mut off = ReplayWindow::off();
        if window.top() > 0 {
            off.commit(window.top()).unwrap();
            let on = off.resized(1 << sizes.1).unwrap();
            for sequence in 1..=window.top() {
                prop_assert!(on.check(sequence).is_err(), "{}", sequence);
            }
            prop_assert!(on.check(window.top() + 1).is_ok());
            prop_assert!(on.check(window.top() + (1 << sizes.1)).is_ok());
        }
    }
}
