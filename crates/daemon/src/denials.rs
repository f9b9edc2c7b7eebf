//! What the kernel half refused lately, to be explained afterwards, and its way into the audit log.
//!
//! What enters: events of the socket monitor: refused calls, and packets that ended (of a kind that comes often only one in a
//! while). What leaves: the last of them by number; of one application and reason not more in a second than `[audit] per_second` says,
//! so that nobody hides a refusal behind many others. How often each reason refused each application is counted in the kernel
//! half and does not rest on events: those can be lost, which is counted too.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use sockmon::Event;
use wire::AppId;

/// Refusals that are remembered.
const KEPT: usize = 1024;
/// Refusals of one application and reason that are told in a second, where the configuration does not say.
pub(crate) const PER_SECOND: u32 = 32;

/// A refusal by the kernel half that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The number of the refusal since the daemon's start, from 1.
    pub id: u64,
    /// When the daemon heard of it, since 1970: up to a second behind.
    pub at: Duration,
    /// The generation of the policy that was in force.
    pub generation: u64,
    /// The event that the kernel half reported.
    pub event: Event,
}

/// The last refusals by the kernel half, and counts of what is not among them.
#[derive(Debug, Default)]
pub struct Denials {
    last: VecDeque<Denial>,
    count: u64,
    /// Events that were lost up to now, by the kernel half's count; `None`: not read yet.
    lost: Option<u64>,
    /// Likewise, those that it left out.
    left_out: Option<u64>,
    /// Likewise, new files of programs, and those that were executed without the digest of policy: not each of them is told of.
    executables: [Option<u64>; 2],
    pub(crate) measure: Measure,
}

/// How many of a kind were told in this second, and how many were not.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    second: u64,
    told: HashMap<(AppId, &'static str), u32>,
    pub(crate) left_out: BTreeMap<&'static str, u64>,
}

impl Measure {
    /// Whether this one is told.
    pub(crate) fn admits(&mut self, event: &Event, second: u64, per_second: u32) -> bool {
        if self.second != second {
            self.second = second;
            self.told.clear();
        }
        let told = self.told.entry((event.app, event.reason)).or_default();
        if *told < per_second {
            *told += 1;
            return true;
        }
        *self.left_out.entry(event.reason).or_default() += 1;
        false
    }
}

impl Denials {
    /// Remember a refusal, and forget the oldest one if there are too many.
    pub fn add(&mut self, event: Event, at: Duration, generation: u64) {
        let id = self.next_id();
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Denial { id, at, generation, event });
    }

    /// Take the next number; the engine's ends of packets have theirs from here too.
    pub fn next_id(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// The refusal with this number, if it is still remembered.
    pub fn find(&self, id: u64) -> Option<&Denial> {
        self.last.iter().find(|denial| denial.id == id)
    }

    /// All refusals that are remembered, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Denial> {
        self.last.iter().rev()
    }

    /// How many more events were lost.
    pub(crate) fn more_lost(&mut self, lost: u64) -> u64 {
        lost.saturating_sub(self.lost.replace(lost).unwrap_or(lost))
    }

    /// Whether there are more new files of programs, and more that were executed without the digest of policy, by the counts of the kernel half.
    pub(crate) fn more_executables(&mut self, counts: [u64; 2]) -> [bool; 2] {
        let before = std::mem::replace(&mut self.executables, counts.map(Some));
        [0, 1].map(|i| before[i].is_some_and(|before| counts[i] > before))
    }

    /// How many more the kernel half left out.
    pub(crate) fn more_left_out(&mut self, left_out: u64) -> u64 {
        left_out.saturating_sub(self.left_out.replace(left_out).unwrap_or(left_out))
    }
}

#[cfg(test)]
mod tests {
    use sockmon::Attempt;

    use super::*;

    fn event(port: u16) -> Event {
        Event {
            pid: 1,
            uid: 0,
            comm: "curl".into(),
            app: wire::AppId(1),
            attempt: Attempt::Connect,
            peer: ([192, 0, 2, 1], port).into(),
            protocol: 6,
            reason: "connect_untrusted",
            observed: false,
        }
    }

    #[test]
    fn executables_that_nobody_told_of_are_looked_at_all_the_same() {
        let mut denials = Denials::default();
        assert_eq!(denials.more_executables([40, 7]), [false, false], "what was before we listened");
        assert_eq!(denials.more_executables([41, 7]), [true, false]);
        assert_eq!(denials.more_executables([41, 9]), [false, true]);
        assert_eq!(denials.more_executables([41, 9]), [false, false]);
    }

    #[test]
    fn the_last_are_remembered_by_number() {
        let mut denials = Denials::default();
        for port in 1..=1030 {
            denials.add(event(port), Duration::ZERO, 1);
        }
        assert_eq!(denials.newest().next().map(|denial| denial.id), Some(1030));
        assert_eq!(denials.newest().count(), KEPT);
        assert_eq!(denials.find(6), None);
        assert_eq!(denials.find(7).map(|denial| denial.event.peer.port()), Some(7));
    }

    #[test]
    fn of_a_flood_a_few_are_told_and_the_rest_is_counted_and_hides_nobody_else() {
        let mut measure = Measure::default();
        let other = Event { app: AppId(2), ..event(1) };
        let told = (0..1000).filter(|_| measure.admits(&event(1), 7, 32)).count();
        assert_eq!((told, measure.admits(&other, 7, 32)), (32, true));
        assert_eq!(measure.left_out, BTreeMap::from([("connect_untrusted", 968)]));
        assert!(measure.admits(&event(1), 8, 32) && !measure.admits(&event(1), 8, 0));
    }

    #[test]
    fn what_was_lost_before_the_daemon_came_is_not_news() {
        let mut denials = Denials::default();
        assert_eq!([5, 5, 8].map(|lost| denials.more_lost(lost)), [0, 0, 3]);
    }
}
