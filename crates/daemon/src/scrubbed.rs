//! Flows that are scrubbed by policy (docs/design/0025): what rules did to them, and what a successor takes over.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Incident, Scrubbers};
use scrub::Profile;
use wire::ScrubId;

use documents::scrub_record::{Head, Ring};

/// The scrubbers of the data path, and the last packets that their rules met.
#[derive(Clone)]
pub struct Scrubbed {
    /// What the data path shares.
    pub scrubbers: Scrubbers,
    rings: Arc<Mutex<[Ring; Profile::ALL.len()]>>,
}

impl Scrubbed {
    /// Keep what these scrubbers tell of packets, in a ring for each profile.
    pub fn new(scrubbers: Scrubbers) -> Scrubbed {
        let next = Arc::new(AtomicU64::new(0));
        let rings = Profile::ALL.map(|profile| Ring::new(profile as usize, Arc::clone(&next)));
        let rings = Arc::new(Mutex::new(rings));
        let told = Arc::clone(&rings);
        scrubbers.set_witness(Box::new(move |incident: Incident<'_>| {
            let Incident { at, profile, from, verdict, came, whole, went } = incident;
            let mut rings = told.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(ring) = rings.get_mut(profile as usize) {
                ring.note(at, from, verdict, &Head::part(came, whole), went);
            }
        }));
        Scrubbed { scrubbers, rings }
    }

    /// The rings by profile, in the order of [`Profile::ALL`].
    pub(crate) fn rings(&self) -> MutexGuard<'_, [Ring; Profile::ALL.len()]> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The profile whose number stands for a worker's where its connections and packets are listed.
pub fn profile_name(number: usize) -> &'static str {
    Profile::ALL.get(number).map_or("unknown", |profile| profile.name())
}

/// What a successor needs to know.
pub(crate) fn hand_over(scrubbers: &Scrubbers) -> Vec<(ScrubId, Vec<u8>)> {
    scrubbers.save(netio::clock::monotonic())
}

/// Take over what another daemon knew. Where that cannot be, connections go on from their next segment, as older ones do that policy
/// begins to scrub.
pub(crate) fn take_over(scrubbers: &Scrubbers, known: &[(ScrubId, Vec<u8>)]) {
    let now = netio::clock::monotonic();
    for (profile, octets) in known {
        let name = Profile::of_id(*profile).map_or("unknown", Profile::name);
        match scrubbers.restore(now, *profile, octets) {
            Ok(done) => tracing::info!(
                profile = name,
                connections = done.connections,
                sessions = done.sessions,
                lost = done.lost,
                "scrubbed flows taken over"
            ),
            Err(error) => {
                tracing::warn!("scrubbed flows (profile {name}) begin anew: {error}");
            }
        }
    }
}
