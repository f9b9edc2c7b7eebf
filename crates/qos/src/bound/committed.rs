//! Committed work: what units hold when a packet comes, and what of it the packet waits for.
//!
//! A unit holds at most its high mark `h`, or one packet `L` if that is more. It is done before what comes, except on a
//! sliced unit, where one packet of an expedited class goes between two steps. There, `W = max(h, L) + L` is held at most,
//! with the packet in between (docs/design/0046-sliced-units.md has the derivation):
//!
//! - The expedited class that goes last of them waits for `min(n * step, W)`, with `n` the steps before it: one for each
//!   expedited packet that comes in its busy period, `(S + R * D) / l` of them with `D = (W + L + S) / (1 - R)` and `l` the
//!   cost of the cheapest packet, one for itself, and one that began as it came.
//! - An expedited class with others beside or behind it waits for `W`: packets of those may have been given for a whole
//!   turn. So it is where the guard of the scheduler is in reach: other classes are given work while expedited packets wait.
//! - Any other class waits for `W` too, and for the expedited work that comes meanwhile, up to its end.
//! - Where a guard alone bounds what is expedited, it does not bound what gets in between: nothing waits at 5b while a
//!   packet is in progress. A class behind it waits for `W` once more, and for a packet behind each of its steps.
//!
//! A packet of a suite without steps is one step: the step is the costliest of them, if that is more.

use super::guard::{expedited, reaches_guard};
use super::view::View;
use crate::graph::description::index::NodeRef;
use crate::graph::description::{Description, Mark, Scheduler, Unit, UnitKind};

/// The work in units that a packet waits for: of those on its thread together, and of one other that may serve it.
pub(super) fn committed(view: &View<'_>, class: &str) -> u64 {
    let (on_thread, apart): (Vec<&Unit>, Vec<&Unit>) = view.description.units.iter().partition(is_on_thread);
    let on_thread = on_thread.into_iter().map(|unit| held(view, unit, class)).fold(0, u64::saturating_add);
    let apart = apart.into_iter().filter(|unit| unit.serves(class)).map(|unit| held(view, unit, class));
    on_thread.saturating_add(apart.max().unwrap_or(0))
}

/// The work that a unit can hold and no packet of the class overtakes.
fn held(view: &View<'_>, unit: &Unit, class: &str) -> u64 {
    let packet = view.costliest();
    let most = unit.most_committed.value;
    let high = match unit.high.value {
        Mark::Auto => most,
        Mark::Fixed(high) => high.min(most),
    };
    match unit.kind.value {
        UnitKind::Sliced(_) => {
            let all = high.max(packet).saturating_add(packet);
            steps(view, unit, class, all).map_or(all, |steps| steps.saturating_mul(step(view, unit)).min(all))
        }
        // A packet is given while the mark is not reached, so the last one may go beyond it.
        UnitKind::Inline => high.max(packet),
        UnitKind::Batch(lanes) => high.max(packet.saturating_mul(lanes)),
        UnitKind::Worker | UnitKind::Async(_) => high.saturating_add(packet),
    }
}

/// The longest step of a sliced unit, in nanoseconds.
fn step(view: &View<'_>, unit: &Unit) -> u64 {
    match unit.kind.value {
        UnitKind::Sliced(step) => step.max(view.costliest_whole()),
        _ => 0,
    }
}

/// The steps of a sliced unit that a class waits for, if that is bounded: it is the last of the expedited classes, alone in
/// its place, and the guard is out of reach. `all` is what the unit can hold.
fn steps(view: &View<'_>, unit: &Unit, class: &str, all: u64) -> Option<u64> {
    let scheduler = scheduler(view, unit)?;
    if view.description.urgent(&scheduler.name.value).is_empty() || reaches_guard(view, scheduler) {
        return None;
    }
    let last = scheduler.children.len().checked_sub(2).and_then(|place| scheduler.children.get(place))?;
    let queues = view.description.leaves(&last.to.value);
    if queues.iter().flat_map(|queue| &queue.classes).any(|name| name.value != class) || queues.is_empty() {
        return None;
    }
    let arrival = expedited(view, scheduler).filter(|arrival| arrival.rate < 1.0)?;
    let busy = (all.saturating_add(view.costliest()) as f64 + arrival.burst) / (1.0 - arrival.rate);
    let packets = ((arrival.burst + arrival.rate * busy) / view.cheapest() as f64).ceil();
    Some((packets as u64).saturating_add(2))
}

/// What gets in between the steps of a sliced unit where a guard alone bounds what is expedited, in nanoseconds, with the
/// work in these steps; 0 if the scheduler is not that of a sliced unit.
pub(super) fn unguarded(view: &View<'_>, scheduler: &Scheduler) -> u64 {
    let is_its = |unit: &&Unit| {
        let its = self::scheduler(view, unit).map(|its| &its.name.value);
        matches!(unit.kind.value, UnitKind::Sliced(_)) && its == Some(&scheduler.name.value)
    };
    let of_unit = |unit: &Unit| {
        let all = held(view, unit, "");
        // The last step of a packet can be short.
        let steps = all.div_ceil(step(view, unit).max(1)).saturating_add(all.div_ceil(view.cheapest()));
        all.saturating_add(steps.saturating_add(1).saturating_mul(view.costliest()))
    };
    view.description.units.iter().filter(is_its).map(of_unit).max().unwrap_or(0)
}

/// The scheduler that hangs at hook 5b of a unit.
fn scheduler<'d>(view: &View<'d>, unit: &Unit) -> Option<&'d Scheduler> {
    let from = view.description.unit_hook(unit, view.direction)?.from.as_ref()?;
    match view.description.find_node(&from.value)? {
        NodeRef::Scheduler(scheduler) => Some(scheduler),
        NodeRef::Queue(_) => None,
    }
}

/// The sliced unit for which no bound of this graph is proved; `None` if every bound is.
///
/// A sliced unit that shares its thread with another unit gets no more of it than that one leaves: a turn is what all of
/// them may hold, and one step follows. What that is for a class of one of them no formula here says.
pub fn unproved(description: &Description) -> Option<&Unit> {
    let mut on_thread = description.units.iter().filter(is_on_thread);
    let has_others = on_thread.clone().nth(1).is_some();
    on_thread.find(|unit| has_others && matches!(unit.kind.value, UnitKind::Sliced(_)))
}

/// Whether the work of a unit is done on the thread that dispatches.
fn is_on_thread(unit: &&Unit) -> bool {
    matches!(unit.kind.value, UnitKind::Inline | UnitKind::Sliced(_) | UnitKind::Batch(_))
}
