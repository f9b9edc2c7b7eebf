//! A small world of selectors and packets that often meet, with the values at the edges of ranges in it.
#![allow(dead_code, reason = "every test file is a crate of its own and uses a part of this")]

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::select;
use sadb::Rule;
use sadb::rules::{Action, Direction, RuleKey};
use sadb::selector::{Condition, Field, Form, PacketKey, Ranges, TrafficSelector, field};
use wire::addr;

pub fn bits(text: &str) -> u128 {
    addr::to_bits(text.parse::<IpAddr>().unwrap())
}

/// The values of a field at which conditions begin and end.
pub fn pool(field: &Field) -> Vec<u128> {
    match field.form() {
        Form::Address => {
            ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.5", "10.0.1.0", "255.255.255.255", "0.0.0.0"]
                .into_iter()
                .chain([
                    "::",
                    "2001:db8::",
                    "2001:db8::1",
                    "2001:db8::ffff",
                    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                ])
                .map(bits)
                .collect()
        }
        Form::Protocol => vec![0, 1, 6, 17, 50, 58, 135, 255],
        Form::IcmpTypeCode => vec![0, 0x0300, 0x0301, 0x03ff, 0x0800, 0x0801, 0x08ff, 0xffff],
        _ => [0, 1, 2, 3, 7, 8, 46].into_iter().chain([field.max() - 1, field.max()]).collect(),
    }
}

fn span(field: &'static Field) -> impl Strategy<Value = (u128, u128)> {
    let pool = pool(field);
    let prefix = (select(pool.clone()), 0..=u32::from(field.width())).prop_map(|(value, free)| {
        let host = if free == 0 { 0 } else { u128::MAX >> (128 - free) };
        (value & !host, (value | host).min(value | host))
    });
    prop_oneof![
        3 => select(pool.clone()).prop_map(|value| (value, value)),
        3 => (select(pool.clone()), select(pool)).prop_map(|(a, b)| (a.min(b), a.max(b))),
        2 => prefix.prop_map(move |(first, last)| (first, last.min(field.max()))),
    ]
}

pub fn condition(field: &'static Field) -> BoxedStrategy<Condition> {
    let ranges = prop::collection::vec(span(field), 1..4).prop_map(|list| Condition::In(Ranges::new(list)));
    let masked = (select(pool(field)), select(pool(field)))
        .prop_map(|(value, mask)| Condition::Masked { value: value & mask, mask });
    let opaque = if field.is_optional() { Condition::Opaque } else { Condition::Any };
    if matches!(field.form(), Form::Number | Form::Mark) {
        prop_oneof![5 => ranges, 2 => masked, 1 => Just(opaque)].boxed()
    } else {
        prop_oneof![6 => ranges, 1 => Just(opaque)].boxed()
    }
}

/// A selector with terms on some of these fields; terms that contradict others are left out.
pub fn selector_of(fields: Vec<&'static Field>, populate: bool) -> impl Strategy<Value = TrafficSelector> {
    let each: Vec<_> = fields
        .into_iter()
        .map(|field| {
            prop::option::weighted(0.35, (condition(field), any::<bool>())).prop_map(move |c| (field, c))
        })
        .collect();
    each.prop_map(move |terms| {
        terms.into_iter().fold(TrafficSelector::ANY, |made, (field, term)| {
            let Some((condition, pfp)) = term else { return made };
            let Ok(next) = made.clone().with(field, condition) else { return made };
            if populate && pfp { next.clone().populating(field).unwrap_or(next) } else { next }
        })
    })
}

pub fn selector() -> impl Strategy<Value = TrafficSelector> {
    selector_of(field::STANDARD.to_vec(), false)
}

/// A packet whose fields are values of the pools, or next to them, or not available.
pub fn packet_of(fields: Vec<&'static Field>) -> impl Strategy<Value = PacketKey> {
    let each: Vec<_> = fields
        .into_iter()
        .map(|field| {
            let near = (select(pool(field)), -1i8..=1).prop_map(move |(value, step)| {
                let moved = value.wrapping_add_signed(i128::from(step));
                if moved > field.max() { value } else { moved }
            });
            let missing = if field.is_optional() { 3 } else { 0 };
            prop_oneof![9 => near.prop_map(Some), missing => Just(None)].prop_map(move |value| (field, value))
        })
        .collect();
    each.prop_map(|values| {
        values.into_iter().fold(PacketKey::EMPTY, |key, (field, value)| match value {
            Some(value) => key.with(field, value),
            None => key.without(field),
        })
    })
}

pub fn packet() -> impl Strategy<Value = PacketKey> {
    packet_of(field::STANDARD.to_vec())
}

pub fn discard(key: u32, direction: Direction, selector: TrafficSelector) -> Rule {
    Rule::new(RuleKey(key), direction, selector, Action::Discard)
}
