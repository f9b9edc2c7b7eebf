//! Packets of flows whose policy says so pass the scrubber (docs/design/0025): behind all inbound checks, and in front
//! of the association outbound. The peer is outside, this host and the networks behind it are inside.
//!
//! Data that come in are freed by acknowledgments that go out, so both halves of the engine work on one state. It is
//! behind a mutex that is taken for packets of scrubbed flows only, and it is all that they share.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::incidents::{Excerpt, Incident, Incidents};
use sadb::spd::Spd;
use sadb::{FlowCache, FlowKey};
use scrub::{
    Arrival, Config, Counters, Midstream, Outcome, Profile, RestoreCounts, Rule, Saved, SavedError, Scrubber,
    Side, State as ConnectionState,
};
use wire::{AppId, Buf, Flow, Packet, ScrubId, Services, Time};

/// The largest number of the scrubber's own packets that wait for the outbound half.
const MOST_WAITING: usize = 1024;
/// The number of sets of four flows whose profile is remembered.
const SETS: usize = 1024;

/// The scrubbers, one for each profile, made when first needed. A clone refers to the same ones.
#[derive(Clone)]
pub struct Scrubbers(Arc<Shared>);

struct Shared {
    /// Whether something waits for the outbound half.
    waits: AtomicBool,
    state: Mutex<State>,
}

struct State {
    configs: [Config; Profile::ALL.len()],
    seed: [u8; 16],
    made: [Option<Box<Scrubber>>; Profile::ALL.len()],
    waiting: VecDeque<Emitted>,
    /// The number of own packets that found no room to wait in.
    lost: u64,
    /// The packets that rules applied to, by profile; `None`: nobody wants them.
    incidents: Option<Box<[Incidents; Profile::ALL.len()]>>,
}

/// A packet that the scrubber made itself.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub to: Side,
    pub buf: Buf,
    /// The application that its association is bound to.
    pub app: AppId,
    /// The services of the packet that it is about; without such a packet, all of them.
    pub services: Services,
}

/// The report about one profile's scrubber.
#[derive(Clone, Debug)]
pub struct ScrubReport {
    /// The profile of the scrubber.
    pub profile: Profile,
    /// The counts of what passed and what each rule did.
    pub counters: Counters,
    /// The number of connections that it knows.
    pub connections: usize,
    /// The number of those whose handshake is not done.
    pub half_open: usize,
    /// The number of octets in its store.
    pub stored: usize,
}

/// The result of scrubbing a packet.
pub(crate) enum ScrubResult {
    /// The packet goes on.
    Passed,
    /// The packet is dropped by this rule.
    Ended(Rule),
    /// The packet went into fragments, which are packets of the scrubber's own.
    Gone,
}

/// The configuration of a profile in the IPsec path, where nothing refines it. Packets may be of any length, since the
/// engine cuts and answers by itself, and a connection that is older than the scrubber goes on.
pub fn scrub_config(profile: Profile) -> Config {
    let mut config = Config::new(profile);
    config.mtu = [usize::from(u16::MAX); 2];
    config.midstream = Midstream::PickUp;
    config
}

impl Scrubbers {
    /// Scrubbers with a configuration for each profile. `seed` is random: it keys tables, and whatever must not be
    /// guessed.
    pub fn new(config: impl Fn(Profile) -> Config, seed: [u8; 16]) -> Scrubbers {
        let state = State {
            configs: Profile::ALL.map(config),
            seed,
            made: Default::default(),
            waiting: VecDeque::new(),
            lost: 0,
            incidents: None,
        };
        Scrubbers(Arc::new(Shared { waits: AtomicBool::new(false), state: Mutex::new(state) }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A scrubber keeps no promise across packets that a half-done packet could break: what it does not know it
        // refuses.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scrub one packet of a flow; `None` if its profile is unknown. Packets of the scrubber's own are appended to
    /// `out`.
    pub(crate) fn process<S>(
        &self,
        from: Side,
        realm: AppId,
        packet: &mut Packet<S>,
        out: &mut Vec<Emitted>,
    ) -> Option<ScrubResult> {
        let profile = Profile::of_id(packet.meta.scrub)?;
        let mut state = self.state();
        let now = packet.meta.received;
        let arrival = Arrival { from, link: 0, realm: realm.0.into() };
        let mut gso = packet.meta.gso;
        let came = Excerpt::of(packet.bytes());
        let scrubber = state.scrubber(profile);
        let verdict = scrubber.process(now, arrival, packet.buf_mut(), &mut gso);
        packet.meta.gso = gso;
        let services = packet.meta.services;
        while let Some(emitted) = scrubber.poll_emitted() {
            out.push(Emitted { services, ..Emitted::from_scrubber(emitted) });
        }
        let scrubbed = match verdict.outcome {
            Outcome::Forward => ScrubResult::Passed,
            Outcome::Drop(rule) => ScrubResult::Ended(rule),
            Outcome::Hold | Outcome::Fragmented => ScrubResult::Gone,
        };
        if let (true, Some(incidents)) = (verdict.met.is_incident(), &mut state.incidents) {
            let incidents = &mut incidents[profile as usize];
            if incidents.has_room(now) {
                let passed = matches!(scrubbed, ScrubResult::Passed);
                let went = passed.then(|| Excerpt::of(packet.bytes()));
                incidents.push(Incident { at: now, profile, from, verdict, came, went });
            }
        }
        Some(scrubbed)
    }

    /// Leave packets for the outbound half, which sends or delivers them as soon as it can. Returns whether any found
    /// room.
    pub(crate) fn leave(&self, emitted: impl Iterator<Item = Emitted>) -> bool {
        let mut state = self.state();
        let before = state.waiting.len();
        for one in emitted {
            state.wait(one);
        }
        let left = state.waiting.len() > before;
        if left {
            self.0.waits.store(true, Ordering::Release);
        }
        left
    }

    /// The next packet that was left for the outbound half.
    pub(crate) fn take(&self) -> Option<Emitted> {
        if !self.0.waits.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state();
        let emitted = state.waiting.pop_front();
        if emitted.is_none() {
            self.0.waits.store(false, Ordering::Release);
        }
        emitted
    }

    /// Forget connections and fragments that are over. Packets that tell of it wait for the outbound half.
    pub(crate) fn expire(&self, now: Time) {
        let mut state = self.state();
        let State { made, waiting, lost, .. } = &mut *state;
        for scrubber in made.iter_mut().flatten() {
            scrubber.expire(now);
            while let Some(emitted) = scrubber.poll_emitted() {
                push(waiting, lost, Emitted::from_scrubber(emitted));
            }
        }
        if !waiting.is_empty() {
            self.0.waits.store(true, Ordering::Release);
        }
    }

    /// The reports of every scrubber that had something to do.
    pub fn reports(&self) -> Vec<ScrubReport> {
        let state = self.state();
        let made = Profile::ALL.into_iter().zip(&state.made);
        made.filter_map(|(profile, scrubber)| {
            let scrubber = scrubber.as_ref()?;
            Some(ScrubReport {
                profile,
                counters: scrubber.counters().clone(),
                connections: scrubber.connections().len(),
                half_open: scrubber.connections().half_open(),
                stored: scrubber.connections().stored(),
            })
        })
        .collect()
    }

    /// Record packets that rules apply to from now on, until [`Scrubbers::take_incidents`] takes them. A bounded number
    /// of the latest is kept.
    pub fn record_incidents(&self) {
        self.state().incidents.get_or_insert_default();
    }

    /// Take the packets that rules applied to since the last call, in the order in which they came. For each profile,
    /// `lost` is told the number of those that came too fast to be recorded or kept.
    pub fn take_incidents(&self, mut lost: impl FnMut(Profile, u64)) -> Vec<Incident> {
        // The data threads wait for this lock, so nothing is copied under it.
        let taken = self.state().incidents.as_mut().map(|all| all.each_mut().map(Incidents::take));
        let mut all = Vec::new();
        for (profile, (waiting, unrecorded)) in Profile::ALL.into_iter().zip(taken.into_iter().flatten()) {
            all.extend(waiting);
            lost(profile, unrecorded);
        }
        all.sort_by_key(|incident| incident.at);
        all
    }

    /// Call `look` for each connection of every scrubber that had something to do.
    pub fn each_connection(&self, mut look: impl FnMut(Profile, SocketAddr, SocketAddr, ConnectionState)) {
        let state = self.state();
        for (profile, scrubber) in Profile::ALL.into_iter().zip(&state.made) {
            let connections = scrubber.iter().flat_map(|scrubber| scrubber.connections().iter());
            connections.for_each(|(outside, inside, state)| look(profile, outside, inside, state));
        }
    }

    /// The number of the scrubber's own packets that found no room to wait in.
    pub fn lost(&self) -> u64 {
        self.state().lost
    }

    /// The state of every scrubber, for another daemon, by profile.
    pub fn save(&self, now: Time) -> Vec<(ScrubId, Vec<u8>)> {
        let state = self.state();
        let made = Profile::ALL.into_iter().zip(&state.made);
        made.filter_map(|(profile, scrubber)| {
            let mut octets = Vec::new();
            scrubber.as_ref()?.save(now, &mut octets);
            Some((profile.id(), octets))
        })
        .collect()
    }

    /// Take over the state of another daemon's scrubber for this profile.
    ///
    /// # Errors
    /// The reason why the octets are no such state; then nothing is taken over.
    pub fn restore(&self, now: Time, profile: ScrubId, octets: &[u8]) -> Result<RestoreCounts, SavedError> {
        let saved = Saved::check(octets)?;
        let profile = Profile::of_id(profile).ok_or(SavedError::NotOurs)?;
        Ok(self.state().scrubber(profile).restore(now, &saved, |_| true))
    }
}

impl State {
    fn scrubber(&mut self, profile: Profile) -> &mut Scrubber {
        let at = profile as usize;
        let (config, seed) = (&self.configs[at], self.seed);
        self.made[at].get_or_insert_with(|| Box::new(Scrubber::new(config.clone(), seed)))
    }

    fn wait(&mut self, emitted: Emitted) {
        push(&mut self.waiting, &mut self.lost, emitted);
    }
}

impl Emitted {
    fn from_scrubber(emitted: scrub::Emitted) -> Emitted {
        let scrub::Emitted { to, buf, realm, .. } = emitted;
        let app = AppId(u16::try_from(realm).unwrap_or_default());
        Emitted { to, buf, app, services: Services::ENCRYPTED }
    }
}

fn push(waiting: &mut VecDeque<Emitted>, lost: &mut u64, emitted: Emitted) {
    if waiting.len() < MOST_WAITING {
        waiting.push_back(emitted);
    } else {
        *lost += 1;
    }
}

/// The scrubbing state of the inbound half.
pub(crate) struct Scrubbing {
    pub scrubbers: Scrubbers,
    spd: Arc<Spd>,
    known: FlowCache<ScrubId>,
    policy_generation: u64,
    /// Whether something was left for the outbound half since the last look.
    pub called: bool,
    pub emitted: Vec<Emitted>,
}

impl Scrubbing {
    pub fn new(scrubbers: Scrubbers, spd: Arc<Spd>, seed: u64) -> Scrubbing {
        let known = FlowCache::new(SETS, seed);
        Scrubbing { scrubbers, spd, known, policy_generation: 0, called: false, emitted: Vec::new() }
    }

    pub fn set_policy(&mut self, spd: Arc<Spd>) {
        self.spd = spd;
        self.policy_generation += 1;
    }

    pub fn policy(&self) -> &Arc<Spd> {
        &self.spd
    }

    /// Whether there is any flow that policy wants scrubbed.
    pub fn is_needed(&self) -> bool {
        self.spd.scrubs()
    }

    /// The profile by which policy says that a flow is scrubbed; `app` is the application that its association is bound
    /// to, or none.
    #[inline]
    pub fn profile(&mut self, app: AppId, flow: &Flow) -> ScrubId {
        if !self.spd.scrubs() {
            return ScrubId::NONE;
        }
        let key = FlowKey::new(app, flow, 0);
        if let Some(profile) = self.known.get(self.policy_generation, &key) {
            return profile;
        }
        let profile = profile(&self.spd, app, flow);
        self.known.put(self.policy_generation, &key, profile);
        profile
    }
}

/// The profile by which policy says that a protected flow is scrubbed; `app` is the application that its association is
/// bound to, or none.
pub(crate) fn profile(spd: &Spd, app: AppId, flow: &Flow) -> ScrubId {
    match app {
        AppId::NONE => spd.scrub(flow),
        app => spd.scrub_of(app, flow),
    }
}
