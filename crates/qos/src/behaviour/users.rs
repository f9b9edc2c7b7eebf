//! Users and their profiles: weight, limit and class of each, in one component (paper 002 section III: user profiles).
//!
//! Profiles are few and configured; users are many and come by themselves. A user that has no profile of its own has the
//! one for everybody. The weight is written into [`Meta`](crate::Meta), where flow queues read it; the limit is a token
//! bucket of each user. A packet whose association or far end is not known yet is of nobody, and is left as it is.
//!
//! Users that are addresses have their profile by the number of the interval in which the address lies
//! ([`Intervals`](crate::graph::Intervals)), and weight and bucket by a hash of the address: a profile that names a prefix
//! is one of each address in it.
//!
//! The table of buckets is bounded and its hash is keyed; when a set of the table is full, the user that was silent for
//! longest leaves it, and comes back with a full bucket. That user has not sent for as long as others took its place, so
//! what it gains is a burst. Without a limit there is no table.

use super::table::Table;
use super::{Excess, SettingsError, TokenBucket, live};
use crate::amount::Measure;
use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::{AggregateId, Meta, Weight};
use crate::store::FlowBy;

/// What a user may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The user's share beside others in flow queues; `None` leaves its packets the weight that they have.
    pub weight: Option<Weight>,
    /// The most that the user may send; `None` is no limit.
    pub limit: Option<UserLimit>,
    /// The aggregate of the user's packets; `None` leaves them in theirs.
    pub aggregate: Option<AggregateId>,
}

/// The limit of each user of a profile: a token bucket, and what becomes of packets beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserLimit {
    /// The rate, in units of the measure a second.
    pub rate: u64,
    /// The burst, in units of the measure.
    pub burst: u64,
    /// The measure that is limited.
    pub measure: Measure,
    /// What becomes of packets beyond the limit.
    pub excess: Excess,
}

/// The state of a user with a limit: the number of its profile, and its bucket.
#[derive(Clone, Copy, Debug)]
struct User {
    profile: u16,
    bucket: TokenBucket,
}

impl Default for User {
    fn default() -> User {
        User { profile: 0, bucket: TokenBucket::new(0, 0) }
    }
}

/// The users and their profiles.
#[derive(Clone, Debug)]
pub struct Users {
    by: FlowBy,
    /// The profiles by their number. The first one is everybody's.
    profiles: Vec<Profile>,
    /// The users that have a profile of their own, by their number or that of their interval, in order.
    assigned: Vec<(u32, u16)>,
    /// The buckets of users; `None` if no profile has a limit.
    table: Option<Table<User>>,
}

impl Users {
    /// Users that `by` tells apart. `everybody` is for users without a profile; `profiles` are those of the others, each
    /// with the users that have it: their numbers, or those of their intervals where users are addresses. If a profile
    /// has a limit, there are buckets for `capacity` active users, whose hash `secret` keys.
    pub fn new(
        capacity: usize,
        secret: u64,
        by: FlowBy,
        everybody: Profile,
        profiles: &[(Profile, Vec<u32>)],
    ) -> Result<Users, SettingsError> {
        if capacity == 0 {
            return Err(SettingsError::NoRoom);
        }
        let mut all = vec![everybody];
        let mut assigned = Vec::new();
        for (profile, users) in profiles {
            let number = u16::try_from(all.len()).map_err(|_| SettingsError::TooMany)?;
            all.push(*profile);
            assigned.extend(users.iter().map(|user| (*user, number)));
        }
        let mut limits = all.iter().filter_map(|profile| profile.limit);
        if limits.any(|limit| limit.burst == 0) {
            return Err(SettingsError::NoBurst);
        }
        assigned.sort_unstable();
        if assigned.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(SettingsError::TwoProfiles);
        }
        let is_limited = all.iter().any(|profile| profile.limit.is_some());
        let table = is_limited.then(|| Table::new(capacity, secret));
        Ok(Users { by, profiles: all, assigned, table })
    }

    /// The profile of the user with a number, or of the users of an interval.
    pub fn profile(&self, user: u32) -> &Profile {
        &self.profiles[usize::from(number(&self.assigned, user))]
    }

    /// The number of users that there are buckets for; 0 if no profile has a limit.
    pub fn capacity(&self) -> usize {
        self.table.as_ref().map_or(0, Table::capacity)
    }
}

/// The number of the profile of a user, or of the users of an interval.
fn number(assigned: &[(u32, u16)], user: u32) -> u16 {
    assigned.binary_search_by_key(&user, |(its, _)| *its).map_or(0, |place| assigned[place].1)
}

/// The user of a packet; `None` if it is not known yet.
fn user(by: FlowBy, meta: &Meta) -> Option<u32> {
    let user = by.flow(meta);
    (!matches!(by, FlowBy::Association | FlowBy::Peer) || user != 0).then_some(user)
}

/// The number by which a packet's user has its profile.
fn named(by: FlowBy, meta: &Meta, user: u32) -> u32 {
    match by {
        FlowBy::Peer => meta.peer.into(),
        FlowBy::Source => meta.source.into(),
        FlowBy::Flow | FlowBy::User | FlowBy::Association | FlowBy::App => user,
    }
}

impl Behaviour for Users {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        let Users { by, profiles, assigned, table } = self;
        for entry in live(batch) {
            let Some(user) = user(*by, &entry.meta) else { continue };
            let named = named(*by, &entry.meta, user);
            let (profile, is_within) = match table {
                None => (&profiles[usize::from(number(assigned, named))], true),
                Some(table) => {
                    let fresh = |_| {
                        let profile = number(assigned, named);
                        let limit = profiles[usize::from(profile)].limit;
                        let (rate, burst) = limit.map_or((0, 0), |limit| (limit.rate, limit.burst));
                        User { profile, bucket: TokenBucket::new(rate, burst) }
                    };
                    let User { profile, bucket } = table.claim(u64::from(user), |_| 0, fresh);
                    let profile = &profiles[usize::from(*profile)];
                    let amount = &entry.meta.amount;
                    let is_within = profile
                        .limit
                        .is_none_or(|limit| bucket.take_amount(context.now, amount, limit.measure));
                    (profile, is_within)
                }
            };
            let Meta { weight, aggregate, .. } = &mut entry.meta;
            *weight = profile.weight.unwrap_or(*weight);
            *aggregate = profile.aggregate.unwrap_or(*aggregate);
            if let Some(limit) = profile.limit.filter(|_| !is_within) {
                limit.excess.apply(entry);
            }
        }
    }

    fn about(&self) -> About {
        let (room, profiles, assigned) = (self.capacity(), self.profiles.len(), self.assigned.len());
        let settings =
            format!("by {:?}, {profiles} profiles, {assigned} users assigned, {room} buckets", self.by);
        About { kind: "users", settings }
    }
}
