//! The inbound thread where outer packets arrive as frames of the uplinks.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use control::channel::{Inbox, Next};
use netio::packet::{FrameReceiver, Frames};
use netio::{clock, poll};
use wire::{AggregateId, Time};

use super::socket_queues::SocketKind;
use super::sockets::read_by_class;
use super::{InboundHalf, InboundThread, MOST_WAITED, Tapped, gather};
use crate::datapath::frames::DEVICES;
use crate::datapath::{DropLog, Due, HOUSEKEEPING, RECOVERY, pool};

/// Times that a device is asked for frames before the thread looks at its channel again.
const CALLS: usize = 16;

impl InboundThread {
    /// Serve as [`InboundThread::serve`] does, with frames instead of the kernel's sockets.
    pub(super) fn serve_frames(mut self, half: &mut InboundHalf, inbox: &Inbox<InboundHalf>) {
        self.drain(half);
        let mut receivers = std::mem::take(&mut self.frames.receivers);
        let mut work = Work {
            pool: pool(),
            frames: Frames::default(),
            delivery: engine::Delivery::new(),
            outcomes: Vec::new(),
        };
        let mut due = Due::new(clock::monotonic());
        let mut drop_log = DropLog::default();
        let mut until: Option<Time> = None;
        loop {
            let wake = inbox.wake().as_fd();
            let patience =
                until.map_or(HOUSEKEEPING, |until| until.since(clock::monotonic()).min(HOUSEKEEPING));
            let patience = if self.units.begin_waiting() { Duration::ZERO } else { patience };
            let (woken, ready) = self.wait_for_frames(half, &receivers, wake, patience);
            self.units.end_waiting();
            if woken && inbox.run(half) == Next::End {
                let Work { pool, delivery, outcomes, .. } = &mut work;
                return self.leave_graph(half, &mut Tapped { pool, outcomes, delivery });
            }
            let now = clock::monotonic();
            let Work { pool, frames, delivery, outcomes } = &mut work;
            let mut parts = Tapped { pool, outcomes, delivery };
            self.exchange(half, &mut parts);
            if half.engine.graph().is_some() {
                let mut works = true;
                let has_room = |classes: &[AggregateId]| half.engine.room(classes) > 0;
                let is_pending =
                    self.queues.as_mut().is_some_and(|queues| queues.states.is_any_pending(has_room));
                let is_any = is_pending || ready.iter().any(|ready| *ready);
                until = self.rounds(half, is_any, &mut parts, |thread, half, now, parts| {
                    let Some(queues) = &mut thread.queues else { return false };
                    let taken = read_by_class(queues, half, |_, half, kind, queue| match kind {
                        SocketKind::Frames(at) => match receivers.get_mut(at) {
                            Some(receiver) => take_in(half, receiver, queue, now, frames, parts),
                            None => Ok((false, 0)),
                        },
                        SocketKind::Udp(_) | SocketKind::Raw(_) => Ok((false, 0)),
                    });
                    works &= taken.is_ok();
                    taken.unwrap_or(false)
                });
                if !works {
                    let _ = poll::readable([inbox.wake().as_fd()], Some(RECOVERY));
                }
            } else {
                until = None;
                for (receiver, _) in receivers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                    if !self.take(half, receiver, now, &mut work) {
                        let _ = poll::readable([inbox.wake().as_fd()], Some(RECOVERY));
                    }
                }
            }
            if due.reached(now) {
                half.engine.expire(now);
                half.overrun = receivers.iter_mut().map(FrameReceiver::lost).sum();
                drop_log.say("inbound", half.engine.stats().drops().chain(half.losses.drops()));
            }
            half.tell();
        }
    }

    /// Wait for a command, and for frames: whether there is a command, and which devices have frames. Where these are split,
    /// a socket of a class that the graph has no room for is not waited for.
    fn wait_for_frames(
        &mut self,
        half: &InboundHalf,
        receivers: &[FrameReceiver],
        wake: BorrowedFd<'_>,
        patience: Duration,
    ) -> (bool, [bool; DEVICES]) {
        let Some(queues) = &mut self.queues else {
            // A device that is not there stands in the set as the eventfd.
            let fd = |at: usize| receivers.get(at).map_or(wake, AsFd::as_fd);
            let set = [wake, fd(0), fd(1), fd(2), fd(3)];
            let [woken, ready @ ..] = poll::readable(set, Some(patience)).unwrap_or([true; DEVICES + 1]);
            return (woken, ready);
        };
        let has_room = |classes: &[AggregateId]| half.engine.room(classes) > 0;
        let mut numbers = [0; MOST_WAITED];
        for (place, (number, _)) in numbers.iter_mut().zip(queues.fds(&self.udp, receivers, has_room)) {
            *place = number;
        }
        let sockets = queues.fds(&self.udp, receivers, has_room).map(|(_, socket)| socket);
        let set = [wake].into_iter().chain(sockets);
        let ready = poll::readable_among(set, Some(patience)).unwrap_or([true; MOST_WAITED]);
        let [woken, sockets @ ..] = ready;
        let mut any = false;
        for (number, _) in numbers.into_iter().zip(sockets).filter(|(_, is_ready)| *is_ready) {
            queues.is_readable(number);
            any = true;
        }
        (woken, [any; DEVICES])
    }

    /// Take frames until there is none or it was often enough; `false` if the device does not work.
    fn take(
        &mut self,
        half: &mut InboundHalf,
        receiver: &mut FrameReceiver,
        now: Time,
        work: &mut Work,
    ) -> bool {
        let Work { pool, frames, delivery, outcomes } = work;
        for _ in 0..CALLS {
            let losses = &mut half.losses;
            let more = match receiver.recv(now, pool, frames, &mut |reason| losses.count(reason, 1)) {
                Ok(more) => more,
                Err(error) => {
                    half.losses.broke("a packet socket", &error);
                    return false;
                }
            };
            for burst in frames.bursts.drain(..) {
                half.losses.received += burst.count() as u64;
                half.burst(now, burst, Tapped { pool, outcomes, delivery });
            }
            for packet in frames.packets.drain(..) {
                half.losses.received += 1;
                half.packet(now, packet, pool, outcomes);
            }
            gather(outcomes, delivery);
            delivery.coalesced(|coalesced| {
                half.losses.count_delivery(&half.fragmenter.send(&self.tun, coalesced))
            });
            delivery.clear(pool);
            if !more {
                break;
            }
        }
        half.losses.works("a packet socket");
        true
    }
}

/// Take frames of a queue in at hook 1a with one call, at most so many unless they are super-packets. Returns whether there
/// may be more, and how many packets there were.
fn take_in(
    half: &mut InboundHalf,
    receiver: &mut FrameReceiver,
    queue: (usize, usize),
    now: Time,
    frames: &mut Frames,
    work: &mut Tapped<'_>,
) -> Result<(bool, usize), ()> {
    let Tapped { pool, outcomes, delivery } = work;
    let losses = &mut half.losses;
    let received = match receiver.recv_of(queue, now, pool, frames, &mut |reason| losses.count(reason, 1)) {
        Ok(received) => received,
        Err(error) => {
            half.losses.broke("a packet socket", &error);
            return Err(());
        }
    };
    half.losses.received += frames.count() as u64;
    for burst in frames.bursts.drain(..) {
        half.engine.receive_burst(now, burst, pool, outcomes, delivery);
    }
    for packet in frames.packets.drain(..) {
        half.engine.receive(now, packet, pool, outcomes, delivery);
    }
    half.losses.works("a packet socket");
    Ok((received.more, received.packets))
}

/// What one call received, and what became of it.
struct Work {
    pool: wire::Pool,
    frames: Frames,
    delivery: engine::Delivery,
    outcomes: Vec<engine::InboundOutcome>,
}
