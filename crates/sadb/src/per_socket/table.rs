//! The table of entries.

mod claims;
mod lookup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use wire::{AppId, Flow, Time, protocol};

use super::entry::{Entry, EntryDirection};
use super::event::{self, Call, SocketEvent};
use super::owner::{BroadKey, ExactKey, Group, Owner};
use crate::spd::Spd;

pub use lookup::Way;

/// How much a table holds, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLimits {
    /// Sockets.
    pub sockets: usize,
    /// Entries in all.
    pub entries: usize,
    /// Entries of one application: one cannot take the room of all others.
    pub each_app: usize,
    /// Destinations of one datagram socket.
    pub destinations: usize,
    /// How long an outbound entry of a datagram socket lives behind its last use (paper 000 section 3.4.2).
    pub ttl: Duration,
    /// How long a closed connection's entry serves its TIME_WAIT.
    pub time_wait: Duration,
    /// How long the entry of any other closed socket serves packets on their way: as long as one may wait for an association.
    pub drain: Duration,
}

impl Default for EntryLimits {
    fn default() -> EntryLimits {
        EntryLimits {
            sockets: 65_536,
            entries: 131_072,
            each_app: 65_536,
            destinations: 4096,
            ttl: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            drain: Duration::from_secs(10),
        }
    }
}

/// What a table did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryStats {
    /// Events taken.
    pub events: u64,
    /// Entries made.
    pub added: u64,
    /// Entries deleted, those that expired among them.
    pub deleted: u64,
    /// Entries whose time was over.
    pub expired: u64,
    /// Entries and sockets for which there was no room.
    pub refused: u64,
}

/// The entries of every socket.
#[derive(Clone, Debug)]
pub struct PerSocket {
    spd: Arc<Spd>,
    limits: EntryLimits,
    sockets: BTreeMap<u64, Owner>,
    exact: BTreeMap<ExactKey, Vec<Entry>>,
    broad: BTreeMap<BroadKey, Vec<Group>>,
    /// Connections that the entries of a listener serve, by what finds those.
    accepted: BTreeMap<BroadKey, BTreeSet<u64>>,
    /// When which socket is to be looked at.
    due: BTreeSet<(Time, u64)>,
    each_app: BTreeMap<AppId, usize>,
    entries: usize,
    stats: EntryStats,
}

impl PerSocket {
    /// A table without entries for this policy.
    pub fn new(spd: Arc<Spd>, limits: EntryLimits) -> PerSocket {
        PerSocket {
            spd,
            limits,
            sockets: BTreeMap::new(),
            exact: BTreeMap::new(),
            broad: BTreeMap::new(),
            accepted: BTreeMap::new(),
            due: BTreeSet::new(),
            each_app: BTreeMap::new(),
            entries: 0,
            stats: EntryStats::default(),
        }
    }

    /// What it did.
    pub fn stats(&self) -> EntryStats {
        self.stats
    }

    /// Entries there are.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Sockets it knows of.
    pub fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// A number that changes with the entries.
    pub fn version(&self) -> u64 {
        self.stats.added.wrapping_add(self.stats.deleted)
    }

    /// The policy that its entries come from.
    pub fn policy(&self) -> &Arc<Spd> {
        &self.spd
    }

    /// Every entry: those for every peer by port, each socket's in the order in which they are asked; then those for one flow.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        let broad = self.broad.values().flatten().flat_map(|group| &group.entries);
        broad.chain(self.exact.values().flatten())
    }

    /// Do what the event asks for. One of an application without a policy changes nothing, for nothing is translated.
    pub fn apply(&mut self, event: &SocketEvent) {
        self.stats.events += 1;
        let flow = event::canonical(&event.flow);
        let (socket, app, now) = (event.socket, event.app, event.now);
        if matches!(event.call, Call::Close | Call::TimeWait) {
            let last = if event.call == Call::Close { self.limits.drain } else { self.limits.time_wait };
            return self.close(socket, now, last);
        }
        if self.spd.get(app).is_none() || !self.begin(socket, app, now) {
            return;
        }
        let is_tcp = flow.protocol == protocol::TCP;
        match event.call {
            Call::Listen if is_tcp => self.for_every_peer(socket, app, &flow, true),
            Call::Accept if is_tcp => self.accept(socket, app, &flow),
            Call::Connect if is_tcp => {
                self.for_one_flow(socket, app, &flow, EntryDirection::Mirrored, None);
            }
            Call::RecvFrom if !is_tcp => self.for_every_peer(socket, app, &flow, false),
            Call::SendTo if !is_tcp => {
                let expires = Some(now + self.limits.ttl);
                self.for_one_flow(socket, app, &flow, EntryDirection::Outbound, expires);
            }
            // A datagram socket's `connect` sends nothing; its `send` is the event.
            _ => {}
        }
        self.forget_if_idle(socket);
    }

    /// Let time pass: what nobody used for too long goes, and what closed sockets left.
    pub fn expire(&mut self, now: Time) {
        while let Some(&(at, socket)) = self.due.first() {
            if at > now {
                break;
            }
            self.due.remove(&(at, socket));
            if let Some(owner) = self.sockets.get_mut(&socket) {
                owner.due = None;
            }
            self.sweep(socket, now);
        }
    }

    /// The policy from now on: every entry is made anew from what its socket did. Sockets of applications that have no policy
    /// any more are forgotten.
    pub fn set_policy(&mut self, spd: Arc<Spd>) {
        self.spd = spd;
        let gone = |table: &PerSocket, owner: &Owner| table.spd.get(owner.app).is_none();
        let sockets: Vec<u64> =
            self.sockets.iter().filter(|(_, owner)| gone(self, owner)).map(|(socket, _)| *socket).collect();
        for socket in sockets {
            self.forget(socket);
        }
        self.translate_again();
    }

    /// Say which sockets there were at `as_of`, for events may have been lost: those that made their first call before and are
    /// not among them count as closed at `now`.
    pub fn retain(&mut self, now: Time, as_of: Time, mut is_open: impl FnMut(u64) -> bool) {
        let known = self.sockets.iter().filter(|(_, owner)| owner.since <= as_of);
        let gone: Vec<u64> = known.map(|(socket, _)| *socket).filter(|socket| !is_open(*socket)).collect();
        for socket in gone {
            // It may be in TIME_WAIT.
            self.close(socket, now, self.limits.time_wait);
        }
    }

    /// Whether there are entries for every peer that serve the local end of this flow.
    fn is_listened_to(&self, app: AppId, flow: &Flow) -> bool {
        let groups = self.broad.get(&BroadKey::new(app, flow));
        groups.is_some_and(|groups| groups.iter().any(|group| group.reaches(flow)))
    }
}
