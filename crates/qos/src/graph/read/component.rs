//! Components with their settings.

use toml::de::DeTable;

use super::super::description::{Limits, Name, Spanned};
use super::super::fault::{Code, meant};
use super::super::kinds::{Component, Curve, Form, Kind, LARGEST, Part, Profile, UserLimit, Value};
use super::super::quantity;
use super::super::rules::{DSCP, lookup};
use super::values::{OCTETS, RATE, SHARE, TIME, integer};
use super::{Node, Reader};

const CURVE: &[&str] = &["low", "high", "most"];
const PROFILE: &[&str] = &["name", "users", "weight", "limit", "class"];
const USER_LIMIT: &[&str] = &["rate", "burst", "excess"];
const EXCESS_MARK: &[&str] = &["mark"];
const LIMITS: &[&str] = &["packets", "octets", "time"];

impl Reader {
    /// A component: a table with its `kind`, or the name of a kind alone.
    pub(super) fn component(&mut self, value: &Node<'_>, what: &str, parts: &[Part]) -> Option<Component> {
        let span = Spanned::at((), self.of(value));
        if value.get_ref().as_str().is_some() {
            let kind = self.kind(value, parts)?;
            return self.complete(Component { kind, settings: Vec::new(), span });
        }
        let Some(table) = value.get_ref().as_table() else {
            let remedy = format!("write: {what} = {{ kind = \"...\" }}");
            self.wrong_type(value, what, "a component", remedy);
            return None;
        };
        let example = "\"...\", the name of a component";
        let kind = self.required(table, "kind", "the component", &span.span, example)?;
        let kind = self.kind(kind, parts)?;
        self.with_settings(table, Component { kind, settings: Vec::new(), span }, &["kind"])
    }

    /// The kind of a component. If it is unknown, the remedy tells those of the parts that can stand there.
    pub(super) fn kind(&mut self, value: &Node<'_>, parts: &[Part]) -> Option<Spanned<Kind>> {
        let name = self.text(value, "kind")?;
        let kind = Kind::WORDS.iter().find(|(word, _)| *word == name.value);
        if kind.is_none() {
            let message = format!("there is no kind of component {:?}", name.value);
            let known = Kind::WORDS.iter().filter(|(_, kind)| parts.contains(&kind.part()));
            let remedy = meant(&name.value, known.map(|(word, _)| *word));
            self.fault(name.span.clone(), Code::UnknownKind, message, remedy);
        }
        kind.map(|(_, kind)| Spanned::at(*kind, name.span))
    }

    /// Add the settings of a table, in which the keys `beside` are something else.
    pub(super) fn with_settings(
        &mut self,
        table: &DeTable<'_>,
        mut component: Component,
        beside: &[&str],
    ) -> Option<Component> {
        let kind = component.kind.value;
        let mut rows: Vec<_> = table.iter().collect();
        rows.sort_by_key(|(key, _)| key.span().start);
        let mut sound = true;
        for (key, value) in rows.into_iter().filter(|(key, _)| !beside.contains(&&**key.get_ref())) {
            let name: &str = key.get_ref();
            let Some(row) = kind.settings().iter().find(|row| row.name == name) else {
                let message = format!("`{}` has no setting `{name}`", kind.name());
                let known = kind.settings().iter().map(|row| row.name);
                let remedy = if kind.settings().is_empty() {
                    "remove it: the component has no settings".to_owned()
                } else {
                    meant(name, known)
                };
                self.fault(self.span(key.span()), Code::UnknownSetting, message, remedy);
                continue;
            };
            match self.setting(value, row.name, row.form) {
                Some(value) => component.put(row.name, value),
                None => sound = false,
            }
        }
        if sound { self.complete(component) } else { None }
    }

    /// The component, if no setting that it must have is missing.
    fn complete(&mut self, component: Component) -> Option<Component> {
        let kind = component.kind.value;
        let rows = kind.settings().iter().filter(|row| row.required && component.get(row.name).is_none());
        let missing: Vec<&str> = rows.map(|row| row.name).collect();
        if missing.is_empty() {
            return Some(component);
        }
        let message = format!("`{}` needs `{}`", kind.name(), missing.join("`, `"));
        let remedy =
            format!("add: {}", missing.iter().map(|name| example(kind, name)).collect::<Vec<_>>().join(", "));
        self.fault(component.kind.span, Code::MissingKey, message, remedy);
        None
    }

    fn setting(&mut self, value: &Node<'_>, what: &str, form: Form) -> Option<Spanned<Value>> {
        let into =
            |number: Spanned<u64>, make: fn(u64) -> Value| Spanned::at(make(number.value), number.span);
        Some(match form {
            Form::Flag => {
                let flag = self.flag(value, what)?;
                Spanned::at(Value::Flag(flag.value), flag.span)
            }
            Form::Count(first, last) => into(self.count(value, what, (first, last))?, Value::Count),
            Form::Time => into(self.measure(value, what, TIME)?, Value::Time),
            Form::Octets => into(self.measure(value, what, OCTETS)?, Value::Octets),
            Form::Share => into(self.share(value, what)?, Value::Share),
            Form::Rate => match value.get_ref().as_str() {
                Some(text) if text.ends_with('%') => into(self.share(value, what)?, Value::Share),
                _ => into(self.measure(value, what, RATE)?, Value::Rate),
            },
            Form::Burst => match value.get_ref().as_str() {
                Some(text) if quantity::time(text).is_some() => {
                    into(self.measure(value, what, TIME)?, Value::Time)
                }
                _ => into(self.measure(value, what, OCTETS)?, Value::Octets),
            },
            Form::Length => self.length(value, what)?,
            Form::Excess if value.get_ref().as_table().is_some() => {
                let table = self.maybe_table(Some(value), what)?;
                self.keys(table, EXCESS_MARK, &format!("in `{what}`"));
                let span = self.of(value);
                let dscp = self.required(table, "mark", &format!("`{what}`"), &span, "\"AF12\"")?;
                Spanned::at(Value::Mark(self.dscp(dscp, "mark")?), span)
            }
            Form::Class | Form::Excess | Form::Uplink | Form::Library => {
                let name = self.text(value, what)?;
                Spanned::at(Value::Word(name.value), name.span)
            }
            Form::Word(words) => {
                let pairs: Vec<(&str, &str)> = words.iter().map(|word| (*word, *word)).collect();
                let word = self.word(value, what, &pairs)?;
                Spanned::at(Value::Word(word.value.to_owned()), word.span)
            }
            Form::Dscp => Spanned::at(Value::Dscp(self.dscps(value, what)?), self.of(value)),
            Form::Curve => Spanned::at(Value::Curve(self.curve(value, what)?), self.of(value)),
            Form::Text(most) => self.any_text(value, what, most)?,
            Form::Classes(most) => {
                let array = self.array(value, what)?;
                if array.len() > most {
                    let message = format!("`{what}` has {} names", array.len());
                    self.fault(self.of(value), Code::TooMany, message, format!("leave {most} at most"));
                    return None;
                }
                let names = array.iter().filter_map(|item| self.text(item, what)).collect();
                Spanned::at(Value::Names(names), self.of(value))
            }
            Form::Profiles => {
                let array = self.array(value, what)?;
                let profiles = array.iter().filter_map(|item| self.profile(item)).collect();
                Spanned::at(Value::Profiles(profiles), self.of(value))
            }
        })
    }

    /// A text of at most so many octets. It ends at none of its own: a NUL has no place in it.
    fn any_text(&mut self, value: &Node<'_>, what: &str, most: usize) -> Option<Spanned<Value>> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(value, what, "a text", format!("write: {what} = \"...\""));
            return None;
        };
        let span = self.of(value);
        if text.len() > most {
            let message = format!("`{what}` has {} octets", text.len());
            self.fault(span, Code::TooMany, message, format!("write {most} octets at most"));
            return None;
        }
        if text.contains('\0') {
            self.fault(span, Code::OutOfRange, format!("`{what}` has a NUL in it"), "remove the NUL");
            return None;
        }
        Some(Spanned::at(Value::Word(text.to_owned()), span))
    }

    /// A share of at most the whole.
    pub(super) fn share(&mut self, value: &Node<'_>, what: &str) -> Option<Spanned<u64>> {
        let share = self.measure(value, what, SHARE)?;
        if share.value > quantity::WHOLE {
            let message = format!("`{what}` is {}, more than the whole", quantity::show_share(share.value));
            self.fault(share.span, Code::OutOfRange, message, "write 100% or less");
            return None;
        }
        Some(share)
    }

    /// Packets as a number, or octets or time with their unit.
    fn length(&mut self, value: &Node<'_>, what: &str) -> Option<Spanned<Value>> {
        let span = self.of(value);
        if integer(value).is_some() {
            let count = self.count(value, what, (0, LARGEST))?;
            return Some(Spanned::at(Value::Count(count.value), span));
        }
        let text = value.get_ref().as_str().unwrap_or("");
        let length =
            quantity::time(text).map(Value::Time).or_else(|| quantity::octets(text).map(Value::Octets));
        if length.is_none() {
            let remedy =
                format!("write packets ({what} = 64), octets ({what} = \"20kB\") or time ({what} = \"5ms\")");
            self.fault(span.clone(), Code::WrongType, format!("`{what}` is not a length"), remedy);
        }
        Some(Spanned::at(length?, span))
    }

    fn curve(&mut self, value: &Node<'_>, what: &str) -> Option<Curve> {
        let Some(table) = value.get_ref().as_table() else {
            let remedy = format!("write: {what} = {{ low = \"2ms\", high = \"8ms\", most = \"10%\" }}");
            self.wrong_type(value, what, "a curve", remedy);
            return None;
        };
        self.keys(table, CURVE, "in a curve");
        let span = self.of(value);
        let low = self.required(table, "low", "the curve", &span, "\"2ms\", where drops begin");
        let high = self.required(table, "high", "the curve", &span, "\"8ms\", where every packet is dropped");
        let most =
            self.required(table, "most", "the curve", &span, "\"10%\", the share that is dropped at `high`");
        let low = self.length(low?, "low")?;
        let high = self.length(high?, "high")?;
        let most = self.share(most?, "most")?;
        if std::mem::discriminant(&low.value) != std::mem::discriminant(&high.value) {
            let message = "`low` and `high` are in different measures";
            self.fault(high.span, Code::WrongType, message, "write both in packets, in octets or in time");
            return None;
        }
        Some(Curve { low: Box::new(low.value), high: Box::new(high.value), most: most.value })
    }

    /// A list of DSCPs, or one.
    pub(super) fn dscps(&mut self, value: &Node<'_>, what: &str) -> Option<Vec<u8>> {
        match value.get_ref().as_array() {
            Some(array) => array.iter().map(|item| self.dscp(item, what)).collect(),
            None => Some(vec![self.dscp(value, what)?]),
        }
    }

    pub(super) fn dscp(&mut self, value: &Node<'_>, what: &str) -> Option<u8> {
        if integer(value).is_some() {
            return self.count(value, what, (0, 63)).and_then(|n| u8::try_from(n.value).ok());
        }
        let name = self.text(value, what)?;
        let dscp = lookup(DSCP, &name.value);
        if dscp.is_none() {
            let message = format!("there is no DSCP {:?}", name.value);
            let remedy = meant(&name.value.to_uppercase(), DSCP.iter().map(|(word, _)| *word));
            self.fault(name.span, Code::UnknownName, message, remedy);
        }
        dscp
    }

    pub(super) fn profile(&mut self, value: &Node<'_>) -> Option<Profile> {
        let table = self.maybe_table(Some(value), "profiles")?;
        self.keys(table, PROFILE, "in a profile");
        let span = self.of(value);
        let name = self.required(table, "name", "the profile", &span, "\"gold\"")?;
        let name: Name = self.text(name, "name")?;
        let users = table.get("users").map_or_else(Vec::new, |value| self.names(value, "users"));
        let weight = table.get("weight").map(|value| self.count(value, "weight", (1, Profile::HEAVIEST)));
        let weight = weight.unwrap_or_else(|| Some(Spanned::at(1, span)));
        let limit = table.get("limit").and_then(|value| self.user_limit(value));
        let class = table.get("class").and_then(|value| self.text(value, "class"));
        Some(Profile { name, users, weight: weight?, limit, class })
    }

    /// The limit of the users of a profile.
    fn user_limit(&mut self, value: &Node<'_>) -> Option<UserLimit> {
        let table = self.maybe_table(Some(value), "limit")?;
        self.keys(table, USER_LIMIT, "in the limit of a profile");
        let span = self.of(value);
        let rate = self.required(table, "rate", "the limit of the profile", &span, "\"20Mbit\", or \"10%\"");
        let burst = self.required(table, "burst", "the limit of the profile", &span, "\"64kB\", or \"1ms\"");
        let rate = self.setting(rate?, "rate", Form::Rate);
        let burst = self.setting(burst?, "burst", Form::Burst);
        let excess = table.get("excess").and_then(|value| self.text(value, "excess"));
        let excess = excess.filter(|excess| excess.value != "drop");
        Some(UserLimit { rate: rate?, burst: burst?, excess })
    }

    pub(super) fn limits(&mut self, value: Option<&Node<'_>>, what: &str) -> Limits {
        let Some(table) = self.maybe_table(value, what) else { return Limits::default() };
        self.keys(table, LIMITS, &format!("in `{what}`"));
        Limits {
            packets: table.get("packets").and_then(|value| self.count(value, "packets", (0, LARGEST))),
            octets: table.get("octets").and_then(|value| self.measure(value, "octets", OCTETS)),
            time: table.get("time").and_then(|value| self.measure(value, "time", TIME)),
        }
    }
}

/// A setting as one would write it.
fn example(kind: Kind, name: &str) -> String {
    let form = kind.settings().iter().find(|row| row.name == name).map(|row| row.form);
    let value = match form {
        Some(Form::Flag) => "true".to_owned(),
        Some(Form::Count(first, _)) => first.to_string(),
        Some(Form::Time) => "\"5ms\"".to_owned(),
        Some(Form::Octets | Form::Burst | Form::Length) => "\"20kB\"".to_owned(),
        Some(Form::Rate) => "\"20Mbit\"".to_owned(),
        Some(Form::Share) => "\"10%\"".to_owned(),
        Some(Form::Dscp) => "[\"AF41\", \"AF42\", \"AF43\"]".to_owned(),
        Some(Form::Curve) => "{ low = \"2ms\", high = \"8ms\", most = \"10%\" }".to_owned(),
        Some(Form::Word(words)) => format!("{:?}", words.first().unwrap_or(&"")),
        Some(Form::Profiles) => "[]".to_owned(),
        Some(Form::Classes(_)) => "[]".to_owned(),
        Some(Form::Class | Form::Excess | Form::Uplink | Form::Library | Form::Text(_)) | None => {
            "\"...\"".to_owned()
        }
    };
    format!("{name} = {value}")
}
