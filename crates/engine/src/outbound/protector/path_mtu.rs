//! ICMP errors from the unprotected side, and what they may teach an outbound association about its path (RFC 4301
//! sections 6.1.1 and 8.2.1).
//!
//! Nobody signs them. An error is believed if only somebody who saw a packet of ours a moment ago could have sent it:
//! it quotes SPI, addresses and ports of an outbound association, a sequence number sent not long before, and an MTU
//! that this very packet exceeded. Whoever sees our packets could drop them as well, so a lie of theirs takes nothing
//! more away; the floor bounds it.

use super::Protector;
use crate::event::{Event, Events, PathCause, PathChange, SeenError};
use crate::icmp::{IcmpKind, IcmpPolicy};
use sadb::sa::{Encapsulation, PathMtuLimits, PathMtuUpdate, SaProtocol};
use sadb::{OutboundSa, Spi};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::quote::{IcmpError, Quote};
use wire::{DropReason, Packet, Time, protocol, stage};

/// The number of later packets after which an error about a packet comes too late: what a link of 10 Gbit/s sends in
/// full packets within 80 ms. A stranger who has guessed the SPI still has to guess the place.
const RECENT: u64 = 1 << 16;

impl Protector {
    /// Set the policy for unauthenticated ICMP errors.
    pub(in crate::outbound) fn set_icmp(&mut self, policy: IcmpPolicy) {
        self.icmp_limits.policy = policy;
    }

    /// Take in an ICMP error that arrived in clear, as a whole packet. The result is to be counted:
    /// [`DropReason::IcmpTaken`], or the reason why it was not believed. `None`: it is about a packet of no
    /// association, and the host's other programs cause such errors.
    pub(in crate::outbound) fn hear_icmp(
        &mut self,
        packet: &mut Packet<stage::Raw>,
        events: &mut Events,
    ) -> Option<DropReason> {
        let now = packet.meta.received;
        match IcmpError::parse(packet.bytes()) {
            Ok(error) if !is_ours(&error.quote, self.icmp_limits.policy.port) => None,
            Ok(error) => {
                if let Some((spi, sequence)) = error.quote.name {
                    (packet.meta.spi, packet.meta.sequence) = (spi, sequence.into());
                }
                Some(self.believe(now, &error, events).err().unwrap_or(DropReason::IcmpTaken))
            }
            Err(reason) => Some(reason),
        }
    }

    fn believe(&mut self, now: Time, error: &IcmpError, events: &mut Events) -> Result<(), DropReason> {
        let IcmpError { from, version, kind, code, .. } = *error;
        if !IcmpKind::lists(&self.icmp_limits.policy.accept, version, kind, code) {
            return Err(DropReason::IcmpRefused);
        }
        let (spi, sequence) = error.quote.name.ok_or(DropReason::IcmpShort)?;
        let sa = self.sad.named_mut(Spi(spi), error.quote.dst).filter(|sa| is_of(sa, &error.quote));
        let sa = sa.ok_or(DropReason::IcmpUnrelated)?;
        // The rate is that of errors which may be true: a stranger's cannot use it up.
        let taught = if !is_recent(sa.next_sequence(), sequence) {
            Err(DropReason::IcmpSequence)
        } else if !self.icmp_limits.has_room(now) {
            Err(DropReason::IcmpRate)
        } else {
            teach(sa, now, error, &self.icmp_limits.policy.path)
        };
        let event = taught.inspect_err(|reason| sa.counters.dropped(*reason))?;
        sa.counters.dropped(DropReason::IcmpTaken);
        match event {
            ErrorEffect::Path(before) => {
                events.push(Event::Pmtu(PathChange::of(sa, before, Some(from), PathCause::Error)));
            }
            ErrorEffect::Seen => {
                let remote = sa.config().endpoints.remote;
                events.push(Event::Icmp(SeenError { spi: sa.spi(), remote, from, version, kind, code }));
            }
            ErrorEffect::Nothing => {}
        }
        Ok(())
    }

    /// The path MTU in force towards the peer that has this SPI; `None` if there is no such association.
    pub(in crate::outbound) fn path_mtu(&self, spi: Spi, remote: IpAddr) -> Option<u16> {
        self.sad.named(spi, remote).map(|sa| sa.config().path_mtu)
    }

    /// The path MTU in force towards the peer that has this SPI, if it is one that was learned.
    pub(in crate::outbound) fn learned_path_mtu(&self, spi: Spi, remote: IpAddr) -> Option<u16> {
        let path = self.sad.named(spi, remote)?.path();
        path.learned().map(|_| path.in_force())
    }

    /// The outer source and destination addresses of the associations, each pair once.
    pub(in crate::outbound) fn ends(&self) -> BTreeSet<(IpAddr, IpAddr)> {
        let ends = |sa: &OutboundSa| (sa.config().endpoints.local, sa.config().endpoints.remote);
        self.sad.list().map(|(_, sa)| ends(sa)).collect()
    }

    /// Take in how many octets the routes between these addresses carry, and let the associations between them follow.
    /// Associations between other addresses stay as they are.
    pub(in crate::outbound) fn follow_routes(
        &mut self,
        routes: &BTreeMap<(IpAddr, IpAddr), u16>,
        events: &mut Events,
    ) {
        for sa in self.sad.list_mut() {
            let ends = &sa.config().endpoints;
            let Some(mtu) = routes.get(&(ends.local, ends.remote)) else { continue };
            let before = sa.config().path_mtu;
            if sa.follow_route(*mtu) {
                events.push(Event::Pmtu(PathChange::of(sa, before, None, PathCause::Route)));
            }
        }
    }

    /// Take in that the kernel refused an outer packet of `len` octets of this association, though the route says
    /// nothing of it. Packets are smaller from now on, for as long as the teaching of an ICMP error is believed.
    pub(in crate::outbound) fn refused_by_route(
        &mut self,
        now: Time,
        (spi, remote): (Spi, IpAddr),
        len: usize,
        events: &mut Events,
    ) {
        let limits = self.icmp_limits.policy.path;
        let Some(sa) = self.sad.named_mut(spi, remote) else { return };
        let before = sa.config().path_mtu;
        if usize::from(before) < len {
            return;
        }
        // No size is known: the next smaller one that links have.
        let mtu = if remote.is_ipv4() { 0 } else { sadb::sa::MIN_PATH_MTU_V6.into() };
        if sa.hear_mtu(now, mtu, len, &limits) == PathMtuUpdate::Lowered {
            events.push(Event::Pmtu(PathChange::of(sa, before, None, PathCause::Refused)));
        }
    }

    /// Forget what was learned too long ago. Call this about once a second.
    pub(in crate::outbound) fn age_paths(&mut self, now: Time, events: &mut Events) {
        let limits = self.icmp_limits.policy.path;
        for sa in self.sad.list_mut() {
            let before = sa.config().path_mtu;
            if sa.age_mtu(now, &limits) {
                events.push(Event::Pmtu(PathChange::of(sa, before, None, PathCause::Age)));
            }
        }
    }
}

/// The effect of an error on its association.
enum ErrorEffect {
    /// The path MTU was lowered from this value.
    Path(u16),
    /// The error is of a type that says nothing about the path MTU.
    Seen,
    Nothing,
}

fn teach(
    sa: &mut OutboundSa,
    now: Time,
    error: &IcmpError,
    limits: &PathMtuLimits,
) -> Result<ErrorEffect, DropReason> {
    let Some(mtu) = error.mtu else { return Ok(ErrorEffect::Seen) };
    let before = sa.config().path_mtu;
    match sa.hear_mtu(now, mtu, error.quote.total_len, limits) {
        PathMtuUpdate::Lowered => Ok(ErrorEffect::Path(before)),
        PathMtuUpdate::Confirmed | PathMtuUpdate::Nothing => Ok(ErrorEffect::Nothing),
        PathMtuUpdate::Implausible => Err(DropReason::IcmpMtu),
    }
}

/// Whether the quoted packet could have been one of an association at all.
fn is_ours(quote: &Quote, port: u16) -> bool {
    match quote.protocol {
        protocol::ESP | protocol::AH => true,
        protocol::UDP => quote.ports.is_some_and(|(src, _)| src == port),
        _ => false,
    }
}

/// Whether the quoted packet left under this association.
fn is_of(sa: &OutboundSa, quote: &Quote) -> bool {
    let config = sa.config();
    let (ends, options) = (&config.endpoints, &config.options);
    let (number, ports) = match (options.protocol, options.encapsulation) {
        (SaProtocol::Esp, Encapsulation::Udp) => (protocol::UDP, Some((ends.local_port, ends.remote_port))),
        (SaProtocol::Esp, Encapsulation::None) => (protocol::ESP, None),
        (SaProtocol::Ah, _) => (protocol::AH, None),
        (SaProtocol::IpComp | SaProtocol::IpIp, _) => return false,
    };
    (quote.src, quote.dst, quote.protocol, quote.ports) == (ends.local, ends.remote, number, ports)
}

/// Whether a packet with this low half of a sequence number was sent, and not long ago, when `next` is the next one.
fn is_recent(next: u64, low: u32) -> bool {
    let sent = next.saturating_sub(1);
    // Of a number that was not sent yet the distance is nearly a whole lap.
    let back = u64::from((sent as u32).wrapping_sub(low));
    back < RECENT && back < sent
}

#[cfg(test)]
mod tests {
    use super::{RECENT, is_recent};

    #[test]
    fn only_what_was_sent_a_moment_ago_is_recent() {
        // Nothing was sent.
        assert!(!is_recent(1, 0) && !is_recent(1, 1) && !is_recent(0, 0));
        assert!(is_recent(2, 1) && !is_recent(2, 0) && !is_recent(2, 2));
        let next = 1_000_000;
        assert!(is_recent(next, 999_999) && !is_recent(next, 1_000_000));
        let oldest = next - RECENT;
        assert!(is_recent(next, oldest as u32) && !is_recent(next, oldest as u32 - 1));
        // Extended: the low half has started again.
        assert!(is_recent(1 << 32 | 3, 2) && is_recent(1 << 32 | 3, u32::MAX) && !is_recent(1 << 32 | 3, 3));
    }
}
