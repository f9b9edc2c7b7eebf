//! The verbs of the control plane for the outbound half, and those that the clock calls.
//!
//! They come in kinds. Some are called once, before the first packet (those that return `Outbound`). Some set what
//! decides or protects (`set_*`, `add_*`, `remove_*`). [`Outbound::release`] follows each of those. Some follow what
//! the network did (`hear_icmp`, `follow`, `follow_routes`, `prove`). [`Outbound::flush`], [`Outbound::handle_timeout`]
//! and [`Outbound::expire`] are the clock's. All others answer questions.

use super::Outbound;
use super::outcome::Outcome;
use super::protector::Timeout;
use super::route::Route;
use crate::audit::Audited;
use crate::event::{Event, Expire, PeerMoved};
use crate::hold::HoldLimits;
use crate::icmp::IcmpPolicy;
use crate::probes::{Order, Path, SeenPath};
use crate::scrubbing::Scrubbers;
use crate::stats::{About, Dropped, Stats, Traffic};
use sadb::rules::RuleKey;
use sadb::sa::{Encapsulation, LifeState, OutboundState};
use sadb::spd::{Decision, Spd};
use sadb::{
    Direction, EntryLimits, OutboundSa, OutboundSad, PerSocket, SaIndex, SadError, Snapshot, SocketEvent, Spi,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use wire::{AcquireId, AppId, DropReason, Flow, Packet, Pool, Services, Time, stage};

impl Outbound {
    /// Say that packets come from a kernel half that sends only those here which policy protects. A packet that policy
    /// here would bypass then means that the two have different policies. It is dropped, since the other one may be
    /// right.
    pub fn behind_the_kernel_half(mut self) -> Outbound {
        self.stages.decider.be_filtered();
        self
    }

    /// Let packets of one association that follow one another leave as [`Outcome::Burst`]. A packet may then wait for
    /// those behind it until [`Outbound::flush`], which must come before anything else is done with the engine.
    pub fn gathering(mut self) -> Outbound {
        self.stages.protector.gather();
        self
    }

    /// Decide by the entries that sockets' events make ([`Outbound::socket_events`]), for every application that has a
    /// policy. A packet without an entry waits a while for the event of its socket, and is dropped if none comes.
    pub fn translating_per_socket(mut self, limits: EntryLimits) -> Outbound {
        self.stages.decider.translate_per_socket(limits);
        self
    }

    /// Replace the scrubbers by others with a configuration of their own, and a seed that nobody knows.
    #[must_use]
    pub fn scrubbing_by(mut self, scrubbers: Scrubbers) -> Outbound {
        self.stages.scrubbers = scrubbers;
        self
    }

    /// The scrubbers of flows whose policy says so, for the inbound half.
    pub fn scrubbers(&self) -> &Scrubbers {
        &self.stages.scrubbers
    }

    /// Send what was gathered, since nothing follows for now.
    #[inline]
    pub fn flush(&mut self, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.protector.flush(&mut cx);
    }

    /// The time at which [`Outbound::handle_timeout`] has something to do, and the reason; `None`: never, as things
    /// are.
    pub fn poll_timeout(&self) -> Option<(Time, Timeout)> {
        self.stages.protector.poll_timeout()
    }

    /// Send the keepalives and dummy packets that are due.
    pub fn handle_timeout(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.protector.handle_timeout(now, &mut cx);
    }

    /// The rule that decided about the packet that was gathered last, in the form of [`wire::Meta::rule`].
    pub fn gathered_rule(&self) -> u32 {
        self.stages.protector.gathered_rule()
    }

    /// Send the packets that waited for an association that exists now, in the order in which they came. Call this
    /// after every command; it costs three comparisons when there is nothing to do.
    #[inline]
    pub fn release(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let (stages, mut cx) = self.lend(pool, out);
        if stages.decider.awaits_entries() {
            stages.release_entered(now, &mut cx);
        }
        stages.send_emitted(now, &mut cx);
        stages.protector.send_ordered(now, &mut cx);
        if stages.decider.may_release(stages.protector.sad()) {
            stages.release_answered(now, &mut cx);
        }
    }

    /// Set the limits for packets that wait for a key manager's answer. With `None` no packet waits any longer, and
    /// those that wait are given up at the next [`Outbound::expire`].
    pub fn set_hold(&mut self, limits: Option<HoldLimits>) {
        self.stages.decider.set_hold(limits);
    }

    /// The number of packets that wait for an association.
    pub fn held(&self) -> usize {
        self.stages.decider.held()
    }

    /// Whether this acquire has had no answer yet.
    pub fn awaits(&self, id: AcquireId) -> bool {
        self.stages.decider.awaits(id)
    }

    /// Take in that there will be no association. Packets that waited for it are dropped, or pass in clear where policy
    /// says so.
    pub fn refuse_acquire(&mut self, id: AcquireId, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let (stages, mut cx) = self.lend(pool, out);
        for (packet, failure) in stages.decider.refuse_acquire(id) {
            stages.give_up(packet, failure, DropReason::AcquireRefused, &mut cx);
        }
    }

    /// The next event for key managers.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// The number of events that found no room since the last call.
    pub fn take_lost_events(&mut self) -> u64 {
        self.events.take_lost()
    }

    /// Apply what sockets did, in order. [`Outbound::release`] must come next.
    pub fn socket_events(&mut self, events: &[SocketEvent]) {
        self.stages.decider.change_entries(|table| events.iter().for_each(|event| table.apply(event)));
    }

    /// Say which sockets exist, where events may have been lost: see [`PerSocket::retain`].
    pub fn retain_sockets(&mut self, now: Time, as_of: Time, is_open: impl FnMut(u64) -> bool) {
        self.stages.decider.change_entries(|table| table.retain(now, as_of, is_open));
    }

    /// The entries; `None`: the compiled policy decides.
    pub fn entries(&self) -> Option<&PerSocket> {
        self.stages.decider.entries()
    }

    /// The number of packets that wait for an entry now, and of those that waited and then had one.
    pub fn held_for_entries(&self) -> (usize, u64) {
        self.stages.decider.held_for_entries()
    }

    /// Set the rules of the SPD. With `None`, or without a rule for outbound packets, packets without an application's
    /// policy are treated as if there were no SPD. Rules that were there before keep their counts.
    pub fn set_rules(&mut self, snapshot: Option<Arc<Snapshot>>) {
        self.stages.decider.set_rules(snapshot);
    }

    /// The number of packets that each rule decided, and their octets.
    pub fn rule_counts(&self) -> Vec<(RuleKey, Traffic)> {
        self.stages.decider.rule_counts()
    }

    /// The number of packets that arrived in clear and were decided by each rule, and their octets.
    pub fn arrival_counts(&self) -> Vec<(RuleKey, Traffic)> {
        self.stages.decider.arrival_counts()
    }

    /// The association that a rule of the SPD has for a flow, by the number that packets carry, without using it.
    /// `None`: there is no such rule, or it protects nothing. What packets have beside their flows (a user, a mark) is
    /// not asked.
    pub fn preview_rule(&self, number: u32, app: AppId, flow: &Flow) -> Option<Result<SaIndex, DropReason>> {
        self.stages.decider.preview_rule(number, app, flow, self.sad())
    }

    /// Send a message with the next [`Outbound::release`]. A message that finds no room is lost, as a packet may be.
    pub fn order(&mut self, order: Order) {
        self.stages.protector.order(order);
    }

    /// The paths of the `wanted` associations, and of those among at most `count` associations behind the first `from`
    /// by which long packets left since the last look. The number is where the next look begins.
    pub fn look_at_paths(
        &mut self,
        from: usize,
        count: usize,
        wanted: &[(Spi, IpAddr)],
    ) -> (Vec<SeenPath>, usize) {
        self.stages.protector.look_at_paths(from, count, wanted)
    }

    /// Take in that packets of `mtu` octets arrive by this path: all its associations have that path MTU.
    pub fn prove(&mut self, now: Time, path: &Path, mtu: u16) {
        self.stages.protector.prove(now, path, mtu, &mut self.events);
    }

    /// Set the policy for unauthenticated ICMP errors.
    pub fn set_icmp(&mut self, policy: IcmpPolicy) {
        self.stages.protector.set_icmp(policy);
    }

    /// Take in an ICMP error that arrived in clear, as a whole packet. The result is counted:
    /// [`DropReason::IcmpTaken`], or the reason why it was not believed. `None`: it is about a packet of no
    /// association, and the host's other programs cause such errors.
    pub fn hear_icmp(
        &mut self,
        now: Time,
        mut packet: Packet<stage::Raw>,
        pool: &mut Pool,
    ) -> Option<DropReason> {
        packet.meta.received = now;
        let heard = self.stages.protector.hear_icmp(&mut packet, &mut self.events);
        if let Some(reason) = heard {
            let len = packet.bytes().len();
            self.stats.dropped(Dropped::new(reason, &About::of(&packet.meta), len, None));
        }
        pool.put(packet.into_buf());
        heard
    }

    /// The path MTU in force towards the peer that has this SPI; `None` if there is no such association.
    pub fn path_mtu(&self, spi: Spi, remote: IpAddr) -> Option<u16> {
        self.stages.protector.path_mtu(spi, remote)
    }

    /// The path MTU in force towards the peer that has this SPI, if it is one that was learned.
    pub fn learned_path_mtu(&self, spi: Spi, remote: IpAddr) -> Option<u16> {
        self.stages.protector.learned_path_mtu(spi, remote)
    }

    /// The outer source and destination addresses of the associations, each pair once.
    pub fn ends(&self) -> BTreeSet<(IpAddr, IpAddr)> {
        self.stages.protector.ends()
    }

    /// Take in how many octets the routes between these addresses carry, and let the associations between them follow.
    /// Associations between other addresses stay as they are.
    pub fn follow_routes(&mut self, routes: &BTreeMap<(IpAddr, IpAddr), u16>) {
        self.stages.protector.follow_routes(routes, &mut self.events);
    }

    /// Take in that the kernel refused an outer packet of `len` octets of this association, though the route says
    /// nothing of it. Packets are smaller from now on, for as long as the teaching of an ICMP error is believed.
    pub fn refused_by_route(&mut self, now: Time, spi: Spi, remote: IpAddr, len: usize) {
        self.stages.protector.refused_by_route(now, (spi, remote), len, &mut self.events);
    }

    /// Set this host's own addresses by interface, as sources of ICMPv6 errors about forwarded packets (RFC 4443
    /// section 2.2).
    pub fn set_own_addresses(&mut self, own: BTreeMap<u32, std::net::Ipv6Addr>) {
        self.stages.protector.answers().set_own(own);
    }

    /// The error that tells the sender of a packet that only `mtu` octets go through; `None` if it may not be told, or
    /// not now (RFC 4443 section 2.4 f). It is for packets that left the engine and were refused behind it.
    pub fn too_big(
        &mut self,
        meta: &wire::Meta,
        original: &[u8],
        headers: &wire::ip::Headers,
        mtu: usize,
    ) -> Option<wire::Buf> {
        self.stages.protector.answers().too_big(meta, original, headers, mtu)
    }

    /// Report drops to an auditor (RFC 4303 section 4, RFC 4301 section 9), `per_second` of each kind in full each
    /// second; `None`: report none.
    pub fn set_audit(&mut self, per_second: Option<u32>) {
        self.stats.audit(per_second);
    }

    /// Report the drops since the last call.
    #[inline]
    pub fn take_audits(&mut self, now: Time, tell: &mut impl FnMut(Audited)) {
        self.stats.take_audits(now, tell);
    }

    /// Set the policy of every application.
    pub fn set_policy(&mut self, spd: Arc<Spd>) {
        self.stages.decider.set_policy(spd);
    }

    /// The policy that is in force.
    pub fn policy(&self) -> &Arc<Spd> {
        self.stages.decider.policy()
    }

    /// Add an association to the outbound half.
    ///
    /// # Errors
    /// The errors of [`OutboundSad::insert`].
    pub fn add_sa(&mut self, sa: OutboundSa) -> Result<SaIndex, SadError> {
        let index = self.stages.protector.sad_mut().insert(sa)?;
        self.stages.protector.watch(index);
        Ok(index)
    }

    /// Remove an association and return it.
    ///
    /// # Errors
    /// The errors of [`OutboundSad::remove`].
    pub fn remove_sa(&mut self, spi: Spi, remote: IpAddr) -> Result<OutboundSa, SadError> {
        self.stages.protector.sad_mut().remove(spi, remote)
    }

    /// Put an association in the place of another; see [`OutboundSad::replace`].
    ///
    /// # Errors
    /// The errors of [`OutboundSad::replace`].
    pub fn replace_sa(&mut self, old: Spi, remote: IpAddr, sa: OutboundSa) -> Result<OutboundSa, SadError> {
        let (before, index) = self.stages.protector.sad_mut().replace(old, remote, sa)?;
        self.stages.protector.watch(index);
        Ok(before)
    }

    /// The association with this SPI to this peer, to change its lifetime.
    pub fn sa_mut(&mut self, spi: Spi, remote: IpAddr) -> Option<&mut OutboundSa> {
        self.stages.protector.sad_mut().named_mut(spi, remote)
    }

    /// The associations with their counters.
    pub fn sad(&self) -> &OutboundSad {
        self.stages.protector.sad()
    }

    /// The decision for a packet of this flow of this application, without counting it, for `explain`. The association
    /// means something only where the action is to protect.
    pub fn preview(&self, app: AppId, flow: &Flow) -> (Decision, Result<SaIndex, DropReason>) {
        self.preview_asking(app, flow, Services::NONE)
    }

    /// The decision of [`Outbound::preview`] for a socket that asked for these services itself.
    pub fn preview_asking(
        &self,
        app: AppId,
        flow: &Flow,
        asked: Services,
    ) -> (Decision, Result<SaIndex, DropReason>) {
        let Route { decision, sa, .. } = self.stages.decider.consider(app, flow, asked, self.sad());
        (decision, sa)
    }

    /// The association for an answer that the kernel made without a socket, without using it.
    ///
    /// # Errors
    /// [`DropReason::NoSa`], [`DropReason::SaTooWeak`].
    pub fn preview_answer(&mut self, app: AppId, flow: &Flow) -> Result<SaIndex, DropReason> {
        self.stages.protector.sad_mut().find_for_answer(app, flow, Services::AUTHENTICATED)
    }

    /// Send to where the peer is now, for every association of the pair that moved, if it follows its peer. Returns the
    /// number of associations that do.
    pub fn follow(&mut self, moved: &PeerMoved) -> usize {
        if !moved.follow {
            return 0;
        }
        let of_pair = |sa: &OutboundSa| {
            let (config, ends) = (sa.config(), &sa.config().endpoints);
            config.options.encapsulation == Encapsulation::Udp
                && ends.local == moved.local
                && ends.remote == moved.old.0
                && (moved.old.1 == 0 || ends.remote_port == moved.old.1)
                && config.selectors == moved.selectors
                && (ends.remote, ends.remote_port) != moved.new
        };
        let sad = self.stages.protector.sad_mut();
        let found: Vec<SaIndex> = sad.list().filter(|(_, sa)| of_pair(sa)).map(|(index, _)| index).collect();
        let (remote, port) = moved.new;
        // One that does not follow, or would come to have another's name, stays where it is.
        found.into_iter().filter(|index| sad.move_peer(*index, remote, port).is_ok()).count()
    }

    /// Every association with its key and next sequence number, for another daemon. This daemon must not send
    /// afterwards.
    pub fn export(&self) -> Vec<OutboundState> {
        self.sad().list().map(|(_, sa)| sa.export()).collect()
    }

    /// The counters and the latest drops.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Drop fragments whose packet did not complete in time, packets that waited too long for an association, and
    /// associations behind a hard limit; forget path MTUs learned too long ago. Call this about once a second.
    pub fn expire(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.fragments.expire(now);
        cx.stats.lost_fragments(stages.fragments.take_lost());
        stages.expire_waiting(now, &mut cx);
        stages.scrubbers.expire(now);
        stages.send_emitted(now, &mut cx);
        stages.protector.age_paths(now, cx.events);
        for (spi, remote) in self.age(now) {
            // Just found, so it is there.
            let _ = self.stages.protector.sad_mut().remove(spi, remote);
        }
    }

    /// Advance the life of every association to `now`. Returns those that are dead.
    fn age(&mut self, now: Time) -> Vec<(Spi, IpAddr)> {
        let mut dead = Vec::new();
        for sa in self.stages.protector.sad_mut().list_mut() {
            while let Some(state) = sa.age(now) {
                let (spi, remote) = (sa.spi(), sa.config().endpoints.remote);
                self.events.push(Event::Expire(Expire {
                    spi,
                    direction: Direction::Outbound,
                    remote,
                    state,
                    packets: sa.counters.packets,
                    bytes: sa.counters.bytes,
                }));
                if state == LifeState::Dead {
                    dead.push((spi, remote));
                }
            }
        }
        dead
    }
}
