//! Which troubles are problems.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sadb::Direction;
use wire::{AppId, Flow, Time};

use super::{Cause, EVIDENCE, HealthBook, PATIENCE, Who};

/// A trouble that lasts for long enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The owner of the traffic; `None`: whoever uses the association, or sends to the peer.
    pub who: Option<Who>,
    /// The peer to whom nothing gets through.
    pub peer: IpAddr,
    pub cause: Cause,
    pub since: Time,
    /// A flow of the traffic, if one is known.
    pub flow: Option<Flow>,
}

impl HealthBook {
    /// Who gets nothing through for long enough.
    pub(crate) fn found(&self, now: Time) -> Vec<Found> {
        let troubles = self.troubles.iter().filter(|(_, one)| now.since(one.since) >= PATIENCE);
        let mut out: Vec<Found> = troubles
            .map(|((who, peer, _), one)| {
                let (cause, since, flow) = (one.cause, one.since, Some(one.flow));
                Found { who: Some(*who), peer: *peer, cause, since, flow }
            })
            .collect();
        out.extend(self.unsent.found(now).map(|(peer, refusal)| {
            let (cause, since) = (Cause::NotSent(refusal.errno), refusal.since);
            Found { who: None, peer, cause, since, flow: None }
        }));
        let told: BTreeSet<IpAddr> = out.iter().map(|one| one.peer).collect();
        for ((direction, peer, _), one) in &self.suspicions {
            let waits = one.waits.filter(|(_, at)| now.since(*at) < EVIDENCE);
            // Datagrams that nobody answers are no fault by themselves.
            let counts = one.cause != Cause::Unanswered || waits.is_some();
            let until = if one.cause.is_of_arrivals() { one.last } else { now };
            let late = until.since(one.since) >= PATIENCE;
            if late && counts && !(told.contains(peer) && *direction == Direction::Outbound) {
                let app =
                    one.selectors.app.or(one.waits.map(|(app, _)| app)).filter(|app| *app != AppId::NONE);
                let who = app.map(Who::App);
                out.push(Found { who, peer: *peer, cause: one.cause, since: one.since, flow: None });
            }
        }
        out
    }
}

#[cfg(test)]
impl HealthBook {
    /// The causes of all problems.
    pub(super) fn causes(&self, now: Time) -> Vec<Cause> {
        self.found(now).into_iter().map(|one| one.cause).collect()
    }
}
