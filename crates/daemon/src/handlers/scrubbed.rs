//! Flows that are scrubbed by policy: status, and the paths of a scrubber in line for what those have in common.

use api::{InlineEvents, InlineFlow, InlineFlows, InlineQuery, InlineRules, ScrubbedProfile, ScrubbedStatus};
use axum::extract::State;
use scrub::{Counters, Profile};

use crate::plane::Shared;
use control::answer::{Answer, Doc};
use control::extract::Query;
use documents::scrub_record::{EVENTS, FLOWS, KEPT, fits, newest};
use documents::scrub_report;

pub(super) async fn status(State(plane): State<Shared>) -> Answer<ScrubbedStatus> {
    let plane = &*plane.get().await?;
    let scrubbers = &plane.observers().scrubbed().scrubbers;
    let profiles = scrubbers.reports().into_iter().map(|report| ScrubbedProfile {
        connections: report.connections,
        half_open: report.half_open,
        stored: report.stored,
        ..passed(report.profile, &report.counters)
    });
    let outer = plane.halves().outer_scrubber().await?;
    let profile = plane.config().scrub.outer.unwrap_or_default();
    Ok(Doc(ScrubbedStatus {
        profiles: profiles.collect(),
        outer: outer.map(|counters| passed(profile, &counters)),
        lost: scrubbers.lost(),
    }))
}

fn passed(profile: Profile, counters: &Counters) -> ScrubbedProfile {
    ScrubbedProfile {
        profile: profile.name().to_owned(),
        packets: counters.packets.iter().sum(),
        forwarded: counters.forwarded.iter().sum(),
        ..ScrubbedProfile::default()
    }
}

pub(super) async fn rules(State(plane): State<Shared>) -> Answer<InlineRules> {
    let plane = &*plane.get().await?;
    let outer = plane.halves().outer_scrubber().await?;
    let inner = plane.observers().scrubbed().scrubbers.reports().into_iter().map(|report| report.counters);
    let all: Vec<Counters> = inner.chain(outer).collect();
    Ok(Doc(InlineRules { rules: scrub_report::counts(&all) }))
}

pub(super) async fn flows(State(plane): State<Shared>) -> Answer<InlineFlows> {
    let plane = plane.get().await?;
    let (mut flows, mut total) = (Vec::new(), 0);
    plane.observers().scrubbed().scrubbers.each_connection(|profile, outside, inside, state| {
        total += 1;
        if flows.len() < FLOWS {
            let state = state.name().to_owned();
            flows.push(InlineFlow { worker: profile as usize, outside, inside, state });
        }
    });
    Ok(Doc(InlineFlows { flows, total }))
}

pub(super) async fn events(
    State(plane): State<Shared>,
    Query(query): Query<InlineQuery>,
) -> Answer<InlineEvents> {
    let plane = plane.get().await?;
    let most = query.most.unwrap_or(EVENTS).min(KEPT);
    let after = query.number.map_or(query.after.unwrap_or(0), |number| number.saturating_sub(1));
    let rings = plane.observers().scrubbed().rings();
    let found = rings.iter().map(|ring| {
        let events = ring.since(after, most, &|event| fits(&query, event));
        (events, ring.unrecorded)
    });
    Ok(Doc(newest(found, most)))
}
