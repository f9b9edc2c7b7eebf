//! A node: a queue of three parts, or a discipline over nodes.
//!
//! What enters: tickets with their [`Meta`]. What leaves: the ticket whose turn it is, and the tickets that ended on
//! the way, each with its cause, in a list of the caller: what was offered is queued, taken or in that list. Nothing
//! blocks: who gets no packet, or cannot queue one, learns on what to wait ([`Wake`]).

mod queue;
mod tree;

pub use queue::Queue;
pub use tree::Tree;

use wire::Time;

use crate::amount::{Amount, Measure};
use crate::component::{Behaviour, Cause, ChildId, Context, Discipline};
use crate::meta::Meta;

/// The event on which a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A packet has to leave first.
    Room,
    /// A packet has to come first.
    Packet,
    /// Nothing happens before this time, unless a packet comes.
    At(Time),
    /// Waiting does not help.
    Never,
}

/// A packet that ended, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<T> {
    /// The ticket of the packet.
    pub item: T,
    /// What was known of it.
    pub meta: Meta,
    /// The reason for its end.
    pub cause: Cause,
}

/// What became of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It waits. Others may have ended for it.
    Queued,
    /// It ended, and is in the list of those that did.
    Ended,
}

/// A packet that was not queued since its queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<T> {
    /// The ticket of the packet.
    pub item: T,
    /// What is known of it.
    pub meta: Meta,
    /// [`Wake::Room`], or [`Wake::Never`] if the queue would be too small were it empty.
    pub wake: Wake,
}

/// The answer to a caller that asks for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// The packet whose turn it is.
    Packet(T, Meta),
    /// No packet can leave now.
    Wait(Wake),
}

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
    pub fn take(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Taken<T> {
        loop {
            if let Some((item, meta)) = self.try_take(context, ended) {
                return Taken::Packet(item, meta);
            }
            // A queue that gave nothing has ended a packet or waits, so the loop ends.
            if self.peek(context).is_none() {
                return Taken::Wait(self.wake(context.now));
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
                tree.children().iter().filter_map(at).min().map_or(Wake::Packet, Wake::At)
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

/// Note in the metadata that the packet met congestion, if that can be told by marking.
fn mark(meta: &mut Meta) {
    if meta.is_ecn_capable() {
        meta.ecn |= 3;
    }
}

/// The nodes as a discipline sees them.
struct Siblings<'a, T> {
    nodes: &'a [Node<T>],
    now: Time,
}

impl<T: 'static> crate::component::Children for Siblings<'_, T> {
    fn count(&self) -> u16 {
        u16::try_from(self.nodes.len()).unwrap_or(u16::MAX)
    }

    fn head(&self, child: ChildId) -> Option<&Meta> {
        self.nodes.get(usize::from(child.0))?.head(self.now)
    }
}

/// Put a packet into the list of those that ended.
fn end<T>(ended: &mut Vec<Ended<T>>, (item, meta): (T, Meta), cause: Cause) -> Offered {
    ended.push(Ended { item, meta, cause });
    Offered::Ended
}
