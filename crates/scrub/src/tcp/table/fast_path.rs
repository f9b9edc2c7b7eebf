//! The fast path for a plain segment in order, of an established connection, with an acknowledgment that fits. Only the
//! rule of the identification applies to it, so the full path would do the same. Most segments are such.

use super::Connections;
use crate::config::Config;
use crate::rule::{Mode, Rule};
use crate::tcp::connection::Ends;
use crate::verdict::{Arrival, RuleHits};
use wire::plain::PlainSegment;
use wire::tcp::Flags;
use wire::{Buf, Gso, GsoKind, Time, ipv4, ipv6, protocol};

/// The number of packets whose connections are fetched together.
pub(crate) const BATCH: usize = 64;

/// The demands of a configuration on the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastPath {
    /// Whether the fast path is open at all.
    open: bool,
    /// The bits of the type of service that a rule looks at.
    tos: u8,
    id: Mode,
    flow_labels: bool,
}

impl FastPath {
    pub fn of(config: &Config) -> FastPath {
        const DSCP: u8 = 0xfc;
        let tos = if config.mode(Rule::V4Tos) == Mode::Off { 0 } else { DSCP };
        FastPath {
            // What is off would have to be let through, what only observes would have to be noted.
            open: config.mode(Rule::TcpChecksum) == Mode::On,
            tos,
            id: config.mode(Rule::V4Id),
            flow_labels: config.flow_labels,
        }
    }
}

impl Connections {
    /// Find the connections of plain segments, so that they are found again at once. Each loop only reads from memory
    /// what does not depend on the same loop's reads, so the processor waits for the reads of several packets at a
    /// time.
    pub(crate) fn expect<'p>(&mut self, packets: impl IntoIterator<Item = (Arrival, &'p [u8])>) {
        let mut all = [None; BATCH];
        for (place, (Arrival { from, realm, .. }, bytes)) in all.iter_mut().zip(packets) {
            *place = PlainSegment::read(bytes)
                .map(|segment| self.hashed(Ends::plain(&segment, from).in_realm(realm)));
        }
        let mut found = [u32::MAX; BATCH];
        for (at, hashed) in found.iter_mut().zip(&all) {
            *at = hashed.as_ref().and_then(|(_, hash)| self.likely(*hash)).unwrap_or(u32::MAX);
        }
        let mut read = 0;
        for connection in found.iter().filter_map(|at| self.at(*at)) {
            read ^= connection.first_words();
        }
        std::hint::black_box(read);
        for (at, hashed) in found.into_iter().zip(&all) {
            if let Some((ends, _)) = hashed {
                self.remember(ends, at);
            }
        }
    }

    /// Take a packet from that side the fast path. `None`: nothing was done, and it has to go the full path.
    #[inline]
    pub(crate) fn fast_path(
        &mut self,
        config: &Config,
        fast_path: &FastPath,
        now: Time,
        arrival: Arrival,
        buf: &mut Buf,
        gso: &Gso,
    ) -> Option<RuleHits> {
        let Arrival { from, realm, .. } = arrival;
        let bytes = buf.as_slice();
        let segment = PlainSegment::read(bytes).filter(|_| fast_path.open)?;
        let mtu = config.mtu[from.other().index()];
        let longest = match gso.kind {
            GsoKind::None => bytes.len(),
            GsoKind::Tcp => bytes.len().min(segment.data_at() + usize::from(gso.size)),
            GsoKind::Udp => return None,
        };
        let transport = if segment.version() == 4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        if !gso.fits(transport, protocol::TCP) {
            return None;
        }
        let numbered = segment.id() != 0 && fast_path.id != Mode::Off;
        let plain = segment.flags().without(Flags::PSH) == Flags::ACK
            && longest <= mtu
            && (segment.version() == 6 || segment.tos() & fast_path.tos == 0)
            && segment.ttl() >= config.least_ttl
            && (segment.flow_label() == 0 || fast_path.flow_labels)
            && !(numbered && fast_path.id == Mode::Observe);
        if !plain {
            return None;
        }
        let at = self.find_again(&Ends::plain(&segment, from).in_realm(realm))?;
        let (connection, arena) = self.at_work(at, now)?;
        connection.fast_path(config, now, from, arena, &segment, gso)?;
        let mut met = RuleHits::default();
        if numbered {
            // Rule 4.4: what is not cut has no number.
            met.acted.insert(Rule::V4Id);
            ipv4::edit_id(buf.as_mut_slice(), 0);
        }
        if self.has_feed() {
            self.tell(Some(at));
        }
        Some(met)
    }
}
