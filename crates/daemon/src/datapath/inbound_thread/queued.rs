//! The inbound thread with a graph: receive, look up, give turns, deliver, and look at the sources again.
//!
//! A round is short: a turn is as long as what may be committed to the unit, and each round takes what has come
//! meanwhile before it gives the next turn. So a packet of a class that goes first waits for one turn and no more,
//! whatever waits behind it. The sources are the caller's: he says how a little is taken from each of them.

use netio::clock;
use qos::node::Wake;
use wire::Time;

use super::{InboundHalf, InboundThread, Tapped, gather};
use crate::datapath::GraphExchange;

/// Look-ups that are made in a round.
const ROUND: usize = 64;
/// Rounds before the thread looks at its channel, at timers and at sources that were not ready again.
const ROUNDS: usize = 4;

impl InboundThread {
    /// Put the graph in force that the control plane has left, if it has left one.
    pub(super) fn exchange(&mut self, half: &mut InboundHalf, work: &mut Tapped<'_>) {
        if let Some(GraphExchange { graph, classes }) = half.exchange.take() {
            let Tapped { pool, outcomes, delivery } = work;
            half.engine.set_graph(clock::monotonic(), Some(graph), pool, outcomes, delivery);
            self.finish(half, work);
            if let Some(queues) = &mut self.queues {
                queues.states.set_classes(classes);
            }
        }
    }

    /// Deliver what waits in the graph, before the thread ends: whoever goes on with the associations does not have it.
    pub(super) fn leave_graph(&mut self, half: &mut InboundHalf, work: &mut Tapped<'_>) {
        let Tapped { pool, outcomes, delivery } = work;
        half.engine.set_graph(clock::monotonic(), None, pool, outcomes, delivery);
        self.finish(half, work);
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
            readable = readable && take_in(self, half, now, work);
            self.finish(half, work);
            let Tapped { pool, outcomes, delivery } = work;
            let waiting = half.engine.look_up(now, ROUND, pool, outcomes, delivery);
            half.engine.turn(clock::monotonic(), pool, outcomes, delivery);
            self.finish(half, work);
            let now = clock::monotonic();
            match half.engine.settle(now) {
                _ if waiting => {}
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
