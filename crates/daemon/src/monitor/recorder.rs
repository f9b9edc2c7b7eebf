//! A kernel half for tests of the control plane. It records each call that changes it, keeps what is in force as the real one would, and
//! can be told to fail. It answers for what it keeps alone: what it has no part for, it refuses by name, and what goes before
//! something else it refuses when it comes first.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::*;

/// The calls that can be told to fail, by the names of their methods.
const FALLIBLE: [&str; 17] = [
    "load_policy",
    "change_networks",
    "moved",
    "adopt",
    "verify",
    "counters",
    "sockets",
    "set_live_sas",
    "add_live_sa",
    "remove_live_sa",
    "set_uplinks",
    "set_insides",
    "narrow_spans",
    "set_spans",
    "set_users",
    "set_observe",
    "set_reserved",
];

/// The networks of each application.
pub(crate) type Networks = BTreeMap<AppId, Vec<Prefix>>;

/// A call that changes the kernel half, whether it was taken or refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    LoadPolicy { generation: u64, networks: Networks },
    ChangeNetworks { generation: u64, networks: Networks },
    SetLive(Vec<Selectors>),
    AddLive(Selectors),
    RemoveLive(Selectors),
    SetUplinks(Vec<u32>),
    SetInsides(Vec<u32>),
    NarrowSpans(Vec<Span>),
    SetSpans(Vec<Span>),
    SetUsers(Vec<RangeInclusive<u32>>),
    SetObserve(bool),
    SetReserved(ReservedName, Option<ReservedClass>),
}

/// What is in force, what was called, and what is to fail.
#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    failing: BTreeSet<&'static str>,
    /// The generation of the policy in force, and its networks; `None`: none was loaded.
    policy: Option<(u64, Networks)>,
    pins: Vec<Pin>,
    live: Vec<Selectors>,
    spans: Vec<Span>,
    users: Vec<RangeInclusive<u32>>,
    sockets: Vec<SocketInfo>,
    loads: LoadStats,
}

/// The kernel half of a test. Its clones are one kernel half: the control plane has one of them, the test another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<State>>);

impl Recorder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls since the last time.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().calls)
    }

    /// Let the methods of these names fail from now on, and no others.
    ///
    /// # Panics
    /// On a name of no method that can be told to fail.
    pub(crate) fn fail(&self, methods: &[&'static str]) {
        assert!(methods.iter().all(|method| FALLIBLE.contains(method)), "{methods:?}");
        self.state().failing = methods.iter().copied().collect();
    }

    /// The generation of the policy in force; `None`: none was loaded.
    pub(crate) fn policy_generation(&self) -> Option<u64> {
        self.state().policy.as_ref().map(|(generation, _)| *generation)
    }

    /// The networks of the policy in force.
    pub(crate) fn networks(&self) -> Networks {
        self.state().policy.as_ref().map(|(_, networks)| networks.clone()).unwrap_or_default()
    }

    /// The flows that associations serve.
    pub(crate) fn live(&self) -> Vec<Selectors> {
        self.state().live.clone()
    }

    /// The users whose packets go to the engine.
    pub(crate) fn users(&self) -> Vec<RangeInclusive<u32>> {
        self.state().users.clone()
    }

    /// The spans by which forwarded packets pass without the engine.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.state().spans.clone()
    }

    /// Let these sockets be open.
    pub(crate) fn open(&self, sockets: Vec<SocketInfo>) {
        self.state().sockets = sockets;
    }

    /// Record a call, and refuse it if that is wanted.
    fn change(&self, method: &'static str, call: Call) -> Result<MutexGuard<'_, State>, KernelError> {
        self.state().calls.push(call);
        self.asked(method)
    }

    fn asked(&self, method: &'static str) -> Result<MutexGuard<'_, State>, KernelError> {
        assert!(FALLIBLE.contains(&method), "{method}");
        let state = self.state();
        match state.failing.contains(method) {
            true => Err(refused(format!("the test has {method} fail"))),
            false => Ok(state),
        }
    }
}

fn refused(what: String) -> KernelError {
    SockmonError::System { what, source: io::Error::other("refused") }.into()
}

/// What the recorder has no part for.
fn unknown<T>(method: &str) -> Result<T, KernelError> {
    let what = format!("the recorder does not know {method}");
    Err(SockmonError::System { what, source: io::ErrorKind::Unsupported.into() }.into())
}

fn networks_of(spd: &Spd) -> Networks {
    let prefixes = |policy: &sadb::spd::AppPolicy| policy.networks().iter().map(|n| n.prefix).collect();
    spd.apps().map(|(app, policy)| (app, prefixes(policy))).collect()
}

impl KernelHalf for Recorder {
    fn load_policy(
        &mut self,
        spd: &Spd,
        subjects: &Subjects,
        orders: &[Comparison],
    ) -> Result<Vec<LoadWarning>, KernelError> {
        let networks = networks_of(spd);
        let generation = spd.generation;
        let mut state =
            self.change("load_policy", Call::LoadPolicy { generation, networks: networks.clone() })?;
        state.loads = LoadStats {
            applications: networks.len(),
            tables: networks.len(),
            networks: networks.values().map(Vec::len).sum(),
            orders: orders.len(),
            ..LoadStats::default()
        };
        // No file is read here, so none has a digest that is known.
        let pin = |(path, digests): (&String, &BTreeSet<policy::Digest>)| Pin {
            path: path.into(),
            wanted: digests.iter().copied().collect(),
            state: host_files::PinState::Unverified(None),
        };
        state.pins = subjects.pins().iter().map(pin).collect();
        state.policy = Some((generation, networks));
        Ok(Vec::new())
    }

    fn change_networks(&mut self, spd: &Spd, _: &[Comparison]) -> Result<(), KernelError> {
        let (generation, networks) = (spd.generation, networks_of(spd));
        let call = Call::ChangeNetworks { generation, networks: networks.clone() };
        let mut state = self.change("change_networks", call)?;
        if state.policy.is_none() {
            return Err(refused("no policy was loaded whose networks could change".to_owned()));
        }
        state.policy = Some((generation, networks));
        Ok(())
    }

    fn moved(&self, _: &Subjects) -> Result<Vec<(AppId, AppId)>, KernelError> {
        // A number moves where a file of the policy before is known by another name: this has no files.
        self.asked("moved").map(|_| Vec::new())
    }

    fn images(&self, _: &Subjects) -> Result<HashMap<Identity, BTreeSet<Image>>, KernelError> {
        Ok(HashMap::new())
    }

    fn adopt(&self) -> Result<Adopted, KernelError> {
        let state = self.asked("adopt")?;
        match &state.policy {
            Some(_) => Ok(Adopted { sockets: state.sockets.len(), ..Adopted::default() }),
            None => Err(refused("no policy was loaded for which sockets could be adopted".to_owned())),
        }
    }

    fn generation(&self) -> Result<u32, KernelError> {
        match self.policy_generation() {
            Some(generation) => Ok(u32::try_from(generation).unwrap_or(u32::MAX)),
            None => Ok(0),
        }
    }

    fn last_load(&self) -> LoadStats {
        self.state().loads
    }

    fn directories_changed(&self) -> bool {
        false
    }

    fn foreign_names(&self) -> Vec<(PathBuf, String)> {
        Vec::new()
    }

    fn pins(&self) -> Vec<Pin> {
        self.state().pins.clone()
    }

    fn unverified(&mut self, _: Duration) -> Result<Vec<Suspect>, KernelError> {
        if self.state().pins.is_empty() { Ok(Vec::new()) } else { unknown("unverified") }
    }

    fn verify(&mut self, _: Duration, _: u64) -> Result<usize, KernelError> {
        let state = self.asked("verify")?;
        if state.pins.is_empty() { Ok(0) } else { unknown("verify") }
    }

    fn judge(&mut self, _: Finding) -> Result<(), KernelError> {
        unknown("judge")
    }

    fn set_live_sas(&mut self, served: &[Selectors]) -> Result<(), KernelError> {
        self.change("set_live_sas", Call::SetLive(served.to_vec()))?.live = served.to_vec();
        Ok(())
    }

    fn add_live_sa(&mut self, served: &Selectors) -> Result<(), KernelError> {
        let mut state = self.change("add_live_sa", Call::AddLive(*served))?;
        if state.live.contains(served) {
            return Err(refused(format!("associations serve {served:?} already")));
        }
        state.live.push(*served);
        Ok(())
    }

    fn remove_live_sa(&mut self, served: &Selectors) -> Result<(), KernelError> {
        let mut state = self.change("remove_live_sa", Call::RemoveLive(*served))?;
        let Some(at) = state.live.iter().position(|live| live == served) else {
            return Err(refused(format!("no association serves {served:?}")));
        };
        state.live.remove(at);
        Ok(())
    }

    fn live_widened(&self) -> usize {
        0
    }

    fn set_uplinks(&mut self, uplinks: &[u32]) -> Result<(), KernelError> {
        self.change("set_uplinks", Call::SetUplinks(uplinks.to_vec())).map(drop)
    }

    fn set_insides(&mut self, insides: &[u32]) -> Result<(), KernelError> {
        self.change("set_insides", Call::SetInsides(insides.to_vec())).map(drop)
    }

    fn set_others(&mut self, _: &[u32]) -> Result<(), KernelError> {
        unknown("set_others")
    }

    fn set_locals(&mut self, _: &[Prefix]) -> Result<(), KernelError> {
        unknown("set_locals")
    }

    fn change_split(&mut self, _: &QueueTable, _: &QueueSplit, _: [u64; 6]) -> Result<(), KernelError> {
        unknown("change_split")
    }

    fn change_socket_split(
        &mut self,
        _: &QueueTable,
        _: &SocketSplit,
        _: [u64; 6],
    ) -> Result<(), KernelError> {
        unknown("change_socket_split")
    }

    fn set_sa_class(&mut self, _: SaName, _: AggregateId) -> Result<(), KernelError> {
        unknown("set_sa_class")
    }

    fn forget_sa_class(&mut self, _: SaName) -> Result<(), KernelError> {
        unknown("forget_sa_class")
    }

    fn set_sa_classes(&mut self, _: &HashMap<SaName, AggregateId>) -> Result<(), KernelError> {
        unknown("set_sa_classes")
    }

    fn set_reserved(
        &mut self,
        flow: &ReservedName,
        reserved: Option<&ReservedClass>,
    ) -> Result<(), KernelError> {
        self.change("set_reserved", Call::SetReserved(*flow, reserved.copied())).map(drop)
    }

    fn set_enc(&mut self, _: u32) -> Result<(), KernelError> {
        unknown("set_enc")
    }

    fn narrow_spans(&mut self, spans: &[Span]) -> Result<(), KernelError> {
        let mut state = self.change("narrow_spans", Call::NarrowSpans(spans.to_vec()))?;
        state.spans.retain(|span| spans.contains(span));
        Ok(())
    }

    fn set_spans(&mut self, spans: &[Span]) -> Result<(), KernelError> {
        self.change("set_spans", Call::SetSpans(spans.to_vec()))?.spans = spans.to_vec();
        Ok(())
    }

    fn set_users(&mut self, users: &[RangeInclusive<u32>]) -> Result<(), KernelError> {
        self.change("set_users", Call::SetUsers(users.to_vec()))?.users = users.to_vec();
        Ok(())
    }

    fn set_observe(&mut self, observe: bool) -> Result<(), KernelError> {
        self.change("set_observe", Call::SetObserve(observe)).map(drop)
    }

    fn dns_answers(&self, _: usize) -> Result<Vec<DnsAnswer>, KernelError> {
        unknown("dns_answers")
    }

    fn dns_answers_fd(&self) -> Result<OwnedFd, KernelError> {
        unknown("dns_answers_fd")
    }

    fn events(&self) -> Result<Vec<Event>, KernelError> {
        Ok(Vec::new())
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, KernelError> {
        // No packet passes here.
        self.asked("counters").map(|_| sockmon::abi::COUNTERS.iter().map(|word| (*word, 0)).collect())
    }

    fn traffic(&self) -> Result<BTreeMap<AppId, AppTraffic>, KernelError> {
        Ok(BTreeMap::new())
    }

    fn flows(&self) -> Result<Vec<CountedFlow>, KernelError> {
        unknown("flows")
    }

    fn flow_capacity(&self) -> Result<usize, KernelError> {
        unknown("flow_capacity")
    }

    fn take_flow(&self, _: &FlowId) -> Result<Option<CountedFlow>, KernelError> {
        unknown("take_flow")
    }

    fn sockets(&self) -> Result<Vec<SocketInfo>, KernelError> {
        Ok(self.asked("sockets")?.sockets.clone())
    }

    fn netns(&self) -> u64 {
        1
    }

    fn socket_events(&self) -> Result<SocketEvents, KernelError> {
        unknown("socket_events")
    }

    fn socket_calls(&self, _: Time) -> Result<Vec<SocketEvent>, KernelError> {
        unknown("socket_calls")
    }

    fn identity_of_pid(&self, _: u32) -> Result<Option<Identity>, KernelError> {
        unknown("identity_of_pid")
    }

    fn app_of_pid(&self, _: u32) -> Result<Option<AppId>, KernelError> {
        unknown("app_of_pid")
    }

    fn health(&self) -> Vec<sockmon::Fault> {
        Vec::new()
    }

    fn repair(&mut self) -> Result<Adopted, KernelError> {
        unknown("repair")
    }
}
