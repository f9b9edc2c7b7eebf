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
mod names;
pub(crate) mod paths;
mod pins;
mod plan;
pub(crate) mod probing;
mod process;
mod rules;
pub(crate) mod traffic;
mod transaction;
mod translation;
mod turn;

pub use associations::{Associations, Which};
pub use halves::Halves;
pub use host::Host;
pub use names::Hosts;
pub use pins::{Pins, on_this_host};
pub use rules::Rules;
pub use sockmon::sha256 as digest_of;
pub use turn::Allow;

use std::sync::Arc;

use associations::Context;
use capture::Desk;
use transaction::Files;

use api::{PolicyReload, SaAdd, SaInfo, SaReplace, SaReplaced, SaUpdate, SpdAdd, SpdRule};
use sadb::Spi;
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
use crate::monitor::{KernelHalf, Monitor};
use crate::policy_store::{self, Candidate, Executable, PolicyStore};
use crate::probing::Probing;
use crate::refused::{Fault, Refused};
use crate::rules::RuleBook;
use crate::scrubbed::Scrubbed;
use crate::translation::Translator;

/// The control plane's state.
pub struct Plane {
    /// The configuration of the daemon.
    pub config: Config,
    /// When the daemon started (monotonic).
    pub started: Time,
    /// The policy in force.
    pub policy: PolicyStore,
    /// Executables of its applications, as the kernel half knows them.
    pub executables: Vec<Executable>,
    /// The kernel half has the policy in force, but not everything that belongs to it: to be loaded once more.
    pub unfinished: bool,
    /// The executables that policy names by their digests.
    pub pins: Pins,
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
    /// Who translates what sockets do; `None`: policy is compiled.
    pub translator: Option<Translator>,
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
    /// Host names in the policy.
    pub hosts: Hosts,
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
            self.policy.last_error = Some(refused.message.clone());
        }
        outcome
    }

    async fn try_reload(&mut self, allow: Allow) -> Result<PolicyReload, Refused> {
        self.not_on_trial()?;
        let candidate = self.policy.read().map_err(|error| {
            Refused::new(Fault::BadRequest, error.to_string())
                .remedy("the policy in force stays; correct the file and reload again")
        })?;
        let lost = self.losing(&candidate, allow.empty, "`ravelin policy reload --allow-empty`")?;
        let missing = turn::missing(&candidate, allow.missing, "reload")?;
        let mut answer = PolicyReload {
            applied: true,
            kernel: None,
            generation: candidate.compiled.spd.generation,
            applications: candidate.compiled.applications.len(),
            changed: self.policy.changed(&candidate.compiled),
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
        answer.kernel = Some(self.kernel_load());
        if !answer.lost.is_empty() {
            tracing::warn!("no policy any more, in clear from now on: {}", answer.lost.join(", "));
        }
        Ok(answer)
    }

    /// Applications that this policy takes theirs from; all of them only if that is meant, as `meant` says it.
    fn losing(&self, candidate: &Candidate, allow_empty: bool, meant: &str) -> Result<Vec<String>, Refused> {
        let lost = self.policy.lost(candidate);
        if candidate.compiled.applications.is_empty() && !lost.is_empty() && !allow_empty {
            let text = format!(
                "{} names no application any more; {} would lose their policy and send in clear",
                candidate.compiled.file,
                lost.join(", ")
            );
            let remedy =
                format!("the policy in force stays; correct the file, or, if that is meant, {meant}");
            return Err(Refused::new(Fault::Conflict, text).remedy(remedy));
        }
        Ok(lost)
    }

    /// The policy of an engine that was made with this policy and whose threads do not run yet.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub fn put_first_in_force(&mut self, mut candidate: Candidate) -> Result<(), Refused> {
        let executables = self.prepare(&mut candidate)?;
        let unfinished = self.load_kernel(&candidate)?;
        self.adopt(candidate, executables, unfinished);
        Ok(())
    }

    fn prepare(&mut self, candidate: &mut Candidate) -> Result<Vec<Executable>, Refused> {
        let failed = |error: &dyn std::fmt::Display| Refused::new(Fault::Failed, error.to_string());
        let executables = policy_store::executables(&candidate.compiled);
        let mut moved = policy_store::moved_paths(&self.executables, &executables);
        moved.extend(self.monitor.get().moved(&candidate.compiled.subjects)?);
        candidate.follow(&moved);
        self.policy.commit_numbers(candidate).map_err(|error| failed(&error))?;
        Ok(executables)
    }

    fn adopt(&mut self, candidate: Candidate, executables: Vec<Executable>, unfinished: bool) {
        tracing::info!(
            generation = candidate.compiled.spd.generation,
            applications = candidate.compiled.applications.len(),
            "policy {} is in force",
            candidate.compiled.file
        );
        self.executables = executables;
        self.unfinished = unfinished;
        let first = self.policy.loaded == 0;
        self.policy.adopt(candidate, netio::clock::wall().as_secs());
        self.watch_names(first);
    }

    fn load_kernel(&mut self, candidate: &Candidate) -> Result<bool, Refused> {
        self.pins.again = true;
        load_kernel(&mut **self.monitor.get(), candidate, pins::AT_ONCE)
    }

    /// What the last load did to the kernel half's maps.
    pub fn kernel_load(&self) -> api::KernelLoad {
        let did = self.monitor.get().last_load();
        api::KernelLoad {
            tables: did.tables,
            networks: did.networks,
            protections: did.protections,
            orders: did.orders,
            applications_changed: did.applications_changed,
            tables_written: did.tables_written,
            networks_written: did.networks_written,
            protections_written: did.protections_written,
            orders_written: did.orders_written,
            tables_removed: did.tables_removed,
            orders_left_out: did.orders_left_out,
            executables_written: did.executables_written,
        }
    }

    /// What the kernel half counted.
    ///
    /// # Errors
    /// If its maps cannot be read.
    pub fn kernel_counters(&self) -> Result<Vec<(&'static str, u64)>, Refused> {
        self.monitor.get().counters().map_err(Refused::from)
    }

    /// Look whether executables were exchanged (an upgrade gives them new inodes), a directory of theirs has come or was exchanged, or
    /// something was left to do, and load the policy anew if so. Processes that run the old files keep their policy.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub fn refresh_executables(&mut self) -> Result<bool, Refused> {
        let now = policy_store::executables(&self.policy.compiled);
        let directories = self.monitor.get().directories_changed();
        if now == self.executables && !directories && !self.unfinished {
            return Ok(false);
        }
        let candidate = self.policy.in_force();
        self.unfinished = self.load_kernel(&candidate)?;
        tracing::info!("the kernel half has the executables of the policy as they are now");
        self.executables = now;
        Ok(true)
    }
}

/// Load the kernel half; whether something is left to do. An error means that it has what it had. So many octets of files with
/// digests are hashed here; larger ones are refused until they are.
pub(crate) fn load_kernel(
    monitor: &mut dyn KernelHalf,
    candidate: &Candidate,
    hashed: u64,
) -> Result<bool, Refused> {
    let orders = policy_store::orders(candidate);
    let compiled = &candidate.compiled;
    let warnings = monitor.load_policy(&compiled.spd, &compiled.subjects, &orders)?;
    let mut unfinished = false;
    for warning in warnings {
        unfinished |= matches!(warning, sockmon::LoadWarning::Unfinished { .. });
        tracing::warn!("{}", said(&warning, compiled));
    }
    if let Err(error) = monitor.verify(netio::clock::wall(), hashed) {
        tracing::warn!("the policy is in force, but files with digests are not verified yet: {error}");
    }
    // Sockets of programs that the policy names only now were open before.
    match monitor.adopt() {
        Ok(adopted) => report(&adopted),
        Err(error) => {
            unfinished = true;
            tracing::warn!("the policy is in force, but not for all sockets that were open before: {error}");
        }
    }
    Ok(unfinished)
}

/// A warning with applications by their names.
fn said(warning: &sockmon::LoadWarning, compiled: &policy::Compiled) -> String {
    let name = |id| compiled.application(id).map_or("another", |app| app.name.as_str());
    match warning {
        sockmon::LoadWarning::Shadowed { path, app, by } => format!(
            "application {} never decides about {}: every process of it is application {}'s; give one of them a qualifier",
            name(*app),
            path.display(),
            name(*by)
        ),
        other => other.to_string(),
    }
}

pub(crate) fn report(adopted: &sockmon::Adopted) {
    if adopted.unmarked > 0 {
        tracing::warn!("{} sockets could not be marked; they are steered by their storage", adopted.unmarked);
    }
    if adopted.ended > 0 || adopted.unstamped > 0 {
        tracing::warn!(
            "sockets of policed programs had no room for a stamp (net.core.optmem_max): {} connections were ended, \
             {} other sockets cannot send any more",
            adopted.ended,
            adopted.unstamped
        );
    }
    if adopted.listeners_left_out > 0 {
        tracing::warn!(
            "{} listeners had no room: connections that wait behind them to be accepted may have no policy",
            adopted.listeners_left_out
        );
    }
    tracing::debug!(sockets = adopted.sockets, marked = adopted.marked, "open sockets adopted");
}
