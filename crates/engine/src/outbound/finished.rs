//! What waits behind cryptography in the outbound half, and what a turn has finished. The steps are in `results.rs`.

use super::outcome::Outcome;
use crate::queued::{CopiedPacket, Wait};

/// Outcomes that wait behind cryptography in one place.
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    /// Outcomes of the same packet, such as its further IP fragments.
    pub(super) more: Vec<Outcome>,
    /// The copies of their packets, for those who capture.
    pub(super) copies: Vec<CopiedPacket>,
}

impl Wait for Finished {
    fn octets(&self) -> usize {
        octets(&self.outcome)
    }
}

impl Finished {
    pub(super) fn outcomes(self) -> impl Iterator<Item = Outcome> {
        std::iter::once(self.outcome).chain(self.more)
    }
}

/// What is collected of a turn until it is offered.
#[derive(Default)]
pub(super) struct Collected {
    /// Whether components hang at hooks 4 or 2, or outer headers are to be marked.
    pub(super) is_wanted: bool,
    /// The number of places that are taken by what waits behind cryptography.
    pub(super) waiting: usize,
    /// What is known of the packets whose outcomes are not offered yet, all of one class.
    pub(super) packets: Vec<qos::Meta>,
    /// Outcomes on their way into the queues; empty between calls.
    pub(super) outcomes: Vec<Outcome>,
}

impl Collected {
    /// Nothing is collected; `is_wanted`: components hang at hooks 4 or 2, or outer headers are to be marked.
    pub(super) fn new(is_wanted: bool) -> Collected {
        Collected { is_wanted, ..Collected::default() }
    }

    /// What waits in the graph before waits here too.
    pub(super) fn adopt(&mut self, before: Collected) {
        self.waiting = before.waiting;
    }

    /// A place is free, since what was there has left or ended.
    pub(super) fn free(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Whether what is collected is of another class, association or mark than this packet, and is to be offered first.
    #[inline]
    pub(super) fn is_of_others(&self, meta: &qos::Meta) -> bool {
        self.packets.last().is_some_and(|last| {
            (last.aggregate, last.association, last.dscp) != (meta.aggregate, meta.association, meta.dscp)
        })
    }

    /// Note a packet that has left cryptography. Its outcomes are offered with the next ones of its class.
    #[inline]
    pub(super) fn note(&mut self, meta: &qos::Meta) {
        self.packets.push(*meta);
    }
}

/// The octets of what goes to the wire.
fn octets(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Send(packet) => packet.bytes().len(),
        Outcome::Clear(packet) => packet.bytes().len(),
        Outcome::Burst(burst) => burst.bytes().len(),
        Outcome::Reply(..) | Outcome::Held(_) | Outcome::Drop(_) => 0,
    }
}
