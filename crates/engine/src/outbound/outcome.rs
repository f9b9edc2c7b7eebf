//! The ends of a packet's way through the outbound half: what its caller does with it.

use crate::tally::{About, Dropped, Tally};
use wire::stage::{Admitted, Inner, Outer, Selected};
use wire::{AcquireId, Buf, Burst, DropReason, Flow, Meta, Packet, Pool, Services, record};

/// The result of handling an outbound packet, or a part of it.
#[derive(Debug)]
pub enum Outcome {
    /// The packet is for the wire, protected.
    Send(Packet<Outer>),
    /// Many protected packets of one association are for the wire. Only an engine that [gathers](crate::Outbound::gathering)
    /// returns this.
    Burst(Burst<Outer>),
    /// The packet is for the wire as it is: policy lets it pass in clear.
    Clear(Packet<Selected>),
    /// An ICMP error about the packet is for the host, through the TUN with this mark. The packet is reported as
    /// dropped as well.
    Reply(Packet<Admitted>, u32),
    /// The packet waits for an association, behind this acquire; number 0 means that it waits for an entry of its
    /// socket.
    Held(AcquireId),
    /// The packet was dropped.
    Drop(Dropped),
}

/// The error for the sender of a packet, with the mark that it carries.
pub(super) fn reply(error: Buf, about: &Meta, services: Services) -> Outcome {
    let mut mark = crate::mark(services, about.app);
    // For a program of this host: the kernel half lets no such answer go to another one.
    if about.mark & record::FORWARDED == 0 {
        mark |= record::STAMPED;
    }
    let meta = Meta { received: about.received, app: about.app, mark, services, ..Meta::default() };
    Outcome::Reply(Packet::made_for_host(error, meta), mark)
}

/// Let a packet out in clear, counted.
pub(super) fn release(tally: &mut Tally, packet: Packet<Inner>, out: &mut Vec<Outcome>) {
    tally.clear.count(packet.bytes().len());
    out.push(Outcome::Clear(packet.advance()));
}

/// Drop the packet, and give its buffer back.
#[cold]
pub(super) fn end<S>(
    tally: &mut Tally,
    packet: Packet<S>,
    reason: DropReason,
    flow: Option<&Flow>,
    pool: &mut Pool,
    out: &mut Vec<Outcome>,
) {
    let dropped = Dropped::new(reason, &About::of(&packet.meta), packet.bytes().len(), flow);
    tally.dropped(dropped);
    out.push(Outcome::Drop(dropped));
    pool.put(packet.into_buf());
}
