//! What is known of the names of the policy. No clock, no socket: time, answers and what sockets there are come in.
//!
//! An address counts as long as its answer is good for, and then as long as a flow uses it, and then for the grace. What happens
//! next depends: where the resolver has given another answer, the address is let go; where it gives none (a timeout, a
//! refusal, no address at all), what it said last is kept, for nothing better is known, but no longer lets pass in clear.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use config::NameLimits;
use policy::{Names, Source};
use wire::Time;

use super::answer::{Lasting, usable};

/// The most addresses of one name that are known, from our own resolver and observed, each.
pub const MAX_ADDRESSES: usize = 64;
/// The most that wait for an answer at a time.
const ASKING: usize = 32;
/// Behind its end an address counts until the sockets have been looked at, but no longer than this.
const UNSEEN: Duration = Duration::from_secs(5);

/// What one question came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The addresses that the answer has.
    Addresses(Vec<Lasting>),
    /// The name has none of this family, or does not exist.
    Nothing,
    /// No answer, or none that can be used.
    Failed(String),
}

/// What is known of one address of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAddress {
    /// An application received it, our resolver has not said so.
    pub observed: bool,
    /// When it was last said.
    pub said: Time,
    /// How long the answer is good for.
    pub until: Time,
    /// When a flow to it was last seen, if one was looked for.
    pub used: Option<Time>,
    /// It is in the resolver's last answer.
    pub listed: bool,
    /// An earlier daemon knew it, and nobody has said it since: never fresh.
    pub restored: bool,
    /// Its end has come, and no flow used it when the sockets were looked at.
    pub over: bool,
}

impl KnownAddress {
    /// When the grace ends.
    fn end(&self, limits: &NameLimits) -> Time {
        self.until.max(self.used.unwrap_or_default()) + limits.grace
    }

    /// Whether the resolver's word still counts for everything. Between the end and the next look at the sockets it does: whether a
    /// flow uses the address is not known yet.
    fn is_fresh(&self, now: Time, limits: &NameLimits) -> bool {
        !self.restored && !self.over && self.end(limits) + UNSEEN >= now
    }
}

/// What is known of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The addresses of the name, and what is known of each.
    pub addresses: BTreeMap<IpAddr, KnownAddress>,
    /// When it is asked for next.
    next: Time,
    /// Since when an answer is waited for.
    asking: Option<Time>,
    /// When the resolver last gave addresses.
    pub answered: Option<Time>,
    /// Questions since then that came to nothing.
    pub failures: u32,
    /// What the last of them came to.
    pub last_error: Option<String>,
    /// Addresses that were not taken: too many, or none that a host can have.
    pub refused: u64,
}

impl Entry {
    fn of(&self, observed: bool) -> impl Iterator<Item = (&IpAddr, &KnownAddress)> {
        self.addresses.iter().filter(move |(_, known)| known.observed == observed)
    }

    /// Make room for one more of a kind: that which would go first goes, unless the resolver's last answer has it.
    fn make_room(&mut self, observed: bool, limits: &NameLimits) -> bool {
        // Those of earlier answers beside those of the last.
        let room = if observed { MAX_ADDRESSES } else { 2 * MAX_ADDRESSES };
        if self.of(observed).count() < room {
            return true;
        }
        let first = self.of(observed).filter(|(_, known)| !known.listed).min_by_key(|(_, k)| k.end(limits));
        match first.map(|(addr, _)| *addr) {
            Some(addr) => self.addresses.remove(&addr).is_some(),
            None => false,
        }
    }
}

/// Every name of the policy.
#[derive(Debug, Default)]
pub struct Book {
    limits: NameLimits,
    entries: BTreeMap<String, Entry>,
}

impl Book {
    /// An empty book with these limits.
    pub fn new(limits: NameLimits) -> Book {
        Book { limits, entries: BTreeMap::new() }
    }

    /// What an earlier daemon knew: kept until there is an answer, and never good enough for clear text.
    pub fn restore(&mut self, now: Time, names: &Names, hosts: impl IntoIterator<Item = String>) {
        self.watch(now, hosts);
        for (name, entry) in &mut self.entries {
            for (addr, source) in names.of(name) {
                let observed = source == Source::Observed;
                let known = KnownAddress {
                    observed,
                    said: now,
                    until: now,
                    used: None,
                    listed: !observed,
                    restored: true,
                    over: false,
                };
                entry.addresses.insert(addr, known);
            }
        }
    }

    /// The names that the policy has; new ones are asked for at once, others are forgotten.
    pub fn watch(&mut self, now: Time, hosts: impl IntoIterator<Item = String>) {
        let mut before = std::mem::take(&mut self.entries);
        for host in hosts {
            let entry = before.remove(&host).unwrap_or_else(|| Entry { next: now, ..Entry::default() });
            self.entries.insert(host, entry);
        }
    }

    /// Every name and what is known of it.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// The limits that the book keeps to.
    pub fn limits(&self) -> &NameLimits {
        &self.limits
    }

    /// Whether the policy has this name.
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The names to ask for now; each is answered before it is asked for again, or given up.
    pub fn due(&mut self, now: Time, patience: Duration) -> Vec<String> {
        let mut room = ASKING;
        for entry in self.entries.values_mut() {
            // A question whose end was lost must not be the last one.
            entry.asking = entry.asking.filter(|since| now.since(*since) < patience * 2);
            room = room.saturating_sub(usize::from(entry.asking.is_some()));
        }
        let mut due: Vec<(&String, &mut Entry)> =
            self.entries.iter_mut().filter(|(_, e)| e.asking.is_none() && e.next <= now).collect();
        // Who waits longest first.
        due.sort_by_key(|(_, entry)| entry.next);
        due.truncate(room);
        due.into_iter()
            .map(|(name, entry)| {
                entry.asking = Some(now);
                name.clone()
            })
            .collect()
    }

    /// What our own questions for a name came to.
    pub fn answer(&mut self, now: Time, name: &str, v4: Reply, v6: Reply) {
        let limits = self.limits;
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.asking = None;
        let mut error = None;
        let mut lasts = None;
        // Where there are addresses of one family and none of the other, those of the other are gone.
        let some =
            |reply: &Reply| matches!(reply, Reply::Addresses(list) if list.iter().any(|(a, _)| usable(*a)));
        let any = some(&v4) || some(&v6);
        for (reply, is_v4) in [(v4, true), (v6, false)] {
            let list = match reply {
                Reply::Addresses(list) => list,
                Reply::Nothing => Vec::new(),
                Reply::Failed(text) => {
                    error.get_or_insert(text);
                    continue;
                }
            };
            if !any {
                continue;
            }
            let family = entry.addresses.iter_mut().filter(|(addr, _)| addr.is_ipv4() == is_v4);
            family.for_each(|(_, known)| known.listed = false);
            let (list, bad): (Vec<_>, Vec<_>) =
                list.into_iter().partition(|(addr, _)| usable(*addr) && addr.is_ipv4() == is_v4);
            entry.refused += (bad.len() + list.len().saturating_sub(MAX_ADDRESSES)) as u64;
            for (addr, ttl) in list.into_iter().take(MAX_ADDRESSES) {
                let ttl = Duration::from_secs(u64::from(ttl)).clamp(limits.floor, limits.ceiling);
                lasts = Some(lasts.map_or(ttl, |least: Duration| least.min(ttl)));
                let used = entry.addresses.get(&addr).and_then(|known| known.used);
                let known = KnownAddress {
                    observed: false,
                    said: now,
                    until: now + ttl,
                    used,
                    listed: true,
                    restored: false,
                    over: false,
                };
                let is_new = entry.addresses.get(&addr).is_none_or(|known| known.observed);
                if is_new && !entry.make_room(false, &limits) {
                    entry.refused += 1;
                    continue;
                }
                entry.addresses.insert(addr, known);
            }
        }
        match lasts {
            Some(lasts) => {
                entry.answered = Some(now);
                entry.failures = 0;
                entry.next = now + lasts;
                entry.last_error = error;
            }
            None => {
                entry.failures = entry.failures.saturating_add(1);
                entry.next = now + limits.retry * entry.failures.min(12);
                entry.last_error = Some(error.unwrap_or_else(|| "the name has no address".to_owned()));
            }
        }
    }

    /// What an application was told. Whether an address is new.
    pub fn observe(&mut self, now: Time, name: &str, list: &[Lasting]) -> bool {
        let limits = self.limits;
        let Some(entry) = self.entries.get_mut(name) else { return false };
        let mut news = false;
        for (addr, ttl) in list.iter().take(MAX_ADDRESSES) {
            if !usable(*addr) {
                entry.refused += 1;
                continue;
            }
            let ttl = Duration::from_secs(u64::from(*ttl)).clamp(limits.floor, limits.ceiling);
            if let Some(known) = entry.addresses.get_mut(addr) {
                // What our own resolver says is not made longer by what others are told.
                if known.observed {
                    known.said = now;
                    known.until = known.until.max(now + ttl);
                    (known.restored, known.over) = (false, false);
                }
                continue;
            }
            match entry.make_room(true, &limits) {
                true => {
                    let known = KnownAddress {
                        observed: true,
                        said: now,
                        until: now + ttl,
                        used: None,
                        listed: false,
                        restored: false,
                        over: false,
                    };
                    entry.addresses.insert(*addr, known);
                    news = true;
                }
                false => entry.refused += 1,
            }
        }
        entry.refused += list.len().saturating_sub(MAX_ADDRESSES) as u64;
        news
    }

    /// Whether the end of some address has come, so that it must be known which flows there are.
    pub fn is_ending(&self, now: Time) -> bool {
        let mut all = self.entries.values().flat_map(|entry| entry.addresses.values());
        all.any(|known| known.end(&self.limits) < now)
    }

    /// Let go of what nothing speaks for any more. `in_use` says whether a flow of an application that has this name in its
    /// policy goes to the address.
    pub fn sweep(&mut self, now: Time, in_use: impl Fn(&str, IpAddr) -> bool) {
        let limits = self.limits;
        for (name, entry) in &mut self.entries {
            entry.addresses.retain(|addr, known| {
                if known.end(&limits) >= now {
                    return true;
                }
                if in_use(name, *addr) {
                    (known.used, known.over) = (Some(now), false);
                    return true;
                }
                known.over = true;
                known.listed && !known.observed
            });
        }
    }

    /// The addresses that count now.
    pub fn names(&self, now: Time) -> Names {
        let mut out = Names::default();
        for (name, entry) in &self.entries {
            for (addr, known) in &entry.addresses {
                let source = match known.observed {
                    true => Source::Observed,
                    false if known.is_fresh(now, &self.limits) => Source::Resolver,
                    false => Source::Kept,
                };
                out.insert(name, *addr, source);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests;
