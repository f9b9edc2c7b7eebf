//! The parser from text to selector.

use std::iter::Peekable;
use std::net::IpAddr;
use std::str::SplitWhitespace;

use wire::{Prefix, addr};

use super::{PROTOCOLS, allowed, is_protocol_of};
use crate::selector::field::{self, Field, Form};
use crate::selector::traffic::IPV4_SPACE;
use crate::selector::{Condition, Ranges, SelectorError, TrafficSelector};

impl TrafficSelector {
    /// The selector of a text whose words name fields of this table (at best [`field::STANDARD`] and more).
    ///
    /// # Errors
    /// The first word that is wrong, and what may stand there; see [`SelectorError`].
    pub fn parse(text: &str, table: &[&'static Field]) -> Result<TrafficSelector, SelectorError> {
        let mut parser =
            Parser { words: text.split_whitespace().peekable(), table, made: TrafficSelector::ANY };
        if text.trim() == "any" {
            return Ok(TrafficSelector::ANY);
        }
        let mut seen = Vec::new();
        while let Some(word) = parser.words.next() {
            parser.clause(word, &mut seen)?;
        }
        Ok(parser.made)
    }
}

struct Parser<'a> {
    words: Peekable<SplitWhitespace<'a>>,
    table: &'a [&'static Field],
    made: TrafficSelector,
}

impl<'a> Parser<'a> {
    /// Read what belongs to one field's word.
    fn clause(&mut self, word: &'a str, seen: &mut Vec<&'static Field>) -> Result<(), SelectorError> {
        if word == "port" {
            return self.every_port(seen);
        }
        let field = self.field(word)?;
        // Several ICMP types with codes of their own are several clauses.
        if seen.contains(&field) && field.form() != Form::IcmpTypeCode {
            return Err(SelectorError::Twice { field: word.to_owned() });
        }
        let condition = match self.value(word, field)? {
            Condition::In(new) => match self.made.condition(field) {
                Condition::In(old) => Condition::In(Ranges::new([old.list(), new.list()].concat())),
                _ if seen.contains(&field) => return Err(SelectorError::Twice { field: word.to_owned() }),
                _ => Condition::In(new),
            },
            _ if seen.contains(&field) => return Err(SelectorError::Twice { field: word.to_owned() }),
            other => other,
        };
        let pfp = self.words.next_if_eq(&"pfp").is_some() || self.made.populates(field);
        seen.push(field);
        self.made = std::mem::take(&mut self.made).with_term(field, condition, pfp)?;
        Ok(())
    }

    /// Read what follows `port`: `opaque` or `pfp`.
    fn every_port(&mut self, seen: &mut Vec<&'static Field>) -> Result<(), SelectorError> {
        let opaque = match self.words.next() {
            Some("opaque") => true,
            Some("pfp") => false,
            other => {
                return Err(SelectorError::BadValue {
                    field: "port".to_owned(),
                    value: other.unwrap_or("").to_owned(),
                    allowed: "give \"opaque\" or \"pfp\"; for numbers say local-port or remote-port"
                        .to_owned(),
                });
            }
        };
        for field in field::STANDARD.into_iter().filter(|field| field.is_upper()) {
            if seen.contains(&field) {
                return Err(SelectorError::Twice { field: field.name().to_owned() });
            }
            seen.push(field);
            let made = std::mem::take(&mut self.made);
            self.made = if opaque { made.with(field, Condition::Opaque)? } else { made.populating(field)? };
        }
        Ok(())
    }

    fn field(&self, word: &str) -> Result<&'static Field, SelectorError> {
        let out_of_place = |need| Err(SelectorError::OutOfPlace { word: word.to_owned(), need });
        let name = match word {
            "sport" => field::LOCAL_PORT.name(),
            "dport" => field::REMOTE_PORT.name(),
            "type" => {
                let here =
                    [&field::ICMP, &field::MOBILITY].into_iter().find(|field| self.has_protocol_of(field));
                return here
                    .map_or_else(|| out_of_place("\"proto icmp\", \"proto icmpv6\" or \"proto mh\""), Ok);
            }
            "code" => return out_of_place("an ICMP type (\"proto icmp type 3 code 0-5\")"),
            "pfp" => return out_of_place("a field, or a field and its value"),
            name => name,
        };
        self.table.iter().copied().find(|field| field.name() == name).ok_or_else(|| {
            let names: Vec<_> = self.table.iter().map(|field| field.name()).collect();
            SelectorError::UnknownField {
                word: word.to_owned(),
                allowed: names.join(", ") + ", port, sport, dport, type",
            }
        })
    }

    /// Whether the protocols said so far all give `type` the meaning of this field.
    fn has_protocol_of(&self, field: &Field) -> bool {
        match self.made.condition(&field::PROTOCOL) {
            Condition::In(ranges) => {
                ranges.list().iter().all(|(first, last)| first == last && is_protocol_of(field, *first))
            }
            _ => false,
        }
    }

    fn value(&mut self, word: &str, field: &'static Field) -> Result<Condition, SelectorError> {
        let bad = |value: &str| SelectorError::BadValue {
            field: word.to_owned(),
            value: value.to_owned(),
            allowed: format!("{}; the greatest is {}", allowed(field.form()), greatest(field)),
        };
        let empty =
            |value: &str| SelectorError::EmptyRange { field: word.to_owned(), value: value.to_owned() };
        if self.words.peek() == Some(&"pfp") {
            return Ok(Condition::Any);
        }
        let Some(value) = self.words.next() else {
            return Err(SelectorError::MissingValue {
                field: word.to_owned(),
                allowed: allowed(field.form()),
            });
        };
        match value {
            "any" => return Ok(Condition::Any),
            "opaque" => return Ok(Condition::Opaque),
            _ => {}
        }
        if let Some(masked) = masked(field, value) {
            return Ok(masked);
        }
        let mut ranges = Vec::new();
        for item in value.split(',') {
            let (first, last) = match field.form() {
                Form::Address => addresses(item).ok_or_else(|| bad(item))?,
                form => numbers(form, field, item).ok_or_else(|| bad(item))?,
            };
            if first > last {
                return Err(empty(item));
            }
            ranges.push((first, last));
        }
        match field.form() {
            Form::Address => ranges = ranges.into_iter().flat_map(outside_ipv4).collect(),
            Form::IcmpTypeCode => ranges = self.codes(ranges)?,
            _ => {}
        }
        Ok(Condition::In(Ranges::new(ranges)))
    }

    /// The ranges of ICMP types with the codes that follow, if any (the formula of RFC 4301 section 4.4.1.1).
    fn codes(&mut self, types: Vec<(u128, u128)>) -> Result<Vec<(u128, u128)>, SelectorError> {
        if self.words.next_if_eq(&"code").is_none() {
            return Ok(types.into_iter().map(|(first, last)| (first << 8, last << 8 | 255)).collect());
        }
        let bad = |value: &str| SelectorError::BadValue {
            field: "code".to_owned(),
            value: value.to_owned(),
            allowed: "give one code or one range from 0 to 255 (3, 0-5), after one type or range".to_owned(),
        };
        let value = self.words.next().unwrap_or("");
        let codes = numbers(Form::MobilityType, &field::MOBILITY, value);
        let (Some((low, high)), [(first, last)]) = (codes, types.as_slice()) else { return Err(bad(value)) };
        let (first, last) = (first << 8 | low, last << 8 | high);
        if first > last {
            return Err(SelectorError::EmptyRange { field: "code".to_owned(), value: value.to_owned() });
        }
        Ok(vec![(first, last)])
    }
}

fn greatest(field: &Field) -> String {
    match field.form() {
        Form::Address => "that of the family".to_owned(),
        Form::IcmpTypeCode => "255".to_owned(),
        _ => field.max().to_string(),
    }
}

/// A value under a mask, like `0x1/0xff`, for fields that take one.
fn masked(field: &'static Field, text: &str) -> Option<Condition> {
    if !matches!(field.form(), Form::Number | Form::Mark) {
        return None;
    }
    let (value, mask) = text.split_once('/')?;
    let (value, mask) = (number(value)?, number(mask)?);
    (mask <= field.max() && value & !mask == 0).then_some(Condition::Masked { value, mask })
}

/// One address, prefix or range in the common address space. Both ends of a range are of one family.
fn addresses(text: &str) -> Option<(u128, u128)> {
    let one = |text: &str| -> Option<IpAddr> {
        let addr = text.parse::<IpAddr>().ok()?;
        // IPv4 in IPv6 form belongs to no wire (RFC 4942 section 2.2).
        (addr.to_canonical() == addr).then_some(addr)
    };
    if let Some((addr, len)) = text.split_once('/') {
        let prefix = Prefix::new(one(addr)?, plain(len)?.try_into().ok()?)?;
        return Some((prefix.first(), prefix.last()));
    }
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (one(first)?, one(last)?);
        return (first.is_ipv4() == last.is_ipv4()).then_some((addr::to_bits(first), addr::to_bits(last)));
    }
    let bits = addr::to_bits(one(text)?);
    Some((bits, bits))
}

/// The range without the IPv4 space, unless it lies inside that.
fn outside_ipv4((first, last): (u128, u128)) -> Vec<(u128, u128)> {
    if IPV4_SPACE.0 <= first && last <= IPV4_SPACE.1 {
        return vec![(first, last)];
    }
    let below = (first, last.min(IPV4_SPACE.0 - 1));
    let above = (first.max(IPV4_SPACE.1 + 1), last);
    [below, above].into_iter().filter(|(first, last)| first <= last).collect()
}

/// One number or range that the field can have. ICMP types take 8 bits of a field of 16.
fn numbers(form: Form, field: &Field, text: &str) -> Option<(u128, u128)> {
    let max = if form == Form::IcmpTypeCode { 255 } else { field.max() };
    let one = |text: &str| {
        let named = PROTOCOLS.iter().find(|(name, _)| form == Form::Protocol && *name == text);
        let value = named.map(|(_, number)| u128::from(*number)).or_else(|| number(text))?;
        (value <= max).then_some(value)
    };
    match text.split_once('-') {
        Some((first, last)) => Some((one(first)?, one(last)?)),
        None => one(text).map(|value| (value, value)),
    }
}

fn number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u128::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => plain(text),
    }
}

/// A number of decimal digits only, without a sign.
fn plain(text: &str) -> Option<u128> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn the_ipv4_space_is_that_of_wire() {
        let ends = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST].map(|a| addr::to_bits(a.into()));
        assert_eq!((ends[0], ends[1]), IPV4_SPACE);
        assert_eq!(outside_ipv4((0, u128::MAX)).len(), 2);
        assert_eq!(addr::to_bits(Ipv6Addr::UNSPECIFIED.into()), 0);
    }
}
