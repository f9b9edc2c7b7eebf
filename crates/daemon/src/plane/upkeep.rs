//! What is done from time to time, and when somebody tells something: a data thread, the kernel half, a thread of the daemon.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::monitor::KernelError;
use sockmon::Finding;
use tokio::sync::mpsc::Receiver;
use wire::Time;

use super::Plane;
use crate::enc::Enc;
use crate::names::ResolvedName;
use documents::api_error::ApiError;

/// Upkeep of the host.
impl Plane {
    /// Have the kernel half guard the devices that there are now; what is wrong.
    pub(crate) fn follow_devices(&mut self) -> Vec<String> {
        self.host.follow_devices(&self.config, &self.monitor)
    }

    /// Tell the data threads of addresses and sizes that changed.
    ///
    /// # Errors
    /// If the kernel does not say, or a data thread does not answer.
    pub(crate) async fn follow_surroundings(&mut self) -> Result<(), ApiError> {
        self.host.follow_surroundings(&self.halves).await
    }

    /// Attach again what is missing of the kernel half, set again what was changed on the host; what remains wrong.
    pub(crate) fn repair(&self) -> Option<String> {
        self.host.repair(&self.monitor)
    }

    /// Have protected packets copied to the enc device while somebody listens to it.
    pub(crate) fn feed_enc(&self, enc: &mut Enc) {
        enc.look(&self.monitor);
    }
}

/// Upkeep of the associations.
impl Plane {
    /// Take back what was promised too long ago.
    pub(crate) async fn expire_promises(&mut self, now: Time) {
        self.associations.expire_promises(now, &self.halves).await;
    }

    /// Let every association have the MTU of its route as it is now.
    ///
    /// # Errors
    /// If the routes cannot be asked for, or the data thread does not answer.
    pub(crate) async fn follow_paths(&self) -> Result<(), ApiError> {
        self.associations.follow_routes(&self.halves).await
    }

    /// An event of the data threads may be the end of an association, which serves its peers no more; where events were `lost`, others
    /// may have ended too.
    pub(crate) async fn follow_end(&mut self, event: &engine::Event, lost: bool) {
        if let engine::Event::Expire(end) = event
            && (end.state, end.direction) == (sadb::sa::LifeState::Dead, sadb::Direction::Outbound)
        {
            self.observers.reached_limit(end.remote, netio::clock::monotonic());
        }
        let (associations, context) = self.associations_in_context();
        if let Err(refused) = associations.follow_end(event, lost, context).await {
            tracing::warn!("the kernel half was not told of an association that ended: {refused}");
        }
    }
}

/// Upkeep of the policy in force.
impl Plane {
    /// Load the policy into the kernel half once more if its executables were exchanged, or if something was left to do.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub(crate) fn refresh_executables(&mut self) -> Result<bool, ApiError> {
        self.policy.refresh_executables(&self.monitor)
    }

    /// Begin to look for files that are to be hashed: what the thread finds comes out of the receiver.
    pub(crate) fn begin_pins(&mut self) -> Receiver<Vec<Finding>> {
        self.policy.begin_pins()
    }

    /// Look for files that are to be hashed, and have that done; now and then, or when there is reason to.
    pub(crate) fn follow_pins(&mut self, round: bool) {
        self.policy.follow_pins(round, &self.monitor, self.observers.auditor());
    }

    /// Let what the thread found count. Processes that waited for it have their policy from now on.
    pub(crate) fn judge_pins(&mut self, findings: Vec<Finding>) {
        self.policy.judge_pins(findings, &self.monitor, self.observers.auditor());
    }

    /// Ask for the host names whose time has come, and let go of what nothing speaks for any more.
    ///
    /// # Errors
    /// If the kernel half does not say which sockets there are, or a data thread does not answer.
    pub(crate) async fn tend_names(&mut self, now: Time) -> Result<(), ApiError> {
        self.policy.tend_names(now, &self.halves, &self.monitor).await
    }

    /// Hear an answer to a question of our own for a host name.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn hear_name(&mut self, heard: ResolvedName) -> Result<(), ApiError> {
        self.policy.hear_name(heard, &self.halves, &self.monitor).await
    }

    /// Hear the answers of the DNS that applications received.
    ///
    /// # Errors
    /// If the kernel half does not tell them, or a data thread does not answer.
    pub(crate) async fn observe_names(&mut self) -> Result<(), ApiError> {
        self.policy.observe_names(&self.halves, &self.monitor).await
    }

    /// A descriptor that is readable when applications have received answers of the DNS.
    ///
    /// # Errors
    /// If the kernel half has none.
    pub(crate) fn dns_answers_fd(&self) -> Result<OwnedFd, KernelError> {
        self.monitor.get().dns_answers_fd()
    }

    /// Compare the sockets there are with those that have entries, if events were lost, the policy is a new one, or it is long ago.
    ///
    /// # Errors
    /// If the kernel half or a data thread does not answer.
    pub(crate) async fn follow_sockets(&mut self) -> Result<(), ApiError> {
        self.policy.follow_sockets(&self.halves, &self.monitor).await
    }
}

/// Upkeep of what is observed.
impl Plane {
    /// Hear what the kernel half tells since the last time: refusals, and files that the policy names. The answer is whether a file came
    /// to a place that the policy names.
    pub(crate) fn hear(&mut self) -> bool {
        let news = self.observers.hear(&self.config, &self.monitor, &self.policy);
        if news.unverified {
            self.policy.note_unverified_file();
        }
        if news.new_file {
            self.policy.note_new_file();
        }
        news.new_file
    }

    /// Hear the engine's latest ends of packets.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn hear_drops(&mut self) -> Result<(), ApiError> {
        self.observers.hear_drops(&self.halves).await
    }

    /// Take out of the table of flows what has ended, and write what goes on for long.
    ///
    /// # Errors
    /// If the table cannot be read or written.
    pub(crate) fn follow_flows(&mut self) -> Result<(), ApiError> {
        self.observers.follow_flows(&self.monitor, &self.policy)
    }

    /// Look whether what must be protected gets through; once a second.
    ///
    /// # Errors
    /// If a data thread or the kernel half does not answer.
    pub(crate) async fn look_after_health(&mut self) -> Result<(), ApiError> {
        let (observers, context) = self.observers_in_context();
        observers.look_after_health(context).await
    }

    /// Let time pass for all paths on which long packets may be lost; the time until the next look.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(super) async fn probe_paths(&mut self) -> Result<Duration, ApiError> {
        let (observers, context) = self.observers_in_context();
        observers.probe_paths(context).await
    }

    /// Hear what a peer says of a path; whether it is an answer to what was asked, for the first time.
    pub(crate) async fn hear_of_path(&mut self, said: engine::PathMessage) -> bool {
        self.observers.hear_of_path(said, &self.config, &self.halves).await
    }

    /// Do what an event asks for, and tell everybody who listens.
    pub(crate) async fn announce(&self, event: &engine::Event) {
        self.observers.announce(event, self.context()).await;
    }

    /// Tell everybody that events were lost on the way here.
    pub(crate) fn announce_lost(&self, count: u64) {
        self.observers.announce_lost(count);
    }
}
