//! The libraries of graphs' components (docs/design/0043): loaded before the daemon forbids itself to make memory
//! executable, and for good.
//!
//! What enters: the tables `[[qos.component]]`. What leaves: what graphs attach instances with. A library that is not
//! loaded does not keep the daemon from starting, but the graph that names it is refused.

use std::sync::Arc;

use cipher_loader::{Trial, Trust};
use config::{ComponentConfig, Config};
use qos::behaviour::foreign::{Libraries, Library, LibraryState, SharedMaker};
use qos_loader::{Request, load, trial};

/// Load every library that the configuration names.
pub fn load_all(config: &Config) -> Libraries {
    let named = config.qos.iter().flat_map(|qos| &qos.components);
    Libraries::Named(named.map(load_one).collect())
}

fn load_one(component: &ComponentConfig) -> Library {
    let ComponentConfig { name, path, sha256 } = component;
    let request = Request {
        path: path.clone(),
        sha256: Some(*sha256),
        trust: Trust::Root,
        trial: Trial::own([trial::COMMAND]),
    };
    let state = match load(&request) {
        Ok(loaded) => {
            let (own, version) = (loaded.name(), loaded.version());
            tracing::info!("component {name}: {own} {version} from {}", path.display());
            LibraryState::Loaded(SharedMaker(Arc::new(loaded)))
        }
        Err(error) => {
            tracing::error!("component {name} is not loaded: {error}; {}", error.remedy());
            LibraryState::Refused(error.to_string())
        }
    };
    Library { name: name.clone(), state }
}
