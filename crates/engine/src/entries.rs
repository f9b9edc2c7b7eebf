//! The paper's own translation (paper 000 section 3.4; docs/design/0011): entries that sockets' events made decide, not the
//! compiled policy. The table is [`sadb::per_socket`]; here are the packets that are faster than the event of their socket.

use std::collections::VecDeque;
use std::time::Duration;

use sadb::spd::Action;
use sadb::{EntryLimits, PerSocket};
use wire::stage::Inner;
use wire::{DropReason, Flow, Packet, Services, Time, protocol};

/// Packets that wait for an entry, in all.
const PACKETS: usize = 512;
/// Of one socket.
const EACH: usize = 32;
/// How long a packet waits: an event takes well below a millisecond unless it was lost.
const AGE: Duration = Duration::from_secs(2);

/// The outbound half's entries.
pub(crate) struct Entries {
    pub table: PerSocket,
    waiting: VecDeque<Packet<Inner>>,
    /// The table's state when those that wait were last looked through.
    seen: u64,
    /// Packets that waited and then had an entry.
    pub caught_up: u64,
}

impl Entries {
    pub fn new(spd: std::sync::Arc<sadb::spd::Spd>, limits: EntryLimits) -> Entries {
        Entries { table: PerSocket::new(spd, limits), waiting: VecDeque::new(), seen: 0, caught_up: 0 }
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Let a packet wait; given back if there is no room.
    pub fn push(&mut self, packet: Packet<Inner>) -> Result<(), Packet<Inner>> {
        let own = self.waiting.iter().filter(|other| other.meta.cookie == packet.meta.cookie).count();
        if self.waiting.len() >= PACKETS || own >= EACH {
            return Err(packet);
        }
        self.waiting.push_back(packet);
        Ok(())
    }

    /// All that wait, in order, if the entries are not what they were when they began to.
    pub fn take_all(&mut self) -> VecDeque<Packet<Inner>> {
        let version = self.table.version();
        if self.waiting.is_empty() || self.seen == version {
            return VecDeque::new();
        }
        self.seen = version;
        std::mem::take(&mut self.waiting)
    }

    /// A packet goes on waiting, behind those that do already.
    pub fn put_back(&mut self, packet: Packet<Inner>) {
        self.waiting.push_back(packet);
    }

    /// Those that waited too long.
    pub fn late(&mut self, now: Time) -> Vec<Packet<Inner>> {
        let mut out = Vec::new();
        while self.waiting.front().is_some_and(|packet| now.since(packet.meta.received) >= AGE) {
            out.extend(self.waiting.pop_front());
        }
        out
    }
}

/// Inbound, behind the rules: a packet that entries are for must have had what one of them demands. One that no entry is for is
/// no application's as far as is known here: the kernel half, which knows the socket, asks that one's policy.
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
