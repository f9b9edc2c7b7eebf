//! The libraries of graphs' components (docs/design/0043): loaded before the daemon forbids itself to make memory
//! executable, and for good.
//!
//! What enters: the tables `[[qos.component]]`. What leaves: what graphs attach instances with. A library that is not
//! loaded does not keep the daemon from starting, but the graph that names it is refused.

use config::{ComponentConfig, Config};
use qos::behaviour::foreign::{Libraries, Library, LibraryState};
use qos_loader::load_named;

/// Load every library that the configuration names.
pub fn load_all(config: &Config) -> Libraries {
    let named = config.qos.iter().flat_map(|qos| &qos.components);
    Libraries::Named(named.map(load_one).collect())
}

fn load_one(component: &ComponentConfig) -> Library {
    let ComponentConfig { name, path, sha256 } = component;
    match load_named(name, path, *sha256) {
        Ok(library) => {
            tracing::info!("component {name} is loaded from {}", path.display());
            library
        }
        Err(error) => {
            tracing::error!("component {name} is not loaded: {error}; {}", error.remedy());
            Library { name: name.clone(), state: LibraryState::Refused(error.to_string()) }
        }
    }
}
