//! Decisions by entries of sockets, where the engine translates as the paper does.

use std::sync::Arc;

use sadb::per_socket::PacketDirection;
use sadb::spd::{Decision, Spd};
use sadb::{EntryLimits, PerSocket, SocketEvent};
use wire::ip::{self, Headers};
use wire::stage::Inner;
use wire::{AcquireId, DropReason, Flow, Meta, Packet, Pool, Time};

use super::Outbound;
use super::course::final_flow;
use super::outcome::{Outcome, end};
use crate::entries::Entries;

impl Outbound {
    /// Decide by the entries that sockets' events make ([`Outbound::socket_events`]), for every application that has a
    /// policy. A packet without an entry waits a while for the event of its socket, and is dropped if none comes.
    pub fn translating_per_socket(mut self, limits: EntryLimits) -> Outbound {
        self.entries = Some(Box::new(Entries::new(Arc::clone(&self.spd), limits)));
        self
    }

    /// Apply what sockets did, in order. [`Outbound::release`] must come next.
    pub fn socket_events(&mut self, events: &[SocketEvent]) {
        self.change_entries(|table| events.iter().for_each(|event| table.apply(event)));
    }

    /// Say which sockets exist, where events may have been lost: see [`PerSocket::retain`].
    pub fn retain_sockets(&mut self, now: Time, as_of: Time, is_open: impl FnMut(u64) -> bool) {
        self.change_entries(|table| table.retain(now, as_of, is_open));
    }

    /// The entries; `None`: the compiled policy decides.
    pub fn entries(&self) -> Option<&PerSocket> {
        self.entries.as_ref().map(|entries| &entries.table)
    }

    /// The number of packets that wait for an entry now, and of those that waited and then had one.
    pub fn held_for_entries(&self) -> (usize, u64) {
        self.entries.as_ref().map_or((0, 0), |entries| (entries.len(), entries.caught_up))
    }

    pub(super) fn change_entries(&mut self, change: impl FnOnce(&mut PerSocket)) {
        let Some(entries) = &mut self.entries else { return };
        let before = entries.table.version();
        change(&mut entries.table);
        if entries.table.version() != before {
            // What is remembered of flows may be of entries that are gone.
            self.loads += 1;
        }
    }

    pub(super) fn translate_again(&mut self, spd: &Arc<Spd>) {
        self.change_entries(|table| table.set_policy(Arc::clone(spd)));
    }

    /// The decision of the packet's application for the flow, by its entry if the engine translates that way. `None`:
    /// there is no entry yet.
    #[inline]
    pub(super) fn verdict(&mut self, now: Time, meta: &Meta, flow: &Flow) -> Option<Decision> {
        match &mut self.entries {
            Some(entries) if self.spd.get(meta.app).is_some() => {
                let socket = (meta.cookie != 0).then_some(meta.cookie);
                entries.table.decide(PacketDirection::Out, meta.app, socket, flow, now)
            }
            _ => Some(self.spd.decide(meta.app, flow)),
        }
    }

    /// Let the packet wait for its entry, or drop it where there is no room.
    #[cold]
    pub(super) fn await_entry(
        &mut self,
        mut packet: Packet<Inner>,
        joined: Option<u32>,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        packet.meta.may_fragment |= joined.is_some();
        let Some(entries) = &mut self.entries else {
            return end(&mut self.tally, packet, DropReason::NoEntry, Some(flow), pool, out);
        };
        match entries.push(packet) {
            Ok(()) => out.push(Outcome::Held(AcquireId(0))),
            Err(packet) => end(&mut self.tally, packet, DropReason::NoEntry, Some(flow), pool, out),
        }
    }

    /// Send on the packets that have an entry by now, in the order in which they came.
    #[inline]
    pub(super) fn release_entered(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        if self.entries.as_ref().is_some_and(|entries| entries.len() > 0) {
            self.release_those_that_wait(now, pool, out);
        }
    }

    #[cold]
    fn release_those_that_wait(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let waiting = self.entries.as_mut().map(|entries| entries.take_all()).unwrap_or_default();
        for mut packet in waiting {
            let headers = match Headers::parse(packet.bytes()) {
                Ok(headers) => headers,
                Err(error) => {
                    end(&mut self.tally, packet, error.into(), None, pool, out);
                    continue;
                }
            };
            let flow = final_flow(packet.bytes(), &headers);
            let is_there = self.verdict(now, &packet.meta, &flow).is_some();
            let Some(entries) = &mut self.entries else { return pool.put(packet.into_buf()) };
            if is_there {
                entries.caught_up += 1;
                packet.meta.received = now;
                self.dispatch(packet, &headers, None, pool, out);
            } else {
                entries.put_back(packet);
            }
        }
    }

    /// Delete entries that nobody used, and drop packets whose entry did not come.
    pub(super) fn expire_entries(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        if self.entries.is_none() {
            return;
        }
        self.change_entries(|table| table.expire(now));
        // So that an entry which is in use is asked again, and lives on.
        self.loads += 1;
        let late = self.entries.as_mut().map(|entries| entries.late(now)).unwrap_or_default();
        for packet in late {
            let headers = Headers::parse(packet.bytes()).ok();
            let flow = headers.map(|headers| ip::flow(packet.bytes(), &headers, true));
            end(&mut self.tally, packet, DropReason::NoEntry, flow.as_ref(), pool, out);
        }
    }
}
