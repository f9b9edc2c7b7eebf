//! Users and their profiles: each user has one, and each limit and weight can work.

use std::collections::BTreeMap;

use wire::Prefix;

use super::super::description::{Description, Name};
use super::super::fault::Code;
use super::super::house::House;
use super::super::kinds::{Component, Kind, Profile, UserLimit, user_number, user_prefix};
use super::faults::{DIRECTIONS, Faults};
use super::meters::bucket;
use crate::Direction;

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    for direction in DIRECTIONS {
        for (_, component) in description.chain(direction) {
            if component.kind.value == Kind::Users {
                let of = ProfileCheck { description, house, component };
                of.uid(faults);
                component.profiles().iter().for_each(|profile| of.profile(profile, direction, faults));
                of.once(faults);
            }
        }
    }
}

/// A user as far as it is the same one however it is written.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum UserKey<'d> {
    Prefix(Prefix),
    Name(&'d str),
}

/// The check of one component that tells users apart.
struct ProfileCheck<'d> {
    description: &'d Description,
    house: &'d House,
    component: &'d Component,
}

impl ProfileCheck<'_> {
    /// No packet shows the user of this host that sent it, but for those of users whom rules of the SPD name.
    fn uid(&self, faults: &mut Faults) {
        if self.component.word("by") == Some("uid") {
            let message = "no packet shows which user of this host sent it, so `uid` tells nobody apart";
            let remedy = "write \"application\": the policy can have one for what runs as a user, `application uid alice \
                 { ... }`, whose name is \"uid alice\"";
            faults.add(&self.component.place("by"), Code::UnknownWord, message, remedy);
        }
    }

    /// Whether users are inner source addresses of packets that are received, which ESP hides.
    fn are_hidden(&self, direction: Direction) -> bool {
        let class = self.component.word("class").and_then(|class| self.description.find_class(class));
        direction == Direction::Inbound
            && self.component.word("by") == Some("source")
            && class.is_some_and(|class| class.direction.value.has(direction))
    }

    fn profile(&self, profile: &Profile, direction: Direction, faults: &mut Faults) {
        profile.users.iter().for_each(|user| self.user(user, faults));
        if let Some(user) = profile.users.first().filter(|_| self.are_hidden(direction)) {
            let name = &profile.name.value;
            let message = format!(
                "the profile `{name}` names inner source addresses, which are hidden until a packet is opened"
            );
            let remedy = "write direction = \"out\" in the class or the hook, or tell users apart by peer";
            faults.add_in(direction, &user.span, Code::WrongHook, message, remedy);
        }
        let own = profile.class.as_ref().map_or(self.component.word("class"), |class| Some(&class.value));
        if let Some(limit) = &profile.limit {
            self.limit(profile, limit, own, faults);
        }
        // A class whose name leads nowhere is told of as such.
        let class =
            own.filter(|class| profile.weight.value > 1 && self.description.find_class(class).is_some());
        if let Some(class) = class.filter(|class| !self.shares_by_user(class, direction)) {
            let name = &profile.name.value;
            let message =
                format!("the profile `{name}` has a weight, and no queue of `{class}` serves users in turn");
            let remedy =
                "write store = { kind = \"flows\", by = \"user\" } in the queue, or remove the weight";
            faults.add_in(direction, &profile.weight.span, Code::IdleProperty, message, remedy);
        }
    }

    /// Whether a class waits in a queue that serves users in turn.
    fn shares_by_user(&self, class: &str, direction: Direction) -> bool {
        let roots = self.description.roots(direction);
        let mut queues = roots.iter().flat_map(|root| self.description.leaves(&root.name.value));
        queues.any(|queue| {
            queue.store.word("by") == Some("user") && queue.classes.iter().any(|name| name.value == class)
        })
    }

    /// A user that is named can be told from others.
    fn user(&self, user: &Name, faults: &mut Faults) {
        let by = self.component.word("by").unwrap_or_default();
        let name = &user.value;
        match by {
            "application" => {}
            "association" => {
                let is_known = self.house.associations.iter().any(|association| association.name == *name);
                if user_number(name).is_none() && !is_known {
                    let message = format!("`{name}` is no SPI, by which associations are named");
                    faults.add(&user.span, Code::WrongType, message, "write the SPI, such as \"0x1234\"");
                }
            }
            "peer" | "source" if user_prefix(name).is_none() => {
                let message = format!("`{name}` is not an address or prefix, by which a {by} is named");
                faults.add(&user.span, Code::WrongType, message, "write it as \"192.0.2.0/24\"");
            }
            // An address; or that no user is known by the word stands already.
            _ => {}
        }
    }

    fn key<'n>(&self, user: &'n Name) -> UserKey<'n> {
        let is_address = matches!(self.component.word("by"), Some("peer" | "source"));
        let prefix = user_prefix(&user.value).filter(|_| is_address);
        prefix.map_or(UserKey::Name(&user.value), UserKey::Prefix)
    }

    fn limit(&self, profile: &Profile, limit: &UserLimit, own: Option<&str>, faults: &mut Faults) {
        let owner = format!("the profile `{}`", profile.name.value);
        if limit.rate.value.number() == Some(0) {
            let message = format!("`rate` of {owner} is zero");
            faults.add(&limit.rate.span, Code::LimitTooSmall, message, "write a rate, or remove the limit");
        }
        let rate = ("rate", Some(&limit.rate.value));
        bucket(&owner, rate, ("burst", &limit.burst), self.house.path.mtu, faults);
        if let Some(excess) = limit.excess.as_ref().filter(|excess| Some(excess.value.as_str()) == own) {
            let message =
                format!("the excess of {owner} stays in the class `{}`, so nothing is limited", excess.value);
            faults.add(&excess.span, Code::Cycle, message, "write excess = \"drop\", or another class");
        }
    }

    /// No user has two profiles, and one profile at most is for everybody else.
    fn once(&self, faults: &mut Faults) {
        let profiles = self.component.profiles();
        let mut before: BTreeMap<UserKey<'_>, &Profile> = BTreeMap::new();
        for profile in profiles {
            for user in &profile.users {
                let first = *before.entry(self.key(user)).or_insert(profile);
                // Not by what they hold: a profile may name tens of thousands of users.
                if !std::ptr::eq(first, profile) {
                    let (one, two) = (&first.name.value, &profile.name.value);
                    let message = format!("the user `{}` has the profiles `{one}` and `{two}`", user.value);
                    faults.add(&user.span, Code::Duplicate, message, "remove it from one of them");
                }
            }
        }
        let mut others = profiles.iter().filter(|profile| profile.users.is_empty());
        let Some(first) = others.next() else { return };
        for second in others.filter(|second| second.name != first.name) {
            let (one, two) = (&first.name.value, &second.name.value);
            let message =
                format!("the profiles `{one}` and `{two}` name no users: both are for everybody else");
            faults.add(&second.name.span, Code::Duplicate, message, "add `users` to one of them");
        }
    }
}
