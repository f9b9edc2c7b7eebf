//! A queue of three parts: the enqueueing part, the store, the dequeueing part. Each can be exchanged by itself.

use std::collections::VecDeque;
use std::mem;

use wire::Time;

use crate::amount::{Amount, Limit};
use crate::component::{About, Admit, Backlog, Cause, Context, Dequeue, Enqueue, Leave, Store};
use crate::meta::Meta;

use super::outcome::{Ended, Offered, Wake, end, mark};

/// A queue with the most that may wait in it.
pub struct Queue<T> {
    enqueue: Box<dyn Enqueue>,
    store: Box<dyn Store<T>>,
    dequeue: Box<dyn Dequeue>,
    limit: Limit,
    /// The dequeueing part lets nothing leave before this time.
    closed_until: Option<Time>,
    /// Work that is under way, such as a bundle's next member: it goes ahead of the store.
    started: VecDeque<(T, Meta)>,
    started_amount: Amount,
    /// The packet that was taken last was one of those.
    took_started: bool,
}

impl<T: 'static> Queue<T> {
    /// A queue of these parts.
    pub fn new(
        enqueue: Box<dyn Enqueue>,
        store: Box<dyn Store<T>>,
        dequeue: Box<dyn Dequeue>,
        limit: Limit,
    ) -> Queue<T> {
        Queue {
            enqueue,
            store,
            dequeue,
            limit,
            closed_until: None,
            started: VecDeque::new(),
            started_amount: Amount::default(),
            took_started: false,
        }
    }

    /// What waits, and the most that may.
    pub fn backlog(&self) -> Backlog {
        Backlog { now: self.amount(), limit: self.limit }
    }

    /// What the three parts are, in the order in which a packet meets them.
    pub fn about(&self) -> [About; 3] {
        [self.enqueue.about(), self.store.about(), self.dequeue.about()]
    }

    /// Exchange the enqueueing part, and answer the old one.
    pub fn exchange_enqueue(&mut self, enqueue: Box<dyn Enqueue>) -> Box<dyn Enqueue> {
        mem::replace(&mut self.enqueue, enqueue)
    }

    /// Exchange the dequeueing part, and answer the old one.
    pub fn exchange_dequeue(&mut self, dequeue: Box<dyn Dequeue>) -> Box<dyn Dequeue> {
        self.closed_until = None;
        mem::replace(&mut self.dequeue, dequeue)
    }

    /// Exchange the store and answer the old one. What waits moves to the new one in the order of the old one.
    pub fn exchange_store(&mut self, store: Box<dyn Store<T>>) -> Box<dyn Store<T>> {
        let mut old = mem::replace(&mut self.store, store);
        while let Some((item, meta)) = old.get() {
            self.store.put(item, meta);
        }
        old
    }

    /// Set the most that may wait. What waits already stays, and newcomers are judged by the new limit.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Queue a packet that another queue had admitted already.
    pub fn keep(&mut self, item: T, meta: Meta) {
        self.store.put(item, meta);
    }

    pub(super) fn lead(&mut self, item: T, meta: Meta) -> Offered {
        self.started_amount += meta.amount;
        self.started.push_back((item, meta));
        Offered::Queued
    }

    pub(super) fn amount(&self) -> Amount {
        let mut amount = self.store.amount();
        amount += self.started_amount;
        amount
    }

    pub(super) fn is_empty(&self) -> bool {
        self.started.is_empty() && self.store.peek().is_none()
    }

    /// The number of packets that the limit has room for, each like those that wait, or like `each` if none does.
    pub(super) fn spare(&self, each: Amount) -> u64 {
        if !self.enqueue.refuses_beyond_limit() {
            return u64::MAX;
        }
        let now = self.amount();
        let room = self.limit.room(now, now.mean().unwrap_or(each));
        // What a packet costs is a guess where none waits, and an empty queue must let one come.
        if self.is_empty() { room.max(1) } else { room }
    }

    /// What a packet that does not fit waits for; `None` if it fits.
    pub(super) fn room(&self, meta: &Meta) -> Option<Wake> {
        if self.limit.admits(self.amount(), meta.amount) {
            return None;
        }
        let fits_alone = self.limit.admits(Amount::default(), meta.amount);
        Some(if fits_alone { Wake::Room } else { Wake::Never })
    }

    pub(super) fn offer(
        &mut self,
        item: T,
        mut meta: Meta,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Offered {
        loop {
            // A packet that has to leave for this one leaves; where none is left to do so, this one ends.
            let (victim, cause) = match self.enqueue.admit(&meta, &self.backlog(), context) {
                Admit::Take => break,
                Admit::Mark => {
                    mark(&mut meta);
                    break;
                }
                Admit::Refuse(cause) => {
                    if cause == Cause::QueueFull {
                        self.dequeue.overflowed(self.store.queue_of(&meta), context.now);
                    }
                    return end(ended, (item, meta), cause);
                }
                Admit::EvictFirst(cause) => (self.store.get(), cause),
                Admit::EvictOf { flow, cause } => (self.get_of(Some(flow)), cause),
                Admit::EvictLongest(cause) => (self.get_of(self.store.longest()), cause),
            };
            match victim {
                Some(victim) => {
                    if cause == Cause::QueueFull {
                        self.dequeue.overflowed(self.store.queue_of(&victim.1), context.now);
                    }
                    end(ended, victim, cause)
                }
                None => return end(ended, (item, meta), cause),
            };
        }
        self.store.put(item, meta);
        Offered::Queued
    }

    /// Take the next packet of a flow, or the next one of all if the flow has none.
    fn get_of(&mut self, flow: Option<u32>) -> Option<(T, Meta)> {
        flow.and_then(|flow| self.store.get_of(flow)).or_else(|| self.store.get())
    }

    pub(super) fn put_back(&mut self, item: T, meta: Meta) {
        if self.took_started {
            self.started_amount += meta.amount;
            self.started.push_front((item, meta));
        } else {
            self.store.put_back(item, meta);
        }
    }

    pub(super) fn head(&self, now: Time) -> Option<&Meta> {
        if self.is_closed(now) {
            return None;
        }
        self.started.front().map(|(_, meta)| meta).or_else(|| self.store.peek())
    }

    fn is_closed(&self, now: Time) -> bool {
        self.closed_until.is_some_and(|until| until > now)
    }

    pub(super) fn try_take(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<(T, Meta)> {
        self.took_started = !self.started.is_empty() && !self.is_closed(context.now);
        if self.took_started {
            let (item, meta) = self.started.pop_front()?;
            self.started_amount -= meta.amount;
            return Some((item, meta));
        }
        let backlog = self.backlog();
        let head = if self.is_closed(context.now) { None } else { self.store.peek() };
        let (queue, own) = self.store.head_queue();
        let leave = self.dequeue.decide_of(queue, own, head?, &backlog, context);
        self.closed_until = None;
        match leave {
            Leave::Give => self.store.get(),
            Leave::Mark => {
                let (item, mut meta) = self.store.get()?;
                mark(&mut meta);
                Some((item, meta))
            }
            Leave::Drop(cause) => {
                self.end_next(ended, cause);
                None
            }
            Leave::Wait(until) => {
                // A time that is over would let the caller ask for ever.
                self.closed_until = Some(until.max(Time(context.now.0.saturating_add(1))));
                None
            }
        }
    }

    fn end_next(&mut self, ended: &mut Vec<Ended<T>>, cause: Cause) {
        if let Some(packet) = self.store.get_to_end() {
            end(ended, packet, cause);
        }
    }

    pub(super) fn wake(&self, now: Time) -> Wake {
        match self.closed_until {
            _ if self.is_empty() => Wake::Packet,
            Some(until) => Wake::At(until.max(now)),
            None => Wake::At(now),
        }
    }

    pub(super) fn drain(&mut self, back: &mut Vec<(T, Meta)>) {
        self.started_amount = Amount::default();
        back.extend(self.started.drain(..));
        while let Some(packet) = self.store.get() {
            back.push(packet);
        }
    }
}
