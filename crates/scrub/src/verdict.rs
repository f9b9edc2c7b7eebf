//! The outcome of a packet, and the rules that it met on its way.

use crate::config::Config;
use crate::rule::{Mode, Rule, Rules};
use std::collections::VecDeque;
use wire::{Buf, Time};

/// One of the two sides of the scrubber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Side {
    /// The side where nobody is trusted.
    Outside,
    /// The side that is protected.
    Inside,
}

impl Side {
    /// The other of the two sides.
    #[must_use]
    pub const fn other(self) -> Side {
        match self {
            Side::Outside => Side::Inside,
            Side::Inside => Side::Outside,
        }
    }

    /// The index of the side: 0 outside, 1 inside.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word for the side in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Outside => "outside",
            Side::Inside => "inside",
        }
    }
}

/// The place that a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The side that it came from.
    pub from: Side,
    /// The link (interface, VLAN) that it came by; fragments of different links never mix.
    pub link: u32,
    /// The network that its addresses belong to, where several have the same ones (VLANs of a line); zero where there
    /// is one. Connections of different realms never mix.
    pub realm: u32,
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet goes on to the other side as the buffer now has it.
    Forward,
    /// The packet is dropped by this rule.
    Drop(Rule),
    /// The packet is a fragment that is kept until its packet is whole.
    Hold,
    /// The packet that it made whole goes on in fragments, which are among the [`Emitted`].
    Fragmented,
}

/// The rules that a packet met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleHits {
    /// The rules that changed or dropped it.
    pub acted: Rules,
    /// The rules that only observe and would have changed or dropped it.
    pub would: Rules,
}

impl RuleHits {
    /// Whether it is worth a line in a log. Other numbers of a connection outside (rule Q.4) are not, since each of its
    /// packets has them.
    pub fn is_incident(&self) -> bool {
        self.acted.iter().chain(self.would.iter()).any(|rule| rule != Rule::IsnModulation)
    }
}

/// The answer of the scrubber for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The outcome of the packet.
    pub outcome: Outcome,
    /// The rules that it met.
    pub met: RuleHits,
}

/// A packet of the scrubber's own, or a fragment of one that it cut.
#[derive(Debug)]
pub struct Emitted {
    /// The side that it goes to.
    pub to: Side,
    /// The packet, with room in front.
    pub buf: Buf,
    /// The realm of its addresses.
    pub realm: u32,
    /// The rule that is the reason for it.
    pub why: Rule,
}

/// The reason why the work on a packet ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Drop(Rule),
    /// A rule that only observes would have dropped it, so it passes as it is.
    Pass,
}

/// The parts of a scrubber that all stages may use while one packet is at work.
pub(crate) struct Context<'s> {
    pub now: Time,
    pub arrival: Arrival,
    /// The queue for packets that the scrubber makes itself.
    pub emitted: &'s mut VecDeque<Emitted>,
}

impl Context<'_> {
    pub fn emit(&mut self, to: Side, buf: Buf, why: Rule) {
        self.emit_in(self.arrival.realm, to, buf, why);
    }

    /// Emit a packet about something in another realm than that of the packet at work.
    pub fn emit_in(&mut self, realm: u32, to: Side, buf: Buf, why: Rule) {
        self.emitted.push_back(Emitted { to, buf, realm, why });
    }
}

/// The work on one packet. It asks the configuration and keeps account.
#[derive(Debug)]
pub(crate) struct Job<'c> {
    pub config: &'c Config,
    pub met: RuleHits,
}

impl<'c> Job<'c> {
    pub fn new(config: &'c Config) -> Job<'c> {
        Job { config, met: RuleHits::default() }
    }

    /// Count that the rule wants to change something. Returns whether to do it.
    #[inline]
    pub fn acts(&mut self, rule: Rule) -> bool {
        match self.config.mode(rule) {
            Mode::On => self.met.acted.insert(rule),
            Mode::Observe => self.met.would.insert(rule),
            Mode::Off => {}
        }
        self.config.mode(rule) == Mode::On
    }

    /// Refuse the packet by this rule. The work goes on where the rule is off, and where it only observes: all the
    /// others still hold for the packet. Where nothing acts, or nothing behind the rule could read it, the packet
    /// passes as it is.
    #[inline]
    pub fn refuse(&mut self, rule: Rule) -> Result<(), Stop> {
        if self.acts(rule) {
            return Err(Stop::Drop(rule));
        }
        let observes = self.config.mode(rule) == Mode::Observe;
        if observes && (rule.is_structural() || self.config.is_observing()) {
            Err(Stop::Pass)
        } else {
            Ok(())
        }
    }

    /// Refuse the packet, unless it may well be honest where packets are only seen; then it is counted as observed.
    pub fn refuse_unless(&mut self, honest: bool, rule: Rule) -> Result<(), Stop> {
        if !honest {
            return self.refuse(rule);
        }
        if self.watches(rule) {
            self.met.would.insert(rule);
        }
        Ok(())
    }

    /// Refuse a packet that cannot be read any further. (A structural rule is never off.)
    pub fn unreadable(&mut self, rule: Rule) -> Stop {
        self.refuse(rule).err().unwrap_or(Stop::Drop(rule))
    }

    /// Whether the rule is on or observes.
    pub fn watches(&self, rule: Rule) -> bool {
        self.config.mode(rule) != Mode::Off
    }

    pub fn is_on(&self, rule: Rule) -> bool {
        self.config.mode(rule) == Mode::On
    }
}
