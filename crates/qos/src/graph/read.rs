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
    read_what_stands(text).map_err(|unread| unread.faults)
}

/// A text with faults: these, and what could be read beside them.
pub(super) struct Unread {
    /// The faults, in the order of the text.
    pub(super) faults: Vec<Fault>,
    /// What could be read; `None` where too little could.
    description: Option<Box<Description>>,
    /// The names of parts that have faults.
    incomplete: Vec<String>,
}

impl Unread {
    /// What could be read, to be looked at for faults that are not of a part which is incomplete.
    pub(super) fn description(&self) -> Option<&Description> {
        self.description.as_deref()
    }

    /// Whether a fault is about a part that is incomplete, or is made from one.
    pub(super) fn is_of_incomplete(&self, fault: &Fault) -> bool {
        let message = match (fault.code, fault.message.rsplit_once(": ")) {
            // Behind the colon are the classes that lose by it.
            (Code::UnpolicedPriority, Some((about, _))) => about,
            _ => &fault.message,
        };
        let names =
            |name: &String| message.contains(&format!("`{name}`")) || message.contains(&format!("`{name}-"));
        self.incomplete.iter().any(names)
    }
}

/// Read a text, and keep what could be read of one that has faults.
pub(super) fn read_what_stands(text: &str) -> Result<Description, Unread> {
    let (description, reader) = walk(text);
    let Reader { mut faults, incomplete, lost, .. } = reader;
    match description {
        Some(description) if faults.is_empty() => Ok(description),
        description => {
            faults.sort_by_key(|fault| (fault.span.start, fault.code));
            let description = description.filter(|_| !lost).map(Box::new);
            Err(Unread { faults, description, incomplete })
        }
    }
}

/// What a sound text may not have meant, in the order of the text.
pub fn warnings(text: &str) -> Vec<Fault> {
    let mut warnings = walk(text).1.warnings;
    warnings.sort_by_key(|warning| warning.span.start);
    warnings
}

/// The description that a text gives, and the reader with what it noted.
fn walk(text: &str) -> (Option<Description>, Reader) {
    let mut reader = Reader::default();
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        let message = error.message().replace('\n', ", ");
        reader.fault(span, Code::Syntax, message, "see https://toml.io for the syntax of the file");
    }
    // The values of a text with broken syntax would only give follow-on faults.
    let description = if reader.faults.is_empty() { reader.description(root.get_ref()) } else { None };
    (description, reader)
}

/// The full form of a preset.
pub fn preset(name: &str) -> Option<Description> {
    read(presets::text(name)?).ok()
}

/// A reader of one text, which notes every fault that it finds.
#[derive(Debug, Default)]
pub(super) struct Reader {
    faults: Vec<Fault>,
    /// What a sound text may not have meant.
    warnings: Vec<Fault>,
    /// The names of parts that have faults: each is left out, or lacks something.
    incomplete: Vec<String>,
    /// Whether parts are left out whose names are not known.
    lost: bool,
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
        if self.is_configuration(root) {
            return None;
        }
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
        let before = self.faults.len();
        description.hooks = self.hooks(root.get("hook"));
        self.lost |= self.faults.len() > before;
        description.schedulers =
            self.each(root, "scheduler", |reader, name, table| reader.scheduler(name, table));
        description.queues = self.each(root, "queue", |reader, name, table| reader.queue(name, table));
        description.units = self.each(root, "unit", |reader, name, table| reader.unit(name, table));
        description.kernel = self.each(root, "kernel", |reader, name, table| reader.kernel(name, table));
        Some(description)
    }

    /// Whether a text is a configuration of the daemon in the place of a graph, which is noted with how the graph that
    /// it names is put in force.
    fn is_configuration(&mut self, root: &DeTable<'_>) -> bool {
        let found = root.get_key_value("qos").or_else(|| root.get_key_value("policy"));
        let Some((key, value)) = found.filter(|_| TOP.iter().all(|key| root.get(*key).is_none())) else {
            return false;
        };
        let section = value.get_ref().as_table();
        let named = |key: &str| section.and_then(|section| section.get(key)?.get_ref().as_str());
        let graph = match (named("preset"), named("file")) {
            (Some(preset), _) => format!("--preset {preset}"),
            (None, Some(file)) => file.to_owned(),
            (None, None) => "FILE".to_owned(),
        };
        let remedy = format!(
            "name the graph itself: `ravelin qos apply {graph}`; `ravelin run --take-over` puts in force what [qos] of a \
             configuration names"
        );
        let message = "this is a configuration of the daemon, and no graph";
        self.fault(self.span(key.span()), Code::UnknownKey, message, remedy);
        true
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
        let mut inner = Reader { fixed: Some(name.span), ..Reader::default() };
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
        let Some(table) = self.maybe_table(root.get(kind), kind) else {
            self.lost |= root.get(kind).is_some();
            return Vec::new();
        };
        let mut rows: Vec<_> = table.iter().collect();
        rows.sort_by_key(|(key, _)| key.span().start);
        let mut parts = Vec::new();
        for (key, value) in rows {
            let before = self.faults.len();
            let name = Spanned::at(key.get_ref().to_string(), self.span(key.span()));
            let called = name.value.clone();
            parts.extend(self.named_part(kind, name, value, &take));
            if self.faults.len() > before {
                self.incomplete.push(called);
            }
        }
        parts
    }

    /// The part that stands at `[KIND.NAME]`; `None` if it cannot be read.
    fn named_part<T>(
        &mut self,
        kind: &str,
        name: Name,
        value: &Node<'_>,
        take: impl Fn(&mut Reader, Name, &DeTable<'_>) -> Option<T>,
    ) -> Option<T> {
        let most = if kind == "class" || kind == "tunnel" { SHORT_NAME } else { LONG_NAME };
        if !is_name(&name.value, most) {
            let remedy = format!("use 1 to {most} letters, digits, `-` and `_`, beginning with a letter");
            let message = format!("{:?} cannot be a name", name.value);
            self.fault(name.span, Code::BadName, message, remedy);
            return None;
        }
        let Some(table) = value.get_ref().as_table() else {
            let found = Reader::type_of(value);
            let message = format!("`{kind}.{}` must be a table, not {found}", name.value);
            let remedy = format!("write [{kind}.{}] on a line of its own and its keys below", name.value);
            self.fault(self.span(value.span()), Code::WrongType, message, remedy);
            return None;
        };
        take(self, name, table)
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
