//! Names: each leads to something, and none stands for two things.

use super::super::description::{Description, Name};
use super::super::fault::{Code, meant};
use super::super::house::House;
use super::super::intervals::{Intervals, starts_of_destinations, starts_of_peers, starts_of_sources};
use super::super::kinds::{Component, EXCESS, Form, Profile, Value};
use super::super::rules::Field;
use super::super::spanned::Span;
use super::faults::Faults;

/// The most classes in a graph.
const CLASSES: usize = super::super::aggregates::MOST;
/// The most units in a graph: a packet holds one bit for each.
const UNITS: usize = 16;

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    let look = Look { description };
    for hook in &description.hooks {
        if let Some(from) = &hook.from {
            look.node(from, faults);
        }
        if let Some(unit) = &hook.unit {
            let units = description.units.iter().map(|unit| &unit.name);
            look.one(unit, "unit", units, faults);
        }
        hook.chain.iter().for_each(|part| look.component(part, faults));
    }
    for scheduler in &description.schedulers {
        scheduler.children.iter().for_each(|child| look.node(&child.to, faults));
        scheduler.shape.iter().for_each(|part| look.component(part, faults));
    }
    for queue in &description.queues {
        queue.classes.iter().for_each(|name| look.class(name, faults));
        if let Some(tunnel) = &queue.tunnel {
            let tunnels = description.tunnels.iter().map(|tunnel| &tunnel.name);
            look.one(tunnel, "tunnel", tunnels, faults);
        }
        queue.shape.iter().for_each(|part| look.component(part, faults));
        if let Some(twin) = description.schedulers.iter().find(|scheduler| scheduler.name == queue.name) {
            let place = if twin.name.span.start > queue.name.span.start { &twin.name } else { &queue.name };
            let message = format!("`{}` names a queue and a scheduler", queue.name.value);
            faults.add(&place.span, Code::Duplicate, message, "give one of them another name");
        }
    }
    let made = "give another name to the class or tunnel that it is made from";
    twice(description.queues.iter().map(|queue| &queue.name), "queue", made, faults);
    twice(description.schedulers.iter().map(|scheduler| &scheduler.name), "scheduler", made, faults);
    for unit in &description.units {
        unit.reserved.iter().for_each(|name| look.class(name, faults));
        for suite in unit.suites.iter().flatten() {
            if !house.known_suites.is_empty() && !house.known_suites.contains(&suite.value) {
                let remedy = meant(&suite.value, house.known_suites.iter().map(String::as_str));
                faults.add(
                    &suite.span,
                    Code::UnknownName,
                    format!("there is no suite `{}`", suite.value),
                    remedy,
                );
            }
        }
    }
    for kernel in &description.kernel {
        kernel.classes.iter().for_each(|name| look.class(name, faults));
    }
    if let Some(class) = description.classes.get(CLASSES) {
        let message = format!("the graph has {} classes", description.classes.len());
        faults.add(
            &class.name.span,
            Code::TooMany,
            message,
            format!("an instance can have {CLASSES}: remove some"),
        );
    }
    if let Some(unit) = description.units.get(UNITS) {
        let message = format!("the graph has {} units", description.units.len());
        faults.add(&unit.name.span, Code::TooMany, message, format!("a graph can have {UNITS}: remove some"));
    }
    too_many_prefixes(description, faults);
}

/// Refuse more prefixes of addresses than their intervals have numbers for.
fn too_many_prefixes(description: &Description, faults: &mut Faults) {
    let rule = |field: Field| {
        let mut rows = description.rules().flat_map(|rule| &rule.fields);
        rows.find(|row| row.field.value == field).map(|row| row.field.span.clone())
    };
    let kinds = [
        ("peer", starts_of_peers(description).len(), rule(Field::Peer)),
        ("source", starts_of_sources(description).len(), rule(Field::Source)),
        ("destination", starts_of_destinations(description).len(), rule(Field::Destination)),
    ];
    for (by, edges, rule) in kinds.into_iter().filter(|(_, edges, _)| *edges > Intervals::MOST) {
        let profiles =
            || description.users().find(|users| users.word("by") == Some(by)).map(|users| users.place("by"));
        let Some(span) = rule.or_else(profiles) else { continue };
        let message = format!("the prefixes of `{by}` begin and end at {edges} addresses");
        let remedy = format!("a graph can have {}: write fewer prefixes, or shorter ones", Intervals::MOST);
        faults.add(&span, Code::TooMany, message, remedy);
    }
}

/// Note a name that stands twice, as names made from classes and tunnels may.
fn twice<'d>(names: impl Iterator<Item = &'d Name>, kind: &str, remedy: &str, faults: &mut Faults) {
    let mut before: Vec<&Name> = Vec::new();
    for name in names {
        if before.contains(&name) {
            let message = format!("two {kind}s are called `{}`", name.value);
            faults.add(&name.span, Code::Duplicate, message, remedy);
        }
        before.push(name);
    }
}

struct Look<'d> {
    description: &'d Description,
}

impl Look<'_> {
    fn one<'n>(&self, name: &Name, kind: &str, known: impl Iterator<Item = &'n Name>, faults: &mut Faults) {
        let known: Vec<&str> = known.map(|name| name.value.as_str()).collect();
        if !known.contains(&name.value.as_str()) {
            let message = format!("there is no {kind} `{}`", name.value);
            faults.add(&name.span, Code::UnknownName, message, meant(&name.value, known));
        }
    }

    fn class(&self, name: &Name, faults: &mut Faults) {
        self.one(name, "class", self.description.classes.iter().map(|class| &class.name), faults);
    }

    fn node(&self, name: &Name, faults: &mut Faults) {
        let schedulers = self.description.schedulers.iter().map(|scheduler| &scheduler.name);
        let queues = self.description.queues.iter().map(|queue| &queue.name);
        self.one(name, "scheduler or queue", schedulers.chain(queues), faults);
    }

    /// A word of `excess` that is no class: a class of that name would be mistaken for it.
    fn excess_word(&self, word: &str, span: Span, faults: &mut Faults) {
        if self.description.find_class(word).is_some() {
            let message = format!("`excess = \"{word}\"` names no class, though there is a class `{word}`");
            faults.add(&span, Code::UnknownWord, message, "give the class another name");
        }
    }

    /// The names in the settings of a component.
    fn component(&self, component: &Component, faults: &mut Faults) {
        for setting in &component.settings {
            let form = component.kind.value.settings().iter().find(|row| row.name == setting.name);
            match (&setting.value.value, form.map(|row| row.form)) {
                (Value::Word(word), Some(Form::Excess)) if EXCESS.contains(&word.as_str()) => {
                    self.excess_word(word, setting.value.span.clone(), faults);
                }
                (Value::Word(word), Some(Form::Class | Form::Excess)) => {
                    self.class(&Name::at(word.clone(), setting.value.span.clone()), faults);
                }
                (Value::Word(word), Some(Form::Uplink)) => {
                    let name = Name::at(word.clone(), setting.value.span.clone());
                    self.one(
                        &name,
                        "uplink",
                        self.description.uplinks.iter().map(|uplink| &uplink.name),
                        faults,
                    );
                }
                (Value::Names(names), _) => names.iter().for_each(|name| self.class(name, faults)),
                (Value::Profiles(profiles), _) => {
                    profiles.iter().flat_map(Profile::classes).for_each(|class| self.class(class, faults));
                    twice(
                        profiles.iter().map(|profile| &profile.name),
                        "profile",
                        "give one of them another name",
                        faults,
                    );
                }
                _ => {}
            }
        }
    }
}
