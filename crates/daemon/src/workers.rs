//! Processes for ciphers of one's own (docs/design/0037): started before the daemon forbids itself to start programs.

use std::sync::Arc;
use std::time::Duration;

use cipher_loader::{Examined, Trial};
use cipher_worker::{Event, Isolated, Settings, State};
use crypto::WorkerState;
use documents::ciphers::{StartedWorker, WORKER_COMMAND};

/// Start a worker for a cipher. Its failures and restarts go to the log.
///
/// # Errors
/// Why there is none, for `status`.
pub fn start(examined: &Examined, deadline: Duration) -> Result<StartedWorker, String> {
    let name = examined.manifest.description.name.clone();
    let program = Trial::own([WORKER_COMMAND]);
    let told = move |event: &Event| match event {
        Event::Failed(why) => {
            tracing::error!(
                "the worker of cipher {name} failed: {why}; its packets are dropped (unit_failed)"
            );
        }
        Event::Restarted { restarts } => {
            tracing::warn!("the worker of cipher {name} is back, start {restarts} behind the first one");
        }
        other => tracing::warn!("the worker of cipher {name}: {other:?}"),
    };
    let isolated = Isolated::start(&program, examined, Settings { deadline, ..Settings::default() }, told);
    let isolated = Arc::new(isolated.map_err(|error| error.to_string())?);
    isolated.be_patient(true);
    let (asked, settled) = (Arc::clone(&isolated), Arc::clone(&isolated));
    let state = move || {
        let report = asked.report();
        WorkerState { is_up: report.state == State::Up, text: report.to_string() }
    };
    let settle = move || settled.be_patient(false);
    Ok(StartedWorker { cipher: isolated, state: Box::new(state), settle: Box::new(settle) })
}
