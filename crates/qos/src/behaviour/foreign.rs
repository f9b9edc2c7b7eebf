//! A behaviour whose code comes from outside of the tree: what it is shown, what it may answer, and what becomes of it
//! if it answers something else.
//!
//! What enters: packets as [`PacketView`], in the layout of the C header `include/ravelin-qos.h`. What leaves: an [`Answer`]
//! for each, which is judged here before anything follows from it. The call itself is an [`Instance`]'s, which the room
//! `qos-loader` has for shared libraries. A component that breaks a rule is detached: it is not called again, and its
//! packets pass or end, as the description says.

mod answer;
mod instance;
mod library;
mod packet_view;
mod report;

pub use answer::{Action, Answer, BrokenRule, Judged};
pub use instance::{Detached, Instance, MOST_PACKETS, OnFault, Times};
pub(crate) use library::Absent;
pub use library::{Libraries, Library, LibraryState, Maker, SharedMaker};
pub use packet_view::{Call, PacketView};
pub use report::Report;

use super::only::AggregateSet;
use crate::component::{About, Behaviour, Cause, Context, Entry, Verdict};
use crate::meta::AggregateId;

/// The settings of a component in a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignSettings {
    /// The name of the library, as the configuration has it.
    pub library: String,
    /// The classes whose packets it judges; `None`: those of all.
    pub only: Option<AggregateSet>,
    /// The classes that it can send packets to, by the numbers of their places.
    pub ports: Vec<AggregateId>,
    /// What becomes of packets if it is detached.
    pub on_fault: OnFault,
    /// The nanoseconds of a processor that a call may take.
    pub budget_ns: u64,
}

/// A component from outside, attached to a hook.
pub struct Foreign {
    settings: ForeignSettings,
    instance: Box<dyn Instance>,
    detached: Option<Detached>,
    calls: u64,
    packets: u64,
    dropped: u64,
    /// Packets that came when the component was detached.
    unjudged: u64,
    seen: Vec<PacketView>,
    answers: Vec<Answer>,
}

impl Foreign {
    /// Attach an instance with these settings.
    pub fn new(settings: ForeignSettings, instance: Box<dyn Instance>) -> Foreign {
        Foreign {
            settings,
            instance,
            detached: None,
            calls: 0,
            packets: 0,
            dropped: 0,
            unjudged: 0,
            seen: Vec::with_capacity(MOST_PACKETS),
            answers: Vec::with_capacity(MOST_PACKETS),
        }
    }

    /// What the component has done, and whether it is still called.
    pub fn report(&self) -> Report {
        let Times { over_budget, longest_ns } = self.instance.times();
        Report {
            library: self.settings.library.clone(),
            on_fault: self.settings.on_fault,
            detached: self.detached,
            calls: self.calls,
            packets: self.packets,
            dropped: self.dropped,
            unjudged: self.unjudged,
            over_budget,
            longest_ns,
        }
    }

    fn is_mine(&self, entry: &Entry) -> bool {
        !matches!(entry.verdict, Verdict::Drop(_))
            && self.settings.only.as_ref().is_none_or(|only| only.has(entry.meta.aggregate))
    }

    /// Judge at most [`MOST_PACKETS`] packets.
    fn judge(&mut self, batch: &mut [Entry], context: &Context) {
        self.seen.clear();
        self.answers.clear();
        for entry in batch.iter() {
            if self.is_mine(entry) {
                self.seen.push(PacketView::of(&entry.meta));
                self.answers.push(Answer::NONE);
            }
        }
        if self.seen.is_empty() {
            return;
        }
        let mut wrong = None;
        if self.detached.is_none() {
            self.calls += 1;
            let call = Call { now_ns: context.now.0, random: context.random };
            wrong = self.instance.judge(&call, &self.seen, &mut self.answers).err();
        }
        let mut at = 0;
        for entry in batch.iter_mut() {
            if !self.is_mine(entry) {
                continue;
            }
            let answer = self.answers.get(at).copied().unwrap_or(Answer::NONE);
            at += 1;
            if self.detached.is_some() {
                self.leave(entry);
                continue;
            }
            match answer.judged(self.settings.ports.len()) {
                Ok(judged) => {
                    self.packets += entry.meta.amount.packets;
                    if matches!(judged.action, Action::Drop(_)) {
                        self.dropped += entry.meta.amount.packets;
                    }
                    judged.carry_out(&self.settings.ports, entry);
                }
                Err(broken) => {
                    self.detach(wrong.unwrap_or(Detached::Answer(broken)));
                    self.leave(entry);
                }
            }
        }
        if let Some(why) = wrong
            && self.detached.is_none()
        {
            self.detach(why);
        }
    }

    fn detach(&mut self, why: Detached) {
        self.detached = Some(why);
        self.instance.abandon();
    }

    /// A packet that the component does not judge.
    fn leave(&mut self, entry: &mut Entry) {
        self.unjudged += entry.meta.amount.packets;
        if self.settings.on_fault == OnFault::Drop {
            entry.verdict = Verdict::Drop(Cause::Component);
        }
    }
}

impl Behaviour for Foreign {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        for part in batch.chunks_mut(MOST_PACKETS) {
            self.judge(part, context);
        }
    }

    fn about(&self) -> About {
        let ForeignSettings { library, budget_ns, on_fault, ports, .. } = &self.settings;
        let ports = ports.len();
        let settings =
            format!("library {library}, budget {budget_ns} ns, on fault {}, {ports} ports", on_fault.word());
        About { kind: "foreign", settings }
    }
}
