//! What requests of the control API ask, of one owner or of several.

use std::collections::BTreeMap;

use api::{
    AppHealth, Event, FlowRecord, FlowTable, HandedOver, NameState, PinnedFile, PolicyPlan, PolicyState,
    PolicyText, Problem, SaAdd, SaInfo, SaReplace, SaReplaced, SaUpdate, SpdAdd, SpdChange, SpdChanged,
    SpdEntries, SpdRule, TranslationState,
};
use sadb::Spi;
use sockmon::{AppTraffic, CountedFlow, SocketInfo};
use wire::AppId;
use zeroize::Zeroizing;

use super::{Plane, SaQuery};
use control::asker::Asker;
use documents::api_error::ApiError;

/// Requests about the associations.
impl Plane {
    /// Every association, inbound first, by SPI.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn sas(&self) -> Result<Vec<SaInfo>, ApiError> {
        self.associations.list(self.context()).await
    }

    /// Add an association as requested, under a new SPI unless the request names one.
    ///
    /// # Errors
    /// What is wrong with the request, or why it does not go with those there are.
    pub(crate) async fn add_sa(&mut self, request: SaAdd) -> Result<SaInfo, ApiError> {
        let (associations, context) = self.associations_in_context();
        associations.add(request, context).await
    }

    /// Delete the association with this SPI; what else names it is needed where several have it.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub(crate) async fn delete_sa(&mut self, spi: api::Spi, which: &SaQuery) -> Result<SaInfo, ApiError> {
        let (associations, context) = self.associations_in_context();
        associations.delete(spi, which, context).await
    }

    /// Change limits and replay window of an association while it works.
    ///
    /// # Errors
    /// If there is none, or it cannot be as asked: then nothing has changed.
    pub(crate) async fn update_sa(
        &mut self,
        spi: api::Spi,
        which: &SaQuery,
        asked: SaUpdate,
    ) -> Result<SaInfo, ApiError> {
        let (associations, context) = self.associations_in_context();
        associations.update(spi, which, asked, context).await
    }

    /// Replace a pair of associations by successors, or one of a pair.
    ///
    /// # Errors
    /// What is wrong with the request, or does not go with what there is; the old associations then work on as before.
    pub(crate) async fn replace_sas(&mut self, request: SaReplace) -> Result<SaReplaced, ApiError> {
        let (associations, context) = self.associations_in_context();
        associations.replace(request, context).await
    }

    /// The associations, or those with one SPI, as lines of Wireshark's `esp_sa` table with their keys, and the SPIs that were written.
    ///
    /// # Errors
    /// If there is none, or a data thread does not answer.
    pub(crate) async fn wireshark_rows(
        &self,
        spi: Option<Spi>,
    ) -> Result<(Zeroizing<Vec<u8>>, Vec<Spi>), ApiError> {
        self.associations.wireshark_rows(spi, &self.halves).await
    }

    /// An SPI for an association that a key manager is about to agree on with a peer. It is taken back after a minute.
    ///
    /// # Errors
    /// If there is none, or the thread does not answer.
    pub(crate) async fn promise_spi(&mut self) -> Result<Spi, ApiError> {
        self.associations.promise_spi(&self.halves).await
    }

    /// Take an SPI back that was promised and not used.
    ///
    /// # Errors
    /// If it was not promised, or the thread does not answer.
    pub(crate) async fn release_spi(&mut self, spi: Spi) -> Result<(), ApiError> {
        self.associations.release_spi(spi, &self.halves).await
    }

    /// There will be no association for this acquire: what waits for it ends.
    ///
    /// # Errors
    /// If nothing asks by this number any more, or the thread does not answer.
    pub(crate) async fn refuse_acquire(&self, id: wire::AcquireId) -> Result<(), ApiError> {
        self.associations.refuse_acquire(id, &self.halves).await
    }
}

/// Requests about the rules of the SPD.
impl Plane {
    /// The rules in order, with what each decided.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn list_rules(&self) -> Result<Vec<SpdRule>, ApiError> {
        self.rules.list(&self.halves).await
    }

    /// Add a rule to the SPD, and tell everybody who listens.
    ///
    /// # Errors
    /// What is wrong with it, or the data path does not take it: then nothing has changed.
    pub(crate) async fn add_rule(&mut self, request: &SpdAdd) -> Result<SpdRule, ApiError> {
        let rule = self.rules.add(request, &self.halves, &self.monitor).await?;
        self.tell_of_rules(SpdChange::Added, std::slice::from_ref(&rule));
        Ok(rule)
    }

    /// Take out the rule of this name, and tell everybody who listens.
    ///
    /// # Errors
    /// If there is none, or the data path does not follow: then nothing has changed.
    pub(crate) async fn delete_rule(&mut self, name: &str) -> Result<SpdRule, ApiError> {
        let rule = self.rules.delete(name, &self.halves, &self.monitor).await?;
        self.tell_of_rules(SpdChange::Deleted, std::slice::from_ref(&rule));
        Ok(rule)
    }

    /// Take out every rule, and tell everybody who listens: from then on there is no SPD.
    ///
    /// # Errors
    /// If the data path does not follow: then nothing has changed.
    pub(crate) async fn flush_rules(&mut self) -> Result<Vec<SpdRule>, ApiError> {
        let rules = self.rules.flush(&self.halves, &self.monitor).await?;
        if !rules.is_empty() {
            self.tell_of_rules(SpdChange::Deleted, &rules);
        }
        Ok(rules)
    }

    /// Tell everybody who listens of rules, in the order in which they were changed.
    fn tell_of_rules(&self, change: SpdChange, rules: &[SpdRule]) {
        self.observers.tell(Event::Spd(SpdChanged { change, rules: rules.to_vec() }));
    }
}

/// Requests about the policy in force.
impl Plane {
    /// The policy for people, but for what chooses its applications.
    pub(crate) fn policy_state(&self) -> PolicyState {
        self.policy.state(&self.monitor)
    }

    /// What the policy of the request, else the policy file as it is now, would change.
    ///
    /// # Errors
    /// If it cannot be read, or its own tests fail, or the kernel half does not answer.
    pub(crate) fn plan(&self, asked: &PolicyText) -> Result<PolicyPlan, ApiError> {
        self.policy.plan(asked, &self.monitor)
    }

    /// The pinned files at these paths, or at the end of these links.
    pub(crate) fn pinned_files_at<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Vec<PinnedFile> {
        self.policy.pinned_files_at(paths, &self.monitor)
    }

    /// Every host name of the policy, with what is known of it.
    ///
    /// # Errors
    /// If the kernel half does not say which sockets there are.
    pub(crate) fn names(&self) -> Result<Vec<NameState>, ApiError> {
        self.policy.names(&self.monitor)
    }

    /// What the translation of sockets does; of a daemon that compiles, that.
    ///
    /// # Errors
    /// If the kernel half or the data thread does not answer.
    pub(crate) async fn translation(&self) -> Result<TranslationState, ApiError> {
        self.policy.translation(&self.halves, &self.monitor).await
    }

    /// Every entry of a socket.
    ///
    /// # Errors
    /// If policy is compiled, or the kernel half or the data thread does not answer.
    pub(crate) async fn entries(&self) -> Result<SpdEntries, ApiError> {
        self.policy.entries(&self.halves, &self.monitor).await
    }
}

/// Requests about the kernel half.
impl Plane {
    /// Everything that the kernel half counted, by name.
    ///
    /// # Errors
    /// If its maps cannot be read.
    pub(crate) fn kernel_counters(&self) -> Result<Vec<(&'static str, u64)>, ApiError> {
        Ok(self.monitor.get().counters()?)
    }

    /// Packets and octets of each application, as the kernel half counted them.
    ///
    /// # Errors
    /// If its maps cannot be read.
    pub(crate) fn kernel_traffic(&self) -> Result<BTreeMap<AppId, AppTraffic>, ApiError> {
        Ok(self.monitor.get().traffic()?)
    }

    /// Every socket of the host.
    ///
    /// # Errors
    /// If the kernel half does not say.
    pub(crate) fn sockets(&self) -> Result<Vec<SocketInfo>, ApiError> {
        Ok(self.monitor.get().sockets()?)
    }

    /// The application of a process; `None`: there is no such process.
    ///
    /// # Errors
    /// If the kernel half does not say.
    pub(crate) fn app_of_pid(&self, pid: u32) -> Result<Option<AppId>, ApiError> {
        Ok(self.monitor.get().app_of_pid(pid)?)
    }

    /// What of the kernel half is missing, or not in its place.
    pub(crate) fn kernel_faults(&self) -> Vec<sockmon::Fault> {
        self.monitor.get().health()
    }

    /// The flows that the kernel half counts.
    ///
    /// # Errors
    /// If its table cannot be read.
    pub(crate) fn counted_flows(&self) -> Result<Vec<CountedFlow>, ApiError> {
        Ok(self.monitor.get().flows()?)
    }
}

/// Requests about what was observed.
impl Plane {
    /// Leave the trace of an action: a line of the log, one of the audit log, and an event.
    pub(crate) fn audit(&self, asker: Asker, action: &str, detail: String) {
        self.observers.audit(asker, action, detail);
    }

    /// A counted flow for people, as it goes on.
    pub(crate) fn flow_record(&self, flow: &CountedFlow) -> FlowRecord {
        self.observers.flow_record(flow, None, &self.policy)
    }

    /// How full the table of flows is; `None`: flows are not counted.
    pub(crate) fn flow_table(&self) -> Option<FlowTable> {
        self.observers.flow_table(&self.monitor)
    }

    /// What went from the kernel half to the engine, by each count.
    ///
    /// # Errors
    /// If the kernel half or the data thread does not answer.
    pub(crate) async fn handed_over(&self) -> Result<HandedOver, ApiError> {
        self.observers.handed_over(self.context()).await
    }

    /// What must be protected and does not get through, paths that lose long packets, and files that are not what the policy says.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let context = self.context();
        let mut problems = self.observers.flow_problems(context);
        problems.extend(self.observers.path_problems(context));
        problems.extend(self.policy.pin_faults(&self.monitor));
        problems.extend(self.policy.foreign_names(&self.monitor));
        problems
    }

    /// Which applications are protected and which not, and why; those that are not first. `closed` is why nothing that must be protected
    /// leaves this host, if that is so.
    pub(crate) async fn protection(&self, problems: &[Problem], closed: Option<&str>) -> Vec<AppHealth> {
        self.observers.protection(problems, closed, self.context()).await
    }
}
