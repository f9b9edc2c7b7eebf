//! What is known of a packet whose outer headers were read, and of its association, before it is opened.

use ipsec::Outer;
use sadb::InboundSa;
use wire::Packet;
use wire::ipv6::Ipv6;

use crate::stats::About;

/// What is known of a packet and its association before it is opened.
pub(super) struct Before {
    pub(super) about: About,
    /// The number of octets of the outer packet.
    pub(super) len: usize,
    /// The peer is where the association says.
    pub(super) is_settled: bool,
    /// The highest sequence number that was accepted.
    pub(super) top: u64,
}

impl Before {
    #[inline]
    pub(super) fn of<S>(sa: &InboundSa, packet: &Packet<S>, outer: &Outer) -> Before {
        Before {
            about: about(packet, outer),
            len: packet.bytes().len(),
            is_settled: sa.is_settled(outer.src, outer.src_port.unwrap_or_default()),
            top: sa.replay.top(),
        }
    }
}

/// The facts for a drop record about a packet whose outer headers were read.
pub(super) fn about<S>(packet: &Packet<S>, outer: &Outer) -> About {
    // Nothing is proved of it, as of the addresses.
    let flow_label = Ipv6::new_checked(packet.bytes()).map_or(0, |ip| ip.flow_label());
    About { outer: Some((outer.src, outer.dst)), flow_label, ..About::of(&packet.meta) }
}
