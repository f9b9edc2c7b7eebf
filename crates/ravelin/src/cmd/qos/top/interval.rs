//! The interval between two answers of the daemon.

use api::{
    QosClassCounts, QosDirectionState, QosKernelCounts, QosSojourn, QosState, QosTop, QosTopClass,
    QosTopDirection, QosTopLoss, QosTopUnit,
};

/// What the graph did between two answers, `seconds` apart. A count that is less than before began anew in between.
pub(super) fn between(before: &QosState, now: &QosState, seconds: f64) -> QosTop {
    let direction = |direction: &QosDirectionState| {
        let earlier = before.directions.iter().find(|earlier| earlier.direction == direction.direction);
        of_direction(earlier, direction, &now.sojourn_bounds_ns, seconds)
    };
    QosTop { file: now.file.clone(), seconds, directions: now.directions.iter().map(direction).collect() }
}

/// A queue of a class, now and at the answer before.
struct Queue<'a> {
    now: &'a QosClassCounts,
    before: Option<&'a QosClassCounts>,
}

impl Queue<'_> {
    /// The growth of a count.
    fn grew(&self, count: fn(&QosClassCounts) -> u64) -> u64 {
        grown(self.before.map(count), count(self.now))
    }

    fn sojourn(&self, bounds: &[u64]) -> QosSojourn {
        match self.before {
            Some(before) => self.now.sojourn.since(&before.sojourn, bounds),
            None => self.now.sojourn.clone(),
        }
    }
}

fn of_direction<'a>(
    before: Option<&'a QosDirectionState>,
    now: &'a QosDirectionState,
    bounds: &[u64],
    seconds: f64,
) -> QosTopDirection {
    let queue = |counts: &'a QosClassCounts| {
        let is_it =
            |earlier: &&QosClassCounts| (&earlier.class, &earlier.hook) == (&counts.class, &counts.hook);
        Queue { now: counts, before: before.and_then(|before| before.classes.iter().find(is_it)) }
    };
    let queues: Vec<Queue<'_>> = now.classes.iter().map(queue).collect();
    let kernel =
        |at: u64| before.and_then(|before| before.kernel_queues.iter().find(|queue| queue.queue == at));
    let kernel_lost =
        |queue: &QosKernelCounts| grown(kernel(queue.queue).map(|queue| queue.lost), queue.lost);
    let served: u64 = queues.iter().map(|queue| queue.grew(|counts| counts.served_ns)).sum();
    let mut names: Vec<&String> = Vec::new();
    for name in now
        .kernel_queues
        .iter()
        .flat_map(|queue| &queue.classes)
        .chain(now.classes.iter().map(|row| &row.class))
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let class = |name: &String| {
        let of: Vec<&Queue<'_>> = queues.iter().filter(|queue| queue.now.class == *name).collect();
        let sum = |count: fn(&QosClassCounts) -> u64| of.iter().map(|queue| count(queue.now)).sum();
        let own: Vec<&QosKernelCounts> =
            now.kernel_queues.iter().filter(|queue| queue.classes == [name.clone()]).collect();
        let lost: u64 = own.iter().copied().map(kernel_lost).sum();
        let mut sojourns = of.iter().rev().map(|queue| queue.sojourn(bounds));
        let sojourn = sojourns.find(|sojourn| sojourn.count() > 0).unwrap_or_default();
        let work: u64 = of.iter().map(|queue| queue.grew(|counts| counts.served_ns)).sum();
        QosTopClass {
            class: name.clone(),
            arrived: of.iter().map(|queue| queue.now.arrived).max().unwrap_or(0),
            arrived_per_second: of.iter().map(|queue| queue.grew(|counts| counts.arrived)).max().unwrap_or(0)
                as f64
                / seconds,
            kernel_lost_per_second: (!own.is_empty()).then(|| lost as f64 / seconds),
            dropped_per_second: of.iter().map(|queue| queue.grew(dropped)).sum::<u64>() as f64 / seconds,
            waiting: sum(|counts| counts.waiting),
            waiting_octets: sum(|counts| counts.waiting_octets),
            waiting_ns: sum(|counts| counts.waiting_ns),
            p50_ns: sojourn.p50_ns,
            p99_ns: sojourn.p99_ns,
            share_ppm: part(work, served),
            longest_loss: of.iter().map(|queue| queue.now.longest_loss).max().unwrap_or(0),
        }
    };
    let classes = names.into_iter().map(class).collect();
    let mut losses: Vec<QosTopLoss> = Vec::new();
    for queue in now.kernel_queues.iter().filter(|queue| queue.lost > 0) {
        losses.push(QosTopLoss {
            classes: queue.classes.clone(),
            place: "kernel".to_owned(),
            queue: Some(queue.queue),
            reason: "kernel_queue_full".to_owned(),
            count: queue.lost,
            per_second: kernel_lost(queue) as f64 / seconds,
        });
    }
    if now.no_place > 0 {
        losses.push(QosTopLoss {
            classes: Vec::new(),
            place: "graph".to_owned(),
            queue: None,
            reason: "no_place".to_owned(),
            count: now.no_place,
            per_second: grown(before.map(|before| before.no_place), now.no_place) as f64 / seconds,
        });
    }
    for Queue { now, before } in &queues {
        for (reason, count) in &now.dropped {
            let earlier = before.and_then(|before| before.dropped.get(reason).copied());
            losses.push(QosTopLoss {
                classes: vec![now.class.clone()],
                place: now.hook.clone(),
                queue: None,
                reason: reason.clone(),
                count: *count,
                per_second: grown(earlier, *count) as f64 / seconds,
            });
        }
    }
    losses.sort_by(|one, other| other.per_second.total_cmp(&one.per_second));
    let unit = |unit: &api::QosUnitState| {
        let earlier = before.and_then(|before| before.units.iter().find(|earlier| earlier.unit == unit.unit));
        let busy = grown(earlier.map(|unit| unit.busy_ns), unit.busy_ns);
        QosTopUnit {
            unit: unit.unit.clone(),
            load_ppm: part(busy, (seconds * 1e9) as u64),
            committed_ns: unit.committed_ns,
            waiting_ns: unit.waiting_ns,
            low_ns: unit.low_ns,
            high_ns: unit.high_ns,
        }
    };
    QosTopDirection {
        direction: now.direction,
        classes,
        losses,
        kernel_queues: now.kernel_queues.clone(),
        units: now.units.iter().map(unit).collect(),
    }
}

fn dropped(counts: &QosClassCounts) -> u64 {
    counts.dropped.values().sum()
}

/// The growth of a count. One that is less than before began anew.
fn grown(before: Option<u64>, now: u64) -> u64 {
    now.checked_sub(before.unwrap_or(0)).unwrap_or(now)
}

/// A part of a whole, in parts per million; 0 of nothing.
fn part(of: u64, whole: u64) -> u64 {
    let parts = u128::from(of) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(parts).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use api::{QosDirection, QosUnitState};

    use super::*;

    const BOUNDS: [u64; 2] = [256, 512];

    fn counts(
        class: &str,
        hook: &str,
        [arrived, full, waiting, served_ns]: [u64; 4],
        buckets: [u64; 3],
    ) -> QosClassCounts {
        QosClassCounts {
            class: class.into(),
            hook: hook.into(),
            arrived,
            left: buckets.iter().sum(),
            waiting,
            waiting_ns: 10 * waiting,
            dropped: [("queue_full".to_owned(), full)].into_iter().filter(|(_, count)| *count > 0).collect(),
            served_ns,
            sojourn: QosSojourn::new(buckets.to_vec(), 0, &BOUNDS),
            longest_loss: full,
            ..QosClassCounts::default()
        }
    }

    fn state(classes: Vec<QosClassCounts>, lost: u64, busy_ns: u64) -> QosState {
        let queue = |queue, classes: &[&str], lost| QosKernelCounts {
            queue,
            classes: classes.iter().map(|class| (*class).to_owned()).collect(),
            arrived: lost,
            taken: 0,
            lost,
            waiting: 0,
            limit: 5,
        };
        QosState {
            file: Some("preset two-classes".into()),
            graph: None,
            sojourn_bounds_ns: BOUNDS.to_vec(),
            directions: vec![QosDirectionState {
                direction: QosDirection::Out,
                waiting: 0,
                room: 9,
                no_place: lost / 2,
                kernel_queues: vec![queue(0, &["ef"], 0), queue(1, &["be", "le"], lost)],
                classes,
                units: vec![QosUnitState {
                    unit: "inline".into(),
                    kind: "inline".into(),
                    committed_ns: 0,
                    waiting: 0,
                    waiting_ns: 0,
                    busy_ns,
                    low_ns: 1,
                    high_ns: 2,
                }],
                unit_faults: api::QosUnitFaults::default(),
                components: Vec::new(),
            }],
            ..QosState::default()
        }
    }

    #[test]
    fn an_interval_has_the_growth_of_each_count_by_time() {
        let before = state(
            vec![
                counts("ef", "1a", [10, 0, 0, 0], [10, 0, 0]),
                counts("ef", "5a", [10, 0, 0, 500], [0, 10, 0]),
            ],
            4,
            1_000_000_000,
        );
        let now = state(
            vec![
                counts("ef", "1a", [30, 0, 0, 0], [30, 0, 0]),
                counts("be", "1a", [50, 20, 5, 0], [25, 0, 0]),
                counts("ef", "5a", [30, 0, 2, 1_100], [18, 10, 0]),
                counts("be", "5a", [25, 0, 0, 400], [0, 20, 5]),
            ],
            10,
            2_500_000_000,
        );
        let top = between(&before, &now, 2.0);
        let [direction] = &top.directions[..] else { panic!("{top:?}") };
        let [ef, be, le] = &direction.classes[..] else { panic!("{:?}", direction.classes) };
        assert_eq!((ef.class.as_str(), ef.arrived, ef.arrived_per_second), ("ef", 30, 10.0));
        assert_eq!(
            (ef.kernel_lost_per_second, ef.dropped_per_second, ef.waiting, ef.waiting_ns),
            (Some(0.0), 0.0, 2, 20)
        );
        // The ten of the second bucket left before.
        assert_eq!((ef.p50_ns, ef.p99_ns, ef.share_ppm), (Some(256), Some(256), 600_000));
        assert_eq!((be.class.as_str(), be.arrived_per_second, be.dropped_per_second), ("be", 25.0, 10.0));
        assert_eq!((be.kernel_lost_per_second, be.p50_ns, be.p99_ns), (None, Some(512), None));
        assert_eq!((be.share_ppm, be.longest_loss), (400_000, 20));
        assert_eq!((le.class.as_str(), le.arrived, le.p50_ns), ("le", 0, None));
        let losses: Vec<_> =
            direction.losses.iter().map(|loss| (loss.place.as_str(), loss.count, loss.per_second)).collect();
        assert_eq!(losses, [("1a", 20, 10.0), ("kernel", 10, 3.0), ("graph", 5, 1.5)]);
        assert_eq!(direction.units[0].load_ppm, 750_000);
    }

    #[test]
    fn counts_that_began_anew_are_all_of_the_interval() {
        let before = state(vec![counts("ef", "5a", [900, 7, 0, 90_000], [900, 0, 0])], 100, 9_000_000_000);
        let now = state(vec![counts("ef", "5a", [4, 1, 0, 400], [0, 3, 0])], 2, 1_000_000);
        let top = between(&before, &now, 1.0);
        let (class, direction) = (&top.directions[0].classes[0], &top.directions[0]);
        assert_eq!((class.arrived_per_second, class.dropped_per_second, class.p50_ns), (4.0, 1.0, Some(512)));
        assert_eq!((direction.units[0].load_ppm, direction.losses[0].per_second), (1_000, 2.0));
        // No graph was in force before, or is now.
        assert_eq!(between(&QosState::default(), &now, 1.0).directions[0].classes[0].arrived_per_second, 4.0);
        assert_eq!(between(&now, &QosState::default(), 1.0), QosTop { seconds: 1.0, ..QosTop::default() });
    }
}
