//! The description of a graph as plain data. Each part knows the octets of the text where it stands.

pub mod index;

use super::kinds::Component;
use super::rules::{Matches, Rule};
pub use super::spanned::{Limits, Name, Span, Spanned};

/// A graph in its full form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Whether units pull work, or work is pushed at them.
    pub dispatch: Spanned<Dispatch>,
    /// The uplinks that shapers and reservations count on.
    pub uplinks: Vec<Uplink>,
    /// The tunnels that have queues of their own.
    pub tunnels: Vec<Tunnel>,
    /// The classes, in the order in which their rules are asked.
    pub classes: Vec<Class>,
    /// The hooks that have components.
    pub hooks: Vec<Hook>,
    /// The schedulers, each over queues and other schedulers.
    pub schedulers: Vec<Scheduler>,
    /// The queues at the leaves of schedulers.
    pub queues: Vec<Queue>,
    /// The crypto units of the gateway.
    pub units: Vec<Unit>,
    /// The queues in the kernel.
    pub kernel: Vec<KernelQueue>,
}

/// The way in which work comes to units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// Units ask for work when they fall below their low mark.
    #[default]
    Pull,
    /// Work is pushed at units as it comes (Figure 1 of paper 002).
    Push,
}

impl Dispatch {
    /// The words for both.
    pub const WORDS: &[(&str, Dispatch)] = &[("pull", Dispatch::Pull), ("push", Dispatch::Push)];
}

/// One direction, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Directions {
    /// Both directions, each with components of its own.
    #[default]
    Both,
    /// The outbound direction alone.
    Outbound,
    /// The inbound direction alone.
    Inbound,
}

impl Directions {
    /// The words for directions.
    pub const WORDS: &[(&str, Directions)] =
        &[("both", Directions::Both), ("out", Directions::Outbound), ("in", Directions::Inbound)];

    /// Whether `direction` is among them.
    pub fn has(self, direction: crate::Direction) -> bool {
        match self {
            Directions::Both => true,
            Directions::Outbound => direction == crate::Direction::Outbound,
            Directions::Inbound => direction == crate::Direction::Inbound,
        }
    }

    /// Whether a direction is among both of them.
    pub fn meets(self, other: Directions) -> bool {
        self == Directions::Both || other == Directions::Both || self == other
    }
}

/// An uplink: what it carries, and what its link adds to each packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Uplink {
    /// The name of the interface.
    pub name: Name,
    /// The bits a second that it carries.
    pub rate: Spanned<u64>,
    /// Octets that the link adds to each packet, such as 38 on Ethernet (header, checksum, preamble, gap).
    pub overhead: Spanned<u64>,
}

/// A tunnel with queues of its own: what its rules match.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// The name that queues use.
    pub name: Name,
    /// The rules, of which one must match.
    pub rules: Vec<Rule>,
}

/// A class: the aggregate of RFC 2475 and of paper 002.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The name that people, the policy, rules and associations use.
    pub name: Name,
    /// The packets that it takes.
    pub matches: Spanned<Matches>,
    /// The directions that it is for.
    pub direction: Spanned<Directions>,
    /// The worst delay that is promised, in nanoseconds.
    pub delay: Option<Spanned<u64>>,
    /// The DSCPs of the three drop precedences, lowest first (RFC 2597).
    pub precedence: Option<Spanned<[u8; 3]>>,
    /// Whether strict priority is given to it without a policer.
    pub unpoliced: Spanned<bool>,
    /// The priority that its sealed packets have for queueing disciplines (SO_PRIORITY); absent: the kernel chooses.
    pub socket_priority: Option<Spanned<u32>>,
}

/// A point of the packet path, by its number in paper 002.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookPoint {
    /// In front of the incoming main queue.
    In1a,
    /// Behind the incoming main queue.
    Out1b,
    /// In front of the outgoing main queue.
    In2a,
    /// Behind the outgoing main queue.
    Out2b,
    /// In front of the incoming crypto queue.
    In3a,
    /// Behind the incoming crypto queue.
    Out3b,
    /// In front of the outgoing crypto queue.
    In4a,
    /// Behind the outgoing crypto queue.
    Out4b,
    /// In front of the dispatcher's queues.
    In5a,
    /// Behind the dispatcher's queues, for each unit.
    Out5b,
}

impl HookPoint {
    /// The number of the hook as the paper has it, such as `1a`.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, point)| *point == self).map_or("", |(name, _)| name)
    }

    /// The words for the points.
    pub const WORDS: &[(&str, HookPoint)] = &[
        ("1a", HookPoint::In1a),
        ("1b", HookPoint::Out1b),
        ("2a", HookPoint::In2a),
        ("2b", HookPoint::Out2b),
        ("3a", HookPoint::In3a),
        ("3b", HookPoint::Out3b),
        ("4a", HookPoint::In4a),
        ("4b", HookPoint::Out4b),
        ("5a", HookPoint::In5a),
        ("5b", HookPoint::Out5b),
    ];

    /// The number of the queue that the point belongs to, 1 to 5.
    pub fn queue(self) -> u8 {
        match self {
            HookPoint::In1a | HookPoint::Out1b => 1,
            HookPoint::In2a | HookPoint::Out2b => 2,
            HookPoint::In3a | HookPoint::Out3b => 3,
            HookPoint::In4a | HookPoint::Out4b => 4,
            HookPoint::In5a | HookPoint::Out5b => 5,
        }
    }

    /// Whether packets leave a queue there, as at 1b.
    pub fn is_behind(self) -> bool {
        matches!(
            self,
            HookPoint::Out1b | HookPoint::Out2b | HookPoint::Out3b | HookPoint::Out4b | HookPoint::Out5b
        )
    }

    /// The place in the order in which a packet meets the points: 1, 3, 5, 4, 2.
    pub fn order(self) -> u8 {
        let queue = match self.queue() {
            1 => 0,
            3 => 1,
            5 => 2,
            4 => 3,
            _ => 4,
        };
        2 * queue + u8::from(self.is_behind())
    }
}

/// A hook with its components.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// The point where it is.
    pub at: Spanned<HookPoint>,
    /// The unit that it serves, at 5b; absent: each unit that has no hook of its own.
    pub unit: Option<Name>,
    /// The directions that it is for.
    pub direction: Spanned<Directions>,
    /// The behaviours, in their order.
    pub chain: Vec<Component>,
    /// The scheduler or queue that packets leave from, behind a queue.
    pub from: Option<Name>,
    /// The octets of the whole hook.
    pub span: Spanned<()>,
}

/// A scheduler: a discipline over queues and other schedulers.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    /// The name by which hooks and other schedulers find it.
    pub name: Name,
    /// The discipline with its settings.
    pub discipline: Component,
    /// A shaper in front of what it gives.
    pub shape: Option<Component>,
    /// The children, in their order.
    pub children: Vec<Child>,
}

/// A child of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The queue or scheduler.
    pub to: Name,
    /// The weight among its siblings.
    pub weight: Option<Spanned<u64>>,
    /// The share of the whole, in parts per million.
    pub share: Option<Spanned<u64>>,
    /// The deadline of its packets, in nanoseconds from their arrival.
    pub deadline: Option<Spanned<u64>>,
}

/// A queue of three parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The name, by which it keeps its packets when graphs are exchanged.
    pub name: Name,
    /// The classes that wait in it.
    pub classes: Vec<Name>,
    /// The tunnel whose packets wait in it; absent: those of every tunnel without a queue of its own.
    pub tunnel: Option<Name>,
    /// The most that may wait.
    pub limit: Limits,
    /// A shaper in front of what it gives.
    pub shape: Option<Component>,
    /// The part that lets packets in.
    pub enqueue: Component,
    /// The order in which packets wait.
    pub store: Component,
    /// The part that lets packets out.
    pub dequeue: Component,
}

/// A crypto unit with its marks.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// The name in the graph.
    pub name: Name,
    /// The way it works.
    pub kind: Spanned<UnitKind>,
    /// The suites that it can do; absent: every one.
    pub suites: Option<Vec<Name>>,
    /// The classes that it is reserved for; empty: it serves every class.
    pub reserved: Vec<Name>,
    /// The committed work below which it asks for more.
    pub low: Spanned<Mark>,
    /// The committed work up to which it is given more.
    pub high: Spanned<Mark>,
    /// The most work that is ever committed to it, in nanoseconds.
    pub most_committed: Spanned<u64>,
}

/// The way a unit works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// On the thread that dispatches.
    Inline,
    /// On the thread that dispatches, in steps of so many nanoseconds.
    Sliced(u64),
    /// So many packets at once.
    Batch(u64),
    /// On a thread of its own.
    Worker,
    /// An accelerator that holds so many packets.
    Async(u64),
}

/// A water mark of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// The mark that tunes itself.
    #[default]
    Auto,
    /// A mark of so many nanoseconds.
    Fixed(u64),
}

/// Queues in the kernel for classes: of the TUN outbound, sockets inbound.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelQueue {
    /// The name in the graph.
    pub name: Name,
    /// The classes that wait there.
    pub classes: Vec<Name>,
    /// The number of queues over which users are spread.
    pub queues: Spanned<u64>,
    /// The directions that it is for.
    pub direction: Spanned<Directions>,
    /// The most that may wait in one of them.
    pub limit: Limits,
}
