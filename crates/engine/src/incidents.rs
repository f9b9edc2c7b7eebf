//! The last packets that scrubber rules applied to, for whoever asks why.
//!
//! What enters: packets as they came and as they went, under the lock of the scrubbers. What leaves: [`Incident`]s,
//! when somebody takes them. Nothing is kept before [`crate::Scrubbers::record_incidents`].

use std::collections::VecDeque;

use scrub::{Profile, Side, Verdict};
use wire::Time;

/// The number of octets of a packet that an [`Incident`] has: headers, and the beginning of its data.
pub const INCIDENT_OCTETS: usize = 160;
/// The number of packets that wait to be taken, of each profile.
const KEPT: usize = 1024;
/// The number of packets of a profile that are recorded in a second, so that rules which apply to every packet do not
/// slow the data path.
const PER_SECOND: u32 = 1000;
/// The length of a second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The beginning of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Excerpt {
    octets: [u8; INCIDENT_OCTETS],
    kept: u8,
    /// The length of the whole packet, in octets.
    pub whole: usize,
}

impl Excerpt {
    /// The beginning of a packet.
    #[inline]
    pub(crate) fn of(packet: &[u8]) -> Excerpt {
        let kept = packet.len().min(INCIDENT_OCTETS);
        let mut octets = [0; INCIDENT_OCTETS];
        for (to, from) in octets.iter_mut().zip(packet) {
            *to = *from;
        }
        Excerpt { octets, kept: kept as u8, whole: packet.len() }
    }

    /// The octets that are kept, [`INCIDENT_OCTETS`] at most.
    pub fn octets(&self) -> &[u8] {
        self.octets.get(..usize::from(self.kept)).unwrap_or_default()
    }
}

/// A packet that scrubber rules applied to.
#[derive(Clone, Debug)]
pub struct Incident {
    /// The time at which the packet came.
    pub at: Time,
    /// The profile by which it was scrubbed.
    pub profile: Profile,
    /// The side that it came from.
    pub from: Side,
    /// The verdict: what became of it, and the rules that applied.
    pub verdict: Verdict,
    /// The packet as it came.
    pub came: Excerpt,
    /// The packet as it went on, if it did.
    pub went: Option<Excerpt>,
}

/// The incidents of one profile that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Incidents {
    waiting: VecDeque<Incident>,
    second: u64,
    this_second: u32,
    unrecorded: u64,
}

impl Incidents {
    /// Whether one more packet may be recorded in this second. One that may not is counted.
    pub fn has_room(&mut self, now: Time) -> bool {
        let second = now.0 / SECOND;
        if second != self.second {
            (self.second, self.this_second) = (second, 0);
        }
        self.this_second = self.this_second.saturating_add(1);
        let has_room = self.this_second <= PER_SECOND;
        self.unrecorded += u64::from(!has_room);
        has_room
    }

    /// Record a packet, for which the oldest one makes room. That one is counted as unrecorded.
    pub fn push(&mut self, incident: Incident) {
        if self.waiting.len() == KEPT {
            self.waiting.pop_front();
            self.unrecorded += 1;
        }
        self.waiting.push_back(incident);
    }

    /// Take what was recorded, and the number of packets that were not, or no longer.
    pub fn take(&mut self) -> (VecDeque<Incident>, u64) {
        (std::mem::take(&mut self.waiting), std::mem::take(&mut self.unrecorded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scrub::{Outcome, RuleHits};

    #[test]
    fn a_flood_is_counted_and_the_latest_are_kept() {
        let mut incidents = Incidents::default();
        let verdict = Verdict { outcome: Outcome::Forward, met: RuleHits::default() };
        let incident = |at| Incident {
            at,
            profile: Profile::ALL[0],
            from: Side::Outside,
            verdict,
            came: Excerpt::of(&[7; 200]),
            went: None,
        };
        for second in 0..2 {
            for _ in 0..PER_SECOND + 5 {
                let at = Time(second * SECOND);
                if incidents.has_room(at) {
                    incidents.push(incident(at));
                }
            }
        }
        let (waiting, unrecorded) = incidents.take();
        let all = 2 * (PER_SECOND as usize + 5);
        assert_eq!((waiting.len(), waiting.len() + unrecorded as usize), (KEPT, all));
        assert_eq!(waiting.iter().filter(|one| one.at == Time(SECOND)).count(), PER_SECOND as usize);
        let came = waiting[0].came;
        assert_eq!((came.octets(), came.whole), (&[7; INCIDENT_OCTETS][..], 200));
        let (waiting, unrecorded) = incidents.take();
        assert_eq!((waiting.len(), unrecorded), (0, 0));
    }
}
