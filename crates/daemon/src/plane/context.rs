//! The owners that a verb of another owner asks, and does not change.

use api::SaInfo;

use super::{Halves, Host, PolicyInForce, Rules};
use crate::classes::ClassCatalogue;
use crate::monitor::Monitor;
use crate::socket_queues::SplitSockets;
use config::Config;
use documents::associations::SaView;

/// The owners beside the one whose verb is called.
#[derive(Clone, Copy)]
pub(super) struct Context<'p> {
    /// The configuration of the daemon.
    pub(super) config: &'p Config,
    /// The two data threads.
    pub(super) halves: &'p Halves,
    /// The kernel half, behind its lock.
    pub(super) monitor: &'p Monitor,
    /// The policy in force.
    pub(super) policy: &'p PolicyInForce,
    /// The rules of the SPD.
    pub(super) rules: &'p Rules,
    /// The host that the daemon is on.
    pub(super) host: &'p Host,
    /// The classes of the graph in force.
    pub(super) classes: &'p ClassCatalogue,
    /// The UDP sockets for the classes of the graph in force, if there are several.
    pub(super) sockets: Option<&'p SplitSockets>,
}

impl Context<'_> {
    /// The association for people, with its application and its class by name.
    pub(super) fn named(self, view: SaView) -> SaInfo {
        view.named(|id| self.policy.app_name(id), &self.config.crypto.ciphers, &self.classes.get())
    }
}
