//! The control plane's state: everything that a request may ask about or change, one request at a time.
//!
//! What enters: requests of the control API, signals. What leaves: functions for the two data threads, tables for the kernel
//! half, answers. It owns no packet and is never waited for by one.

mod audit;
pub(crate) mod capture;
mod changes;
mod denials;
pub(crate) mod events;
mod flows;
mod halves;
mod handover;
mod health;
mod host;
mod live;
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

pub use changes::Which;
pub use halves::Halves;
pub use host::Host;
pub use live::Served;
pub(crate) use live::{served, served_groups};
pub use names::Hosts;
pub use pins::{Pins, on_this_host};
pub use rules::Rules;
pub use sockmon::sha256 as digest_of;
pub use turn::Allow;

use std::sync::Arc;

use capture::Desk;
use transaction::Files;

use api::{Direction, PolicyReload, SaAdd, SaInfo, SpdAdd, SpdRule};
use sadb::sa::Padding;
use sadb::{InboundSa, OutboundSa, Spi};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use wire::Time;

use crate::associations::{self, Defaults, SaView};
use crate::audit_log::Auditor;
use crate::config::Config;
use crate::datapath::{OutboundHalf, Unanswered};
use crate::denials::Denials;
use crate::events::Hub;
use crate::flows::FlowBook;
use crate::health::HealthBook;
use crate::keys::Keys;
use crate::monitor::{KernelHalf, Monitor};
use crate::policy_store::{self, Candidate, Executable, PolicyStore};
use crate::probing::Probing;
use crate::refused::{Fault, Refused};
use crate::rules::RuleBook;
use crate::scrubbed::Scrubbed;
use crate::translation::Translator;

/// How long an SPI is kept for a key manager.
const PROMISE: std::time::Duration = std::time::Duration::from_secs(60);

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
    /// The registry of suites and the book of used keys.
    pub keys: Keys,
    /// The two data threads.
    pub(crate) halves: Halves,
    /// The kernel half.
    pub(crate) monitor: Monitor,
    /// The host that the daemon is on.
    pub(crate) host: Host,
    /// Peers that inbound associations serve.
    pub live: Served,
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
    /// SPIs that were promised to key managers, and until when.
    pub promised: Vec<(Spi, Time)>,
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

    /// Add an association as requested, under a new SPI unless the request names one.
    ///
    /// # Errors
    /// What is wrong with the request, or why it does not go with those there are.
    pub async fn add_sa(&mut self, request: SaAdd) -> Result<SaInfo, Refused> {
        let asked = associations::requested_spi(&request)?;
        let spi = match asked {
            Some(spi) => spi,
            None => self.allocate_spi().await?,
        };
        let added = self.add_sa_as(request, spi).await;
        if added.is_err() && asked.is_none() {
            let _ = self.halves.ask_inbound(move |half| half.engine.release_spi(spi)).await;
        }
        let view = added?;
        let served = view.served();
        let sa = view.named(|id| self.policy.app_name(id));
        match sa.direction {
            Direction::In => self.begin_live(&sa, served).await?,
            Direction::Out => self.begin_groups(&sa, served),
        }
        Ok(sa)
    }

    async fn allocate_spi(&self) -> Result<Spi, Refused> {
        let random = random()?;
        Ok(self.halves.ask_inbound(move |half| half.engine.allocate_spi(random)).await??)
    }

    /// An SPI for an association that a key manager is about to agree on with a peer. It is taken back after a minute.
    ///
    /// # Errors
    /// If there is none, or the thread does not answer.
    pub async fn promise_spi(&mut self) -> Result<Spi, Refused> {
        let spi = self.allocate_spi().await?;
        self.promised.push((spi, netio::clock::monotonic() + PROMISE));
        Ok(spi)
    }

    /// Take an SPI back that was promised and not used.
    ///
    /// # Errors
    /// If it was not promised, or the thread does not answer.
    pub async fn release_spi(&mut self, spi: Spi) -> Result<(), Refused> {
        let Some(at) = self.promised.iter().position(|(promised, _)| *promised == spi) else {
            return Err(Refused::new(
                Fault::NotFound,
                format!("SPI {spi} was not promised, or is in use, or it was too long ago"),
            )
            .remedy("ask for one with POST /v1/spi"));
        };
        self.promised.remove(at);
        Ok(self.halves.ask_inbound(move |half| half.engine.release_spi(spi)).await?)
    }

    /// Take back what was promised too long ago.
    pub async fn expire_promises(&mut self, now: Time) {
        while let Some(at) = self.promised.iter().position(|(_, until)| *until <= now) {
            let (spi, _) = self.promised.remove(at);
            // No effect on an SPI that an association uses by now.
            let _ = self.halves.ask_inbound(move |half| half.engine.release_spi(spi)).await;
        }
    }

    /// There will be no association for this acquire: what waits for it ends.
    ///
    /// # Errors
    /// If nothing asks by this number any more, or the thread does not answer.
    pub async fn refuse_acquire(&self, id: wire::AcquireId) -> Result<(), Refused> {
        let refuse = move |half: &mut OutboundHalf| {
            let awaits = half.engine.awaits(id);
            half.refused.extend(awaits.then_some(id));
            awaits
        };
        if self.halves.ask_outbound(refuse).await? {
            return Ok(());
        }
        Err(Refused::new(Fault::NotFound, format!("no acquire {} waits for an answer", id.0)).remedy(
            "it has been answered, refused or forgotten; GET /v1/events tells the numbers of new ones",
        ))
    }

    async fn add_sa_as(&mut self, request: SaAdd, spi: Spi) -> Result<SaView, Refused> {
        let (direction, takes_over) = (request.direction, request.takes_over);
        let policy = &self.policy;
        if request.sequence.is_some() {
            return Err(Refused::new(Fault::BadRequest, "a daemon counts from 1, never from elsewhere")
                .remedy("leave \"sequence\" out; only `ravelin replay` takes it"));
        }
        let config = {
            let app = |name: &str| policy.app(name);
            let keepalive = self.config.esp.keepalive;
            let defaults = Defaults {
                path_mtu: Some(self.config.esp.path_mtu.unwrap_or(match direction {
                    // The route says how much less.
                    Direction::Out => u16::MAX,
                    Direction::In => self.host.path_mtu_to(request.local, request.remote),
                })),
                keepalive,
                app: &app,
                random: random()?,
                padding: Padding::Blocks,
            };
            associations::configuration(request, spi, &defaults)?
        };
        let now = netio::clock::monotonic();
        let admission = self.keys.admit(&config)?;
        let added = match direction {
            Direction::In => match InboundSa::new(config, &self.keys.registry) {
                Ok(sa) => {
                    let sa = sa.starting(now);
                    let view = SaView::inbound(&sa);
                    let added = self.halves.ask_inbound(move |half| half.engine.add_sa(sa)).await;
                    settle(added, view)
                }
                Err(error) => Err((error.into(), true)),
            },
            Direction::Out => match OutboundSa::new(config, &self.keys.registry) {
                Ok(sa) => {
                    let mut sa = sa.starting(now);
                    let ends = &sa.config().endpoints;
                    sa.follow_route(self.host.path_mtu_to(ends.local, ends.remote));
                    let view = SaView::outbound(&sa, now);
                    let added = self.halves.ask_outbound(move |half| {
                        if let Some(rival) = half.engine.sad().rival(sa.config()).filter(|_| !takes_over) {
                            return Err(rival.is_rival());
                        }
                        half.engine.add_sa(sa).map(|_| ())
                    });
                    let added = added.await;
                    settle(added, view)
                }
                Err(error) => Err((error.into(), true)),
            },
        };
        added.map_err(|(refused, never_used)| {
            if never_used {
                self.keys.withdraw(admission);
            }
            refused
        })
    }

    /// Every association, inbound first, by SPI.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub async fn sas(&self) -> Result<Vec<SaInfo>, Refused> {
        let now = netio::clock::monotonic();
        let mut views: Vec<SaView> =
            self.halves.ask_inbound(|half| half.engine.sad().list().map(SaView::inbound).collect()).await?;
        let outbound = self.halves.ask_outbound(move |half| {
            half.engine.sad().list().map(|(_, sa)| SaView::outbound(sa, now)).collect::<Vec<_>>()
        });
        views.extend(outbound.await?);
        let mut infos: Vec<SaInfo> =
            views.into_iter().map(|view| view.named(|id| self.policy.app_name(id))).collect();
        infos.sort_by_key(|sa| (sa.direction, sa.spi, sa.remote));
        Ok(infos)
    }

    /// Delete the association with this SPI; what else names it is needed where several have it.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub async fn delete_sa(&mut self, spi: api::Spi, which: &Which) -> Result<SaInfo, Refused> {
        let sa = self.find_sa(spi, which).await?;
        let (name, remote) = (changes::name_of(&sa), sa.remote);
        match sa.direction {
            Direction::In => {
                self.halves.ask_inbound(move |half| half.engine.remove_sa(name).map(drop)).await??;
                self.end_live(&sa).await?;
            }
            Direction::Out => {
                self.halves
                    .ask_outbound(move |half| half.engine.remove_sa(name.spi, remote).map(drop))
                    .await??;
                self.end_groups(&sa).await?;
            }
        }
        Ok(sa)
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

fn random() -> Result<u32, Refused> {
    netio::random::number().map_err(|error| Refused::new(Fault::Failed, error.to_string()))
}

/// What became of an association that was sent to its thread; with an error, whether its key was certainly never used.
fn settle(
    added: Result<Result<(), sadb::SadError>, Unanswered>,
    view: SaView,
) -> Result<SaView, (Refused, bool)> {
    match added {
        Ok(Ok(())) => Ok(view),
        Ok(Err(error)) => Err((error.into(), true)),
        Err(Unanswered::Busy) => Err((Unanswered::Busy.into(), true)),
        Err(Unanswered::Stopped) => Err((Unanswered::Stopped.into(), false)),
    }
}
