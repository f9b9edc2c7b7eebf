//! The making and deleting of entries.

use std::time::Duration;

use wire::{AppId, Flow, Time};

use super::PerSocket;
use crate::per_socket::entry::{Entry, EntryDirection};
use crate::per_socket::event;
use crate::per_socket::owner::{BroadKey, ExactKey, Group, Owner};
use crate::per_socket::translate;

impl PerSocket {
    /// Record the socket as one of this application; `false` if there is no room. A socket that changed its
    /// application, or was closed, begins anew.
    pub(super) fn begin(&mut self, socket: u64, app: AppId, now: Time) -> bool {
        match self.sockets.get(&socket) {
            Some(owner) if owner.app == app && owner.closing.is_none() => return true,
            Some(_) => self.forget(socket),
            None => {}
        }
        if self.sockets.len() >= self.limits.sockets && !self.make_room() {
            self.stats.refused += 1;
            return false;
        }
        self.sockets.insert(socket, Owner::new(app, now));
        true
    }

    /// Make entries for each network of the application. Nothing changes if the socket has them already for the same
    /// address.
    pub(super) fn for_every_peer(&mut self, socket: u64, app: AppId, flow: &Flow, mirrored: bool) {
        let claim = (BroadKey::new(app, flow), flow.local, mirrored);
        match self.sockets.get(&socket).and_then(|owner| owner.broad) {
            Some(before) if before == claim => return,
            Some(_) => self.delete_broad(socket),
            None => {}
        }
        self.make_broad(socket, claim, flow);
    }

    fn make_broad(&mut self, socket: u64, claim: (BroadKey, std::net::IpAddr, bool), flow: &Flow) {
        let (key, local, mirrored) = claim;
        let Some(policy) = self.spd.get(key.app) else { return };
        let direction = if mirrored { EntryDirection::Mirrored } else { EntryDirection::Inbound };
        let app = key.app;
        let entries: Vec<Entry> = translate::each_network(policy, flow)
            .into_iter()
            .map(|(selector, decision)| Entry {
                app,
                socket,
                direction,
                selector,
                decision,
                expires: None,
                closing: false,
            })
            .collect();
        // All or none: half of them would answer with what stands behind the missing ones.
        if !self.reserve(app, entries.len()) {
            return;
        }
        self.broad.entry(key).or_default().push(Group { socket, local, entries });
        if let Some(owner) = self.sockets.get_mut(&socket) {
            owner.broad = Some(claim);
        }
    }

    /// Make an entry for exactly this flow, or give more time to the one that exists.
    pub(super) fn for_one_flow(
        &mut self,
        socket: u64,
        app: AppId,
        flow: &Flow,
        direction: EntryDirection,
        expires: Option<Time>,
    ) {
        let flow = &event::of_one_family(flow);
        let key = ExactKey::new(app, flow);
        let known = self.exact.get_mut(&key).and_then(|e| e.iter_mut().find(|e| e.socket == socket));
        if let Some(entry) = known {
            entry.expires = expires;
            return;
        }
        let Some(policy) = self.spd.get(app) else { return };
        let (selector, decision) = translate::exactly(policy, flow);
        if self.sockets.get(&socket).is_none_or(|owner| owner.exact.len() >= self.limits.destinations) {
            self.stats.refused += 1;
            return;
        }
        if !self.reserve(app, 1) {
            return;
        }
        let entry = Entry { app, socket, direction, selector, decision, expires, closing: false };
        self.exact.entry(key).or_default().push(entry);
        if let Some(owner) = self.sockets.get_mut(&socket) {
            owner.exact.push(key);
        }
        if let Some(at) = expires {
            self.look_at(socket, at);
        }
    }

    /// Take in a connection that came in. The entries of its listener serve it; without a listener it gets its own
    /// entry.
    pub(super) fn accept(&mut self, socket: u64, app: AppId, flow: &Flow) {
        if !self.is_listened_to(app, flow) {
            return self.for_one_flow(socket, app, flow, EntryDirection::Mirrored, None);
        }
        self.accepted.entry(BroadKey::new(app, flow)).or_default().insert(socket);
        if let Some(owner) = self.sockets.get_mut(&socket) {
            owner.accepted = Some(*flow);
        }
    }

    /// Record that the socket is closed. Its entries for every peer go at once, those for one flow after `last`.
    pub(super) fn close(&mut self, socket: u64, now: Time, last: Duration) {
        let Some(owner) = self.sockets.get_mut(&socket) else { return };
        if owner.closing.is_some() {
            return;
        }
        let until = now + last;
        owner.closing = Some(until);
        for key in &owner.exact {
            let entries = self.exact.get_mut(key).map_or(&mut [][..], Vec::as_mut_slice);
            for entry in entries.iter_mut().filter(|entry| entry.socket == socket) {
                entry.closing = true;
                entry.expires = Some(until);
            }
        }
        self.delete_broad(socket);
        if last.is_zero() {
            return self.forget(socket);
        }
        self.look_at(socket, until);
        self.forget_if_idle(socket);
    }

    /// Delete everything of the socket.
    pub(super) fn forget(&mut self, socket: u64) {
        self.delete_broad(socket);
        let Some(owner) = self.sockets.remove(&socket) else { return };
        if let Some(at) = owner.due {
            self.due.remove(&(at, socket));
        }
        for key in owner.exact {
            self.delete_exact(&key, socket);
        }
        if let Some(flow) = owner.accepted {
            self.no_longer_accepted(socket, owner.app, &flow);
        }
    }

    /// Forget the socket if it has no entries and no accepted connection.
    pub(super) fn forget_if_idle(&mut self, socket: u64) {
        let idle =
            |owner: &Owner| owner.broad.is_none() && owner.exact.is_empty() && owner.accepted.is_none();
        if self.sockets.get(&socket).is_some_and(idle) {
            self.forget(socket);
        }
    }

    /// Delete those entries of the socket whose time is over.
    pub(super) fn sweep(&mut self, socket: u64, now: Time) {
        let Some(owner) = self.sockets.get_mut(&socket) else { return };
        if owner.closing.is_some_and(|until| until <= now) {
            self.stats.expired += owner.exact.len() as u64;
            return self.forget(socket);
        }
        let mut keys = std::mem::take(&mut owner.exact);
        let mut next = owner.closing;
        keys.retain(|key| {
            let entry = self.exact.get(key).and_then(|e| e.iter().find(|e| e.socket == socket));
            let Some(entry) = entry else { return false };
            if !entry.is_alive(now) {
                self.stats.expired += 1;
                self.delete_exact(key, socket);
                return false;
            }
            next = next.into_iter().chain(entry.expires).min();
            true
        });
        if let Some(owner) = self.sockets.get_mut(&socket) {
            owner.exact = keys;
        }
        if let Some(at) = next {
            self.look_at(socket, at);
        }
        self.forget_if_idle(socket);
    }

    /// Make every entry again from the policy in force.
    pub(super) fn translate_again(&mut self) {
        let before = self.entries;
        let exact = std::mem::take(&mut self.exact);
        let broad = std::mem::take(&mut self.broad);
        self.each_app.clear();
        self.entries = 0;
        self.stats.deleted += before as u64;
        for (key, groups) in broad {
            for group in groups {
                let Some(claim) = self.sockets.get_mut(&group.socket).and_then(|o| o.broad.take()) else {
                    continue;
                };
                let any = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
                let flow = Flow {
                    opaque: false,
                    local: group.local,
                    remote: any,
                    local_port: key.port,
                    remote_port: 0,
                    protocol: key.protocol,
                };
                self.make_broad(group.socket, claim, &flow);
            }
        }
        for (key, entries) in exact {
            for entry in entries {
                let Some(policy) = self.spd.get(key.app) else { continue };
                // It may have made room above.
                if !self.sockets.contains_key(&entry.socket) {
                    continue;
                }
                let (selector, decision) = translate::exactly(policy, &key.flow());
                if self.reserve(key.app, 1) {
                    self.exact.entry(key).or_default().push(Entry { selector, decision, ..entry });
                }
            }
        }
    }

    /// Examine the socket at this time, or earlier.
    fn look_at(&mut self, socket: u64, at: Time) {
        let Some(owner) = self.sockets.get_mut(&socket) else { return };
        match owner.due {
            Some(due) if due <= at => return,
            Some(due) => {
                self.due.remove(&(due, socket));
            }
            None => {}
        }
        owner.due = Some(at);
        self.due.insert((at, socket));
    }

    /// Reserve room for `count` more entries; `false` if there is none.
    fn reserve(&mut self, app: AppId, count: usize) -> bool {
        while self.entries + count > self.limits.entries && self.make_room() {}
        let own = self.each_app.entry(app).or_default();
        if self.entries + count > self.limits.entries || *own + count > self.limits.each_app {
            self.stats.refused += count as u64;
            return false;
        }
        *own += count;
        self.entries += count;
        self.stats.added += count as u64;
        true
    }

    fn give_back(&mut self, app: AppId, count: usize) {
        self.entries = self.entries.saturating_sub(count);
        self.stats.deleted += count as u64;
        if let Some(own) = self.each_app.get_mut(&app) {
            *own = own.saturating_sub(count);
            if *own == 0 {
                self.each_app.remove(&app);
            }
        }
    }

    /// Forget the closed socket that has the least time left.
    fn make_room(&mut self) -> bool {
        let is_closed = |socket: &u64| self.sockets.get(socket).is_some_and(|owner| owner.closing.is_some());
        let Some(socket) = self.due.iter().map(|(_, socket)| *socket).find(is_closed) else { return false };
        self.forget(socket);
        true
    }

    fn delete_exact(&mut self, key: &ExactKey, socket: u64) {
        let Some(entries) = self.exact.get_mut(key) else { return };
        let before = entries.len();
        entries.retain(|entry| entry.socket != socket);
        let gone = before - entries.len();
        if entries.is_empty() {
            self.exact.remove(key);
        }
        self.give_back(key.app, gone);
    }

    /// Delete the socket's entries for every peer. Connections that came in through it and are still open get their
    /// own.
    fn delete_broad(&mut self, socket: u64) {
        let claim = self.sockets.get_mut(&socket).and_then(|owner| owner.broad.take());
        let Some((key, _, mirrored)) = claim else { return };
        if let Some(groups) = self.broad.get_mut(&key) {
            let mut gone = 0;
            groups.retain(|group| {
                let is_it = group.socket == socket;
                gone += if is_it { group.entries.len() } else { 0 };
                !is_it
            });
            if groups.is_empty() {
                self.broad.remove(&key);
            }
            self.give_back(key.app, gone);
        }
        if mirrored {
            self.on_their_own(key);
        }
    }

    fn on_their_own(&mut self, key: BroadKey) {
        let children: Vec<u64> = self.accepted.get(&key).into_iter().flatten().copied().collect();
        for child in children {
            let Some(owner) = self.sockets.get(&child) else { continue };
            let (Some(flow), closing) = (owner.accepted, owner.closing) else { continue };
            if self.is_listened_to(key.app, &flow) {
                continue;
            }
            self.no_longer_accepted(child, key.app, &flow);
            self.for_one_flow(child, key.app, &flow, EntryDirection::Mirrored, closing);
            let own = self.exact.get_mut(&ExactKey::new(key.app, &flow));
            if let Some(entry) = own.and_then(|e| e.iter_mut().find(|e| e.socket == child)) {
                entry.closing = closing.is_some();
            }
        }
    }

    fn no_longer_accepted(&mut self, socket: u64, app: AppId, flow: &Flow) {
        let key = BroadKey::new(app, flow);
        if let Some(children) = self.accepted.get_mut(&key) {
            children.remove(&socket);
            if children.is_empty() {
                self.accepted.remove(&key);
            }
        }
        if let Some(owner) = self.sockets.get_mut(&socket) {
            owner.accepted = None;
        }
    }
}
