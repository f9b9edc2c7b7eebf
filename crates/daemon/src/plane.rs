//! The control plane: everything that a request may ask about or change, one request at a time.
//!
//! What enters: requests of the control API, signals. What leaves: functions for the two data threads, tables for the kernel
//! half, answers. It owns no packet and is never waited for by one.
//!
//! Each part of its state has one owner, with private fields and verbs of its own: [`Halves`], [`Host`], [`Rules`], [`Associations`],
//! [`PolicyInForce`], [`Observers`]. What crosses owners is a verb of [`Plane`]: what a start does in `first`, requests in `requests`,
//! changes of policy in `turn` and `transaction`, what is done from time to time in `upkeep`, the end in `handover`
//! (docs/design/0030).

mod associations;
pub(crate) mod capture;
mod context;
mod first;
mod graph;
mod graph_change;
mod halves;
mod handover;
mod host;
mod observers;
pub(crate) mod paths;
mod policy;
mod requests;
mod reservations;
mod rules;
mod transaction;
mod transition;
mod upkeep;

pub(crate) use self::policy::Rivals;
pub use self::policy::{Hosts, PolicyInForce};
pub(crate) use self::policy::{load_kernel, report};
pub use associations::{Associations, SaQuery};
pub(crate) use graph::GraphInForce;
pub use halves::Halves;
pub(crate) use halves::ThreadState;
pub use host::Host;
pub use observers::Observers;
pub(crate) use observers::{Turns, events, queue_drops};
pub use rules::Rules;
pub use transition::Allow;

use std::sync::Arc;
use std::time::Duration;

use crypto::Provider;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use wire::Time;

use context::Context;

use crate::classes::ClassCatalogue;
use crate::monitor::Monitor;
use config::Config;
use documents::api_error::{ApiError, Blame};
use documents::ciphers::fingerprints;

/// The control plane's state, by owners.
pub struct Plane {
    /// The configuration of the daemon.
    config: Config,
    /// When the daemon started (monotonic).
    started: Time,
    /// The two data threads.
    halves: Halves,
    /// The kernel half, behind its lock.
    monitor: Monitor,
    /// The host that the daemon is on.
    host: Host,
    /// The classes of the graph in force, which policy, rules and associations may name.
    classes: ClassCatalogue,
    /// The rules of the SPD.
    rules: Rules,
    /// The keys and selectors of associations.
    associations: Associations,
    /// The policy in force.
    policy: PolicyInForce,
    /// What watches and tells.
    observers: Observers,
    /// The graph of classes that is in force.
    graph: Option<GraphInForce>,
}

/// The control plane for those who answer requests: one at a time, until it is taken away at the end.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Option<Plane>>>);

impl Shared {
    /// Share the control plane among those who answer requests.
    pub fn new(plane: Plane) -> Shared {
        Shared(Arc::new(Mutex::new(Some(plane))))
    }

    /// Wait for one's turn.
    ///
    /// # Errors
    /// If the daemon is about to end.
    pub async fn get(&self) -> Result<MappedMutexGuard<'_, Plane>, ApiError> {
        MutexGuard::try_map(self.0.lock().await, Option::as_mut)
            .map_err(|_| ApiError::new(Blame::Busy, "the daemon is about to end"))
    }

    /// Take it away; whoever comes later is refused.
    pub async fn take(&self) -> Option<Plane> {
        self.0.lock().await.take()
    }
}

impl Plane {
    /// A control plane that starts now, with these owners and no rules.
    pub(crate) fn new(
        config: Config,
        halves: Halves,
        monitor: Monitor,
        host: Host,
        associations: Associations,
        policy: PolicyInForce,
        observers: Observers,
    ) -> Plane {
        Plane {
            rules: Rules::new(config.gateway.is_some(), &config.crypto.ciphers.suites, policy.classes()),
            classes: policy.classes().clone(),
            started: netio::clock::monotonic(),
            config,
            halves,
            monitor,
            host,
            observers: observers.knowing(fingerprints(associations.registry())),
            associations,
            policy,
            graph: None,
        }
    }

    /// The graph of classes is this one, which the data threads have.
    pub(crate) fn with_graph(mut self, graph: Option<GraphInForce>) -> Plane {
        self.graph = graph;
        self
    }

    /// The graph of classes that is in force.
    pub(crate) fn graph(&self) -> Option<&GraphInForce> {
        self.graph.as_ref()
    }

    /// The configuration of the daemon.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The time since the daemon started.
    pub(crate) fn uptime(&self) -> Duration {
        netio::clock::monotonic().since(self.started)
    }

    /// The two data threads, to be asked.
    pub(crate) fn halves(&self) -> &Halves {
        &self.halves
    }

    /// The host that the daemon is on.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// The classes of the graph in force.
    pub(crate) fn classes(&self) -> &ClassCatalogue {
        &self.classes
    }

    /// The rules of the SPD.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The cipher of one's own to which known answers are to be put in this second, counted from the start.
    pub(crate) fn cipher_to_check(&mut self, second: u32) -> Option<Arc<dyn Provider>> {
        self.associations.cipher_to_check(second)
    }

    /// The associations, to be looked at.
    pub(crate) fn associations(&self) -> &Associations {
        &self.associations
    }

    /// The policy in force, to be asked.
    pub(crate) fn policy(&self) -> &PolicyInForce {
        &self.policy
    }

    /// What watches and tells, to be asked.
    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// The owners that a verb of the associations or of the observers looks at.
    fn context(&self) -> Context<'_> {
        let Plane { config, halves, monitor, policy, rules, host, classes, graph, .. } = self;
        let sockets = graph.as_ref().and_then(|graph| graph.sockets.as_ref());
        Context { config, halves, monitor, policy, rules, host, classes, sockets }
    }

    /// The associations, and the owners that a change of theirs asks.
    fn associations_in_context(&mut self) -> (&mut Associations, Context<'_>) {
        let Plane { config, halves, monitor, policy, rules, host, classes, graph, associations, .. } = self;
        let sockets = graph.as_ref().and_then(|graph| graph.sockets.as_ref());
        (associations, Context { config, halves, monitor, policy, rules, host, classes, sockets })
    }

    /// The observers, and the owners that they watch.
    fn observers_in_context(&mut self) -> (&mut Observers, Context<'_>) {
        let Plane { config, halves, monitor, policy, rules, host, classes, graph, observers, .. } = self;
        let sockets = graph.as_ref().and_then(|graph| graph.sockets.as_ref());
        (observers, Context { config, halves, monitor, policy, rules, host, classes, sockets })
    }
}
