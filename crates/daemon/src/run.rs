//! A daemon from its start to its end, in the foreground.

use crypto::Registry;

use crate::keys::KeysError;
use crate::start::{RunError, RunOptions};
use crate::workers::ChangeReceiver;
use crate::{components, serve, start, workers};
use config::Config;
use control::{harden, privileges};

/// Run a daemon in the foreground until a signal or a hand-over ends it.
///
/// # Errors
/// [`RunError`].
pub fn run(config: Config, options: RunOptions) -> Result<(), RunError> {
    let (sender, changes) = workers::changes();
    let mut start = |examined: &_, deadline| workers::start(examined, deadline, &sender);
    let registry = documents::crypto_units::registry(&config, &mut start).map_err(KeysError::from)?;
    run_to_the_end(config, options, registry, changes)
}

/// Run a daemon as [`run`] does, with suites of other providers than the default ones.
///
/// # Errors
/// [`RunError`].
pub fn run_with(config: Config, options: RunOptions, registry: Registry) -> Result<(), RunError> {
    run_to_the_end(config, options, registry, workers::changes().1)
}

fn run_to_the_end(
    config: Config,
    options: RunOptions,
    registry: Registry,
    changes: ChangeReceiver,
) -> Result<(), RunError> {
    // Both need what is given up next: the start of a program for a trial, and executable memory.
    let libraries = components::load_all(&config);
    harden::harden();
    privileges::begin().map_err(|source| RunError::System { doing: "giving up privileges", source })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| RunError::System { doing: "starting the control plane", source })?;
    let daemon = start::start(config, options, registry, libraries)?;
    privileges::settle()
        .map_err(|source| RunError::System { doing: "closing system calls that nothing needs", source })?;
    runtime.block_on(serve::serve(daemon, changes))
}
