//! The budget for failed authentication: nanoseconds that packets with a wrong ICV have cost, for each association and
//! source. A pair that used its budget up is demoted until a packet of it authenticates.
//!
//! The source of a packet is its `user` field: in front of the decryption it is the hash of the outer source. A pair that
//! never failed has no entry. The table is bounded: when a set is full, a new pair takes the place of the one that spent
//! least and takes over what that one spent, so that a flood of many sources reaches the budget together instead of
//! getting it anew with each source (the space-saving rule of Metwally, Agrawal and El Abbadi).

use super::table::Table;
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
    /// The packet is dropped, so that the pair is heard again only when [`AuthBudget::forgive`] is called.
    Drop,
}

/// The budgets of associations and sources.
#[derive(Clone, Debug)]
pub struct AuthBudget {
    budget_ns: u64,
    demotion: Demotion,
    /// Nanoseconds that each pair has spent since a packet of it was authentic.
    spent: Table<u64>,
}

/// The key of a pair.
const fn pair(association: u32, source: u32) -> u64 {
    (association as u64) << 32 | source as u64
}

impl AuthBudget {
    /// Budgets of `budget_ns` for `capacity` pairs that fail at one time; `secret` keys the hash of the table.
    pub fn new(
        budget_ns: u64,
        demotion: Demotion,
        capacity: usize,
        secret: u64,
    ) -> Result<AuthBudget, SettingsError> {
        if capacity == 0 {
            return Err(SettingsError::NoRoom);
        }
        Ok(AuthBudget { budget_ns, demotion, spent: Table::new(capacity, secret) })
    }

    /// A packet of the pair failed authentication and has cost this much. The answer is whether the pair is demoted now.
    pub fn charge(&mut self, association: u32, source: u32, ns: u64) -> bool {
        let spent = self.spent.claim(pair(association, source), |spent| *spent, Option::unwrap_or_default);
        *spent = spent.saturating_add(ns);
        *spent > self.budget_ns
    }

    /// A packet of the pair was authentic: its budget is whole again.
    pub fn authentic(&mut self, association: u32, source: u32) {
        self.spent.remove(pair(association, source));
    }

    /// Make the budget of a pair whole again, as an operator asks.
    pub fn forgive(&mut self, association: u32, source: u32) {
        self.spent.remove(pair(association, source));
    }

    /// Whether the pair has used its budget up.
    pub fn is_demoted(&self, association: u32, source: u32) -> bool {
        self.spent.get(pair(association, source)).is_some_and(|spent| *spent > self.budget_ns)
    }
}

impl Behaviour for AuthBudget {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        for entry in live(batch) {
            if !self.is_demoted(entry.meta.association, entry.meta.user) {
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
        let (budget, room, demotion) = (self.budget_ns, self.spent.capacity(), self.demotion);
        let settings = format!("{budget} ns, room for {room} pairs, demotion {demotion:?}");
        About { kind: "auth-budget", settings }
    }
}
