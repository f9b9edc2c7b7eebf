//! A description made into a graph that runs: components, queues, schedulers, hooks and the dispatcher of its units.
//!
//! Each direction has a graph of its own, since each has components, queues and a thread of its own. Classes get their
//! numbers from the catalogue of the [`House`], and suites from the list that [`suites`] makes of it; both are the same
//! for each graph of an instance, so that packets keep theirs over an exchange.

mod behaviours;
mod foreign;
mod matching;
mod parts;
mod trees;
mod units;

use super::aggregates::Aggregates;
use super::chain::Chain;
use super::description::{Class, Description, Hook, HookPoint, Name};
use super::fault::{Code, Fault};
use super::house::House;
use super::intervals::Addresses;
use super::kinds::{Component, Kind};
use super::lint::lint;
use super::priorities::Priorities;
use super::running::{Graph, Slot};
use super::spanned::Span;
use crate::behaviour::{Classifier, Pacer, SettingsError};
use crate::{AggregateId, Direction};

/// The suites of an instance in the order of their numbers, which packets carry.
pub fn suites(house: &House) -> Vec<String> {
    let used = house.suites.iter().map(|used| used.name.as_str());
    let costs = house.costs.iter().map(|cost| cost.suite.as_str());
    let mut names: Vec<String> = Vec::new();
    for name in house.known_suites.iter().map(String::as_str).chain(used).chain(costs) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Make the graph of one direction. The seed keys the hashes of flows, users and associations.
///
/// # Errors
///
/// Every fault of the description, or the settings that a component refuses.
pub fn compile<T: Send + 'static>(
    description: &Description,
    house: &House,
    direction: Direction,
    seed: u64,
) -> Result<Graph<T>, Vec<Fault>> {
    compiled(description, house, direction, seed, false)
}

/// Make a graph of one direction and forget it, to find what would refuse it. Libraries of components that are not
/// loaded here refuse nothing.
pub(super) fn compile_for_check(
    description: &Description,
    house: &House,
    direction: Direction,
) -> Result<(), Vec<Fault>> {
    compiled::<()>(description, house, direction, 0, true).map(drop)
}

fn compiled<T: Send + 'static>(
    description: &Description,
    house: &House,
    direction: Direction,
    seed: u64,
    only_check: bool,
) -> Result<Graph<T>, Vec<Fault>> {
    let faults = lint(description, house);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut aggregates = house.catalogue.clone();
    for class in &description.classes {
        if aggregates.number(&class.name.value).is_err() {
            return Err(vec![full(&class.name)]);
        }
    }
    let build = Build {
        description,
        house,
        direction,
        seed,
        suites: suites(house),
        aggregates,
        addresses: Addresses::of(description),
        only_check,
    };
    build.graph().map_err(|fault| vec![fault])
}

fn full(name: &Name) -> Fault {
    Fault {
        span: name.span.clone(),
        code: Code::TooMany,
        message: format!("the instance has numbered as many classes as it can, and `{}` is new", name.value),
        remedy: "use the name of a class that there was before".to_owned(),
    }
}

/// What a graph is made from.
struct Build<'d> {
    description: &'d Description,
    house: &'d House,
    direction: Direction,
    seed: u64,
    suites: Vec<String>,
    aggregates: Aggregates,
    addresses: Addresses,
    /// Whether the graph is made to be checked alone, and runs no packet.
    only_check: bool,
}

impl Build<'_> {
    fn graph<T: Send + 'static>(self) -> Result<Graph<T>, Fault> {
        let slots = [
            self.slot(HookPoint::In1a, HookPoint::Out1b)?,
            self.slot(HookPoint::In3a, HookPoint::Out3b)?,
            self.slot(HookPoint::In4a, HookPoint::Out4b)?,
            self.slot(HookPoint::In2a, HookPoint::Out2b)?,
        ];
        let before = self.chain(self.hook(HookPoint::In5a))?;
        let classifier = self.classifier()?;
        let (dispatcher, queues) = self.dispatcher()?;
        let asks_association = self.asks_association();
        let priorities = self.priorities();
        let graph = Graph::new(
            self.direction,
            slots,
            (before, classifier, self.classes()),
            (dispatcher, queues),
            self.aggregates,
            self.suites,
            (self.addresses, asks_association),
        );
        Ok(graph.with_priorities(priorities))
    }

    /// The priorities of this direction's classes.
    fn priorities(&self) -> Option<Box<Priorities>> {
        let classes =
            self.description.classes.iter().filter(|class| class.direction.value.has(self.direction));
        Priorities::of(classes.filter_map(|class| {
            let priority = class.socket_priority.as_ref()?;
            Some((self.class(&class.name.value), priority.value))
        }))
    }

    /// The classes of this direction, one bit each.
    fn classes(&self) -> u64 {
        let classes =
            self.description.classes.iter().filter(|class| class.direction.value.has(self.direction));
        let bit = |class: &Class| 1_u64.checked_shl(self.class(&class.name.value).0.into()).unwrap_or(0);
        classes.map(bit).fold(0, |set, bit| set | bit)
    }

    /// The rules of classes, without a hook: packets are classified anew by it when a graph is exchanged.
    fn classifier(&self) -> Result<Classifier, Fault> {
        self.rules_are_known()?;
        let span = self.description.classes.first().map_or(0..0, |class| class.name.span.clone());
        let refusal = |_| refused(&span, "the rules of classes cannot be compiled", "mend their ranges");
        Classifier::new(&self.class_rules()).map_err(refusal)
    }

    /// The hook of this direction at a point.
    fn hook(&self, at: HookPoint) -> Option<&Hook> {
        let hooks = &mut self.description.hooks.iter();
        hooks.find(|hook| hook.at.value == at && hook.direction.value.has(self.direction))
    }

    fn chain(&self, hook: Option<&Hook>) -> Result<Chain, Fault> {
        let mut links = Vec::new();
        for component in hook.iter().flat_map(|hook| &hook.chain) {
            // A shaper behind a queue is one of the whole queue.
            if component.kind.value != Kind::Shape {
                links.extend(self.behaviour(component)?);
            }
        }
        Ok(Chain::new(links))
    }

    /// The shaper in the chain behind a queue.
    fn shaper(&self, hook: Option<&Hook>) -> Result<Option<Pacer>, Fault> {
        let mut shapers =
            hook.iter().flat_map(|hook| &hook.chain).filter(|part| part.kind.value == Kind::Shape);
        let Some(shaper) = shapers.next() else { return Ok(None) };
        if let Some(second) = shapers.next() {
            return Err(refused(&second.span.span, "a hook has two shapers", "leave one of them"));
        }
        if shaper.word("class").is_some() {
            let remedy = "write `shape` in the queue of the class";
            return Err(refused(
                &shaper.span.span,
                "a shaper of one class stands behind all of them",
                remedy,
            ));
        }
        self.pacer(shaper)
    }

    fn slot<T: Send + 'static>(&self, before: HookPoint, behind: HookPoint) -> Result<Slot<T>, Fault> {
        let (before, behind) = (self.hook(before), self.hook(behind));
        let from = behind.and_then(|hook| hook.from.as_ref());
        let (node, leaves) = self.root(from, self.shaper(behind)?)?;
        Ok(Slot::new(self.chain(before)?, node, self.chain(behind)?, leaves))
    }

    /// The number of a class that lint has found.
    fn class(&self, name: &str) -> AggregateId {
        self.aggregates.find(name).unwrap_or(AggregateId::DEFAULT)
    }
}

fn refused(span: &Span, message: &str, remedy: &str) -> Fault {
    let (message, remedy) = (message.to_owned(), remedy.to_owned());
    Fault { span: span.clone(), code: Code::WrongPlace, message, remedy }
}

/// The fault of settings that a component refuses.
fn settings(component: &Component, error: SettingsError) -> Fault {
    Fault {
        span: component.span.span.clone(),
        code: Code::OutOfRange,
        message: format!("`{}` refuses its settings: {error}", component.kind.value.name()),
        remedy: "change the settings".to_owned(),
    }
}
