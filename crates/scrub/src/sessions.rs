//! Sessions: the flows without connections (rules I.1, I.2, U.2): UDP, ICMP echo, and whatever else can have errors.

use crate::config::{Config, SessionLimits};
use crate::verdict::Side;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::time::Duration;
use wire::Time;

/// The index that stands for none in a list.
const NONE: u32 = u32::MAX;
/// The time after which an echo is not answered any more.
const ECHO: Duration = Duration::from_secs(30);

/// The two ends of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SessionEnds {
    outside: (IpAddr, u16),
    inside: (IpAddr, u16),
    protocol: u8,
    realm: u32,
    /// The side that asks, for echo only. Two hosts may ask each other under one identifier.
    asks: Option<Side>,
}

impl SessionEnds {
    /// The session of a packet that came from the side `from`; ports are zero for protocols without.
    pub fn of(from: Side, protocol: u8, src: (IpAddr, u16), dst: (IpAddr, u16)) -> SessionEnds {
        let (outside, inside) = if from == Side::Outside { (src, dst) } else { (dst, src) };
        SessionEnds { outside, inside, protocol, realm: 0, asks: None }
    }

    /// The session of an echo request from `src` on the side `asks`, or of the answer to it.
    pub fn echo(asks: Side, protocol: u8, src: IpAddr, dst: IpAddr, identifier: u16) -> SessionEnds {
        SessionEnds { asks: Some(asks), ..SessionEnds::of(asks, protocol, (src, identifier), (dst, 0)) }
    }

    /// The same session in another realm.
    #[must_use]
    pub fn in_realm(self, realm: u32) -> SessionEnds {
        SessionEnds { realm, ..self }
    }

    /// The session of the same packets if they came from the other side.
    pub fn turned(&self) -> SessionEnds {
        SessionEnds { outside: self.inside, inside: self.outside, ..*self }
    }

    fn end(&self, side: Side) -> IpAddr {
        if side == Side::Outside { self.outside.0 } else { self.inside.0 }
    }
}

/// The record of a session on its way to another scrubber.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    talk: SessionEnds,
    opener: Side,
    /// The time since its last packet, in milliseconds.
    silent: u64,
    ttl: [u8; 2],
}

impl SessionRecord {
    pub fn hosts(&self) -> (IpAddr, IpAddr) {
        (self.talk.outside.0, self.talk.inside.0)
    }
}

#[derive(Clone, Debug)]
struct Session {
    talk: SessionEnds,
    opener: Side,
    last: Time,
    /// The highest time to live of packets from each side.
    ttl: [u8; 2],
    links: [u32; 2],
}

/// The table of flows without connections. Sessions that were opened outside have half of the room and those opened
/// inside the other half, so nobody outside pushes out what inside hosts wait for. In each half the session that was
/// silent longest makes room. A source outside that has more than its share gets no more sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    key: [u8; 16],
    limits: SessionLimits,
    index: HashTable<u32>,
    all: Vec<Session>,
    free: Vec<u32>,
    /// The sessions that were silent longest and heard last, by the side that opened them.
    lists: [[u32; 2]; 2],
    counts: [usize; 2],
    /// The number of sessions of each source outside (an IPv6 /64).
    sources: HashTable<(u128, u32)>,
}

fn hash(key: &[u8; 16], what: &impl Hash) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    what.hash(&mut hasher);
    hasher.finish()
}

fn source(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(_) => wire::addr::to_bits(addr),
        IpAddr::V6(v6) => u128::from(v6) >> 64 << 64,
    }
}

impl Sessions {
    pub fn new(config: &Config, seed: [u8; 16]) -> Sessions {
        Sessions {
            key: seed,
            limits: config.sessions,
            index: HashTable::new(),
            all: Vec::new(),
            free: Vec::new(),
            lists: [[NONE; 2]; 2],
            counts: [0; 2],
            sources: HashTable::new(),
        }
    }

    fn find(&self, talk: &SessionEnds) -> Option<u32> {
        let same = |at: &u32| self.all.get(*at as usize).is_some_and(|session| session.talk == *talk);
        self.index.find(hash(&self.key, talk), same).copied()
    }

    /// Whether the session exists and was not silent for too long.
    pub fn knows(&self, now: Time, talk: &SessionEnds) -> bool {
        let limit = if talk.asks.is_some() { ECHO.min(self.limits.idle) } else { self.limits.idle };
        let session = self.find(talk).and_then(|at| self.all.get(at as usize));
        session.is_some_and(|session| now.since(session.last) < limit)
    }

    /// Note a packet that passes from the side `from`; the session is opened if need be. Returns the highest time to
    /// live from that side.
    pub fn note(&mut self, now: Time, talk: &SessionEnds, from: Side, ttl: u8) -> u8 {
        let known = self.knows(now, talk);
        let at = match self.find(talk) {
            Some(at) if known => {
                self.unlink(at);
                at
            }
            Some(at) => {
                self.remove(at);
                let Some(at) = self.open(talk, from) else { return ttl };
                at
            }
            None => {
                let Some(at) = self.open(talk, from) else { return ttl };
                at
            }
        };
        let Some(session) = self.all.get_mut(at as usize) else { return ttl };
        session.last = session.last.max(now);
        let highest = match session.ttl.get_mut(from.index()) {
            Some(highest) => {
                *highest = ttl.max(*highest);
                *highest
            }
            None => ttl,
        };
        self.append(at);
        highest
    }

    fn open(&mut self, talk: &SessionEnds, opener: Side) -> Option<u32> {
        let room = (self.limits.count / 2).max(1);
        if opener == Side::Outside && self.of_source(talk) as usize >= self.limits.per_source {
            return None;
        }
        let [silent, _] = *self.lists.get(opener.index())?;
        if self.counts.get(opener.index()).is_some_and(|count| *count >= room) {
            self.remove(silent);
        }
        let session = Session { talk: *talk, opener, last: Time::default(), ttl: [0; 2], links: [NONE; 2] };
        let at = match self.free.pop() {
            Some(at) => {
                *self.all.get_mut(at as usize)? = session;
                at
            }
            None => {
                self.all.push(session);
                (self.all.len() - 1) as u32
            }
        };
        let (all, key) = (&self.all, &self.key);
        let rehash = |at: &u32| all.get(*at as usize).map_or(0, |session| hash(key, &session.talk));
        self.index.insert_unique(hash(key, talk), at, rehash);
        self.count(opener, talk, true);
        Some(at)
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let Some(session) = self.all.get(at as usize) else { return };
        let (talk, opener) = (session.talk, session.opener);
        let entry = self.index.find_entry(hash(&self.key, &talk), |other| *other == at);
        let Ok(entry) = entry else { return };
        entry.remove();
        self.count(opener, &talk, false);
        self.free.push(at);
    }

    fn of_source(&self, talk: &SessionEnds) -> u32 {
        let source = source(talk.end(Side::Outside));
        let found = self.sources.find(hash(&self.key, &source), |(other, _)| *other == source);
        found.map_or(0, |(_, count)| *count)
    }

    fn count(&mut self, opener: Side, talk: &SessionEnds, one_more: bool) {
        let change = |count: usize| if one_more { count + 1 } else { count.saturating_sub(1) };
        if let Some(count) = self.counts.get_mut(opener.index()) {
            *count = change(*count);
        }
        if opener == Side::Inside {
            return;
        }
        let (key, source) = (self.key, source(talk.end(Side::Outside)));
        let entry = self.sources.entry(
            hash(&key, &source),
            |(other, _)| *other == source,
            |(other, _)| hash(&key, other),
        );
        match entry {
            Entry::Occupied(mut entry) => {
                let (_, count) = entry.get_mut();
                *count = change(*count as usize) as u32;
                if *count == 0 {
                    entry.remove();
                }
            }
            Entry::Vacant(entry) if one_more => {
                entry.insert((source, 1));
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Put a session at the end of its opener's list.
    fn append(&mut self, at: u32) {
        let Some(session) = self.all.get_mut(at as usize) else { return };
        let Some([first, last]) = self.lists.get_mut(session.opener.index()) else { return };
        let before = *last;
        session.links = [before, NONE];
        *last = at;
        if before == NONE {
            *first = at;
        }
        if let Some(before) = self.all.get_mut(before as usize) {
            before.links[1] = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(session) = self.all.get_mut(at as usize) else { return };
        let [before, behind] = std::mem::replace(&mut session.links, [NONE; 2]);
        let Some([first, last]) = self.lists.get_mut(session.opener.index()) else { return };
        if *first == at {
            *first = behind;
        }
        if *last == at {
            *last = before;
        }
        if let Some(before) = self.all.get_mut(before as usize) {
            before.links[1] = behind;
        }
        if let Some(behind) = self.all.get_mut(behind as usize) {
            behind.links[0] = before;
        }
    }

    /// Pass the record of every session to `each`. In each list the one that was silent longest comes first.
    pub fn records(&self, now: Time, each: &mut impl FnMut(SessionRecord)) {
        for [first, _] in self.lists {
            let mut at = first;
            while let Some(session) = self.all.get(at as usize)
                && at != NONE
            {
                let Session { talk, opener, last, ttl, links } = session;
                let silent = u64::try_from(now.since(*last).as_millis()).unwrap_or(u64::MAX);
                each(SessionRecord { talk: *talk, opener: *opener, silent, ttl: *ttl });
                at = links[1];
            }
        }
    }

    /// Take over a session from its record. Returns whether there was room.
    pub fn restore(&mut self, now: Time, record: &SessionRecord) -> bool {
        if let Some(at) = self.find(&record.talk) {
            self.remove(at);
        }
        let Some(at) = self.open(&record.talk, record.opener) else { return false };
        if let Some(session) = self.all.get_mut(at as usize) {
            session.last = Time(now.0.saturating_sub(record.silent.saturating_mul(1_000_000)));
            session.ttl = record.ttl;
        }
        self.append(at);
        true
    }

    fn oldest(&self) -> impl Iterator<Item = (u32, Time)> + '_ {
        let idle = self.limits.idle;
        let firsts =
            self.lists.iter().filter_map(|[first, _]| Some((*first, self.all.get(*first as usize)?)));
        firsts.map(move |(at, session)| (at, session.last + idle))
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        self.oldest().map(|(_, over)| over).min()
    }

    pub fn expire(&mut self, now: Time) {
        loop {
            let over = self.oldest().find(|(_, over)| *over <= now);
            let Some((at, _)) = over else { return };
            self.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;

    fn sessions(count: usize, per_source: usize) -> Sessions {
        let mut config = Config::new(Profile::Standard);
        config.sessions = SessionLimits { count, per_source, idle: Duration::from_secs(100) };
        Sessions::new(&config, [3; 16])
    }

    fn talk(from: Side, host: u8, port: u16) -> SessionEnds {
        let (other, server) = (IpAddr::from([192, 0, 2, host]), IpAddr::from([198, 51, 100, 1]));
        match from {
            Side::Outside => SessionEnds::of(from, 17, (other, port), (server, 53)),
            Side::Inside => SessionEnds::of(from, 17, (server, port), (other, 53)),
        }
    }

    fn held(sessions: &Sessions) -> usize {
        assert_eq!(sessions.index.len(), sessions.counts.iter().sum::<usize>());
        assert_eq!(sessions.index.len() + sessions.free.len(), sessions.all.len());
        sessions.index.len()
    }

    #[test]
    fn the_one_that_was_silent_longest_makes_room_on_its_own_side() {
        let mut table = sessions(8, 100);
        let now = Time::from_secs(10);
        for port in 0..4 {
            table.note(now, &talk(Side::Inside, 1, port), Side::Inside, 60);
        }
        for port in 0..50 {
            table.note(now, &talk(Side::Outside, 1, port), Side::Outside, 60);
        }
        assert_eq!(held(&table), 8);
        assert!((0..4).all(|port| table.knows(now, &talk(Side::Inside, 1, port))));
        assert!((46..50).all(|port| table.knows(now, &talk(Side::Outside, 1, port))));
        table.note(now, &talk(Side::Inside, 1, 0), Side::Outside, 60);
        table.note(now, &talk(Side::Inside, 1, 9), Side::Inside, 60);
        assert!(table.knows(now, &talk(Side::Inside, 1, 0)) && !table.knows(now, &talk(Side::Inside, 1, 1)));
    }

    #[test]
    fn a_source_has_its_share_and_gets_it_back() {
        let mut table = sessions(1000, 3);
        let now = Time::from_secs(10);
        for port in 0..9 {
            table.note(now, &talk(Side::Outside, 1, port), Side::Outside, 60);
        }
        table.note(now, &talk(Side::Outside, 2, 1), Side::Outside, 60);
        assert_eq!(held(&table), 4);
        assert_eq!(table.poll_timeout(), Some(Time::from_secs(110)));
        table.expire(Time::from_secs(110));
        assert_eq!((held(&table), table.sources.len(), table.poll_timeout()), (0, 0, None));
        table.note(now, &talk(Side::Outside, 1, 1), Side::Outside, 60);
        assert_eq!(held(&table), 1);
    }

    #[test]
    fn the_highest_time_to_live_is_of_one_side_and_one_session() {
        let mut table = sessions(10, 10);
        let (now, talk) = (Time::from_secs(10), talk(Side::Inside, 1, 1));
        assert_eq!(table.note(now, &talk, Side::Inside, 60), 60);
        assert_eq!(table.note(now, &talk, Side::Inside, 3), 60);
        assert_eq!(table.note(now, &talk, Side::Outside, 7), 7);
        assert_eq!(table.note(Time::from_secs(200), &talk, Side::Inside, 3), 3);
        assert_eq!(held(&table), 1);
    }
}
