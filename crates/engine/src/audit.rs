//! The drops that must leave a trace for an auditor, which are those that [`DropReason::audited_by`] knows: RFC 4303
//! and RFC 4302 section 4, RFC 4301 sections 5.1.1, 5.2 and 6.2.
//!
//! Anybody may send packets that end here. So a few of each kind are reported in full each second; the others are
//! counted, and the count is reported when the second is over. While nobody asks, nothing is kept.

use wire::{DropReason, Time};

use crate::stats::Dropped;

/// The period of the counts, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The number of reasons for which a packet can end.
const REASONS: usize = DropReason::ALL.len();

/// One report for the auditor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Audited {
    /// A packet ended, with what is known of it.
    Packet(Dropped),
    /// This many more packets ended for this reason than were reported in full.
    LeftOut(DropReason, u64),
}

/// The reports that wait to be taken.
#[derive(Clone, Debug)]
pub(crate) struct Audits {
    /// The number of full reports of each kind in a second.
    per_second: u32,
    waiting: Vec<Dropped>,
    second: Time,
    told: [u32; REASONS],
    left_out: [u64; REASONS],
}

impl Audits {
    pub fn new(per_second: u32) -> Audits {
        Audits {
            per_second,
            waiting: Vec::new(),
            second: Time::default(),
            told: [0; REASONS],
            left_out: [0; REASONS],
        }
    }

    /// Note that a packet ended.
    #[cold]
    pub fn note(&mut self, dropped: &Dropped) {
        if dropped.reason.audited_by().is_none() {
            return;
        }
        let kind = dropped.reason as usize;
        let (Some(told), Some(left_out)) = (self.told.get_mut(kind), self.left_out.get_mut(kind)) else {
            return;
        };
        if *told < self.per_second {
            *told += 1;
            self.waiting.push(*dropped);
        } else {
            *left_out += 1;
        }
    }

    /// Report everything that has not been reported yet.
    pub fn take(&mut self, now: Time, tell: &mut impl FnMut(Audited)) {
        self.waiting.drain(..).for_each(|dropped| tell(Audited::Packet(dropped)));
        if now.0.saturating_sub(self.second.0) < SECOND {
            return;
        }
        self.second = now;
        self.told.fill(0);
        for (reason, count) in DropReason::ALL.iter().copied().zip(&mut self.left_out) {
            if *count > 0 {
                tell(Audited::LeftOut(reason, std::mem::take(count)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::About;

    fn ended(reason: DropReason, n: u64) -> Dropped {
        Dropped::new(reason, &About { sequence: n, ..About::default() }, 100, None)
    }

    fn take(audits: &mut Audits, now: u64) -> Vec<Audited> {
        let mut out = Vec::new();
        audits.take(Time(now), &mut |audited| out.push(audited));
        out
    }

    #[test]
    fn a_flood_of_one_kind_is_counted_and_hides_no_other() {
        let mut audits = Audits::new(2);
        let start = 5 * SECOND;
        assert_eq!(take(&mut audits, start), []);
        for n in 0..1000 {
            audits.note(&ended(DropReason::UnknownSpi, n));
        }
        audits.note(&ended(DropReason::AuthFailed, 7));
        // Ends that nobody audits.
        audits.note(&ended(DropReason::Keepalive, 7));
        let told = [(DropReason::UnknownSpi, 0), (DropReason::UnknownSpi, 1), (DropReason::AuthFailed, 7)];
        let told = told.map(|(reason, n)| Audited::Packet(ended(reason, n)));
        assert_eq!(take(&mut audits, start + SECOND / 2), told);
        audits.note(&ended(DropReason::UnknownSpi, 1));
        assert_eq!(take(&mut audits, start + SECOND - 1), []);
        assert_eq!(take(&mut audits, start + SECOND), [Audited::LeftOut(DropReason::UnknownSpi, 999)]);
        audits.note(&ended(DropReason::UnknownSpi, 3));
        assert_eq!(
            take(&mut audits, start + SECOND + 1),
            [Audited::Packet(ended(DropReason::UnknownSpi, 3))]
        );
        assert_eq!(take(&mut audits, start + 9 * SECOND), []);
    }
}
