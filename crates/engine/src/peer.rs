//! The address and port of a peer, which a NAT in between may change at any time (RFC 3948, RFC 7296 section 2.23).
//!
//! Inbound, an authentic packet that is newer than all before it shows the place. A packet that is not authentic, or
//! could be an old packet sent again, shows nothing. Outbound, the association of the same pair follows, if both were
//! told to (`Outbound::follow`).

use crate::event::{Event, Events, PeerMoved};
use ipsec::Outer;
use sadb::InboundSa;
use std::net::IpAddr;

/// Note that an authentic packet came in `outer`; the newest one before it had the sequence number `before`.
#[cold]
pub(crate) fn notice(sa: &mut InboundSa, outer: &Outer, before: u64, events: &mut Events) {
    let Some(port) = outer.src_port else { return };
    // Only the newest packet moves the window's top. Without a window nothing tells it from one sent again.
    if sa.replay.top() <= before || sa.replay.size() == 0 {
        return;
    }
    let new = (outer.src, port);
    if let Some(old) = sa.notice(outer.src, port) {
        tell(sa, old, new, events);
    }
}

/// Report a move again that was reported and not answered. Events may be lost, and then nothing else would lead the
/// outbound half out of the wrong place. Call this about once a second.
pub(crate) fn remind(sa: &mut InboundSa, events: &mut Events) {
    if let Some((old, new)) = sa.still_to_follow() {
        tell(sa, old, new, events);
    }
}

fn tell(sa: &InboundSa, old: (IpAddr, u16), new: (IpAddr, u16), events: &mut Events) {
    let config = sa.config();
    events.push(Event::PeerMoved(PeerMoved {
        spi: sa.spi(),
        local: config.endpoints.local,
        old,
        new,
        follow: config.options.follow_peer,
        selectors: config.selectors,
    }));
}
