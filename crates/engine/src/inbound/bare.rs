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
use wire::stage::Clean;
use wire::{Packet, Pool, Time, checksum, protocol};

use super::outcome::{InboundOutcome, end, record};
use super::{Inbound, Parts, about, admit};
use crate::nest;
use crate::tally::Dropped;
use ipsec::Outer;

impl Inbound {
    /// Take IP in IP that arrives bare from these addresses, and from no others.
    pub fn take_tunnels_from(&mut self, peers: BTreeSet<IpAddr>) {
        self.tunnels_from = peers;
    }

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
        now: Time,
        packet: Packet<Clean>,
        headers: &Headers,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
    ) {
        let tally = &mut self.tally;
        let found = Outer::nested(packet.bytes(), headers)
            .and_then(|outer| nest::tunnel(&mut self.sad, &self.members, &outer).map(|name| (outer, name)));
        let (outer, name) = match found {
            Ok(found) => found,
            Err(reason) => return end(tally, packet, reason, None, pool, out),
        };
        let (about, len) = (about(&packet, &outer), packet.bytes().len());
        let Some(sa) = self.sad.get_mut(name) else {
            return end(tally, packet, wire::DropReason::UnknownTunnel, None, pool, out);
        };
        match nest::decap_tunnel(sa, &mut self.members, packet.advance(), &outer, pool) {
            Ok(mut packet) => {
                finish_checksum(packet.buf_mut().as_mut_slice());
                let parts = Parts {
                    rules: &mut self.rules,
                    icmp: &self.icmp,
                    entries: self.entries.as_deref(),
                    scrubbing: self.scrubbing.as_deref_mut(),
                    members: &self.members,
                    around: &[],
                };
                let nested = admit(sa, now, packet, &mut self.inner_fragments, parts, tally, pool, out);
                if let Some((packet, headers)) = nested {
                    self.nest(now, packet, headers, name, pool, out);
                }
            }
            Err(reason) => record(tally, Dropped::new(reason, &about, len, None), out),
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
