//! From what the engine made of a packet to a line, and to packets for the output.

use api::{ReplayDirection, ReplayLine, ReplayVerdict};
use engine::{Dropped, InboundOutcome, Outcome, Stats};
use sadb::Spi;
use sadb::spd::RuleId;
use wire::ip::{self, Headers};
use wire::stage::Admitted;
use wire::{AppId, DropReason, Meta, Packet, Time};

use super::error::{ReplayError, Write};
use super::fragments::{self, Key, Parked, Set};
use super::{Half, HalfChoice, Replay};
use documents::decision;
use documents::text::hex;

impl Replay {
    pub(super) fn report_outbound(
        &mut self,
        bytes: &[u8],
        headers: Option<&Headers>,
        line: &mut ReplayLine,
        write: &mut Write<'_>,
    ) -> Result<(), ReplayError> {
        for outcome in std::mem::take(&mut self.sent) {
            match outcome {
                Outcome::Send(packet) => self.send(packet, (bytes, headers), line, write)?,
                // Of one packet, where it was gathered for itself.
                Outcome::Burst(burst) => {
                    let rule = self.outbound.gathered_rule();
                    let packets: Vec<_> = burst.packets(&mut self.pool).collect();
                    self.pool.put(burst.into_buf());
                    for mut packet in packets.into_iter().flatten() {
                        packet.meta.rule = rule;
                        super::gather::without_checksum(&mut packet);
                        self.send(packet, (bytes, headers), line, write)?;
                    }
                }
                Outcome::Clear(packet) => {
                    match self.expired_for(packet.bytes()) {
                        Some(spi) => self.refused(line, DropReason::SaExpired, Some(spi)),
                        None => {
                            self.written(line, ReplayVerdict::Bypass, &packet.meta, packet.bytes(), write)?
                        }
                    }
                    self.pool.put(packet.into_buf());
                }
                Outcome::Reply(packet, _) => {
                    self.written(line, ReplayVerdict::Reply, &packet.meta, packet.bytes(), write)?;
                }
                Outcome::Held(_) => line.verdict = ReplayVerdict::Hold,
                Outcome::Drop(dropped) => self.ended(line, &dropped),
            }
        }
        Ok(())
    }

    pub(super) fn report_inbound(
        &mut self,
        now: Time,
        headers: Option<&Headers>,
        line: &mut ReplayLine,
        write: &mut Write<'_>,
    ) -> Result<(), ReplayError> {
        for outcome in std::mem::take(&mut self.opened) {
            match outcome {
                InboundOutcome::Deliver(packet, _) => {
                    self.written(line, ReplayVerdict::Deliver, &packet.meta, packet.bytes(), write)?;
                    self.joined_inside(headers, &packet, line);
                    self.pool.put(packet.into_buf());
                }
                InboundOutcome::Drop(mut dropped) => {
                    let ends = line.source.zip(line.destination);
                    if dropped.reason == DropReason::UnknownSpi
                        && ends.is_some_and(|(src, dst)| self.lives.is_dead(Spi(dropped.spi), src, dst))
                    {
                        dropped.reason = DropReason::SaExpired;
                    }
                    self.ended(line, &dropped);
                    if let (DropReason::FragmentHeld, Some(flow)) = (dropped.reason, dropped.flow) {
                        let set = Set::Inner(dropped.spi, flow.remote, flow.local);
                        self.fragments.hold(set, ReplayDirection::Inbound, now, line.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// A packet that is longer than what carried it was joined from fragments inside its association.
    fn joined_inside(&mut self, carrier: Option<&Headers>, packet: &Packet<Admitted>, line: &ReplayLine) {
        let Some(carrier) = carrier.filter(|headers| packet.bytes().len() > headers.total_len) else {
            return;
        };
        let Ok(inner) = Headers::parse(packet.bytes()) else { return };
        // One fragmented on its way is longer than its last fragment as well.
        if carrier.fragment.is_none() {
            self.fragments.complete(&Set::Inner(fragments::spi_of(line), inner.src, inner.dst));
        }
    }

    /// What became of the fragments that waited with this packet. `lost`: those that the engine gave up because of it.
    pub(super) fn settle_fragments(
        &mut self,
        now: Time,
        headers: Option<&Headers>,
        line: &ReplayLine,
        side: ReplayDirection,
        lost: u64,
    ) {
        let set = headers.and_then(Key::of).map(Set::Outer);
        let held = line.reason.as_deref() == Some(DropReason::FragmentHeld.name());
        let inside = line.direction == ReplayDirection::Inbound && line.spi.is_some() && held;
        let rejected = !held && line.reason.as_deref().is_some_and(is_about_fragments);
        // The packet itself is counted with them, and has its line.
        let mut lost = lost.saturating_sub(u64::from(rejected));
        if let Some(set) = set {
            if line.verdict == ReplayVerdict::Hold && !inside {
                self.fragments.hold(set, side, now, line.clone());
            } else if !rejected {
                self.fragments.complete(&set);
            } else if lost > 0 {
                // It contradicted those before it, which are of no use any more (RFC 5722).
                self.fragments.fail(&set, DropReason::Fragment.name());
                lost = 0;
            }
        }
        if lost > 0 {
            self.fragments.evict(side, lost);
        }
    }

    /// Fragments that each half of the engine has refused or given up so far.
    pub(super) fn lost(&self) -> LossReport {
        let lost = |tally: &Stats| {
            let held = DropReason::FragmentHeld;
            let ends =
                tally.drops().filter(|(reason, _)| is_about_fragments(reason.name()) && *reason != held);
            ends.map(|(_, count)| count).sum()
        };
        LossReport { inbound: lost(self.inbound.stats()), outbound: lost(self.outbound.stats()) }
    }

    /// A fragment that waits for the one with the ports; its line.
    pub(super) fn park(
        &mut self,
        key: Option<Key>,
        at: Time,
        bytes: &[u8],
        mut line: ReplayLine,
    ) -> ReplayLine {
        line.verdict = ReplayVerdict::Hold;
        line.reason = Some(DropReason::FragmentHeld.name().to_owned());
        let is_peer = |sa: &sadb::InboundSa| {
            let ends = &sa.config().endpoints;
            Some(ends.remote) == line.source && Some(ends.local) == line.destination
        };
        if self.way == HalfChoice::In || self.inbound.sad().list().any(is_peer) {
            line.direction = ReplayDirection::Inbound;
        }
        let room = key.is_some_and(|key| {
            self.fragments.park(Parked { key, at, bytes: bytes.to_vec(), line: line.clone() })
        });
        if !room {
            line.verdict = ReplayVerdict::Drop;
            line.reason = Some(DropReason::FragmentLimit.name().to_owned());
        }
        line
    }

    /// The first fragment is here, so it is known where one that came before it goes.
    pub(super) fn take_parked(&mut self, half: Half, parked: Parked) -> Result<(), ReplayError> {
        let Parked { at, bytes, mut line, .. } = parked;
        (line.verdict, line.reason) = (ReplayVerdict::Skip, None);
        let headers = Headers::parse(&bytes).ok();
        // Without the first one nothing is whole.
        self.take(half, at, &bytes, headers.as_ref(), &mut line, &mut |_| Ok(()))?;
        if line.verdict == ReplayVerdict::Drop {
            self.fragments.end(line);
        }
        Ok(())
    }

    /// A packet for the output. The first one's verdict and association are the line's.
    pub(super) fn written(
        &self,
        line: &mut ReplayLine,
        verdict: ReplayVerdict,
        meta: &Meta,
        bytes: &[u8],
        write: &mut Write<'_>,
    ) -> Result<(), ReplayError> {
        write(bytes)?;
        line.written += 1;
        if self.hex {
            line.packets.push(hex(bytes));
        }
        if line.verdict == ReplayVerdict::Skip {
            line.verdict = verdict;
            self.known(line, meta.app, meta.rule, meta.spi, meta.sequence);
        }
        Ok(())
    }

    /// The dead association that would have carried this packet, where associations are all the policy there is.
    fn expired_for(&self, bytes: &[u8]) -> Option<Spi> {
        if !self.associations_decide {
            return None;
        }
        let headers = Headers::parse(bytes).ok()?;
        self.lives.dead_for(&ip::flow(bytes, &headers, true))
    }

    /// The packet, or a part of it, ended. A part that went on keeps its verdict.
    pub(super) fn ended(&self, line: &mut ReplayLine, dropped: &Dropped) {
        let held = dropped.reason == DropReason::FragmentHeld;
        line.reason = Some(dropped.reason.name().to_owned());
        if line.verdict == ReplayVerdict::Skip {
            line.verdict = if held { ReplayVerdict::Hold } else { ReplayVerdict::Drop };
        }
        self.known(line, dropped.app, dropped.rule, dropped.spi, dropped.sequence);
    }

    /// The packet ended here, not in the engine.
    pub(super) fn refused(&self, line: &mut ReplayLine, reason: DropReason, spi: Option<Spi>) {
        line.reason = Some(reason.name().to_owned());
        line.verdict = ReplayVerdict::Drop;
        line.spi = spi.map(|spi| api::Spi(spi.0));
    }

    /// Note that a part of what the packet became ended here, not in the engine. A part that went on keeps its verdict.
    pub(super) fn refused_in_part(&self, line: &mut ReplayLine, reason: DropReason, spi: Option<Spi>) {
        match line.verdict {
            ReplayVerdict::Skip => self.refused(line, reason, spi),
            _ => line.reason = Some(reason.name().to_owned()),
        }
    }

    fn known(&self, line: &mut ReplayLine, app: AppId, rule: u32, spi: u32, sequence: u64) {
        line.application = self.policy.application(app).map(|found| found.name.clone());
        line.rule = decision::rule_position(&self.policy, RuleId(rule));
        line.spd_rule = self.rules.name_of(rule);
        line.spi = (spi != 0).then_some(api::Spi(spi));
        line.sequence = (sequence != 0).then_some(sequence);
    }
}

fn is_about_fragments(reason: &str) -> bool {
    reason.starts_with(DropReason::Fragment.name())
}

/// Fragments given up, by half of the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossReport {
    inbound: u64,
    outbound: u64,
}

impl LossReport {
    /// The number of fragments that this half of the engine gave up.
    pub fn of(&self, direction: ReplayDirection) -> u64 {
        match direction {
            ReplayDirection::Inbound => self.inbound,
            ReplayDirection::Outbound => self.outbound,
        }
    }
}
