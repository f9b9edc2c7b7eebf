//! Stage 6 in another place than this thread, or in steps: packets and bursts that are ready but for the cipher, for a
//! unit that answers later or is sliced (paper 002 section III.E; docs/design/0045, 0046).
//!
//! The owner has taken the sequence numbers, asked the lifetimes and written every octet that is not secret. What is
//! left needs the octets and a clone of the key, and nothing of the association.

use ipsec::{SealJob, SealProof, Steps};
use qos::unit::UnitId;
use sadb::sa::Key;
use sadb::{OutboundSa, OutboundSad, SaIndex};
use wire::stage::Scheduled;
use wire::{DropReason, Flow, Packet, Pool, Services};

use super::bundled_packet::{BundleProgress, BundledPacket, answered};
use super::gather::BurstTask;
use crate::cx::Cx;
use crate::outbound::outcome::Outcome;
use crate::queued::Stepped;
use crate::stats::{About, Dropped};

/// Work for a unit of the outbound half that answers later: packets and bursts that are to be sealed.
///
/// Who executes it calls [`SealWork::compute`] in any thread, and gives it back by
/// [`Outbound::answer`](crate::Outbound::answer). Work cannot be cloned, so that no unit answers twice.
pub struct SealWork {
    pub(in crate::outbound) unit: UnitId,
    pub(in crate::outbound) serial: u64,
    pub(in crate::outbound) tasks: Vec<SealTask>,
    pub(in crate::outbound) spent: u64,
    pub(in crate::outbound) expected: u64,
    /// The number of tasks that are done, where it is done in steps; `None` where it is not.
    pub(in crate::outbound) place: Option<usize>,
}

impl Stepped for SealWork {
    fn unit(&self) -> UnitId {
        self.unit
    }

    fn expected(&self) -> u64 {
        self.expected
    }

    fn octets(&self) -> u64 {
        self.tasks.iter().map(|task| task.octets() as u64).sum()
    }

    fn step(&mut self, steps: &mut Steps, octets: &mut usize) -> bool {
        let place = self.place.get_or_insert_default();
        while let Some(task) = self.tasks.get_mut(*place) {
            if *octets == 0 || !task.step(steps, octets) {
                return false;
            }
            *place += 1;
        }
        true
    }

    fn spent(&self) -> u64 {
        self.spent
    }

    fn add_spent(&mut self, ns: u64) {
        self.spent = self.spent.saturating_add(ns);
    }
}

impl SealWork {
    /// The unit that it is for.
    pub fn unit(&self) -> UnitId {
        self.unit
    }

    /// The nanoseconds that it is expected to take.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Seal all packets of the work. A part that fails has no octet of payload left, and ends with the answer.
    pub fn compute(&mut self) {
        self.tasks.iter_mut().for_each(SealTask::compute);
    }

    /// Say how many nanoseconds it took. The unit's costs are learned from it.
    pub fn set_spent(&mut self, ns: u64) {
        self.spent = ns;
    }
}

/// A burst, or a packet that goes alone.
pub(in crate::outbound) enum SealTask {
    Burst(BurstTask),
    Packet(SealPacket),
}

/// A packet that was prepared to be sealed by itself.
pub(in crate::outbound) struct SealPacket {
    index: SaIndex,
    key: Key,
    job: SealJob,
    packet: Packet<Scheduled>,
    inner: InnerFacts,
    sealed: Option<Result<SealProof, DropReason>>,
}

/// What was known of a packet before it was sealed.
enum InnerFacts {
    /// One association alone seals it. `len` is the number of octets of the inner packet.
    Single { about: About, need: Services, flow: Flow, len: usize },
    /// It goes through a bundle.
    Bundle(Box<BundleProgress>),
}

impl SealTask {
    fn compute(&mut self) {
        match self {
            SealTask::Burst(burst) => burst.compute(),
            SealTask::Packet(prepared) => {
                let SealPacket { key, job, packet, sealed, .. } = prepared;
                *sealed = Some(job.compute(key, packet.bytes_mut()));
            }
        }
    }

    /// Seal about so many octets. Returns whether it is sealed, or failed.
    fn step(&mut self, steps: &mut Steps, octets: &mut usize) -> bool {
        match self {
            SealTask::Burst(burst) => burst.step(steps, octets),
            SealTask::Packet(prepared) => {
                let SealPacket { key, job, packet, sealed, .. } = prepared;
                *sealed = job.step(key, packet.bytes_mut(), steps, octets).transpose();
                if sealed.is_some() {
                    steps.clear();
                }
                sealed.is_some()
            }
        }
    }

    fn octets(&self) -> usize {
        match self {
            SealTask::Burst(burst) => burst.octets(),
            SealTask::Packet(prepared) => prepared.packet.bytes().len(),
        }
    }

    /// Give its buffer back. Nothing of it may leave.
    pub(in crate::outbound) fn abandon(self, pool: &mut Pool) {
        match self {
            SealTask::Burst(burst) => pool.put(burst.into_buf()),
            SealTask::Packet(prepared) => pool.put(prepared.packet.into_buf()),
        }
    }

    /// Stage 6 behind the cipher. What was not computed, or is of an association that was removed, ends. What goes on to
    /// the next member of its bundle comes to `bundled`.
    pub(super) fn finish(
        self,
        sad: &mut OutboundSad,
        bundled: &mut Vec<BundledPacket>,
        cx: &mut Cx<'_, Outcome>,
    ) {
        match self {
            SealTask::Burst(burst) => burst.finish(sad, cx),
            SealTask::Packet(prepared) => {
                let SealPacket { index, packet, inner, sealed, .. } = prepared;
                let sealed = sealed.unwrap_or(Err(DropReason::UnitFailed));
                match (sad.get_mut(index), inner) {
                    (Some(sa), InnerFacts::Single { about, need, flow, len }) => {
                        let outer = ipsec::finish_seal(sa, packet, sealed, cx.pool);
                        leave(sa, outer, (&about, need, len), &flow, cx);
                    }
                    (None, InnerFacts::Single { flow, .. }) => {
                        cx.discard(packet, DropReason::NoSa, Some(&flow));
                    }
                    (Some(sa), InnerFacts::Bundle(progress)) => {
                        bundled.extend(answered(sa, packet, sealed, *progress, cx));
                    }
                    (None, InnerFacts::Bundle(progress)) => {
                        cx.pool.put(packet.into_buf());
                        progress.end(DropReason::ChainMissing, cx);
                    }
                }
            }
        }
    }
}

/// Prepare a packet that fits. What is refused ends at once.
pub(super) fn prepare(
    (index, sa): (SaIndex, &mut OutboundSa),
    mut packet: Packet<Scheduled>,
    flow: &Flow,
    tasks: &mut Vec<SealTask>,
    cx: &mut Cx<'_, Outcome>,
) {
    let (about, need, len) = (About::of(&packet.meta), packet.meta.services, packet.bytes().len());
    let limit = usize::from(sa.config().path_mtu);
    match ipsec::prepare_seal(sa, &mut packet, limit) {
        Ok(job) => {
            let (key, flow) = (sa.key().clone(), *flow);
            let inner = InnerFacts::Single { about, need, flow, len };
            tasks.push(SealTask::Packet(SealPacket { index, key, job, packet, inner, sealed: None }));
        }
        Err(reason) => {
            let outer = ipsec::finish_seal(sa, packet, Err(reason), cx.pool);
            leave(sa, outer, (&about, need, len), flow, cx);
        }
    }
}

/// The cipher's part of a member of a bundle.
pub(super) fn member_task(
    (index, sa): (SaIndex, &OutboundSa),
    job: SealJob,
    packet: Packet<Scheduled>,
    progress: BundleProgress,
) -> SealTask {
    let (key, inner) = (sa.key().clone(), InnerFacts::Bundle(Box::new(progress)));
    SealTask::Packet(SealPacket { index, key, job, packet, inner, sealed: None })
}

/// Count and send a packet that was sealed, or report why it was not. `about`: what is known of the inner packet, the
/// services that were demanded of it, and its length in octets.
#[inline]
pub(super) fn leave(
    sa: &OutboundSa,
    outer: Result<Packet<wire::stage::Outer>, DropReason>,
    (about, need, len): (&About, Services, usize),
    flow: &Flow,
    cx: &mut Cx<'_, Outcome>,
) {
    match outer {
        Ok(outer) => {
            cx.stats.left(about.app, sa.config().services(), need, 1, len as u64);
            cx.out.push(Outcome::Send(outer));
        }
        Err(reason) => {
            let about = About { spi: sa.spi().0, ..*about };
            cx.report(Dropped::new(reason, &about, len, Some(flow)));
        }
    }
}
