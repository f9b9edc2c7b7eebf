//! The graph that `[qos]` names: read, checked, and made once for each direction, so that nothing refuses it later.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crypto::Suites;
use qos::behaviour::foreign::{Libraries, Library, LibraryState};
use qos::graph::{self, Aggregates, Description, Fault, House, PRESETS, Place};

use super::report::Report;
use super::{ComponentConfig, Config, GraphSource, QosConfig};

/// The longest text of a graph, in octets.
pub const MAX_GRAPH: usize = 1 << 20;

/// A graph that was read and found without fault.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedGraph {
    /// The name in messages: the path of the file, or `preset voice`.
    pub source: String,
    /// The text as it was read; places in the description are octets of it.
    pub text: String,
    /// The graph in its full form.
    pub description: Description,
    /// The numbers of classes: those that the instance has given, and those of this graph behind them.
    pub aggregates: Aggregates,
    /// What the text may not have meant, in its order. It refuses nothing.
    pub warnings: Vec<Fault>,
}

/// The faults of a graph, with the text in which they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenGraph {
    /// The name in messages.
    pub source: String,
    /// The text as it was read.
    pub text: String,
    /// Every fault, in the order of the text.
    pub faults: Vec<Fault>,
}

impl fmt::Display for BrokenGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = report(&self.source, &self.text, &self.faults, "error");
        fmt::Display::fmt(&report, f)
    }
}

/// Faults of a text, which messages call `source`.
fn report(source: &str, text: &str, faults: &[Fault], severity: &'static str) -> Report {
    let mut report = Report::new(source.to_owned());
    for Fault { span, code, message, remedy } in faults {
        let code = Some(code.to_string());
        report.add_coded(text, span.clone(), severity, code, message.clone(), remedy.clone());
    }
    report
}

/// Why there is no graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The file cannot be read.
    #[error("{file}: {why}; name a file with a graph, or a preset (`ravelin qos presets` lists them)")]
    Read {
        /// The path of the file.
        file: String,
        /// The reason, without a full stop.
        why: String,
    },
    /// The graph has faults.
    #[error("{0}")]
    Broken(Box<BrokenGraph>),
}

/// The classes that policy, rules and associations may name: those of the graph that `[qos]` names. There is none
/// without a graph, or if it is broken, which [`load_graph`] tells. Whatever reads a policy or rules beside a
/// configuration takes them from here.
pub fn classes_of(config: &Config) -> Aggregates {
    let loaded = load_graph(config).ok().flatten();
    loaded.map_or_else(Aggregates::without_graph, |graph| graph.classes())
}

impl LoadedGraph {
    /// The numbers of the instance, of which this graph has its own classes and no others.
    pub fn classes(&self) -> Aggregates {
        let classes = &self.description.classes;
        self.aggregates.clone().only(|name| classes.iter().any(|class| class.name.value == name))
    }

    /// The warnings with their places, for people.
    pub fn show_warnings(&self) -> String {
        report(&self.source, &self.text, &self.warnings, "warning").to_string()
    }

    /// A sentence for each warning.
    pub fn warning_notes(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().map(|warning| {
            let Place { line, column } = Place::of(&self.text, warning.span.start);
            format!("{}:{line}:{column}: {}; {}", self.source, warning.message, warning.remedy)
        })
    }

    /// Check a text, which messages call `source`.
    ///
    /// # Errors
    /// [`GraphError::Broken`] with every fault.
    pub fn check(source: &str, text: String, house: &House) -> Result<LoadedGraph, GraphError> {
        let broken = |text, faults| {
            GraphError::Broken(Box::new(BrokenGraph { source: source.to_owned(), text, faults }))
        };
        let description = match graph::check_compiled(&text, house) {
            Ok(description) => description,
            Err(faults) => return Err(broken(text, faults)),
        };
        let mut aggregates = house.catalogue.clone();
        for class in &description.classes {
            // The check has given every class a number, in a catalogue of its own.
            let _ = aggregates.number(&class.name.value);
        }
        let warnings = graph::warnings(&text);
        Ok(LoadedGraph { source: source.to_owned(), text, description, aggregates, warnings })
    }

    /// Check the octets of a file, or of standard input.
    ///
    /// # Errors
    /// [`GraphError`]: they are too many or no text, or the graph has faults.
    pub fn check_octets(source: &str, octets: Vec<u8>, house: &House) -> Result<LoadedGraph, GraphError> {
        let unread = |why| GraphError::Read { file: source.to_owned(), why };
        if octets.len() > MAX_GRAPH {
            return Err(unread(format!("the text is longer than {MAX_GRAPH} octets")));
        }
        let text = String::from_utf8(octets).map_err(|error| {
            unread(format!("the text is not UTF-8 from octet {} on", error.utf8_error().valid_up_to() + 1))
        })?;
        LoadedGraph::check(source, text, house)
    }

    /// Read and check a file.
    ///
    /// # Errors
    /// [`GraphError`]: the file cannot be read, or the graph has faults.
    pub fn read(path: &Path, house: &House) -> Result<LoadedGraph, GraphError> {
        let source = path.display().to_string();
        let octets = octets(path).map_err(|why| GraphError::Read { file: source.clone(), why })?;
        LoadedGraph::check_octets(&source, octets, house)
    }

    /// Check a preset against what the gateway has.
    ///
    /// # Errors
    /// [`GraphError`]: there is none of this name, or it does not go with the gateway.
    pub fn preset(name: &str, house: &House) -> Result<LoadedGraph, GraphError> {
        let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) else {
            let why = "there is no such preset".to_owned();
            return Err(GraphError::Read { file: format!("preset {name}"), why });
        };
        LoadedGraph::check(&format!("preset {name}"), (*text).to_owned(), house)
    }
}

/// The octets of a regular file, one more than there may be at most.
fn octets(path: &Path) -> Result<Vec<u8>, String> {
    // A folder, a pipe or a device in the place of the file must not hold the reader up.
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("this is no regular file".to_owned());
    }
    let mut octets = Vec::new();
    let bound = u64::try_from(MAX_GRAPH).unwrap_or(u64::MAX).saturating_add(1);
    let read = File::open(path).and_then(|file| file.take(bound).read_to_end(&mut octets));
    read.map(|_| octets).map_err(|error| error.to_string())
}

/// A gateway of which nothing is known but its suites and, if they are told, its kernel queues.
///
/// The times of the packet path are the usual ones. What policy, rules and associations name, and measured costs, are
/// added by whoever knows them.
pub fn house(suites: &Suites, kernel_queues: Option<u8>) -> House {
    House {
        known_suites: suites.all().map(|suite| suite.to_string()).collect(),
        kernel_queues: kernel_queues.map(u64::from),
        ..House::default()
    }
}

/// The gateway as a configuration describes it.
pub fn house_of(config: &Config) -> House {
    let kernel_queues = config.qos.as_ref().map_or(QosConfig::KERNEL_QUEUES, |qos| qos.kernel_queues);
    let libraries = libraries_of(config);
    House { libraries, ..house(&config.crypto.ciphers.suites, Some(kernel_queues)) }
}

/// The libraries of components that a configuration names. None is loaded.
pub fn libraries_of(config: &Config) -> Libraries {
    let named = config.qos.iter().flat_map(|qos| &qos.components);
    let library =
        |component: &ComponentConfig| Library { name: component.name.clone(), state: LibraryState::Named };
    Libraries::Named(named.map(library).collect())
}

/// The graph that `[qos]` names, checked against the gateway that the configuration describes; `None` without `[qos]`.
///
/// # Errors
/// [`GraphError`]: the file cannot be read, or the graph has faults.
pub fn load_graph(config: &Config) -> Result<Option<LoadedGraph>, GraphError> {
    load_graph_for(config, &house_of(config))
}

/// The graph that `[qos]` names, checked against a gateway of which more is known than [`house_of`] tells.
///
/// # Errors
/// [`GraphError`]: the file cannot be read, or the graph has faults.
pub fn load_graph_for(config: &Config, house: &House) -> Result<Option<LoadedGraph>, GraphError> {
    let Some(qos) = &config.qos else { return Ok(None) };
    match &qos.graph {
        GraphSource::Preset(name) => LoadedGraph::preset(name, house),
        GraphSource::File(path) => LoadedGraph::read(path, house),
    }
    .map(Some)
}
