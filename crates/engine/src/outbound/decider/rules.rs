//! Packets that no application's policy speaks for: the rules of the SPD decide (RFC 4301 section 5.1).
//!
//! The first rule in order that matches decides; a packet that no rule matches is discarded. A rule that protects uses
//! an association that covers the packet, fits its bundle, gives at least its services, and belongs to no other values
//! of what the rule populates from the packet. The decision is remembered by the packet's whole key.

use std::sync::Arc;

use sadb::rules::{Action, Direction, Protection, Rule, RuleKey, Template};
use sadb::selector::{Condition, Field, field};
use sadb::spd::{Level, Terms};
use sadb::{FlowCache, OutboundSa, OutboundSad, PacketKey, SaIndex, Snapshot, TrafficSelector};
use wire::ip::Headers;
use wire::{AggregateId, AppId, DropReason, Flow, Packet, ScrubId, Services, record};

use super::Decider;
use super::rule_cache::{RuleCache, RuleDecision, RuleDisposition, SETS, key_of};
use crate::cx::Cx;
use crate::outbound::origin;
use crate::outbound::outcome::Outcome;
use crate::outbound::route::Disposition;
use crate::rules::{self, Rules};
use crate::stats::Traffic;

/// The largest number of members of a bundle that are examined.
const LONGEST_BUNDLE: usize = 8;

/// The fields that the selectors of associations have.
static OF_ASSOCIATIONS: [&Field; 8] = [
    &field::LOCAL,
    &field::REMOTE,
    &field::PROTOCOL,
    &field::LOCAL_PORT,
    &field::REMOTE_PORT,
    &field::ICMP,
    &field::MOBILITY,
    &field::APP,
];

impl Decider {
    /// Set the rules of the SPD. With `None`, or without a rule for outbound packets, packets without an application's
    /// policy are treated as if there were no SPD. Rules that were there before keep their counts.
    pub(in crate::outbound) fn set_rules(&mut self, snapshot: Option<Arc<Snapshot>>) {
        let (before, answers) = match self.rule_cache.take() {
            Some(cache) => (Some(cache.rules), cache.answers),
            None => (None, FlowCache::new(SETS, self.seed)),
        };
        let arrivals = self.arrivals.take();
        self.arrivals = snapshot.clone().and_then(|snapshot| Rules::new(arrivals, snapshot, Direction::In));
        let rules = snapshot.and_then(|snapshot| Rules::new(before, snapshot, Direction::Out));
        self.rule_cache = rules.map(|rules| RuleCache { rules, answers });
        self.policy_generation += 1;
    }

    /// The number of packets that each rule decided, and their octets.
    pub(in crate::outbound) fn rule_counts(&self) -> Vec<(RuleKey, Traffic)> {
        self.rule_cache.as_ref().map(|cache| cache.rules.counts().collect()).unwrap_or_default()
    }

    /// Whether rules decide about this packet: it is no answer of the kernel's, and no application's policy speaks for
    /// it.
    #[inline]
    pub(super) fn is_ruled<S>(&self, packet: &Packet<S>) -> bool {
        let meta = &packet.meta;
        let answer = meta.mark & (record::STAMPED | record::PROOF) == record::PROOF;
        self.rule_cache.is_some() && !answer && self.spd.get(meta.app).is_none()
    }

    /// The association that a rule of the SPD has for a flow, by the number that packets carry, without using it.
    /// `None`: there is no such rule, or it protects nothing. What packets have beside their flows (a user, a mark) is
    /// not asked.
    pub(in crate::outbound) fn preview_rule(
        &self,
        number: u32,
        app: AppId,
        flow: &Flow,
        sad: &OutboundSad,
    ) -> Option<Result<SaIndex, DropReason>> {
        let snapshot = &self.rule_cache.as_ref()?.rules.snapshot;
        let (_, rule) = snapshot.iter().find(|(_, rule)| rules::number(rule.key) == number)?;
        let Action::Protect(protection) = &rule.action else { return None };
        let key = PacketKey::of_flow(flow).app(app);
        let found = association(rule, protection, &key, app, flow, sad);
        Some(found.map(|(Serving::Enough(sa) | Serving::Weaker(sa))| sa))
    }

    /// The association for packets of a class that stands beside the one that was found, or that one where the rule that
    /// decided, by its number in the packet, names the SPI of its associations.
    #[inline]
    pub(in crate::outbound) fn association_of(
        &self,
        found: SaIndex,
        rule: u32,
        class: AggregateId,
        sad: &OutboundSad,
    ) -> SaIndex {
        let names_spi = self.rule_cache.as_ref().is_some_and(|cache| cache.rules.names_spi(rule));
        if names_spi { found } else { sad.of_class(found, class) }
    }

    /// The disposition that the rules give a packet.
    pub(super) fn rule<S>(
        &mut self,
        packet: &mut Packet<S>,
        headers: &Headers,
        flow: &Flow,
        sad: &OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) -> Result<Disposition, DropReason> {
        let epoch = self.epoch(sad);
        let key = key_of(packet, headers);
        let known = self.rule_cache.as_ref().and_then(|cache| cache.answers.get(epoch, &key));
        let ruled = known.unwrap_or_else(|| {
            let ruled = self.consider_rules(&key, packet.meta.app, flow, sad);
            if let Some(cache) = &mut self.rule_cache {
                cache.answers.put(epoch, &key, ruled);
            }
            ruled
        });
        let Some(ruled) = ruled else { return Err(DropReason::NoSpdEntry) };
        packet.meta.rule = rules::number(ruled.key);
        packet.meta.services = ruled.services;
        packet.meta.aggregate = ruled.class;
        packet.meta.scrub = match ruled.disposition {
            RuleDisposition::Protect(sa) => self.profile(sa, flow, sad),
            // Answers to what this host itself sends in clear do not pass the engine.
            _ if origin::is_forwarded(&packet.meta) => ruled.scrub,
            _ => ScrubId::NONE,
        };
        let len = packet.bytes().len();
        if let Some(cache) = &mut self.rule_cache {
            cache.rules.count(ruled.slot, len);
        }
        match ruled.disposition {
            RuleDisposition::Clear => Ok(Disposition::Clear),
            RuleDisposition::Protect(sa) => Ok(Disposition::Protect(sa)),
            RuleDisposition::Refuse(reason) => Err(reason),
            RuleDisposition::Missing(Level::Optional) => {
                self.announce(&packet.meta, flow, &Terms::of(Level::Optional), Some(&key), cx);
                Ok(Disposition::Clear)
            }
            RuleDisposition::Missing(Level::AcceptOnly) => Ok(Disposition::Clear),
            RuleDisposition::Missing(Level::Mandatory) if self.holds.is_some() => Ok(Disposition::Hold),
            RuleDisposition::Missing(Level::Mandatory) => Err(DropReason::NoSa),
        }
    }

    /// The decision of the rules for packets with this key, without remembering it. `None`: no rule matches.
    pub(super) fn consider_rules(
        &self,
        key: &PacketKey,
        app: AppId,
        flow: &Flow,
        sad: &OutboundSad,
    ) -> Option<RuleDecision> {
        let rules = &self.rule_cache.as_ref()?.rules;
        let slot = rules.find(key)?;
        let rule = rules.snapshot.rule(slot)?;
        let (services, disposition) = match &rule.action {
            Action::Bypass => (Services::NONE, RuleDisposition::Clear),
            Action::Discard => (Services::NONE, RuleDisposition::Refuse(DropReason::RuleDiscard)),
            Action::Protect(protection) => {
                let demanded = protection.demanded();
                match association(rule, protection, key, app, flow, sad) {
                    Ok(Serving::Enough(sa)) => (demanded, RuleDisposition::Protect(sa)),
                    // The rule vouches for nothing then: a socket that asks for more asks for itself.
                    Ok(Serving::Weaker(sa)) => (Services::NONE, RuleDisposition::Protect(sa)),
                    Err(DropReason::NoSa) => (demanded, RuleDisposition::Missing(protection.level)),
                    Err(reason) => (demanded, RuleDisposition::Refuse(reason)),
                }
            }
        };
        let (scrub, class) = (rule.scrub, rule.class);
        Some(RuleDecision { slot, key: rule.key, services, scrub, class, disposition })
    }
}

/// The association that serves a packet by a rule.
enum Serving {
    /// It gives what the rule demands.
    Enough(SaIndex),
    /// It gives less, which a rule below mandatory prefers to clear.
    Weaker(SaIndex),
}

/// The association that meets the rule's demand for this packet, or comes near to it.
fn association(
    rule: &Rule,
    protection: &Protection,
    key: &PacketKey,
    app: AppId,
    flow: &Flow,
    sad: &OutboundSad,
) -> Result<Serving, DropReason> {
    let share = rule.share(key).map_err(|_| DropReason::PfpUnavailable)?;
    let find = |need: Services| {
        sad.search_for(app, flow, |sa, follows| {
            // Only a rule that says which members it wants can mean a later member of a bundle by itself.
            if follows && protection.bundle.iter().all(|template| *template == Template::ANY)
                || !is_narrowed(rule, &share, sa)
            {
                return Err(DropReason::NoSa);
            }
            let services = bundle(rule, protection, sa, sad).ok_or(DropReason::NoSa)?;
            if services.satisfies(need) { Ok(()) } else { Err(DropReason::SaTooWeak) }
        })
    };
    match (find(protection.demanded()), protection.level) {
        // Less than what was asked is still better than clear.
        (Err(DropReason::SaTooWeak), Level::Optional | Level::AcceptOnly) => {
            find(Services::NONE).map(Serving::Weaker)
        }
        (found, _) => found.map(Serving::Enough),
    }
}

/// The services that the bundle which begins with this association gives together; `None` if a member does not fit
/// the rule's templates, or none has the suite that the rule names.
fn bundle(rule: &Rule, protection: &Protection, head: &OutboundSa, sad: &OutboundSad) -> Option<Services> {
    let both = rule.direction == Direction::Both;
    let (mut services, mut has_suite) = (Services::NONE, protection.suite.is_none());
    let mut templates = protection.bundle.iter();
    let mut member = Some(head);
    for _ in 0..LONGEST_BUNDLE {
        let Some(sa) = member else { break };
        if templates.next().is_some_and(|template| !template.fits(sa.config(), both)) {
            return None;
        }
        let config = sa.config();
        services = services.union(protection.given(config.suite, config.services()));
        has_suite |= protection.suite == Some(config.suite);
        // The member that the chain itself goes to: two peers may have chosen one SPI.
        member = sad.successor(sa).and_then(|index| sad.get(index.ok()?));
    }
    // What the rule names and the chain lacks.
    (has_suite && templates.next().is_none()).then_some(services)
}

/// Whether the association belongs to this packet's values of what the rule populates from it, as far as selectors of
/// associations can say that (RFC 4301 section 4.4.1: such associations are not shared).
fn is_narrowed(rule: &Rule, share: &PacketKey, sa: &OutboundSa) -> bool {
    let populates = |field: &Field| rule.selectors.first().is_some_and(|s| s.populates(field));
    let selector = std::cell::OnceCell::new();
    OF_ASSOCIATIONS.into_iter().all(|field| match share.get(field) {
        Some(value) if field.is_optional() || populates(field) => {
            let selector = selector.get_or_init(|| TrafficSelector::from(sa.selectors()));
            *selector.condition(field) == Condition::one(value)
        }
        _ => true,
    })
}
