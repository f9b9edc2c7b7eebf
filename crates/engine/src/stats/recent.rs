//! The latest drops in full, of every application and reason so many.
//!
//! What enters: every drop that somebody may ask about, in order. What leaves: those that are remembered, the oldest
//! first. Each kind, which is an application, a rule of the SPD and a reason, has places of its own: an application
//! that floods the engine with what is refused pushes out its own drops of that reason, and nobody else's.

use std::collections::{BTreeMap, VecDeque};

use wire::{AppId, DropReason};

use super::dropped::Dropped;
use crate::SPD_RULE;

/// Drops of one kind that are remembered in full.
pub const REMEMBERED: usize = 32;
/// Kinds that are remembered. Applications and rules come from policy, and one of them has few reasons.
const KINDS: usize = 128;

/// What has places of its own: the application, the rule of the SPD that decided (zero if none did), and the reason.
type Kind = (AppId, u32, DropReason);

fn kind(dropped: &Dropped) -> Kind {
    let rule = if dropped.rule & SPD_RULE == 0 { 0 } else { dropped.rule };
    (dropped.app, rule, dropped.reason)
}

/// Drops with their numbers, by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    kinds: BTreeMap<Kind, VecDeque<(u64, Dropped)>>,
    /// How many were ever put here: the number of the latest.
    noted: u64,
}

impl Recent {
    pub(super) fn note(&mut self, dropped: Dropped) {
        self.noted += 1;
        let kind = kind(&dropped);
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(&kind) {
            self.forget_quietest();
        }
        // All room at once: drops of a kind that is known allocate nothing.
        let own = self.kinds.entry(kind).or_insert_with(|| VecDeque::with_capacity(REMEMBERED));
        if own.len() >= REMEMBERED {
            own.pop_front();
        }
        own.push_back((self.noted, dropped));
    }

    /// Forget the kind that had no drop for the longest time.
    #[cold]
    fn forget_quietest(&mut self) {
        let latest = |own: &VecDeque<(u64, Dropped)>| own.back().map_or(0, |(number, _)| *number);
        if let Some(kind) = self.kinds.iter().min_by_key(|(_, own)| latest(own)).map(|(kind, _)| *kind) {
            self.kinds.remove(&kind);
        }
    }

    pub(super) fn noted(&self) -> u64 {
        self.noted
    }

    /// The drops with a higher number than `seen`, the oldest first.
    pub(super) fn since(&self, seen: u64) -> impl Iterator<Item = &Dropped> + use<'_> {
        let newer = |own: &'_ VecDeque<(u64, Dropped)>| own.partition_point(|(number, _)| *number <= seen);
        let mut out: Vec<&(u64, Dropped)> =
            self.kinds.values().flat_map(|own| own.iter().skip(newer(own))).collect();
        out.sort_unstable_by_key(|(number, _)| *number);
        out.into_iter().map(|(_, dropped)| dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::About;
    use wire::Time;

    fn dropped(n: u64, app: u16, reason: DropReason) -> Dropped {
        Dropped::new(reason, &About { at: Time(n), app: AppId(app), ..About::default() }, 1, None)
    }

    fn apps(recent: &Recent, seen: u64) -> Vec<(u16, u64)> {
        recent.since(seen).map(|one| (one.app.0, one.at.0)).collect()
    }

    #[test]
    fn a_flood_of_one_application_hides_neither_another_one_nor_another_reason() {
        let mut recent = Recent::default();
        recent.note(dropped(0, 2, DropReason::NoSa));
        recent.note(dropped(1, 1, DropReason::NoSa));
        for n in 2..100_000 {
            recent.note(dropped(n, 1, DropReason::PolicyDiscard));
        }
        recent.note(dropped(100_000, 2, DropReason::NoSa));
        let all = apps(&recent, 0);
        assert_eq!(all.len(), REMEMBERED + 3);
        assert_eq!((all[0], all[1], all[2]), ((2, 0), (1, 1), (1, 100_000 - REMEMBERED as u64)));
        assert_eq!(apps(&recent, recent.noted() - 2), [(1, 99_999), (2, 100_000)]);
        assert_eq!(apps(&recent, recent.noted()), []);
    }

    /// All rules, and sockets that ask for protection themselves, share the number zero.
    #[test]
    fn a_flood_of_no_application_hides_no_rule() {
        let mut recent = Recent::default();
        let of = |rule| Dropped { rule, ..dropped(0, 0, DropReason::NoSa) };
        recent.note(of(SPD_RULE | 7));
        for n in 0..100 {
            recent.note(of(0));
            // The number of a decision is none of a rule.
            recent.note(of(n));
        }
        assert_eq!(recent.since(0).filter(|one| one.rule == SPD_RULE | 7).count(), 1);
        assert_eq!((recent.since(0).count(), recent.kinds.len()), (REMEMBERED + 1, 2));
    }

    #[test]
    fn kinds_are_bounded_and_the_quietest_is_forgotten() {
        let mut recent = Recent::default();
        recent.note(dropped(0, 9999, DropReason::NoSa));
        for n in 1..1000u16 {
            recent.note(dropped(u64::from(n), n, DropReason::NoSa));
            recent.note(dropped(u64::from(n), 5000, DropReason::NoSa));
        }
        assert_eq!(recent.kinds.len(), KINDS);
        let has = |app: u16| recent.since(0).any(|one| one.app.0 == app);
        assert_eq!((has(9999), has(5000), has(999), has(1)), (false, true, true, false));
    }
}
