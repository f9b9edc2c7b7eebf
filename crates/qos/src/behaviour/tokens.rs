//! Tokens that come at a rate, as the meters of RFC 2697, RFC 2698 and RFC 4115 count them: one by one, at the instants
//! `k / rate` for whole numbers `k`. The count is exact for every rate and time; nothing is rounded away.

use wire::Time;

use crate::amount::{Amount, Measure};

/// Nanoseconds in one second.
const SECOND: u64 = 1_000_000_000;

/// A clock that ticks `rate` times a second.
#[derive(Clone, Copy, Debug)]
pub struct TokenClock {
    rate: u64,
    /// Billionths of the next tick that have passed.
    part: u64,
    last: Time,
}

impl TokenClock {
    /// A clock whose ticks count from time 0.
    pub const fn new(rate: u64) -> TokenClock {
        TokenClock { rate, part: 0, last: Time(0) }
    }

    /// The number of ticks a second.
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// The number of ticks since the last call. A time before that of the last call counts as that time.
    pub fn advance(&mut self, now: Time) -> u64 {
        let Some(elapsed) = now.0.checked_sub(self.last.0) else { return 0 };
        self.last = now;
        if let Some(parts) = elapsed.checked_mul(self.rate).and_then(|parts| parts.checked_add(self.part)) {
            self.part = parts % SECOND;
            return parts / SECOND;
        }
        let parts = u128::from(elapsed) * u128::from(self.rate) + u128::from(self.part);
        self.part = (parts % u128::from(SECOND)) as u64;
        u64::try_from(parts / u128::from(SECOND)).unwrap_or(u64::MAX)
    }
}

/// A bucket that a [`TokenClock`] fills: full at time 0.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    clock: TokenClock,
    size: u64,
    tokens: u64,
    /// Tokens that were taken beyond what a full bucket holds, and come before the next one.
    debt: u64,
}

impl TokenBucket {
    /// A full bucket of this size, filled at this many tokens a second.
    pub const fn new(rate: u64, size: u64) -> TokenBucket {
        TokenBucket { clock: TokenClock::new(rate), size, tokens: size, debt: 0 }
    }

    /// The number of tokens a second.
    pub const fn rate(&self) -> u64 {
        self.clock.rate()
    }

    /// The most tokens that it holds.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The tokens that are in it now.
    pub fn tokens(&mut self, now: Time) -> u64 {
        let ticks = self.clock.advance(now);
        let paid = ticks.min(self.debt);
        self.debt -= paid;
        self.tokens = self.tokens.saturating_add(ticks - paid).min(self.size);
        self.tokens
    }

    /// Take this many tokens, or none if there are fewer. A full bucket gives more than it holds, and is filled that much
    /// later, so that the rate holds.
    ///
    /// This is for amounts that are guesses: what a packet costs is learned from packets that pass, and with a guess beyond
    /// the size none would pass and correct it.
    fn take_guess(&mut self, now: Time, wanted: u64) -> bool {
        if wanted > self.size && self.size > 0 && self.tokens(now) == self.size {
            self.debt = wanted - self.size;
            self.tokens = 0;
            return true;
        }
        self.take(now, wanted)
    }

    /// Take what a packet is in a measure. Its nanoseconds are a guess if it is one packet. A super-packet that is beyond the
    /// size passes in no measure, since what passes at once is the size or one packet.
    pub fn take_amount(&mut self, now: Time, amount: &Amount, measure: Measure) -> bool {
        match measure {
            Measure::Nanoseconds if amount.packets <= 1 => self.take_guess(now, amount.ns),
            measure => self.take(now, amount.of(measure)),
        }
    }

    /// Take this many tokens, or none if there are fewer.
    pub fn take(&mut self, now: Time, wanted: u64) -> bool {
        let enough = self.tokens(now) >= wanted;
        if enough {
            self.tokens -= wanted;
        }
        enough
    }
}
