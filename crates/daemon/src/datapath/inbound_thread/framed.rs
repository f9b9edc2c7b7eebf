//! The inbound thread where outer packets arrive as frames of the uplinks.

use std::os::fd::AsFd;
use std::time::Duration;

use control::channel::{Inbox, Next};
use netio::packet::{FrameReceiver, Frames};
use netio::{clock, poll};
use wire::Time;

use super::{InboundHalf, InboundThread, Tapped, gather};
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
            // A device that is not there stands in the set as the eventfd.
            let wake = inbox.wake().as_fd();
            let fd = |at: usize| receivers.get(at).map_or(wake, AsFd::as_fd);
            let set = [wake, fd(0), fd(1), fd(2), fd(3)];
            let patience =
                until.map_or(HOUSEKEEPING, |until| until.since(clock::monotonic()).min(HOUSEKEEPING));
            let patience = if self.units.begin_waiting() { Duration::ZERO } else { patience };
            let [woken, ready @ ..] = poll::readable(set, Some(patience)).unwrap_or([true; DEVICES + 1]);
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
                let is_any = ready.iter().any(|ready| *ready);
                until = self.rounds(half, is_any, &mut parts, |_, half, now, parts| {
                    let mut more = false;
                    for (receiver, _) in receivers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                        match take_in(half, receiver, now, frames, parts) {
                            Ok(yet) => more |= yet,
                            Err(()) => works = false,
                        }
                    }
                    more && works
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

/// Take frames in at hook 1a, with one call. Returns whether there may be more.
fn take_in(
    half: &mut InboundHalf,
    receiver: &mut FrameReceiver,
    now: Time,
    frames: &mut Frames,
    work: &mut Tapped<'_>,
) -> Result<bool, ()> {
    let Tapped { pool, outcomes, delivery } = work;
    let losses = &mut half.losses;
    let more = match receiver.recv(now, pool, frames, &mut |reason| losses.count(reason, 1)) {
        Ok(more) => more,
        Err(error) => {
            half.losses.broke("a packet socket", &error);
            return Err(());
        }
    };
    for burst in frames.bursts.drain(..) {
        half.losses.received += burst.count() as u64;
        half.engine.receive_burst(now, burst, pool, outcomes, delivery);
    }
    for packet in frames.packets.drain(..) {
        half.losses.received += 1;
        half.engine.receive(now, packet, pool, outcomes, delivery);
    }
    half.losses.works("a packet socket");
    Ok(more)
}

/// What one call received, and what became of it.
struct Work {
    pool: wire::Pool,
    frames: Frames,
    delivery: engine::Delivery,
    outcomes: Vec<engine::InboundOutcome>,
}
