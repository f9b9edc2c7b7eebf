//! The table of connections. They are found by a keyed hash, half-open ones are apart from established ones, and time
//! is in a wheel.

mod fast_path;
mod feed;
mod pending;
mod saved;

pub(crate) use fast_path::{BATCH, FastPath};
pub(crate) use saved::ConnectionRecord;

use pending::PendingUpdates;

use super::connection::idle::says_goodbye;
use super::connection::{Connection, Ends, State, Work, is_half_open, millis};
use super::segment::Segment;
use super::seq;
use super::store::Arena;
use crate::config::{Config, Midstream};
use crate::rule::Rule;
use crate::verdict::{Context, Job, Side, Stop};
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::time::Duration;
use wire::ip::Headers;
use wire::tcp::Flags;
use wire::{Buf, Flow, Gso, Time};

/// The index that stands for none in a list.
const NONE: u32 = u32::MAX;
/// The number of slots in the wheel. One turn is longer than the longest time that is waited for at once.
const SLOTS: usize = 2048;
/// The length of a slot, in milliseconds.
const SLOT: u32 = 4096;
/// The list of connections whose handshake is not done, oldest first; the slots of the wheel come before it.
const HALF_OPEN: usize = SLOTS;
/// The number of connections that are found without a hash.
const RECENT: usize = 1024;
/// The time that an end may take to answer a probe (rule Q.16).
const PROBE: Duration = Duration::from_secs(75);

/// All connections of a scrubber.
#[derive(Debug)]
pub struct Connections {
    key: [u8; 16],
    index: HashTable<u32>,
    all: Vec<Connection>,
    free: Vec<u32>,
    /// The connections that segments came for last.
    recent: [u32; RECENT],
    /// The first and last connection of each list.
    lists: Vec<[u32; 2]>,
    /// The number of half-open connections of each source.
    sources: Sources,
    /// The number of connections of each source outside that are neither half-open nor closed.
    owners: Sources,
    half_open: usize,
    closed: usize,
    /// The slot that is examined next, and the time that the wheel stands for.
    hand: usize,
    turned: Option<u32>,
    now: Time,
    /// The time to look again for what is over: time goes on while segments come, too.
    due: Option<Time>,
    arena: Arena,
    /// The news for a standby; `None`: there is no standby.
    news: Option<PendingUpdates>,
}

fn hash(key: &[u8; 16], what: &impl Hash) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    what.hash(&mut hasher);
    hasher.finish()
}

impl Connections {
    pub(crate) fn new(config: &Config, seed: [u8; 16]) -> Connections {
        Connections {
            key: seed,
            index: HashTable::new(),
            all: Vec::new(),
            free: Vec::new(),
            recent: [NONE; RECENT],
            lists: vec![[NONE; 2]; SLOTS + 1],
            sources: Sources::new(seed),
            owners: Sources::new(seed),
            half_open: 0,
            closed: 0,
            hand: 0,
            turned: None,
            now: Time::default(),
            due: None,
            arena: Arena::new(&config.store, seed),
            news: PendingUpdates::of(config),
        }
    }

    /// The number of connections in the table.
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of connections whose handshake is not done.
    pub fn half_open(&self) -> usize {
        self.half_open
    }

    /// The number of connections that are closed and still remembered.
    pub fn closed(&self) -> usize {
        self.closed
    }

    /// The number of connections that are neither half-open nor closed.
    fn live(&self) -> usize {
        self.len() - self.half_open - self.closed
    }

    /// The number of octets in store.
    pub fn stored(&self) -> usize {
        self.arena.used()
    }

    /// The state of a connection in realm zero, by its end outside and its end inside.
    pub fn state(&self, outside: std::net::SocketAddr, inside: std::net::SocketAddr) -> Option<State> {
        let ends = Ends::new((outside.ip(), outside.port()), (inside.ip(), inside.port()));
        self.find(&ends).and_then(|at| self.all.get(at as usize)).map(|connection| connection.state)
    }

    /// Every connection: its end outside, its end inside, its state.
    pub fn iter(&self) -> impl Iterator<Item = (std::net::SocketAddr, std::net::SocketAddr, State)> {
        let live = self.index.iter().filter_map(|at| self.all.get(*at as usize));
        live.map(|one| (one.ends.end(Side::Outside), one.ends.end(Side::Inside), one.state))
    }

    fn find(&self, ends: &Ends) -> Option<u32> {
        let same = |at: &u32| self.all.get(*at as usize).is_some_and(|connection| connection.ends == *ends);
        self.index.find(hash(&self.key, ends), same).copied()
    }

    /// The connection at this index, for a segment that comes now.
    #[inline]
    pub(super) fn at_work(&mut self, at: u32, now: Time) -> Option<(&mut Connection, &mut Arena)> {
        self.now = now;
        Some((self.all.get_mut(at as usize)?, &mut self.arena))
    }

    /// The connection with these ends, like [`Connections::find`], for segments that come many in a row.
    #[inline]
    pub(super) fn find_again(&mut self, ends: &Ends) -> Option<u32> {
        let place = self.recent.get_mut(ends.place() % RECENT)?;
        if self.all.get(*place as usize).is_some_and(|connection| connection.ends == *ends) && *place != NONE
        {
            return Some(*place);
        }
        let found = self.find(ends)?;
        self.remember(ends, found);
        Some(found)
    }

    /// Remember the connection for [`Connections::find_again`], if it has these ends.
    pub(super) fn remember(&mut self, ends: &Ends, at: u32) {
        if self.at(at).is_some_and(|connection| connection.ends == *ends)
            && let Some(place) = self.recent.get_mut(ends.place() % RECENT)
        {
            *place = at;
        }
    }

    pub(super) fn at(&self, at: u32) -> Option<&Connection> {
        self.all.get(at as usize)
    }

    pub(super) fn hashed(&self, ends: Ends) -> (Ends, u64) {
        (ends, hash(&self.key, &ends))
    }

    /// The index of the connection that most likely has this hash.
    pub(super) fn likely(&self, hash: u64) -> Option<u32> {
        self.index.iter_hash(hash).next().copied()
    }

    /// Handle one segment that came. Returns the highest time to live of its connection from that side.
    pub(crate) fn segment(
        &mut self,
        job: &mut Job<'_>,
        context: &mut Context<'_>,
        buf: &mut Buf,
        headers: &mut Headers,
        gso: &Gso,
    ) -> Result<u8, Stop> {
        self.now = context.now;
        let from = context.arrival.from;
        let mut segment = Segment::read(job, buf, headers, gso)?;
        let ends = Ends::of(headers, segment.ports, from).in_realm(context.arrival.realm);
        let mut found = self.find_again(&ends);
        let cleaned = segment.clean(job, buf, headers);
        if cleaned == Err(Stop::Pass)
            && let Some(connection) = found.and_then(|at| self.all.get(at as usize))
        {
            let mut work = Work { job, context, arena: &mut self.arena, buf, headers, segment, shift: 0 };
            connection.shift_in(&mut work);
            connection.shift_out(&mut work);
            work.segment.finish(work.buf, work.headers);
        }
        cleaned?;
        let mut shift = 0;
        if let Some(at) = found
            && segment.flags.contains(Flags::SYN)
            && !segment.flags.intersects(Flags::ACK | Flags::RST)
            && let Some(old) = self.all.get(at as usize)
            && old.may_reopen(from, &segment)
        {
            // Until the inside host has said its SYN it may still speak of the old one.
            shift = old.shift;
            self.remove(at);
            found = None;
        }
        let (at, fresh) = match found {
            Some(at) => (at, false),
            None => match self.open(job, context, &ends, &segment)? {
                Some(at) => (at, true),
                // Nobody looks at connections that nobody opened.
                None => {
                    segment.finish(buf, headers);
                    return Ok(headers.ttl);
                }
            },
        };
        let modulates =
            from == Side::Inside && segment.flags.contains(Flags::SYN) && job.watches(Rule::IsnModulation);
        let new_shift = if modulates { self.shift(&ends) } else { 0 };
        let Some(connection) = self.all.get_mut(at as usize) else { return Ok(headers.ttl) };
        let before = connection.state;
        if fresh {
            connection.set_shift(shift);
        }
        let mut work = Work { job, context, arena: &mut self.arena, buf, headers, segment, shift: new_shift };
        connection.shift_in(&mut work);
        let done = connection.segment(&mut work);
        if !matches!(done, Err(Stop::Drop(_))) {
            connection.shift_out(&mut work);
            work.segment.finish(work.buf, work.headers);
        }
        let (after, ttl) = (connection.state, connection.half(from).ttl);
        self.moved(job.config, at, before, after);
        if done.is_err() && fresh {
            self.remove(at);
        } else {
            self.tell(Some(at));
        }
        done.map(|()| ttl)
    }

    /// Open a connection for a segment that belongs to none. `None`: the segment passes without.
    fn open(
        &mut self,
        job: &mut Job<'_>,
        context: &mut Context<'_>,
        ends: &Ends,
        segment: &Segment,
    ) -> Result<Option<u32>, Stop> {
        let from = context.arrival.from;
        let flags = segment.flags;
        let opens = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK);
        if opens {
            // It went through here before: routers behind send it round, and rule 4.14 would let it live for ever.
            if self.find(&ends.turned()).is_some() {
                job.refuse(Rule::Handshake)?;
            }
            self.admit(job, context, ends, from)?;
            let at = self.insert(Connection::new(*ends, from, context.now));
            self.append(HALF_OPEN, at);
            return Ok(Some(at));
        }
        if flags.contains(Flags::SYN) {
            job.refuse(Rule::Handshake)?;
            return Ok(None);
        }
        if flags.contains(Flags::RST) || job.config.midstream == Midstream::Drop {
            job.refuse(Rule::Midstream)?;
        }
        if flags.contains(Flags::RST) {
            return Ok(None);
        }
        // Where the rule lets it pass, it is picked up as well: what goes on is in store, or a copy could differ.
        if self.is_full(job.config, ends, from) {
            job.refuse(Rule::Idle)?;
        }
        let at = self.insert(Connection::picked_up(*ends, segment, from, context.now));
        self.schedule(job.config, at);
        Ok(Some(at))
    }

    /// Rules Q.16 and Q.1: check that there may be one more half-open connection. The oldest goes if there are too
    /// many.
    fn admit(
        &mut self,
        job: &mut Job<'_>,
        context: &mut Context<'_>,
        ends: &Ends,
        from: Side,
    ) -> Result<(), Stop> {
        let limits = job.config.flows;
        let many = self.sources.of(&ends.source(from)) >= limits.half_open_per_source;
        if many || self.is_full(job.config, ends, from) || self.arena.fullness() >= 248 {
            job.refuse(Rule::Idle)?;
        }
        if self.half_open >= limits.half_open
            && let Some([oldest, _]) = self.lists.get(HALF_OPEN).copied()
            && oldest != NONE
        {
            self.give_up(job.config, context, oldest);
        }
        Ok(())
    }

    /// Whether there is no place for one more connection that this side opens: all are taken, or its source outside has
    /// its share. Closed connections have places of their own, so that the time for which they are remembered does not
    /// bound how many come in a second.
    fn is_full(&self, config: &Config, ends: &Ends, from: Side) -> bool {
        let limits = &config.flows;
        let share =
            from == Side::Outside && self.owners.of(&ends.source(from)) >= limits.established_per_source;
        share || self.live() >= limits.established || self.closed >= limits.closed
    }

    /// Count a connection that is in this state now, or is no more.
    fn count(&mut self, ends: &Ends, opener: Side, state: State, one_more: bool) {
        let change = |count: &mut usize| *count = if one_more { *count + 1 } else { count.saturating_sub(1) };
        match state {
            State::Init | State::Init2 => {
                change(&mut self.half_open);
                self.sources.count(&ends.source(opener), one_more);
            }
            State::Estab | State::Close if opener == Side::Outside => {
                self.owners.count(&ends.source(opener), one_more);
            }
            State::Estab | State::Close => {}
            State::Closed => change(&mut self.closed),
        }
    }

    fn insert(&mut self, connection: Connection) -> u32 {
        if self.is_empty() {
            self.look_again();
        }
        self.count(&connection.ends, connection.opener, connection.state, true);
        let hash_of = hash(&self.key, &connection.ends);
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(place) = self.all.get_mut(at as usize) {
                    *place = connection;
                }
                at
            }
            None => {
                self.all.push(connection);
                (self.all.len() - 1) as u32
            }
        };
        let (all, key) = (&self.all, &self.key);
        self.index.insert_unique(hash_of, at, |at| {
            all.get(*at as usize).map_or(0, |connection| hash(key, &connection.ends))
        });
        at
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let Some(connection) = self.all.get_mut(at as usize) else { return };
        connection.release(&mut self.arena);
        if let Some(news) = &mut self.news {
            news.gone(connection);
        }
        let (ends, state, opener) = (connection.ends, connection.state, connection.opener);
        self.count(&ends, opener, state, false);
        if let Some(place) = self.recent.get_mut(ends.place() % RECENT)
            && *place == at
        {
            *place = NONE;
        }
        if let Ok(entry) = self.index.find_entry(hash(&self.key, &ends), |other| *other == at) {
            entry.remove();
        }
        self.free.push(at);
    }

    /// Give up a connection whose handshake took too long. The end that answered it is told, so that neither the host
    /// inside nor a reader on the way keeps what is forgotten here.
    fn give_up(&mut self, config: &Config, context: &mut Context<'_>, at: u32) {
        if let Some(connection) = self.all.get(at as usize)
            && connection.state == State::Init2
            && says_goodbye(config)
        {
            let to = connection.opener.other();
            if let Some(buf) = connection.bare(to, Flags::RST | Flags::ACK, 0) {
                context.emit_in(connection.ends.realm(), to, buf, Rule::Idle);
            }
        }
        self.remove(at);
    }

    /// Count the new state of a connection, and schedule it anew.
    fn moved(&mut self, config: &Config, at: u32, before: State, after: State) {
        if before == after {
            return;
        }
        if let Some((ends, opener)) = self.at(at).map(|connection| (connection.ends, connection.opener)) {
            self.count(&ends, opener, before, false);
            self.count(&ends, opener, after, true);
        }
        if is_half_open(after) {
            return;
        }
        self.unlink(at);
        self.schedule(config, at);
    }

    /// Put a connection where the wheel comes to it when its time may be over.
    fn schedule(&mut self, config: &Config, at: u32) {
        let Some(connection) = self.all.get(at as usize) else { return };
        let silent = millis(self.now).wrapping_sub(connection.last);
        let wait = limit_of(config, connection).saturating_sub(silent);
        let slots = (wait / SLOT + 1).min(SLOTS as u32 - 1) as usize;
        if self.turned.is_none() {
            self.turned = Some(millis(self.now));
        }
        // The hand may be behind: what counts is the time it stands for.
        let late = millis(self.now).wrapping_sub(self.turned.unwrap_or(0)) / SLOT;
        let slots = (slots + late as usize).min(SLOTS - 1);
        self.append((self.hand + slots) % SLOTS, at);
    }

    fn append(&mut self, list: usize, at: u32) {
        let Some([first, last]) = self.lists.get_mut(list) else { return };
        let before = *last;
        *last = at;
        if before == NONE {
            *first = at;
        }
        if let Some(connection) = self.all.get_mut(at as usize) {
            connection.links = [before, NONE];
            connection.slot = list as u16;
        }
        if let Some(before) = self.all.get_mut(before as usize) {
            before.links[1] = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(connection) = self.all.get_mut(at as usize) else { return };
        let ([before, behind], list) = (connection.links, usize::from(connection.slot));
        (connection.links, connection.slot) = ([NONE; 2], u16::MAX);
        let Some([first, last]) = self.lists.get_mut(list) else { return };
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

    /// A number for the connection that nobody can know who has not the key and does not see it (RFC 6528 section 3;
    /// the inside host's own numbers take the place of the clock).
    fn shift(&self, ends: &Ends) -> u32 {
        hash(&self.key, &("initial sequence number", ends)) as u32
    }

    /// The connection of a flow as `sender` sees it.
    fn of_flow(&self, sender: Side, flow: &Flow, realm: u32) -> Option<&Connection> {
        let (local, remote) = ((flow.local, flow.local_port), (flow.remote, flow.remote_port));
        let ends = match sender {
            Side::Outside => Ends::new(local, remote),
            Side::Inside => Ends::new(remote, local),
        };
        self.find(&ends.in_realm(realm)).and_then(|at| self.all.get(at as usize))
    }

    /// The numbers to add to the sequence number and the acknowledgment of a segment that an error quotes, so that its
    /// sender knows it (rule Q.4). `flow` is as the sender sees it.
    pub(crate) fn shifts(&self, sender: Side, flow: &Flow, realm: u32) -> (u32, u32) {
        let shift = self.of_flow(sender, flow, realm).map_or(0, |connection| connection.shift);
        if sender == Side::Inside { (shift.wrapping_neg(), 0) } else { (0, shift) }
    }

    /// Whether this connection is known.
    pub(crate) fn knows(&self, sender: Side, flow: &Flow, realm: u32) -> bool {
        self.of_flow(sender, flow, realm).is_some()
    }

    /// Whether a connection had `seq_of` under way from the side `sender` (RFC 5927 section 4.1). The number is as the
    /// other side saw it, and `flow` as the sender sees it.
    pub(crate) fn has_under_way(&self, sender: Side, flow: &Flow, realm: u32, seq_of: u32) -> bool {
        let Some(connection) = self.of_flow(sender, flow, realm) else { return false };
        let seq_of = if sender == Side::Inside { seq_of.wrapping_sub(connection.shift) } else { seq_of };
        let half = connection.half(sender);
        // A SYN that was not acknowledged is under way, too.
        let una = if connection.state == State::Init { connection.bounds(sender).isn } else { half.una };
        !seq::before(seq_of, una) && seq::before(seq_of, half.nxt)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        if self.is_empty() {
            return None;
        }
        // Coarse on purpose: nothing here is in a hurry.
        self.due
    }

    fn look_again(&mut self) {
        self.due = Some(Time(self.now.0.saturating_add(u64::from(SLOT) * 1_000_000)));
    }

    /// Close the connections that were silent for too long.
    pub(crate) fn expire(&mut self, config: &Config, context: &mut Context<'_>) {
        if context.now < self.now {
            return;
        }
        self.now = context.now;
        self.look_again();
        let now = millis(context.now);
        let limit = millis_of(config.flows.handshake);
        while let Some([oldest, _]) = self.lists.get(HALF_OPEN).copied()
            && let Some(connection) = self.all.get(oldest as usize)
            && now.wrapping_sub(connection.last) >= limit
        {
            self.give_up(config, context, oldest);
        }
        let Some(mut turned) = self.turned else { return };
        let mut slots = now.wrapping_sub(turned) / SLOT;
        if slots as usize > SLOTS {
            turned = turned.wrapping_add((slots - SLOTS as u32) * SLOT);
            slots = SLOTS as u32;
        }
        for _ in 0..slots {
            turned = turned.wrapping_add(SLOT);
            self.turned = Some(turned);
            self.hand = (self.hand + 1) % SLOTS;
            self.look_at(config, context, self.hand);
        }
    }

    /// Examine the connections of the slot that the wheel has come to; they may have been busy since.
    fn look_at(&mut self, config: &Config, context: &mut Context<'_>, slot: usize) {
        let Some([mut at, _]) = self.lists.get(slot).copied() else { return };
        // All of it first: what is scheduled anew may come into the same slot.
        self.lists[slot] = [NONE; 2];
        while at != NONE {
            let Some(connection) = self.all.get_mut(at as usize) else { return };
            let behind = connection.links[1];
            (connection.links, connection.slot) = ([NONE; 2], u16::MAX);
            let silent = millis(context.now).wrapping_sub(connection.last);
            if silent < limit_of(config, connection) || connection.say_goodbye(config, context) {
                self.schedule(config, at);
            } else {
                self.remove(at);
            }
            at = behind;
        }
    }
}

/// The number of connections of one kind that each source has: an address, an IPv6 /64.
#[derive(Debug)]
struct Sources {
    key: [u8; 16],
    counts: HashTable<([u32; 4], u32)>,
}

impl Sources {
    fn new(key: [u8; 16]) -> Sources {
        Sources { key, counts: HashTable::new() }
    }

    fn of(&self, source: &[u32; 4]) -> usize {
        let found = self.counts.find(hash(&self.key, source), |(other, _)| other == source);
        found.map_or(0, |(_, count)| *count as usize)
    }

    fn count(&mut self, source: &[u32; 4], one_more: bool) {
        use hashbrown::hash_table::Entry;
        let (key, hash_of) = (self.key, hash(&self.key, source));
        match self.counts.entry(hash_of, |(other, _)| other == source, |(other, _)| hash(&key, other)) {
            Entry::Occupied(mut entry) => {
                let (_, count) = entry.get_mut();
                *count = if one_more { *count + 1 } else { count.saturating_sub(1) };
                if *count == 0 {
                    entry.remove();
                }
            }
            Entry::Vacant(entry) if one_more => {
                entry.insert((*source, 1));
            }
            Entry::Vacant(_) => {}
        }
    }
}

fn millis_of(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX / 2)
}

/// The time that a connection may be silent, in milliseconds.
fn limit_of(config: &Config, connection: &Connection) -> u32 {
    let flows = &config.flows;
    let limit = match connection.state {
        State::Init | State::Init2 => flows.handshake,
        State::Estab => flows.idle + PROBE * u32::from(connection.probes),
        State::Close | State::Closed => flows.closing,
    };
    millis_of(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_takes_no_more_than_200_octets() {
        assert!(size_of::<Connection>() + 2 * size_of::<u32>() <= 200, "{}", size_of::<Connection>());
    }
}
