//! Packets on their way through this host as a security gateway (RFC 4301 sections 5.1 and 5.2).
//!
//! Packets from a network behind it are decided by the rules, as if this host had sent them. Packets that arrive in
//! clear for such a network are checked against the rules for inbound packets: a packet that a rule wants protected, or
//! that no rule knows, is dropped. The same holds for the packet that an ICMP error quotes, for an unprotected error
//! could shrink or cut a protected flow (section 6.1).

use sadb::rules::{Action, RuleKey};
use sadb::spd::Level;
use sadb::{OutboundSad, PacketKey, Snapshot};
use std::net::IpAddr;

use wire::ip::Headers;
use wire::quote::Quoted;
use wire::{DropReason, Flow, Packet, Services, record};

use super::Decider;
use super::rule_cache::RuleDisposition;
use crate::outbound::origin::{has_arrived, interface};
use crate::outbound::route::Disposition;
use crate::quoted;
use crate::rules::{self, Way};
use crate::stats::Traffic;

/// The addresses that a quoted packet was going to: its last destination, and the next stop on the way there.
fn ends(quoted: &Quoted) -> impl Iterator<Item = IpAddr> {
    let next = (quoted.dst != quoted.last).then_some(quoted.dst);
    std::iter::once(quoted.last).chain(next)
}

/// The disposition of an error that must not leave in clear, since nobody can tell whether the packet that it quotes
/// was protected.
fn not_in_clear(disposition: Result<Disposition, DropReason>) -> Result<Disposition, DropReason> {
    match disposition {
        Ok(Disposition::Clear) => Err(DropReason::ClearRefused),
        disposition => disposition,
    }
}

impl Decider {
    /// The number of packets that arrived in clear and were decided by each rule, and their octets.
    pub(in crate::outbound) fn arrival_counts(&self) -> Vec<(RuleKey, Traffic)> {
        self.arrivals.as_ref().map(|rules| rules.counts().collect()).unwrap_or_default()
    }

    /// The decision of the rules for a packet that arrived in clear for a network behind this host.
    #[cold]
    pub(super) fn arrive<S>(
        &mut self,
        packet: &mut Packet<S>,
        headers: &Headers,
        flow: &Flow,
        sad: &OutboundSad,
    ) -> Result<Disposition, DropReason> {
        let key = PacketKey::of_packet(packet.bytes(), headers, false);
        let key = interface(&packet.meta).map_or(key, |index| key.interface(index));
        let rules = self.arrivals.as_mut().ok_or(DropReason::NoSpdEntry)?;
        let slot = rules.find(&key).ok_or(DropReason::NoSpdEntry)?;
        rules.count(slot, packet.bytes().len());
        let snapshot = std::sync::Arc::clone(&rules.snapshot);
        let rule = snapshot.rule(slot).ok_or(DropReason::NoSpdEntry)?;
        packet.meta.rule = rules::number(rule.key);
        packet.meta.scrub = rule.scrub;
        packet.meta.aggregate = rule.class;
        accepts_clear(&rule.action, flow, sad)?;
        match quoted::quoted_by(packet.bytes(), headers) {
            Some(quoted) => quotes_clear(&snapshot, quoted, sad).map(|()| Disposition::Clear),
            None => Ok(Disposition::Clear),
        }
    }

    /// The disposition of a router's ICMP error (from this host, one behind it, or a program that no policy speaks for)
    /// that no association carries for its own sake. It belongs to the association of the traffic that would answer the
    /// packet it quotes (RFC 4301 section 6.2). It quotes what was protected, so it leaves protected or not at all.
    #[cold]
    pub(super) fn icmp_error_path<S>(
        &self,
        packet: &Packet<S>,
        headers: &Headers,
        disposition: Result<Disposition, DropReason>,
        sad: &mut OutboundSad,
    ) -> Result<Disposition, DropReason> {
        let meta = packet.meta;
        let is_policed = meta.mark & record::STAMPED != 0 && self.spd.get(meta.app).is_some();
        // A rule that refuses a program's own packet is the last word about that packet.
        let is_refused =
            meta.mark & record::STAMPED != 0 && matches!(disposition, Err(DropReason::RuleDiscard));
        if is_policed || is_refused || has_arrived(&meta) {
            return disposition;
        }
        let is_answer = meta.mark & record::PROOF != 0;
        let Some(quoted) = quoted::quoted_by(packet.bytes(), headers) else { return disposition };
        let flow = quoted.and_then(|quoted| quoted.flow());
        if is_answer {
            let find = |flow: &Flow| {
                sad.find_for_answer(meta.app, &flow.reversed(), meta.services).map(Disposition::Protect)
            };
            return flow.as_ref().map_or(Err(DropReason::NoSa), find).or(disposition);
        }
        if self.rule_cache.is_none() {
            return disposition;
        }
        let (Some(quoted), Some(flow)) = (quoted, flow) else { return not_in_clear(disposition) };
        // It came to the next stop of its route and was meant for the last one: both are asked.
        for local in ends(&quoted) {
            let back = Flow { local, ..flow.reversed() };
            let ruled = self.consider_rules(&PacketKey::of_flow(&back), meta.app, &back, sad);
            match ruled.map(|ruled| ruled.disposition) {
                Some(RuleDisposition::Protect(sa)) => return Ok(Disposition::Protect(sa)),
                // The error's own rule goes first: it waits for what that asks for.
                Some(RuleDisposition::Missing(Level::Mandatory))
                    if matches!(disposition, Ok(Disposition::Hold)) =>
                {
                    return disposition;
                }
                Some(RuleDisposition::Missing(Level::Mandatory)) => return Err(DropReason::NoSa),
                Some(RuleDisposition::Refuse(reason)) => return Err(reason),
                Some(RuleDisposition::Missing(_) | RuleDisposition::Clear) | None => {}
            }
        }
        // A rule may name what cannot be read.
        if flow.opaque || quoted.has_stops { not_in_clear(disposition) } else { disposition }
    }
}

/// Check that the packet that an error quotes was one that leaves in clear. A packet that cannot be judged (no
/// readable headers, no ports, stops of a route that are not examined) counts as protected (RFC 4301 section
/// 6.1.1).
fn quotes_clear(snapshot: &Snapshot, quoted: Option<Quoted>, sad: &OutboundSad) -> Result<(), DropReason> {
    let refused = DropReason::ClearRefused;
    let quoted = quoted.filter(|quoted| !quoted.has_stops).ok_or(refused)?;
    let flow = quoted.flow().filter(|flow| !flow.opaque).ok_or(refused)?;
    // Where there is no SPD for what leaves, that of what comes back knows the flow.
    let has_outbound = snapshot.iter().any(|(_, rule)| rule.is_for(Way::Out) && rule.key != RuleKey::NONE);
    let way = if has_outbound { Way::Out } else { Way::In };
    for remote in ends(&quoted) {
        let flow = Flow { remote, ..flow };
        let rule = snapshot.lookup(way, &PacketKey::of_flow(&flow)).ok_or(DropReason::NoSpdEntry)?;
        accepts_clear(&rule.action, &flow, sad)?;
    }
    Ok(())
}

/// Check that a rule lets a packet of this flow pass in clear.
fn accepts_clear(action: &Action, flow: &Flow, sad: &OutboundSad) -> Result<(), DropReason> {
    match action {
        Action::Bypass => Ok(()),
        Action::Discard => Err(DropReason::RuleDiscard),
        // Without an association the packet goes in clear, which this rule allows.
        Action::Protect(protection)
            if protection.level != Level::Mandatory
                && sad.search(wire::AppId::NONE, flow, Services::NONE).is_err() =>
        {
            Ok(())
        }
        Action::Protect(_) => Err(DropReason::ClearRefused),
    }
}
