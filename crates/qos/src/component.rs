//! The five kinds of components of paper 002 section III.A: behaviours, the three parts of a queue (enqueueing, the
//! queue itself, dequeueing), and scheduling disciplines. Components answer verdicts; what holds the packets carries
//! them out.

use wire::Time;

use crate::amount::{Amount, Limit};
use crate::meta::Meta;

/// The reason why a component ends a packet: the drop primitive of the paper takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The queue was full.
    QueueFull,
    /// A policer found it beyond the rate of its aggregate.
    Policed,
    /// Random early detection took it before the queue was full.
    EarlyDrop,
    /// Active queue management found that it had waited too long.
    Aqm,
    /// A shaper's queue would have held it beyond its limit.
    ShapedOut,
    /// The budget for failed authentication of its source is used up.
    AuthBudget,
    /// Its aggregate is in the graph no more.
    ClassGone,
    /// Admission control did not admit its user.
    NotAdmitted,
    /// No unit can serve its suite.
    NoUnit,
    /// A foreign component refused it.
    Component,
}

impl Cause {
    /// The word for the cause in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Cause::QueueFull => "queue_full",
            Cause::Policed => "policed",
            Cause::EarlyDrop => "early_drop",
            Cause::Aqm => "aqm_drop",
            Cause::ShapedOut => "shaped_out",
            Cause::AuthBudget => "auth_budget",
            Cause::ClassGone => "class_gone",
            Cause::NotAdmitted => "not_admitted",
            Cause::NoUnit => "no_unit",
            Cause::Component => "component_refused",
        }
    }
}

impl Cause {
    /// Every cause, in the order of the counters.
    pub const EACH: [Cause; 10] = [
        Cause::QueueFull,
        Cause::Policed,
        Cause::EarlyDrop,
        Cause::Aqm,
        Cause::ShapedOut,
        Cause::AuthBudget,
        Cause::ClassGone,
        Cause::NotAdmitted,
        Cause::NoUnit,
        Cause::Component,
    ];
}

/// The time, and randomness from the graph's seed.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The time of the call.
    pub now: Time,
    /// 64 random bits of this call.
    pub random: u64,
}

/// A packet on its way through the behaviours of a hook.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What is known of it. A behaviour may change aggregate, colour, DSCP and amount.
    pub meta: Meta,
    /// What becomes of it so far.
    pub verdict: Verdict,
}

/// What a behaviour says of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on to the next component.
    #[default]
    Pass,
    /// It goes on at this outlet of the component, as a classifier's does.
    To(u8),
    /// It goes on, and is marked as having met congestion.
    Mark,
    /// The packet ends at this component.
    Drop(Cause),
}

/// What a component is, for `ravelin qos show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The kind, such as `codel`.
    pub kind: &'static str,
    /// The settings in one line.
    pub settings: String,
}

/// A component that looks at packets and passes, changes, steers or drops them: a classifier, meter, marker, policer.
pub trait Behaviour: Send {
    /// Judge the packets of a batch. An entry whose verdict is a drop already is left alone.
    fn run(&mut self, batch: &mut [Entry], context: &Context);

    /// The time at which the next packet conforms, for shapers; `None`: at once.
    fn eligible_at(&self) -> Option<Time> {
        None
    }

    /// What the component is, for people.
    fn about(&self) -> About;
}

/// What waits in a queue, and the most that may: the length function of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// What waits in the queue.
    pub now: Amount,
    /// The most that may wait.
    pub limit: Limit,
}

/// What the enqueueing part says of a packet that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// The packet is queued as it is.
    Take,
    /// It is queued, marked as having met congestion.
    Mark,
    /// The packet that comes ends.
    Refuse(Cause),
    /// The packet at the head of the queue ends, then it is asked again.
    EvictFirst(Cause),
    /// The packet at the head of this flow's queue ends, then it is asked again.
    EvictOf {
        /// The hash of the flow.
        flow: u32,
        /// The reason for the end.
        cause: Cause,
    },
    /// The packet at the head of the longest flow's queue ends, then it is asked again.
    EvictLongest(Cause),
}

/// The enqueueing part of a queue: whether a packet that comes is queued.
pub trait Enqueue: Send {
    /// Judge a packet that comes.
    fn admit(&mut self, meta: &Meta, backlog: &Backlog, context: &Context) -> Admit;

    /// Whether a packet beyond the limit of the queue is refused, so that it does better to wait where it is. Not so
    /// where another one ends for it.
    fn refuses_beyond_limit(&self) -> bool {
        true
    }

    /// What the component is, for people.
    fn about(&self) -> About;
}

/// The queue itself: the order in which packets wait. `T` is the ticket of a packet.
pub trait Store<T>: Send {
    /// Queue a packet behind the others of its place in the order.
    fn put(&mut self, item: T, meta: Meta);

    /// Put a packet back where [`Store::get`] took it from.
    fn put_back(&mut self, item: T, meta: Meta);

    /// What is known of the packet that is next.
    fn peek(&self) -> Option<&Meta>;

    /// Take the packet that is next.
    fn get(&mut self) -> Option<(T, Meta)>;

    /// Take the packet that is next to end it. Nobody pays for what is not served (RFC 8290 section 4.2).
    fn get_to_end(&mut self) -> Option<(T, Meta)> {
        self.get()
    }

    /// Take the packet that is next of this flow.
    fn get_of(&mut self, flow: u32) -> Option<(T, Meta)>;

    /// The flow that has the most waiting, for [`Store::get_of`]. A store that does not count flows names the flow of
    /// the packet that is next.
    fn longest(&self) -> Option<u32> {
        self.peek().map(|meta| meta.flow)
    }

    /// What waits in the queue.
    fn amount(&self) -> Amount;

    /// The number of the store's own queue that a packet belongs to. A store that is one queue has the number 0.
    fn queue_of(&self, _meta: &Meta) -> u32 {
        0
    }

    /// The number of the store's own queue whose packet is next, and what waits in that.
    fn head_queue(&self) -> (u32, Amount) {
        (0, self.amount())
    }

    /// What the component is, for people.
    fn about(&self) -> About;
}

/// What the dequeueing part says of the packet that is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The packet leaves as it is.
    Give,
    /// It leaves, marked as having met congestion.
    Mark,
    /// It ends, and the next one is asked for.
    Drop(Cause),
    /// It stays until this time.
    Wait(Time),
}

/// The dequeueing part of a queue: whether the packet that is next leaves.
pub trait Dequeue: Send {
    /// Judge the packet that is next.
    fn decide(&mut self, head: &Meta, backlog: &Backlog, context: &Context) -> Leave;

    /// Judge the packet that is next, of this queue of the store, in which `own` waits. A part that has one state for
    /// all queues of a store looks at the whole backlog.
    fn decide_of(
        &mut self,
        _queue: u32,
        _own: Amount,
        head: &Meta,
        backlog: &Backlog,
        context: &Context,
    ) -> Leave {
        self.decide(head, backlog, context)
    }

    /// A packet of this queue of the store ended, since there was no room for all that waits.
    fn overflowed(&mut self, _queue: u32, _now: Time) {}

    /// What the component is, for people.
    fn about(&self) -> About;
}

/// The number of a discipline's child, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChildId(pub u16);

/// The children of a discipline that have a packet to give now, with what is known of it.
pub trait Children {
    /// The number of children, ready or not.
    fn count(&self) -> u16;

    /// What is known of the packet that the child gives next; `None` if it has none to give now.
    fn head(&self, child: ChildId) -> Option<&Meta>;
}

/// A scheduling discipline: which child gives the next packet.
pub trait Discipline: Send {
    /// The child whose turn it is; `None` if none has a packet to give. The answer stays the same until a child has
    /// given, or what the children have to give is another, or time has passed.
    fn next(&mut self, children: &dyn Children, context: &Context) -> Option<ChildId>;

    /// A child gave this much. Super-packets give in parts.
    fn served(&mut self, child: ChildId, spent: Amount, context: &Context);

    /// The child that gave last has this much of it again: a packet that was not used, or the rest of a super-packet.
    fn put_back(&mut self, child: ChildId, unspent: Amount, context: &Context);

    /// What the component is, for people.
    fn about(&self) -> About;
}
