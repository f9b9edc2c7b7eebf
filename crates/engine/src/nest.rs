//! Inbound bundles: a packet that came out of an association is itself a packet of an association with this host (RFC
//! 4301 section 5.2, "if the packet is IPsec protected again"; paper 001 section 2.3: the flags of all rounds are
//! united).
//!
//! No decrypted packet goes back to the front door: [`Packet::nested`] leads to cryptography and nowhere else. Only
//! bare protocols count, and only for this host. Members without a key (IPComp, IP in IP) are taken here, and from the
//! wire only where `inbound/bare.rs` says so.

use crate::seam::{self, Turn};
use ipsec::{Codec, Outer};
use sadb::sa::SaProtocol;
use sadb::{Endpoints, InboundSa, InboundSad, Mode, SaConfig, SaName, Spi};
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::ip::Headers;
use wire::stage::{Inner, Scheduled};
use wire::{AppId, DropReason, Flow, Meta, Packet, Pool, protocol};

/// The state that only members of bundles need.
#[derive(Debug, Default)]
pub(crate) struct Members {
    codec: Codec,
    /// The tunnels whose packets carry no SPI or CPI, so that they are found by their endpoints. IP in IP comes before
    /// IPComp.
    tunnels: Vec<(bool, Endpoints, SaName)>,
    /// This host's ends of associations, with the number of associations at each.
    ends: BTreeMap<IpAddr, usize>,
    /// The UDP port on which ESP arrives.
    port: u16,
}

impl Members {
    /// The state without associations; ESP arrives on UDP port `port`.
    pub fn new(port: u16) -> Members {
        Members { port, ..Members::default() }
    }

    /// The key by which the association is found if its packets carry no SPI; `None` if they do.
    pub fn key(config: &SaConfig) -> Option<(bool, Endpoints)> {
        let compressing = match config.options.protocol {
            SaProtocol::IpIp => false,
            // What its peer did not compress is IP in IP (RFC 3173 section 2.2).
            SaProtocol::IpComp if config.mode == Mode::Tunnel => true,
            SaProtocol::IpComp | SaProtocol::Esp | SaProtocol::Ah => return None,
        };
        Some((compressing, config.endpoints))
    }

    pub fn added(&mut self, key: Option<(bool, Endpoints)>, name: SaName, local: IpAddr) {
        *self.ends.entry(local).or_default() += 1;
        if let Some((compressing, endpoints)) = key {
            self.tunnels.push((compressing, endpoints, name));
            self.tunnels.sort_by_key(|(compressing, ..)| *compressing);
        }
    }

    pub fn removed(&mut self, name: SaName, local: IpAddr) {
        self.tunnels.retain(|(.., other)| *other != name);
        if let Some(count) = self.ends.get_mut(&local) {
            *count -= 1;
            if *count == 0 {
                self.ends.remove(&local);
            }
        }
    }

    /// Whether a packet that came out of an association of this mode is itself one of an association with this host,
    /// which may have several addresses (RFC 4301 section 5.2). In transport mode, IP in IP without an association of
    /// its own is a packet of one of the host's own tunnels (RFC 4301 section 4.1).
    ///
    /// # Errors
    /// [`DropReason::EncapsulatedInside`].
    #[inline]
    pub fn is_next(&self, mode: Mode, headers: &Headers, flow: &Flow) -> Result<bool, DropReason> {
        match headers.protocol {
            protocol::UDP if flow.local_port == self.port && self.ends.contains_key(&headers.dst) => {
                Err(DropReason::EncapsulatedInside)
            }
            protocol::ESP | protocol::AH | protocol::IPCOMP => Ok(self.ends.contains_key(&headers.dst)),
            protocol::IPV4 | protocol::IPV6 => Ok(self.ends.contains_key(&headers.dst)
                && (mode != Mode::Transport || self.between(headers.dst, headers.src).is_some())),
            _ => Ok(false),
        }
    }

    pub fn set_port(&mut self, port: u16) {
        self.port = port;
    }

    /// The UDP port on which ESP arrives.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn between(&self, local: IpAddr, remote: IpAddr) -> Option<Spi> {
        let found = self.tunnels.iter().find(|(_, ends, _)| (ends.local, ends.remote) == (local, remote));
        found.map(|(.., name)| name.spi)
    }
}

/// Open one more round, whose turn it is: find the association of a packet that came out of association `from`, and open
/// it. On a drop the buffer has gone to `pool`, and its length comes with the reason.
pub(crate) fn open<'a>(
    sad: &'a mut InboundSad,
    members: &mut Members,
    from: SaName,
    packet: Packet<Inner>,
    headers: &Headers,
    turn: Turn,
    pool: &mut Pool,
) -> Result<(Packet<Inner>, &'a mut InboundSa), (DropReason, usize)> {
    let (before, len) = (packet.meta, packet.bytes().len());
    let (outer, sa) = match find(sad, members, from, packet.bytes(), headers) {
        // Found just now.
        Ok((name, outer)) => match sad.get_mut(name) {
            Some(sa) => (outer, sa),
            None => return Err(give_back(DropReason::UnknownSpi, packet, pool)),
        },
        Err(reason) => return Err(give_back(reason, packet, pool)),
    };
    match ipsec::decap_member(sa, seam::schedule_nested(packet, turn), &outer, &mut members.codec, pool) {
        Ok(mut packet) => match unite(&mut packet.meta, &before) {
            Ok(()) => Ok((packet, sa)),
            Err(reason) => {
                sa.counters.dropped(reason);
                Err(give_back(reason, packet, pool))
            }
        },
        Err(reason) => Err((reason, len)),
    }
}

/// The association that a packet is of which came out of association `from`, and its outer header.
///
/// # Errors
/// The reason why there is none, which `from` has counted.
pub(crate) fn find(
    sad: &mut InboundSad,
    members: &Members,
    from: SaName,
    bytes: &[u8],
    headers: &Headers,
) -> Result<(SaName, Outer), DropReason> {
    let outer = Outer::nested(bytes, headers)?;
    let name = name(sad, members, &outer).inspect_err(|reason| {
        if let Some(sa) = sad.get_mut(from) {
            sa.counters.dropped(*reason);
        }
    })?;
    Ok((name, outer))
}

/// The association of IP in IP that arrived bare. An association that is bound to an application is only for packets
/// with proof.
///
/// # Errors
/// [`DropReason::UnknownTunnel`], [`DropReason::WrongProtocol`], [`DropReason::WrongPeer`],
/// [`DropReason::SelectorMismatch`].
pub(crate) fn tunnel(sad: &mut InboundSad, members: &Members, outer: &Outer) -> Result<SaName, DropReason> {
    let name = name(sad, members, outer)?;
    let sa = sad.get_mut(name).ok_or(DropReason::UnknownTunnel)?;
    let reason = match sa.config() {
        config if config.options.protocol != SaProtocol::IpIp => DropReason::WrongProtocol,
        config if config.selectors.app.is_some() => DropReason::SelectorMismatch,
        _ => return Ok(name),
    };
    sa.counters.dropped(reason);
    Err(reason)
}

/// Take the outer header off IP in IP that arrived bare.
pub(crate) fn decap_tunnel(
    sa: &mut InboundSa,
    members: &mut Members,
    packet: Packet<Scheduled>,
    outer: &Outer,
    pool: &mut Pool,
) -> Result<Packet<Inner>, DropReason> {
    ipsec::decap_member(sa, packet, outer, &mut members.codec, pool)
}

fn give_back(reason: DropReason, packet: Packet<Inner>, pool: &mut Pool) -> (DropReason, usize) {
    let len = packet.bytes().len();
    pool.put(packet.into_buf());
    (reason, len)
}

/// The name of the association of this packet, if its peer sent it.
fn name(sad: &mut InboundSad, members: &Members, outer: &Outer) -> Result<SaName, DropReason> {
    let spi = match outer.protocol {
        protocol::IPV4 | protocol::IPV6 => {
            members.between(outer.dst, outer.src).ok_or(DropReason::UnknownTunnel)?
        }
        _ => Spi(outer.spi),
    };
    let unknown = if outer.protocol == protocol::IPCOMP {
        DropReason::UnknownCpi
    } else {
        crate::inbound::unknown(outer.spi)
    };
    let sa = sad.find_mut(spi, outer.src, outer.dst).ok_or(unknown)?;
    if !sa.is_peer(outer.src, outer.dst, None) {
        sa.counters.dropped(DropReason::WrongPeer);
        return Err(DropReason::WrongPeer);
    }
    Ok(sa.name())
}

/// Unite the services and applications of all rounds. An application that one member is bound to stays.
fn unite(meta: &mut Meta, before: &Meta) -> Result<(), DropReason> {
    meta.services = meta.services.union(before.services);
    match (before.app, meta.app) {
        (bound, AppId::NONE) => meta.app = bound,
        (AppId::NONE, _) => {}
        (one, other) if one == other => {}
        _ => return Err(DropReason::SelectorMismatch),
    }
    Ok(())
}
