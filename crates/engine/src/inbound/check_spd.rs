//! Stage 8: the comparison of a packet that was protected with policy.

use sadb::rules::{Action, Member, Protection, Slot, Template};
use sadb::spd::Level;
use sadb::{InboundSa, PacketKey};
use wire::ip::Headers;
use wire::stage::Inner;
use wire::{DropReason, Packet, Services};

use crate::rules::{self, Rules};

/// Check that the packet had what the first rule that matches it demands (RFC 4301 section 5.2; paper 001 section 2.3).
/// An association of one application only is left to the socket's own check, which knows the policy. A packet without
/// any service is always checked, for its association proves nothing.
#[inline]
pub(super) fn check_spd(
    rules: &mut Option<Rules>,
    sa: &InboundSa,
    around: &[Member],
    packet: &mut Packet<Inner>,
    headers: &Headers,
) -> Result<(), DropReason> {
    match rules {
        Some(rules) if sa.config().selectors.app.is_none() || packet.meta.services == Services::NONE => {
            let history =
                PacketHistory { innermost: sa.config().into(), around, services: packet.meta.services };
            check_rules(rules, &history, packet, headers)
        }
        _ => Ok(()),
    }
}

/// The associations that a packet came out of, and the services that it had.
struct PacketHistory<'a> {
    innermost: Member,
    /// The members around the innermost, the outermost first.
    around: &'a [Member],
    services: Services,
}

impl PacketHistory<'_> {
    /// Whether the packet had the services that a rule demands. Where the rule names a suite of a cipher of one's own,
    /// each association is asked, since the services alone do not tell two such suites apart.
    fn gives_enough(&self, protection: &Protection) -> bool {
        let need = protection.demanded();
        if !need.is_named() {
            return self.services.satisfies(need);
        }
        let members = std::iter::once(&self.innermost).chain(self.around);
        let given = members.map(|member| protection.given(member.suite(), member.services()));
        given.fold(Services::NONE, Services::union).satisfies(need)
    }
}

fn check_rules(
    rules: &mut Rules,
    history: &PacketHistory<'_>,
    packet: &mut Packet<Inner>,
    headers: &Headers,
) -> Result<(), DropReason> {
    let key = PacketKey::of_packet(packet.bytes(), headers, false);
    let first = rules.find(&key).ok_or(DropReason::NoSpdEntry);
    let judged = first.and_then(|slot| judge(rules, slot, history).map(|()| slot));
    let (slot, verdict) = match judged {
        Ok(slot) => (Some(slot), Ok(())),
        Err(reason @ (DropReason::NoSpdEntry | DropReason::InboundPolicy)) => {
            match rule_of_any_dscp(rules, &key, history) {
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

/// Check that a packet had what a rule demands.
fn judge(rules: &Rules, slot: Slot, history: &PacketHistory<'_>) -> Result<(), DropReason> {
    let rule = rules.snapshot.rule(slot).ok_or(DropReason::NoSpdEntry)?;
    match &rule.action {
        Action::Bypass => Ok(()),
        Action::Discard => Err(DropReason::RuleDiscard),
        // IP in IP that arrived bare: what a rule wants protected, optionally too, is not taken of it.
        Action::Protect(_) if history.services == Services::NONE => Err(DropReason::InboundPolicy),
        Action::Protect(protection) => {
            let mandatory = protection.level == Level::Mandatory;
            // Of what is optional only the innermost member must be the one that is named.
            let named = protection.bundle.len().min(if mandatory { usize::MAX } else { 1 });
            let bundle = protection.bundle.get(..named).unwrap_or_default();
            let members = std::iter::once(history.innermost).chain(history.around.iter().rev().copied());
            let fits = Template::all_fit(bundle, members, rule.direction == rules::Way::Both);
            if fits && (!mandatory || history.gives_enough(protection)) {
                Ok(())
            } else {
                Err(DropReason::InboundPolicy)
            }
        }
    }
}

/// A rule that protects packets like this one with some other code point, and that is content. Rules may choose
/// associations by the DSCP; it may have changed since, and a receiver does not check it (RFC 4301 section 4.1).
#[cold]
fn rule_of_any_dscp(rules: &Rules, key: &PacketKey, history: &PacketHistory<'_>) -> Option<Slot> {
    let candidates = (0..64).filter_map(|dscp| rules.find(&key.dscp(dscp)));
    let named = if rules.names_dscp { usize::MAX } else { 0 };
    candidates.take(named).find(|slot| {
        let protects =
            rules.snapshot.rule(*slot).is_some_and(|rule| matches!(rule.action, Action::Protect(_)));
        protects && judge(rules, *slot, history).is_ok()
    })
}
