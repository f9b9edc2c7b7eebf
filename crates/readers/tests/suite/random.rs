//! Long random attacks: overlaps, chaff and flags of all kinds at once, through the scrubber, before all readers.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use readers::middlebox::{Middlebox, NoMiddlebox, Scrubbed};
use readers::packet::Scene;
use readers::replay::{Replay, SegmentOddities, Step};
use scrub::{Config, Profile};

/// Oddities, most often none; each kind comes alone.
fn odd() -> impl Strategy<Value = SegmentOddities> {
    prop_oneof![
        12 => Just(SegmentOddities::default()),
        1 => (0_u16..256).prop_map(|flags| SegmentOddities { flags, ..SegmentOddities::default() }),
        1 => Just(SegmentOddities { flags: 0x01, ..SegmentOddities::default() }),
        1 => Just(SegmentOddities { flags: 0x04, ..SegmentOddities::default() }),
        1 => Just(SegmentOddities { no_ack: true, flags: 0x08, ..SegmentOddities::default() }),
        1 => (-70_000_i32..70_000).prop_map(|ack| SegmentOddities { ack, ..SegmentOddities::default() }),
        1 => (0_u16..200).prop_map(|urgent| SegmentOddities { flags: 0x20, urgent, ..SegmentOddities::default() }),
        1 => Just(SegmentOddities { spoilt: true, ..SegmentOddities::default() }),
        1 => (1_u8..6).prop_map(|ttl| SegmentOddities { ttl, ..SegmentOddities::default() }),
        1 => (-5_000_i32..5).prop_map(|clock| SegmentOddities { clock, ..SegmentOddities::default() }),
        1 => Just(SegmentOddities { md5: true, ..SegmentOddities::default() }),
        1 => Just(SegmentOddities { scale: true, ..SegmentOddities::default() }),
    ]
}

/// Segments mostly advance, with overlaps around the edge.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let data = (-130_i32..260, 0_usize..129, 0_u8..4, odd());
    let step = prop_oneof![
        10 => data.prop_map(|(place, len, story, odd)| Step::Data { place, len, story, odd }),
        2 => Just(Step::Again),
        4 => prop_oneof![Just(8_192_u16), 0_u16..400].prop_map(Step::Ack),
        1 => (0_usize..100).prop_map(Step::Say),
        1 => (0_u16..1_200).prop_map(Step::Spoof),
    ];
    prop::collection::vec(step, 1..60)
}

fn scenes() -> impl Strategy<Value = Scene> {
    let isn = prop_oneof![Just(u32::MAX - 100), any::<u32>()];
    let scale = || prop::option::of(0_u8..3);
    (any::<bool>(), isn, any::<u32>(), any::<bool>(), scale(), scale(), 100_u16..2_000).prop_map(
        |(v6, isn, inside_isn, timestamps, outside, inside, window)| Scene {
            v6,
            isn,
            inside_isn,
            timestamps,
            scale: [outside, inside],
            window,
            ..Scene::default()
        },
    )
}

/// Play the trace, its places counted from what the host has in order when each step comes.
fn play<M: Middlebox>(
    middle: M,
    scene: Scene,
    steps: &[Step],
    seed: u64,
) -> Option<[(&'static str, Vec<u8>); 2]> {
    let mut replay = Replay::open(middle, scene, seed);
    for step in steps {
        let mut step = step.clone();
        if let Step::Data { place, .. } = &mut step {
            *place += replay.in_order() as i32;
        }
        replay.step(&step);
    }
    replay.contradiction()
}

fn shown(found: Option<[(&'static str, Vec<u8>); 2]>) -> Result<(), TestCaseError> {
    match found {
        None => Ok(()),
        Some([one, other]) => {
            let at = one.1.iter().zip(&other.1).take_while(|(a, b)| a == b).count();
            Err(TestCaseError::fail(format!("`{}` and `{}` part at octet {at}", one.0, other.0)))
        }
    }
}

proptest! {
    #[test]
    fn the_scrubber_leaves_one_stream(scene in scenes(), steps in steps(), seed in any::<u64>()) {
        for profile in [Profile::Minimal, Profile::Standard, Profile::Strict] {
            shown(play(Scrubbed::new(Config::new(profile)), scene, &steps, seed))?;
        }
    }
}

#[test]
fn without_anybody_in_the_middle_streams_part() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut parted = 0;
    for _ in 0..64 {
        let tree = (scenes(), steps()).new_tree(&mut runner).expect("a trace");
        let (scene, steps) = tree.current();
        parted += usize::from(play(NoMiddlebox, scene, &steps, 1).is_some());
    }
    assert!(parted > 16, "{parted} of 64");
}
