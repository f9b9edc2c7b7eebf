//! From TOML text to a [`Description`]: a walk over the tree with its spans, which goes on after a fault.
//!
//! A text is in the full form if it has hooks, schedulers or queues. Otherwise it is in the short form, alone or
//! over a preset, and is expanded.

mod component;
mod matches;
mod parts;
mod short;
mod values;

use toml::Spanned as Located;
use toml::de::{DeTable, DeValue};

use super::description::{Description, Name, Span, Spanned};
use super::expand::expand;
use super::fault::{Code, Fault, meant};
use super::preset as presets;
use super::spanned::{LONG_NAME, SHORT_NAME, is_name};

pub(super) type Node<'t> = Located<DeValue<'t>>;

const TOP: &[&str] = &[
    "preset",
    "dispatch",
    "discipline",
    "guard",
    "stages",
    "uplink",
    "tunnel",
    "class",
    "hook",
    "scheduler",
    "queue",
    "unit",
    "kernel",
];
/// Keys that make a text one in the full form.
const FULL: &[&str] = &["hook", "scheduler", "queue"];
/// Keys of the short form alone.
const SHORT: &[&str] = &["preset", "discipline", "guard", "stages"];

/// Read the text of a graph.
///
/// # Errors
///
/// Every fault that can be told from the text alone, in the order of the text.
pub fn read(text: &str) -> Result<Description, Vec<Fault>> {
    let mut reader = Reader { faults: Vec::new(), fixed: None };
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        let message = error.message().replace('\n', ", ");
        reader.fault(span, Code::Syntax, message, "see https://toml.io for the syntax of the file");
    }
    // The values of a text with broken syntax would only give follow-on faults.
    let description = if reader.faults.is_empty() { reader.description(root.get_ref()) } else { None };
    reader.faults.sort_by_key(|fault| (fault.span.start, fault.code));
    match description {
        Some(description) if reader.faults.is_empty() => Ok(description),
        _ => Err(reader.faults),
    }
}

/// The full form of a preset.
pub fn preset(name: &str) -> Option<Description> {
    read(presets::text(name)?).ok()
}

/// A reader of one text, which notes every fault that it finds.
#[derive(Debug)]
pub(super) struct Reader {
    faults: Vec<Fault>,
    /// The place of everything that is read, while a preset is: the word that names it.
    fixed: Option<Span>,
}

impl Reader {
    pub(super) fn fault(
        &mut self,
        span: Span,
        code: Code,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let fault = Fault { span, code, message: message.into(), remedy: remedy.into() };
        self.faults.push(fault);
    }

    fn span(&self, span: Span) -> Span {
        self.fixed.clone().unwrap_or(span)
    }

    fn description(&mut self, root: &DeTable<'_>) -> Option<Description> {
        self.keys(root, TOP, "at the top");
        if FULL.iter().all(|key| root.get(*key).is_none()) {
            let sketch = self.sketch(root)?;
            return Some(expand(sketch));
        }
        for key in SHORT {
            if let Some((key, _)) = root.get_key_value(*key) {
                let remedy = "remove it, or remove every [[hook]], [scheduler] and [queue]; \
                              `ravelin qos show --graph` prints what a short form stands for";
                let message =
                    format!("`{}` belongs to the short form, and this is the full form", key.get_ref());
                self.fault(self.span(key.span()), Code::MixedForms, message, remedy);
            }
        }
        let mut description = Description::default();
        if let Some(value) = root.get("dispatch") {
            description.dispatch = self.dispatch(value);
        }
        description.uplinks = self.each(root, "uplink", |reader, name, table| reader.uplink(name, table));
        description.tunnels = self.each(root, "tunnel", |reader, name, table| reader.tunnel(name, table));
        description.classes = self.each(root, "class", |reader, name, table| reader.class(name, table));
        description.hooks = self.hooks(root.get("hook"));
        description.schedulers =
            self.each(root, "scheduler", |reader, name, table| reader.scheduler(name, table));
        description.queues = self.each(root, "queue", |reader, name, table| reader.queue(name, table));
        description.units = self.each(root, "unit", |reader, name, table| reader.unit(name, table));
        description.kernel = self.each(root, "kernel", |reader, name, table| reader.kernel(name, table));
        Some(description)
    }

    /// The preset that a text names, in the short form.
    fn preset(&mut self, value: &Node<'_>) -> Option<super::expand::Sketch> {
        let name = self.text(value, "preset")?;
        let Some(text) = presets::text(&name.value) else {
            let names = presets::PRESETS.iter().map(|(name, _)| *name);
            let message = format!("there is no preset {:?}", name.value);
            self.fault(name.span, Code::UnknownName, message, meant(&name.value, names));
            return None;
        };
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut inner = Reader { faults: Vec::new(), fixed: Some(name.span) };
        let sketch = if errors.is_empty() { inner.sketch(root.get_ref()) } else { None };
        self.faults.append(&mut inner.faults);
        sketch
    }

    /// The parts below `[KIND.NAME]`, in the order of the text.
    fn each<T>(
        &mut self,
        root: &DeTable<'_>,
        kind: &str,
        take: impl Fn(&mut Reader, Name, &DeTable<'_>) -> Option<T>,
    ) -> Vec<T> {
        let Some(table) = self.maybe_table(root.get(kind), kind) else { return Vec::new() };
        let mut rows: Vec<_> = table.iter().collect();
        rows.sort_by_key(|(key, _)| key.span().start);
        let mut parts = Vec::new();
        for (key, value) in rows {
            let name = Spanned::at(key.get_ref().to_string(), self.span(key.span()));
            let most = if kind == "class" || kind == "tunnel" { SHORT_NAME } else { LONG_NAME };
            if !is_name(&name.value, most) {
                let remedy = format!("use 1 to {most} letters, digits, `-` and `_`, beginning with a letter");
                let message = format!("{:?} cannot be a name", name.value);
                self.fault(name.span, Code::BadName, message, remedy);
                continue;
            }
            let Some(table) = value.get_ref().as_table() else {
                let found = Reader::type_of(value);
                let message = format!("`{kind}.{}` must be a table, not {found}", name.value);
                let remedy = format!("write [{kind}.{}] on a line of its own and its keys below", name.value);
                self.fault(self.span(value.span()), Code::WrongType, message, remedy);
                continue;
            };
            parts.extend(take(self, name, table));
        }
        parts
    }

    /// Note a fault for each key that is not `known`.
    fn keys(&mut self, table: &DeTable<'_>, known: &[&str], place: &str) {
        for (key, _) in table.iter() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let message = format!("unknown key `{name}` {place}");
                self.fault(
                    self.span(key.span()),
                    Code::UnknownKey,
                    message,
                    meant(name, known.iter().copied()),
                );
            }
        }
    }
}
