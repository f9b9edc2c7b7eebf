//! Decisions by entries of sockets, where the engine translates as the paper does.

use std::collections::VecDeque;
use std::sync::Arc;

use sadb::per_socket::PacketDirection;
use sadb::spd::{Decision, Spd};
use sadb::{EntryLimits, PerSocket};
use wire::stage::Inner;
use wire::{Flow, Meta, Packet, Time};

use super::Decider;
use crate::entries::Entries;

impl Decider {
    /// Decide by entries of sockets from now on, for every application that has a policy.
    pub(in crate::outbound) fn translate_per_socket(&mut self, limits: EntryLimits) {
        self.entries = Some(Box::new(Entries::new(Arc::clone(&self.spd), limits)));
    }

    /// The entries; `None`: the compiled policy decides.
    pub(in crate::outbound) fn entries(&self) -> Option<&PerSocket> {
        self.entries.as_ref().map(|entries| &entries.table)
    }

    /// The number of packets that wait for an entry now, and of those that waited and then had one.
    pub(in crate::outbound) fn held_for_entries(&self) -> (usize, u64) {
        self.entries.as_ref().map_or((0, 0), |entries| (entries.len(), entries.caught_up))
    }

    /// Change the table of entries, and forget routes if that changed a decision.
    pub(in crate::outbound) fn change_entries(&mut self, change: impl FnOnce(&mut PerSocket)) {
        let Some(entries) = &mut self.entries else { return };
        let before = entries.table.version();
        change(&mut entries.table);
        if entries.table.version() != before {
            // What is remembered of flows may be of entries that are gone.
            self.policy_generation += 1;
        }
    }

    pub(super) fn translate_again(&mut self, spd: &Arc<Spd>) {
        self.change_entries(|table| table.set_policy(Arc::clone(spd)));
    }

    /// The decision of the packet's application for the flow, by its entry if the engine translates that way. `None`:
    /// there is no entry yet.
    #[inline]
    pub(super) fn verdict(&mut self, meta: &Meta, flow: &Flow) -> Option<Decision> {
        match &mut self.entries {
            Some(entries) if self.spd.get(meta.app).is_some() => {
                let socket = (meta.cookie != 0).then_some(meta.cookie);
                entries.table.decide(PacketDirection::Out, meta.app, socket, flow, meta.received)
            }
            _ => Some(self.spd.decide(meta.app, flow)),
        }
    }

    /// Let the packet wait for its entry. It is given back where there is no room.
    #[cold]
    pub(in crate::outbound) fn await_entry(&mut self, packet: Packet<Inner>) -> Option<Packet<Inner>> {
        match &mut self.entries {
            Some(entries) => entries.push(packet).err(),
            None => Some(packet),
        }
    }

    /// Whether packets wait for an entry.
    #[inline]
    pub(in crate::outbound) fn awaits_entries(&self) -> bool {
        self.entries.as_ref().is_some_and(|entries| entries.len() > 0)
    }

    /// All packets that wait for an entry in order, if the entries changed since this was last asked.
    pub(in crate::outbound) fn take_waiting(&mut self) -> VecDeque<Packet<Inner>> {
        self.entries.as_mut().map(|entries| entries.take_all()).unwrap_or_default()
    }

    /// The packet with the time `now`, if it has an entry by now. Otherwise it waits again.
    pub(in crate::outbound) fn take_if_entered(
        &mut self,
        now: Time,
        mut packet: Packet<Inner>,
        flow: &Flow,
    ) -> Option<Packet<Inner>> {
        let meta = Meta { received: now, ..packet.meta };
        let has_entry = self.verdict(&meta, flow).is_some();
        let Some(entries) = &mut self.entries else { return Some(packet) };
        if has_entry {
            entries.caught_up += 1;
            packet.meta.received = now;
            Some(packet)
        } else {
            entries.put_back(packet);
            None
        }
    }

    /// Delete entries that nobody used, and return the packets whose entry did not come.
    pub(in crate::outbound) fn expire_entries(&mut self, now: Time) -> Vec<Packet<Inner>> {
        if self.entries.is_none() {
            return Vec::new();
        }
        self.change_entries(|table| table.expire(now));
        // So that an entry which is in use is asked again, and lives on.
        self.policy_generation += 1;
        self.entries.as_mut().map(|entries| entries.late(now)).unwrap_or_default()
    }
}
