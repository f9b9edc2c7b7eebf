//! Which troubles are problems.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sadb::{Direction, Spi};
use wire::{AppId, Flow, Time};

use super::{Cause, EVIDENCE, HealthBook, PATIENCE, TroubleOwner};

/// A trouble that lasts for long enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TroubleReport {
    /// The owner of the traffic; `None`: whoever uses the association, or sends to the peer.
    pub who: Option<TroubleOwner>,
    /// The peer to whom nothing gets through.
    pub peer: IpAddr,
    pub cause: Cause,
    pub since: Time,
    /// A flow of the traffic, if one is known.
    pub flow: Option<Flow>,
    /// The association, where the trouble is that of one.
    pub by: Option<Spi>,
}

impl HealthBook {
    /// Who gets nothing through for long enough.
    pub(crate) fn found(&self, now: Time) -> Vec<TroubleReport> {
        let troubles = self.troubles.iter().filter(|((who, ..), one)| {
            // A rule speaks for answers, too, and anybody may ask once.
            let until = if matches!(who, TroubleOwner::Rule(_)) { one.last } else { now };
            until.since(one.since) >= PATIENCE
        });
        let mut out: Vec<TroubleReport> = troubles
            .map(|((who, peer, _), one)| {
                let (cause, since, flow) = (one.cause, one.since, Some(one.flow));
                TroubleReport { who: Some(*who), peer: *peer, cause, since, flow, by: None }
            })
            .collect();
        out.extend(self.unsent.found(now).map(|((peer, spi), refusal)| {
            let (cause, since) = (Cause::NotSent(refusal.errno), refusal.since);
            TroubleReport { who: None, peer, cause, since, flow: None, by: Some(spi) }
        }));
        // What is told already: of somebody and a peer, or that nothing is sent by the association at all.
        let told: BTreeSet<(Option<TroubleOwner>, IpAddr, Option<Spi>)> =
            out.iter().map(|one| (one.who, one.peer, one.by)).collect();
        for ((direction, peer, spi), one) in &self.suspicions {
            let waits = one.waits.filter(|(_, at)| now.since(*at) < EVIDENCE);
            // Datagrams that nobody answers are no fault by themselves.
            let counts = one.cause != Cause::Unanswered || waits.is_some();
            let until = if one.cause.is_of_arrivals() { one.last } else { now };
            let late = until.since(one.since) >= PATIENCE;
            let app = one.selectors.app.or(one.waits.map(|(app, _)| app)).filter(|app| *app != AppId::NONE);
            let who = app.map(TroubleOwner::App);
            let is_told = told.contains(&(None, *peer, Some(*spi))) || told.contains(&(who, *peer, None));
            if late && counts && !(is_told && *direction == Direction::Outbound) {
                let (peer, cause, since) = (*peer, one.cause, one.since);
                out.push(TroubleReport { who, peer, cause, since, flow: None, by: None });
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
