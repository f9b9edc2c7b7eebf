//! The printer from selector to text; the text gives the same selector again.

use std::fmt;

use wire::{Prefix, addr};

use super::{PROTOCOLS, is_protocol_of};
use crate::selector::field::{self, Field, Form, STANDARD};
use crate::selector::traffic::{IPV4_SPACE, Term};
use crate::selector::{Condition, Ranges, TrafficSelector};

impl fmt::Display for TrafficSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms().is_empty() {
            return f.write_str("any");
        }
        let mut words = Vec::new();
        let whole = self.every_port();
        for field in STANDARD {
            match self.terms().iter().find(|term| term.field == field) {
                Some(_) if field == &field::LOCAL_PORT && whole.is_some() => {
                    words.extend(whole.map(str::to_owned))
                }
                Some(term) if !field.is_upper() || whole.is_none() => words.push(self.clause(term)),
                _ => {}
            }
        }
        let more = self.terms().iter().filter(|term| !STANDARD.contains(&term.field));
        words.extend(more.map(|term| self.clause(term)));
        f.write_str(&words.join(" "))
    }
}

impl TrafficSelector {
    /// The words for all "port" fields together, if they are alike and such words exist.
    fn every_port(&self) -> Option<&'static str> {
        let upper = || STANDARD.into_iter().filter(|field| field.is_upper());
        if upper().all(|field| self.condition(field) == &Condition::Opaque) {
            Some("port opaque")
        } else if upper().all(|field| self.populates(field) && self.condition(field) == &Condition::Any) {
            Some("port pfp")
        } else {
            None
        }
    }

    fn clause(&self, term: &Term) -> String {
        let field = term.field;
        let name = if self.says_type(field) { "type" } else { field.name() };
        let text = match &term.condition {
            Condition::Any => name.to_owned(),
            Condition::Opaque => format!("{name} opaque"),
            Condition::Masked { value, mask } => format!("{name} {value:#x}/{mask:#x}"),
            Condition::In(ranges) => match field.form() {
                Form::IcmpTypeCode => types_and_codes(name, ranges),
                Form::Address => format!("{name} {}", addresses(ranges)),
                form => {
                    let items = ranges.list().iter().map(|range| numbers(form, *range));
                    format!("{name} {}", items.collect::<Vec<_>>().join(","))
                }
            },
        };
        if term.pfp { text + " pfp" } else { text }
    }

    /// Whether the protocol before it gives "type" the meaning of this field.
    fn says_type(&self, field: &Field) -> bool {
        let Condition::In(ranges) = self.condition(&field::PROTOCOL) else { return false };
        ranges.list().iter().all(|(first, last)| first == last && is_protocol_of(field, *first))
    }
}

fn numbers(form: Form, (first, last): (u128, u128)) -> String {
    let one = |value: u128| match form {
        Form::Mark => format!("{value:#x}"),
        Form::Protocol => match PROTOCOLS.iter().find(|(_, number)| u128::from(*number) == value) {
            Some((name, _)) => (*name).to_owned(),
            None => value.to_string(),
        },
        _ => value.to_string(),
    };
    if first == last { one(first) } else { format!("{}-{}", one(first), one(last)) }
}

fn types_and_codes(name: &str, ranges: &Ranges) -> String {
    let span = |first: u128, last: u128| numbers(Form::Number, (first, last));
    let clause = |&(first, last): &(u128, u128)| {
        let (types, codes) = (span(first >> 8, last >> 8), (first & 255, last & 255));
        match codes {
            (0, 255) => format!("{name} {types}"),
            (low, high) => format!("{name} {types} code {}", span(low, high)),
        }
    };
    ranges.list().iter().map(clause).collect::<Vec<_>>().join(" ")
}

/// The text of addresses. IPv4 and IPv6 stand apart, and IPv6 is written as if IPv4 did not lie in it.
fn addresses(ranges: &Ranges) -> String {
    let within = |low: u128, high: u128| {
        let cut = ranges.list().iter().map(move |(first, last)| (*first.max(&low), *last.min(&high)));
        cut.filter(|(first, last)| first <= last)
    };
    let mut v6: Vec<_> = within(0, IPV4_SPACE.0 - 1).collect();
    for (first, last) in within(IPV4_SPACE.1 + 1, u128::MAX) {
        match v6.last_mut() {
            Some(below) if below.1 == IPV4_SPACE.0 - 1 && first == IPV4_SPACE.1 + 1 => below.1 = last,
            _ => v6.push((first, last)),
        }
    }
    let v4 = within(IPV4_SPACE.0, IPV4_SPACE.1);
    v4.chain(v6).map(|(first, last)| span(first, last)).collect::<Vec<_>>().join(",")
}

fn span(first: u128, last: u128) -> String {
    match Prefix::cover(first, last)[..] {
        [prefix] if prefix == Prefix::ANY => "::/0".to_owned(),
        [prefix] => prefix.to_string(),
        _ => format!("{}-{}", addr::from_bits(first), addr::from_bits(last)),
    }
}
