//! The rules of classes and tunnels.

use super::super::description::Spanned;
use super::super::fault::{Code, meant};
use super::super::rules::{Field, FieldMatch, FieldValue, HEADERS, Matches, PROTOCOLS, Rule, prefix};
use super::values::integer;
use super::{Node, Reader};

impl Reader {
    pub(super) fn matches(&mut self, value: &Node<'_>) -> Option<Spanned<Matches>> {
        let span = self.of(value);
        if value.get_ref().as_str().is_some() {
            let words = [("rest", true), ("named", false)];
            let rest = self.word(value, "match", &words)?;
            return Some(Spanned::at(if rest.value { Matches::Rest } else { Matches::Named }, span));
        }
        Some(Spanned::at(Matches::Rules(self.rules(value)?), span))
    }

    /// A list of rules, or one rule.
    pub(super) fn rules(&mut self, value: &Node<'_>) -> Option<Vec<Rule>> {
        if value.get_ref().as_table().is_some() {
            return Some(vec![self.rule(value)?]);
        }
        let Some(array) = value.get_ref().as_array() else {
            let remedy = "write: match = [{ dscp = [\"EF\"] }], or match = \"rest\"";
            self.wrong_type(value, "match", "a list of rules", remedy);
            return None;
        };
        Some(array.iter().filter_map(|item| self.rule(item)).collect())
    }

    fn rule(&mut self, value: &Node<'_>) -> Option<Rule> {
        let span = Spanned::at((), self.of(value));
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, "match", "a list of rules", "write: match = [{ dscp = [\"EF\"] }]");
            return None;
        };
        let mut rows: Vec<_> = table.iter().collect();
        rows.sort_by_key(|(key, _)| key.span().start);
        let mut fields = Vec::new();
        for (key, value) in rows {
            let name: &str = key.get_ref();
            let place = self.span(key.span());
            let Some((_, field)) = Field::WORDS.iter().find(|(word, _)| *word == name) else {
                let message = format!("rules have no field `{name}`");
                self.fault(
                    place,
                    Code::UnknownKey,
                    message,
                    meant(name, Field::WORDS.iter().map(|(w, _)| *w)),
                );
                continue;
            };
            let values = match value.get_ref().as_array() {
                Some(array) => array.iter().filter_map(|item| self.field_value(item, name, *field)).collect(),
                None => self.field_value(value, name, *field).into_iter().collect(),
            };
            fields.push(FieldMatch { field: Spanned::at(*field, place), values });
        }
        Some(Rule { fields, span })
    }

    fn field_value(&mut self, value: &Node<'_>, what: &str, field: Field) -> Option<Spanned<FieldValue>> {
        let span = self.of(value);
        let number = |reader: &mut Reader, last: u32| {
            let number = reader.count(value, what, (0, last.into()))?;
            u32::try_from(number.value).ok().map(FieldValue::Number)
        };
        let found = match field {
            Field::Dscp | Field::OuterDscp => FieldValue::Dscp(self.dscp(value, what)?),
            Field::Header => FieldValue::Header(self.word(value, what, HEADERS)?.value),
            Field::Spi => {
                let spi = self.count(value, what, (1, u32::MAX.into()))?;
                FieldValue::Number(u32::try_from(spi.value).ok()?)
            }
            Field::Key => number(self, u16::MAX.into())?,
            Field::Uid => number(self, u32::MAX)?,
            Field::Index => number(self, 15)?,
            Field::Protocol if integer(value).is_none() => {
                FieldValue::Number(self.word(value, what, PROTOCOLS)?.value)
            }
            Field::Protocol => number(self, 255)?,
            Field::Association | Field::Suite | Field::Application => {
                FieldValue::Text(self.text(value, what)?.value)
            }
            Field::Peer | Field::Source | Field::Destination => {
                let text = self.text(value, what)?;
                let value = prefix(&text.value).map(|(addr, bits)| FieldValue::Prefix(addr, bits));
                self.parsed(&text, value, "an address or prefix", "192.0.2.0/24")?
            }
            Field::Mark => {
                let text = self.text(value, what)?;
                self.parsed(&text, mark(&text.value), "a mark", "0x10/0xff")?
            }
            Field::Port | Field::SourcePort if integer(value).is_some() => {
                let port = self.count(value, what, (0, u16::MAX.into()))?;
                let port = u16::try_from(port.value).ok()?;
                FieldValue::Range(port, port)
            }
            Field::Port | Field::SourcePort => {
                let text = self.text(value, what)?;
                self.parsed(&text, range(&text.value), "a range of ports", "5000-5999")?
            }
        };
        Some(Spanned::at(found, span))
    }

    fn parsed(
        &mut self,
        text: &Spanned<String>,
        value: Option<FieldValue>,
        noun: &str,
        example: &str,
    ) -> Option<FieldValue> {
        if value.is_none() {
            let message = format!("{:?} is not {noun}", text.value);
            self.fault(text.span.clone(), Code::WrongType, message, format!("write it as \"{example}\""));
        }
        value
    }
}

fn mark(text: &str) -> Option<FieldValue> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match text.split_once('/') {
        Some((value, mask)) => Some(FieldValue::Mark(number(value)?, number(mask)?)),
        None => Some(FieldValue::Mark(number(text)?, u32::MAX)),
    }
}

fn range(text: &str) -> Option<FieldValue> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some(FieldValue::Range(first, last))
}
