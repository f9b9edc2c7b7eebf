//! The ends of a packet's way through the outbound half: what its caller does with it.

use crate::stats::Dropped;
use wire::stage::{Admitted, Outer, Selected};
use wire::{AcquireId, Buf, Burst, Meta, Packet, Services, record};

/// The result of handling an outbound packet, or a part of it.
#[derive(Debug)]
pub enum Outcome {
    /// The packet is for the wire, protected.
    Send(Packet<Outer>),
    /// Many protected packets of one association are for the wire. Only an engine that
    /// [gathers](crate::Outbound::gathering) returns this.
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

impl From<Dropped> for Outcome {
    fn from(dropped: Dropped) -> Outcome {
        Outcome::Drop(dropped)
    }
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
