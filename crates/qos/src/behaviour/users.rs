//! Users and their profiles: weight, limit and class of each, in one component (paper 002 section III: user profiles).
//!
//! Profiles are few and configured; users are many and come by themselves. A user that has no profile of its own has the
//! one for everybody. The table of users is bounded and its hash is keyed; when a set of the table is full, the user that
//! was silent for longest leaves it, and comes back with a full bucket. That user has not sent for as long as others took
//! its place, so what it gains is a burst.

use super::table::Table;
use super::{Excess, SettingsError, TokenBucket, live};
use crate::amount::Measure;
use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::AggregateId;

/// What a user may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The user's share beside others, for disciplines.
    pub weight: u16,
    /// The limit, in units of the table's measure: the rate a second, and the burst. `None` is no limit.
    pub limit: Option<(u64, u64)>,
    /// What becomes of packets beyond the limit.
    pub excess: Excess,
    /// The aggregate of the user's packets; `None` leaves them in theirs.
    pub aggregate: Option<AggregateId>,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile { weight: 1, limit: None, excess: Excess::Drop, aggregate: None }
    }
}

/// The state of a user: the number of its profile, and its bucket.
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
    measure: Measure,
    /// The profiles by their number. The first one is everybody's.
    profiles: Vec<Profile>,
    /// The users that have a profile of their own, in order.
    assigned: Vec<(u32, u16)>,
    table: Table<User>,
}

impl Users {
    /// A table for this many active users, whose hash `secret` keys. `everybody` is for users without a profile;
    /// `profiles` are those of the others, each with the users that have it.
    pub fn new(
        capacity: usize,
        secret: u64,
        measure: Measure,
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
        if all.iter().any(|profile| profile.limit.is_some_and(|(_, burst)| burst == 0)) {
            return Err(SettingsError::NoBurst);
        }
        assigned.sort_unstable();
        if assigned.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(SettingsError::TwoProfiles);
        }
        Ok(Users { measure, profiles: all, assigned, table: Table::new(capacity, secret) })
    }

    /// The profile of a user.
    pub fn profile(&self, user: u32) -> &Profile {
        let number = match self.table.get(u64::from(user)) {
            Some(state) => state.profile,
            None => number(&self.assigned, user),
        };
        &self.profiles[usize::from(number)]
    }

    /// The number of users that the table has room for.
    pub const fn capacity(&self) -> usize {
        self.table.capacity()
    }
}

/// The number of a user's profile.
fn number(assigned: &[(u32, u16)], user: u32) -> u16 {
    assigned.binary_search_by_key(&user, |(its, _)| *its).map_or(0, |place| assigned[place].1)
}

impl Behaviour for Users {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        let Users { measure, profiles, assigned, table } = self;
        for entry in live(batch) {
            let user = entry.meta.user;
            let fresh = |_| {
                let profile = number(assigned, user);
                let (rate, burst) = profiles[usize::from(profile)].limit.unwrap_or_default();
                User { profile, bucket: TokenBucket::new(rate, burst) }
            };
            let state = table.claim(u64::from(user), |_| 0, fresh);
            let profile = &profiles[usize::from(state.profile)];
            if let Some(aggregate) = profile.aggregate {
                entry.meta.aggregate = aggregate;
            }
            let size = entry.meta.amount.of(*measure);
            if profile.limit.is_some() && !state.bucket.take(context.now, size) {
                profile.excess.apply(entry);
            }
        }
    }

    fn about(&self) -> About {
        let (room, profiles, assigned) = (self.capacity(), self.profiles.len(), self.assigned.len());
        let settings = format!("room for {room} users, {profiles} profiles, {assigned} users assigned");
        About { kind: "users", settings }
    }
}
