//! The graph of classes in force, with its texts and what another one is made with.

use api::{QosApplied, QosInForce, Waiting};
use config::LoadedGraph;
use netio::clock;

use crate::graph_store::GraphStore;
use crate::graphs::GraphMaker;
use crate::reservations::Booking;
use crate::socket_queues::SplitSockets;
use crate::trial::Exchanged;
use crate::tun_queues::SplitQueues;
use documents::api_error::{ApiError, Blame};

/// The graph of classes that is in force, with what another one is made with.
pub(crate) struct GraphInForce {
    /// The graph as it was read.
    pub(crate) loaded: LoadedGraph,
    /// Its text, and those before and on trial.
    pub(crate) store: GraphStore,
    /// What graphs of this gateway are made with.
    pub(crate) maker: GraphMaker,
    /// The queues of the TUN for its classes.
    pub(crate) queues: Option<SplitQueues>,
    /// The UDP sockets for its classes.
    pub(crate) sockets: Option<SplitSockets>,
    /// Sentences about rules that match nothing on this gateway.
    pub(crate) notes: Vec<String>,
    /// The reservations over it.
    pub(crate) booking: Booking,
    /// The components from outside that were detached, of which the log has been told.
    pub(crate) detached: Vec<String>,
}

impl GraphInForce {
    /// The trial of the graph.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let trial = self.store.trial()?;
        Some(Waiting { file: trial.source.clone(), seconds_left: trial.seconds_left(clock::monotonic()) })
    }

    /// The name of the graph, where it is from, and its trial.
    pub(crate) fn in_force(&self) -> QosInForce {
        let (file, origin) = (self.loaded.source.clone(), self.store.origin());
        QosInForce { file, origin, waiting: self.waiting() }
    }

    /// A change on top of one on trial would leave nothing to go back to.
    ///
    /// # Errors
    /// If one is on trial.
    pub(super) fn not_on_trial(&self) -> Result<(), ApiError> {
        let Some(Waiting { file, seconds_left }) = self.waiting() else { return Ok(()) };
        let text = format!("{file} is on trial for another {seconds_left} s");
        Err(ApiError::new(Blame::Conflict, text)
            .remedy("`ravelin qos confirm` keeps it, `ravelin qos rollback` takes it back"))
    }

    /// The answer to a change, with what became of the files.
    pub(super) fn applied(&self, done: Exchanged) -> QosApplied {
        QosApplied {
            file: self.loaded.source.clone(),
            classes: self.loaded.description.classes.iter().map(|class| class.name.value.clone()).collect(),
            installed: done.installed.then(|| self.store.name()),
            kept_as: done.kept_as.map(|path| path.display().to_string()),
            waiting: self.waiting(),
            notes: self.notes.clone(),
            ended_reservations: Vec::new(),
        }
    }
}
