//! What waits behind cryptography in the inbound half, and what a job has opened. The steps are in `results.rs`.

use qos::Amount;

use super::delivery::{Delivery, change_tos};
use super::outcome::InboundOutcome;
use crate::queued::CopiedPacket;

/// The packets for the host of one job, which wait behind cryptography in one place.
pub(super) struct Opened {
    pub(super) delivery: Delivery,
    /// The outcomes while packets are copied, with the copies, whose places count from the first one.
    pub(super) outcomes: Vec<InboundOutcome>,
    pub(super) copies: Vec<CopiedPacket>,
    /// The place in the order in which jobs were opened.
    pub(super) order: u64,
}

/// What is collected of a job until it is offered.
#[derive(Default)]
pub(super) struct Collected {
    /// Whether components hang at hooks 4 or 2, or headers are to be marked.
    pub(super) is_wanted: bool,
    /// The number of places that are taken by what waits behind cryptography.
    pub(super) waiting: usize,
    /// The amount that the job had.
    pub(super) amount: Amount,
    /// Deliveries with nothing in them, for the next jobs.
    pub(super) spare: Vec<Delivery>,
    /// The number of jobs that were offered.
    pub(super) offered: u64,
}

impl Collected {
    /// Nothing is collected; `is_wanted`: components hang at hooks 4 or 2, or headers are to be marked.
    pub(super) fn new(is_wanted: bool) -> Collected {
        Collected { is_wanted, ..Collected::default() }
    }

    /// What waits in the graph before waits here too.
    pub(super) fn adopt(&mut self, before: Collected) {
        (self.waiting, self.spare, self.offered) = (before.waiting, before.spare, before.offered);
    }

    /// A delivery for the packets of a job, if they do not leave at once.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<Delivery> {
        self.is_wanted.then(|| self.spare.pop().unwrap_or_default())
    }

    /// Note so much work, which has left cryptography. Returns whether it goes on to queues behind.
    #[inline]
    pub(super) fn note(&mut self, done: Amount) -> bool {
        if self.is_wanted {
            let Amount { packets, octets, ns } = &mut self.amount;
            *packets += done.packets;
            *octets += done.octets;
            *ns = ns.saturating_add(done.ns);
        }
        self.is_wanted
    }
}

impl Opened {
    /// The octets that count for the room of what is long: those of buffers of full size, whatever is in them.
    pub(super) fn octets(&self) -> usize {
        let capacity = |outcome: &InboundOutcome| match outcome {
            InboundOutcome::Deliver(packet, _) => packet.buf().capacity(),
            InboundOutcome::Drop(_) => 0,
        };
        let capacities = self.delivery.capacities().chain(self.outcomes.iter().map(capacity));
        capacities.filter(|capacity| *capacity >= crate::BUF_CAPACITY).sum()
    }

    /// Write what components noted into the headers: another DSCP, and that packets which can be told so met congestion
    /// (RFC 3168).
    pub(super) fn write_marks(&mut self, meta: &qos::Meta) {
        if !meta.is_marked && meta.ecn & 3 != 3 {
            return;
        }
        let change = |tos: u8| meta.marked_tos(tos);
        self.delivery.change_tos(change);
        for outcome in &mut self.outcomes {
            if let InboundOutcome::Deliver(packet, _) = outcome {
                change_tos(packet.bytes_mut(), change);
            }
        }
    }
}
