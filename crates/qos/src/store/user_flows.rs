//! Flow queues within users: deficit round robin between users by weight, and between the flows of each user.
//!
//! Both levels are those of RFC 8290. A user that was idle goes ahead of others for one quantum of its weight, and a
//! flow that was idle ahead of the other flows of its user for one quantum. A packet is paid for by its user and by its
//! flow. Where room is made, the longest user by weight loses a packet of its longest flow.
//!
//! Users have places by a keyed hash; those whose hashes fall together are one user here. All users share one table of
//! flow queues. A flow may have one of [`WAYS`] queues there, by a keyed hash of user and flow, and a queue in use is
//! that flow's alone. If all of them are in use, the flow waits in the spare queue of its user, with others of the same
//! user. So no flow shares a queue with a flow of another user. A queue is kept for its flow until another takes it,
//! and a flow that has none gets none while packets wait in the spare queue, so that the order within a flow holds.

use crate::amount::Amount;
use crate::component::{About, Store};
use crate::meta::{Meta, Weight};

use super::flow::{FlowSettings, by_weight, weighed};
use super::heap::Heap;
use super::longest::Lengths;
use super::turns::{Entry, Link, Listed, Paid, Turns};
use super::{Cells, NONE, keyed};

/// The queues that a flow may have. What is known of their owners fits into a cache line.
const WAYS: usize = 8;

/// The owner of a queue that no flow has had.
const NOBODY: u64 = u64::MAX;

/// The queue of a flow, with its turns among those of its user.
#[derive(Clone, Debug)]
struct Flow {
    head: u32,
    tail: u32,
    amount: Amount,
    link: Link,
}

/// A user, with its turns among users.
#[derive(Clone, Debug)]
struct User {
    amount: Amount,
    weight: Weight,
    link: Link,
    /// The turns of its flows.
    turns: Turns,
    /// The root of the heap of its flows that wait.
    longest: u32,
}

/// The user and the flow that gave last, and what each had before that.
#[derive(Clone, Copy, Debug)]
struct Before {
    user: (u32, Paid),
    flow: (u32, Paid),
}

/// The queues of all flows of all users.
#[derive(Debug)]
pub struct UserFlows<T> {
    settings: FlowSettings,
    quantum: i64,
    users: Vec<User>,
    turns: Turns,
    /// The flow queues of the table, and behind them the spare queue of each user.
    flows: Vec<Flow>,
    /// The user and the flow that each queue of the table is kept for.
    owners: Vec<u64>,
    cells: Cells<T>,
    longest: Heap<u64>,
    lengths: Lengths,
    amount: Amount,
    before: Option<Before>,
}

impl Entry for Flow {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn quantum(&self, one: i64) -> i64 {
        one
    }

    fn waits(&self) -> bool {
        self.head != NONE
    }
}

impl Entry for User {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn quantum(&self, one: i64) -> i64 {
        weighed(one, self.weight)
    }

    /// Its own turns are settled, so that one of them is there if a packet waits.
    fn waits(&self) -> bool {
        self.turns.turn().is_some()
    }
}

impl<T> UserFlows<T> {
    /// The number of queues for so many flows and the users of these settings: the spare ones are among them.
    pub fn queues(settings: &FlowSettings, flows: u32) -> usize {
        table(flows) + settings.count()
    }

    /// Queues without a packet, for as many users as the settings have queues, and for so many flows. They allocate
    /// again only beyond this many packets.
    pub fn with_capacity(settings: FlowSettings, flows: u32, packets: usize) -> UserFlows<T> {
        let (users, queues) = (settings.count(), UserFlows::<T>::queues(&settings, flows));
        let user = User {
            amount: Amount::default(),
            weight: Weight::ONE,
            link: Link::IDLE,
            turns: Turns::EMPTY,
            longest: NONE,
        };
        let flow = Flow { head: NONE, tail: NONE, amount: Amount::default(), link: Link::IDLE };
        UserFlows {
            settings,
            quantum: settings.one(),
            users: vec![user; users],
            turns: Turns::EMPTY,
            flows: vec![flow; queues],
            owners: vec![NOBODY; table(flows)],
            cells: Cells::with_capacity(packets),
            longest: Heap::with_capacity(users),
            lengths: Lengths::new(queues),
            amount: Amount::default(),
            before: None,
        }
    }

    fn place(&self, user: u32) -> u32 {
        self.settings.place(user, self.users.len())
    }

    /// The user and the queue of a packet.
    fn home(&self, meta: &Meta) -> (u32, u32) {
        let user = self.place(self.settings.by.flow(meta));
        let owner = owner(user, meta.flow);
        let sets = (self.owners.len() / WAYS) as u64;
        let hash = keyed(self.settings.seed, user, meta.flow) >> 32;
        let first = ((hash * sets) >> 32) as usize * WAYS;
        let ways = first..first + WAYS;
        if let Some(own) = ways.clone().find(|way| self.owners[*way] == owner) {
            return (user, own as u32);
        }
        let spare = self.owners.len() + user as usize;
        let mut free = ways.filter(|way| self.flows[*way].link.listed == Listed::Nowhere);
        let queue = if self.flows[spare].waits() { spare } else { free.next().unwrap_or(spare) };
        (user, queue as u32)
    }

    /// Keep a queue for the flow of a packet from now on. A spare queue is nobody's.
    fn keep(&mut self, (user, queue): (u32, u32), meta: &Meta) {
        if let Some(kept) = self.owners.get_mut(queue as usize) {
            *kept = owner(user, meta.flow);
        }
    }

    /// The number of packets or their length has changed.
    fn measure(&mut self, user: u32, queue: u32) {
        let (own, flow) = (&mut self.users[user as usize], &self.flows[queue as usize]);
        own.longest = if flow.waits() {
            self.lengths.set(own.longest, queue, flow.amount.of(self.settings.measure))
        } else {
            self.lengths.remove(own.longest, queue)
        };
        if own.longest == NONE {
            self.longest.remove(user);
        } else {
            self.longest.set(user, by_weight(own.amount.of(self.settings.measure), own.weight));
        }
    }

    fn add(&mut self, (user, queue): (u32, u32), meta: &Meta) {
        self.amount += meta.amount;
        self.users[user as usize].amount += meta.amount;
        self.flows[queue as usize].amount += meta.amount;
        self.measure(user, queue);
    }

    fn pop(&mut self, (user, queue): (u32, u32)) -> Option<(T, Meta)> {
        let flow = &mut self.flows[queue as usize];
        let (item, meta, next) = self.cells.remove(flow.head)?;
        flow.head = next;
        if next == NONE {
            flow.tail = NONE;
        }
        flow.amount -= meta.amount;
        self.users[user as usize].amount -= meta.amount;
        self.amount -= meta.amount;
        self.measure(user, queue);
        Some((item, meta))
    }

    /// The user and the queue whose turn it is.
    fn turn(&self) -> Option<(u32, u32)> {
        let user = self.turns.turn()?;
        Some((user, self.users[user as usize].turns.turn()?))
    }

    fn settle(&mut self, user: u32) {
        self.users[user as usize].turns.settle(&mut self.flows, self.quantum);
        self.turns.settle(&mut self.users, self.quantum);
    }
}

impl<T: Send> Store<T> for UserFlows<T> {
    fn put(&mut self, item: T, meta: Meta) {
        let (user, queue) = self.home(&meta);
        self.keep((user, queue), &meta);
        let cell = self.cells.insert(item, meta);
        match std::mem::replace(&mut self.flows[queue as usize].tail, cell) {
            NONE => self.flows[queue as usize].head = cell,
            last => self.cells.link(last, cell),
        }
        let own = &mut self.users[user as usize];
        own.weight = meta.weight;
        own.turns.enter(&mut self.flows, queue, self.quantum);
        self.turns.enter(&mut self.users, user, self.quantum);
        self.add((user, queue), &meta);
    }

    fn put_back(&mut self, item: T, meta: Meta) {
        let (user, home) = self.home(&meta);
        let spare = self.owners.len() as u32 + user;
        let is_kept = self.owners.get(home as usize) == Some(&owner(user, meta.flow));
        // What came from the spare queue is next there again, though that is empty and another queue is free.
        let came_from_spare = self.before.is_some_and(|before| before.flow.0 == spare);
        let queue = if came_from_spare && !is_kept { spare } else { home };
        self.keep((user, queue), &meta);
        let cost = self.settings.cost(&meta);
        let cell = self.cells.insert(item, meta);
        let flow = &mut self.flows[queue as usize];
        let second = std::mem::replace(&mut flow.head, cell);
        if second == NONE {
            flow.tail = cell;
        }
        self.cells.link(cell, second);
        self.add((user, queue), &meta);
        let before = self.before.take();
        let paid =
            |paid: Option<(u32, Paid)>, index| paid.filter(|(its, _)| *its == index).map(|(_, paid)| paid);
        let (of_user, of_flow) = (before.map(|before| before.user), before.map(|before| before.flow));
        let own = &mut self.users[user as usize];
        own.turns.come_back(&mut self.flows, queue, self.quantum, cost, paid(of_flow, queue));
        self.turns.come_back(&mut self.users, user, self.quantum, cost, paid(of_user, user));
    }

    fn peek(&self) -> Option<&Meta> {
        self.cells.meta(self.flows[self.turn()?.1 as usize].head)
    }

    fn get(&mut self) -> Option<(T, Meta)> {
        let (user, queue) = self.turn()?;
        let (item, meta) = self.pop((user, queue))?;
        let cost = self.settings.cost(&meta);
        let of_user = self.users[user as usize].link.pay(cost);
        let of_flow = self.flows[queue as usize].link.pay(cost);
        self.before = Some(Before { user: (user, of_user), flow: (queue, of_flow) });
        self.settle(user);
        Some((item, meta))
    }

    fn get_to_end(&mut self) -> Option<(T, Meta)> {
        let (user, queue) = self.turn()?;
        let packet = self.pop((user, queue))?;
        self.settle(user);
        Some(packet)
    }

    /// Take the packet that is next of the longest flow of this user, as `by` of the settings numbers users. Nobody
    /// pays for it, since it is taken to end.
    fn get_of(&mut self, user: u32) -> Option<(T, Meta)> {
        let user = self.place(user);
        let queue = self.users[user as usize].longest;
        if queue == NONE {
            return None;
        }
        let packet = self.pop((user, queue))?;
        self.settle(user);
        Some(packet)
    }

    /// The user that has the most waiting by its weight.
    fn longest(&self) -> Option<u32> {
        let queue = self.users[self.longest.top()? as usize].longest;
        self.cells.meta(self.flows.get(queue as usize)?.head).map(|meta| self.settings.by.flow(meta))
    }

    fn amount(&self) -> Amount {
        self.amount
    }

    fn queue_of(&self, meta: &Meta) -> u32 {
        self.home(meta).1
    }

    fn head_queue(&self) -> (u32, Amount) {
        let queue = self.turn().map_or(0, |(_, queue)| queue);
        (queue, self.flows[queue as usize].amount)
    }

    fn about(&self) -> About {
        let FlowSettings { by, measure, quantum, .. } = self.settings;
        let (users, flows) = (self.users.len(), self.owners.len());
        let settings = format!(
            "by {by:?}, {users} users, {flows} flow queues within them, quantum {quantum} {measure:?}"
        );
        About { kind: "flow", settings }
    }
}

/// The user and the flow that a queue is kept for, as one word.
fn owner(user: u32, flow: u32) -> u64 {
    u64::from(user) << 32 | u64::from(flow)
}

/// The queues of the table for so many flows: whole sets of ways.
fn table(flows: u32) -> usize {
    (flows.max(1) as usize).next_multiple_of(WAYS)
}
