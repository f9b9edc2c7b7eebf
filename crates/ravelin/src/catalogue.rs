//! The names that a command without a daemon may use: suites, the standard ones and those of the ciphers in a configuration
//! file, and classes of the graph that the file names.

use std::path::{Path, PathBuf};

use clap::Args;
use config::{BrokenGraph, Config, GraphError, LoadedGraph};
use crypto::Suites;
use host_files::HostFiles;
use qos::graph::Aggregates;

use crate::cmd::run::{bad_config, bad_graph};

/// The configuration file that is read unless another one is named.
pub const CONFIG: &str = "/etc/ravelin/ravelin.toml";

/// The option that names the configuration file with the ciphers and the graph.
#[derive(Clone, Debug, Default, Args)]
pub struct Catalogue {
    /// Configuration file, of which the suites of [[cipher]] and the classes of the graph in [qos] are known [default:
    /// /etc/ravelin/ravelin.toml, where it is].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What the commands about graphs read of the configuration file, for their help.
pub const OF_GRAPHS: &str = "Configuration file, of which the suites of [[cipher]], `kernel_queues` and the libraries \
                             of [[qos.component]] are read, and not the graph [default: \
                             /etc/ravelin/ravelin.toml, where it is]";

impl Catalogue {
    /// The configuration file that was named; else the usual one, where it is.
    pub fn file(&self) -> Option<&Path> {
        self.config.as_deref().or_else(|| Some(Path::new(CONFIG)).filter(|usual| usual.exists()))
    }

    /// Whether a configuration file was named on the command line.
    pub fn is_named(&self) -> bool {
        self.config.is_some()
    }

    /// The graph that the configuration file names, if there is one and it is sound.
    pub fn graph(&self) -> Option<LoadedGraph> {
        let config = self.file().and_then(|path| Config::load(path).ok())?;
        config::load_graph(&config).ok().flatten()
    }

    /// The classes that may be named: those of the graph that the configuration file names.
    pub fn aggregates(&self) -> Aggregates {
        let config = self.file().and_then(|path| Config::load(path).ok());
        config.map_or_else(Aggregates::without_graph, |config| config::classes_of(&config))
    }

    /// The graph that the configuration file names, if it is broken: none of its classes is known then. What is wrong with
    /// the usual file is told of on standard error.
    ///
    /// # Errors
    /// What is wrong with a configuration file that was named on the command line, or why its graph cannot be read.
    pub fn broken_graph(&self) -> anyhow::Result<Option<Box<BrokenGraph>>> {
        let Some(file) = self.file() else { return Ok(None) };
        let why = match Config::load(file).map(|config| config::load_graph(&config)) {
            Ok(Ok(_)) => return Ok(None),
            Ok(Err(GraphError::Broken(broken))) if self.is_named() => return Ok(Some(broken)),
            Ok(Err(error)) if self.is_named() => return Err(bad_graph(&error)),
            Err(error) if self.is_named() => return Err(bad_config(&error)),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        eprintln!("ravelin: warning: no class of the graph is known: {why}");
        Ok(None)
    }

    /// This host, for a policy that may use these names.
    ///
    /// # Errors
    /// What is wrong with a file that was named on the command line.
    pub fn host(&self) -> anyhow::Result<HostFiles> {
        Ok(HostFiles::here(&self.suites()?, &self.aggregates()))
    }

    /// The suites that may be named. A cipher that is not known is told of on standard error.
    ///
    /// # Errors
    /// What is wrong with a file that was named on the command line.
    pub fn suites(&self) -> anyhow::Result<Suites> {
        let loaded = match &self.config {
            Some(path) => Config::load_ciphers(path).map_err(|error| bad_config(&error))?,
            None if !Path::new(CONFIG).exists() => return Ok(Suites::standard()),
            None => match Config::load_ciphers(Path::new(CONFIG)) {
                Ok(loaded) => loaded,
                // It may be meant for somebody else, and its other commands say more of it.
                Err(error) => {
                    eprintln!("ravelin: warning: only standard suites are known: {error}");
                    return Ok(Suites::standard());
                }
            },
        };
        for refused in &loaded.refused {
            eprintln!("ravelin: warning: the suites of a cipher are not known: {refused}");
        }
        Ok(loaded.suites)
    }
}
