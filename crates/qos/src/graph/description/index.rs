//! Look-ups over a description: what a name is, what lies below it, what a hook leads to.

use super::super::kinds::{Component, Kind, Profile, Value};
use super::super::rules::{Matches, Rule};
use super::{Class, Description, Hook, HookPoint, Name, Queue, Scheduler, Unit};
use crate::Direction;

/// A node of the trees behind hooks.
#[derive(Clone, Copy, Debug)]
pub enum NodeRef<'d> {
    /// A queue, which is a leaf.
    Queue(&'d Queue),
    /// A scheduler over further nodes.
    Scheduler(&'d Scheduler),
}

/// A tree behind a hook.
#[derive(Clone, Copy, Debug)]
pub struct Root<'d> {
    /// The hook that leads to it.
    pub hook: &'d Hook,
    /// The scheduler or queue at its root.
    pub name: &'d Name,
}

impl Description {
    /// The rules of classes, in the order in which they are asked.
    pub fn class_rules(&self) -> impl Iterator<Item = &Rule> {
        let of_classes = self.classes.iter().filter_map(|class| match &class.matches.value {
            Matches::Rules(rules) => Some(rules),
            Matches::Named | Matches::Rest => None,
        });
        of_classes.flatten()
    }

    /// The rules of classes, and behind them those of tunnels.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.class_rules().chain(self.tunnels.iter().flat_map(|tunnel| &tunnel.rules))
    }

    /// The components that tell users apart, at every hook.
    pub fn users(&self) -> impl Iterator<Item = &Component> {
        let components = self.hooks.iter().flat_map(|hook| &hook.chain);
        components.filter(|component| component.kind.value == Kind::Users)
    }

    /// The class of a name.
    pub fn find_class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name.value == name)
    }

    /// The unit of a name.
    pub fn find_unit(&self, name: &str) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.name.value == name)
    }

    /// The scheduler or queue of a name.
    pub fn find_node(&self, name: &str) -> Option<NodeRef<'_>> {
        let scheduler = self.schedulers.iter().find(|scheduler| scheduler.name.value == name);
        let queue = || self.queues.iter().find(|queue| queue.name.value == name).map(NodeRef::Queue);
        scheduler.map(NodeRef::Scheduler).or_else(queue)
    }

    /// The queues below a name, itself if it is one. Names that lead to themselves are passed over.
    pub fn leaves(&self, name: &str) -> Vec<&Queue> {
        let mut queues = Vec::new();
        self.gather(name, &mut Vec::new(), &mut queues);
        queues
    }

    fn gather<'d>(&'d self, name: &str, above: &mut Vec<String>, queues: &mut Vec<&'d Queue>) {
        if above.iter().any(|name_above| name_above == name) {
            return;
        }
        match self.find_node(name) {
            Some(NodeRef::Queue(queue)) => queues.push(queue),
            Some(NodeRef::Scheduler(scheduler)) => {
                above.push(name.to_owned());
                for child in &scheduler.children {
                    self.gather(&child.to.value, above, queues);
                }
                above.pop();
            }
            None => {}
        }
    }

    /// The classes that a scheduler lets go ahead of others: those below every child of strict priority but the last.
    pub fn urgent(&self, name: &str) -> Vec<&Name> {
        let Some(NodeRef::Scheduler(scheduler)) = self.find_node(name) else { return Vec::new() };
        let is_strict = scheduler.discipline.kind.value == Kind::Strict;
        let ahead = if is_strict { scheduler.children.len().saturating_sub(1) } else { 0 };
        let queues = scheduler.children.iter().take(ahead).flat_map(|child| self.leaves(&child.to.value));
        queues.flat_map(|queue| &queue.classes).collect()
    }

    /// The hook 5b of a unit in a direction: its own, or that of units without one.
    pub fn unit_hook(&self, unit: &Unit, direction: Direction) -> Option<&Hook> {
        let at_units =
            |hook: &&Hook| hook.at.value == HookPoint::Out5b && hook.direction.value.has(direction);
        let hooks = || self.hooks.iter().filter(at_units);
        let own = |hook: &&Hook| hook.unit.as_ref().is_some_and(|name| name.value == unit.name.value);
        hooks().find(own).or_else(|| hooks().find(|hook| hook.unit.is_none()))
    }

    /// Whether a node is another one, or lies below it.
    pub fn is_below(&self, above: &str, name: &str) -> bool {
        let mut names = vec![above];
        let mut next = 0;
        while let Some(at) = names.get(next).copied() {
            if at == name {
                return true;
            }
            next += 1;
            if let Some(NodeRef::Scheduler(scheduler)) = self.find_node(at) {
                let children = scheduler.children.iter().map(|child| child.to.value.as_str());
                let fresh: Vec<&str> = children.filter(|child| !names.contains(child)).collect();
                names.extend(fresh);
            }
        }
        false
    }

    /// The trees that packets of a direction wait in, in the order in which they meet them.
    pub fn roots(&self, direction: Direction) -> Vec<Root<'_>> {
        let hooks = self.hooks.iter().filter(|hook| hook.direction.value.has(direction));
        let mut roots: Vec<Root<'_>> =
            hooks.filter_map(|hook| Some(Root { hook, name: hook.from.as_ref()? })).collect();
        roots.sort_by_key(|root| root.hook.at.value.order());
        roots
    }

    /// The components of a direction in the chain of every hook, in the order in which packets meet them.
    pub fn chain(&self, direction: Direction) -> Vec<(HookPoint, &Component)> {
        let mut hooks: Vec<&Hook> =
            self.hooks.iter().filter(|hook| hook.direction.value.has(direction)).collect();
        hooks.sort_by_key(|hook| hook.at.value.order());
        hooks.iter().flat_map(|hook| hook.chain.iter().map(|part| (hook.at.value, part))).collect()
    }

    /// Whether a component from outside stands in a chain.
    pub fn has_foreign(&self) -> bool {
        let mut parts = self.hooks.iter().flat_map(|hook| &hook.chain);
        parts.any(|part| part.kind.value == Kind::Foreign)
    }

    /// The policer of a class in a direction.
    pub fn policer(&self, class: &str, direction: Direction) -> Option<&Component> {
        let mut parts = self.chain(direction).into_iter().map(|(_, component)| component);
        parts.find(|part| part.kind.value == Kind::Police && part.word("class") == Some(class))
    }

    /// The policer that bounds what a class asks for behind the point of order `before`: the last one in front of it.
    ///
    /// A policer that gives its excess a colour or a mark bounds nothing. No policer bounds a class that packets of another
    /// one join behind it, as the excess of that class or by a profile of users.
    pub fn bounding_policer(&self, class: &str, direction: Direction, before: u8) -> Option<&Component> {
        let chain = self.chain(direction);
        let is_policer = |(at, part): &(HookPoint, &Component)| {
            at.order() < before
                && part.kind.value == Kind::Police
                && part.word("class") == Some(class)
                && part.takes_excess_out()
        };
        let place = chain.iter().rposition(is_policer)?;
        let (_, policer) = chain.get(place)?;
        let mut behind = chain.iter().skip(place + 1).map(|(_, part)| *part);
        let joins = |part: &Component| {
            let moves = match part.get("profiles").map(|profiles| &profiles.value) {
                Some(Value::Profiles(profiles)) => {
                    profiles.iter().flat_map(Profile::classes).any(|to| to.value == class)
                }
                _ => {
                    part.excess_class() == Some(class) || part.names("ports").any(|port| port.value == class)
                }
            };
            moves && part.word("class") != Some(class)
        };
        if behind.any(joins) { None } else { Some(policer) }
    }

    /// The order of the first point behind which a class waits in a direction; the last one if it waits nowhere.
    pub fn first_wait(&self, class: &str, direction: Direction) -> u8 {
        let waits = |root: &&Root<'_>| {
            let queues = self.leaves(&root.name.value);
            queues.iter().any(|queue| queue.classes.iter().any(|name| name.value == class))
        };
        self.roots(direction).iter().find(waits).map_or(u8::MAX, |root| root.hook.at.value.order())
    }

    /// The class that takes what no other one takes.
    pub fn rest(&self, direction: Direction) -> Option<&Class> {
        let mut classes = self.classes.iter().filter(|class| class.direction.value.has(direction));
        classes.find(|class| class.matches.value == Matches::Rest)
    }
}

impl Unit {
    /// Whether the unit may serve a class.
    pub fn serves(&self, class: &str) -> bool {
        self.reserved.is_empty() || self.reserved.iter().any(|name| name.value == class)
    }

    /// Whether the unit can do a suite.
    pub fn can(&self, suite: &str) -> bool {
        self.suites.as_ref().is_none_or(|suites| suites.iter().any(|name| name.value == suite))
    }
}
