//! The outbound thread with a graph: receive, look up, give turns, send, and look at the devices again.
//!
//! A round is short: a turn is as long as what may be committed to the unit, and each round takes what has come
//! meanwhile before it gives the next turn. So a packet of a class that goes first waits for one turn and no more,
//! whatever waits behind it.

use engine::Outcome;
use netio::clock;
use netio::tun::FromTun;
use qos::node::Wake;
use wire::{Pool, Time};

use super::{Await, OutboundHalf, OutboundThread};

/// Packets that are taken from the device, and look-ups that are made, in a round.
const ROUND: usize = 64;
/// Rounds before the thread looks at its channel, at ICMP errors and at timers again.
const ROUNDS: usize = 16;

impl OutboundThread {
    /// Rounds, as long as there is something to do.
    pub(super) fn rounds(
        &mut self,
        half: &mut OutboundHalf,
        mut readable: bool,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) -> Await {
        for _ in 0..ROUNDS {
            let now = clock::monotonic();
            half.engine.copy_packets(half.taps.is_on());
            if readable {
                let taken = self.take_in(half, now, pool, outcomes);
                self.finish(half, pool, outcomes);
                match taken {
                    Ok(more) => readable = more,
                    Err(()) => return Await::Device,
                }
            }
            let more = half.engine.look_up(now, ROUND, pool, outcomes);
            self.finish(half, pool, outcomes);
            half.engine.turn(clock::monotonic(), pool, outcomes);
            self.finish(half, pool, outcomes);
            self.send_bare(half, pool);
            let now = clock::monotonic();
            match half.engine.settle(now) {
                _ if more => {}
                Wake::At(time) if time <= now => {}
                Wake::At(time) if !readable => return Await::Time(time),
                Wake::Packet | Wake::Room | Wake::Never if !readable => return Await::Packet,
                Wake::At(_) | Wake::Packet | Wake::Room | Wake::Never => {}
            }
            // Expedited packets that came during the turn are in the next one.
            readable = true;
        }
        Await::Time(clock::monotonic())
    }

    /// Carry out what a call brought, with a copy for those who capture.
    fn finish(&mut self, half: &mut OutboundHalf, pool: &mut Pool, outcomes: &mut Vec<Outcome>) {
        if half.taps.is_on() {
            let copies = half.engine.take_copies();
            let ends = copies.iter().skip(1).map(|next| next.from).chain([outcomes.len()]);
            for (copy, end) in copies.iter().zip(ends) {
                half.taps.keep_copy(&copy.octets, copy.meta);
                half.taps.outbound(outcomes.get(copy.from..end).unwrap_or_default());
            }
        }
        self.carry_out(half, pool, outcomes);
    }

    /// Take packets in at hook 1a. Returns whether there may be more.
    fn take_in(
        &mut self,
        half: &mut OutboundHalf,
        now: Time,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<bool, ()> {
        for _ in 0..ROUND {
            match self.tun.recv(now, pool) {
                Ok(FromTun::Packet(packet)) => {
                    half.losses.received += 1;
                    half.engine.receive(now, packet, pool, outcomes);
                }
                Ok(FromTun::Dropped(reason)) => {
                    half.losses.received += 1;
                    half.losses.count(reason, 1);
                }
                Ok(FromTun::Empty) => {
                    half.losses.works(self.tun.name());
                    return Ok(false);
                }
                Err(error) => {
                    half.losses.broke(self.tun.name(), &error);
                    return Err(());
                }
            }
        }
        half.losses.works(self.tun.name());
        Ok(true)
    }
}
