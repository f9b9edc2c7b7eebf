//! Packets that wait for an association, and the acquires that tell key managers.

use std::collections::VecDeque;

use sadb::spd::{Action, Decision, Failure, Level, Negotiating, Terms};
use sadb::{OutboundSad, PacketKey, rules};
use wire::ip::Headers;
use wire::stage::Inner;
use wire::{AcquireId, DropReason, Flow, Meta, Packet, Services, Time, record};

use super::Decider;
use super::rule_cache::{RuleDecision, RuleDisposition, key_of};
use crate::cx::Cx;
use crate::event::{Acquire, Event};
use crate::hold::{AcquireState, HoldLimits, Holds, Key};
use crate::outbound::origin::asked;
use crate::outbound::outcome::Outcome;
use crate::outbound::route::{Route, final_flow};

impl Decider {
    /// Set the limits for packets that wait for a key manager's answer; `None`: no packet waits any longer.
    pub(in crate::outbound) fn set_hold(&mut self, limits: Option<HoldLimits>) {
        match limits {
            Some(limits) if self.holds.is_none() => self.holds = Some(Holds::new(limits)),
            Some(_) => {}
            None => {
                if let Some(holds) = &mut self.holds {
                    holds.close();
                }
            }
        }
    }

    /// The number of packets that wait for an association.
    pub(in crate::outbound) fn held(&self) -> usize {
        self.holds.as_ref().map_or(0, Holds::len)
    }

    /// Whether this acquire has had no answer yet.
    pub(in crate::outbound) fn awaits(&self, id: AcquireId) -> bool {
        self.holds.as_ref().is_some_and(|holds| holds.awaits(id))
    }

    /// Whether packets wait for an association, and something has changed since it was last examined whether they have
    /// one.
    #[inline]
    pub(in crate::outbound) fn may_release(&self, sad: &OutboundSad) -> bool {
        self.holds.as_ref().is_some_and(|holds| !holds.is_quiet(self.epoch(sad)))
    }

    /// The packets that wait no longer, since there is an association for them, or a policy that does not let them
    /// wait.
    #[cold]
    pub(in crate::outbound) fn take_answered(&mut self, sad: &OutboundSad) -> VecDeque<Packet<Inner>> {
        let Some(mut holds) = self.holds.take() else { return VecDeque::new() };
        let ready = holds.answered(self.epoch(sad), |key, first| self.is_answered(key, first, sad));
        self.holds = Some(holds);
        ready
    }

    /// Whether an acquire for this key, whose first packet is `first`, is answered.
    fn is_answered(&self, key: &Key, first: Option<&Packet<Inner>>, sad: &OutboundSad) -> bool {
        let parsed = first.and_then(|packet| Some((packet, Headers::parse(packet.bytes()).ok()?)));
        let Some((packet, headers)) = parsed else {
            // Nothing waits: asked for optional traffic, which an association of any kind between the two answers.
            if key.is_ruled() {
                // Which packet it was for is not known any more: the next one asks again when this is forgotten.
                return false;
            }
            let flow = Flow {
                opaque: false,
                local: key.local,
                remote: key.remote,
                protocol: 0,
                local_port: 0,
                remote_port: 0,
            };
            return sad.search(key.app, &flow, Services::NONE).is_ok();
        };
        let flow = final_flow(packet.bytes(), &headers);
        if self.is_ruled(packet) {
            let ruled = self.consider_rules(&key_of(packet, &headers), packet.meta.app, &flow, sad);
            return !matches!(
                ruled,
                Some(RuleDecision { disposition: RuleDisposition::Missing(Level::Mandatory), .. })
            );
        }
        let route = self.consider(key.app, &flow, asked(packet.meta.mark), sad);
        // Answered by an association, or by a policy that does not let packets wait for one any more.
        !matches!(
            route,
            Route {
                decision: Decision {
                    action: Action::Protect { level: Level::Mandatory | Level::Optional, .. },
                    terms: Terms { negotiating: Negotiating::Hold, .. },
                    ..
                },
                sa: Err(DropReason::NoSa),
                ..
            }
        )
    }

    /// Take in that there will be no association. The packets that waited for it are returned, each with what policy
    /// says of such a failure.
    pub(in crate::outbound) fn refuse_acquire(&mut self, id: AcquireId) -> Vec<(Packet<Inner>, Failure)> {
        self.holds.as_mut().map(|holds| holds.refuse(id)).unwrap_or_default()
    }

    /// The packets that waited too long for an association, each with what policy says of such a failure.
    pub(in crate::outbound) fn expire_holds(&mut self, now: Time) -> Vec<(Packet<Inner>, Failure)> {
        let Some(holds) = &mut self.holds else { return Vec::new() };
        let late = holds.expire(now);
        if holds.is_closed() {
            self.holds = None;
        }
        late
    }

    /// Ask for an association, once for each pair of hosts and application.
    #[cold]
    pub(super) fn announce(
        &mut self,
        meta: &Meta,
        flow: &Flow,
        terms: &Terms,
        ruled: Option<&PacketKey>,
        cx: &mut Cx<'_, Outcome>,
    ) -> Option<Result<AcquireState, DropReason>> {
        let now = meta.received;
        let holds = self.holds.as_mut()?;
        let rule = ruled.and_then(|packet| {
            let rules = &self.rule_cache.as_ref()?.rules;
            Some((packet, rules.snapshot.rule(rules.find(packet)?)?))
        });
        let mut key = Key::new(meta.app, flow, meta.services, terms);
        if meta.mark & record::STAMPED != 0 {
            key = key.stamped();
        }
        if let Some((packet, rule)) = rule {
            // Packets with other values for what the rule populates need associations of their own.
            key = key.ruled(rule.key, rule.share(packet).unwrap_or(PacketKey::EMPTY));
        }
        let asked = holds.ask(key, now);
        if let Ok(AcquireState { id, new: true, failed }) = asked {
            let selectors = rule.and_then(|(packet, rule)| rule.instantiate(packet).ok()).unwrap_or_default();
            let (bundle, suite) = match rule.map(|(_, rule)| &rule.action) {
                Some(rules::Action::Protect(protection)) => (protection.bundle.clone(), protection.suite),
                _ => (Vec::new(), None),
            };
            cx.events.push(Event::Acquire(Acquire {
                id,
                at: now,
                app: meta.app,
                flow: *flow,
                services: meta.services,
                suite: terms.suite.or(suite),
                rule: meta.rule,
                held: terms.negotiating == Negotiating::Hold && !failed,
                selectors,
                bundle,
            }));
        }
        Some(asked)
    }

    /// Let the packet wait for an association. It is given back with a reason where it may not.
    #[cold]
    pub(in crate::outbound) fn hold(
        &mut self,
        packet: Packet<Inner>,
        headers: &Headers,
        flow: &Flow,
        sad: &OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) -> Option<(Packet<Inner>, DropReason)> {
        let ruled = self.is_ruled(&packet).then(|| key_of(&packet, headers));
        let terms = match &ruled {
            Some(_) => Terms::of(Level::Mandatory),
            None => {
                let route = self.route(&packet.meta, flow, sad);
                route.map_or(Terms::of(Level::Mandatory), |route| route.decision.terms)
            }
        };
        match self.announce(&packet.meta, flow, &terms, ruled.as_ref(), cx) {
            Some(Ok(AcquireState { id, .. })) => match self.holds.as_mut()?.push(id, packet) {
                Ok(()) => {
                    cx.out.push(Outcome::Held(id));
                    None
                }
                Err(packet) => Some((packet, DropReason::HoldFull)),
            },
            Some(Err(reason)) => Some((packet, reason)),
            None => Some((packet, DropReason::NoSa)),
        }
    }
}
