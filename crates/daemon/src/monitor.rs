//! The kernel half as the control plane asks it: one caller at a time, by the verbs of [`KernelHalf`].
//!
//! The daemon's is a [`Sockmon`]. Tests have one that records what it is told and can be told to fail (`recorder`): there is no control
//! plane without a kernel half.

#[cfg(test)]
pub(crate) mod recorder;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use documents::{ApiError, Blame};
use host_files::Pin;
use policy::Image;
use sadb::SocketEvent;
use sadb::sa::Selectors;
use sadb::spd::{Order, Spd};
use sockmon::{
    Adopted, AppTraffic, CountedFlow, DnsAnswer, Event, Finding, FlowId, Identity, LoadStats, LoadWarning,
    QueueSplit, QueueTable, ReservedClass, ReservedName, SaName, SocketEvents, SocketInfo, SocketSplit,
    Sockmon, SockmonError, Span, Subjects, Suspect,
};
use wire::{AggregateId, AppId, Prefix, Time};

/// Two applications and how they compare.
pub(crate) type Comparison = ((AppId, AppId), Order);

/// Why the kernel half did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct KernelError(#[from] pub SockmonError);

impl KernelError {
    /// What to do about it.
    pub(crate) fn remedy(&self) -> String {
        self.0.remedy()
    }
}

impl From<KernelError> for ApiError {
    fn from(error: KernelError) -> ApiError {
        ApiError::new(Blame::Failed, error.to_string()).remedy(error.remedy())
    }
}

/// What the control plane asks of the kernel half. Each method does what the one of [`Sockmon`] with its name does.
///
/// # Errors
/// The methods that can fail say why in a [`KernelError`]; the kernel half then has what it had, unless the method of [`Sockmon`] says
/// otherwise.
pub(crate) trait KernelHalf: Send {
    /// Load a policy as a whole: tables, executables, names. An error means that the kernel half has what it had.
    fn load_policy(
        &mut self,
        spd: &Spd,
        subjects: &Subjects,
        orders: &[Comparison],
    ) -> Result<Vec<LoadWarning>, KernelError>;

    /// Change the policy in force in networks alone.
    fn change_networks(&mut self, spd: &Spd, orders: &[Comparison]) -> Result<(), KernelError>;

    /// The numbers that sockets go on under which the subjects name otherwise now: before and after.
    fn moved(&self, subjects: &Subjects) -> Result<Vec<(AppId, AppId)>, KernelError>;

    /// The images of the policy's executables, as the kernel knows their files.
    fn images(&self, subjects: &Subjects) -> Result<HashMap<Identity, BTreeSet<Image>>, KernelError>;

    /// Stamp the sockets that were open before the policy named their programs.
    fn adopt(&self) -> Result<Adopted, KernelError>;

    /// The generation of the policy in force.
    fn generation(&self) -> Result<u32, KernelError>;

    /// The counts of the last load.
    fn last_load(&self) -> LoadStats;

    /// Whether a directory of the policy's executables has come or was exchanged.
    fn directories_changed(&self) -> bool;

    /// Paths of the policy that lead to a file by a name that its owner may turn, with the reason.
    fn foreign_names(&self) -> Vec<(PathBuf, String)>;

    /// The files that the policy pins to digests, with their states.
    fn pins(&self) -> Vec<Pin>;

    /// The pinned files that are to be hashed.
    fn unverified(&mut self, now: Duration) -> Result<Vec<Suspect>, KernelError>;

    /// Hash pinned files of up to this many octets together; the number of files.
    fn verify(&mut self, now: Duration, octets: u64) -> Result<usize, KernelError>;

    /// Let the digest of a file count.
    fn judge(&mut self, finding: Finding) -> Result<(), KernelError>;

    /// Set the flows that associations serve.
    fn set_live_sas(&mut self, served: &[Selectors]) -> Result<(), KernelError>;

    /// Add flows that an association serves.
    fn add_live_sa(&mut self, served: &Selectors) -> Result<(), KernelError>;

    /// Remove flows that no association serves any more.
    fn remove_live_sa(&mut self, served: &Selectors) -> Result<(), KernelError>;

    /// The number of prefixes of peers whose selectors are more than can be told apart.
    fn live_widened(&self) -> usize;

    /// Guard these devices as uplinks, by index.
    fn set_uplinks(&mut self, uplinks: &[u32]) -> Result<(), KernelError>;

    /// Guard these devices as interfaces of networks behind this host, by index.
    fn set_insides(&mut self, insides: &[u32]) -> Result<(), KernelError>;

    /// Guard these devices, which are neither uplinks nor the daemon's, by index.
    fn set_others(&mut self, others: &[u32]) -> Result<(), KernelError>;

    /// Set the addresses of this host.
    fn set_locals(&mut self, locals: &[Prefix]) -> Result<(), KernelError>;

    /// Split packets among the same queues of the TUN in another way.
    fn change_split(
        &mut self,
        queues: &QueueTable,
        split: &QueueSplit,
        seed: [u64; 6],
    ) -> Result<(), KernelError>;

    /// Split outer packets among the same sockets in another way.
    fn change_socket_split(
        &mut self,
        queues: &QueueTable,
        split: &SocketSplit,
        seed: [u64; 6],
    ) -> Result<(), KernelError>;

    /// Set the class of an inbound association's packets.
    fn set_sa_class(&mut self, sa: SaName, class: AggregateId) -> Result<(), KernelError>;

    /// Forget the class of an inbound association's packets: they wait where strangers do.
    fn forget_sa_class(&mut self, sa: SaName) -> Result<(), KernelError>;

    /// Set the classes of these inbound associations' packets, and forget all others.
    fn set_sa_classes(&mut self, classes: &HashMap<SaName, AggregateId>) -> Result<(), KernelError>;

    /// Give packets of a flow that are within a rate a class, or no more.
    fn set_reserved(
        &mut self,
        flow: &ReservedName,
        reserved: Option<&ReservedClass>,
    ) -> Result<(), KernelError>;

    /// Copy protected packets in clear to the device of this index; 0: to none.
    fn set_enc(&mut self, ifindex: u32) -> Result<(), KernelError>;

    /// Take away what these spans do not let pass.
    fn narrow_spans(&mut self, spans: &[Span]) -> Result<(), KernelError>;

    /// Set the spans by which forwarded packets pass without the engine.
    fn set_spans(&mut self, spans: &[Span]) -> Result<(), KernelError>;

    /// Set the users whose packets go to the engine.
    fn set_users(&mut self, users: &[RangeInclusive<u32>]) -> Result<(), KernelError>;

    /// Set whether answers of the DNS that applications receive are told.
    fn set_observe(&mut self, observe: bool) -> Result<(), KernelError>;

    /// Answers of the DNS that applications received, up to this many.
    fn dns_answers(&self, most: usize) -> Result<Vec<DnsAnswer>, KernelError>;

    /// A descriptor that is readable when there are answers of the DNS.
    fn dns_answers_fd(&self) -> Result<OwnedFd, KernelError>;

    /// Refusals and news of executables since the last time.
    fn events(&self) -> Result<Vec<Event>, KernelError>;

    /// Every counter since the instance was created, by name.
    fn counters(&self) -> Result<Vec<(&'static str, u64)>, KernelError>;

    /// Packets and octets of each application since the instance was created.
    fn traffic(&self) -> Result<BTreeMap<AppId, AppTraffic>, KernelError>;

    /// The flows in the table of flows.
    fn flows(&self) -> Result<Vec<CountedFlow>, KernelError>;

    /// The number of flows that the table of flows has room for.
    fn flow_capacity(&self) -> Result<usize, KernelError>;

    /// Take a flow out of the table; `None`: it is not there.
    fn take_flow(&self, id: &FlowId) -> Result<Option<CountedFlow>, KernelError>;

    /// Every IPv4 and IPv6 socket of the host, once for each descriptor.
    fn sockets(&self) -> Result<Vec<SocketInfo>, KernelError>;

    /// The network namespace that is guarded, by its cookie.
    fn netns(&self) -> u64;

    /// The reader of what sockets do. There may be one at a time.
    fn socket_events(&self) -> Result<SocketEvents, KernelError>;

    /// The calls that the open sockets have made, as if they were made now.
    fn socket_calls(&self, now: Time) -> Result<Vec<SocketEvent>, KernelError>;

    /// The file that a process executes; `None`: there is no such process, or it has none.
    fn identity_of_pid(&self, pid: u32) -> Result<Option<Identity>, KernelError>;

    /// The application of a process; `None`: there is no such process.
    fn app_of_pid(&self, pid: u32) -> Result<Option<AppId>, KernelError>;

    /// What is missing or not in its place.
    fn health(&self) -> Vec<sockmon::Fault>;

    /// Attach again what is missing.
    fn repair(&mut self) -> Result<Adopted, KernelError>;
}

impl KernelHalf for Sockmon {
    fn load_policy(
        &mut self,
        spd: &Spd,
        subjects: &Subjects,
        orders: &[Comparison],
    ) -> Result<Vec<LoadWarning>, KernelError> {
        Ok(Sockmon::load_policy(self, spd, subjects, orders)?)
    }

    fn change_networks(&mut self, spd: &Spd, orders: &[Comparison]) -> Result<(), KernelError> {
        Ok(Sockmon::change_networks(self, spd, orders)?)
    }

    fn moved(&self, subjects: &Subjects) -> Result<Vec<(AppId, AppId)>, KernelError> {
        Ok(Sockmon::moved(self, subjects)?)
    }

    fn images(&self, subjects: &Subjects) -> Result<HashMap<Identity, BTreeSet<Image>>, KernelError> {
        Ok(Sockmon::images(self, subjects)?)
    }

    fn adopt(&self) -> Result<Adopted, KernelError> {
        Ok(Sockmon::adopt(self)?)
    }

    fn generation(&self) -> Result<u32, KernelError> {
        Ok(Sockmon::generation(self)?)
    }

    fn last_load(&self) -> LoadStats {
        Sockmon::last_load(self)
    }

    fn directories_changed(&self) -> bool {
        Sockmon::directories_changed(self)
    }

    fn foreign_names(&self) -> Vec<(PathBuf, String)> {
        Sockmon::foreign_names(self)
    }

    fn pins(&self) -> Vec<Pin> {
        Sockmon::pins(self)
    }

    fn unverified(&mut self, now: Duration) -> Result<Vec<Suspect>, KernelError> {
        Ok(Sockmon::unverified(self, now)?)
    }

    fn verify(&mut self, now: Duration, octets: u64) -> Result<usize, KernelError> {
        Ok(Sockmon::verify(self, now, octets)?)
    }

    fn judge(&mut self, finding: Finding) -> Result<(), KernelError> {
        Ok(Sockmon::judge(self, finding)?)
    }

    fn set_live_sas(&mut self, served: &[Selectors]) -> Result<(), KernelError> {
        Ok(Sockmon::set_live_sas(self, served)?)
    }

    fn add_live_sa(&mut self, served: &Selectors) -> Result<(), KernelError> {
        Ok(Sockmon::add_live_sa(self, served)?)
    }

    fn remove_live_sa(&mut self, served: &Selectors) -> Result<(), KernelError> {
        Ok(Sockmon::remove_live_sa(self, served)?)
    }

    fn live_widened(&self) -> usize {
        Sockmon::live_widened(self)
    }

    fn set_uplinks(&mut self, uplinks: &[u32]) -> Result<(), KernelError> {
        Ok(Sockmon::set_uplinks(self, uplinks)?)
    }

    fn set_insides(&mut self, insides: &[u32]) -> Result<(), KernelError> {
        Ok(Sockmon::set_insides(self, insides)?)
    }

    fn set_others(&mut self, others: &[u32]) -> Result<(), KernelError> {
        Ok(Sockmon::set_others(self, others)?)
    }

    fn set_locals(&mut self, locals: &[Prefix]) -> Result<(), KernelError> {
        Ok(Sockmon::set_locals(self, locals)?)
    }

    fn change_split(
        &mut self,
        queues: &QueueTable,
        split: &QueueSplit,
        seed: [u64; 6],
    ) -> Result<(), KernelError> {
        Ok(Sockmon::change_split(self, queues, split, seed)?)
    }

    fn change_socket_split(
        &mut self,
        queues: &QueueTable,
        split: &SocketSplit,
        seed: [u64; 6],
    ) -> Result<(), KernelError> {
        Ok(Sockmon::change_socket_split(self, queues, split, seed)?)
    }

    fn set_sa_class(&mut self, sa: SaName, class: AggregateId) -> Result<(), KernelError> {
        Ok(Sockmon::set_sa_class(self, sa, class)?)
    }

    fn forget_sa_class(&mut self, sa: SaName) -> Result<(), KernelError> {
        Ok(Sockmon::forget_sa_class(self, sa)?)
    }

    fn set_sa_classes(&mut self, classes: &HashMap<SaName, AggregateId>) -> Result<(), KernelError> {
        Ok(Sockmon::set_sa_classes(self, classes)?)
    }

    fn set_reserved(
        &mut self,
        flow: &ReservedName,
        reserved: Option<&ReservedClass>,
    ) -> Result<(), KernelError> {
        Ok(Sockmon::set_reserved(self, flow, reserved)?)
    }

    fn set_enc(&mut self, ifindex: u32) -> Result<(), KernelError> {
        Ok(Sockmon::set_enc(self, ifindex)?)
    }

    fn narrow_spans(&mut self, spans: &[Span]) -> Result<(), KernelError> {
        Ok(Sockmon::narrow_spans(self, spans)?)
    }

    fn set_spans(&mut self, spans: &[Span]) -> Result<(), KernelError> {
        Ok(Sockmon::set_spans(self, spans)?)
    }

    fn set_users(&mut self, users: &[RangeInclusive<u32>]) -> Result<(), KernelError> {
        Ok(Sockmon::set_users(self, users)?)
    }

    fn set_observe(&mut self, observe: bool) -> Result<(), KernelError> {
        Ok(Sockmon::set_observe(self, observe)?)
    }

    fn dns_answers(&self, most: usize) -> Result<Vec<DnsAnswer>, KernelError> {
        Ok(Sockmon::dns_answers(self, most)?)
    }

    fn dns_answers_fd(&self) -> Result<OwnedFd, KernelError> {
        Ok(Sockmon::dns_answers_fd(self)?)
    }

    fn events(&self) -> Result<Vec<Event>, KernelError> {
        Ok(Sockmon::events(self)?)
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, KernelError> {
        Ok(Sockmon::counters(self)?)
    }

    fn traffic(&self) -> Result<BTreeMap<AppId, AppTraffic>, KernelError> {
        Ok(Sockmon::traffic(self)?)
    }

    fn flows(&self) -> Result<Vec<CountedFlow>, KernelError> {
        Ok(Sockmon::flows(self)?)
    }

    fn flow_capacity(&self) -> Result<usize, KernelError> {
        Ok(Sockmon::flow_capacity(self)?)
    }

    fn take_flow(&self, id: &FlowId) -> Result<Option<CountedFlow>, KernelError> {
        Ok(Sockmon::take_flow(self, id)?)
    }

    fn sockets(&self) -> Result<Vec<SocketInfo>, KernelError> {
        Ok(Sockmon::sockets(self)?)
    }

    fn netns(&self) -> u64 {
        Sockmon::netns(self)
    }

    fn socket_events(&self) -> Result<SocketEvents, KernelError> {
        Ok(Sockmon::socket_events(self)?)
    }

    fn socket_calls(&self, now: Time) -> Result<Vec<SocketEvent>, KernelError> {
        Ok(Sockmon::socket_calls(self, now)?)
    }

    fn identity_of_pid(&self, pid: u32) -> Result<Option<Identity>, KernelError> {
        Ok(Sockmon::identity_of_pid(self, pid)?)
    }

    fn app_of_pid(&self, pid: u32) -> Result<Option<AppId>, KernelError> {
        Ok(Sockmon::app_of_pid(self, pid)?)
    }

    fn health(&self) -> Vec<sockmon::Fault> {
        Sockmon::health(self)
    }

    fn repair(&mut self) -> Result<Adopted, KernelError> {
        Ok(Sockmon::repair(self)?)
    }
}

/// The kernel half behind a lock: libbpf's objects may move between threads, but not be shared by them.
pub(crate) struct Monitor(Mutex<Box<dyn KernelHalf>>);

impl Monitor {
    /// Put it behind the lock.
    pub(crate) fn new(kernel_half: impl KernelHalf + 'static) -> Monitor {
        Monitor(Mutex::new(Box::new(kernel_half)))
    }

    /// Lock the kernel half, to use it. The lock is never held while waiting for a data thread.
    pub(crate) fn get(&self) -> MutexGuard<'_, Box<dyn KernelHalf>> {
        // What a panicking caller left is still what the kernel has.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
