//! What watches and tells: events, the audit log, captures, refusals, flows, scrubbed packets, and whether what must be protected gets
//! through.
//!
//! What enters: what the data threads and the kernel half tell, once a second and at requests. What leaves: events, lines of logs,
//! problems with what to do about them. Nothing here decides about a packet.

mod audit;
pub(in crate::plane) mod captures;
mod denials;
pub(crate) mod events;
mod flows;
mod health;
mod probing;
mod traffic;

use std::sync::Arc;

use api::Event;
use sockmon::Sender;
use wire::Time;

use crate::audit_log::{Auditor, Remote};
use crate::denials::{Denial, Denials};
use crate::events::EventBus;
use crate::flows::FlowLog;
use crate::health::{Ended, HealthBook};
use crate::json_log::LogCounts;
use crate::probing::Probing;
use crate::scrubbed::Scrubbed;
use documents::ciphers::Fingerprints;

use captures::Captures;
pub(crate) use probing::Turns;
pub(crate) use traffic::queue_drops;

/// The parts of the control plane that watch the data threads and the kernel half, and tell others what they saw.
pub struct Observers {
    /// Who hears of events.
    hub: EventBus,
    /// The ciphers of one's own, for key managers.
    fingerprints: Fingerprints,
    /// The writer of the audit log.
    auditor: Auditor,
    /// Captures that run, and the last that ended.
    captures: Arc<Captures>,
    /// What the kernel half refused lately.
    denials: Denials,
    /// What is known of flows beside the kernel half's table.
    flows: FlowLog,
    /// Flows that policy wants scrubbed.
    scrubbed: Scrubbed,
    /// Whether what must be protected gets through.
    health: HealthBook,
    /// Whether long packets arrive.
    probing: Probing,
    /// What the kernel half had counted when the daemon started: packets into the TUN, and without room there.
    handed: (u64, u64),
}

impl Observers {
    /// Nothing was observed yet.
    pub(crate) fn new(auditor: Auditor, flows: FlowLog, scrubbed: Scrubbed) -> Observers {
        Observers {
            hub: EventBus::default(),
            fingerprints: Fingerprints::new(),
            auditor,
            captures: Arc::default(),
            denials: Denials::default(),
            flows,
            scrubbed,
            health: HealthBook::default(),
            probing: Probing::default(),
            handed: (0, 0),
        }
    }

    /// The same, who know these ciphers of one's own.
    #[must_use]
    pub(super) fn knowing(self, fingerprints: Fingerprints) -> Observers {
        Observers { fingerprints, ..self }
    }

    /// The writer of the audit log.
    pub(crate) fn auditor(&self) -> &Auditor {
        &self.auditor
    }

    /// The collector of audit lines, if there is one.
    pub(crate) fn remote_audit(&self) -> Option<&Remote> {
        self.auditor.remote()
    }

    /// The scrubbers of the data path, and the last packets that their rules met.
    pub(crate) fn scrubbed(&self) -> &Scrubbed {
        &self.scrubbed
    }

    /// The captures, for the one who begins one and ends it later.
    pub(in crate::plane) fn captures_shared(&self) -> Arc<Captures> {
        Arc::clone(&self.captures)
    }

    /// Captures that run, and the last that ended.
    pub(crate) fn captures(&self) -> &Captures {
        &self.captures
    }

    /// Refusals by the kernel half that are remembered, the newest first.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = &Denial> {
        self.denials.newest()
    }

    /// Ends of packets in the engine that are remembered, the newest first.
    pub(crate) fn drops(&self) -> impl Iterator<Item = &Ended> {
        self.health.drops()
    }

    /// What the audit log counted.
    pub(crate) fn audit_counts(&self) -> LogCounts {
        self.auditor.counts()
    }

    /// What the flow log counted.
    pub(crate) fn flow_log_counts(&self) -> LogCounts {
        self.flows.log_counts()
    }

    /// Flows that have ended since the one with this number, as far as they are remembered; and the number of the last.
    pub(crate) fn flows_ended_after(&self, number: u64) -> (impl Iterator<Item = &api::FlowRecord>, u64) {
        self.flows.ended_after(number)
    }

    /// What a process executed, by path if that is known.
    pub(crate) fn program(&self, sender: &Sender) -> String {
        self.flows.program(sender)
    }

    /// Tell everybody who listens.
    pub(super) fn tell(&self, event: Event) {
        self.hub.tell(event);
    }

    /// An outbound association has ended at a hard limit.
    pub(super) fn reached_limit(&mut self, peer: std::net::IpAddr, now: Time) {
        self.health.reached_limit(peer, now);
    }
}
