//! The budget for failed authentication: nanoseconds that packets with a wrong ICV have cost, for each association and
//! source. It is refilled at a rate, up to its burst. A pair that used its budget up is demoted until enough has come
//! back, or until a packet of it authenticates: then the budget is whole at once. A pair owes one burst at most, or what
//! one failure has cost, so that it is heard again within the time that a burst takes, however long its failures went on.
//!
//! The source of a packet is its `user` field: in front of the decryption it is the hash of the outer source. A pair that
//! never failed has no entry. The table is bounded: when a set is full, a new pair takes the place of the one that spent
//! least and takes over what that one spent, so that a flood of many sources reaches the budget together instead of
//! getting it anew with each source (the space-saving rule of Metwally, Agrawal and El Abbadi).

use wire::Time;

use super::table::Table;
use super::tokens::TokenClock;
use super::{SettingsError, live};
use crate::component::{About, Behaviour, Cause, Context, Entry, Verdict};
use crate::meta::{AggregateId, Colour};

/// What becomes of packets of a pair that used its budget up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demotion {
    /// The packet goes to another aggregate.
    Aggregate(AggregateId),
    /// The packet gets this colour, unless it has a worse one.
    Recolour(Colour),
    /// The packet is dropped, so that the pair is heard again only when the budget is refilled, or when
    /// [`AuthBudget::forgive`] is called.
    Drop,
}

/// What failures of a pair have cost and what has not come back since.
#[derive(Clone, Copy, Debug)]
struct Spent {
    ns: u64,
    refill: TokenClock,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent { ns: 0, refill: TokenClock::new(0) }
    }
}

impl Spent {
    /// Nothing is spent yet, and nanoseconds come back at this rate from now on.
    fn nothing(rate: u64, now: Time) -> Spent {
        let mut refill = TokenClock::new(rate);
        refill.advance(now);
        Spent { ns: 0, refill }
    }

    /// What is spent now, in nanoseconds.
    fn at(mut self, now: Time) -> u64 {
        self.ns.saturating_sub(self.refill.advance(now))
    }

    /// Spend so many nanoseconds more, up to `most` in all.
    fn add(&mut self, ns: u64, most: u64, now: Time) {
        let left = self.ns.saturating_sub(self.refill.advance(now));
        self.ns = left.saturating_add(ns).min(most);
    }
}

/// The budgets of associations and sources.
#[derive(Clone, Debug)]
pub struct AuthBudget {
    /// Nanoseconds that come back in a second.
    rate: u64,
    budget_ns: u64,
    demotion: Demotion,
    /// What each pair has spent since a packet of it was authentic.
    spent: Table<Spent>,
}

/// The key of a pair.
const fn pair(association: u32, source: u32) -> u64 {
    (association as u64) << 32 | source as u64
}

impl AuthBudget {
    /// Budgets of `budget_ns` for `capacity` pairs that fail at one time, which `rate` nanoseconds a second are given back
    /// to; `secret` keys the hash of the table.
    pub fn new(
        rate: u64,
        budget_ns: u64,
        demotion: Demotion,
        capacity: usize,
        secret: u64,
    ) -> Result<AuthBudget, SettingsError> {
        if capacity == 0 {
            return Err(SettingsError::NoRoom);
        }
        Ok(AuthBudget { rate, budget_ns, demotion, spent: Table::new(capacity, secret) })
    }

    /// A packet of the pair failed authentication and has cost this much. The answer is whether the pair is demoted now.
    pub fn charge(&mut self, association: u32, source: u32, ns: u64, now: Time) -> bool {
        let nothing = Spent::nothing(self.rate, now);
        let fresh = |before: Option<Spent>| before.unwrap_or(nothing);
        let spent = self.spent.claim(pair(association, source), |spent| spent.at(now), fresh);
        spent.add(ns, self.budget_ns.saturating_add(self.budget_ns.max(ns)), now);
        spent.ns > self.budget_ns
    }

    /// A packet of the pair was authentic: its budget is whole again.
    pub fn authentic(&mut self, association: u32, source: u32) {
        self.spent.remove(pair(association, source));
    }

    /// Make the budget of a pair whole again, as an operator asks.
    pub fn forgive(&mut self, association: u32, source: u32) {
        self.spent.remove(pair(association, source));
    }

    /// Whether the pair has used its budget up, and not enough of it has come back.
    pub fn is_demoted(&self, association: u32, source: u32, now: Time) -> bool {
        self.spent.get(pair(association, source)).is_some_and(|spent| spent.at(now) > self.budget_ns)
    }
}

impl Behaviour for AuthBudget {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        for entry in live(batch) {
            if !self.is_demoted(entry.meta.association, entry.meta.user, context.now) {
                continue;
            }
            match self.demotion {
                Demotion::Aggregate(aggregate) => entry.meta.aggregate = aggregate,
                Demotion::Recolour(colour) => entry.meta.colour = entry.meta.colour.max(colour),
                Demotion::Drop => entry.verdict = Verdict::Drop(Cause::AuthBudget),
            }
        }
    }

    fn about(&self) -> About {
        let (rate, budget, room, demotion) =
            (self.rate, self.budget_ns, self.spent.capacity(), self.demotion);
        let settings =
            format!("{rate} ns/s, burst {budget} ns, room for {room} pairs, demotion {demotion:?}");
        About { kind: "auth-budget", settings }
    }
}
