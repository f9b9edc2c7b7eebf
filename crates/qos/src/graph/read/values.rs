//! Single values: names, words, numbers, quantities.

use std::collections::BTreeSet;

use toml::de::{DeArray, DeTable, DeValue};

use super::super::description::{Directions, Dispatch, Name, Span, Spanned};
use super::super::fault::{Code, meant};
use super::super::kinds::LARGEST;
use super::super::priorities::{HandleFault, handle};
use super::super::quantity;
use super::{Node, Reader};

/// A quantity with a unit: how it is read, and an example.
#[derive(Clone, Copy)]
pub(in super::super) struct Measure {
    parse: fn(&str) -> Option<u64>,
    noun: &'static str,
    example: &'static str,
}

pub(super) const TIME: Measure = Measure { parse: quantity::time, noun: "a time", example: "5ms" };
pub(super) const RATE: Measure = Measure { parse: quantity::rate, noun: "a rate", example: "20Mbit" };
pub(super) const OCTETS: Measure = Measure { parse: quantity::octets, noun: "octets", example: "20kB" };
pub(super) const SHARE: Measure = Measure { parse: quantity::share, noun: "a share", example: "80%" };

impl Reader {
    /// The type of a value with its article.
    pub(super) fn type_of(value: &Node<'_>) -> &'static str {
        match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    /// The octets where a value stands.
    pub(super) fn of(&self, value: &Node<'_>) -> Span {
        self.span(value.span())
    }

    pub(super) fn wrong_type(
        &mut self,
        value: &Node<'_>,
        what: &str,
        wanted: &str,
        remedy: impl Into<String>,
    ) {
        let found = Reader::type_of(value);
        let message = format!("`{what}` must be {wanted}, not {found}");
        self.fault(self.of(value), Code::WrongType, message, remedy);
    }

    pub(super) fn text(&mut self, value: &Node<'_>, what: &str) -> Option<Name> {
        match value.get_ref().as_str() {
            Some(text) => Some(Spanned::at(text.to_owned(), self.of(value))),
            None => {
                self.wrong_type(value, what, "a string", format!("write: {what} = \"...\""));
                None
            }
        }
    }

    pub(super) fn flag(&mut self, value: &Node<'_>, what: &str) -> Option<Spanned<bool>> {
        match value.get_ref().as_bool() {
            Some(flag) => Some(Spanned::at(flag, self.of(value))),
            None => {
                self.wrong_type(value, what, "true or false", format!("write: {what} = true"));
                None
            }
        }
    }

    pub(super) fn count(
        &mut self,
        value: &Node<'_>,
        what: &str,
        (first, last): (u64, u64),
    ) -> Option<Spanned<u64>> {
        let number = match value.get_ref() {
            DeValue::Integer(_) => integer(value),
            _ => {
                let remedy = format!("write a number from {first} to {last}");
                self.wrong_type(value, what, "a whole number", remedy);
                return None;
            }
        };
        match number.and_then(|number| u64::try_from(number).ok()) {
            Some(number) if (first..=last).contains(&number) => Some(Spanned::at(number, self.of(value))),
            _ => {
                let message = match number {
                    Some(number) => format!("`{what}` is {number}"),
                    None => format!("`{what}` is beyond every number that can be"),
                };
                let remedy = format!("write a number from {first} to {last}");
                self.fault(self.of(value), Code::OutOfRange, message, remedy);
                None
            }
        }
    }

    /// A priority for queueing disciplines: a number, or a class as tc(8) writes it.
    pub(super) fn socket_priority(&mut self, value: &Node<'_>, what: &str) -> Option<Spanned<u32>> {
        let remedy = format!("write: {what} = 6, or a class of tc such as {what} = \"1:10\"");
        let text = match value.get_ref() {
            DeValue::Integer(_) => {
                let number = self.count(value, what, (0, u32::MAX.into()))?;
                return Some(Spanned::at(u32::try_from(number.value).ok()?, number.span));
            }
            DeValue::String(text) => text,
            _ => {
                self.wrong_type(value, what, "a number or a class of tc", remedy);
                return None;
            }
        };
        let (code, message) = match handle(text) {
            Ok(priority) => return Some(Spanned::at(priority, self.of(value))),
            Err(HandleFault::Form) => (Code::WrongType, format!("{text:?} is not a class as tc writes it")),
            Err(HandleFault::Range) => {
                (Code::OutOfRange, format!("{text:?} is not a class of tc: its numbers are from 1 to ffff"))
            }
        };
        self.fault(self.of(value), code, message, remedy);
        None
    }

    pub(super) fn measure(&mut self, value: &Node<'_>, what: &str, measure: Measure) -> Option<Spanned<u64>> {
        let Measure { parse, noun, example } = measure;
        let remedy = format!("write: {what} = \"{example}\"");
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(value, what, &format!("{noun} with its unit"), remedy);
            return None;
        };
        match parse(text) {
            Some(number) if number <= LARGEST * 1_000 => Some(Spanned::at(number, self.of(value))),
            Some(_) => {
                let message = format!("`{what}` is {text:?}, more than can be");
                self.fault(self.of(value), Code::OutOfRange, message, remedy);
                None
            }
            None => {
                let message = format!("{text:?} is not {noun}");
                self.fault(self.of(value), Code::WrongType, message, remedy);
                None
            }
        }
    }

    pub(super) fn word<T: Copy>(
        &mut self,
        value: &Node<'_>,
        what: &str,
        words: &[(&str, T)],
    ) -> Option<Spanned<T>> {
        let text = self.text(value, what)?;
        let known = words.iter().find(|(word, _)| *word == text.value);
        if known.is_none() {
            let message = format!("`{what}` cannot be {:?}", text.value);
            let remedy = meant(&text.value, words.iter().map(|(word, _)| *word));
            self.fault(text.span.clone(), Code::UnknownWord, message, remedy);
        }
        known.map(|(_, value)| Spanned::at(*value, text.span))
    }

    pub(super) fn array<'v, 't>(&mut self, value: &'v Node<'t>, what: &str) -> Option<&'v DeArray<'t>> {
        let array = value.get_ref().as_array();
        if array.is_none() {
            self.wrong_type(value, what, "a list", format!("write: {what} = [...]"));
        }
        array
    }

    /// The names in a list.
    pub(super) fn names(&mut self, value: &Node<'_>, what: &str) -> Vec<Name> {
        let Some(array) = self.array(value, what) else { return Vec::new() };
        let names: Vec<Name> = array.iter().filter_map(|item| self.text(item, what)).collect();
        let mut before = BTreeSet::new();
        for name in &names {
            if !before.insert(&name.value) {
                let message = format!("{:?} stands twice in `{what}`", name.value);
                self.fault(name.span.clone(), Code::Duplicate, message, "remove one of the two");
            }
        }
        names
    }

    pub(super) fn maybe_table<'v, 't>(
        &mut self,
        value: Option<&'v Node<'t>>,
        what: &str,
    ) -> Option<&'v DeTable<'t>> {
        let value = value?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(
                value,
                what,
                "a table",
                format!("write: {what} = {{ ... }}, or [{what}] and its keys"),
            );
        }
        table
    }

    /// The value of a key that must be there.
    pub(super) fn required<'v, 't>(
        &mut self,
        table: &'v DeTable<'t>,
        key: &str,
        owner: &str,
        span: &Span,
        example: &str,
    ) -> Option<&'v Node<'t>> {
        let value = table.get(key);
        if value.is_none() {
            let message = format!("{owner} has no `{key}`");
            self.fault(span.clone(), Code::MissingKey, message, format!("add: {key} = {example}"));
        }
        value
    }

    pub(super) fn dispatch(&mut self, value: &Node<'_>) -> Spanned<Dispatch> {
        self.word(value, "dispatch", Dispatch::WORDS).unwrap_or_default()
    }

    pub(super) fn direction(&mut self, table: &DeTable<'_>) -> Spanned<Directions> {
        let value = table.get("direction");
        value.and_then(|value| self.word(value, "direction", Directions::WORDS)).unwrap_or_default()
    }
}

/// The whole number of a value, whatever its radix.
pub(super) fn integer(value: &Node<'_>) -> Option<i64> {
    match value.get_ref() {
        DeValue::Integer(n) => i64::from_str_radix(&n.as_str().replace('_', ""), n.radix()).ok(),
        _ => None,
    }
}
