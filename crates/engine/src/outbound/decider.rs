//! Stages 3 and 4: who decides about a packet, and the association that the decision leads to.
//!
//! What enters: a whole packet with its headers and its flow. What leaves: a [`Selection`], or the reason why the
//! packet does not leave now. Nothing here touches the octets of a packet or the state of an association. The
//! associations belong to [`Protector`](super::protector::Protector) and are lent.

mod entries;
mod forwarded;
mod rule_cache;
mod rules;
mod source_route;
mod terms;
mod waiting;

use std::sync::Arc;

use sadb::spd::{Action, Decision, DecisionReason, Level, Spd, Terms};
use sadb::{FlowCache, FlowKey, OutboundSad, PacketKey, SaIndex};
use wire::ip::{self, Headers};
use wire::plain::Plain;
use wire::{AggregateId, AppId, DropReason, Flow, Meta, Packet, ScrubId, Services, record};

use super::origin::{self, asked};
use super::outcome::Outcome;
use super::route::{Disposition, Route};
use super::selection::{Obstacle, Selection};
use crate::cx::Cx;
use crate::entries::Entries;
use crate::hold::Holds;
use crate::rules::Rules;
use crate::scrubbing;
pub(super) use rule_cache::Peeked;
use rule_cache::{RuleCache, RuleDisposition};

/// The number of sets of four flows whose decisions are remembered.
const ROUTE_SETS: usize = 1024;

/// The state that decides about outbound packets.
pub(super) struct Decider {
    spd: Arc<Spd>,
    /// The entries of sockets; `None`: the compiled policy decides.
    entries: Option<Box<Entries>>,
    routes: FlowCache<Route>,
    /// The rules for outbound packets; `None`: there are none.
    rule_cache: Option<RuleCache>,
    /// The rules for packets that arrive in clear; `None`: there are none.
    arrivals: Option<Rules>,
    /// The packets that wait for an association; `None`: nobody answers acquires, so nothing waits.
    holds: Option<Holds>,
    seed: u64,
    /// A number that grows with each change of policy, entries or rules.
    policy_generation: u64,
    /// Whether packets come from a kernel half that lets bypassed ones pass by itself.
    filtered: bool,
}

/// A decision that is remembered for a plain packet: see [`Decider::remembered`].
#[derive(Clone, Copy)]
pub(super) struct RouteHit {
    pub selection: Selection,
    pub association: SaIndex,
    pub rule: u32,
    pub services: Services,
    pub aggregate: AggregateId,
}

impl Decider {
    /// A decider with this policy and no rules. `seed` is random: see [`FlowCache::new`].
    pub(super) fn new(spd: Arc<Spd>, seed: u64) -> Decider {
        Decider {
            spd,
            entries: None,
            routes: FlowCache::new(ROUTE_SETS, !seed),
            rule_cache: None,
            arrivals: None,
            holds: None,
            seed,
            policy_generation: 0,
            filtered: false,
        }
    }

    /// Take packets from a kernel half that lets bypassed ones pass by itself.
    pub(super) fn be_filtered(&mut self) {
        self.filtered = true;
    }

    /// The policy that is in force.
    pub(super) fn policy(&self) -> &Arc<Spd> {
        &self.spd
    }

    /// Set the policy of every application.
    pub(super) fn set_policy(&mut self, spd: Arc<Spd>) {
        self.translate_again(&spd);
        self.spd = spd;
        self.policy_generation += 1;
    }

    /// A number of its own for each state of policy, entries, rules and associations.
    #[inline]
    pub(super) fn epoch(&self, sad: &OutboundSad) -> u64 {
        // Both grow and neither shrinks, so each state of the two databases has a sum of its own.
        self.policy_generation + sad.epoch()
    }

    /// Whether a remembered route says all that stages 3 and 4 would say. Each field stands here with the reason why it
    /// may be left out, so that a new one does not compile until somebody has given a reason.
    #[inline]
    pub(super) fn may_use_fast_path(&self) -> bool {
        let Decider {
            // Rules choose by what is not in the key of the route cache.
            rule_cache,
            // The route cache has what these decided. Its epoch says that they are as they were.
            spd: _,
            entries: _,
            routes: _,
            policy_generation: _,
            // Only a route that protects is taken, and this is about clear ones.
            filtered: _,
            // The seed of hashes decides nothing.
            seed: _,
            // A stamped packet did not arrive from elsewhere.
            arrivals: _,
            // A route without an association is not taken, so nothing waits or asks.
            holds: _,
        } = self;
        rule_cache.is_none()
    }

    /// The decision that is remembered for a plain stamped packet; `None` if there is none, or if it wants more than
    /// protection by one association.
    #[inline]
    pub(super) fn remembered(&self, meta: &Meta, plain: &Plain, sad: &OutboundSad) -> Option<RouteHit> {
        let key = FlowKey::leaving(meta.app, plain, asked(meta.mark).bits());
        let route = self.routes.get(self.epoch(sad), &key)?;
        let (Action::Protect { services, .. }, Ok(association)) = (route.decision.action, route.sa) else {
            return None;
        };
        if route.scrub != ScrubId::NONE {
            return None;
        }
        let (selection, rule) = (Selection::protected(association), route.decision.rule().0);
        let aggregate = route.decision.terms.class;
        Some(RouteHit { selection, association, rule, services, aggregate })
    }

    /// The class and the way that a decision of before gives packets of this flow, for the queues in front of the look-up.
    /// Nothing is decided or counted by it.
    #[inline]
    pub(super) fn peek<S>(
        &self,
        packet: &Packet<S>,
        headers: &Headers,
        flow: &Flow,
        sad: &OutboundSad,
    ) -> (AggregateId, Peeked) {
        const UNKNOWN: (AggregateId, Peeked) = (AggregateId::DEFAULT, Peeked::Unknown);
        let epoch = self.epoch(sad);
        if origin::has_arrived(&packet.meta) {
            return (AggregateId::DEFAULT, Peeked::Unprotected);
        }
        if self.is_ruled(packet) {
            let Some(cache) = &self.rule_cache else { return UNKNOWN };
            let ruled = cache.answers.get(epoch, &rule_cache::key_of(packet, headers)).flatten();
            return ruled.map_or(UNKNOWN, |ruled| (ruled.class, ruled.disposition.peeked()));
        }
        let key = FlowKey::new(packet.meta.app, flow, asked(packet.meta.mark).bits());
        let Some(route) = self.routes.get(epoch, &key) else { return UNKNOWN };
        let peeked = match (route.sa, route.decision.action) {
            (Ok(association), _) => Peeked::Association(association),
            (Err(_), Action::Bypass | Action::Discard) => Peeked::Unprotected,
            (Err(_), Action::Protect { .. }) => Peeked::Unknown,
        };
        (route.decision.terms.class, peeked)
    }

    /// The reason to drop a packet before anything is known of it but its record; `None`: somebody may decide about it.
    #[inline]
    pub(super) fn refuses(&self, meta: &Meta) -> Option<DropReason> {
        let ruled = self.rule_cache.is_some() || self.arrivals.is_some() && origin::has_arrived(meta);
        let nobody_decides = meta.mark & (record::STAMPED | record::PROOF) == 0 && !ruled;
        nobody_decides.then(|| origin::unruled(meta))
    }

    /// Decide about a whole packet. Its `meta` gets the rule, the services, the class and the profile by which it is
    /// scrubbed.
    ///
    /// # Errors
    /// The reason why the packet does not leave now.
    #[inline]
    pub(super) fn decide<S>(
        &mut self,
        packet: &mut Packet<S>,
        headers: &Headers,
        flow: &Flow,
        sad: &mut OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) -> Result<Selection, Obstacle> {
        let arrived = origin::has_arrived(&packet.meta);
        let disposition = self.first_decision(packet, headers, flow, sad, cx);
        let disposition = match disposition {
            // Most packets: the result is not put together once more for them.
            Ok(Disposition::Protect(sa)) if !headers.has_options || arrived => {
                return Ok(Selection::protected(sa));
            }
            Ok(Disposition::Protect(_)) => disposition,
            _ if ip::is_icmp(headers) => self.icmp_error_path(packet, headers, disposition, sad),
            _ => disposition,
        };
        let disposition = match disposition {
            Ok(disposition) if headers.has_options && !arrived => {
                self.check_source_route(disposition, packet, headers, flow, sad)
            }
            _ => disposition,
        };
        match disposition {
            Ok(Disposition::Protect(sa)) => Ok(Selection::protected(sa)),
            Ok(Disposition::Clear) => Ok(Selection::clear()),
            Ok(Disposition::Hold) => Err(Obstacle::Association),
            Ok(Disposition::Await) => Err(Obstacle::Entry),
            Err(reason) => Err(Obstacle::Refused(reason)),
        }
    }

    /// The decision of whoever the packet belongs to.
    #[inline]
    fn first_decision<S>(
        &mut self,
        packet: &mut Packet<S>,
        headers: &Headers,
        flow: &Flow,
        sad: &mut OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) -> Result<Disposition, DropReason> {
        let is_stamped = packet.meta.mark & record::STAMPED != 0;
        if origin::has_arrived(&packet.meta) {
            self.arrive(packet, headers, flow, sad)
        } else if self.is_ruled(packet) {
            let asked = if is_stamped { asked(packet.meta.mark) } else { Services::NONE };
            match self.rule(packet, headers, flow, sad, cx) {
                // The rules give less than the socket asked for: its own demand decides.
                Ok(Disposition::Clear) if asked != Services::NONE => {
                    self.by_policy(&mut packet.meta, flow, sad, cx)
                }
                Ok(_) if !packet.meta.services.satisfies(packet.meta.services.raised_to(asked)) => {
                    self.by_policy(&mut packet.meta, flow, sad, cx)
                }
                disposition => disposition,
            }
        } else if is_stamped {
            self.by_policy(&mut packet.meta, flow, sad, cx)
        } else if origin::is_forwarded(&packet.meta) {
            Err(DropReason::NoSpdEntry)
        } else {
            self.answer(&mut packet.meta, flow, sad)
        }
    }

    /// The decision of policy for a stamped packet, with the association.
    fn by_policy(
        &mut self,
        meta: &mut Meta,
        flow: &Flow,
        sad: &OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) -> Result<Disposition, DropReason> {
        let Some(route) = self.route(meta, flow, sad) else { return Ok(Disposition::Await) };
        meta.rule = route.decision.rule().0;
        match route.decision.action {
            // Whether an item that says `never` matches is not looked at where packets are chosen.
            Action::Bypass if self.filtered && route.decision.why != DecisionReason::Item => {
                Err(DropReason::Disagreement)
            }
            Action::Bypass => Ok(Disposition::Clear),
            Action::Discard => Err(DropReason::PolicyDiscard),
            Action::Protect { services, level } => {
                meta.services = services;
                meta.aggregate = route.decision.terms.class;
                match (route.sa, level) {
                    (Ok(sa), _) => {
                        meta.scrub = route.scrub;
                        Ok(Disposition::Protect(sa))
                    }
                    (Err(DropReason::NoSa), Level::AcceptOnly) => Ok(Disposition::Clear),
                    (Err(DropReason::NoSa), _) => self.negotiate(meta, flow, route.decision.terms, cx),
                    (Err(reason), _) => Err(reason),
                }
            }
        }
    }

    /// The disposition of an answer that the kernel made without a socket (a reset, an unreachable, an echo reply) to a
    /// protected packet. It leaves with at least the services that packet had, or not at all, since it may quote what
    /// was encrypted.
    fn answer(&self, meta: &mut Meta, flow: &Flow, sad: &mut OutboundSad) -> Result<Disposition, DropReason> {
        let low = meta.mark & record::APP_MASK;
        meta.app = AppId(u16::try_from(low).unwrap_or_default());
        meta.services = asked(meta.mark).union(Services::AUTHENTICATED);
        let association = sad.find_for_answer(meta.app, flow, meta.services)?;
        meta.scrub = self.profile(association, flow, sad);
        Ok(Disposition::Protect(association))
    }

    /// The selection for a packet that the scrubber made: the protection that the packets of its flow have, or clear if
    /// a rule says so for them and no application's policy speaks for it.
    ///
    /// # Errors
    /// The reason why it may not leave.
    pub(super) fn select_emitted(
        &self,
        app: AppId,
        flow: &Flow,
        sad: &OutboundSad,
    ) -> Result<Selection, DropReason> {
        let reason = match sad.search_for_answer(app, flow, Services::AUTHENTICATED) {
            Ok(association) => return Ok(Selection::protected(association)),
            Err(reason) => reason,
        };
        if app != AppId::NONE || self.spd.scrub(flow) != ScrubId::NONE {
            return Err(reason);
        }
        let ruled = self.consider_rules(&PacketKey::of_flow(flow), app, flow, sad);
        match ruled.map(|ruled| ruled.disposition) {
            Some(RuleDisposition::Clear) => Ok(Selection::clear()),
            Some(RuleDisposition::Protect(association)) => Ok(Selection::protected(association)),
            Some(RuleDisposition::Refuse(reason)) => Err(reason),
            Some(RuleDisposition::Missing(_)) | None => Err(reason),
        }
    }

    /// The route that [`Self::consider`] finds, remembered until policy, entries or associations change. `None`: there
    /// is no entry for the packet yet.
    fn route(&mut self, meta: &Meta, flow: &Flow, sad: &OutboundSad) -> Option<Route> {
        let epoch = self.epoch(sad);
        let (app, asked) = (meta.app, asked(meta.mark));
        let key = FlowKey::new(app, flow, asked.bits());
        if let Some(route) = self.routes.get(epoch, &key) {
            return Some(route);
        }
        let decision = self.verdict(meta, flow)?;
        let route = self.serve(decision, app, flow, asked, sad);
        self.routes.put(epoch, &key, route);
        Some(route)
    }

    /// The decision of policy for a flow, with the association.
    pub(super) fn consider(&self, app: AppId, flow: &Flow, asked: Services, sad: &OutboundSad) -> Route {
        self.serve(self.spd.decide(app, flow), app, flow, asked, sad)
    }

    /// The route of a decision: the demand of the socket added, and the association found.
    fn serve(
        &self,
        decision: Decision,
        app: AppId,
        flow: &Flow,
        asked: Services,
        sad: &OutboundSad,
    ) -> Route {
        let decision = raise(decision, asked);
        let sa = match decision.action {
            Action::Protect { services, level } => {
                Decider::serving(app, flow, services, level, &decision.terms, sad)
            }
            Action::Bypass | Action::Discard => Err(DropReason::NoSa),
        };
        let scrub = sa.map_or(ScrubId::NONE, |association| self.profile(association, flow, sad));
        Route { decision, sa, scrub }
    }

    /// The profile by which a flow of this association is scrubbed: the one that policy says, and the one of the rules
    /// unless the association is bound to an application. The inbound half, which knows no more than this, comes to the
    /// same answer.
    fn profile(&self, association: SaIndex, flow: &Flow, sad: &OutboundSad) -> ScrubId {
        let app = bound_to(association, sad);
        let policy = if self.spd.scrubs() { scrubbing::profile(&self.spd, app, flow) } else { ScrubId::NONE };
        if app == AppId::NONE { policy.max(self.ruled_profile(flow, sad)) } else { policy }
    }

    /// The profile by which the rules say that packets of a flow are scrubbed.
    fn ruled_profile(&self, flow: &Flow, sad: &OutboundSad) -> ScrubId {
        let ruled = self.consider_rules(&PacketKey::of_flow(flow), AppId::NONE, flow, sad);
        ruled.map_or(ScrubId::NONE, |ruled| ruled.scrub)
    }
}

/// The application that an association is bound to. Flows of such associations have their own entries in the scrubbers.
pub(super) fn bound_to(association: SaIndex, sad: &OutboundSad) -> AppId {
    sad.get(association).and_then(|sa| sa.selectors().app).unwrap_or_default()
}

/// The decision with a socket's own demand on top of policy: both services, mandatory. What policy refuses stays
/// refused.
fn raise(decision: Decision, asked: Services) -> Decision {
    if asked == Services::NONE {
        return decision;
    }
    let services = match decision.action {
        Action::Discard => return decision,
        Action::Bypass => asked,
        Action::Protect { services, .. } => services.raised_to(asked),
    };
    let Terms { suite, class, .. } = decision.terms;
    let terms = Terms { suite, class, ..Terms::of(Level::Mandatory) };
    Decision { action: Action::Protect { services, level: Level::Mandatory }, terms, ..decision }
}
