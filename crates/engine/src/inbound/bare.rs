//! IP in IP that arrives bare, by protocol numbers 4 and 41 (paper 001 section 2.3: `ipe4_input` beside `esp_input` and
//! `ah_input`; RFC 2003, RFC 2473, RFC 4213).
//!
//! It proves nothing. So it is taken only from peers that the configuration names, where there is an IP-in-IP
//! association with them, and its content counts as a clear packet: the association's selectors must hold it, a rule
//! for inbound packets must let it pass in clear, and the kernel half judges it as it judges clear packets from the
//! wire. No scrubber sees it, since that would take its octets for those of a protected flow; a packet that should be
//! scrubbed is dropped. The content may be protected itself, and then has that proof.

use std::collections::BTreeSet;
use std::net::IpAddr;

use wire::ip::Headers;
use wire::stage::{Classed, Clean};
use wire::{Packet, checksum, protocol};

use super::outcome::InboundOutcome;
use super::{Inbound, Stages, about, admit, lend};
use crate::cx::Cx;
use crate::nest;
use crate::seam;
use crate::stats::Dropped;
use ipsec::Outer;

impl Inbound {
    /// Take IP in IP that arrives bare from these addresses, and from no others.
    pub fn take_tunnels_from(&mut self, peers: BTreeSet<IpAddr>) {
        self.stages.tunnels_from = peers;
    }
}

impl Stages {
    /// Whether this is such a packet. Without rules for inbound packets nobody has said that its content may be clear.
    #[inline]
    pub(super) fn takes_bare(&self, headers: &Headers) -> bool {
        matches!(headers.protocol, protocol::IPV4 | protocol::IPV6)
            && self.rules.is_some()
            && self.tunnels_from.contains(&headers.src)
    }

    /// Stages 3 to 9 for such a packet.
    #[cold]
    pub(super) fn open_bare(
        &mut self,
        packet: Packet<Clean>,
        headers: &Headers,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        let found = Outer::nested(packet.bytes(), headers)
            .and_then(|outer| nest::tunnel(&mut self.sad, &self.members, &outer).map(|name| (outer, name)));
        let (outer, name) = match found {
            Ok(found) => found,
            Err(reason) => return cx.discard(packet, reason, None),
        };
        let (about, len) = (about(&packet, &outer), packet.bytes().len());
        let Some(sa) = self.sad.get_mut(name) else {
            return cx.discard(packet, wire::DropReason::UnknownTunnel, None);
        };
        let packet: Packet<Classed> = packet.advance(&*sa);
        let packet = seam::schedule(packet);
        match nest::decap_tunnel(sa, &mut self.members, packet, &outer, cx.pool) {
            Ok(mut packet) => {
                finish_checksum(packet.buf_mut().as_mut_slice());
                let nested = admit(sa, packet, lend!(self, &[]), cx);
                if let Some((packet, headers)) = nested {
                    self.nest(packet, headers, name, cx);
                }
            }
            Err(reason) => cx.report(Dropped::new(reason, &about, len, None)),
        }
    }
}

/// Complete the checksum where it holds only the sum of the pseudo-header. A raw socket gets such segments where the
/// host joined them (GRO), or where a sender behind a virtual link left the checksum to its device.
fn finish_checksum(bytes: &mut [u8]) {
    let Ok(headers) = Headers::parse(bytes) else { return };
    if matches!(headers.protocol, protocol::TCP | protocol::UDP) && checksum::is_partial(bytes, &headers) {
        // It fails for none that `is_partial` says so of.
        let _ = checksum::complete_transport(bytes, &headers);
    }
}
