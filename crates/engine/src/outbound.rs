//! The outbound half, from the host to the wire, in the order of its stages.
//!
//! 0. The fast path. A plain packet whose flow has been decided goes straight into the open burst, or is sealed where it
//!    lies: see `express.rs`, which says of every other stage why it may be left out. Everything else begins at 1.
//! 1. Headers.
//! 2. Fragments wait until their packet is whole.
//! 3. The owner of the packet. A packet of an application that has a policy is decided by that policy. An answer that
//!    the kernel made to a protected packet (PROOF in its mark) must leave protected. Anything else is decided by the
//!    rules of the SPD. Without rules, a stamped packet that no policy speaks for is bypassed and one without a stamp
//!    is dropped. The demand of the socket itself (the services in a stamped mark) comes on top of policy and rules.
//!    Packets on their way through this host are decided by the rules alone, and so are those that arrived in clear for
//!    a network behind it: see `forwarded.rs`.
//! 4. The association. After that, packets are scrubbed that policy wants scrubbed: see `scrubbed.rs`.
//! 5. Size. Super-packets are cut to fit; a packet that forbids fragmentation and does not fit is answered; any other
//!    is carried whole and its outer packet fragmented.
//! 6. ESP or AH, or each member of a bundle in turn: see `bundle.rs`.

mod course;
mod entered;
mod express;
mod forwarded;
mod gather;
mod origin;
mod outcome;
mod pieces;
mod pmtu;
mod probes;
mod refusal;
mod routed;
mod rule_cache;
mod ruled;
mod scrubbed;
mod terms;
mod timers;
mod verbs;
mod waiting;

pub(crate) use origin::interface;
pub use outcome::Outcome;

use crate::answers::Answers;
use crate::bundle;
use crate::entries::Entries;
use crate::event::Events;
use crate::fit;
use crate::hold::Holds;
use crate::icmp::Listening;
use crate::mss;
use crate::probes::Orders;
use crate::scrubbing::{Own, Scrubbers, scrub_config};
use crate::tally::{About, Dropped, Tally};
use course::{Course, Express, Route};
use gather::{Gather, Hands};
use ipsec::{Codec, slot};
use origin::asked;
use outcome::{end, release, reply};
use pieces::{cut, each};
use rule_cache::RuleCache;
use sadb::spd::{Action, Decision, Level, Spd, Terms, Why};
use sadb::{Chain, FlowCache, FlowKey, OutboundSa, OutboundSad, SaIndex};
use std::sync::Arc;
use timers::Timers;
use wire::ip::{self, Headers};
use wire::stage::{Inner, Scheduled, Selected};
use wire::{
    AppId, Buf, DropReason, Flow, Meta, Packet, Pool, Reassembled, Reassembler, ScrubId, Services, Time,
    fragment, ipv6, record,
};

/// The number of sets of four flows whose decisions are remembered.
const ROUTE_SETS: usize = 1024;

/// The outbound half of the engine.
pub struct Outbound {
    spd: Arc<Spd>,
    /// The entries of sockets; `None`: the compiled policy decides.
    entries: Option<Box<Entries>>,
    sad: OutboundSad,
    routes: FlowCache<Route>,
    /// The rules for outbound packets; `None`: there are none.
    ruling: Option<RuleCache>,
    /// The rules for packets that arrive in clear; `None`: there are none.
    arrivals: Option<crate::rules::Rules>,
    seed: u64,
    /// A number that grows with each change of policy.
    loads: u64,
    /// Whether packets come from a kernel half that lets bypassed ones pass by itself.
    filtered: bool,
    fragments: Reassembler,
    /// The burst that is built; `None`: every packet leaves by itself, at once.
    gather: Option<Gather>,
    /// The packets that wait for an association; `None`: nobody answers acquires, so nothing waits.
    holds: Option<Holds>,
    events: Events,
    /// The scrubbers of flows whose policy says so.
    scrubbers: Scrubbers,
    /// Packets that the scrubber made itself.
    own: Vec<Own>,
    /// The compression state for bundles that compress.
    codec: Codec,
    tally: Tally,
    listening: Listening,
    answers: Answers,
    timers: Timers,
    orders: Orders,
}

impl Outbound {
    /// An engine with this policy and no associations. `seed` is random: see [`FlowCache::new`].
    pub fn new(spd: Arc<Spd>, seed: u64) -> Outbound {
        Outbound {
            spd,
            entries: None,
            sad: OutboundSad::new(seed),
            routes: FlowCache::new(ROUTE_SETS, !seed),
            ruling: None,
            arrivals: None,
            seed,
            loads: 0,
            filtered: false,
            fragments: Reassembler::default(),
            gather: None,
            holds: None,
            events: Events::default(),
            scrubbers: Scrubbers::new(scrub_config, [0; 16]),
            own: Vec::new(),
            codec: Codec::default(),
            tally: Tally::new(),
            listening: Listening::default(),
            answers: Answers::new(seed.rotate_left(17)),
            timers: Timers::new(seed),
            orders: Orders::default(),
        }
    }

    /// Say that packets come from a kernel half that sends only those here which policy protects. A packet that policy
    /// here would bypass then means that the two have different policies. It is dropped, since the other one may be
    /// right.
    pub fn behind_the_kernel_half(mut self) -> Outbound {
        self.filtered = true;
        self
    }

    /// Let packets of one association that follow one another leave as [`Outcome::Burst`]. A packet may then wait for
    /// those behind it until [`Outbound::flush`], which must come before anything else is done with the engine.
    pub fn gathering(mut self) -> Outbound {
        self.gather = Some(Gather::default());
        self
    }

    /// Send what was gathered, since nothing follows for now.
    #[inline]
    pub fn flush(&mut self, pool: &mut Pool, out: &mut Vec<Outcome>) {
        if let Some(gather) = &mut self.gather {
            gather.close(&mut Hands { sad: &mut self.sad, tally: &mut self.tally, pool, out });
        }
    }

    /// The time at which [`Outbound::beat`] has something to do; `None`: never, as things are.
    pub fn next_beat(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Send the keepalives and dummy packets that are due.
    pub fn beat(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        if self.timers.next().is_none_or(|next| now < next) {
            return;
        }
        // What was gathered has its sequence numbers already.
        self.flush(pool, out);
        self.timers.send_due(now, &mut self.sad, pool, out);
    }

    /// The rule that decided about the packet that was gathered last, in the form of [`Meta::rule`].
    pub fn gathered_rule(&self) -> u32 {
        self.gather.as_ref().map_or(0, Gather::last_rule)
    }

    /// Take one packet all the way. Its outcomes are appended to `out`; buffers come from `pool` and go back to it.
    pub fn handle(&mut self, now: Time, mut packet: Packet<Inner>, pool: &mut Pool, out: &mut Vec<Outcome>) {
        packet.meta.received = now;
        match self.express(&mut packet, pool, out) {
            Express::No => {}
            Express::Gathered => return pool.put(packet.into_buf()),
            Express::Sealed => {
                return out
                    .push(Outcome::Send(packet.advance::<Selected>().advance::<Scheduled>().advance()));
            }
        }
        // Not moved out of the result: the headers are many, and every packet would pay for the copy.
        let parsed = Headers::parse(packet.bytes());
        let headers = match &parsed {
            Ok(headers) => headers,
            Err(error) => return end(&mut self.tally, packet, (*error).into(), None, pool, out),
        };
        packet.buf_mut().truncate(headers.total_len);
        if !ip::checksum_ok(packet.bytes(), headers) {
            return end(&mut self.tally, packet, DropReason::BadChecksum, None, pool, out);
        }
        let ruled = self.ruling.is_some() || self.arrivals.is_some() && origin::has_arrived(&packet.meta);
        if packet.meta.mark & (record::STAMPED | record::PROOF) == 0 && !ruled {
            let flow = ip::flow(packet.bytes(), headers, true);
            let reason = origin::unruled(&packet.meta);
            return end(&mut self.tally, packet, reason, Some(&flow), pool, out);
        }
        if headers.fragment.is_some() {
            return self.join(now, packet, headers, pool, out);
        }
        self.dispatch(packet, headers, None, pool, out);
    }

    /// Stages 3 to 6, for a whole packet. `joined` is the identification of the fragments that it was joined from.
    #[inline]
    fn dispatch(
        &mut self,
        mut packet: Packet<Inner>,
        headers: &Headers,
        joined: Option<u32>,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let arrived = origin::has_arrived(&packet.meta);
        let mut flow = ip::flow(packet.bytes(), headers, !arrived);
        if headers.has_options && !arrived {
            // What protects the packet must do so to its end, not to the first stop of its route.
            match ip::final_destination(packet.bytes(), headers) {
                Ok(last) => flow.remote = last,
                Err(error) => return end(&mut self.tally, packet, error.into(), Some(&flow), pool, out),
            }
        }
        let now = packet.meta.received;
        let course = if arrived {
            self.arrive(&mut packet, headers, &flow)
        } else if self.is_ruled(&packet) {
            let asked = if packet.meta.mark & record::STAMPED != 0 {
                asked(packet.meta.mark)
            } else {
                Services::NONE
            };
            match self.rule(now, &mut packet, headers, &flow) {
                // The rules give less than the socket asked for: its own demand decides.
                Ok(Course::Clear) if asked != Services::NONE => self.decide(now, &mut packet.meta, &flow),
                Ok(_) if !packet.meta.services.satisfies(asked) => self.decide(now, &mut packet.meta, &flow),
                course => course,
            }
        } else if packet.meta.mark & record::STAMPED != 0 {
            self.decide(now, &mut packet.meta, &flow)
        } else if origin::is_forwarded(&packet.meta) {
            Err(DropReason::NoSpdEntry)
        } else {
            self.answer(&mut packet.meta, &flow)
        };
        let course = match course {
            Ok(Course::Protect(_)) => course,
            _ if ip::is_icmp(headers) => self.as_return_traffic(&mut packet, headers, course),
            _ => course,
        };
        let course = match course {
            Ok(course) if headers.has_options && !arrived => self.by_way_of(course, &packet, headers, &flow),
            _ => course,
        };
        match course {
            Ok(Course::Hold) => self.hold(now, packet, joined, &flow, pool, out),
            Ok(Course::Await) => self.await_entry(packet, joined, &flow, pool, out),
            Ok(course) if packet.meta.scrub != ScrubId::NONE => {
                self.scrub(course, packet, joined, &flow, pool, out);
            }
            Ok(course) => self.go(course, packet, headers, joined, &flow, pool, out),
            Err(reason) => self.refuse(packet, headers, reason, &flow, pool, out),
        }
    }

    /// Stages 5 and 6 for a packet that waits for nothing.
    #[expect(clippy::too_many_arguments, reason = "a packet, what is known of it, and where it may go")]
    #[inline]
    fn go(
        &mut self,
        course: Course,
        packet: Packet<Inner>,
        headers: &Headers,
        joined: Option<u32>,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        match (course, joined) {
            (Course::Protect(sa), _) => self.protect(sa, packet, headers, flow, pool, out),
            (Course::Clear, Some(id)) if packet.bytes().len() > ipv6::MIN_MTU => {
                self.cut_again(packet, headers, id, flow, pool, out);
            }
            (Course::Clear, _) => self.clear(packet, headers, flow, pool, out),
            // What waits has not come so far.
            (Course::Hold | Course::Await, _) => {
                end(&mut self.tally, packet, DropReason::NoSa, Some(flow), pool, out);
            }
        }
    }

    /// The decision of policy for a stamped packet, with the association.
    fn decide(&mut self, now: Time, meta: &mut Meta, flow: &Flow) -> Result<Course, DropReason> {
        let Some(route) = self.route(now, meta, flow) else { return Ok(Course::Await) };
        meta.rule = route.decision.rule().0;
        match route.decision.action {
            // Whether an item that says `never` matches is not looked at where packets are chosen.
            Action::Bypass if self.filtered && route.decision.why != Why::Item => {
                Err(DropReason::Disagreement)
            }
            Action::Bypass => Ok(Course::Clear),
            Action::Discard => Err(DropReason::PolicyDiscard),
            Action::Protect { services, level } => {
                meta.services = services;
                match (route.sa, level) {
                    (Ok(sa), _) => {
                        meta.scrub = route.scrub;
                        Ok(Course::Protect(sa))
                    }
                    (Err(DropReason::NoSa), Level::AcceptOnly) => Ok(Course::Clear),
                    (Err(DropReason::NoSa), _) => self.negotiate(now, meta, flow, route.decision.terms),
                    (Err(reason), _) => Err(reason),
                }
            }
        }
    }

    /// The course of an answer that the kernel made without a socket (a reset, an unreachable, an echo reply) to a
    /// protected packet. It leaves with at least the services that packet had, or not at all, since it may quote what
    /// was encrypted.
    fn answer(&mut self, meta: &mut Meta, flow: &Flow) -> Result<Course, DropReason> {
        let low = meta.mark & record::APP_MASK;
        meta.app = AppId(u16::try_from(low).unwrap_or_default());
        meta.services = asked(meta.mark).union(Services::AUTHENTICATED);
        let sa = self.sad.find_for_answer(meta.app, flow, meta.services)?;
        meta.scrub = self.profile(sa, flow);
        Ok(Course::Protect(sa))
    }

    /// Stage 2: the last missing fragment becomes the whole packet and goes on.
    #[cold]
    fn join(
        &mut self,
        now: Time,
        mut packet: Packet<Inner>,
        headers: &Headers,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        // Pieces of different senders never make one packet.
        let context = origin::sender(&packet.meta);
        let id = headers.fragment.map(|fragment| fragment.id);
        let answer = self.fragments.push(now, context, packet.bytes(), headers, pool);
        self.tally.lost_fragments(self.fragments.take_lost());
        let reason = match answer {
            Reassembled::Incomplete => DropReason::FragmentHeld,
            Reassembled::Rejected(reason) => reason,
            Reassembled::Complete(whole) => {
                pool.put(std::mem::replace(packet.buf_mut(), whole));
                // Its sender had fragmented it, so may we: answering "too big" would not help.
                packet.meta.may_fragment = true;
                match Headers::parse(packet.bytes()) {
                    Ok(headers) => return self.dispatch(packet, &headers, id, pool, out),
                    Err(error) => error.into(),
                }
            }
        };
        let flow = ip::flow(packet.bytes(), headers, true);
        end(&mut self.tally, packet, reason, Some(&flow), pool, out);
    }

    /// The route that [`Self::consider`] finds, remembered until policy, entries or associations change. `None`: there
    /// is no entry for the packet yet.
    fn route(&mut self, now: Time, meta: &Meta, flow: &Flow) -> Option<Route> {
        // Both grow and neither shrinks, so each state of the two databases has a sum of its own.
        let epoch = self.loads + self.sad.epoch();
        let (app, asked) = (meta.app, asked(meta.mark));
        let key = FlowKey::new(app, flow, asked.bits());
        if let Some(route) = self.routes.get(epoch, &key) {
            return Some(route);
        }
        let decision = self.verdict(now, meta, flow)?;
        let route = self.serve(decision, app, flow, asked);
        self.routes.put(epoch, &key, route);
        Some(route)
    }

    /// The decision of policy for a flow, with the association.
    fn consider(&self, app: AppId, flow: &Flow, asked: Services) -> Route {
        self.serve(self.spd.decide(app, flow), app, flow, asked)
    }

    /// The route of a decision: the demand of the socket added, and the association found.
    fn serve(&self, decision: Decision, app: AppId, flow: &Flow, asked: Services) -> Route {
        let decision = raise(decision, asked);
        let sa = match decision.action {
            Action::Protect { services, level } => self.serving(app, flow, services, level, &decision.terms),
            Action::Bypass | Action::Discard => Err(DropReason::NoSa),
        };
        let scrub = sa.map_or(ScrubId::NONE, |sa| self.profile(sa, flow));
        Route { decision, sa, scrub }
    }

    /// Stages 5 and 6 for one association.
    #[inline]
    fn protect(
        &mut self,
        index: SaIndex,
        mut packet: Packet<Inner>,
        headers: &Headers,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let known = match &self.gather {
            Some(gather) if !headers.has_options => gather.mtu(index),
            _ => None,
        };
        if known.is_none() {
            match self.sad.chain(index) {
                Ok(chain) if chain.is_single() => {}
                Ok(chain) => return self.protect_by_bundle(&chain, packet, headers, flow, pool, out),
                Err(reason) => return end(&mut self.tally, packet, reason, Some(flow), pool, out),
            }
        }
        let tally = &mut self.tally;
        let Some(sa) = self.sad.get_mut(index) else {
            return end(tally, packet, DropReason::NoSa, Some(flow), pool, out);
        };
        let mtu = match known {
            Some(mtu) => mtu,
            None if headers.has_options => {
                ipsec::bundle_mtu(&[sa.config()], ipsec::own_header(packet.bytes()))
            }
            None => ipsec::inner_mtu(sa.config()),
        };
        mss::clamp(&mut packet, headers, mtu);
        let fit = fit::tunnel(&mut packet, headers, mtu, sa.config());
        if let (Some(gather), Ok(fit)) = (&mut self.gather, fit) {
            let serves = known.is_some() || slot::serves(sa.config());
            let frame = if serves { gather.frame(sa, &packet, headers, fit) } else { None };
            let mut hands = Hands { sad: &mut self.sad, tally, pool, out };
            if let Some(frame) = frame {
                return gather.take(index, &frame, packet, headers, fit, flow, &mut hands);
            }
            // It must not overtake what was before it.
            gather.close(&mut hands);
        }
        let Some(sa) = self.sad.get_mut(index) else {
            return end(tally, packet, DropReason::NoSa, Some(flow), pool, out);
        };
        match fit {
            Ok(fit) => cut(tally, packet, headers, fit, flow, pool, out, |tally, piece, pool, out| {
                seal(sa, tally, piece, flow, pool, out);
            }),
            Err(reason) => {
                packet.meta.spi = sa.spi().0;
                if reason == DropReason::TooBig
                    && let Some(error) = self.answers.too_big(&packet.meta, packet.bytes(), headers, mtu)
                {
                    tally.replies.count(error.len());
                    out.push(reply(error, &packet.meta, sa.config().services()));
                }
                end(tally, packet, reason, Some(flow), pool, out);
            }
        }
    }

    /// Stages 5 and 6 for a bundle.
    #[cold]
    fn protect_by_bundle(
        &mut self,
        chain: &Chain,
        mut packet: Packet<Inner>,
        headers: &Headers,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let Outbound { sad, tally, codec, answers, .. } = self;
        let fit = bundle::mtu(sad, chain, ipsec::own_header(packet.bytes())).and_then(|mtu| {
            let first = chain.members().first().and_then(|first| sad.get(*first));
            let first = first.ok_or(DropReason::ChainMissing)?;
            let mut fit = fit::tunnel(&mut packet, headers, mtu, first.config());
            // A later member does not fragment, and an earlier one need not take fragments.
            let mut later = chain.members().iter().skip(1).filter_map(|index| sad.get(*index));
            if fit == Ok(fit::Fit::Whole)
                && packet.bytes().len() > mtu
                && headers.version == 4
                && later.any(|sa| sa.config().forbids_fragments())
            {
                fit = Err(DropReason::TooBig);
            }
            Ok((mtu, fit))
        });
        let services = chain.services();
        let through = |tally: &mut Tally, packet: Packet<Inner>, pool: &mut Pool, out: &mut Vec<Outcome>| {
            let (about, len) = (About::of(&packet.meta), packet.bytes().len());
            match bundle::seal(sad, chain, packet, codec, pool) {
                Ok(outer) => {
                    tally.left(about.app, services, 1, len as u64);
                    out.push(Outcome::Send(outer));
                }
                Err(reason) => {
                    let dropped = Dropped::new(reason, &about, len, Some(flow));
                    tally.dropped(dropped);
                    out.push(Outcome::Drop(dropped));
                }
            }
        };
        match fit {
            Ok((_, Ok(fit))) => cut(tally, packet, headers, fit, flow, pool, out, through),
            Ok((mtu, Err(reason))) => {
                if reason == DropReason::TooBig
                    && let Some(error) = answers.too_big(&packet.meta, packet.bytes(), headers, mtu)
                {
                    tally.replies.count(error.len());
                    out.push(reply(error, &packet.meta, packet.meta.services));
                }
                end(tally, packet, reason, Some(flow), pool, out);
            }
            Err(reason) => end(tally, packet, reason, Some(flow), pool, out),
        }
    }

    /// Send a packet in clear that had been joined for policy to see. It goes in fragments again that fit every link,
    /// since nobody cuts it behind us. The identification is the sender's own, so it is as unique as before.
    #[cold]
    fn cut_again(
        &mut self,
        packet: Packet<Inner>,
        headers: &Headers,
        id: u32,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let tally = &mut self.tally;
        let mut pieces = match fragment::fragments(packet.bytes(), headers, id, ipv6::MIN_MTU) {
            Ok(pieces) => pieces,
            Err(error) => return end(tally, packet, error.into(), Some(flow), pool, out),
        };
        let next = |buf: &mut Buf| pieces.next_into(buf);
        each(tally, packet.meta, next, flow, pool, out, |tally, piece, _, out| release(tally, piece, out));
        pool.put(packet.into_buf());
    }

    /// Send a packet in clear as it is; only what the kernel left undone is completed.
    fn clear(
        &mut self,
        mut packet: Packet<Inner>,
        headers: &Headers,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let tally = &mut self.tally;
        match fit::clear(&mut packet) {
            Ok(fit) => cut(tally, packet, headers, fit, flow, pool, out, |tally, piece, _, out| {
                release(tally, piece, out);
            }),
            Err(reason) => end(tally, packet, reason, Some(flow), pool, out),
        }
    }
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
        Action::Protect { services, .. } => services.union(asked),
    };
    let terms = Terms { suite: decision.terms.suite, ..Terms::of(Level::Mandatory) };
    Decision { action: Action::Protect { services, level: Level::Mandatory }, terms, ..decision }
}

/// Stage 6 for one packet that fits.
#[inline]
fn seal(
    sa: &mut OutboundSa,
    tally: &mut Tally,
    packet: Packet<Inner>,
    flow: &Flow,
    pool: &mut Pool,
    out: &mut Vec<Outcome>,
) {
    let (about, len) = (About::of(&packet.meta), packet.bytes().len());
    let reason = match ipsec::encap(sa, packet.advance::<Selected>().advance(), pool) {
        Ok(outer) => {
            tally.left(about.app, sa.config().services(), 1, len as u64);
            return out.push(Outcome::Send(outer));
        }
        Err(reason) => reason,
    };
    let about = About { spi: sa.spi().0, ..about };
    let dropped = Dropped::new(reason, &about, len, Some(flow));
    tally.dropped(dropped);
    out.push(Outcome::Drop(dropped));
}
