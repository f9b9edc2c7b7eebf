//! The outbound thread: packets from the TUN through the engine to the wire.

use std::os::fd::AsFd;

use engine::{Outbound, Outcome};
use netio::clear::ClearSender;
use netio::raw::RawSender;
use netio::tun::{FromTun, Tun};
use netio::udp::UdpTransport;
use netio::{clock, poll};
use wire::ip::Headers;
use wire::{AcquireId, DropReason, Packet, Pool, Time, protocol, stage};

use super::{BATCH, Due, HOUSEKEEPING, Inbox, Losses, Murmur, Next, RECOVERY, Teller, pool};
use crate::capture::Taps;

/// What the thread owns and the control plane asks about.
pub struct OutboundHalf {
    /// Its half of the engine.
    pub engine: Outbound,
    /// What its devices did.
    pub losses: Losses,
    /// Who hears of its events.
    pub teller: Teller,
    /// Who wants copies of its packets.
    pub taps: Taps,
    /// Acquires that a key manager has refused since the last look.
    pub refused: Vec<AcquireId>,
}

impl OutboundHalf {
    /// A half that has seen no packet.
    pub fn new(engine: Outbound) -> OutboundHalf {
        OutboundHalf {
            engine,
            losses: Losses::new(),
            teller: Teller::default(),
            taps: Taps::default(),
            refused: Vec::new(),
        }
    }

    /// Pass events on.
    fn tell(&mut self) {
        self.teller.tell_all(std::iter::from_fn(|| self.engine.poll_event()));
        self.teller.lost(self.engine.take_lost_events());
    }
}

/// The devices of the thread.
pub struct OutboundThread {
    /// Where packets come from, and answers to the host go.
    pub tun: Tun,
    /// Where protected packets go.
    pub udp: UdpTransport,
    /// Where bare ESP and AH go.
    pub raw: RawSender,
    /// The largest packet that leaves bare in one piece.
    pub raw_mtu: usize,
    /// Where packets go that policy lets pass in clear.
    pub clear: ClearSender,
}

impl OutboundThread {
    /// Carry packets until told to stop.
    pub fn serve(mut self, half: &mut OutboundHalf, inbox: &Inbox<OutboundHalf>) {
        let mut pool = pool();
        let mut outcomes = Vec::with_capacity(BATCH);
        let mut due = Due::new(clock::monotonic());
        let mut murmur = Murmur::default();
        loop {
            let ready = poll::readable([inbox.wake().as_fd(), self.tun.as_fd()], Some(HOUSEKEEPING));
            let [woken, readable] = ready.unwrap_or([true, true]);
            if woken && inbox.run(half) == Next::End {
                return;
            }
            let now = clock::monotonic();
            // What waited for an association that a command has just brought.
            while let Some(id) = half.refused.pop() {
                half.engine.refuse_acquire(id, &mut pool, &mut outcomes);
            }
            half.engine.release(now, &mut pool, &mut outcomes);
            half.engine.flush(&mut pool, &mut outcomes);
            self.carry_out(half, &mut pool, &mut outcomes);
            let works = !readable || self.batch(half, now, &mut pool, &mut outcomes);
            // Nothing waits for packets that may not come.
            half.engine.flush(&mut pool, &mut outcomes);
            self.carry_out(half, &mut pool, &mut outcomes);
            if !works {
                // A broken device reads as ready for ever; only the channel is waited on meanwhile.
                let _ = poll::readable([inbox.wake().as_fd()], Some(RECOVERY));
            }
            if due.reached(now) {
                half.engine.expire(now, &mut pool, &mut outcomes);
                self.carry_out(half, &mut pool, &mut outcomes);
                murmur.say("outbound", half.engine.tally().drops().chain(half.losses.drops()));
            }
            half.tell();
        }
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

    /// By the socket of its protocol.
    fn send(&mut self, packet: &Packet<stage::Outer>) -> Result<(), DropReason> {
        if Headers::parse(packet.bytes())?.protocol == protocol::UDP {
            self.udp.send(packet)
        } else {
            self.raw.send(packet, self.raw_mtu)
        }
    }

    /// Do what the engine said.
    fn carry_out(&mut self, half: &mut OutboundHalf, pool: &mut Pool, outcomes: &mut Vec<Outcome>) {
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Send(packet) => {
                    half.losses.refused(self.send(&packet));
                    pool.put(packet.into_buf());
                }
                Outcome::Burst(burst) => {
                    let sent = self.udp.send_burst(&burst);
                    half.losses.burst(&burst, &sent);
                    pool.put(burst.into_buf());
                }
                Outcome::Clear(packet) => {
                    half.losses.refused(self.clear.send(packet.bytes()));
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
