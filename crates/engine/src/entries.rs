//! The paper's own translation (paper 000 section 3.4; docs/design/0011): entries that sockets' events made decide, not
//! the compiled policy. The table is [`sadb::per_socket`]; this module holds the packets that come before the event of
//! their socket.

use std::collections::VecDeque;
use std::time::Duration;

use sadb::spd::Action;
use sadb::{EntryLimits, PerSocket};
use wire::stage::Inner;
use wire::{DropReason, Flow, Packet, Services, Time, protocol};

/// The largest number of packets that wait for an entry.
const PACKETS: usize = 512;
/// The largest number of packets of one socket that wait.
const EACH: usize = 32;
/// The time that a packet waits. An event takes well below a millisecond unless it was lost.
const AGE: Duration = Duration::from_secs(2);

/// The entries of the outbound half, and the packets that wait for one.
pub(crate) struct Entries {
    pub table: PerSocket,
    waiting: VecDeque<Packet<Inner>>,
    /// The table's version when the waiting packets were last examined.
    seen: u64,
    /// The number of packets that waited and then had an entry.
    pub caught_up: u64,
}

impl Entries {
    pub fn new(spd: std::sync::Arc<sadb::spd::Spd>, limits: EntryLimits) -> Entries {
        Entries { table: PerSocket::new(spd, limits), waiting: VecDeque::new(), seen: 0, caught_up: 0 }
    }

    /// The number of packets that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Let a packet wait; it is given back if there is no room.
    pub fn push(&mut self, packet: Packet<Inner>) -> Result<(), Packet<Inner>> {
        let own = self.waiting.iter().filter(|other| other.meta.cookie == packet.meta.cookie).count();
        if self.waiting.len() >= PACKETS || own >= EACH {
            return Err(packet);
        }
        self.waiting.push_back(packet);
        Ok(())
    }

    /// All waiting packets in order, if the entries changed since they were last examined.
    pub fn take_all(&mut self) -> VecDeque<Packet<Inner>> {
        let version = self.table.version();
        if self.waiting.is_empty() || self.seen == version {
            return VecDeque::new();
        }
        self.seen = version;
        std::mem::take(&mut self.waiting)
    }

    /// Let a packet wait again, behind those that wait already.
    pub fn put_back(&mut self, packet: Packet<Inner>) {
        self.waiting.push_back(packet);
    }

    /// Remove the packets that waited too long, and return them.
    pub fn late(&mut self, now: Time) -> Vec<Packet<Inner>> {
        let mut out = Vec::new();
        while self.waiting.front().is_some_and(|packet| now.since(packet.meta.received) >= AGE) {
            out.extend(self.waiting.pop_front());
        }
        out
    }
}

/// Check an inbound packet behind the rules: if entries are for it, it must have the services that one of them demands.
/// A packet that no entry is for belongs to no application that is known here. The kernel half, which knows the socket,
/// asks the policy of that socket's application.
pub(crate) fn accept(
    table: Option<&PerSocket>,
    flow: &Flow,
    services: Services,
    now: Time,
) -> Result<(), DropReason> {
    let Some(table) = table else { return Ok(()) };
    if !matches!(flow.protocol, protocol::TCP | protocol::UDP) {
        return Ok(());
    }
    let (mut any, mut good) = (false, false);
    table.arrivals(flow, now, |_, decision| {
        any = true;
        good |= match decision.action {
            Action::Protect { services: need, .. } => services.satisfies(need),
            // The socket may have asked for protection itself: the kernel half knows.
            Action::Bypass => true,
            Action::Discard => false,
        };
    });
    if any && !good { Err(DropReason::InboundPolicy) } else { Ok(()) }
}
