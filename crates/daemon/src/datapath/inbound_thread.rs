//! The inbound thread: datagrams from the wire through the engine to the TUN.

use std::os::fd::AsFd;

use engine::{Inbound, InboundOutcome};
use netio::tun::Tun;
use netio::udp::{Family, UdpTransport};
use netio::{clock, poll};
use wire::{DropReason, Packet, Pool, Time, stage};

use super::{BATCH, Due, HOUSEKEEPING, Inbox, Losses, Next, RECOVERY, Teller, pool};

/// What the thread owns and the control plane asks about.
pub struct InboundHalf {
    /// Its half of the engine.
    pub engine: Inbound,
    /// What its devices did.
    pub losses: Losses,
    /// Datagrams that the kernel had no room for, as it last said.
    pub overrun: u64,
    /// Who hears of its events.
    pub teller: Teller,
}

impl InboundHalf {
    /// A half that has seen no packet.
    pub fn new(engine: Inbound) -> InboundHalf {
        InboundHalf { engine, losses: Losses::new(), overrun: 0, teller: Teller::default() }
    }

    /// Pass events on.
    fn tell(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            self.teller.tell(event);
        }
        self.teller.lost(self.engine.take_lost_events());
    }
}

/// The devices of the thread.
pub struct InboundThread {
    /// Where packets come from.
    pub udp: UdpTransport,
    /// Where packets for the host go.
    pub tun: Tun,
}

/// Room for one batch of packets and what became of them.
struct Work {
    pool: Pool,
    packets: Vec<Packet<stage::Raw>>,
    outcomes: Vec<InboundOutcome>,
}

impl InboundThread {
    /// Carry packets until told to stop.
    pub fn serve(mut self, half: &mut InboundHalf, inbox: &Inbox<InboundHalf>) {
        let mut work =
            Work { pool: pool(), packets: Vec::with_capacity(BATCH), outcomes: Vec::with_capacity(BATCH) };
        let mut due = Due::new(clock::monotonic());
        loop {
            // A family that the host has not stands in the set as the eventfd.
            let wake = inbox.wake().as_fd();
            let fd = |family| self.udp.fd(family).unwrap_or(wake);
            let ready = poll::readable([wake, fd(Family::V4), fd(Family::V6)], Some(HOUSEKEEPING));
            let [woken, v4, v6] = ready.unwrap_or([true; 3]);
            if woken && inbox.run(half) == Next::End {
                return;
            }
            let now = clock::monotonic();
            for (family, ready) in [(Family::V4, v4), (Family::V6, v6)] {
                if ready && !self.batch(half, family, now, &mut work) {
                    let _ = poll::readable([inbox.wake().as_fd()], Some(RECOVERY));
                }
            }
            half.overrun = self.udp.lost();
            if due.reached(now) {
                half.engine.expire(now);
            }
            half.tell();
        }
    }

    /// Take datagrams until there is none or the batch is full; `false` if the socket does not work.
    fn batch(&mut self, half: &mut InboundHalf, family: Family, now: Time, work: &mut Work) -> bool {
        let mut taken = 0;
        while taken < BATCH {
            let received = match self.udp.recv(family, now, &mut work.pool, &mut work.packets) {
                Ok(received) => received,
                Err(error) => {
                    half.losses.broke("the UDP socket", &error);
                    return false;
                }
            };
            taken += received.datagrams;
            half.losses.received += received.datagrams as u64;
            half.losses.count(DropReason::Truncated, received.truncated as u64);
            for packet in work.packets.drain(..) {
                half.engine.handle(now, packet, &mut work.pool, &mut work.outcomes);
            }
            for outcome in work.outcomes.drain(..) {
                match outcome {
                    InboundOutcome::Deliver(packet, mark) => {
                        half.losses.refused(self.tun.send(&packet, mark));
                        work.pool.put(packet.into_buf());
                    }
                    // The engine has counted it.
                    InboundOutcome::Drop(_) => {}
                }
            }
            if !received.more {
                break;
            }
        }
        half.losses.works("the UDP socket");
        true
    }
}
