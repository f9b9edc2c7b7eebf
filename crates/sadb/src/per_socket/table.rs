//! The table of policy entries by socket.

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

pub use lookup::PacketDirection;

/// The bounds of a table in number and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLimits {
    /// The largest number of sockets.
    pub sockets: usize,
    /// The largest number of entries.
    pub entries: usize,
    /// The largest number of entries of one application, so that one cannot take the room of all others.
    pub each_app: usize,
    /// The largest number of destinations of one datagram socket.
    pub destinations: usize,
    /// The time that an outbound entry of a datagram socket lives after its last use (paper 000 section 3.4.2).
    pub ttl: Duration,
    /// The time that the entry of a closed connection serves its TIME_WAIT.
    pub time_wait: Duration,
    /// The time that the entry of any other closed socket serves packets on their way: as long as a packet may wait for
    /// an association.
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

/// The figures of a table since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryStats {
    /// The number of events that were applied.
    pub events: u64,
    /// The number of entries that were made.
    pub added: u64,
    /// The number of entries that were deleted, those that expired included.
    pub deleted: u64,
    /// The number of entries whose time was over.
    pub expired: u64,
    /// The number of entries and sockets for which there was no room.
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
    /// The sockets of connections that the entries of a listener serve, by the key of those entries.
    accepted: BTreeMap<BroadKey, BTreeSet<u64>>,
    /// The queue of sockets to examine, by time.
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

    /// The figures of the table.
    pub fn stats(&self) -> EntryStats {
        self.stats
    }

    /// The number of entries in the table.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether the table has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The number of sockets in the table.
    pub fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// A number that changes when the entries change.
    pub fn version(&self) -> u64 {
        self.stats.added.wrapping_add(self.stats.deleted)
    }

    /// The policy that its entries come from.
    pub fn policy(&self) -> &Arc<Spd> {
        &self.spd
    }

    /// Every entry of the table. Those for every peer come first, by port, each socket's in the order in which they are
    /// asked. Those for one flow follow.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        let broad = self.broad.values().flatten().flat_map(|group| &group.entries);
        broad.chain(self.exact.values().flatten())
    }

    /// Apply an event to the table. An event of an application without a policy changes nothing.
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

    /// Delete what expired by `now`: entries that nobody used for too long, and what closed sockets left.
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

    /// Replace the policy of the table. Every entry is made again from what its socket did. Sockets of applications
    /// that no longer have a policy are forgotten.
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

    /// Say which sockets existed at `as_of`, since events may have been lost. A socket that made its first call by then
    /// and is not open any more counts as closed at `now`.
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
