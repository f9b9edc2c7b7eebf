//! The inbound thread with a graph: receive, look up, give turns, deliver, and look at the sources again.
//!
//! A round is short: a turn is as long as what may be committed to the unit, and each round takes what has come
//! meanwhile before it gives the next turn. So a packet of a class that goes first waits for one turn and no more,
//! whatever waits behind it. While a sliced unit has work, each round does a step of it, and takes in only what may have
//! its turn before the next. The sources are the caller's: he says how a little is taken from each of them.

use std::time::Duration;

use engine::InboundGraph;
use netio::clock;
use qos::node::Wake;
use qos::unit::HANG;
use wire::{AggregateId, Time};

use super::{InboundHalf, InboundThread, Tapped, gather};
use crate::datapath::queue_state::{BETWEEN, STEPS};
use crate::datapath::{BREATH, GraphExchange};

/// Look-ups that are made in a round.
const ROUND: usize = 64;
/// Rounds before the thread looks at its channel, at timers and at sources that were not ready again.
const ROUNDS: usize = 4;

impl InboundThread {
    /// Put the graph in force that the control plane has left, if it has left one.
    pub(super) fn exchange(&mut self, half: &mut InboundHalf, work: &mut Tapped<'_>) {
        if let Some(GraphExchange { graph, classes, threads }) = half.exchange.take() {
            let Tapped { pool, outcomes, delivery } = work;
            half.engine.set_graph(clock::monotonic(), Some(graph), pool, outcomes, delivery);
            let graph = half.engine.graph().map(InboundGraph::graph);
            self.units.adopt(
                threads,
                |name| graph?.dispatcher().find(name),
                |unit| half.engine.unanswered(unit) > 0,
            );
            self.finish(half, work);
            if let Some(queues) = &mut self.queues {
                queues.states.set_classes(classes);
            }
        }
    }

    /// Deliver what waits in the graph, before the thread ends: whoever goes on with the associations does not have it.
    pub(super) fn leave_graph(&mut self, half: &mut InboundHalf, work: &mut Tapped<'_>) {
        let deadline = clock::monotonic() + Duration::from_nanos(HANG);
        while !self.units.is_idle() && clock::monotonic() < deadline {
            self.take_answers(half, clock::monotonic(), work);
            std::thread::sleep(BREATH);
        }
        let Tapped { pool, outcomes, delivery } = work;
        half.engine.set_graph(clock::monotonic(), None, pool, outcomes, delivery);
        self.finish(half, work);
    }

    /// Take the answers of units that answer later, and take those out whose threads have ended.
    fn take_answers(&mut self, half: &mut InboundHalf, now: Time, work: &mut Tapped<'_>) {
        if self.units.is_empty() {
            return;
        }
        while let Some(answer) = self.units.next_answer() {
            let Tapped { pool, outcomes, delivery } = work;
            half.engine.answer(now, answer, pool, outcomes, delivery);
        }
        self.finish(half, work);
        while let Some(unit) = self.units.next_ended() {
            let Tapped { pool, outcomes, delivery } = work;
            half.engine.fail_unit(now, unit, pool, outcomes, delivery);
            self.finish(half, work);
        }
    }

    /// Give the work of a turn to the threads of its units. Where a unit has none, it is done here.
    fn submit_work(&mut self, half: &mut InboundHalf, work: &mut Tapped<'_>) {
        while let Some(opening) = half.engine.take_work() {
            if let Err(mut opening) = self.units.submit(opening) {
                let Tapped { pool, outcomes, delivery } = work;
                opening.compute();
                half.engine.answer(clock::monotonic(), opening, pool, outcomes, delivery);
            }
        }
    }

    /// Rounds, as long as there is something to do. `take_in` takes a bounded number of packets in from every source
    /// that was ready and answers whether there may be more. Returns the time until which there is nothing to do if
    /// nothing comes.
    pub(super) fn rounds(
        &mut self,
        half: &mut InboundHalf,
        mut readable: bool,
        work: &mut Tapped<'_>,
        mut take_in: impl FnMut(&mut InboundThread, &mut InboundHalf, Time, &mut Tapped<'_>) -> bool,
    ) -> Option<Time> {
        for _ in 0..ROUNDS {
            let now = clock::monotonic();
            half.engine.copy_packets(half.taps.is_on());
            self.take_answers(half, now, work);
            readable = readable && take_in(self, half, now, work);
            self.finish(half, work);
            let Tapped { pool, outcomes, delivery } = work;
            let most = if half.engine.is_in_progress() { BETWEEN } else { ROUND };
            let waiting = half.engine.look_up(now, most, pool, outcomes, delivery);
            let turned = half.engine.turn(clock::monotonic(), pool, outcomes, delivery);
            self.submit_work(half, work);
            self.finish(half, work);
            let now = clock::monotonic();
            let wake = half.engine.settle(now);
            let is_in_progress = self.steps(half, now, turned || waiting, work);
            match wake {
                _ if waiting || is_in_progress => {}
                Wake::At(time) if time <= now => {}
                Wake::At(time) if !readable => return Some(time),
                Wake::Packet | Wake::Room | Wake::Never if !readable => return None,
                Wake::At(_) | Wake::Packet | Wake::Room | Wake::Never => {}
            }
            // Expedited packets that came during the turn are in the next one.
            readable = true;
        }
        Some(clock::monotonic())
    }

    /// Do a step of the work that sliced units have; further ones, unless something waits already, until a piece of it is
    /// done or something comes that may go ahead. Returns whether there was any.
    fn steps(&mut self, half: &mut InboundHalf, mut now: Time, waits: bool, work: &mut Tapped<'_>) -> bool {
        let mut any = false;
        for _ in 0..STEPS {
            let Tapped { pool, outcomes, delivery } = work;
            if !half.engine.step(now, pool, outcomes, delivery) {
                break;
            }
            any = true;
            self.finish(half, work);
            now = clock::monotonic();
            let is_due = matches!(half.engine.settle(now), Wake::At(time) if time <= now);
            if waits || is_due || !half.engine.is_begun() || self.may_have_come(half) {
                break;
            }
        }
        any
    }

    /// Whether something may have come that may go ahead of the work in progress.
    fn may_have_come(&mut self, half: &InboundHalf) -> bool {
        let Some(queues) = self.queues.as_mut().filter(|_| self.units.is_empty()) else { return true };
        let is_read =
            |classes: &[AggregateId]| half.engine.gets_ahead(classes) && half.engine.room(classes) > 0;
        queues.states.is_any_pending(is_read)
    }

    /// Deliver what a call brought, with copies for those who capture.
    fn finish(&mut self, half: &mut InboundHalf, work: &mut Tapped<'_>) {
        let Tapped { pool, outcomes, delivery } = work;
        if half.taps.is_on() {
            let copies = half.engine.take_copies();
            let ends = copies.iter().skip(1).map(|next| next.from).chain([outcomes.len()]);
            for (copy, end) in copies.iter().zip(ends) {
                half.taps.keep_copy(&copy.octets, copy.meta);
                half.taps.inbound(outcomes.get(copy.from..end).unwrap_or_default());
            }
        }
        gather(outcomes, delivery);
        delivery
            .coalesced(|coalesced| half.losses.count_delivery(&half.fragmenter.send(&self.tun, coalesced)));
        delivery.clear(pool);
    }
}
