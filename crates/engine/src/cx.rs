//! The context of a call into one half of the engine: where its outcomes go, the buffers, the counters and the events.
//!
//! A half consists of the stages, which keep the state, and of what every stage adds to. The second part is lent to the
//! stages as one [`Cx`] for the length of a call. The time is not in it: every packet carries the time at which it came
//! ([`wire::Meta::received`]), and verbs that are not about a packet are told it.

use wire::{DropReason, Flow, Packet, Pool, Time};

use crate::event::Events;
use crate::stats::{About, Dropped, Stats};

/// The context of a call whose outcomes are of the kind `O`.
pub(crate) struct Cx<'a, O> {
    /// The pool that buffers come from and go back to.
    pub pool: &'a mut Pool,
    /// The outcomes, in the order in which they come about.
    pub out: &'a mut Vec<O>,
    /// The counters of the half.
    pub stats: &'a mut Stats,
    /// The events of the half for key managers.
    pub events: &'a mut Events,
}

impl<O: From<Dropped>> Cx<'_, O> {
    /// Count and report a drop whose buffer is not here any more.
    #[inline]
    pub fn report(&mut self, dropped: Dropped) {
        self.stats.dropped(dropped);
        self.out.push(dropped.into());
    }

    /// Drop the packet, and give its buffer back.
    #[cold]
    pub fn discard<S>(&mut self, packet: Packet<S>, reason: DropReason, flow: Option<&Flow>) {
        self.report(Dropped::new(reason, &About::of(&packet.meta), packet.bytes().len(), flow));
        self.pool.put(packet.into_buf());
    }

    /// Count and report the packets of a job that its unit has not answered, in the name of the first.
    #[cold]
    pub fn lose_job(&mut self, now: Time, meta: &qos::Meta) {
        let about = About { at: now, spi: meta.spi, app: meta.app, ..About::default() };
        let octets = usize::try_from(meta.amount.octets).unwrap_or(usize::MAX);
        self.report(Dropped::new(DropReason::UnitFailed, &about, octets, None));
        self.stats.lost(DropReason::UnitFailed, meta.amount.packets.saturating_sub(1));
    }

    /// Drop a packet that waited in a queue, and give its buffer back.
    #[cold]
    pub fn discard_queued<S>(&mut self, packet: Packet<S>, reason: DropReason, outbound: bool) {
        let headers = wire::ip::Headers::parse(packet.bytes()).ok();
        let flow = headers.map(|headers| wire::ip::flow(packet.bytes(), &headers, outbound));
        self.discard(packet, reason, flow.as_ref());
    }
}
