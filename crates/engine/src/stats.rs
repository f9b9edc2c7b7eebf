//! The fate of packets: a counter for every reason, and the latest drops in full for `explain`.
//!
//! Each half of the engine owns one and counts without locks; the control plane asks for a copy.

use wire::{AppId, DropReason, Services, Time};

use crate::audit::{Audited, Audits};

mod dropped;
mod recent;
mod traffic;

pub(crate) use dropped::About;
pub use dropped::Dropped;
pub use recent::REMEMBERED;
pub use traffic::Traffic;

use recent::Recent;

/// The counters of one half of the engine.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The traffic sent under protection (outbound), or delivered to the host (inbound).
    pub protected: Traffic,
    /// The traffic sent in clear by policy (outbound), or delivered to the host out of IP in IP that arrived bare
    /// (inbound).
    pub clear: Traffic,
    /// The answers made for the host, for example "packet too big" (outbound); nothing inbound.
    pub replies: Traffic,
    /// The traffic that left, by application: in associations that only authenticate, and in those that encrypt.
    left: Vec<[Traffic; 2]>,
    drops: [u64; DropReason::ALL.len()],
    recent: Recent,
    /// The reports for the auditor; `None`: nobody audits.
    audits: Option<Box<Audits>>,
}

impl Stats {
    pub(crate) fn new() -> Stats {
        Stats {
            protected: Traffic::default(),
            clear: Traffic::default(),
            replies: Traffic::default(),
            left: Vec::new(),
            drops: [0; DropReason::ALL.len()],
            recent: Recent::default(),
            audits: None,
        }
    }

    /// Count packets of an application that left in an association with these services. Encryption under a cipher of
    /// one's own counts as such where `need`, which policy or a rule demanded, names its suite, and as authentication
    /// elsewhere: the count is of what was promised and kept.
    #[inline]
    pub(crate) fn left(&mut self, app: AppId, services: Services, need: Services, packets: u64, bytes: u64) {
        self.protected.count_many(packets, bytes);
        let at = usize::from(app.0);
        if at >= self.left.len() {
            self.left.resize(at + 1, [Traffic::default(); 2]);
        }
        if let Some(of) = self.left.get_mut(at) {
            of[usize::from(services.counted_for(need).encrypts())].count_many(packets, bytes);
        }
    }

    /// The traffic that left protected for each application that had any: authenticated only, encrypted.
    pub fn left_by_app(&self) -> impl Iterator<Item = (AppId, [Traffic; 2])> + '_ {
        let all = self.left.iter().enumerate().filter(|(_, of)| **of != [Traffic::default(); 2]);
        all.map(|(at, of)| (AppId(at as u16), *of))
    }

    pub(crate) fn dropped(&mut self, dropped: Dropped) {
        self.drops[dropped.reason as usize] += 1;
        if let Some(audits) = &mut self.audits {
            audits.note(&dropped);
        }
        if !is_routine(dropped.reason) {
            self.recent.note(dropped);
        }
    }

    /// Count drops of which only the reason is known.
    pub(crate) fn lost(&mut self, reason: DropReason, count: u64) {
        self.drops[reason as usize] += count;
    }

    /// Count fragments that a reassembler has given up.
    pub(crate) fn lost_fragments(&mut self, lost: wire::LostFragments) {
        for (reason, count) in lost.reasons() {
            self.lost(reason, count);
        }
    }

    /// Keep auditable drops until they are taken, `per_second` of each kind in full each second; `None`: keep nothing.
    pub(crate) fn audit(&mut self, per_second: Option<u32>) {
        self.audits = per_second.map(|per_second| Box::new(Audits::new(per_second)));
    }

    /// Report everything to an auditor that was not reported yet.
    #[inline]
    pub(crate) fn take_audits(&mut self, now: Time, tell: &mut impl FnMut(Audited)) {
        if let Some(audits) = &mut self.audits {
            audits.take(now, tell);
        }
    }

    /// The number of packets that were dropped for this reason.
    pub fn drops_for(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Every reason for which packets were dropped, with their number.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().copied().zip(self.drops).filter(|(_, count)| *count > 0)
    }

    /// The number of drops that were ever remembered, with which the next call asks [`Stats::drops_since`].
    pub fn noted(&self) -> u64 {
        self.recent.noted()
    }

    /// The latest drops, oldest first: at most [`REMEMBERED`] of each application and reason.
    pub fn last_drops(&self) -> impl Iterator<Item = &Dropped> {
        self.recent.since(0)
    }

    /// The latest drops that came after the first `seen` ones.
    pub fn drops_since(&self, seen: u64) -> impl Iterator<Item = &Dropped> {
        self.recent.since(seen)
    }
}

/// Whether a drop for this reason is routine, so that nobody asks to have it explained.
fn is_routine(reason: DropReason) -> bool {
    matches!(
        reason,
        DropReason::FragmentHeld | DropReason::Keepalive | DropReason::EspDummy | DropReason::IcmpTaken
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_drops_are_kept_in_order() {
        let mut stats = Stats::new();
        let about = |n| About { at: Time(n), ..About::default() };
        for n in 0..100 {
            stats.dropped(Dropped::new(DropReason::NoSa, &about(n), 1, None));
            stats.dropped(Dropped::new(DropReason::Keepalive, &about(n), 1, None));
        }
        let times: Vec<_> = stats.last_drops().map(|d| d.at.0).collect();
        assert_eq!(times, (100 - REMEMBERED as u64..100).collect::<Vec<_>>());
        assert_eq!(
            stats.drops().collect::<Vec<_>>(),
            [(DropReason::NoSa, 100), (DropReason::Keepalive, 100)]
        );
    }
}
