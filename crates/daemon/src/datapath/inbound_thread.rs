//! The inbound thread: datagrams from the wire through the engine to the TUN.

mod framed;
mod queued;
mod socket_queues;
mod sockets;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engine::{Delivery, Inbound, InboundGraph, InboundOutcome, OpenWork};
use netio::eventfd::Wake;
use netio::raw::RawReceiver;
use netio::tun::Tun;
use netio::udp::{Family, GivenUp, UdpTransport};
use netio::{clock, poll};
use wire::{AggregateId, Burst, DropReason, Packet, Pool, Time, stage};

use crate::gateway::Fragmenter;

use super::frames::FramesIn;
use super::{
    BATCH, DeviceStats, DropLog, Due, EventSender, GraphExchange, HOUSEKEEPING, RECOVERY, UnitThreads, pool,
};
use crate::audit_log::Auditor;
use crate::capture::Taps;
use control::channel::{Inbox, Next};

pub use socket_queues::SocketQueues;

/// The most descriptors that the thread waits for where outer packets are split: its channel, raw sockets without a queue,
/// and for each queue UDP, ESP and AH of two families.
const MOST_WAITED: usize = 1 + 8 + 6 * netio::udp::MOST_QUEUES;

/// Times that a socket is asked for bursts before the thread looks at its channel again.
const CALLS: usize = 8;

/// What the thread owns and the control plane asks about.
pub struct InboundHalf {
    /// Its half of the engine.
    pub engine: Inbound,
    /// What its devices did.
    pub losses: DeviceStats,
    /// Datagrams that the kernel had no room for, as it last said.
    pub overrun: u64,
    /// Who hears of its events.
    pub teller: EventSender,
    /// Who hears of what is auditable.
    pub auditor: Auditor,
    /// Who wants copies of its packets.
    pub taps: Taps,
    /// Cuts what networks behind this host cannot take whole.
    pub fragmenter: Fragmenter,
    /// Wakes the outbound thread, for which packets of the scrubber's own may be left.
    pub outbound: Option<Wake>,
    /// The graph that packets are to wait in from now on; `None`: nothing changes.
    pub exchange: Option<GraphExchange<InboundGraph, OpenWork>>,
}

impl InboundHalf {
    /// A half that has seen no packet.
    pub fn new(engine: Inbound) -> InboundHalf {
        InboundHalf {
            engine,
            losses: DeviceStats::new(),
            overrun: 0,
            teller: EventSender::default(),
            auditor: Auditor::default(),
            taps: Taps::default(),
            fragmenter: Fragmenter::default(),
            outbound: None,
            exchange: None,
        }
    }

    /// Pass on the engine's events and audit entries, and wake the outbound thread if something was left for it.
    pub(super) fn tell(&mut self) {
        if let (true, Some(wake)) = (self.engine.take_call(), &self.outbound) {
            wake.wake();
        }
        self.teller.tell_all(std::iter::from_fn(|| self.engine.poll_event()));
        self.teller.lost(self.engine.take_lost_events());
        if self.auditor.is_on() {
            let now = clock::monotonic();
            self.engine.take_audits(now, &mut |audited| self.auditor.packet("in", now, &audited));
        }
    }

    /// A burst, with copies for those who capture.
    pub(super) fn burst(&mut self, now: Time, burst: Burst<stage::Raw>, work: Tapped<'_>) {
        if self.taps.is_on() && !burst.bytes().is_empty() {
            self.tapped(now, burst, work);
        } else {
            self.engine.handle_burst(now, burst, work.pool, work.delivery);
        }
    }

    /// One packet, with copies for those who capture.
    pub(super) fn packet(
        &mut self,
        now: Time,
        packet: Packet<stage::Raw>,
        pool: &mut Pool,
        outcomes: &mut Vec<InboundOutcome>,
    ) {
        if !self.taps.is_on() {
            return self.engine.handle(now, packet, pool, outcomes);
        }
        self.taps.keep(&packet);
        let before = outcomes.len();
        self.engine.handle(now, packet, pool, outcomes);
        self.taps.inbound(outcomes.get(before..).unwrap_or_default());
    }

    /// A burst packet by packet, with the same outcome as without a capture: the outer headers of a burst are the socket's,
    /// so there is nothing for the scrubber of outer packets.
    #[cold]
    fn tapped(&mut self, now: Time, burst: Burst<stage::Raw>, work: Tapped<'_>) {
        let Tapped { pool, outcomes, delivery } = work;
        // Without a datagram there is nothing to show, only to count.
        let packets: Vec<_> = burst.packets(pool).collect();
        for packet in packets {
            match packet {
                Ok(packet) => {
                    self.taps.keep(&packet);
                    self.engine.handle_clean(now, packet, pool, outcomes);
                    self.taps.inbound(outcomes);
                }
                Err(error) => self.losses.count(error.into(), 1),
            }
            gather(outcomes, delivery);
        }
        pool.put(burst.into_buf());
    }
}

/// The devices of the thread.
pub struct InboundThread {
    /// Where packets come from.
    pub udp: UdpTransport,
    /// The sockets that packets come from by class, frames too; `None`: all come by one of each family, or of each device.
    pub queues: Option<SocketQueues>,
    /// Sockets that an earlier daemon had and nothing comes to any more.
    pub given_up: GivenUp,
    /// Where bare ESP and AH come from, and IP in IP if it is taken, of each family that the host has: up to eight. Those of
    /// ESP and AH are among the queues, where there are such.
    pub raw: Vec<RawReceiver>,
    /// Where packets for the host go.
    pub tun: Tun,
    /// Devices whose frames are taken in place of all these sockets; usually none.
    pub frames: FramesIn,
    /// The threads of units that answer later.
    pub units: UnitThreads<OpenWork>,
}

/// The parts of [`Work`] that a burst needs, or a capture of it.
pub(super) struct Tapped<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) outcomes: &'a mut Vec<InboundOutcome>,
    pub(super) delivery: &'a mut Delivery,
}

/// What is for the host, behind what is there already. What was dropped the engine has counted.
pub(super) fn gather(outcomes: &mut Vec<InboundOutcome>, delivery: &mut Delivery) {
    for outcome in outcomes.drain(..) {
        if let InboundOutcome::Deliver(packet, mark) = outcome {
            delivery.push_packet(packet, mark);
        }
    }
}

/// The sources that are ready.
struct Ready {
    /// The channel has something.
    woken: bool,
    /// The UDP sockets of each family are ready.
    udp: [bool; 2],
    /// The raw sockets are ready, in their order.
    bare: [bool; 8],
}

/// What one call received, and what became of it.
struct Work {
    pool: Pool,
    bursts: Vec<Burst<stage::Raw>>,
    packets: Vec<Packet<stage::Raw>>,
    delivery: Delivery,
    outcomes: Vec<InboundOutcome>,
}

impl Work {
    fn new() -> Work {
        Work {
            pool: pool(),
            bursts: Vec::new(),
            packets: Vec::new(),
            delivery: Delivery::new(),
            outcomes: Vec::new(),
        }
    }

    /// What sockets give, and what the engine takes.
    fn split(&mut self) -> (Received<'_>, Tapped<'_>) {
        let Work { pool, bursts, packets, delivery, outcomes } = self;
        (Received { bursts, packets }, Tapped { pool, outcomes, delivery })
    }
}

/// The parts of [`Work`] that sockets fill.
struct Received<'a> {
    bursts: &'a mut Vec<Burst<stage::Raw>>,
    packets: &'a mut Vec<Packet<stage::Raw>>,
}

impl InboundThread {
    /// Carry packets until told to stop.
    pub fn serve(mut self, half: &mut InboundHalf, inbox: &Inbox<InboundHalf>) {
        self.empty_given_up(half);
        if !self.frames.receivers.is_empty() {
            return self.serve_frames(half, inbox);
        }
        let mut work = Work::new();
        // Where packets are split, whoever knows the classes of associations says whether they are joined.
        if self.queues.is_none()
            && let Err(error) = self.udp.join_datagrams(true)
        {
            tracing::warn!("the kernel joins no UDP datagrams: {error}; each costs a walk through its stack");
        }
        let mut due = Due::new(clock::monotonic());
        let mut drop_log = DropLog::default();
        let mut until: Option<Time> = None;
        loop {
            let patience =
                until.map_or(HOUSEKEEPING, |until| until.since(clock::monotonic()).min(HOUSEKEEPING));
            let patience = if self.units.begin_waiting() { Duration::ZERO } else { patience };
            let Ready { woken, udp, bare } = self.wait(half, inbox.wake().as_fd(), patience);
            self.units.end_waiting();
            if woken && inbox.run(half) == Next::End {
                return self.leave_graph(half, &mut work.split().1);
            }
            let now = clock::monotonic();
            let (queued, mut parts) = work.split();
            self.exchange(half, &mut parts);
            if half.engine.graph().is_some() {
                let works;
                (until, works) = self.sockets(half, (udp, bare), queued, &mut parts);
                if !works {
                    let _ = poll::readable([inbox.wake().as_fd()], Some(RECOVERY));
                }
            } else {
                until = None;
                for (family, ready) in [Family::V4, Family::V6].into_iter().zip(udp) {
                    if ready && !self.batch(half, family, now, &mut work) {
                        let _ = poll::readable([inbox.wake().as_fd()], Some(RECOVERY));
                    }
                }
                for (at, _) in bare.iter().enumerate().filter(|(_, ready)| **ready) {
                    self.bare(half, at, now, &mut work);
                }
            }
            half.overrun = self.udp.lost()
                + self.raw.iter().map(RawReceiver::lost).sum::<u64>()
                + self.queues.as_ref().map_or(0, SocketQueues::lost);
            if due.reached(now) {
                half.engine.expire(now);
                drop_log.say("inbound", half.engine.stats().drops().chain(half.losses.drops()));
            }
            half.tell();
        }
    }

    /// Wait for a command, and for packets. Where outer packets are split, a socket of a class that the graph has no room
    /// for is not waited for.
    fn wait(&mut self, half: &InboundHalf, wake: BorrowedFd<'_>, patience: Duration) -> Ready {
        let raw = |at: usize| self.raw.get(at).map_or(wake, AsFd::as_fd);
        // ESP, AH, and where it is asked for IPv4 and IPv6 in IP, of each family.
        let bare: [BorrowedFd<'_>; 8] = std::array::from_fn(raw);
        let Some(queues) = &mut self.queues else {
            // A family that the host has not stands in the set as the eventfd.
            let fd = |family| self.udp.fd(family).unwrap_or(wake);
            let [a, b, c, d, e, f, g, h] = bare;
            let set = [wake, fd(Family::V4), fd(Family::V6), a, b, c, d, e, f, g, h];
            let ready = poll::readable(set, Some(patience));
            let [woken, v4, v6, bare @ ..] = ready.unwrap_or([true; 11]);
            return Ready { woken, udp: [v4, v6], bare };
        };
        let has_room = |classes: &[AggregateId]| half.engine.room(classes) > 0;
        let mut numbers = [0; MOST_WAITED];
        for (place, (number, _)) in numbers.iter_mut().zip(queues.fds(&self.udp, &[], has_room)) {
            *place = number;
        }
        let sockets = queues.fds(&self.udp, &[], has_room).map(|(_, socket)| socket);
        let set = [wake].into_iter().chain(bare).chain(sockets);
        let ready = poll::readable_among(set, Some(patience)).unwrap_or([true; MOST_WAITED]);
        let [woken, a, b, c, d, e, f, g, h, sockets @ ..] = ready;
        let mut any = false;
        for (number, _) in numbers.into_iter().zip(sockets).filter(|(_, is_ready)| *is_ready) {
            queues.is_readable(number);
            any = true;
        }
        Ready { woken, udp: [any; 2], bare: [a, b, c, d, e, f, g, h] }
    }

    /// Take what waits in sockets that nothing comes to any more, until they are empty.
    fn empty_given_up(&mut self, half: &mut InboundHalf) {
        let Work { mut pool, mut bursts, mut delivery, mut outcomes, .. } = Work::new();
        let now = clock::monotonic();
        loop {
            match self.given_up.recv_bursts(now, &mut pool, &mut bursts) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => half.losses.broke("the UDP socket", &error),
            }
            half.losses.received += bursts.iter().map(Burst::count).sum::<usize>() as u64;
            for burst in bursts.drain(..) {
                let work = Tapped { pool: &mut pool, outcomes: &mut outcomes, delivery: &mut delivery };
                half.burst(now, burst, work);
            }
            delivery.coalesced(|coalesced| {
                half.losses.count_delivery(&half.fragmenter.send(&self.tun, coalesced))
            });
            delivery.clear(&mut pool);
        }
    }

    /// Take what waits in the sockets once, before they are left alone: it came during a hand-over.
    pub(super) fn drain(&mut self, half: &mut InboundHalf) {
        let mut work = Work::new();
        let now = clock::monotonic();
        for family in [Family::V4, Family::V6] {
            if self.udp.fd(family).is_some() {
                self.batch(half, family, now, &mut work);
            }
        }
        for at in 0..self.raw.len() {
            self.bare(half, at, now, &mut work);
        }
    }

    /// Take bare packets until there is none or it was often enough.
    fn bare(&mut self, half: &mut InboundHalf, at: usize, now: Time, work: &mut Work) {
        let Work { pool, packets, outcomes, delivery, .. } = work;
        let Some(receiver) = self.raw.get_mut(at) else { return };
        for _ in 0..CALLS {
            let received = match receiver.recv(now, pool, packets) {
                Ok(received) => received,
                Err(error) => return half.losses.broke("a raw socket", &error),
            };
            half.losses.received += received.datagrams as u64;
            half.losses.count(DropReason::Truncated, received.truncated as u64);
            for packet in packets.drain(..) {
                half.packet(now, packet, pool, outcomes);
            }
            gather(outcomes, delivery);
            // A coalesced packet takes up to 64.
            if received.more && delivery.len() < BATCH {
                continue;
            }
            delivery.coalesced(|coalesced| {
                half.losses.count_delivery(&half.fragmenter.send(&self.tun, coalesced))
            });
            delivery.clear(pool);
            if !received.more {
                break;
            }
        }
        delivery
            .coalesced(|coalesced| half.losses.count_delivery(&half.fragmenter.send(&self.tun, coalesced)));
        delivery.clear(pool);
        half.losses.works("a raw socket");
    }

    /// Take datagrams until there is none or it was often enough; `false` if the socket does not work.
    fn batch(&mut self, half: &mut InboundHalf, family: Family, now: Time, work: &mut Work) -> bool {
        let Work { pool, bursts, delivery, outcomes, .. } = work;
        for _ in 0..CALLS {
            let received = match self.udp.recv_bursts(family, now, pool, bursts) {
                Ok(received) => received,
                Err(error) => {
                    half.losses.broke("the UDP socket", &error);
                    return false;
                }
            };
            half.losses.received += received.datagrams as u64;
            half.losses.count(DropReason::Truncated, received.truncated as u64);
            for burst in bursts.drain(..) {
                half.burst(now, burst, Tapped { pool, outcomes, delivery });
            }
            delivery.coalesced(|coalesced| {
                half.losses.count_delivery(&half.fragmenter.send(&self.tun, coalesced))
            });
            delivery.clear(pool);
            if !received.more {
                break;
            }
        }
        half.losses.works("the UDP socket");
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use scrub::{Config, Profile};
    use wire::OuterHeader;

    use super::*;
    use crate::capture::tap::{Filter, Gauge, Tap};

    /// The reasons for which a burst from a loopback address ends, and the packets that the scrubber of outer packets saw.
    fn burst_ends(is_captured: bool) -> (Vec<(DropReason, u64)>, u64) {
        let mut half = InboundHalf::new(Inbound::new(4500));
        half.engine.scrub_outer(Some(Config::new(Profile::Standard)), [7; 16]);
        let (records, kept) = mpsc::sync_channel(16);
        if is_captured {
            let filter = Filter { snaplen: 2048, ..Filter::default() };
            half.taps.add(Tap { id: 1, filter, records, gauge: Arc::new(Gauge::default()) });
        }
        let mut pool = pool();
        // Two datagrams of an association that nobody has.
        let datagram = [[0, 0, 0x10, 1].as_slice(), &[0; 44]].concat();
        let buf = wire::Buf::from_slice(&[datagram.as_slice(), &datagram].concat(), 64, 64);
        let header = OuterHeader {
            src: "127.0.0.1".parse().unwrap(),
            dst: "192.0.2.1".parse().unwrap(),
            src_port: 4500,
            dst_port: 4500,
            tos: 0,
            ttl: 64,
            may_fragment: false,
        };
        let burst = Burst::raw(buf, header, datagram.len(), Time::default()).unwrap();
        let (mut outcomes, mut delivery) = (Vec::new(), Delivery::default());
        let work = Tapped { pool: &mut pool, outcomes: &mut outcomes, delivery: &mut delivery };
        half.burst(Time::default(), burst, work);
        assert_eq!(kept.try_iter().count(), if is_captured { 2 } else { 0 });
        let scrubbed = half.engine.outer_scrubber().unwrap().counters().packets.iter().sum();
        (half.engine.stats().drops().filter(|(_, count)| *count > 0).collect(), scrubbed)
    }

    #[test]
    fn a_capture_changes_nothing_for_what_it_shows() {
        let plain = burst_ends(false);
        assert_eq!(plain, (vec![(DropReason::UnknownSpi, 2)], 0));
        assert_eq!(burst_ends(true), plain);
    }
}
