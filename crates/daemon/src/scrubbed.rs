//! The flows that are scrubbed by policy (docs/design/0025): the packets that rules changed, and the state that a
//! successor takes over.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Incident, Scrubbers};
use scrub::Profile;
use wire::ScrubId;

use documents::scrub_record::{Head, Ring};

/// The scrubbers of the data path, and the last packets that their rules met.
#[derive(Clone)]
pub struct Scrubbed {
    /// The scrubbers, which the data threads share.
    pub scrubbers: Scrubbers,
    rings: Arc<Mutex<[Ring; Profile::ALL.len()]>>,
}

impl Scrubbed {
    /// Record what these scrubbers report about packets, in a ring for each profile.
    pub fn new(scrubbers: Scrubbers) -> Scrubbed {
        let next = Arc::new(AtomicU64::new(0));
        let rings = Profile::ALL.map(|profile| Ring::new(profile as usize, Arc::clone(&next)));
        let rings = Arc::new(Mutex::new(rings));
        scrubbers.record_incidents();
        Scrubbed { scrubbers, rings }
    }

    /// The rings by profile, in the order of [`Profile::ALL`], with what was recorded until now.
    pub(crate) fn rings(&self) -> MutexGuard<'_, [Ring; Profile::ALL.len()]> {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let incidents = self.scrubbers.take_incidents(|profile, lost| {
            if let Some(ring) = rings.get_mut(profile as usize) {
                ring.unrecorded += lost;
            }
        });
        let (now, wall) = (netio::clock::monotonic(), netio::clock::wall());
        for Incident { at, profile, from, verdict, came, went } in incidents {
            let head = |excerpt: engine::Excerpt| Head::part(excerpt.octets(), excerpt.whole);
            if let Some(ring) = rings.get_mut(profile as usize) {
                ring.keep(wall.saturating_sub(now.since(at)), from, verdict, &head(came), went.map(head));
            }
        }
        rings
    }
}

/// The name of the profile of this number. Lists of connections and packets have the number where those of a line have
/// a worker's.
pub fn profile_name(number: usize) -> &'static str {
    Profile::ALL.get(number).map_or("unknown", |profile| profile.name())
}

/// The saved state of the scrubbers for a successor, by profile.
pub(crate) fn hand_over(scrubbers: &Scrubbers) -> Vec<(ScrubId, Vec<u8>)> {
    scrubbers.save(netio::clock::monotonic())
}

/// Take over the state that another daemon saved. If that fails, connections continue from their next segment, like
/// older connections that policy begins to scrub.
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
