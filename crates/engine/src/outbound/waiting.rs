//! Packets that wait for an association, and the events that tell key managers.

use sadb::spd::{Action, Decision, Failure, Level, Negotiating, Terms};
use sadb::{PacketKey, rules};
use wire::ip::{self, Headers};
use wire::stage::Inner;
use wire::{AcquireId, DropReason, Flow, Meta, Packet, Pool, Services, Time, record};

use super::Outbound;
use super::course::{Route, final_flow};
use super::origin::asked;
use super::outcome::{Outcome, end};
use super::rule_cache::{RuleCourse, RuleDecision, key_of};
use crate::event::{Acquire, Event};
use crate::hold::{Asked, HoldLimits, Holds, Key};

impl Outbound {
    /// Set the limits for packets that wait for a key manager's answer. With `None` no packet waits any longer, and
    /// those that wait are given up at the next [`Outbound::expire`].
    pub fn set_hold(&mut self, limits: Option<HoldLimits>) {
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
    pub fn held(&self) -> usize {
        self.holds.as_ref().map_or(0, Holds::len)
    }

    /// The next event for key managers.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// The number of events that found no room since the last call.
    pub fn take_lost_events(&mut self) -> u64 {
        self.events.take_lost()
    }

    /// Send the packets that waited for an association that exists now, in the order in which they came. Call this
    /// after every command; it costs three comparisons when there is nothing to do.
    #[inline]
    pub fn release(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        self.release_entered(now, pool, out);
        self.send_own(now, pool, out);
        self.send_ordered(now, pool, out);
        let state = self.loads + self.sad.epoch();
        if self.holds.as_ref().is_some_and(|holds| !holds.is_quiet(state)) {
            self.release_answered(now, state, pool, out);
        }
    }

    #[cold]
    fn release_answered(&mut self, now: Time, state: u64, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let Some(mut holds) = self.holds.take() else { return };
        let ready = holds.answered(state, |key, first| {
            let Some(headers) = first.and_then(|packet| Headers::parse(packet.bytes()).ok()) else {
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
                return self.sad.search(key.app, &flow, Services::NONE).is_ok();
            };
            let flow = first.map(|packet| final_flow(packet.bytes(), &headers));
            let asked = first.map_or(Services::NONE, |packet| asked(packet.meta.mark));
            if let (Some(packet), Some(flow)) = (first, &flow)
                && self.is_ruled(packet)
            {
                let ruled = self.consider_rules(&key_of(packet, &headers), packet.meta.app, flow);
                return !matches!(
                    ruled,
                    Some(RuleDecision { course: RuleCourse::Missing(Level::Mandatory), .. })
                );
            }
            let route = flow.map(|flow| self.consider(key.app, &flow, asked));
            // Answered by an association, or by a policy that does not let packets wait for one any more.
            !matches!(
                route,
                Some(Route {
                    decision: Decision {
                        action: Action::Protect { level: Level::Mandatory | Level::Optional, .. },
                        terms: Terms { negotiating: Negotiating::Hold, .. },
                        ..
                    },
                    sa: Err(DropReason::NoSa),
                    ..
                })
            )
        });
        self.holds = Some(holds);
        for mut packet in ready {
            packet.meta.received = now;
            match Headers::parse(packet.bytes()) {
                Ok(headers) => self.dispatch(packet, &headers, None, pool, out),
                Err(error) => end(&mut self.tally, packet, error.into(), None, pool, out),
            }
        }
    }

    /// Whether this acquire has had no answer yet.
    pub fn awaits(&self, id: AcquireId) -> bool {
        self.holds.as_ref().is_some_and(|holds| holds.awaits(id))
    }

    /// Take in that there will be no association. Packets that waited for it are dropped, or pass in clear where policy
    /// says so.
    pub fn refuse_acquire(&mut self, id: AcquireId, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let refused = self.holds.as_mut().map(|holds| holds.refuse(id)).unwrap_or_default();
        for (packet, failure) in refused {
            self.give_up(packet, failure, DropReason::AcquireRefused, pool, out);
        }
    }

    pub(super) fn expire_holds(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let Some(holds) = &mut self.holds else { return };
        let late = holds.expire(now);
        if holds.is_closed() {
            self.holds = None;
        }
        for (mut packet, failure) in late {
            packet.meta.received = now;
            self.give_up(packet, failure, DropReason::HoldExpired, pool, out);
        }
    }

    #[cold]
    fn give_up(
        &mut self,
        packet: Packet<Inner>,
        failure: Failure,
        reason: DropReason,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let headers = Headers::parse(packet.bytes()).ok();
        // What was joined from fragments never goes out in clear again.
        if let (Failure::Pass, false, Some(headers)) = (failure, packet.meta.may_fragment, &headers) {
            return self.dispatch(packet, headers, None, pool, out);
        }
        let Some(headers) = headers else { return end(&mut self.tally, packet, reason, None, pool, out) };
        let flow = ip::flow(packet.bytes(), &headers, true);
        self.refuse(packet, &headers, reason, &flow, pool, out);
    }

    /// Ask for an association, once for each pair of hosts and application.
    #[cold]
    pub(super) fn announce(
        &mut self,
        now: Time,
        meta: &Meta,
        flow: &Flow,
        terms: &Terms,
        ruled: Option<&PacketKey>,
    ) -> Option<Result<Asked, DropReason>> {
        let holds = self.holds.as_mut()?;
        let rule = ruled.and_then(|packet| {
            let rules = &self.ruling.as_ref()?.rules;
            Some((packet, rules.snapshot.rule(rules.find(packet)?)?))
        });
        let mut key = Key::new(meta.app, flow, meta.services, terms);
        if meta.mark & record::STAMPED != 0 {
            key = key.stamped();
        }
        if let Some((packet, rule)) = rule {
            // Those that populate other values need associations of their own.
            key = key.ruled(rule.key, rule.share(packet).unwrap_or(PacketKey::EMPTY));
        }
        let asked = holds.ask(key, now);
        if let Ok(Asked { id, new: true, failed }) = asked {
            let selectors = rule.and_then(|(packet, rule)| rule.instantiate(packet).ok()).unwrap_or_default();
            let bundle = match rule.map(|(_, rule)| &rule.action) {
                Some(rules::Action::Protect(protection)) => protection.bundle.clone(),
                _ => Vec::new(),
            };
            self.events.push(Event::Acquire(Acquire {
                id,
                at: now,
                app: meta.app,
                flow: *flow,
                services: meta.services,
                suite: terms.suite,
                rule: meta.rule,
                held: terms.negotiating == Negotiating::Hold && !failed,
                selectors,
                bundle,
            }));
        }
        Some(asked)
    }

    /// Let the packet wait, or drop it where there is no room.
    #[cold]
    pub(super) fn hold(
        &mut self,
        now: Time,
        mut packet: Packet<Inner>,
        joined: Option<u32>,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        // What was joined stays whole: it is protected or it ends, and never goes out in clear again.
        packet.meta.may_fragment |= joined.is_some();
        let headers = Headers::parse(packet.bytes()).ok();
        let ruled = headers.filter(|_| self.is_ruled(&packet)).map(|headers| key_of(&packet, &headers));
        let terms = match &ruled {
            Some(_) => Terms::of(Level::Mandatory),
            None => {
                let route = self.route(now, &packet.meta, flow);
                route.map_or(Terms::of(Level::Mandatory), |route| route.decision.terms)
            }
        };
        let reason = match self.announce(now, &packet.meta, flow, &terms, ruled.as_ref()) {
            Some(Ok(Asked { id, .. })) => match self.holds.as_mut().map(|holds| holds.push(id, packet)) {
                Some(Ok(())) => return out.push(Outcome::Held(id)),
                Some(Err(back)) => {
                    packet = back;
                    DropReason::HoldFull
                }
                None => return,
            },
            Some(Err(reason)) => reason,
            None => DropReason::NoSa,
        };
        match headers {
            Some(headers) => self.refuse(packet, &headers, reason, flow, pool, out),
            None => end(&mut self.tally, packet, reason, Some(flow), pool, out),
        }
    }
}
