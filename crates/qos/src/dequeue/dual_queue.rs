//! The two queues of RFC 9332 and their controller in one component: enqueueing part, queue and dequeueing part at once.
//!
//! The parts share the controller's state, and one owner is what keeps that free of locks and reference counts. A node
//! that takes three parts takes this one thing three times in turn: [`Enqueue::admit`], [`Store`], [`Dequeue::decide`].
//!
//! The scheduler is weighted round robin by octets, as appendix A.2 recommends: the classic queue gets one octet of
//! `classic_share`. The balance changes only while both queues have packets, and is back in favour of the low latency
//! queue when both are empty.

use std::collections::VecDeque;

use crate::amount::Amount;
use crate::component::{About, Admit, Backlog, Cause, Context, Dequeue, Enqueue, Leave, Store};
use crate::dequeue::{Branch, DualPi2, DualPi2Settings};
use crate::meta::Meta;

/// Two queues of packets behind tickets `T`, low latency and classic.
#[derive(Debug)]
pub struct DualQueue<T> {
    controller: DualPi2,
    low: VecDeque<(T, Meta)>,
    classic: VecDeque<(T, Meta)>,
    /// The most packets, so that nothing is allocated on the path.
    room: usize,
    amount: Amount,
    low_packets: u64,
    /// The octets that the low latency queue is ahead of its share; its turn while that is not above zero.
    ahead: i64,
    /// The change of the balance that the packet taken last has made, for [`Store::put_back`].
    change: i64,
}

impl<T> DualQueue<T> {
    /// Two empty queues with room for so many tickets together.
    pub fn new(controller: DualPi2, room: usize) -> DualQueue<T> {
        let (low, classic) = (VecDeque::with_capacity(room), VecDeque::with_capacity(room));
        let amount = Amount::default();
        DualQueue { controller, low, classic, room, amount, low_packets: 0, ahead: 0, change: 0 }
    }

    /// The controller, to be looked at.
    pub const fn controller(&self) -> &DualPi2 {
        &self.controller
    }

    /// The queue whose turn it is.
    pub fn turn(&self) -> Option<Branch> {
        match (self.low.is_empty(), self.classic.is_empty()) {
            (true, true) => None,
            (false, true) => Some(Branch::Low),
            (true, false) => Some(Branch::Classic),
            (false, false) if self.ahead <= 0 => Some(Branch::Low),
            (false, false) => Some(Branch::Classic),
        }
    }

    fn queue(&mut self, branch: Branch) -> &mut VecDeque<(T, Meta)> {
        match branch {
            Branch::Low => &mut self.low,
            Branch::Classic => &mut self.classic,
        }
    }

    fn update(&mut self, context: &Context) {
        let (low, classic) = (self.low.front(), self.classic.front());
        self.controller.update(context.now, low.map(|(_, meta)| meta), classic.map(|(_, meta)| meta));
    }

    /// Count a packet that comes in.
    fn add(&mut self, meta: &Meta) {
        self.amount += meta.amount;
        if Branch::of(meta) == Branch::Low {
            self.low_packets = self.low_packets.saturating_add(meta.amount.packets);
        }
    }

    /// Count a packet that is gone.
    fn subtract(&mut self, meta: &Meta) {
        self.amount -= meta.amount;
        if Branch::of(meta) == Branch::Low {
            self.low_packets = self.low_packets.saturating_sub(meta.amount.packets);
        }
        if self.low.is_empty() && self.classic.is_empty() {
            self.ahead = 0;
        }
    }
}

impl<T: Send> Enqueue for DualQueue<T> {
    fn admit(&mut self, meta: &Meta, backlog: &Backlog, context: &Context) -> Admit {
        self.update(context);
        let is_full = self.low.len() + self.classic.len() >= self.room;
        if is_full || !backlog.limit.admits(backlog.now, meta.amount) {
            return Admit::Refuse(Cause::QueueFull);
        }
        Admit::Take
    }

    fn about(&self) -> About {
        Dequeue::about(self)
    }
}

impl<T: Send> Store<T> for DualQueue<T> {
    fn put(&mut self, item: T, meta: Meta) {
        self.add(&meta);
        self.queue(Branch::of(&meta)).push_back((item, meta));
    }

    fn put_back(&mut self, item: T, meta: Meta) {
        self.add(&meta);
        self.queue(Branch::of(&meta)).push_front((item, meta));
        self.ahead = self.ahead.saturating_sub(std::mem::take(&mut self.change));
    }

    fn peek(&self) -> Option<&Meta> {
        let queue = match self.turn()? {
            Branch::Low => &self.low,
            Branch::Classic => &self.classic,
        };
        queue.front().map(|(_, meta)| meta)
    }

    fn get(&mut self) -> Option<(T, Meta)> {
        let branch = self.turn()?;
        let contended = !self.low.is_empty() && !self.classic.is_empty();
        let (item, meta) = self.queue(branch).pop_front()?;
        let octets = i64::try_from(meta.amount.octets).unwrap_or(i64::MAX);
        let share = i64::from(self.controller.settings().classic_share) - 1;
        self.change = match branch {
            _ if !contended => 0,
            Branch::Low => octets,
            Branch::Classic => octets.saturating_mul(share).saturating_neg(),
        };
        self.ahead = self.ahead.saturating_add(self.change);
        self.subtract(&meta);
        Some((item, meta))
    }

    fn get_of(&mut self, flow: u32) -> Option<(T, Meta)> {
        let place = |queue: &VecDeque<(T, Meta)>| queue.iter().position(|(_, meta)| meta.flow == flow);
        let (branch, place) = match place(&self.low) {
            Some(place) => (Branch::Low, place),
            None => (Branch::Classic, place(&self.classic)?),
        };
        let (item, meta) = self.queue(branch).remove(place)?;
        self.change = 0;
        self.subtract(&meta);
        Some((item, meta))
    }

    fn amount(&self) -> Amount {
        self.amount
    }

    fn about(&self) -> About {
        Dequeue::about(self)
    }
}

impl<T: Send> Dequeue for DualQueue<T> {
    fn decide(&mut self, head: &Meta, _: &Backlog, context: &Context) -> Leave {
        self.update(context);
        self.controller.decide(Branch::of(head), head, self.low_packets, context.now)
    }

    fn about(&self) -> About {
        let DualPi2Settings { target, rtt_max, coupling, ramp_start, ramp_range, classic_share, .. } =
            self.controller.settings();
        let ramp = format!("ramp {ramp_start} ns + {ramp_range} ns");
        let settings =
            format!("target {target} ns, rtt {rtt_max} ns, k {coupling}, {ramp}, classic 1/{classic_share}");
        About { kind: "dualpi2", settings }
    }
}
