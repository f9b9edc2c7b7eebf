//! Flows that are scrubbed by policy (docs/design/0025): what a successor takes over.

use engine::Scrubbers;
use wire::ScrubId;

/// What a successor needs to know.
pub(crate) fn hand_over(scrubbers: &Scrubbers) -> Vec<(ScrubId, Vec<u8>)> {
    scrubbers.save(netio::clock::monotonic())
}

/// Take over what another daemon knew. Where that cannot be, connections go on from their next segment, as older ones do that policy
/// begins to scrub.
pub(crate) fn take_over(scrubbers: &Scrubbers, known: &[(ScrubId, Vec<u8>)]) {
    let now = netio::clock::monotonic();
    for (profile, octets) in known {
        let name = scrub::Profile::of_id(*profile).map_or("unknown", scrub::Profile::name);
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
