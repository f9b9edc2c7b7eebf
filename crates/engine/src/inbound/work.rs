//! Work of the inbound half for a unit that answers later, or does it in steps. What is around it is in `later.rs`.

use ipsec::slot::{self, Opened};
use ipsec::{IcvProof, OpenJob, Outer, Steps};
use qos::unit::UnitId;
use sadb::sa::{Key, Shape};
use wire::stage::Scheduled;
use wire::{Burst, DropReason, Packet, Pool};

use super::before::Before;
use super::name::Name;
use crate::queued::{CopiedPacket, Stepped};

/// Work for a unit of the inbound half that answers later: packets or datagrams of one association that are to be
/// opened.
///
/// Who executes it calls [`OpenWork::compute`] in any thread, and gives it back by
/// [`Inbound::answer`](crate::Inbound::answer). Work cannot be cloned, so that no unit answers twice.
pub struct OpenWork {
    pub(super) unit: UnitId,
    pub(super) serial: u64,
    pub(super) name: Name,
    pub(super) tasks: Vec<OpenTask>,
    pub(super) spent: u64,
    pub(super) expected: u64,
    /// The number of tasks that are done, where it is done in steps; `None` where it is not.
    pub(super) place: Option<usize>,
}

impl Stepped for OpenWork {
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

impl OpenWork {
    /// The unit that it is for.
    pub fn unit(&self) -> UnitId {
        self.unit
    }

    /// The nanoseconds that it is expected to take.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Open all packets of the work. A part that fails has no octet of payload left, and ends with the answer.
    pub fn compute(&mut self) {
        self.tasks.iter_mut().for_each(OpenTask::compute);
    }

    /// Say how many nanoseconds it took. The unit's costs are learned from it.
    pub fn set_spent(&mut self, ns: u64) {
        self.spent = ns;
    }
}

/// Datagrams of one association, or a packet that came alone.
#[expect(
    clippy::large_enum_variant,
    reason = "tasks lie in lists that are used again; a box is an allocation"
)]
pub(super) enum OpenTask {
    Burst { key: Key, shape: Shape, burst: Burst<Scheduled>, opened: Vec<Opened> },
    Packet(OpenPacket),
}

/// A packet that was prepared to be opened by itself.
pub(super) struct OpenPacket {
    pub(super) key: Key,
    pub(super) job: OpenJob,
    pub(super) packet: Packet<Scheduled>,
    pub(super) outer: Outer,
    pub(super) before: Before,
    /// The copy of the packet, for those who capture.
    pub(super) copy: Option<CopiedPacket>,
    pub(super) authentic: Option<Result<IcvProof, DropReason>>,
}

impl OpenTask {
    fn compute(&mut self) {
        match self {
            OpenTask::Burst { key, shape, burst, opened } => {
                let (stride, lead) = (burst.stride().max(1), burst.lead());
                let batches = burst.bytes_mut().chunks_mut(stride.saturating_mul(slot::BATCH));
                for (datagrams, opened) in batches.zip(opened.chunks_mut(slot::BATCH)) {
                    slot::compute_batch(key, *shape, datagrams, (stride, lead), opened);
                }
            }
            OpenTask::Packet(prepared) => {
                let OpenPacket { key, job, packet, authentic, .. } = prepared;
                *authentic = Some(job.compute(key, packet.bytes_mut()));
            }
        }
    }

    /// Open about so many octets. Returns whether all is opened, or known not to be authentic.
    fn step(&mut self, steps: &mut Steps, octets: &mut usize) -> bool {
        match self {
            OpenTask::Burst { key, shape, burst, opened } => {
                let ends = (burst.stride(), burst.lead());
                slot::compute_step(key, *shape, burst.bytes_mut(), ends, opened, steps, octets)
            }
            OpenTask::Packet(prepared) => {
                let OpenPacket { key, job, packet, authentic, .. } = prepared;
                *authentic = job.step(key, packet.bytes_mut(), steps, octets).transpose();
                if authentic.is_some() {
                    steps.clear();
                }
                authentic.is_some()
            }
        }
    }

    fn octets(&self) -> usize {
        match self {
            OpenTask::Burst { burst, .. } => burst.bytes().len(),
            OpenTask::Packet(prepared) => prepared.packet.bytes().len(),
        }
    }

    /// Give its buffer back. Nothing of it may be delivered.
    pub(super) fn abandon(self, pool: &mut Pool) {
        match self {
            OpenTask::Burst { burst, .. } => pool.put(burst.into_buf()),
            OpenTask::Packet(prepared) => pool.put(prepared.packet.into_buf()),
        }
    }
}
