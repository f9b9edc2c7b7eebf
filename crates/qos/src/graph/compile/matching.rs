//! Rules of classes and tunnels, made into conditions on what is known of a packet that waits.

use super::super::fault::{Code, Fault};
use super::super::rules::{Field as Named, FieldMatch, FieldValue, Matches, Rule as NamedRule};
use super::Build;
use crate::behaviour::{Condition, Field, Rule, Target};
use crate::{AggregateId, Direction};

impl Build<'_> {
    /// The rules that give packets their classes. A class that the policy, a rule or the association named stays.
    pub(super) fn class_rules(&self) -> Vec<Rule> {
        let classes =
            || self.description.classes.iter().filter(|class| class.direction.value.has(self.direction));
        let mut rules = Vec::new();
        for class in classes() {
            let id = self.class(&class.name.value);
            if id != AggregateId::DEFAULT {
                let conditions = vec![Field::Aggregate.is(u32::from(id.0))];
                rules.push(Rule { conditions, target: Target::Aggregate(id) });
            }
        }
        for class in classes() {
            let target = Target::Aggregate(self.class(&class.name.value));
            match &class.matches.value {
                Matches::Rules(list) => rules.extend(list.iter().filter_map(|rule| self.rule(rule, target))),
                Matches::Named | Matches::Rest => {}
            }
        }
        if let Some(rest) = self.description.rest(self.direction) {
            let target = Target::Aggregate(self.class(&rest.name.value));
            rules.push(Rule { conditions: Vec::new(), target });
        }
        rules
    }

    /// A rule as conditions; `None` if nothing of this gateway can match it.
    pub(super) fn rule(&self, rule: &NamedRule, target: Target) -> Option<Rule> {
        let mut conditions = Vec::new();
        for field in &rule.fields {
            let its: Vec<Condition> =
                field.values.iter().flat_map(|value| self.conditions(field, &value.value)).collect();
            if its.is_empty() {
                return None;
            }
            conditions.extend(its);
        }
        Some(Rule { conditions, target })
    }

    fn conditions(&self, of: &FieldMatch, value: &FieldValue) -> Vec<Condition> {
        let number =
            |field: Field, number: Option<u32>| number.map(|number| field.is(number)).into_iter().collect();
        match (of.field.value, value) {
            (Named::Dscp, FieldValue::Dscp(dscp)) => vec![Field::InnerDscp.is(u32::from(*dscp))],
            (Named::OuterDscp, FieldValue::Dscp(dscp)) => vec![Field::OuterDscp.is(u32::from(*dscp))],
            (Named::Header, FieldValue::Header(kind)) => vec![Field::Header.is(*kind as u32)],
            (Named::Spi, FieldValue::Number(spi)) => vec![Field::Spi.is(*spi)],
            (Named::Key, FieldValue::Number(key)) => vec![Field::Key.is(*key)],
            (Named::Index, FieldValue::Number(index)) => vec![Field::Index.is(*index)],
            (Named::Mark, FieldValue::Mark(value, mask)) => {
                vec![Condition::Mark { value: *value, mask: *mask }]
            }
            (Named::Association, FieldValue::Text(name)) => {
                number(Field::Association, self.association(name))
            }
            (Named::Application, FieldValue::Text(name)) => number(Field::App, self.application(name)),
            (Named::Suite, FieldValue::Text(name)) => {
                let place = self.suites.iter().position(|suite| suite == name);
                number(Field::Suite, place.and_then(|place| u32::try_from(place).ok()))
            }
            (Named::Peer, prefix) => self
                .addresses
                .peers
                .range(prefix)
                .map(|range| Field::Peer.within(range))
                .into_iter()
                .collect(),
            // What arrives hides its inner flow.
            (field, _) if field.is_of_inner_flow() && self.direction == Direction::Inbound => Vec::new(),
            (Named::Source, prefix) => {
                let range = self.addresses.sources.range(prefix);
                range.map(|range| Field::Source.within(range)).into_iter().collect()
            }
            (Named::Destination, prefix) => {
                let range = self.addresses.destinations.range(prefix);
                range.map(|range| Field::Destination.within(range)).into_iter().collect()
            }
            (Named::Protocol, FieldValue::Number(number)) => vec![Field::Protocol.is(*number)],
            (Named::SourcePort, value) => ports(Field::SourcePort, value).into_iter().collect(),
            (Named::Port, value) => ports(Field::Port, value).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a rule of a class asks for what is known behind the look-up alone.
    pub(super) fn asks_association(&self) -> bool {
        let rows = self.description.class_rules().flat_map(|rule| &rule.fields);
        let mut fields = rows.map(|row| row.field.value);
        fields.any(|field| field.is_of_associations() || matches!(field, Named::Peer | Named::Header))
    }

    /// Refuse rules over fields that nobody reads before a packet waits.
    pub(super) fn rules_are_known(&self) -> Result<(), Fault> {
        let mut fields = self.description.rules().flat_map(|rule| &rule.fields);
        let unread = |field: &&FieldMatch| field.field.value == Named::Uid;
        let Some(field) = fields.find(unread) else { return Ok(()) };
        Err(Fault {
            span: field.field.span.clone(),
            code: Code::UnknownKey,
            message: "the graph does not look at users of the host: the kernel's record of a packet has no room for one"
                .to_owned(),
            remedy: "match by `application`, or name the class in an item of the policy and match by `named`"
                .to_owned(),
        })
    }

    /// The number of an association.
    pub(super) fn association(&self, name: &str) -> Option<u32> {
        let associations = &mut self.house.associations.iter();
        associations.find(|association| association.name == name).map(|association| association.number)
    }

    /// The number of an application.
    pub(super) fn application(&self, name: &str) -> Option<u32> {
        let applications = &mut self.house.applications.iter();
        applications.find(|(known, _)| known == name).map(|(_, number)| u32::from(*number))
    }
}

/// The condition on a port. A packet without ports has the number 0 there, which no port is.
fn ports(field: Field, value: &FieldValue) -> Option<Condition> {
    match value {
        FieldValue::Number(port) => Some(field.is((*port).max(1))),
        FieldValue::Range(first, last) => Some(field.within(u32::from(*first).max(1)..=u32::from(*last))),
        _ => None,
    }
}
