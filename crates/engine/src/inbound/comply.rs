//! Stage 8: what policy says of a packet that was protected.

use sadb::rules::{Action, Slot};
use sadb::spd::Level;
use sadb::{InboundSa, PacketKey};
use wire::ip::Headers;
use wire::stage::Inner;
use wire::{DropReason, Packet, Services};

use crate::rules::{self, Rules};

/// Whether what the packet had is what the first rule that matches it demands (RFC 4301 section 5.2; paper 001
/// section 2.3). An association of one application only is left to the socket's own check, which knows the policy.
#[inline]
pub(super) fn comply(
    rules: &mut Option<Rules>,
    sa: &InboundSa,
    packet: &mut Packet<Inner>,
    headers: &Headers,
) -> Result<(), DropReason> {
    match rules {
        Some(rules) if sa.config().selectors.app.is_none() => comply_with(rules, sa, packet, headers),
        _ => Ok(()),
    }
}

fn comply_with(
    rules: &mut Rules,
    sa: &InboundSa,
    packet: &mut Packet<Inner>,
    headers: &Headers,
) -> Result<(), DropReason> {
    let key = PacketKey::of_packet(packet.bytes(), headers, false);
    let first = rules.find(&key).ok_or(DropReason::NoSpdEntry);
    let services = packet.meta.services;
    let judged = first.and_then(|slot| judge(rules, slot, sa, services).map(|()| slot));
    let (slot, verdict) = match judged {
        Ok(slot) => (Some(slot), Ok(())),
        Err(reason @ (DropReason::NoSpdEntry | DropReason::InboundPolicy)) => {
            match of_any_dscp(rules, &key, sa, services) {
                Some(slot) => (Some(slot), Ok(())),
                None => (first.ok(), Err(reason)),
            }
        }
        Err(reason) => (first.ok(), Err(reason)),
    };
    if let Some(slot) = slot
        && let Some(rule) = rules.snapshot.rule(slot)
    {
        packet.meta.rule = rules::number(rule.key);
        packet.meta.scrub = rule.scrub;
        rules.count(slot, packet.bytes().len());
    }
    verdict
}

/// Whether a packet of this association, with these services, is what a rule demands.
fn judge(rules: &Rules, slot: Slot, sa: &InboundSa, services: Services) -> Result<(), DropReason> {
    let rule = rules.snapshot.rule(slot).ok_or(DropReason::NoSpdEntry)?;
    match &rule.action {
        Action::Bypass => Ok(()),
        Action::Discard => Err(DropReason::RuleDiscard),
        Action::Protect(protection) => {
            let both = rule.direction == rules::Way::Both;
            // The association that is left at the end is the innermost one.
            let innermost = protection.bundle.first();
            let fits = innermost.is_none_or(|template| template.fits(sa.config(), both));
            let enough = services.satisfies(protection.services) || protection.level != Level::Mandatory;
            if fits && enough { Ok(()) } else { Err(DropReason::InboundPolicy) }
        }
    }
}

/// A rule that is about packets like this one of some code point, and is content. Rules may choose associations by the DSCP; it may
/// have changed since, and a receiver does not check it (RFC 4301 section 4.1).
#[cold]
fn of_any_dscp(rules: &Rules, key: &PacketKey, sa: &InboundSa, services: Services) -> Option<Slot> {
    let candidates = (0..64).filter_map(|dscp| rules.find(&key.dscp(dscp)));
    let named = if rules.names_dscp { usize::MAX } else { 0 };
    candidates.take(named).find(|slot| {
        let protects =
            rules.snapshot.rule(*slot).is_some_and(|rule| matches!(rule.action, Action::Protect(_)));
        protects && judge(rules, *slot, sa, services).is_ok()
    })
}
