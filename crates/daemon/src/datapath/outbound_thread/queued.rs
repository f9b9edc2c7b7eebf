//! The outbound thread with a graph: receive, look up, give turns, send, and look at the devices again.
//!
//! A round is short: a turn is as long as what may be committed to the unit, and each round takes what has come
//! meanwhile before it gives the next turn. So a packet of a class that goes first waits for one turn and no more,
//! whatever waits behind it. While a sliced unit has work, each round does a step of it, and takes in only what may have
//! its turn before the next.

use std::time::Duration;

use engine::{OutboundGraph, Outcome};
use netio::clock;
use netio::tun::{FromTun, Tun};
use qos::node::Wake;
use qos::unit::HANG;
use wire::{AggregateId, GsoKind, Pool, Time};

use super::{Await, OutboundHalf, OutboundThread};
use crate::datapath::queue_state::{BETWEEN, ROUND, STEPS, share};
use crate::datapath::{BREATH, GraphExchange};

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
            self.take_answers(half, now, pool, outcomes);
            if readable {
                let taken = self.take_in(half, now, pool, outcomes);
                self.finish(half, pool, outcomes);
                match taken {
                    Ok(more) => readable = more,
                    Err(()) => return Await::Device,
                }
            }
            let most = if half.engine.is_in_progress() { BETWEEN } else { ROUND };
            let more = half.engine.look_up(now, most, pool, outcomes);
            self.finish(half, pool, outcomes);
            let turned = half.engine.turn(clock::monotonic(), pool, outcomes);
            self.submit_work(half, pool, outcomes);
            self.finish(half, pool, outcomes);
            self.send_bare(half, pool);
            let now = clock::monotonic();
            let wake = half.engine.settle(now);
            let is_in_progress = self.steps(half, now, turned || more, pool, outcomes);
            match wake {
                _ if more || is_in_progress => {}
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

    /// Do a step of the work that sliced units have; further ones, unless something waits already, until a piece of it is
    /// done or something comes that may go ahead. Returns whether there was any.
    fn steps(
        &mut self,
        half: &mut OutboundHalf,
        mut now: Time,
        waits: bool,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        let mut any = false;
        for _ in 0..STEPS {
            if !half.engine.step(now, pool, outcomes) {
                break;
            }
            any = true;
            self.finish(half, pool, outcomes);
            now = clock::monotonic();
            let is_due = matches!(half.engine.settle(now), Wake::At(time) if time <= now);
            if waits || is_due || !half.engine.is_begun() || self.may_have_come(half) {
                break;
            }
        }
        any
    }

    /// Whether something may have come that may go ahead of the work in progress.
    fn may_have_come(&mut self, half: &OutboundHalf) -> bool {
        let Some(queues) = self.queues.as_mut().filter(|_| self.units.is_empty()) else { return true };
        let is_read =
            |classes: &[AggregateId]| half.engine.gets_ahead(classes) && half.engine.room(classes) > 0;
        queues.states.is_any_pending(is_read)
    }

    /// Send what waits in the graph, before the thread ends: whoever goes on with the associations does not have it.
    pub(super) fn leave_graph(
        &mut self,
        half: &mut OutboundHalf,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) {
        let deadline = clock::monotonic() + Duration::from_nanos(HANG);
        while !self.units.is_idle() && clock::monotonic() < deadline {
            self.take_answers(half, clock::monotonic(), pool, outcomes);
            std::thread::sleep(BREATH);
        }
        half.engine.set_graph(clock::monotonic(), None, pool, outcomes);
        self.finish(half, pool, outcomes);
    }

    /// Put the graph in force that the control plane has left, if it has left one.
    pub(super) fn exchange(
        &mut self,
        half: &mut OutboundHalf,
        now: Time,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) {
        let Some(GraphExchange { graph, classes, threads }) = half.exchange.take() else { return };
        half.engine.set_graph(now, Some(graph), pool, outcomes);
        let graph = half.engine.graph().map(OutboundGraph::graph);
        let priorities = graph.and_then(|graph| graph.priorities()).filter(|_| self.takes_priorities);
        self.priorities = priorities.map(|priorities| Box::new(priorities.clone()));
        self.units.adopt(
            threads,
            |name| graph?.dispatcher().find(name),
            |unit| half.engine.unanswered(unit) > 0,
        );
        self.finish(half, pool, outcomes);
        if let Some(queues) = &mut self.queues {
            queues.states.set_classes(classes);
        }
    }

    /// Take the answers of units that answer later, and take those out whose threads have ended.
    fn take_answers(
        &mut self,
        half: &mut OutboundHalf,
        now: Time,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) {
        if self.units.is_empty() {
            return;
        }
        while let Some(work) = self.units.next_answer() {
            half.engine.answer(now, work, pool, outcomes);
        }
        self.finish(half, pool, outcomes);
        while let Some(unit) = self.units.next_ended() {
            half.engine.fail_unit(now, unit, pool, outcomes);
            self.finish(half, pool, outcomes);
        }
    }

    /// Give the work of a turn to the threads of its units. Where a unit has none, it is done here.
    fn submit_work(&mut self, half: &mut OutboundHalf, pool: &mut Pool, outcomes: &mut Vec<Outcome>) {
        while let Some(work) = half.engine.take_work() {
            if let Err(mut work) = self.units.submit(work) {
                work.compute();
                half.engine.answer(clock::monotonic(), work, pool, outcomes);
            }
        }
    }

    /// Take packets in at hook 1a. Returns whether there may be more.
    fn take_in(
        &mut self,
        half: &mut OutboundHalf,
        now: Time,
        pool: &mut Pool,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<bool, ()> {
        let Some(queues) = &mut self.queues else {
            let most = if half.engine.is_in_progress() { BETWEEN } else { ROUND };
            return Ok(take_from(&self.tun, most, None, half, now, pool, outcomes)?.more);
        };
        let graph = half.engine.graph();
        let share =
            share(graph.map_or(0, |graph| graph.waiting().0), graph.map_or(0, OutboundGraph::last_turn));
        let mut more = false;
        for at in 0..queues.states.count() {
            if !queues.states.is_pending(at) || !half.engine.gets_ahead(queues.states.classes(at)) {
                continue;
            }
            let room = usize::try_from(half.engine.room(queues.states.classes(at))).unwrap_or(usize::MAX);
            let most = queues.states.most(at, share).min(room);
            let Some(tun) = queues.tun(at).filter(|_| most > 0) else { continue };
            let arrived = queues.states.arrived(at);
            let taken = take_from(tun, most, Some(queues.states.classes(at)), half, now, pool, outcomes)?;
            queues.states.taken(at, taken.packets);
            if taken.more {
                more = true;
            } else {
                queues.states.empty(at, arrived);
            }
        }
        Ok(more)
    }

    /// Carry out what a call brought, with a copy for those who capture.
    pub(super) fn finish(&mut self, half: &mut OutboundHalf, pool: &mut Pool, outcomes: &mut Vec<Outcome>) {
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
}

/// What was taken from a queue.
struct FromQueue {
    packets: u64,
    more: bool,
}

/// Take packets from a queue of the TUN in at hook 1a, at most so many, and no more than there is room for: a super-packet
/// takes that of many.
fn take_from(
    tun: &Tun,
    most: usize,
    classes: Option<&[AggregateId]>,
    half: &mut OutboundHalf,
    now: Time,
    pool: &mut Pool,
    outcomes: &mut Vec<Outcome>,
) -> Result<FromQueue, ()> {
    let mut packets = 0;
    for _ in 0..most {
        match tun.recv(now, pool) {
            Ok(FromTun::Packet(packet)) => {
                half.losses.received += 1;
                let is_alone = packet.meta.gso.kind == GsoKind::None;
                half.engine.receive(now, packet, pool, outcomes);
                if !is_alone && classes.is_some_and(|classes| half.engine.room(classes) == 0) {
                    return Ok(FromQueue { packets: packets + 1, more: true });
                }
            }
            Ok(FromTun::Dropped(reason)) => {
                half.losses.received += 1;
                half.losses.count(reason, 1);
            }
            Ok(FromTun::Empty) => {
                half.losses.works(tun.name());
                return Ok(FromQueue { packets, more: false });
            }
            Err(error) => {
                half.losses.broke(tun.name(), &error);
                return Err(());
            }
        }
        packets += 1;
    }
    half.losses.works(tun.name());
    Ok(FromQueue { packets, more: true })
}
