//! A classifier: an ordered list of rules over every field of [`Meta`], the first that matches counts (RFC 2475
//! section 2.3.1, paper 002 section III.B).
//!
//! Rules are compiled in blocks of 64. For each field that rules of a block look at, the numbers fall into intervals,
//! and each interval has a word with one bit for each rule that takes it; the words of all fields, joined by AND, leave
//! the rules that match. A lookup takes a table access or one binary search a field, whatever the number of rules.

use std::ops::RangeInclusive;

use super::{SettingsError, live};
use crate::component::{About, Behaviour, Context, Entry, Verdict};
use crate::meta::{AggregateId, Meta};

/// A field of [`Meta`] that rules look at, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The SPI; 0 if there is none.
    Spi,
    /// The number of the security association; 0 if there is none.
    Association,
    /// The number of the key.
    Key,
    /// The keyed hash of the user.
    User,
    /// The keyed hash of the flow.
    Flow,
    /// The mark of the packet in the kernel.
    Mark,
    /// The number of the application.
    App,
    /// The number of the suite.
    Suite,
    /// The number of the far end's address among the prefixes of the graph.
    Peer,
    /// The number of the inner source address among the prefixes of the graph.
    Source,
    /// The number of the inner destination address among the prefixes of the graph.
    Destination,
    /// The protocol of the inner packet.
    Protocol,
    /// The source port of the inner packet.
    SourcePort,
    /// The destination port of the inner packet.
    Port,
    /// The number of associations of the bundle that are done.
    Index,
    /// The aggregate that the packet has so far.
    Aggregate,
    /// The header kind, as [`HeaderKind`](crate::HeaderKind) counts.
    Header,
    /// The direction, as [`Direction`](crate::Direction) counts.
    Direction,
    /// The colour, as [`Colour`](crate::Colour) counts.
    Colour,
    /// The DSCP of the outer header.
    OuterDscp,
    /// The DSCP of the inner header.
    InnerDscp,
    /// The ECN field of the inner header.
    Ecn,
}

impl Field {
    /// Every field there is.
    pub const EACH: [Field; 22] = [
        Field::Spi,
        Field::Association,
        Field::Key,
        Field::User,
        Field::Flow,
        Field::Mark,
        Field::App,
        Field::Suite,
        Field::Peer,
        Field::Source,
        Field::Destination,
        Field::Protocol,
        Field::SourcePort,
        Field::Port,
        Field::Index,
        Field::Aggregate,
        Field::Header,
        Field::Direction,
        Field::Colour,
        Field::OuterDscp,
        Field::InnerDscp,
        Field::Ecn,
    ];

    /// The field of a packet.
    pub const fn value(self, meta: &Meta) -> u32 {
        match self {
            Field::Spi => meta.spi,
            Field::Association => meta.association,
            Field::Key => meta.key as u32,
            Field::User => meta.user,
            Field::Flow => meta.flow,
            Field::Mark => meta.mark,
            Field::App => meta.app.0 as u32,
            Field::Suite => meta.suite as u32,
            Field::Peer => meta.peer as u32,
            Field::Source => meta.source as u32,
            Field::Destination => meta.destination as u32,
            Field::Protocol => meta.protocol as u32,
            Field::SourcePort => meta.ports[0] as u32,
            Field::Port => meta.ports[1] as u32,
            Field::Index => meta.index as u32,
            Field::Aggregate => meta.aggregate.0 as u32,
            Field::Header => meta.header as u32,
            Field::Direction => meta.direction as u32,
            Field::Colour => meta.colour as u32,
            Field::OuterDscp => (meta.dscp[0] & 63) as u32,
            Field::InnerDscp => (meta.dscp[1] & 63) as u32,
            Field::Ecn => (meta.ecn & 3) as u32,
        }
    }

    /// The condition that the field is this number.
    pub const fn is(self, value: u32) -> Condition {
        Condition::Within { field: self, first: value, last: value }
    }

    /// The condition that the field is in this range.
    pub const fn within(self, range: RangeInclusive<u32>) -> Condition {
        Condition::Within { field: self, first: *range.start(), last: *range.end() }
    }

    /// Whether the numbers of the field are below 64, so that a table replaces the search.
    const fn is_small(self) -> bool {
        matches!(
            self,
            Field::Header
                | Field::Direction
                | Field::Colour
                | Field::OuterDscp
                | Field::InnerDscp
                | Field::Ecn
        )
    }
}

/// One condition of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The field is a number from `first` to `last`.
    Within {
        /// The field that is looked at.
        field: Field,
        /// The least number that matches.
        first: u32,
        /// The greatest number that matches.
        last: u32,
    },
    /// The packet's mark is this value in the bits of the mask, as `nft` and `ip rule` match it.
    Mark {
        /// The bits that the mark must have, within the mask.
        value: u32,
        /// The bits that are looked at.
        mask: u32,
    },
}

/// What becomes of a packet that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The packet belongs to this aggregate, and goes on.
    Aggregate(AggregateId),
    /// The packet goes on at this outlet of the component.
    Outlet(u8),
}

/// One rule of a classifier. Of the conditions on one field, one must hold, for each field that has conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The conditions; a rule without any matches every packet.
    pub conditions: Vec<Condition>,
    /// What becomes of a packet that matches.
    pub target: Target,
}

impl Rule {
    /// Whether the rule matches, by its definition. The classifier answers the same, faster.
    pub fn matches(&self, meta: &Meta) -> bool {
        let holds = |condition: &Condition| match *condition {
            Condition::Within { field, first, last } => (first..=last).contains(&field.value(meta)),
            Condition::Mark { value, mask } => (meta.mark ^ value) & mask == 0,
        };
        let field = |condition: &Condition| match condition {
            Condition::Within { field, .. } => *field,
            Condition::Mark { .. } => Field::Mark,
        };
        Field::EACH.iter().all(|each| {
            let mut of_field =
                self.conditions.iter().filter(|condition| field(condition) == *each).peekable();
            of_field.peek().is_none() || of_field.any(holds)
        })
    }
}

/// The words of one field: for each interval, the rules that take it.
#[derive(Clone, Debug)]
enum Words {
    /// A word for each number below 64.
    Direct(Box<[u64; 64]>),
    /// The least number of each interval, in order, and its word.
    Intervals(Box<[(u32, u64)]>),
}

impl Words {
    fn compile(field: Field, rules: &[Rule]) -> Option<Words> {
        let ranges = |rule: &Rule| {
            let its: Vec<_> = rule
                .conditions
                .iter()
                .filter_map(|condition| match *condition {
                    Condition::Within { field: its, first, last } if its == field => Some((first, last)),
                    _ => None,
                })
                .collect();
            its
        };
        let ranges: Vec<Vec<(u32, u32)>> = rules.iter().map(ranges).collect();
        if ranges.iter().all(Vec::is_empty) {
            return None;
        }
        let word = |value: u32| {
            let takes = |its: &Vec<(u32, u32)>| {
                its.is_empty() || its.iter().any(|(first, last)| (*first..=*last).contains(&value))
            };
            ranges.iter().enumerate().fold(0, |word, (bit, its)| word | u64::from(takes(its)) << bit)
        };
        if field.is_small() {
            return Some(Words::Direct(Box::new(std::array::from_fn(|value| word(value as u32)))));
        }
        let mut starts = vec![0];
        for (first, last) in ranges.iter().flatten() {
            starts.push(*first);
            starts.extend(last.checked_add(1));
        }
        starts.sort_unstable();
        starts.dedup();
        Some(Words::Intervals(starts.into_iter().map(|start| (start, word(start))).collect()))
    }

    fn word(&self, value: u32) -> u64 {
        match self {
            Words::Direct(words) => words[(value & 63) as usize],
            Words::Intervals(intervals) => {
                let above = intervals.partition_point(|(start, _)| *start <= value);
                intervals[above - 1].1
            }
        }
    }
}

/// Up to 64 rules, compiled.
#[derive(Clone, Debug)]
struct Block {
    words: Vec<(Field, Words)>,
    /// The rules that have conditions on the mark with a mask: value, mask and the bit of the rule.
    marks: Vec<(u32, u32, u64)>,
    marked: u64,
    all: u64,
    targets: Vec<Target>,
}

impl Block {
    fn compile(rules: &[Rule]) -> Block {
        let words =
            Field::EACH.iter().filter_map(|field| Some((*field, Words::compile(*field, rules)?))).collect();
        let mut marks = Vec::new();
        for (bit, rule) in rules.iter().enumerate() {
            for condition in &rule.conditions {
                if let Condition::Mark { value, mask } = *condition {
                    marks.push((value & mask, mask, 1 << bit));
                }
            }
        }
        let marked = marks.iter().fold(0, |word, (_, _, bit)| word | bit);
        let all = u64::MAX >> (64 - rules.len());
        Block { words, marks, marked, all, targets: rules.iter().map(|rule| rule.target).collect() }
    }

    fn find(&self, meta: &Meta) -> Option<Target> {
        let mut left = self.all;
        for (field, words) in &self.words {
            left &= words.word(field.value(meta));
            if left == 0 {
                return None;
            }
        }
        if left & self.marked != 0 {
            let hit =
                |(value, mask, bit): &(u32, u32, u64)| if meta.mark & mask == *value { *bit } else { 0 };
            left &= !self.marked | self.marks.iter().map(hit).fold(0, |word, bit| word | bit);
        }
        if left == 0 { None } else { self.targets.get(left.trailing_zeros() as usize).copied() }
    }
}

/// The compiled rules of a classifier. A packet that no rule matches passes as it is.
#[derive(Clone, Debug)]
pub struct Classifier {
    blocks: Vec<Block>,
}

impl Classifier {
    /// A classifier of these rules, in this order. A rule has conditions on the mark either by range or by mask.
    pub fn new(rules: &[Rule]) -> Result<Classifier, SettingsError> {
        for rule in rules {
            let within = |field: Field| {
                let is = |condition: &Condition| matches!(condition, Condition::Within { field: its, .. } if *its == field);
                rule.conditions.iter().any(is)
            };
            for condition in &rule.conditions {
                match *condition {
                    Condition::Within { first, last, .. } if first > last => {
                        return Err(SettingsError::Backwards);
                    }
                    Condition::Mark { .. } if within(Field::Mark) => return Err(SettingsError::MixedMark),
                    _ => {}
                }
            }
        }
        Ok(Classifier { blocks: rules.chunks(64).map(Block::compile).collect() })
    }

    /// The target of the first rule that matches.
    pub fn find(&self, meta: &Meta) -> Option<Target> {
        self.blocks.iter().find_map(|block| block.find(meta))
    }
}

impl Behaviour for Classifier {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        for entry in live(batch) {
            match self.find(&entry.meta) {
                Some(Target::Aggregate(aggregate)) => entry.meta.aggregate = aggregate,
                Some(Target::Outlet(outlet)) => entry.verdict = Verdict::To(outlet),
                None => {}
            }
        }
    }

    fn about(&self) -> About {
        let rules: usize = self.blocks.iter().map(|block| block.targets.len()).sum();
        About { kind: "classify", settings: format!("{rules} rules") }
    }
}
