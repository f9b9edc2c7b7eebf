//! The `[qos]` section of the configuration: the graph of classes that packets pass (docs/qos.md).

use std::path::PathBuf;

use cipher_manifest::Digest;
use qos::graph::PRESETS;
use toml::de::DeValue;

use super::read::{Reader, Value};
use crate::suggestion::suggestion;

const KEYS: [&str; 4] = ["preset", "file", "kernel_queues", "component"];
const COMPONENT: [&str; 3] = ["name", "path", "sha256"];
/// The most libraries of components.
const MOST_COMPONENTS: usize = 32;
/// The most characters in the name of a library.
const LONGEST_NAME: usize = 64;
/// The most kernel queues of a direction.
const MOST_KERNEL_QUEUES: u8 = 16;

/// The settings for quality of service, from `[qos]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosConfig {
    /// The place that the graph comes from.
    pub graph: GraphSource,
    /// The queues of each direction that the start opens in the kernel, 1 to 16; a graph shares them out among classes.
    pub kernel_queues: u8,
    /// The libraries from which graphs can attach components, in the order of the file.
    pub components: Vec<ComponentConfig>,
}

/// A library with a component, from its table `[[qos.component]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentConfig {
    /// The name by which graphs attach it.
    pub name: String,
    /// The path of the library.
    pub path: PathBuf,
    /// The digest that the library must have.
    pub sha256: Digest,
}

impl QosConfig {
    /// The queues of each direction in the kernel, unless the configuration says another number.
    pub const KERNEL_QUEUES: u8 = 4;
}

/// The place that a graph comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphSource {
    /// The graph comes with the program, under this name.
    Preset(&'static str),
    /// The graph stands in a file.
    File(PathBuf),
}

impl Reader<'_> {
    pub(super) fn qos(&mut self, value: Option<&Value<'_>>) -> Option<QosConfig> {
        let table = self.table(value, "qos", &KEYS)?;
        let kernel_queues = table.get("kernel_queues").and_then(|value| {
            let why = "queues that the start opens for each direction; a graph shares them out among classes";
            self.integer(value, "kernel_queues", 1..=i64::from(MOST_KERNEL_QUEUES), why)
        });
        let kernel_queues = kernel_queues.and_then(|number| u8::try_from(number).ok());
        let components = self.components(table.get("component"));
        let graph = match (table.get("preset"), table.get("file")) {
            (Some(preset), None) => GraphSource::Preset(self.preset(preset)?),
            (None, Some(file)) => GraphSource::File(self.path(file, "file")?),
            (Some(_), Some(file)) => {
                let remedy =
                    "leave one of them; a file may begin with preset = \"voice\" and change what it needs";
                self.fault(file.span(), "a graph is a preset or stands in a file, not both", remedy);
                return None;
            }
            (None, None) => {
                let at = value.map_or(0..0, |value| value.span());
                let remedy =
                    "write: preset = \"voice\" (`ravelin qos presets` lists them), or file = \"qos.toml\"";
                self.fault(at, "[qos] names no graph", remedy);
                return None;
            }
        };
        let kernel_queues = kernel_queues.unwrap_or(QosConfig::KERNEL_QUEUES);
        Some(QosConfig { graph, kernel_queues, components })
    }

    /// The libraries with components. One that is at fault is left out, and its faults are noted.
    fn components(&mut self, value: Option<&Value<'_>>) -> Vec<ComponentConfig> {
        let mut components: Vec<ComponentConfig> = Vec::new();
        let Some(value) = value else { return components };
        let DeValue::Array(tables) = value.get_ref() else {
            let remedy = "write [[qos.component]], in two brackets: there may be several";
            self.fault(value.span(), "`component` must be a list of tables", remedy);
            return components;
        };
        if tables.len() > MOST_COMPONENTS {
            let message = format!("there are {} components", tables.len());
            self.fault(value.span(), message, format!("leave {MOST_COMPONENTS} at most"));
        }
        for value in tables.iter().take(MOST_COMPONENTS) {
            let Some(component) = self.component(value) else { continue };
            if components.iter().any(|known| known.name == component.name) {
                let message = format!("two components are called {:?}", component.name);
                self.fault(value.span(), message, "give one of them another name");
                continue;
            }
            components.push(component);
        }
        components
    }

    fn component(&mut self, value: &Value<'_>) -> Option<ComponentConfig> {
        let table = self.table(Some(value), "qos.component", &COMPONENT)?;
        let mut missing = false;
        for (key, remedy) in [
            ("name", "add name = \"...\", by which graphs attach it: library = \"...\""),
            ("path", "add path = \"...\", the whole path of the library"),
            (
                "sha256",
                "add sha256 = \"...\", the digest that `sha256sum FILE` prints: it pins what may run in the daemon",
            ),
        ] {
            if !table.contains_key(key) {
                missing = true;
                self.fault(value.span(), format!("a component needs `{key}`"), remedy);
            }
        }
        if missing {
            return None;
        }
        let (name, path, pinned) = (table.get("name")?, table.get("path")?, table.get("sha256")?);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let text = self.string(name, "name")?.to_owned();
        let is_name = !text.is_empty() && text.len() <= LONGEST_NAME && text.chars().all(is_plain);
        if !is_name {
            let remedy = format!("write 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `.`");
            self.fault(name.span(), format!("{text:?} is no name of a component"), remedy);
        }
        let path = self.path(path, "path");
        let digest = self.string(pinned, "sha256")?.parse::<Digest>();
        if let Err(error) = &digest {
            let remedy = "write what `sha256sum FILE` prints for the library";
            self.fault(pinned.span(), error.to_string(), remedy);
        }
        let (true, Some(path), Ok(sha256)) = (is_name, path, digest) else { return None };
        Some(ComponentConfig { name: text, path, sha256 })
    }

    /// The name of a preset, as the list of them has it.
    fn preset(&mut self, value: &Value<'_>) -> Option<&'static str> {
        let word = self.string(value, "preset")?;
        let names: Vec<&'static str> = PRESETS.iter().map(|(name, _)| *name).collect();
        let name = names.iter().find(|name| **name == word).copied();
        if name.is_none() {
            let remedy = match suggestion(word, &names) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("presets: {}", names.join(", ")),
            };
            self.fault(value.span(), format!("no preset is called {word:?}"), remedy);
        }
        name
    }
}
