//! Random histories of packets, answers, cuts and units that come and go.

use std::collections::BTreeMap;

use proptest::prelude::*;
use qos::dispatcher::JobId;
use qos::unit::{HANG, Kind, Mark, UnitFault, UnitId, UnitSpec};
use qos::{AggregateId, Measure, Meta};
use wire::Time;

use super::{Bench, classes, meta, spec};
use crate::queueing::{amount, at};

#[derive(Clone, Debug)]
enum Step {
    Offer { association: u32, aggregate: u8, octets: u64, pieces: u64 },
    Next,
    Answer { unit: u8, which: usize },
    Between { unit: u8 },
    Detach { unit: u8, gives_up: bool },
    Attach,
    Pass { ns: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5u32, 0..3u8, 1..400u64, prop_oneof![5 => Just(1u64), 1 => 2..20u64])
            .prop_map(|(association, aggregate, octets, pieces)|
                Step::Offer { association, aggregate, octets, pieces }),
        6 => Just(Step::Next),
        5 => (0..4u8, 0..2usize).prop_map(|(unit, which)| Step::Answer { unit, which }),
        1 => (0..4u8).prop_map(|unit| Step::Between { unit }),
        1 => (0..4u8, any::<bool>()).prop_map(|(unit, gives_up)| Step::Detach { unit, gives_up }),
        1 => Just(Step::Attach),
        1 => prop_oneof![4 => 0..1000u64, 1 => Just(HANG)].prop_map(|ns| Step::Pass { ns }),
    ]
}

fn kinds(which: usize) -> UnitSpec {
    match which % 4 {
        0 => spec(Kind::Worker),
        1 => UnitSpec { reserved: Some([AggregateId(0)].into_iter().collect()), ..spec(Kind::Inline) },
        2 => UnitSpec { high: Mark::Auto, low: Mark::Auto, ..spec(Kind::Async { depth: 3 }) },
        _ => UnitSpec { suites: [0].into_iter().collect(), ..spec(Kind::Sliced { step: 10 }) },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Random packets, answers, cuts, detached units: nothing is lost, committed work stays bounded, and packets of a
    /// pair never are in flight on two units at once nor start out of order.
    #[test]
    fn work_is_bounded_ordered_and_accounted_for(steps in prop::collection::vec(step(), 1..300)) {
        let mut bench = Bench::new((0..4).map(kinds));
        let mut flying: BTreeMap<u8, Vec<(JobId, u32, Meta)>> = BTreeMap::new();
        let (mut came, mut out) = (0u64, 0u64);
        let mut attached = 4;
        let mut kind_of = [0, 1, 2, 3];
        let mut last_of: BTreeMap<(u32, u8), u32> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            let given = match step {
                Step::Offer { association, aggregate, octets, pieces } => {
                    let amount = amount(pieces, octets * pieces, 0);
                    let packet = Meta { amount, ..meta(association, aggregate, 0) };
                    came += pieces;
                    bench.offer(number as u32, packet);
                    None
                }
                Step::Next => bench.next(),
                Step::Between { unit } => {
                    bench.between(UnitId(unit))
                }
                Step::Answer { unit, which } => {
                    let jobs = flying.entry(unit).or_default();
                    if which < jobs.len() {
                        let (job, _, packet) = jobs.remove(which);
                        out += packet.amount.packets;
                        let answer = bench.done(job, UnitId(unit));
                        prop_assert!(answer != Err(UnitFault::Twice) && answer != Err(UnitFault::Unknown));
                        prop_assert_eq!(bench.done(job, UnitId(unit)), Err(UnitFault::Twice));
                    }
                    None
                }
                Step::Detach { unit, gives_up } => {
                    let mut back = Vec::new();
                    if bench.dispatcher.detach(UnitId(unit), &mut back).is_some() {
                        back.into_iter().for_each(|(item, meta)| { let _ = bench.offer(item, meta); });
                    }
                    if gives_up {
                        let mut lost = Vec::new();
                        bench.dispatcher.give_up(UnitId(unit), &mut lost);
                        let jobs = flying.entry(unit).or_default();
                        for job in lost {
                            let at = jobs.iter().position(|(known, ..)| *known == job).unwrap();
                            out += jobs.remove(at).2.amount.packets;
                        }
                    }
                    None
                }
                Step::Attach => {
                    // A place that is free is taken; otherwise the unit is one more, which nothing is offered to.
                    let unit = bench.dispatcher.attach(kinds(attached), classes());
                    if let Some(kind) = unit.and_then(|unit| kind_of.get_mut(usize::from(unit.0))) {
                        *kind = attached % 4;
                        attached += 1;
                    }
                    None
                }
                Step::Pass { ns } => {
                    bench.now += ns;
                    while let Some(unit) = bench.dispatcher.overdue(Time(bench.now)) {
                        let mut back = Vec::new();
                        bench.dispatcher.detach(unit, &mut back);
                        back.into_iter().for_each(|(item, meta)| { let _ = bench.offer(item, meta); });
                    }
                    None
                }
            };
            if let Some(given) = given {
                let mut packet = given.meta;
                if given.budget.packets < packet.amount.packets {
                    let mut rest = packet;
                    rest.amount -= given.budget;
                    packet.amount = given.budget;
                    bench.dispatcher.rest(given.job, given.item, rest, &at(bench.now));
                }
                let pair = (packet.association, packet.aggregate.0);
                let last = last_of.insert(pair, given.item);
                prop_assert!(last.is_none_or(|last| last <= given.item), "{pair:?}: {last:?}, {}", given.item);
                for (unit, jobs) in &flying {
                    let others = jobs.iter().filter(|(.., meta)| (meta.association, meta.aggregate.0) == pair);
                    prop_assert!(*unit == given.unit.0 || others.count() == 0, "{pair:?} on two units");
                }
                flying.entry(given.unit.0).or_default().push((given.job, given.item, packet));
            }
            for unit in 0..4 {
                // The high mark, or one piece of at most 400 that was given when nothing was committed, and one in
                // between.
                let committed = bench.dispatcher.committed(UnitId(unit));
                let kind = kind_of[usize::from(unit)];
                let most = if kind == 2 { 1000 } else { 400 } + if kind == 3 { 400 } else { 0 };
                prop_assert!(committed.ns <= most, "unit {unit}: {committed:?}");
                let jobs = flying.get(&unit).map(Vec::as_slice).unwrap_or_default();
                let packets: u64 = jobs.iter().map(|(.., meta)| meta.amount.packets).sum();
                prop_assert_eq!(committed.packets, packets);
            }
        }
        let ended: u64 = bench.ended.iter().map(|end| end.meta.amount.packets).sum();
        let waiting: u64 = (0..16).map(|unit| bench.dispatcher.waiting(UnitId(unit)).packets).sum();
        let queued: u64 = (0..16)
            .filter_map(|unit| Some(bench.dispatcher.queues_mut(UnitId(unit))?.length(Measure::Packets)))
            .sum();
        let in_flight: u64 = flying.values().flatten().map(|(.., meta)| meta.amount.packets).sum();
        prop_assert_eq!(waiting, queued);
        prop_assert_eq!(came, out + ended + waiting + in_flight);
    }
}
