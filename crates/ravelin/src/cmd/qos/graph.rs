//! The graph that a command is about: a file or a preset, and the gateway that it is checked against.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use config::{BrokenGraph, Config, GraphError, LoadedGraph, QosConfig};
use qos::behaviour::foreign::Libraries;
use qos::graph::{House, PRESETS};

use super::component;
use crate::catalogue::{Catalogue, OF_GRAPHS};
use crate::cmd::run::bad_config;
use crate::exit::{Failure, Kind};

/// The answer where the daemon has no graph.
pub const NONE: &str =
    "no graph of classes is in force; `[qos]` in the configuration names one (docs/qos.md)";

/// The arguments that name a graph.
#[derive(Debug, Args)]
#[command(mut_arg("config", |config| config.help(OF_GRAPHS)))]
pub struct GraphArguments {
    /// The graph (`-`: standard input).
    #[arg(required_unless_present = "preset", conflicts_with = "preset")]
    file: Option<PathBuf>,
    #[command(flatten)]
    pub preset: PresetArgument,
    #[command(flatten)]
    pub catalogue: Catalogue,
    #[command(flatten)]
    pub load: LoadArgument,
}

/// The arguments that may name a graph.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("config", |config| config.help(OF_GRAPHS)))]
pub struct GraphChoice {
    /// The graph (`-`: standard input).
    #[arg(conflicts_with = "preset")]
    file: Option<PathBuf>,
    #[command(flatten)]
    preset: PresetArgument,
    #[command(flatten)]
    catalogue: Catalogue,
}

impl GraphChoice {
    /// The arguments, if they name a graph.
    pub fn graph(&self) -> Option<GraphArguments> {
        let GraphChoice { file, preset, catalogue } = self.clone();
        let is_named = file.is_some() || preset.preset.is_some();
        let load = LoadArgument::default();
        is_named.then_some(GraphArguments { file, preset, catalogue, load })
    }
}

/// The option that names a preset.
#[derive(Clone, Debug, Args)]
pub struct PresetArgument {
    /// A graph that comes with the program, in the place of a file.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(PRESETS.iter().map(|(name, _)| *name)))]
    preset: Option<String>,
}

/// The option that loads libraries of components.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct LoadArgument {
    /// Load the libraries that [[qos.component]] of the configuration names into this process, and have them look at
    /// their parameters; without it their names alone are compared. They are trusted code.
    #[arg(long)]
    load: bool,
}

impl LoadArgument {
    /// Load what the configuration names, if that is asked for.
    pub fn put(self, catalogue: &Catalogue, house: &mut House) -> anyhow::Result<()> {
        if !self.load {
            return Ok(());
        }
        let Some(file) = catalogue.file() else {
            let remedy = "name one with --config";
            return Err(Failure::with_remedy(
                Kind::BadInput,
                "no configuration names libraries".to_owned(),
                remedy,
            ));
        };
        let config = Config::load(file).map_err(|error| bad_config(&error))?;
        let components = config.qos.iter().flat_map(|qos| &qos.components);
        house.libraries = Libraries::Named(components.map(component::loaded).collect::<anyhow::Result<_>>()?);
        Ok(())
    }
}

/// A graph, or what is wrong with it.
pub enum Outcome {
    Sound(Box<LoadedGraph>),
    Broken(Box<BrokenGraph>),
}

impl GraphArguments {
    /// The gateway that the graph is checked against.
    pub fn house(&self) -> anyhow::Result<House> {
        let mut house = house(&self.catalogue)?;
        self.load.put(&self.catalogue, &mut house)?;
        Ok(house)
    }

    /// The graph, or what is wrong with it.
    pub fn outcome(&self, house: &House) -> anyhow::Result<Outcome> {
        outcome(self.file.as_deref(), &self.preset, house)
    }

    /// The graph; what is wrong with it is an error.
    pub fn sound(&self, house: &House) -> anyhow::Result<LoadedGraph> {
        sound(self.file.as_deref(), &self.preset, house)
    }
}

/// The gateway that a configuration file describes; without one nothing is known of it but the standard suites.
pub fn house(catalogue: &Catalogue) -> anyhow::Result<House> {
    let suites = catalogue.suites()?;
    let (kernel_queues, libraries) = match catalogue.file().map(Config::load) {
        None => (None, Libraries::Unknown),
        Some(Ok(config)) => {
            let libraries = config::libraries_of(&config);
            (Some(config.qos.map_or(QosConfig::KERNEL_QUEUES, |qos| qos.kernel_queues)), libraries)
        }
        Some(Err(error)) if catalogue.is_named() => return Err(bad_config(&error)),
        // The file may be meant for somebody else, and the other commands say more of it.
        Some(Err(error)) => {
            eprintln!("ravelin: warning: kernel queues and libraries are not compared: {error}");
            (None, Libraries::Unknown)
        }
    };
    Ok(House { libraries, ..config::house(&suites, kernel_queues) })
}

/// The graph of a file or preset, or what is wrong with it.
pub fn outcome(file: Option<&Path>, preset: &PresetArgument, house: &House) -> anyhow::Result<Outcome> {
    let loaded = match (file, &preset.preset) {
        (_, Some(name)) => LoadedGraph::preset(name, house),
        (Some(file), None) if file == Path::new("-") => {
            let mut octets = Vec::new();
            let bound = u64::try_from(config::MAX_GRAPH).unwrap_or(u64::MAX).saturating_add(1);
            std::io::stdin().lock().take(bound).read_to_end(&mut octets)?;
            LoadedGraph::check_octets("<stdin>", octets, house)
        }
        (Some(file), None) => LoadedGraph::read(file, house),
        (None, None) => {
            return Err(Failure::bad_input("no graph is named; name a file, or a preset with --preset"));
        }
    };
    match loaded {
        Ok(graph) => Ok(Outcome::Sound(Box::new(graph))),
        Err(GraphError::Broken(broken)) => Ok(Outcome::Broken(broken)),
        Err(error) => Err(Failure::bad_input(error.to_string())),
    }
}

/// The graph of a file or preset; what is wrong with it is an error.
pub fn sound(file: Option<&Path>, preset: &PresetArgument, house: &House) -> anyhow::Result<LoadedGraph> {
    match outcome(file, preset, house)? {
        Outcome::Sound(graph) => Ok(*graph),
        Outcome::Broken(broken) => Err(Failure::bad_input(format!("the graph has errors\n{broken}"))),
    }
}

/// The option that names a file of costs.
#[derive(Debug, Args)]
pub struct CostArgument {
    /// Costs of suites, measured elsewhere: TOML, a table [[cost]] for each suite with `suite`, `direction`, `base_ns`,
    /// `ps_per_octet` [default: the work of ciphers counts as nothing, and the output says so].
    #[arg(long, value_name = "FILE")]
    cost: Option<PathBuf>,
}

impl CostArgument {
    /// Put the costs of the file into a gateway.
    pub fn put(&self, catalogue: &Catalogue, house: &mut House) -> anyhow::Result<()> {
        if let Some(file) = &self.cost {
            let costs = config::load_costs(file, &catalogue.suites()?);
            house.costs = costs.map_err(|error| match error {
                config::ConfigError::Bad(report) => {
                    Failure::bad_input(format!("the file of costs has errors\n{report}"))
                }
                other => bad_config(&other),
            })?;
        }
        Ok(())
    }
}
