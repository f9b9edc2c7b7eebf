//! Nodes, and disciplines over them. Nodes nest: uplink, tunnel, class, user.

use std::mem;

use wire::Time;

use crate::amount::{Amount, Measure};
use crate::behaviour::Pacer;
use crate::component::{About, Behaviour, Cause, ChildId, Children, Context, Discipline, Entry, Verdict};
use crate::meta::Meta;

use super::outcome::{Ended, Full, Offered, Pull, Wake, end, mark};
use super::queue::Queue;

/// A queue, or a discipline over nodes.
pub enum Node<T> {
    /// A queue of three parts.
    Queue(Queue<T>),
    /// A discipline over nodes.
    Tree(Tree<T>),
}

impl<T: 'static> Node<T> {
    /// A discipline over nodes. The behaviours steer packets: the last outlet that they name is the number of the
    /// child, and child 0 has what they name none for.
    pub fn tree(
        steer: Vec<Box<dyn Behaviour>>,
        discipline: Box<dyn Discipline>,
        children: Vec<Node<T>>,
    ) -> Node<T> {
        Node::Tree(Tree::new(steer, discipline, children))
    }

    /// Queue a packet, or end it.
    pub fn offer(&mut self, item: T, meta: Meta, context: &Context, ended: &mut Vec<Ended<T>>) -> Offered {
        match self {
            Node::Queue(queue) => queue.offer(item, meta, context, ended),
            Node::Tree(tree) => match tree.steer(item, meta, context, ended) {
                Some((child, item, meta)) => child.offer(item, meta, context, ended),
                None => Offered::Ended,
            },
        }
    }

    /// Queue a packet of work that is under way ahead of every new packet of its queue, and behind those that were led
    /// in before. No enqueueing part is asked.
    pub fn lead(&mut self, item: T, meta: Meta, context: &Context, ended: &mut Vec<Ended<T>>) -> Offered {
        match self {
            Node::Queue(queue) => queue.lead(item, meta),
            Node::Tree(tree) => match tree.steer(item, meta, context, ended) {
                Some((child, item, meta)) => child.lead(item, meta, context, ended),
                None => Offered::Ended,
            },
        }
    }

    /// Queue a packet if the limit of its queue allows, or give it back with what to wait for. The queue may still end
    /// it for another reason. Behaviours that steer see a packet again when it is offered again.
    pub fn try_offer(
        &mut self,
        item: T,
        meta: Meta,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Result<Offered, Full<T>> {
        match self {
            Node::Queue(queue) => match queue.room(&meta) {
                None => Ok(queue.offer(item, meta, context, ended)),
                Some(wake) => Err(Full { item, meta, wake }),
            },
            Node::Tree(tree) => match tree.steer(item, meta, context, ended) {
                Some((child, item, meta)) => child.try_offer(item, meta, context, ended),
                None => Ok(Offered::Ended),
            },
        }
    }

    /// Take the packet whose turn it is.
    pub fn take(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Pull<T> {
        loop {
            if let Some((item, meta)) = self.try_take(context, ended) {
                return Pull::Packet(item, meta);
            }
            // A queue that gave nothing has ended a packet or waits, so the loop ends.
            if self.peek(context).is_none() {
                return Pull::Wait(self.wake(context.now));
            }
        }
    }

    /// Put back the packet that [`Node::take`] gave last, or what is left of it, where it was.
    pub fn put_back(&mut self, item: T, meta: Meta, context: &Context) {
        match self {
            Node::Queue(queue) => queue.put_back(item, meta),
            Node::Tree(tree) => tree.put_back(item, meta, context),
        }
    }

    /// What is known of the packet that [`Node::take`] would try to give now. A dequeueing part may still end it.
    pub fn peek(&mut self, context: &Context) -> Option<&Meta> {
        self.settle(context);
        self.head(context.now)
    }

    /// What waits, in all three measures.
    pub fn amount(&self) -> Amount {
        match self {
            Node::Queue(queue) => queue.amount(),
            Node::Tree(tree) => {
                let mut sum = Amount::default();
                tree.children().iter().for_each(|child| sum += child.amount());
                sum
            }
        }
    }

    /// The length function of the paper: what waits, in one measure.
    pub fn length(&self, measure: Measure) -> u64 {
        self.amount().of(measure)
    }

    /// The number of packets for which each queue below has room, in the order of the queues. A packet is like those
    /// that wait there, or like `each` if none does.
    pub fn spares(&self, each: Amount, answer: &mut dyn FnMut(u64)) {
        match self {
            Node::Queue(queue) => answer(queue.spare(each)),
            Node::Tree(tree) => tree.children().iter().for_each(|child| child.spares(each, answer)),
        }
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        match self {
            Node::Queue(queue) => queue.is_empty(),
            Node::Tree(tree) => tree.children().iter().all(Node::is_empty),
        }
    }

    /// The event after which a packet may leave. It is the time now if one can leave at once.
    pub fn wake(&self, now: Time) -> Wake {
        match self {
            Node::Queue(queue) => queue.wake(now),
            Node::Tree(tree) => {
                let at = |child: &Node<T>| match child.wake(now) {
                    Wake::At(time) => Some(time),
                    Wake::Room | Wake::Packet | Wake::Never => None,
                };
                let due = tree.due().max(now);
                let earliest = tree.children().iter().filter_map(at).min();
                earliest.map_or(Wake::Packet, |time| Wake::At(time.max(due)))
            }
        }
    }

    /// Take every packet out, queue by queue, each in the order of its queue and without asking its dequeueing part.
    pub fn drain(&mut self, back: &mut Vec<(T, Meta)>) {
        match self {
            Node::Queue(queue) => queue.drain(back),
            Node::Tree(tree) => tree.children_mut().iter_mut().for_each(|child| child.drain(back)),
        }
    }

    /// Let disciplines choose, so that [`Node::head`] can answer.
    fn settle(&mut self, context: &Context) {
        if let Node::Tree(tree) = self {
            tree.settle(context);
        }
    }

    /// What is known of the packet that is next; `None` if none may leave now.
    fn head(&self, now: Time) -> Option<&Meta> {
        match self {
            Node::Queue(queue) => queue.head(now),
            Node::Tree(tree) => tree.head(now),
        }
    }

    /// Take the packet that [`Node::head`] names, unless its dequeueing part ends it or lets it wait.
    fn try_take(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<(T, Meta)> {
        match self {
            Node::Queue(queue) => queue.try_take(context, ended),
            Node::Tree(tree) => tree.try_take(context, ended),
        }
    }
}

impl<T> From<Queue<T>> for Node<T> {
    fn from(queue: Queue<T>) -> Node<T> {
        Node::Queue(queue)
    }
}

/// The nodes as a discipline sees them.
struct Siblings<'a, T> {
    nodes: &'a [Node<T>],
    now: Time,
}

impl<T: 'static> Children for Siblings<'_, T> {
    fn count(&self) -> u16 {
        u16::try_from(self.nodes.len()).unwrap_or(u16::MAX)
    }

    fn head(&self, child: ChildId) -> Option<&Meta> {
        self.nodes.get(usize::from(child.0))?.head(self.now)
    }
}

/// A discipline, the nodes that it chooses from, and the behaviours that steer packets to them.
pub struct Tree<T> {
    steer: Vec<Box<dyn Behaviour>>,
    discipline: Box<dyn Discipline>,
    children: Vec<Node<T>>,
    /// The child that gives next.
    chosen: Option<ChildId>,
    /// The time of the choice; `None` if something has changed since.
    chosen_at: Option<Time>,
    /// No packet waited when the choice was made, and none has come since.
    is_idle: bool,
    /// The child that gave last.
    last: Option<ChildId>,
    /// A shaper of what the whole tree gives.
    pacer: Option<Pacer>,
}

impl<T: 'static> Tree<T> {
    /// A discipline over these nodes; see [`Node::tree`].
    pub fn new(
        steer: Vec<Box<dyn Behaviour>>,
        discipline: Box<dyn Discipline>,
        children: Vec<Node<T>>,
    ) -> Tree<T> {
        Tree {
            steer,
            discipline,
            children,
            chosen: None,
            chosen_at: None,
            is_idle: false,
            last: None,
            pacer: None,
        }
    }

    /// Shape what the whole tree gives.
    #[must_use]
    pub fn shaped(mut self, pacer: Option<Pacer>) -> Tree<T> {
        self.pacer = pacer;
        self
    }

    /// The time from which the shaper lets a packet go.
    fn due(&self) -> Time {
        self.pacer.as_ref().map_or(Time(0), Pacer::due)
    }

    /// What the behaviours and the discipline are.
    pub fn about(&self) -> impl Iterator<Item = About> {
        self.steer.iter().map(|behaviour| behaviour.about()).chain([self.discipline.about()])
    }

    /// The nodes, in the order of their numbers.
    pub fn children(&self) -> &[Node<T>] {
        &self.children
    }

    /// The nodes, to exchange parts of them, to add some at the end or to take some away. What waits in a node that is
    /// taken away has to be drained first.
    pub fn children_mut(&mut self) -> &mut Vec<Node<T>> {
        self.forget_choice();
        &mut self.children
    }

    /// Exchange the discipline, and answer the old one.
    pub fn exchange_discipline(&mut self, discipline: Box<dyn Discipline>) -> Box<dyn Discipline> {
        self.forget_choice();
        mem::replace(&mut self.discipline, discipline)
    }

    /// Exchange the behaviours that steer, and answer the old ones.
    pub fn exchange_steer(&mut self, steer: Vec<Box<dyn Behaviour>>) -> Vec<Box<dyn Behaviour>> {
        mem::replace(&mut self.steer, steer)
    }

    fn forget_choice(&mut self) {
        self.chosen_at = None;
        self.is_idle = false;
    }

    /// The child that a packet goes to; `None` if it ended. Behaviours may colour a packet and set its DSCP; its
    /// aggregate and its amount stay as they were offered, since others count by them.
    pub(super) fn steer(
        &mut self,
        item: T,
        meta: Meta,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Option<(&mut Node<T>, T, Meta)> {
        let mut entry = [Entry { meta, verdict: Verdict::Pass }];
        let mut outlet = 0;
        for behaviour in &mut self.steer {
            behaviour.run(&mut entry, context);
            match mem::take(&mut entry[0].verdict) {
                Verdict::Pass => {}
                Verdict::To(to) => outlet = usize::from(to),
                Verdict::Mark => mark(&mut entry[0].meta),
                Verdict::Drop(cause) => {
                    end(ended, (item, meta), cause);
                    return None;
                }
            }
        }
        let meta = Meta { aggregate: meta.aggregate, amount: meta.amount, ..entry[0].meta };
        self.forget_choice();
        match self.children.get_mut(outlet) {
            Some(child) => Some((child, item, meta)),
            None => {
                end(ended, (item, meta), Cause::ClassGone);
                None
            }
        }
    }

    pub(super) fn settle(&mut self, context: &Context) {
        if self.is_idle || self.chosen_at == Some(context.now) {
            return;
        }
        self.children.iter_mut().for_each(|child| child.settle(context));
        let siblings = Siblings { nodes: &self.children, now: context.now };
        let is_ready = |child: &ChildId| siblings.head(*child).is_some();
        // A discipline that names a child without a packet, or none though one has a packet, must not stop the rest.
        let any = || (0..siblings.count()).map(ChildId).find(is_ready);
        self.chosen = self.discipline.next(&siblings, context).filter(is_ready).or_else(any);
        self.chosen_at = Some(context.now);
        self.is_idle = self.chosen.is_none() && self.children.iter().all(Node::is_empty);
    }

    pub(super) fn head(&self, now: Time) -> Option<&Meta> {
        if self.due() > now {
            return None;
        }
        self.children.get(usize::from(self.chosen?.0))?.head(now)
    }

    pub(super) fn try_take(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<(T, Meta)> {
        if self.due() > context.now {
            return None;
        }
        self.settle(context);
        let child = self.chosen?;
        self.forget_choice();
        let (item, meta) = self.children.get_mut(usize::from(child.0))?.try_take(context, ended)?;
        self.discipline.served(child, meta.amount, context);
        self.last = Some(child);
        if let Some(pacer) = &mut self.pacer {
            pacer.charge(context.now, &meta);
        }
        Some((item, meta))
    }

    pub(super) fn put_back(&mut self, item: T, meta: Meta, context: &Context) {
        self.forget_choice();
        let child = self.last.filter(|last| usize::from(last.0) < self.children.len()).unwrap_or(ChildId(0));
        self.discipline.put_back(child, meta.amount, context);
        if let Some(pacer) = &mut self.pacer {
            pacer.credit(&meta);
        }
        if let Some(node) = self.children.get_mut(usize::from(child.0)) {
            node.put_back(item, meta, context);
        }
    }
}
