//! A daemon from its start to its end, in the foreground.

use crypto::Registry;

use crate::keys::KeysError;
use crate::start::{RunError, RunOptions};
use crate::{serve, start, workers};
use config::Config;
use control::{harden, privileges};

/// Run a daemon in the foreground until a signal or a hand-over ends it.
///
/// # Errors
/// [`RunError`].
pub fn run(config: Config, options: RunOptions) -> Result<(), RunError> {
    let registry =
        documents::crypto_units::registry(&config, &mut workers::start).map_err(KeysError::from)?;
    run_with(config, options, registry)
}

/// Run a daemon as [`run`] does, with suites of other providers than the default ones.
///
/// # Errors
/// [`RunError`].
pub fn run_with(config: Config, options: RunOptions, registry: Registry) -> Result<(), RunError> {
    harden::harden();
    privileges::begin().map_err(|source| RunError::System { doing: "giving up privileges", source })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| RunError::System { doing: "starting the control plane", source })?;
    let daemon = start::start(config, options, registry)?;
    privileges::settle()
        .map_err(|source| RunError::System { doing: "closing system calls that nothing needs", source })?;
    runtime.block_on(serve::serve(daemon))
}
