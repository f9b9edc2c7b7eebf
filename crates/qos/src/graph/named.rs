//! What rules of a graph name that something else has: applications and associations.

use std::collections::BTreeSet;

use super::description::Description;
use super::rules::{Field, FieldValue};

/// The names that the rules of classes and tunnels look for in a field.
pub fn named(description: &Description, field: Field) -> BTreeSet<&str> {
    let fields = description.rules().flat_map(|rule| &rule.fields).filter(|row| row.field.value == field);
    let values = fields.flat_map(|row| &row.values);
    values
        .filter_map(|value| match &value.value {
            FieldValue::Text(name) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}
