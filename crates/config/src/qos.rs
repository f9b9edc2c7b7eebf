//! The `[qos]` section of the configuration: the graph of classes that packets pass (docs/qos.md).

use std::path::PathBuf;

use qos::graph::PRESETS;

use super::read::{Reader, Value};
use crate::suggestion::suggestion;

const KEYS: [&str; 3] = ["preset", "file", "kernel_queues"];
/// The most kernel queues of a direction.
const MOST_KERNEL_QUEUES: u8 = 16;

/// The settings for quality of service, from `[qos]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosConfig {
    /// The place that the graph comes from.
    pub graph: GraphSource,
    /// The queues of each direction that the start opens in the kernel, 1 to 16; a graph shares them out among classes.
    pub kernel_queues: u8,
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
        Some(QosConfig { graph, kernel_queues: kernel_queues.unwrap_or(QosConfig::KERNEL_QUEUES) })
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
