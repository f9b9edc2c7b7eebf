//! What waits behind cryptography in the outbound half, and what a turn has finished. The steps are in `results.rs`.

use qos::Amount;
use wire::Time;

use super::outcome::Outcome;
use crate::queued::{CopiedPacket, Wait, WaitStage};

/// Outcomes that wait behind cryptography in one place.
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    /// Outcomes of the same packet, such as its further IP fragments.
    pub(super) more: Vec<Outcome>,
    /// The copies of their packets, for those who capture.
    pub(super) copies: Vec<CopiedPacket>,
    /// The place in the order in which outcomes were finished.
    pub(super) order: u64,
}

impl Wait for Finished {
    fn octets(&self) -> usize {
        // A buffer of full size counts as such, whatever is in it.
        if capacity(&self.outcome) < crate::BUF_CAPACITY { 0 } else { crate::BUF_CAPACITY }
    }

    fn stage(&self) -> WaitStage {
        WaitStage::Behind
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
    /// Whether components hang at hooks 4 or 2, which may tell flows apart.
    is_by_flow: bool,
    /// The number of outcomes that were offered.
    offered: u64,
    /// The number of places that are taken by what waits behind cryptography.
    pub(super) waiting: usize,
    /// What is known of the packets whose outcomes are not offered yet, all of one class.
    pub(super) packets: Vec<qos::Meta>,
    /// Outcomes on their way into the queues; empty between calls.
    pub(super) outcomes: Vec<Outcome>,
}

impl Collected {
    /// A state in which nothing is collected. `is_by_flow`: components hang at hooks 4 or 2; `marks`: outer headers are to
    /// be marked.
    pub(super) fn new(is_by_flow: bool, marks: bool) -> Collected {
        Collected { is_wanted: is_by_flow || marks, is_by_flow, ..Collected::default() }
    }

    /// The place of the next outcome in the order in which they were finished.
    pub(super) fn next_order(&mut self) -> u64 {
        self.offered += 1;
        self.offered
    }

    /// What waits in the graph before waits here too.
    pub(super) fn adopt(&mut self, before: Collected) {
        (self.waiting, self.offered) = (before.waiting, before.offered);
    }

    /// A place is free, since what was there has left or ended.
    pub(super) fn free(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Whether what is collected differs from this packet in what a component may ask for, and is to be offered first.
    #[inline]
    pub(super) fn is_of_others(&self, meta: &qos::Meta) -> bool {
        self.packets.last().is_some_and(|last| self.differ(last, meta))
    }

    /// Whether a component behind cryptography may tell these packets apart.
    #[inline]
    pub(super) fn differ(&self, one: &qos::Meta, other: &qos::Meta) -> bool {
        let asked = |of: &qos::Meta| {
            let of = qos::Meta { arrived: Time::default(), amount: Amount::default(), ..*of };
            match self.is_by_flow {
                true => of,
                // A marker looks at class and colour alone.
                false => qos::Meta { flow: 0, source: 0, destination: 0, ports: [0; 2], protocol: 0, ..of },
            }
        };
        self.is_wanted && asked(one) != asked(other)
    }

    /// Note a packet that has left cryptography. Its outcomes are offered with the next ones of its class.
    #[inline]
    pub(super) fn note(&mut self, meta: &qos::Meta) {
        self.packets.push(*meta);
    }
}

/// The octets of the buffer of what goes to the wire.
fn capacity(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Send(packet) => packet.buf().capacity(),
        Outcome::Clear(packet) => packet.buf().capacity(),
        Outcome::Burst(burst) => burst.capacity(),
        Outcome::Reply(..) | Outcome::Held(_) | Outcome::Drop(_) => 0,
    }
}
