//! Where a peer is: a NAT in between may give it another address or port at any time (RFC 3948, RFC 7296 section 2.23).
//!
//! Inbound, an authentic packet that is newer than all before it shows the place; what is not authentic, or could be an old
//! packet sent again, shows nothing. Outbound, the association of the same pair follows, if both were told to.

use crate::event::{Event, Events, PeerMoved};
use crate::outbound::Outbound;
use ipsec::Outer;
use sadb::sa::Encapsulation;
use sadb::{InboundSa, OutboundSa, SaIndex};

/// An authentic packet came in `outer`; the newest before it had the sequence number `before`.
#[cold]
pub(crate) fn notice(sa: &mut InboundSa, outer: &Outer, before: u64, events: &mut Events) {
    let Some(port) = outer.src_port else { return };
    // Only the newest packet moves the window's top. Without a window nothing tells it from one sent again.
    if sa.replay.top() <= before || sa.replay.size() == 0 {
        return;
    }
    let selectors = sa.config().selectors;
    if let Some(old) = sa.notice(outer.src, port) {
        events.push(Event::PeerMoved(PeerMoved {
            spi: sa.spi(),
            local: sa.config().endpoints.local,
            old,
            new: (outer.src, port),
            follow: sa.config().options.follow_peer,
            selectors,
        }));
    }
}

impl Outbound {
    /// Send to where the peer is now: every association of the pair that moved, if it follows its peer. How many do.
    pub fn follow(&mut self, moved: &PeerMoved) -> usize {
        if !moved.follow {
            return 0;
        }
        let of_pair = |sa: &OutboundSa| {
            let (config, ends) = (sa.config(), &sa.config().endpoints);
            config.options.encapsulation == Encapsulation::Udp
                && ends.local == moved.local
                && ends.remote == moved.old.0
                && (moved.old.1 == 0 || ends.remote_port == moved.old.1)
                && config.selectors == moved.selectors
                && (ends.remote, ends.remote_port) != moved.new
        };
        let found: Vec<SaIndex> =
            self.sad.list().filter(|(_, sa)| of_pair(sa)).map(|(index, _)| index).collect();
        let (remote, port) = moved.new;
        // One that does not follow, or would come to have another's name, stays where it is.
        found.into_iter().filter(|index| self.sad.move_peer(*index, remote, port).is_ok()).count()
    }
}
