//! The control plane's state: everything that a request may ask about or change, one request at a time.
//!
//! What enters: requests of the control API, signals. What leaves: functions for the two data threads, tables for the kernel
//! half, answers. It owns no packet and is never waited for by one.

mod associations;
mod audit;
pub(crate) mod capture;
mod denials;
pub(crate) mod events;
mod flows;
mod halves;
mod handover;
mod health;
mod host;
pub(crate) mod paths;
mod policy;
pub(crate) mod probing;
mod rules;
pub(crate) mod traffic;
mod transaction;
mod turn;

pub use self::policy::{Hosts, PolicyInForce, on_this_host};
pub(crate) use self::policy::{load_kernel, report};
pub use associations::{Associations, Which};
pub use halves::Halves;
pub use host::Host;
pub use rules::Rules;
pub use sockmon::sha256 as digest_of;
pub use turn::Allow;

use std::sync::Arc;

use self::policy::Files;
use associations::Context;
use capture::Desk;

use api::{
    NameState, PinnedFile, PolicyPlan, PolicyReload, PolicyState, PolicyText, Problem, SaAdd, SaInfo,
    SaReplace, SaReplaced, SaUpdate, SpdAdd, SpdEntries, SpdRule, TranslationState,
};
use sadb::Spi;
use sockmon::Finding;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use wire::Time;
use zeroize::Zeroizing;

use crate::audit_log::Auditor;
use crate::config::Config;
use crate::datapath::{InboundHalf, OutboundHalf, Unanswered};
use crate::denials::Denials;
use crate::events::Hub;
use crate::flows::FlowBook;
use crate::health::HealthBook;
use crate::monitor::Monitor;
use crate::names::Heard;
use crate::policy_store::Candidate;
use crate::probing::Probing;
use crate::refused::{Fault, Refused};
use crate::rules::RuleBook;
use crate::scrubbed::Scrubbed;

/// The control plane's state.
pub struct Plane {
    /// The configuration of the daemon.
    pub config: Config,
    /// When the daemon started (monotonic).
    pub started: Time,
    /// The policy in force.
    pub(crate) policy: PolicyInForce,
    /// The two data threads.
    pub(crate) halves: Halves,
    /// The kernel half.
    pub(crate) monitor: Monitor,
    /// The host that the daemon is on.
    pub(crate) host: Host,
    /// The associations.
    pub(crate) associations: Associations,
    /// The rules of the SPD.
    pub(crate) rules: Rules,
    /// Who hears of events.
    pub hub: Hub,
    /// The writer of the audit log.
    pub auditor: Auditor,
    /// Captures that run, and the last that ended.
    pub captures: Arc<Desk>,
    /// What the kernel half had counted when the daemon started: packets into the TUN, and without room there.
    pub handed: (u64, u64),
    /// What the kernel half refused lately.
    pub denials: Denials,
    /// Whether what must be protected gets through.
    pub health: HealthBook,
    /// Whether long packets arrive.
    pub probing: Probing,
    /// What is known of flows beside the kernel half's table.
    pub flows: FlowBook,
    /// Flows that policy wants scrubbed.
    pub scrubbed: Scrubbed,
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
    pub async fn get(&self) -> Result<MappedMutexGuard<'_, Plane>, Refused> {
        MutexGuard::try_map(self.0.lock().await, Option::as_mut)
            .map_err(|_| Refused::new(Fault::Busy, "the daemon is about to end"))
    }

    /// Take it away; whoever comes later is refused.
    pub async fn take(&self) -> Option<Plane> {
        self.0.lock().await.take()
    }
}

impl Plane {
    /// The two data threads, to be asked.
    pub(crate) fn halves(&self) -> &Halves {
        &self.halves
    }

    /// The host that the daemon is on.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Have the kernel half guard the devices that there are now; what is wrong.
    pub(crate) fn follow_devices(&mut self) -> Vec<String> {
        self.host.follow_devices(&self.config, &self.monitor)
    }

    /// Tell the data threads of addresses and sizes that changed.
    ///
    /// # Errors
    /// If the kernel does not say, or a data thread does not answer.
    pub(crate) async fn follow_surroundings(&mut self) -> Result<(), Refused> {
        self.host.follow_surroundings(&self.halves).await
    }

    /// Attach again what is missing of the kernel half, set again what was changed on the host; what remains wrong.
    pub(crate) fn repair(&self) -> Option<String> {
        self.host.repair(&self.monitor)
    }

    /// The rules of the SPD.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The rules in order, with what each decided.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn list_rules(&self) -> Result<Vec<SpdRule>, Refused> {
        self.rules.list(&self.halves).await
    }

    /// The rules of engines whose threads do not run yet.
    ///
    /// # Errors
    /// If the kernel half does not have their users, or may let more pass than they do.
    pub(crate) fn put_first_rules_in_force(&mut self, book: RuleBook) -> Result<(), Refused> {
        self.rules.put_first_in_force(book, &self.monitor)
    }

    /// Add a rule to the SPD.
    ///
    /// # Errors
    /// What is wrong with it, or the data path does not take it: then nothing has changed.
    pub(crate) async fn add_rule(&mut self, request: &SpdAdd) -> Result<SpdRule, Refused> {
        self.rules.add(request, &self.halves, &self.monitor).await
    }

    /// Take out the rule of this name.
    ///
    /// # Errors
    /// If there is none, or the data path does not follow: then nothing has changed.
    pub(crate) async fn delete_rule(&mut self, name: &str) -> Result<SpdRule, Refused> {
        self.rules.delete(name, &self.halves, &self.monitor).await
    }

    /// Take out every rule: from then on there is no SPD.
    ///
    /// # Errors
    /// If the data path does not follow: then nothing has changed.
    pub(crate) async fn flush_rules(&mut self) -> Result<Vec<SpdRule>, Refused> {
        self.rules.flush(&self.halves, &self.monitor).await
    }

    /// Let both data threads end after what they are doing.
    ///
    /// # Errors
    /// If a thread does not hear of it.
    pub(crate) fn stop_threads(&self) -> Result<(), Unanswered> {
        self.halves.stop()
    }

    /// The associations, to be looked at.
    pub(crate) fn associations(&self) -> &Associations {
        &self.associations
    }

    fn context(&self) -> Context<'_> {
        let Plane { config, halves, monitor, policy, host, .. } = self;
        Context { config, halves, monitor, policy, host }
    }

    /// The associations, and the owners that a change of theirs asks.
    fn associations_in_context(&mut self) -> (&mut Associations, Context<'_>) {
        let Plane { config, halves, monitor, policy, host, associations, .. } = self;
        (associations, Context { config, halves, monitor, policy, host })
    }

    /// Every association, inbound first, by SPI.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn sas(&self) -> Result<Vec<SaInfo>, Refused> {
        self.associations.list(self.context()).await
    }

    /// Add an association as requested, under a new SPI unless the request names one.
    ///
    /// # Errors
    /// What is wrong with the request, or why it does not go with those there are.
    pub(crate) async fn add_sa(&mut self, request: SaAdd) -> Result<SaInfo, Refused> {
        let (associations, context) = self.associations_in_context();
        associations.add(request, context).await
    }

    /// Delete the association with this SPI; what else names it is needed where several have it.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub(crate) async fn delete_sa(&mut self, spi: api::Spi, which: &Which) -> Result<SaInfo, Refused> {
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
        which: &Which,
        asked: SaUpdate,
    ) -> Result<SaInfo, Refused> {
        let (associations, context) = self.associations_in_context();
        associations.update(spi, which, asked, context).await
    }

    /// Replace a pair of associations by successors, or one of a pair.
    ///
    /// # Errors
    /// What is wrong with the request, or does not go with what there is; the old associations then work on as before.
    pub(crate) async fn replace_sas(&mut self, request: SaReplace) -> Result<SaReplaced, Refused> {
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
    ) -> Result<(Zeroizing<Vec<u8>>, Vec<Spi>), Refused> {
        self.associations.wireshark_rows(spi, &self.halves).await
    }

    /// An SPI for an association that a key manager is about to agree on with a peer. It is taken back after a minute.
    ///
    /// # Errors
    /// If there is none, or the thread does not answer.
    pub(crate) async fn promise_spi(&mut self) -> Result<Spi, Refused> {
        self.associations.promise_spi(&self.halves).await
    }

    /// Take an SPI back that was promised and not used.
    ///
    /// # Errors
    /// If it was not promised, or the thread does not answer.
    pub(crate) async fn release_spi(&mut self, spi: Spi) -> Result<(), Refused> {
        self.associations.release_spi(spi, &self.halves).await
    }

    /// Take back what was promised too long ago.
    pub(crate) async fn expire_promises(&mut self, now: Time) {
        self.associations.expire_promises(now, &self.halves).await;
    }

    /// There will be no association for this acquire: what waits for it ends.
    ///
    /// # Errors
    /// If nothing asks by this number any more, or the thread does not answer.
    pub(crate) async fn refuse_acquire(&self, id: wire::AcquireId) -> Result<(), Refused> {
        self.associations.refuse_acquire(id, &self.halves).await
    }

    /// Let every association have the MTU of its route as it is now.
    ///
    /// # Errors
    /// If the routes cannot be asked for, or the data thread does not answer.
    pub(crate) async fn follow_paths(&self) -> Result<(), Refused> {
        self.associations.follow_routes(&self.halves).await
    }

    /// Tell the kernel half which flows the associations of both engines serve, whose threads do not run yet.
    ///
    /// # Errors
    /// If it does not take them all.
    pub(crate) fn put_first_live(&mut self, out: &OutboundHalf, into: &InboundHalf) -> Result<(), Refused> {
        let (associations, context) = self.associations_in_context();
        associations.put_first_live(out, into, context)
    }

    /// An event of the data threads may be the end of an association, which serves its peers no more; where events were lost, others may
    /// have ended too.
    pub(crate) async fn follow_end(&mut self, event: &engine::Event, lost: bool) {
        if let engine::Event::Expire(end) = event
            && (end.state, end.direction) == (sadb::sa::LifeState::Dead, sadb::Direction::Outbound)
        {
            self.health.reached_limit(end.remote, netio::clock::monotonic());
        }
        let (associations, context) = self.associations_in_context();
        if let Err(refused) = associations.follow_end(event, lost, context).await {
            tracing::warn!("the kernel half was not told of an association that ended: {refused}");
        }
    }

    /// Read the policy file again and put it in force; a file that cannot be read changes nothing, a broken block keeps its
    /// last good version. A file without any application is refused, as one that was cut off looks like that, unless
    /// that is meant ([`Allow::empty`]) or there was none before; so is one with subjects that no program of this host matches,
    /// unless [`Allow::missing`].
    ///
    /// # Errors
    /// If the file cannot be read or takes every policy away, or data path or kernel do not take the tables.
    pub async fn reload(&mut self, allow: Allow) -> Result<PolicyReload, Refused> {
        let outcome = self.try_reload(allow).await;
        if let Err(refused) = &outcome {
            self.policy.note_error(refused.message.clone());
        }
        outcome
    }

    async fn try_reload(&mut self, allow: Allow) -> Result<PolicyReload, Refused> {
        self.policy.not_on_trial()?;
        let candidate = self.policy.read()?;
        let lost = self.policy.losing(&candidate, allow.empty, "`ravelin policy reload --allow-empty`")?;
        let missing = turn::missing(&candidate, allow.missing, "reload")?;
        let mut answer = PolicyReload {
            applied: true,
            kernel: None,
            generation: candidate.compiled.spd.generation,
            applications: candidate.compiled.applications.len(),
            changed: self.policy.changed(&candidate),
            refused_blocks: candidate.refused.clone(),
            diagnostics: candidate.diagnostics.clone(),
            lost,
            missing,
            notes: turn::configuration_note(&self.config).into_iter().collect(),
        };
        for note in &answer.notes {
            tracing::warn!("{note}");
        }
        self.change_policy(candidate, Files::Stay).await?;
        answer.kernel = self.policy.state(&self.monitor).kernel;
        if !answer.lost.is_empty() {
            tracing::warn!("no policy any more, in clear from now on: {}", answer.lost.join(", "));
        }
        Ok(answer)
    }

    /// The policy of an engine that was made with this policy and whose threads do not run yet; `instead` is why it is not what the
    /// policy file says, if it is not.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub(crate) fn put_first_in_force(
        &mut self,
        mut candidate: Candidate,
        instead: Option<String>,
    ) -> Result<(), Refused> {
        let executables = self.policy.prepare(&mut candidate, &self.monitor)?;
        let unfinished = self.policy.load(&candidate, &self.monitor)?;
        self.policy.adopt(candidate, executables, unfinished, &self.monitor);
        if let Some(text) = instead {
            self.policy.note_error(text);
        }
        Ok(())
    }

    /// The policy in force, to be asked.
    pub(crate) fn policy(&self) -> &PolicyInForce {
        &self.policy
    }

    /// The policy for people, but for what chooses its applications.
    pub(crate) fn policy_state(&self) -> PolicyState {
        self.policy.state(&self.monitor)
    }

    /// What the policy of the request, else the policy file as it is now, would change.
    ///
    /// # Errors
    /// If it cannot be read, or its own tests fail, or the kernel half does not answer.
    pub(crate) fn plan(&self, asked: &PolicyText) -> Result<PolicyPlan, Refused> {
        self.policy.plan(asked, &self.monitor)
    }

    /// Load the policy into the kernel half once more if its executables were exchanged, or if something was left to do.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub(crate) fn refresh_executables(&mut self) -> Result<bool, Refused> {
        self.policy.refresh_executables(&self.monitor)
    }

    /// Begin to look for files that are to be hashed: what the thread finds comes out of the receiver.
    pub(crate) fn begin_pins(&mut self) -> Receiver<Vec<Finding>> {
        self.policy.begin_pins()
    }

    /// Look for files that are to be hashed, and have that done; now and then, or when there is reason to.
    pub(crate) fn follow_pins(&mut self, round: bool) {
        self.policy.follow_pins(round, &self.monitor, &self.auditor);
    }

    /// Let what the thread found count. Processes that waited for it have their policy from now on.
    pub(crate) fn judge_pins(&mut self, findings: Vec<Finding>) {
        self.policy.judge_pins(findings, &self.monitor, &self.auditor);
    }

    /// The pinned files at these paths, or at the end of these links.
    pub(crate) fn pinned_files_at<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Vec<PinnedFile> {
        self.policy.pinned_files_at(paths, &self.monitor)
    }

    /// Files that are not what the policy says, and paths of the policy that lead to files by names that others may turn.
    pub(crate) fn file_problems(&self) -> Vec<Problem> {
        let mut problems = self.policy.pin_faults(&self.monitor);
        problems.extend(self.policy.foreign_names(&self.monitor));
        problems
    }

    /// Ask for the host names whose time has come, and let go of what nothing speaks for any more.
    ///
    /// # Errors
    /// If the kernel half does not say which sockets there are, or a data thread does not answer.
    pub(crate) async fn tend_names(&mut self, now: Time) -> Result<(), Refused> {
        self.policy.tend_names(now, &self.halves, &self.monitor).await
    }

    /// Hear an answer to a question of our own for a host name.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn hear_name(&mut self, heard: Heard) -> Result<(), Refused> {
        self.policy.hear_name(heard, &self.halves, &self.monitor).await
    }

    /// Hear the answers of the DNS that applications received.
    ///
    /// # Errors
    /// If the kernel half does not tell them, or a data thread does not answer.
    pub(crate) async fn observe_names(&mut self) -> Result<(), Refused> {
        self.policy.observe_names(&self.halves, &self.monitor).await
    }

    /// Every host name of the policy, with what is known of it.
    ///
    /// # Errors
    /// If the kernel half does not say which sockets there are.
    pub(crate) fn names(&self) -> Result<Vec<NameState>, Refused> {
        self.policy.names(&self.monitor)
    }

    /// Begin to translate what sockets do, if that is asked for: first the calls that those which are open have made.
    ///
    /// # Errors
    /// If the kernel half does not say them, or there is no thread.
    pub(crate) fn translate_first(
        &mut self,
        out: &mut OutboundHalf,
        into: &mut InboundHalf,
    ) -> Result<(), Refused> {
        if crate::translation::limits(self.config.translation).is_none() {
            return Ok(());
        }
        self.policy.translate_first((out, into), &self.halves, &self.monitor)
    }

    /// Compare the sockets there are with those that have entries, if events were lost, the policy is a new one, or it is long ago.
    ///
    /// # Errors
    /// If the kernel half or a data thread does not answer.
    pub(crate) async fn follow_sockets(&mut self) -> Result<(), Refused> {
        self.policy.follow_sockets(&self.halves, &self.monitor).await
    }

    /// What the translation of sockets does; of a daemon that compiles, that.
    ///
    /// # Errors
    /// If the kernel half or the data thread does not answer.
    pub(crate) async fn translation(&self) -> Result<TranslationState, Refused> {
        self.policy.translation(&self.halves, &self.monitor).await
    }

    /// Every entry of a socket.
    ///
    /// # Errors
    /// If policy is compiled, or the kernel half or the data thread does not answer.
    pub(crate) async fn entries(&self) -> Result<SpdEntries, Refused> {
        self.policy.entries(&self.halves, &self.monitor).await
    }

    /// What the kernel half counted.
    ///
    /// # Errors
    /// If its maps cannot be read.
    pub fn kernel_counters(&self) -> Result<Vec<(&'static str, u64)>, Refused> {
        self.monitor.get().counters().map_err(Refused::from)
    }
}
