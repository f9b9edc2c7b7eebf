//! A queue of three parts: the enqueueing part, the store, the dequeueing part. Each can be exchanged by itself.

use std::collections::VecDeque;
use std::mem;

use wire::Time;

use crate::amount::{Amount, Limit};
use crate::component::{About, Admit, Backlog, Cause, Context, Dequeue, Enqueue, Leave, Store};
use crate::meta::Meta;

use super::outcome::{Ended, Offered, Wake, end, mark};

/// The three parts of a queue in one thing that keeps one state for all of them, such as the dual queue of RFC 9332.
pub trait Whole<T>: Enqueue + Store<T> + Dequeue {}

impl<T, W: Enqueue + Store<T> + Dequeue> Whole<T> for W {}

/// The parts of a queue.
enum Parts<T> {
    Apart { enqueue: Box<dyn Enqueue>, store: Box<dyn Store<T>>, dequeue: Box<dyn Dequeue> },
    Whole(Box<dyn Whole<T>>),
}

impl<T> Parts<T> {
    #[inline]
    fn enqueue(&mut self) -> &mut dyn Enqueue {
        match self {
            Parts::Apart { enqueue, .. } => &mut **enqueue,
            Parts::Whole(whole) => &mut **whole,
        }
    }

    #[inline]
    fn store(&self) -> &dyn Store<T> {
        match self {
            Parts::Apart { store, .. } => &**store,
            Parts::Whole(whole) => &**whole,
        }
    }

    #[inline]
    fn store_mut(&mut self) -> &mut dyn Store<T> {
        match self {
            Parts::Apart { store, .. } => &mut **store,
            Parts::Whole(whole) => &mut **whole,
        }
    }

    #[inline]
    fn dequeue(&mut self) -> &mut dyn Dequeue {
        match self {
            Parts::Apart { dequeue, .. } => &mut **dequeue,
            Parts::Whole(whole) => &mut **whole,
        }
    }

    /// Whether the enqueueing part refuses packets beyond the limit.
    fn refuses_beyond_limit(&self) -> bool {
        match self {
            Parts::Apart { enqueue, .. } => enqueue.refuses_beyond_limit(),
            Parts::Whole(whole) => whole.refuses_beyond_limit(),
        }
    }

    /// What the dequeueing part says of the packet that is next; `None` if there is none.
    #[inline]
    fn decide(&mut self, backlog: &Backlog, context: &Context) -> Option<Leave> {
        Some(match self {
            Parts::Apart { store, dequeue, .. } => {
                let head = store.peek()?;
                let (queue, own) = store.head_queue();
                dequeue.decide_of(queue, own, head, backlog, context)
            }
            Parts::Whole(whole) => {
                let head = *whole.peek()?;
                whole.decide(&head, backlog, context)
            }
        })
    }

    /// A packet ended, since there was no room for all that waits.
    fn overflowed(&mut self, meta: &Meta, now: Time) {
        let queue = self.store().queue_of(meta);
        self.dequeue().overflowed(queue, now);
    }

    fn about(&self) -> [About; 3] {
        match self {
            Parts::Apart { enqueue, store, dequeue } => [enqueue.about(), store.about(), dequeue.about()],
            Parts::Whole(whole) => [(); 3].map(|()| Dequeue::about(&**whole)),
        }
    }
}

/// A queue with the most that may wait in it.
pub struct Queue<T> {
    parts: Parts<T>,
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
        Queue::of(Parts::Apart { enqueue, store, dequeue }, limit)
    }

    /// A queue whose three parts are one thing.
    pub fn whole(whole: Box<dyn Whole<T>>, limit: Limit) -> Queue<T> {
        Queue::of(Parts::Whole(whole), limit)
    }

    fn of(parts: Parts<T>, limit: Limit) -> Queue<T> {
        Queue {
            parts,
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
        self.parts.about()
    }

    /// Exchange the enqueueing part, and answer the old one. Parts that are one thing stay, and the new one comes back.
    pub fn exchange_enqueue(&mut self, new: Box<dyn Enqueue>) -> Box<dyn Enqueue> {
        match &mut self.parts {
            Parts::Apart { enqueue, .. } => mem::replace(enqueue, new),
            Parts::Whole(_) => new,
        }
    }

    /// Exchange the dequeueing part, and answer the old one. Parts that are one thing stay, and the new one comes back.
    pub fn exchange_dequeue(&mut self, new: Box<dyn Dequeue>) -> Box<dyn Dequeue> {
        match &mut self.parts {
            Parts::Apart { dequeue, .. } => {
                self.closed_until = None;
                mem::replace(dequeue, new)
            }
            Parts::Whole(_) => new,
        }
    }

    /// Exchange the store and answer the old one. What waits moves to the new one in the order of the old one. Parts that
    /// are one thing stay, and the new one comes back.
    pub fn exchange_store(&mut self, new: Box<dyn Store<T>>) -> Box<dyn Store<T>> {
        match &mut self.parts {
            Parts::Apart { store, .. } => {
                let mut old = mem::replace(store, new);
                while let Some((item, meta)) = old.get() {
                    store.put(item, meta);
                }
                old
            }
            Parts::Whole(_) => new,
        }
    }

    /// Set the most that may wait. What waits already stays, and newcomers are judged by the new limit.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Queue a packet that another queue had admitted already.
    pub fn keep(&mut self, item: T, meta: Meta) {
        self.parts.store_mut().put(item, meta);
    }

    pub(super) fn lead(&mut self, item: T, meta: Meta) -> Offered {
        self.started_amount += meta.amount;
        self.started.push_back((item, meta));
        Offered::Queued
    }

    pub(super) fn amount(&self) -> Amount {
        let mut amount = self.parts.store().amount();
        amount += self.started_amount;
        amount
    }

    pub(super) fn is_empty(&self) -> bool {
        self.started.is_empty() && self.parts.store().peek().is_none()
    }

    /// The number of packets that the limit has room for, each like those that wait, or like `each` if none does.
    pub(super) fn spare(&self, each: Amount) -> u64 {
        if !self.parts.refuses_beyond_limit() {
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
            let backlog = self.backlog();
            // A packet that has to leave for this one leaves; where none is left to do so, this one ends.
            let (victim, cause) = match self.parts.enqueue().admit(&meta, &backlog, context) {
                Admit::Take => break,
                Admit::Mark => {
                    mark(&mut meta);
                    break;
                }
                Admit::Refuse(cause) => {
                    if cause == Cause::QueueFull {
                        self.parts.overflowed(&meta, context.now);
                    }
                    return end(ended, (item, meta), cause);
                }
                Admit::EvictFirst(cause) => (self.parts.store_mut().get(), cause),
                Admit::EvictOf { flow, cause } => (self.get_of(Some(flow)), cause),
                Admit::EvictLongest(cause) => (self.get_of(self.parts.store().longest()), cause),
            };
            match victim {
                Some(victim) => {
                    if cause == Cause::QueueFull {
                        self.parts.overflowed(&victim.1, context.now);
                    }
                    end(ended, victim, cause)
                }
                None => return end(ended, (item, meta), cause),
            };
        }
        self.parts.store_mut().put(item, meta);
        Offered::Queued
    }

    /// Take the next packet of a flow, or the next one of all if the flow has none.
    fn get_of(&mut self, flow: Option<u32>) -> Option<(T, Meta)> {
        flow.and_then(|flow| self.parts.store_mut().get_of(flow)).or_else(|| self.parts.store_mut().get())
    }

    pub(super) fn put_back(&mut self, item: T, meta: Meta) {
        if self.took_started {
            self.started_amount += meta.amount;
            self.started.push_front((item, meta));
        } else {
            self.parts.store_mut().put_back(item, meta);
        }
    }

    pub(super) fn head(&self, now: Time) -> Option<&Meta> {
        if self.is_closed(now) {
            return None;
        }
        self.started.front().map(|(_, meta)| meta).or_else(|| self.parts.store().peek())
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
        let leave = if self.is_closed(context.now) { None } else { self.parts.decide(&backlog, context) }?;
        self.closed_until = None;
        match leave {
            Leave::Give => self.parts.store_mut().get(),
            Leave::Mark => {
                let (item, mut meta) = self.parts.store_mut().get()?;
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
        if let Some(packet) = self.parts.store_mut().get_to_end() {
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
        while let Some(packet) = self.parts.store_mut().get() {
            back.push(packet);
        }
    }
}
