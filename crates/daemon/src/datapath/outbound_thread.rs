//! The outbound thread: packets from the TUN through the engine to the wire.

mod kernel_queues;
mod queued;

pub use kernel_queues::KernelQueues;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engine::{Outbound, OutboundGraph, Outcome, SealWork};
use netio::clear::ClearSender;
use netio::packet::FrameSender;
use netio::raw::{RawReceiver, RawSender};
use netio::tun::{FromTun, Tun};
use netio::udp::UdpTransport;
use netio::{clock, poll};
use qos::graph::Priorities;
use sadb::Spi;
use wire::Marks;
use wire::ip::{self, Headers};
use wire::{
    AcquireId, AggregateId, AppId, Burst, DropReason, Packet, Pool, Time, ipv4, ipv6, protocol, stage, udp,
};

use super::{
    BATCH, DeviceStats, DropLog, Due, EventSender, GraphExchange, HOUSEKEEPING, RECOVERY, SaEnd, UnitThreads,
    Unsent, frames, pool,
};
use crate::audit_log::Auditor;
use crate::capture::Taps;
use crate::gateway;
use control::channel::{Inbox, Next};

/// What the thread owns and the control plane asks about.
pub struct OutboundHalf {
    /// Its half of the engine.
    pub engine: Outbound,
    /// What its devices did.
    pub losses: DeviceStats,
    /// Who hears of its events.
    pub teller: EventSender,
    /// Who hears of what is auditable.
    pub auditor: Auditor,
    /// Who wants copies of its packets.
    pub taps: Taps,
    /// Acquires that a key manager has refused since the last look.
    pub refused: Vec<AcquireId>,
    /// The largest packets that leave in one piece, as the devices are now.
    pub mtus: gateway::Mtus,
    /// Which bits of marks are ours.
    pub marks: Marks,
    /// Outer packets that the kernel did not take for their routes, since the control plane last looked at these.
    pub unfit: Vec<Unfit>,
    /// Associations by which the kernel sends nothing.
    pub unsent: Unsent,
    /// The graph that packets are to wait in from now on; `None`: nothing changes.
    pub exchange: Option<GraphExchange<OutboundGraph, SealWork>>,
}

/// An outer packet that did not fit its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The SPI of the packet's association.
    pub spi: Spi,
    /// The outer address of the peer.
    pub remote: IpAddr,
    /// The length of the packet in octets, with its outer IP header.
    pub len: usize,
}

/// Associations whose packets did not fit their route and are remembered at once; others are remembered when these are done.
const MOST_UNFIT: usize = 64;

impl OutboundHalf {
    /// A half that has seen no packet.
    pub fn new(engine: Outbound) -> OutboundHalf {
        OutboundHalf {
            engine,
            losses: DeviceStats::new(),
            teller: EventSender::default(),
            auditor: Auditor::default(),
            taps: Taps::default(),
            refused: Vec::new(),
            mtus: gateway::Mtus::default(),
            marks: Marks::default(),
            unfit: Vec::new(),
            unsent: Unsent::default(),
            exchange: None,
        }
    }

    /// The kernel did not take something for its route: the control plane looks at the routes again, and then at this association.
    #[cold]
    fn did_not_fit(&mut self, unfit: Option<Unfit>) {
        if let Some(unfit) = unfit
            && self.unfit.len() < MOST_UNFIT
            && !self.unfit.iter().any(|known| (known.spi, known.remote) == (unfit.spi, unfit.remote))
        {
            self.unfit.push(unfit);
        }
        self.teller.look_at_routes();
    }

    /// What the kernel answered when it was to send something to a peer by an association.
    #[inline]
    fn answered(&mut self, way: SaEnd, answer: Result<(), DropReason>) {
        note(&mut self.losses, &mut self.unsent, way, answer);
    }

    /// Pass on the engine's events and audit entries.
    fn tell(&mut self) {
        self.teller.tell_all(std::iter::from_fn(|| self.engine.poll_event()));
        self.teller.lost(self.engine.take_lost_events());
        if self.auditor.is_on() {
            let now = clock::monotonic();
            self.engine.take_audits(now, &mut |audited| self.auditor.packet("out", now, &audited));
        }
    }
}

/// Count what the kernel did not take, and remember for whom.
#[inline]
fn note(losses: &mut DeviceStats, unsent: &mut Unsent, way: SaEnd, answer: Result<(), DropReason>) {
    losses.refused(answer);
    match answer {
        Ok(()) => unsent.sent(way),
        Err(reason) => unsent.refused(way, reason, netio::udp::take_errno(), clock::monotonic()),
    }
}

/// The first datagram of a burst, as the others are.
#[cold]
fn unfit(burst: &Burst<stage::Outer>) -> Unfit {
    let remote = burst.header.dst;
    let ip = if remote.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    Unfit { spi: Spi(burst.meta.spi), remote, len: ip + udp::HEADER_LEN + burst.stride() }
}

/// Whether ESP in UDP that may be fragmented is to leave in pieces of less than the route takes: the kernel, which would make them
/// otherwise, knows of the route alone.
#[inline]
fn is_to_be_cut(half: &OutboundHalf, packet: &Packet<stage::Outer>, headers: &Headers) -> bool {
    let spi = Spi(packet.meta.spi);
    packet.meta.may_fragment
        && half.engine.learned_path_mtu(spi, headers.dst).is_some_and(|mtu| packet.bytes().len() > mtu.into())
}

/// How long there is nothing to do, if nothing comes. `until` is the time at which a packet that waits may leave.
fn patience(half: &OutboundHalf, until: Option<Time>, now: Time) -> Duration {
    let timeout = half.engine.poll_timeout().map(|(next, _)| next);
    let next = [timeout, until].into_iter().flatten().min();
    next.map_or(HOUSEKEEPING, |next| next.since(now).min(HOUSEKEEPING))
}

/// The most descriptors that the thread waits for: its channel, errors of two families, and queues.
const MOST_WAITED: usize = 24;

/// What a thread with a graph waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Await {
    /// It waits for a packet alone.
    Packet,
    /// It waits for this time, or for a packet.
    Time(Time),
    /// The device does not work.
    Device,
}

/// The devices of the thread.
pub struct OutboundThread {
    /// Where packets come from, and answers to the host go.
    pub tun: Tun,
    /// The queues that packets come from by class; `None`: all come by the first one.
    pub queues: Option<KernelQueues>,
    /// Where protected packets go, if they leave as frames.
    pub frames: Option<FrameSender>,
    /// Where protected packets go.
    pub udp: UdpTransport,
    /// Where bare ESP and AH go.
    pub raw: RawSender,
    /// Where packets go that policy lets pass in clear.
    pub clear: ClearSender,
    /// Where ICMP errors come from, of each family that the host has.
    pub errors: Vec<RawReceiver>,
    /// ICMP errors of one call.
    pub heard: Vec<Packet<stage::Raw>>,
    /// The threads of units that answer later.
    pub units: UnitThreads<SealWork>,
    /// The kernel takes a priority beside each packet.
    pub takes_priorities: bool,
    /// The priorities of the graph's classes; `None`: no class has one, or the kernel takes none.
    pub priorities: Option<Box<Priorities>>,
}

impl OutboundThread {
    /// Carry packets until told to stop.
    pub fn serve(mut self, half: &mut OutboundHalf, inbox: &Inbox<OutboundHalf>) {
        let mut pool = pool();
        let mut outcomes = Vec::with_capacity(BATCH);
        let mut due = Due::new(clock::monotonic());
        let mut drop_log = DropLog::default();
        let mut until = None;
        loop {
            let patience = patience(half, until, clock::monotonic());
            let patience = if self.units.begin_waiting() { Duration::ZERO } else { patience };
            let [woken, readable, heard @ ..] = self.wait(half, inbox.wake().as_fd(), patience);
            self.units.end_waiting();
            if woken && inbox.run(half) == Next::End {
                return self.leave_graph(half, &mut pool, &mut outcomes);
            }
            let now = clock::monotonic();
            self.exchange(half, now, &mut pool, &mut outcomes);
            // What waited for an association that a command has just brought.
            while let Some(id) = half.refused.pop() {
                half.engine.refuse_acquire(id, &mut pool, &mut outcomes);
            }
            half.engine.release(now, &mut pool, &mut outcomes);
            half.engine.flush(&mut pool, &mut outcomes);
            self.carry_out(half, &mut pool, &mut outcomes);
            let works = if half.engine.graph().is_some() {
                let next = self.rounds(half, readable, &mut pool, &mut outcomes);
                until = if let Await::Time(time) = next { Some(time) } else { None };
                next != Await::Device
            } else {
                until = None;
                !readable || self.batch(half, now, &mut pool, &mut outcomes)
            };
            // Nothing waits for packets that may not come.
            half.engine.flush(&mut pool, &mut outcomes);
            self.carry_out(half, &mut pool, &mut outcomes);
            for (at, _) in heard.iter().enumerate().filter(|(_, heard)| **heard) {
                self.hear(half, at, now, &mut pool);
            }
            half.engine.handle_timeout(now, &mut pool, &mut outcomes);
            self.carry_out(half, &mut pool, &mut outcomes);
            self.send_bare(half, &mut pool);
            if !works {
                // A broken device reads as ready for ever; only the channel is waited on meanwhile.
                let _ = poll::readable([inbox.wake().as_fd()], Some(RECOVERY));
            }
            if due.reached(now) {
                half.engine.expire(now, &mut pool, &mut outcomes);
                self.carry_out(half, &mut pool, &mut outcomes);
                self.send_bare(half, &mut pool);
                drop_log.say("outbound", half.engine.stats().drops().chain(half.losses.drops()));
            }
            half.tell();
        }
    }

    /// Wait for a command, a packet of the TUN, and ICMP errors of each family.
    fn wait(&mut self, half: &OutboundHalf, wake: BorrowedFd<'_>, patience: Duration) -> [bool; 4] {
        // A family that the host has not stands in the set as the eventfd.
        let errors = |at: usize| self.errors.get(at).map_or(wake, AsFd::as_fd);
        let Some(queues) = &mut self.queues else {
            let set = [wake, self.tun.as_fd(), errors(0), errors(1)];
            return poll::readable(set, Some(patience)).unwrap_or([true; 4]);
        };
        // A queue of a class that the graph has no room for is not waited for, and stands there as the eventfd too.
        let has_room: [bool; MOST_WAITED] =
            std::array::from_fn(|at| half.engine.room(queues.states.classes(at)) > 0);
        let of_queues = queues.fds().zip(has_room).map(|(fd, has_room)| if has_room { fd } else { wake });
        let set = [wake, errors(0), errors(1)].into_iter().chain(of_queues);
        let ready: [bool; MOST_WAITED] = poll::readable_among(set, Some(patience)).unwrap_or([true; _]);
        let [woken, v4, v6, of_queues @ ..] = ready;
        let mut readable = false;
        let waited = of_queues.into_iter().zip(has_room).take(queues.states.count()).enumerate();
        for (at, _) in waited.filter(|(_, (is_ready, has_room))| *is_ready && *has_room) {
            queues.states.is_readable(at);
            readable = true;
        }
        [woken, readable, v4, v6]
    }

    /// Take packets until there is none or the batch is full; `false` if the device does not work.
    fn batch(
        &mut self,
        half: &mut OutboundHalf,
        now: Time,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        for _ in 0..BATCH {
            match self.tun.recv(now, pool) {
                Ok(FromTun::Packet(packet)) => self.packet(half, now, packet, pool, outcomes),
                Ok(FromTun::Dropped(reason)) => {
                    half.losses.received += 1;
                    half.losses.count(reason, 1);
                }
                Ok(FromTun::Empty) => break,
                Err(error) => {
                    half.losses.broke(self.tun.name(), &error);
                    return false;
                }
            }
        }
        half.losses.works(self.tun.name());
        true
    }

    /// Take ICMP errors, few at a time: anybody may send them.
    fn hear(&mut self, half: &mut OutboundHalf, at: usize, now: Time, pool: &mut Pool) {
        let Some(receiver) = self.errors.get_mut(at) else { return };
        match receiver.recv(now, pool, &mut self.heard) {
            Ok(received) => half.losses.count(DropReason::Truncated, received.truncated as u64),
            Err(error) => return half.losses.broke("a raw socket for ICMP", &error),
        }
        for packet in self.heard.drain(..) {
            half.engine.hear_icmp(now, packet, pool);
        }
        half.losses.works("a raw socket for ICMP");
    }

    fn packet(
        &mut self,
        half: &mut OutboundHalf,
        now: Time,
        packet: Packet<stage::Inner>,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) {
        half.losses.received += 1;
        if half.taps.is_on() {
            return self.tapped(half, now, packet, pool, outcomes);
        }
        half.engine.handle(now, packet, pool, outcomes);
        self.carry_out(half, pool, outcomes);
    }

    /// With a copy for those who capture. Nothing is gathered across packets meanwhile, for what becomes of this one must be
    /// known at once.
    #[cold]
    fn tapped(
        &mut self,
        half: &mut OutboundHalf,
        now: Time,
        packet: Packet<stage::Inner>,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) {
        half.engine.flush(pool, outcomes);
        self.carry_out(half, pool, outcomes);
        half.taps.keep(&packet);
        half.engine.handle(now, packet, pool, outcomes);
        half.engine.flush(pool, outcomes);
        half.taps.outbound(outcomes);
        self.carry_out(half, pool, outcomes);
    }

    /// Send an outer packet as a frame, or by the socket of its protocol. Bare packets wait for those behind them.
    fn send(&mut self, half: &mut OutboundHalf, packet: Packet<stage::Outer>, pool: &mut Pool) {
        if self.frames.is_some() {
            self.send_bare(half, pool);
        }
        let answer = match frames::send(&mut self.frames, &packet) {
            Some(answer) => answer,
            None => match Headers::parse(packet.bytes()) {
                Ok(headers)
                    if headers.protocol == protocol::UDP && !is_to_be_cut(half, &packet, &headers) =>
                {
                    self.send_bare(half, pool);
                    let priority = self.priority_of(packet.meta.aggregate);
                    self.udp.send_with_priority(&packet, priority)
                }
                Ok(headers) => {
                    // Fragments are made here, so here it counts what is known of the path.
                    let last = ip::final_destination(packet.bytes(), &headers).unwrap_or(headers.dst);
                    let path = match packet.meta.may_fragment {
                        true => half.engine.path_mtu(Spi(packet.meta.spi), last),
                        false => None,
                    };
                    let mtu = path.map_or(half.mtus.raw, usize::from);
                    let (losses, unsent, mut too_big) = (&mut half.losses, &mut half.unsent, false);
                    let priority = self.priority_of(packet.meta.aggregate);
                    self.raw.send(packet, mtu, priority, pool, &mut |peer, spi, answer| {
                        note(losses, unsent, (peer, Spi(spi)), answer);
                        too_big |= answer == Err(DropReason::TooBig);
                    });
                    if too_big {
                        half.did_not_fit(None);
                    }
                    return;
                }
                Err(error) => Err(error.into()),
            },
        };
        // The association of a packet matters only where the kernel refuses it, or has refused others before.
        let headers = (answer.is_err() || !half.unsent.is_empty())
            .then(|| Headers::parse(packet.bytes()).ok())
            .flatten();
        match headers {
            Some(headers) => {
                let (spi, remote) = (Spi(packet.meta.spi), headers.dst);
                if answer == Err(DropReason::TooBig) {
                    half.did_not_fit(Some(Unfit { spi, remote, len: packet.bytes().len() }));
                }
                half.answered((remote, spi), answer);
            }
            None => half.losses.refused(answer),
        }
        pool.put(packet.into_buf());
    }

    /// The priority that what leaves in a class has for the queueing disciplines of the uplink; `None`: the kernel's choice.
    #[inline]
    fn priority_of(&self, class: AggregateId) -> Option<u32> {
        self.priorities.as_ref()?.of_class(class)
    }

    /// Send the bare packets that wait: nothing is to overtake them, or nothing follows them.
    #[inline]
    fn send_bare(&mut self, half: &mut OutboundHalf, pool: &mut Pool) {
        let (losses, unsent, mut too_big) = (&mut half.losses, &mut half.unsent, false);
        self.raw.flush(pool, &mut |peer, spi, answer| {
            note(losses, unsent, (peer, Spi(spi)), answer);
            too_big |= answer == Err(DropReason::TooBig);
        });
        if too_big {
            half.did_not_fit(None);
        }
    }

    /// Do what the engine said.
    fn carry_out(&mut self, half: &mut OutboundHalf, pool: &mut Pool, outcomes: &mut Vec<Outcome>) {
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Send(packet) => self.send(half, packet, pool),
                Outcome::Burst(burst) => {
                    self.send_bare(half, pool);
                    let framed = frames::send_burst(&mut self.frames, &burst);
                    let sent = framed.unwrap_or_else(|| {
                        let priority = self.priority_of(burst.meta.aggregate);
                        self.udp.send_burst_with_priority(&burst, priority)
                    });
                    half.losses.burst(&burst, &sent);
                    let way = (burst.header.dst, Spi(burst.meta.spi));
                    match sent.dropped {
                        Some(reason) if sent.datagrams == 0 => {
                            let (errno, now) = (netio::udp::take_errno(), clock::monotonic());
                            half.unsent.refused(way, reason, errno, now);
                        }
                        _ => half.unsent.sent(way),
                    }
                    if sent.dropped == Some(DropReason::TooBig) {
                        half.did_not_fit(Some(unfit(&burst)));
                    }
                    pool.put(burst.into_buf());
                }
                Outcome::Clear(packet) => {
                    self.send_bare(half, pool);
                    // The kernel half counts for whom it leaves in clear.
                    let app = packet.meta.app;
                    let mark = if app == AppId::NONE { 0 } else { half.marks.stamp(0, app, 0) };
                    let answer = self.clear.send(packet.bytes(), mark);
                    if answer == Err(DropReason::TooBig)
                        && let Some((error, mark)) = gateway::too_big(&mut half.engine, &packet, half.mtus)
                    {
                        half.losses.refused(self.tun.send(&error, mark));
                    }
                    half.losses.refused(answer);
                    pool.put(packet.into_buf());
                }
                Outcome::Reply(packet, mark) => {
                    half.losses.refused(self.tun.send(&packet, mark));
                    pool.put(packet.into_buf());
                }
                // The engine has counted it.
                Outcome::Drop(_) | Outcome::Held(_) => {}
            }
        }
    }
}
