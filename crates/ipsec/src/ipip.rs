//! IP in IP as a member of a bundle (RFC 2003, RFC 2473; RFC 4301 section 4.1): a tunnel without a key, whose packets
//! are taken only out of an association that has one.

use crate::frame::{self, Layout};
use crate::opened::Opened;
use crate::proof::InnerProof;
use crate::restore;
use crate::udp_encap::Outer;
use sadb::{InboundSa, Mode, OutboundSa};
use wire::stage::Scheduled;
use wire::{DropReason, Packet, protocol};

/// Put the tunnel's IP header in front of an outbound packet.
pub(crate) fn wrap(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
) -> Result<(), DropReason> {
    if sa.config().mode != Mode::Tunnel {
        return Err(DropReason::WrongProtocol);
    }
    let len = packet.bytes().len();
    let inner = frame::read(sa.config(), packet.bytes_mut())?;
    let layout = Layout::new(sa.config(), &inner, len, 0, |_| 0)?;
    frame::check_df(sa.config(), packet, &layout, limit)?;
    layout.check_room(packet)?;
    let now = packet.meta.received;
    sa.check_lifetime(now, len)?;
    // No sequence number: the identification of what may be fragmented counts packets.
    layout.open_front(sa, packet, &inner, inner.next_header)?;
    sa.counters.carried(now, len);
    Ok(())
}

/// Inbound, also for an IPComp association in tunnel mode whose peer did not compress (RFC 3173 section 2.2).
pub(crate) fn unwrap(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    outer: &Outer,
) -> Result<InnerProof, DropReason> {
    if !matches!(outer.protocol, protocol::IPV4 | protocol::IPV6) || sa.config().mode != Mode::Tunnel {
        return Err(DropReason::WrongProtocol);
    }
    let opened = Opened {
        outer,
        payload: outer.at,
        len: outer.end - outer.at,
        next_header: outer.protocol,
        wrong: DropReason::IpIpHeader,
    };
    restore::restore(sa, packet, &opened)?;
    restore::account(sa, packet, outer, 0)
}
