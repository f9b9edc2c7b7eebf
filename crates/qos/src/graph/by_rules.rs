//! What the rules of classes ask for, in words: for answers about traffic of which no packet is at hand.

use super::description::Description;
use super::print::field_value;
use super::rules::{Field, FieldMatch, Matches, Rule, word};
use crate::Direction;

/// The classes that packets of a direction get by the rules of a graph, in the order in which these are asked, and the
/// one that takes what the others leave: `ef for dscp EF or VA, else rest`.
pub fn classes_by_rules(description: &Description, direction: Direction) -> String {
    let mut parts = Vec::new();
    for class in description.classes.iter().filter(|class| class.direction.value.has(direction)) {
        if let Matches::Rules(rules) = &class.matches.value {
            let rules: Vec<String> = rules.iter().map(rule_words).collect();
            parts.push(format!("{} for {}", class.name.value, rules.join(", or for ")));
        }
    }
    let rest = description.rest(direction).map_or("", |class| class.name.value.as_str());
    if parts.is_empty() {
        return rest.to_owned();
    }
    format!("{}, else {rest}", parts.join(", "))
}

/// A rule, all of whose fields must match.
fn rule_words(rule: &Rule) -> String {
    let fields: Vec<String> = rule.fields.iter().map(field_words).collect();
    fields.join(" and ")
}

/// A field with the values of which one must match.
fn field_words(field: &FieldMatch) -> String {
    let name = word(Field::WORDS, &field.field.value).unwrap_or_default();
    let values = field.values.iter().map(|value| field_value(field.field.value, &value.value));
    let values: Vec<String> = values.map(|value| value.trim_matches('"').to_owned()).collect();
    format!("{name} {}", values.join(" or "))
}
