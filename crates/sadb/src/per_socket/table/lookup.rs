//! The lookup of what a packet gets.

use wire::{AppId, Flow, Time};

use super::PerSocket;
use crate::per_socket::entry::{Entry, EntryDirection};
use crate::per_socket::event;
use crate::per_socket::owner::{BroadKey, ExactKey};
use crate::spd::Decision;

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketDirection {
    /// A packet from this host.
    Out,
    /// A packet to this host.
    In,
}

impl PacketDirection {
    fn serves(self, direction: EntryDirection) -> bool {
        match direction {
            EntryDirection::Mirrored => true,
            EntryDirection::Outbound => self == PacketDirection::Out,
            EntryDirection::Inbound => self == PacketDirection::In,
        }
    }
}

impl PerSocket {
    /// The decision for a packet of this application; `None`: there is no entry for it. `socket` is the one that sent
    /// it, if that is known. An entry for exactly one flow is asked before one for every peer, and outbound it serves
    /// its own socket only. Each use of an entry with a time to live extends its time.
    pub fn decide(
        &mut self,
        way: PacketDirection,
        app: AppId,
        socket: Option<u64>,
        flow: &Flow,
        now: Time,
    ) -> Option<Decision> {
        let flow = event::canonical(flow);
        for at in [flow, event::from_anywhere(&flow)] {
            let Some(entries) = self.exact.get_mut(&ExactKey::new(app, &at)) else { continue };
            let entry = entries.iter_mut().find(|entry| {
                way.serves(entry.direction)
                    && entry.is_alive(now)
                    && (way == PacketDirection::In
                        || socket.map_or(!entry.closing, |socket| socket == entry.socket))
            });
            if let Some(entry) = entry {
                if entry.expires.is_some() && !entry.closing {
                    entry.expires = Some(now + self.limits.ttl);
                }
                return Some(entry.decision);
            }
        }
        self.of_every_peer(way, app, &flow).map(|entry| entry.decision)
    }

    /// Call `each` with the decision of every application that has an entry for inbound packets of this flow. The
    /// receiving socket is not known yet.
    pub fn arrivals(&self, flow: &Flow, now: Time, mut each: impl FnMut(AppId, Decision)) {
        let flow = event::canonical(flow);
        for at in [flow, event::from_anywhere(&flow)] {
            let range = ExactKey::new(AppId(0), &at)..=ExactKey::new(AppId(u16::MAX), &at);
            for (key, entries) in self.exact.range(range) {
                let entry =
                    entries.iter().find(|e| PacketDirection::In.serves(e.direction) && e.is_alive(now));
                if let Some(entry) = entry {
                    each(key.app, entry.decision);
                }
            }
        }
        let range = BroadKey::new(AppId(0), &flow)..=BroadKey::new(AppId(u16::MAX), &flow);
        for (key, _) in self.broad.range(range) {
            if let Some(entry) = self.of_every_peer(PacketDirection::In, key.app, &flow) {
                each(key.app, entry.decision);
            }
        }
    }

    fn of_every_peer(&self, way: PacketDirection, app: AppId, flow: &Flow) -> Option<&Entry> {
        let groups = self.broad.get(&BroadKey::new(app, flow))?;
        groups.iter().filter(|group| group.reaches(flow)).find_map(|group| {
            group.entries.iter().find(|entry| way.serves(entry.direction) && entry.selector.matches(flow))
        })
    }
}
