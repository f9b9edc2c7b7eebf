//! The graph of classes that a start begins with: what `[qos]` names, or what an earlier daemon had on trial in its place.

use std::path::Path;

use config::Config;
use crypto::Registry;
use netio::clock;
use policy::Compiled;
use qos::behaviour::foreign::Libraries;
use qos::graph::Aggregates;

use super::RunError;
use crate::graph_store::{GraphStore, GraphText};
use crate::graphs::{GraphMaker, PreparedGraph, Surroundings};

/// The graph that a start begins with.
pub(super) struct FirstGraph {
    pub(super) store: GraphStore,
    pub(super) maker: GraphMaker,
    pub(super) prepared: PreparedGraph,
}

fn unread(store: &GraphStore, error: &std::io::Error) -> RunError {
    RunError::Unfit(format!(
        "[qos]: {}: {error}; name a file with a graph, or a preset (`ravelin qos presets` lists them)",
        store.name()
    ))
}

impl FirstGraph {
    /// Read, check and make the graph, before anything is changed on the host; `None` without `[qos]`.
    ///
    /// # Errors
    /// It cannot be read, has faults, or has something that the engine does not carry out.
    pub(super) fn prepare(
        config: &Config,
        run_dir: &Path,
        registry: &Registry,
        libraries: Libraries,
    ) -> Result<Option<FirstGraph>, RunError> {
        let store = GraphStore::open(config, run_dir).map_err(|source| RunError::System {
            doing: "reading the graph that an earlier daemon left",
            source,
        })?;
        let Some(store) = store else { return Ok(None) };
        let maker = GraphMaker::new(config, registry, libraries);
        FirstGraph::load(store, maker, &Aggregates::default(), &Surroundings::default()).map(Some)
    }

    fn load(
        mut store: GraphStore,
        maker: GraphMaker,
        catalogue: &Aggregates,
        around: &Surroundings,
    ) -> Result<FirstGraph, RunError> {
        let text = store.to_load(clock::monotonic()).map_err(|error| unread(&store, &error))?;
        let make = |text: &GraphText| maker.make(text, catalogue, around.clone());
        let (text, prepared) = match make(&text) {
            Ok(prepared) => (text, prepared),
            // What this version does not take any more must not keep the daemon from starting with what is configured.
            Err(error) => {
                let configured = store.configured().map_err(|error| unread(&store, &error))?;
                if configured == text {
                    return Err(error);
                }
                tracing::warn!("the graph that was in force is left out: {error}");
                let prepared = make(&configured)?;
                (configured, prepared)
            }
        };
        store.adopt(text);
        Ok(FirstGraph { store, maker, prepared })
    }

    /// The graph behind the daemon before, which can have ended a trial until it gave its place up, and with the policy,
    /// whose applications it can name. From here on the trial is this daemon's.
    ///
    /// # Errors
    /// The graph cannot be read or has faults, or a file of its trial cannot be read or written.
    pub(super) fn settled(
        first: Option<FirstGraph>,
        compiled: &Compiled,
    ) -> Result<Option<FirstGraph>, RunError> {
        let Some(FirstGraph { mut store, maker, prepared }) = first else { return Ok(None) };
        // What the policy was read with keeps its numbers.
        let catalogue = prepared.loaded.aggregates;
        let unsettled =
            |source| RunError::System { doing: "putting the graph right after one on trial", source };
        store.look_again().map_err(unsettled)?;
        let mut first = FirstGraph::load(store, maker, &catalogue, &Surroundings::of_policy(compiled))?;
        first.store.settle(clock::monotonic()).map_err(unsettled)?;
        first.prepared.notes.iter().for_each(|note| tracing::warn!("[qos]: {note}"));
        Ok(Some(first))
    }
}
