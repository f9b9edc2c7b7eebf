//! What classes ask for, and whether that reaches the guard of strict priority.

use super::arrival::Arrival;
use super::view::View;
use crate::graph::description::{Child, Scheduler};

/// The period of a guard that does not name one, in nanoseconds.
pub const GUARD_PERIOD: u64 = 10_000_000;

/// What the classes below a child may ask for; `None` if one of them is not policed.
pub(super) fn arrival(view: &View<'_>, child: &Child) -> Option<Arrival> {
    let queues = view.description.leaves(&child.to.value);
    let classes = view.description.classes.iter().filter(|class| {
        class.direction.value.has(view.direction)
            && queues.iter().any(|queue| queue.classes.contains(&class.name))
    });
    classes
        .map(|class| view.arrival(&class.name.value))
        .try_fold(Arrival::NONE, |sum, arrival| Some(sum.plus(arrival?)))
}

/// The share and the period in nanoseconds of the guard of strict priority.
pub(super) fn guard(scheduler: &Scheduler) -> Option<(f64, f64)> {
    let period = scheduler.discipline.number("period").unwrap_or(GUARD_PERIOD) as f64;
    let guard = scheduler.discipline.number("guard").map(|guard| guard as f64 / 1e6);
    guard.filter(|guard| *guard < 1.0).map(|guard| (guard, period))
}

/// Whether what every child in front of the last asks for together can reach the guard. It is never reached if that is
/// less in any period.
pub(super) fn reaches(all: Option<Arrival>, guard: f64, period: f64, rate: f64) -> bool {
    all.is_none_or(|all| all.burst + all.rate * period > guard * rate * period)
}

/// Whether the guard of a scheduler at the root of a tree may come into force, so that the last child is served while
/// others wait. One that is shaped as well counts as such.
pub(super) fn reaches_guard(view: &View<'_>, scheduler: &Scheduler) -> bool {
    let Some((guard, period)) = guard(scheduler) else { return false };
    scheduler.shape.is_some() || reaches(expedited(view, scheduler), guard, period, 1.0)
}

/// What the classes below every child but the last ask for; `None` if one of them is not policed.
pub(super) fn expedited(view: &View<'_>, scheduler: &Scheduler) -> Option<Arrival> {
    let mut upper = scheduler.children.iter().rev().skip(1).map(|child| arrival(view, child));
    upper.try_fold(Arrival::NONE, |sum, arrival| Some(sum.plus(arrival?)))
}
