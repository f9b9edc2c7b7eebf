//! The sockets for the classes of a graph (docs/design/0042), UDP and raw ones or those of frames: planned with the graph,
//! opened at the start.
//!
//! What enters: the graph, the sockets that a daemon before handed over, the kernel half, and whether associations of one
//! sender have several classes. What leaves: sockets for each share of the graph, which the kernel half fills by class.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use config::LoadedGraph;
use engine::InboundGraph;
use netio::packet::FrameHandle;
use netio::raw::{Kind, RawHandle, RawReceiver};
use netio::udp::{Family, GivenUp, UdpOptions, UdpTransport};
use qos::{Direction, HeaderKind};
use sockmon::{QueueTable, QueuedSockets, SaName, SocketSplit, Sockmon};
use wire::AggregateId;

use crate::class_queues::{ClassQueue, ClassQueues, numbers, seed};
use crate::datapath::frames::FramesIn;
use crate::monitor::{KernelError, Monitor};
use crate::start::RunError;

/// The most packets that wait in the queue of what names no association.
const STRANGERS: u32 = 64;
/// The octets of a buffer for each packet that may wait. The kernel doubles it, so a packet in four pages has room.
const OCTETS: usize = 8 << 10;
/// The octets of a buffer at least and at most.
const BUFFERS: [usize; 2] = [256 << 10, 64 << 20];

/// The sockets that a graph asks for.
#[derive(Clone, Debug)]
pub struct PlannedSockets {
    queues: Vec<ClassQueue>,
    split: SocketSplit,
}

impl PlannedSockets {
    /// The sockets for the inbound direction of a graph, at most so many.
    pub fn of(loaded: &LoadedGraph, most: u64, graph: &InboundGraph) -> PlannedSockets {
        let most = most.min(SocketSplit::MOST_QUEUES as u64);
        let ClassQueues { mut queues, limits, shares } = ClassQueues::of(loaded, Direction::Inbound, most);
        let of_dscp = std::array::from_fn(|dscp| graph.graph().classify(&marked(dscp as u8)));
        queues.push(ClassQueue { names: Vec::new(), classes: Vec::new() });
        PlannedSockets { queues, split: SocketSplit { limits, strangers: STRANGERS, of_dscp, shares } }
    }

    /// The numbers of the classes of each queue, by its number. The last one has none.
    pub fn classes(&self) -> Vec<Vec<AggregateId>> {
        numbers(&self.queues)
    }

    /// The number of queues that a start opens, at most `most` of classes and that of what names no association.
    pub fn opened(&self, most: usize) -> usize {
        1 + most.max(self.split.limits.len())
    }

    /// The split, where no queue holds more than `most` packets.
    fn within(&self, most: Option<u32>) -> SocketSplit {
        let mut split = self.split.clone();
        let Some(most) = most else { return split };
        for (limit, queue) in split.limits.iter_mut().zip(&self.queues) {
            if *limit > most {
                let names = queue.names.join(", ");
                tracing::warn!("an AF_XDP socket holds {most} packets: so many of {names} wait, not {limit}");
                *limit = most;
            }
        }
        split.strangers = split.strangers.min(most);
        split
    }

    /// The octets that may wait in each socket.
    fn buffers(&self) -> impl Iterator<Item = usize> {
        let [least, most] = BUFFERS;
        let limits = self.split.limits.iter().chain([&self.split.strangers]);
        limits.map(move |limit| (*limit as usize).saturating_mul(OCTETS).clamp(least, most))
    }
}

/// An outer packet of which nothing is known but its DSCP.
fn marked(dscp: u8) -> qos::Meta {
    qos::Meta {
        amount: qos::Amount { packets: 1, octets: 0, ns: 0 },
        dscp: [dscp, dscp],
        header: HeaderKind::EspInUdp,
        direction: Direction::Inbound,
        ..qos::Meta::default()
    }
}

/// The sockets among which outer packets are split, in the order in which they are read.
#[derive(Debug)]
pub struct SplitSockets {
    /// The queues, by their number. The last one is for what names no association.
    pub queues: Vec<ClassQueue>,
    table: Arc<QueueTable>,
    seed: [u64; 6],
    outer: OuterHandles,
}

/// The sockets of a split, in the hands of somebody who does not receive from them.
#[derive(Debug)]
enum OuterHandles {
    /// Sockets of the kernel's IP stack. Raw ones have the numbers of their queues.
    Kernel { udp: UdpTransport, raw: Vec<(usize, RawHandle)> },
    /// Sockets of frames, with the numbers of their queues; and the most packets that the socket of a queue holds,
    /// whatever its limit is.
    Frames { sockets: Vec<(usize, FrameHandle)>, most: Option<u32> },
}

impl SplitSockets {
    /// Split packets among the same sockets as another graph asks.
    ///
    /// # Errors
    /// The kernel half cannot be told, and splits as before.
    pub(crate) fn change(&mut self, monitor: &Monitor, planned: &PlannedSockets) -> Result<(), KernelError> {
        self.set_buffers(planned);
        // What has a queue hears before the first packet is of it.
        self.hear(planned.queues.len().max(self.queues.len()));
        let most = match &self.outer {
            OuterHandles::Kernel { .. } => None,
            OuterHandles::Frames { most, .. } => *most,
        };
        monitor.get().change_socket_split(&self.table, &planned.within(most), self.seed)?;
        self.queues = planned.queues.clone();
        self.hear(self.queues.len());
        Ok(())
    }

    /// What came of each queue.
    pub fn table(&self) -> &Arc<QueueTable> {
        &self.table
    }

    /// Let the kernel join datagrams, unless associations of one sender have several classes. It looks at no SPI as it
    /// joins, so a run of one class would take packets of another along. Frames are never joined for us.
    pub fn join(&self, is_mixed: bool) {
        let OuterHandles::Kernel { udp, .. } = &self.outer else { return };
        if let Err(error) = udp.join_datagrams(!is_mixed) {
            let what = if is_mixed { "goes on to join" } else { "joins no" };
            tracing::warn!("the kernel {what} UDP datagrams: {error}");
        }
    }

    /// A buffer that stays as it is costs what it has no room for, and no more.
    fn set_buffers(&self, planned: &PlannedSockets) {
        for (queue, octets) in planned.buffers().enumerate() {
            let set = match &self.outer {
                OuterHandles::Kernel { udp, raw } => {
                    let raw = raw.iter().filter(|(of, _)| *of == queue);
                    let mut set = raw.map(|(_, socket)| socket.set_receive_buffer(octets));
                    let set = set.find(Result::is_err).unwrap_or(Ok(()));
                    set.and(udp.set_receive_buffer(queue, octets))
                }
                OuterHandles::Frames { sockets, .. } => {
                    let mut sockets = sockets.iter().filter(|(of, _)| *of == queue);
                    sockets.try_for_each(|(_, socket)| socket.set_receive_buffer(octets))
                }
            };
            if let Err(error) = set {
                tracing::warn!("{error}; the limit of the graph is not reached there");
            }
        }
    }

    /// Let the raw sockets of the first so many queues hear, and no others. One that hears all the same costs each packet
    /// a copy, and takes none.
    fn hear(&self, queues: usize) {
        let OuterHandles::Kernel { raw, .. } = &self.outer else { return };
        for (queue, socket) in raw {
            if let Err(error) = socket.hear(*queue < queues) {
                tracing::warn!("{error}");
            }
        }
    }
}

/// The sockets of outer packets that a daemon has.
pub struct OuterSockets<'u> {
    /// The UDP sockets, which a daemon before can have handed over.
    pub udp: &'u mut UdpTransport,
    /// The raw sockets, one of each kind and family.
    pub raw: Vec<RawReceiver>,
    /// The sockets of frames, where outer packets come as such and the others are deaf.
    pub frames: Option<&'u FramesIn>,
}

/// The sockets of a start, behind [`open`].
pub struct OpenedSockets {
    /// The split; `None`: there is one socket of each kind and family.
    pub split: Option<SplitSockets>,
    /// The raw sockets without a queue.
    pub plain: Vec<RawReceiver>,
    /// The raw sockets with a queue, each with its number.
    pub queued: Vec<QueuedRaw>,
    /// The UDP sockets that a daemon before handed over and that are not used any more.
    pub given_up: GivenUp,
}

/// A raw socket with the number of its queue.
pub type QueuedRaw = (usize, RawReceiver);

/// The raw sockets for so many queues, with those of the first one, which are there; and those of kinds without queues.
fn open_raw(there: Vec<RawReceiver>, queues: usize) -> Result<(Vec<QueuedRaw>, Vec<RawReceiver>), RunError> {
    let (first, plain): (Vec<_>, Vec<_>) =
        there.into_iter().partition(|raw| matches!(raw.kind(), Kind::Esp | Kind::Ah));
    let kinds: Vec<_> = first.iter().map(|raw| (raw.family(), raw.kind())).collect();
    let mut queued: Vec<_> = first.into_iter().map(|raw| (0, raw)).collect();
    for queue in 1..queues {
        for (family, kind) in kinds.iter().copied() {
            queued.extend(RawReceiver::open(family, kind)?.map(|raw| (queue, raw)));
        }
    }
    Ok((queued, plain))
}

/// Receive all datagrams of a family by one socket. Returns the others.
fn one_of_each(udp: &mut UdpTransport) -> Result<GivenUp, RunError> {
    if udp.queues() > 1 {
        udp.give_all_to_the_first()?;
        udp.set_receive_buffer(0, UdpOptions::default().buffer)?;
    }
    Ok(udp.set_queues(1)?)
}

/// Split frames among the sockets of their devices.
fn split_frames(
    frames: &FramesIn,
    monitor: &Sockmon,
    planned: &PlannedSockets,
    classes: &HashMap<SaName, AggregateId>,
) -> Result<SplitSockets, RunError> {
    let (seed, most) = (seed()?, frames.most());
    monitor.set_sa_classes(classes)?;
    monitor.put_sockets(&QueuedSockets::default())?;
    let table = Arc::new(monitor.split_sockets(Some(&planned.within(most)), seed)?);
    frames.queue_by_class(monitor)?;
    let outer = OuterHandles::Frames { sockets: frames.handles()?, most };
    let split = SplitSockets { queues: planned.queues.clone(), table, seed, outer };
    split.set_buffers(planned);
    Ok(split)
}

/// Split outer packets among the sockets that are planned, of `most` that are opened beside that of what names no
/// association; or have one of each kind and family, without a graph. `classes` are those of the associations that there
/// are.
///
/// # Errors
/// A socket cannot be had, or the kernel half cannot be told.
pub fn open(
    sockets: OuterSockets<'_>,
    monitor: &Sockmon,
    planned: Option<(&PlannedSockets, usize)>,
    classes: &HashMap<SaName, AggregateId>,
) -> Result<OpenedSockets, RunError> {
    let OuterSockets { udp, raw, frames } = sockets;
    let Some((planned, most)) = planned else {
        let given_up = one_of_each(udp)?;
        monitor.split_sockets(None, [0; _])?;
        monitor.put_sockets(&QueuedSockets::default())?;
        monitor.set_sa_classes(&HashMap::new())?;
        return Ok(OpenedSockets { split: None, plain: raw, queued: Vec::new(), given_up });
    };
    if let Some(frames) = frames {
        let given_up = one_of_each(udp)?;
        let split = split_frames(frames, monitor, planned, classes)?;
        return Ok(OpenedSockets { split: Some(split), plain: raw, queued: Vec::new(), given_up });
    }
    let queues = planned.opened(most);
    let given_up = udp.set_queues(queues)?;
    let (queued, plain) = open_raw(raw, queues)?;
    let seed = seed()?;
    monitor.set_sa_classes(classes)?;
    let of_kind = |kind: Kind| {
        let of_kind = queued.iter().filter(move |(_, raw)| raw.kind() == kind);
        of_kind.map(|(queue, raw)| (raw.as_fd(), *queue as u32)).collect()
    };
    let all = QueuedSockets {
        udp: [Family::V4, Family::V6].map(|family| udp.queue_fds(family)),
        esp: of_kind(Kind::Esp),
        ah: of_kind(Kind::Ah),
    };
    monitor.put_sockets(&all)?;
    let table = Arc::new(monitor.split_sockets(Some(&planned.split), seed)?);
    udp.filter_by(Some(monitor.socket_filter()?))?;
    let raw = queued.iter().map(|(queue, raw)| Ok((*queue, raw.handle()?)));
    let raw = raw.collect::<netio::Result<Vec<_>>>()?;
    raw.iter().try_for_each(|(_, raw)| raw.filter_by(monitor.raw_filter()?).map_err(RunError::from))?;
    udp.choose_by(monitor.socket_choice()?)?;
    let outer = OuterHandles::Kernel { udp: udp.clone(), raw };
    let split = SplitSockets { queues: planned.queues.clone(), table, seed, outer };
    split.set_buffers(planned);
    split.hear(planned.queues.len());
    Ok(OpenedSockets { split: Some(split), plain, queued, given_up })
}
