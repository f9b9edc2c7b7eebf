//! The kinds of components by name, and the settings of each. A component of a description is one of these kinds.

use wire::Prefix;

use super::rules;
use super::spanned::{Name, Span, Spanned};
use crate::behaviour::foreign::OnFault;

/// The place where a component of a kind can stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The chain of a hook.
    Behaviour,
    /// The enqueueing part of a queue.
    Enqueue,
    /// The order in which packets wait.
    Store,
    /// The dequeueing part of a queue.
    Dequeue,
    /// The choice among queues.
    Discipline,
}

impl Part {
    /// The part as text, with its article.
    pub fn text(self) -> &'static str {
        match self {
            Part::Behaviour => "a behaviour",
            Part::Enqueue => "an enqueueing part",
            Part::Store => "an order of waiting",
            Part::Dequeue => "a dequeueing part",
            Part::Discipline => "a scheduling discipline",
        }
    }
}

/// The form of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A value that is true or false.
    Flag,
    /// A whole number in this range.
    Count(u64, u64),
    /// Nanoseconds, written as `5ms`.
    Time,
    /// Octets, written as `20kB`.
    Octets,
    /// Bits a second (`20Mbit`), or a share of a processor (`25%`).
    Rate,
    /// Octets, or time of a processor: the burst beside a rate.
    Burst,
    /// A part of the whole, written as `80%`.
    Share,
    /// Packets as a number, octets or time: a length in any measure.
    Length,
    /// The name of a class.
    Class,
    /// The name of a class, one of [`EXCESS`], or a table with the DSCP to mark with.
    Excess,
    /// The name of an uplink.
    Uplink,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of DSCPs.
    Dscp,
    /// A curve of early drops: two lengths, and the share that is dropped at the second.
    Curve,
    /// A list of user profiles.
    Profiles,
    /// The name of a library with a component.
    Library,
    /// Any text, up to this many octets.
    Text(usize),
    /// A list of names of classes, up to this many.
    Classes(usize),
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value that is true or false.
    Flag(bool),
    /// A whole number; packets, where a length is asked for.
    Count(u64),
    /// An amount of nanoseconds.
    Time(u64),
    /// An amount of octets.
    Octets(u64),
    /// A rate in bits a second.
    Rate(u64),
    /// A share in parts per million.
    Share(u64),
    /// A name or word.
    Word(String),
    /// A list of DSCPs.
    Dscp(Vec<u8>),
    /// What is beyond a rate is marked with this DSCP.
    Mark(u8),
    /// A curve of early drops.
    Curve(Curve),
    /// A list of user profiles.
    Profiles(Vec<Profile>),
    /// A list of names.
    Names(Vec<Name>),
}

/// A curve of early drops: none below `low`, then more and more up to `most` at `high`, everything beyond.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The length at which drops begin.
    pub low: Box<Value>,
    /// The length at which the curve ends.
    pub high: Box<Value>,
    /// The share that is dropped at `high`, in parts per million.
    pub most: u64,
}

/// A profile of users in one component: what each of them may have.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name of the profile.
    pub name: Name,
    /// The users that have it, as the component's `by` names them; empty: those without another profile.
    pub users: Vec<Name>,
    /// The weight of each user beside others, up to [`Profile::HEAVIEST`].
    pub weight: Spanned<u64>,
    /// The most that each user may send.
    pub limit: Option<UserLimit>,
    /// The class that the users' packets change to.
    pub class: Option<Name>,
}

impl Profile {
    /// The greatest weight of a user.
    pub const HEAVIEST: u64 = u16::MAX as u64;

    /// The classes that packets of its users change to: its own, and that of what is beyond the limit.
    pub fn classes(&self) -> impl Iterator<Item = &Name> {
        self.class.iter().chain(self.limit.iter().flat_map(|limit| &limit.excess))
    }
}

/// The limit of each user of a profile: a rate with its burst, as a policer has them.
#[derive(Clone, Debug, PartialEq)]
pub struct UserLimit {
    /// The rate: bits a second, or a share of a processor.
    pub rate: Spanned<Value>,
    /// The burst: octets, or time of a processor.
    pub burst: Spanned<Value>,
    /// The class that packets beyond the limit go to; absent: they are dropped.
    pub excess: Option<Name>,
}

/// The number that a text gives a user: the SPI of an association or the number of an application, also as `0x10`.
pub fn user_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The prefix that a text gives users that are told apart by an address of theirs; bits behind it count for nothing.
pub fn user_prefix(text: &str) -> Option<Prefix> {
    rules::prefix(text).and_then(|(address, bits)| Prefix::new(address, bits))
}

/// A setting of a component.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The name, as the kind's list has it.
    pub name: &'static str,
    /// The value with its place.
    pub value: Spanned<Value>,
}

/// A component: its kind and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// The kind with its place.
    pub kind: Spanned<Kind>,
    /// The settings, in the order of the kind's list.
    pub settings: Vec<Setting>,
    /// The octets of the whole component.
    pub span: Spanned<()>,
}

impl Component {
    /// A component that stands in no text.
    pub fn bare(kind: Kind) -> Component {
        Component { kind: Spanned::bare(kind), settings: Vec::new(), span: Spanned::bare(()) }
    }

    /// The component with a further setting, which the kind's list must have.
    pub fn with(mut self, name: &str, value: Value) -> Component {
        self.put(name, Spanned::bare(value));
        self
    }

    /// Add a setting in the order of the kind's list.
    pub fn put(&mut self, name: &str, value: Spanned<Value>) {
        let list = self.kind.value.settings();
        let Some(place) = list.iter().position(|row| row.name == name) else { return };
        self.settings.retain(|setting| setting.name != name);
        let before = |setting: &Setting| list.iter().position(|row| row.name == setting.name) < Some(place);
        let index = self.settings.iter().filter(|setting| before(setting)).count();
        let name = list.get(place).map_or("", |row| row.name);
        self.settings.insert(index, Setting { name, value });
    }

    /// The value of a setting.
    pub fn get(&self, name: &str) -> Option<&Spanned<Value>> {
        self.settings.iter().find(|setting| setting.name == name).map(|setting| &setting.value)
    }

    /// The number in a setting, whatever its measure.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|value| value.value.number())
    }

    /// The word or name in a setting.
    pub fn word(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    /// The class that what is beyond the rate of a policer goes to.
    pub fn excess_class(&self) -> Option<&str> {
        self.word("excess").filter(|word| !EXCESS.contains(word))
    }

    /// Whether nothing beyond the rate of a policer stays in its class.
    pub fn takes_excess_out(&self) -> bool {
        match self.get("excess").map(|excess| &excess.value) {
            None => true,
            Some(Value::Word(word)) => word == "drop" || !EXCESS.contains(&word.as_str()),
            Some(_) => false,
        }
    }

    /// Whether the flows of each user have queues of their own within a store by user.
    pub fn has_flows_within(&self) -> bool {
        self.word("by") == Some("user") && self.word("within") == Some("flow")
    }

    /// The profiles of users.
    pub fn profiles(&self) -> &[Profile] {
        match self.get("profiles").map(|profiles| &profiles.value) {
            Some(Value::Profiles(profiles)) => profiles,
            _ => &[],
        }
    }

    /// The names in a setting that is a list of them.
    pub fn names(&self, name: &str) -> impl Iterator<Item = &Name> {
        let list = match self.get(name).map(|value| &value.value) {
            Some(Value::Names(list)) => list.as_slice(),
            _ => &[],
        };
        list.iter()
    }

    /// The octets where a setting stands, or the kind if the setting is absent.
    pub fn place(&self, name: &str) -> Span {
        self.get(name).map_or_else(|| self.kind.span.clone(), |value| value.span.clone())
    }
}

impl Value {
    /// The number that the value holds, whatever its measure.
    pub fn number(&self) -> Option<u64> {
        match self {
            Value::Count(n) | Value::Time(n) | Value::Octets(n) | Value::Rate(n) | Value::Share(n) => {
                Some(*n)
            }
            _ => None,
        }
    }
}

/// A row of a kind's list of settings.
#[derive(Clone, Copy, Debug)]
pub struct SettingRow {
    /// The name in the text.
    pub name: &'static str,
    /// The form of the value.
    pub form: Form,
    /// Whether it must be there.
    pub required: bool,
}

const fn must(name: &'static str, form: Form) -> SettingRow {
    SettingRow { name, form, required: true }
}

const fn may(name: &'static str, form: Form) -> SettingRow {
    SettingRow { name, form, required: false }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident, $word:literal, $part:ident, [$($row:expr),*];)*) => {
        /// The kind of a component.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind with its name.
            pub const WORDS: &[(&str, Kind)] = &[$(($word, Kind::$name),)*];

            /// The name in the text.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$name => $word,)* }
            }

            /// The place where it can stand.
            pub fn part(self) -> Part {
                match self { $(Kind::$name => Part::$part,)* }
            }

            /// The settings that it has.
            pub fn settings(self) -> &'static [SettingRow] {
                match self { $(Kind::$name => const { &[$($row),*] },)* }
            }
        }
    };
}

/// What becomes of packets beyond the rate of a policer that go to no other class: they are dropped, get a colour, or are
/// marked as having met congestion (RFC 3168), where they can be, and dropped else.
pub const EXCESS: &[&str] = &["drop", "yellow", "red", "ecn"];
/// The ways to tell users apart. The last one is read and then refused, as no packet shows a user of this host.
pub const USERS: &[&str] = &["association", "peer", "source", "application", "uid"];
const AWARE: SettingRow = may("aware", Form::Flag);
const ECN: SettingRow = may("ecn", Form::Flag);
const MOST: u64 = 1 << 32;
/// The nanoseconds that a component from outside may take of each packet, unless the graph says another number.
pub const FOREIGN_BUDGET: u64 = 10_000;
/// The longest text of parameters for a component from outside, in octets.
const MOST_PARAMETERS: usize = 4096;
/// The most ports of a component from outside.
const MOST_PORTS: usize = 16;

kinds! {
    /// The classifier: it gives each packet its class, and so its queue.
    Classify, "classify", Behaviour, [may("by", Form::Word(&["rules", "class"]))];
    /// The single rate three colour marker (RFC 2697).
    Srtcm, "srtcm", Behaviour, [must("class", Form::Class), must("cir", Form::Rate), must("cbs", Form::Burst),
        must("ebs", Form::Burst), AWARE];
    /// The two rate three colour marker (RFC 2698).
    Trtcm, "trtcm", Behaviour, [must("class", Form::Class), must("cir", Form::Rate), must("cbs", Form::Burst),
        must("pir", Form::Rate), must("pbs", Form::Burst), AWARE];
    /// The two rate three colour marker for agreed excess rates (RFC 4115).
    Rfc4115, "rfc4115", Behaviour, [must("class", Form::Class), must("cir", Form::Rate), must("cbs", Form::Burst),
        must("eir", Form::Rate), must("ebs", Form::Burst), AWARE];
    /// The colour that a packet comes with: the drop precedence that its DSCP tells (RFC 2597), for meters with `aware`.
    Precolour, "precolour", Behaviour, [must("class", Form::Class), may("header", Form::Word(&["outer", "inner"])),
        may("other", Form::Word(&["green", "yellow", "red"]))];
    /// The marker: it writes a DSCP, one for all or one for each colour.
    Marker, "mark", Behaviour, [must("class", Form::Class), must("dscp", Form::Dscp),
        may("header", Form::Word(&["outer", "inner", "both"]))];
    /// The policer: what is beyond the rate is dropped, goes to another class, gets a colour, or is marked.
    Police, "police", Behaviour, [must("class", Form::Class), must("rate", Form::Rate), must("burst", Form::Burst),
        may("excess", Form::Excess)];
    /// The dropper behind a meter: packets of a colour, and of worse ones, are dropped.
    DropColour, "drop_colour", Behaviour, [must("class", Form::Class), may("colour", Form::Word(&["red", "yellow"]))];
    /// The shaper: what is beyond the rate waits.
    Shape, "shape", Behaviour, [may("class", Form::Class), may("uplink", Form::Uplink), may("rate", Form::Rate),
        may("burst", Form::Burst), may("overhead", Form::Count(0, 1024))];
    /// The limiter: the most of a class that may wait behind it.
    Limit, "limit", Behaviour, [must("class", Form::Class), must("most", Form::Length)];
    /// Users with their profiles.
    Users, "users", Behaviour, [must("class", Form::Class), must("by", Form::Word(USERS)),
        may("profiles", Form::Profiles)];
    /// The budget for work on packets that fail to authenticate.
    AuthBudget, "auth_budget", Behaviour, [must("rate", Form::Share), must("burst", Form::Time),
        may("class", Form::Class)];
    /// A component whose code comes from a library that the configuration names.
    Foreign, "foreign", Behaviour, [must("library", Form::Library), may("class", Form::Class),
        may("parameters", Form::Text(MOST_PARAMETERS)), may("ports", Form::Classes(MOST_PORTS)),
        may("budget", Form::Time), may("on_fault", Form::Word(OnFault::WORDS))];
    /// A packet that finds the queue full is dropped.
    Tail, "tail", Enqueue, [];
    /// A packet that finds the queue full drops the oldest one.
    DropHead, "drop_head", Enqueue, [];
    /// A packet that finds the queue full drops one of the longest flow.
    LongestFlow, "longest_flow", Enqueue, [];
    /// Random early detection of congestion.
    Red, "red", Enqueue, [must("curve", Form::Curve), may("weight", Form::Count(1, 30)), ECN];
    /// Random early detection with a curve for each drop precedence.
    Wred, "wred", Enqueue, [must("green", Form::Curve), must("yellow", Form::Curve), must("red", Form::Curve),
        may("weight", Form::Count(1, 30)), ECN];
    /// Packets wait in the order of their coming.
    Fifo, "fifo", Store, [];
    /// Each flow or user waits in a queue of its own, served in turn (RFC 8290).
    Flows, "flows", Store, [may("by", Form::Word(&["flow", "user"])), may("within", Form::Word(&["flow", "fifo"])),
        may("users", Form::Count(1, 65_536)), may("flows", Form::Count(1, 65_536)), may("quantum", Form::Length)];
    /// Packets wait in the order of a rank.
    Rank, "rank", Store, [must("by", Form::Word(&["deadline", "colour", "cost"]))];
    /// Whatever is next leaves.
    Give, "give", Dequeue, [];
    /// Controlled delay, CoDel (RFC 8289).
    Codel, "codel", Dequeue, [may("target", Form::Time), may("interval", Form::Time), ECN];
    /// COBALT: CoDel with BLUE.
    Cobalt, "cobalt", Dequeue, [may("target", Form::Time), may("interval", Form::Time), ECN];
    /// The dual queue coupled AQM (RFC 9332).
    Dualpi2, "dualpi2", Dequeue, [may("target", Form::Time), may("rtt", Form::Time),
        may("coupling", Form::Count(1, 100)), may("ramp_start", Form::Time), may("ramp_range", Form::Time),
        may("classic_share", Form::Count(2, 1000))];
    /// One packet each in turn.
    RoundRobin, "round_robin", Discipline, [];
    /// Packets in turn, as many as the weight says.
    Weighted, "weighted", Discipline, [];
    /// Deficit round robin by cost.
    Drr, "drr", Discipline, [must("quantum", Form::Length)];
    /// Weighted fair queueing by cost.
    Wfq, "wfq", Discipline, [];
    /// Strict priority, with a guard for the children below the first ones.
    Strict, "strict", Discipline, [may("guard", Form::Share), may("period", Form::Time)];
    /// The earliest deadline first.
    Edf, "edf", Discipline, [];
}

/// The number that bounds whole numbers in descriptions.
pub const LARGEST: u64 = MOST;
