//! The search for the path MTU by probes that show whether long packets arrive, after RFC 8899 (docs/design/0029). It
//! finds black holes, where packets vanish and no ICMP error says so, and raises again what an error or a black hole
//! has lowered.
//!
//! The module is pure. [`Prober::turn`] is told what its owner sees of the path, and says which probes to send and
//! which path MTU to use. [`Prober::answered`] is told of answers. One prober knows one path.

use std::time::Duration;

use wire::Time;

/// The size in octets that is tried first where the one in force is lost: every IPv6 link carries it (RFC 8200 section
/// 5), and nearly every path of IPv4 (RFC 8899 section 5.1.2, BASE_PLPMTU).
const BASE: u16 = 1280;
/// The size that stands for the shortest possible probe, which shows that the peer answers at all.
const SHORT: u16 = 0;
/// The number of rounds in succession in which the short probe arrived and the long one did not (RFC 8899 section
/// 5.1.2, MAX_PROBES).
const MAX_LOST: u8 = 3;
/// The number of sizes that one round of a search tries.
const AT_ONCE: u16 = 4;
/// The difference in octets below which two sizes are not told apart: associations fill whole cipher blocks.
const NEAR: u16 = 16;
/// The time after which a round without any answer is over.
const ROUND: Duration = Duration::from_secs(2);
/// The least time that the other probes of a round have after the short one, which is sent last, is answered. They have
/// at least as long as that answer took.
const SETTLE: Duration = Duration::from_millis(50);
/// The first interval at which the path is asked again while long packets leave and nothing comes back. It grows to
/// [`CONFIRM`] as the answers stay the same.
const DOUBT: Duration = Duration::from_secs(1);
/// The interval at which the path is asked again while long packets leave.
const CONFIRM: Duration = Duration::from_secs(2);
/// The interval at which a path is asked again that not even the least MTU passes.
const EATEN: Duration = Duration::from_secs(3);
/// The time after which a larger size is tried again. It doubles each time, up to [`LONGEST`].
const RAISE: Duration = Duration::from_secs(10);
/// The longest time until a larger size is tried again (RFC 8899 section 5.1.1, PMTU_RAISE_TIMER).
const LONGEST: Duration = Duration::from_secs(600);
/// The longest time until a peer that has answered before is asked again.
const PATIENT: Duration = Duration::from_secs(8);
/// The interval at which the result is said again, so that it does not become too old.
const AGAIN: Duration = Duration::from_secs(60);
/// The time without long packets after which nobody cares any more that they do not arrive.
const GIVEN_UP: Duration = Duration::from_secs(300);

/// The facts about a path that its owner sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// The path MTU in force, in octets.
    pub in_force: u16,
    /// The path MTU where nothing is learned, in octets.
    pub configured: u16,
    /// The least path MTU that there may be, in octets.
    pub floor: u16,
    /// The number of octets of a probe that are always there, and the number that the rest is a multiple of.
    pub lengths: (u16, u16),
    /// Whether long packets left since the last turn.
    pub long: bool,
    /// Whether something came from the peer since the last turn.
    pub back: bool,
}

impl PathReport {
    /// The longest packet of at most `size` octets that there can be, which is what a probe of that size shows.
    fn fits(&self, size: u16) -> u16 {
        let (head, step) = self.lengths;
        size - size.saturating_sub(head) % step.max(1)
    }
}

/// An act that a turn asks of the path's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send a probe: an outer packet of `size` octets, or as short as can be.
    Send {
        /// The number that the answer repeats.
        token: u64,
        /// The length of the outer packet, in octets.
        size: u16,
    },
    /// Use this path MTU from now on.
    Use(u16),
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    token: u64,
    size: u16,
    answered: bool,
}

/// The probes that are under way together, the longest first.
#[derive(Debug)]
struct Round {
    sent: Time,
    probes: Vec<Probe>,
    /// The time at which the short one was answered.
    short: Option<Time>,
}

impl Round {
    /// Whether the outcome of the round is known; `Some(false)`: nobody answers.
    fn is_over(&self, now: Time) -> Option<bool> {
        let answered = self.probes.iter().filter(|probe| probe.answered).count();
        if answered == self.probes.len() {
            return Some(true);
        }
        let settled = self.short.is_some_and(|at| now.since(at) >= SETTLE.max(at.since(self.sent)));
        if settled || now.since(self.sent) >= ROUND {
            return Some(answered > 0);
        }
        None
    }

    /// The longest size that arrived; [`SHORT`]: only the shortest did.
    fn arrived(&self) -> u16 {
        self.probes.iter().filter(|probe| probe.answered).map(|probe| probe.size).max().unwrap_or(SHORT)
    }

    fn has_arrived(&self, size: u16) -> bool {
        self.probes.iter().any(|probe| probe.size == size && probe.answered)
    }
}

/// A search: packets of `low` octets arrive, and those of `high` octets do not or are unknown.
#[derive(Clone, Copy, Debug)]
struct Search {
    from: u16,
    low: u16,
    high: u16,
    /// A size that is tried before the sizes in between.
    most: Option<u16>,
}

impl Search {
    /// The sizes to try, the longest first.
    fn sizes(&self, seen: &PathReport) -> Vec<u16> {
        let gap = u32::from(self.high - self.low);
        let between = |k: u16| seen.fits(self.low + (gap * u32::from(k) / u32::from(AT_ONCE + 1)) as u16);
        let mut sizes: Vec<u16> = self.most.into_iter().chain((1..=AT_ONCE).rev().map(between)).collect();
        sizes.retain(|size| *size > self.low);
        sizes.dedup();
        sizes
    }

    /// Take in what a round has shown. Returns whether there is nothing more to find.
    fn learn(&mut self, round: &Round) -> bool {
        let sizes = || round.probes.iter().filter(|probe| probe.size != SHORT);
        self.low = sizes().filter(|probe| probe.answered).map(|probe| probe.size).fold(self.low, u16::max);
        let low = self.low;
        self.high = sizes()
            .filter(|probe| !probe.answered && probe.size > low)
            .map(|probe| probe.size)
            .fold(self.high, u16::min)
            .max(low);
        self.most = None;
        self.high - self.low <= NEAR
    }
}

/// The knowledge about one path.
#[derive(Debug, Default)]
pub struct Prober {
    /// The path MTU in force at the last turn, and what it would be if nothing were learned.
    known: Option<(u16, u16)>,
    /// The time at which the owner was last told to use a path MTU.
    told: Option<Time>,
    /// Whether the peer has answered once, so that it is known to be one of ours.
    answers: bool,
    /// The time at which packets of the size in force were last known to arrive.
    proved: Option<Time>,
    /// The time after that at which they are asked about again if nothing comes back.
    doubt: Duration,
    round: Option<Round>,
    lost: u8,
    silent: u32,
    not_before: Time,
    eaten: Option<Time>,
    last_long: Time,
    search: Option<Search>,
    raise_at: Time,
    raise_after: Duration,
}

impl Prober {
    /// The time since which long packets do not arrive and no size was found that does.
    pub fn eaten_since(&self) -> Option<Time> {
        self.eaten
    }

    /// Whether the peer has ever answered.
    pub fn is_answered(&self) -> bool {
        self.answers
    }

    /// The time at which somebody last sent long packets by this path.
    pub fn last_long(&self) -> Time {
        self.last_long
    }

    /// The time at which a turn is due, beside those that let time pass; `None`: there is nothing to wait for.
    pub fn next_turn(&self, now: Time) -> Option<Time> {
        let soon = now + SETTLE / 2;
        if self.round.is_some() {
            return Some(soon);
        }
        let goes_on = self.search.is_some() || self.lost > 0 || self.eaten.is_some();
        goes_on.then(|| self.not_before.max(soon))
    }

    /// Take in the answer to a probe. Returns whether it is a new one of the present round.
    pub fn answered(&mut self, token: u64, now: Time) -> bool {
        let Some(round) = &mut self.round else { return false };
        let Some(probe) = round.probes.iter_mut().find(|probe| probe.token == token) else { return false };
        if probe.size == SHORT {
            round.short.get_or_insert(now);
        }
        !std::mem::replace(&mut probe.answered, true)
    }

    /// Advance to `now`, and return what is to be done. `token` gives numbers that nobody can guess.
    pub fn turn(&mut self, now: Time, seen: &PathReport, token: &mut impl FnMut() -> u64) -> Vec<Act> {
        let mut acts = Vec::new();
        self.compare(now, seen, &mut acts);
        if seen.long {
            self.last_long = now;
        } else if now.since(self.last_long) >= GIVEN_UP {
            self.eaten = None;
        }
        if seen.back {
            self.doubt = DOUBT;
        }
        if let Some(round) = self.round.take() {
            match round.is_over(now) {
                None => {
                    self.round = Some(round);
                    return acts;
                }
                Some(false) => self.nobody_answers(now),
                Some(true) => {
                    (self.answers, self.silent) = (true, 0);
                    match self.search.take() {
                        Some(search) => self.search_on(now, seen, search, &round, &mut acts),
                        None => self.judge(now, seen, &round, &mut acts),
                    }
                }
            }
        }
        if now >= self.not_before && acts.is_empty() {
            self.begin(now, seen, token, &mut acts);
        }
        acts
    }

    /// Compare the path with that of the last turn, and begin anew if it is another.
    fn compare(&mut self, now: Time, seen: &PathReport, acts: &mut Vec<Act>) {
        let is = (seen.in_force, seen.configured);
        match self.known {
            Some(known) if known == is => {}
            // An association that has come since, or has forgotten. Where nobody sends, what is too old stays
            // forgotten.
            Some((in_force, configured))
                if seen.long
                    && self.told.is_some()
                    && configured == seen.configured
                    && in_force < seen.in_force =>
            {
                acts.push(Act::Use(in_force));
                return;
            }
            // The route or an ICMP error says so: all begins again.
            _ => {
                let (answers, silent, last_long) = (self.answers, self.silent, self.last_long);
                let raise_at = now + RAISE;
                *self = Prober {
                    answers,
                    silent,
                    last_long,
                    raise_at,
                    raise_after: RAISE,
                    doubt: DOUBT,
                    // A peer that does not answer does not begin to because of that.
                    not_before: if answers { Time::default() } else { self.not_before },
                    ..Prober::default()
                };
            }
        }
        self.known = Some(is);
    }

    fn use_from_now_on(&mut self, now: Time, mtu: u16, seen: &PathReport, acts: &mut Vec<Act>) {
        self.told = Some(now);
        self.known = Some((mtu, seen.configured));
        acts.push(Act::Use(mtu));
    }

    fn nobody_answers(&mut self, now: Time) {
        self.silent = self.silent.saturating_add(1);
        let wait = Duration::from_secs(1) * 2u32.saturating_pow(self.silent.min(10));
        self.not_before = now + wait.min(if self.answers { PATIENT } else { LONGEST });
        self.lost = 0;
    }

    /// Judge whether packets of the size in force arrived.
    fn judge(&mut self, now: Time, seen: &PathReport, round: &Round, acts: &mut Vec<Act>) {
        let arrived = round.arrived();
        if round.has_arrived(seen.in_force) {
            self.lost = 0;
            self.proved = Some(now);
            if !seen.back {
                self.doubt = (self.doubt * 2).min(CONFIRM);
            }
            if self.eaten.take().is_some() {
                // The path is whole again, or nearly.
                self.raise_at = now;
                self.raise_after = RAISE;
            } else if seen.in_force < seen.configured && self.told.is_none_or(|at| now.since(at) >= AGAIN) {
                self.use_from_now_on(now, seen.in_force, seen, acts);
            }
            return;
        }
        self.lost += 1;
        if self.lost < MAX_LOST {
            return;
        }
        self.lost = 0;
        if arrived >= seen.floor {
            self.search = Some(Search { from: arrived, low: arrived, high: seen.in_force, most: None });
            self.proved = Some(now);
            self.eaten = None;
            self.raise_after = RAISE;
            return self.use_from_now_on(now, arrived, seen, acts);
        }
        self.eaten.get_or_insert(now);
        if seen.in_force > seen.floor {
            self.proved = None;
            self.use_from_now_on(now, seen.floor, seen, acts);
        } else {
            self.not_before = now + EATEN;
        }
    }

    fn search_on(
        &mut self,
        now: Time,
        seen: &PathReport,
        mut search: Search,
        round: &Round,
        acts: &mut Vec<Act>,
    ) {
        let done = search.learn(round) || search.sizes(seen).is_empty();
        if search.low > seen.in_force {
            self.proved = Some(now);
            self.use_from_now_on(now, search.low, seen, acts);
        }
        if !done {
            self.search = Some(search);
            return;
        }
        // What was not found now is looked for later.
        self.raise_after = if search.low > search.from { RAISE } else { (self.raise_after * 2).min(LONGEST) };
        self.raise_at = now + self.raise_after;
    }

    /// Begin the next round, if it is time for one.
    fn begin(&mut self, now: Time, seen: &PathReport, token: &mut impl FnMut() -> u64, acts: &mut Vec<Act>) {
        let sizes = if let Some(search) = &self.search {
            search.sizes(seen)
        } else if self.lost > 0 || self.eaten.is_some() || seen.long && self.is_doubtful(now, seen) {
            vec![seen.in_force, seen.fits(BASE).clamp(seen.floor, seen.in_force.max(seen.floor))]
        } else if (seen.long || self.eaten.is_some())
            && seen.in_force < seen.configured
            && now >= self.raise_at
            && self.answers
        {
            let (low, most) = (seen.in_force, seen.configured);
            let search = Search { from: low, low, high: most, most: Some(most) };
            self.search = Some(search);
            search.sizes(seen)
        } else {
            return;
        };
        let mut probes: Vec<Probe> = Vec::with_capacity(sizes.len() + 1);
        for size in sizes.into_iter().chain([SHORT]) {
            if probes.iter().all(|probe| probe.size != size) {
                probes.push(Probe { token: token(), size, answered: false });
            }
        }
        acts.extend(probes.iter().map(|probe| Act::Send { token: probe.token, size: probe.size }));
        self.round = Some(Round { sent: now, probes, short: None });
    }

    fn is_doubtful(&self, now: Time, seen: &PathReport) -> bool {
        let Some(at) = self.proved else { return true };
        let age = now.since(at);
        age >= CONFIRM || !seen.back && age >= self.doubt
    }
}

#[cfg(test)]
mod tests;
