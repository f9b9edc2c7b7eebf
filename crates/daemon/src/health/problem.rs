//! Causes in words, and which troubles are problems.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sadb::Direction;
use wire::{AppId, Flow, Time};

use super::{Cause, EVIDENCE, HealthBook, PATIENCE};

impl Cause {
    /// The code of the problem.
    pub fn code(self) -> &'static str {
        match self {
            Cause::NoAssociation => "no_association",
            Cause::NoGroup => "no_group_association",
            Cause::NoUplink => "no_uplink",
            Cause::OneDirection => "one_direction",
            Cause::AcquireUnanswered => "acquire_unanswered",
            Cause::AcquireRefused => "acquire_refused",
            Cause::TooWeak => "weak_association",
            Cause::LimitReached => "limit_reached",
            Cause::Replayed => "replayed",
            Cause::NotAuthentic => "not_authentic",
            Cause::Unanswered => "unanswered",
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Cause::NoAssociation => "no association serves it",
            Cause::NoGroup => "no association takes it to the group, so its sender is refused (EPERM)",
            Cause::NoUplink => "it leaves by a device that is no uplink, where nothing would protect it",
            Cause::OneDirection => "what it sends is protected, and no inbound association takes the answers",
            Cause::AcquireUnanswered => "the key manager was asked for an association and did not answer",
            Cause::AcquireRefused => "the key manager said that there will be no association",
            Cause::TooWeak => "the association gives less than the policy demands",
            Cause::LimitReached => "the association has reached its limit",
            Cause::Replayed => "every packet of the peer is dropped as a replay",
            Cause::NotAuthentic => "every packet of the peer has a wrong integrity check value",
            Cause::Unanswered => "its packets leave protected, and nothing comes back",
        }
    }

    pub(crate) fn remedy(self, explain: &str) -> String {
        let what = match self {
            Cause::NoAssociation => {
                "start the key manager, or add an association for each direction on both hosts (`ravelin sa add`)"
            }
            Cause::NoGroup => {
                "add an outbound association whose selectors hold the group (`ravelin sa add --direction out --selector-remote`), \
                 and an inbound one on its members: no key manager is asked for one"
            }
            Cause::NoUplink => {
                "`ip route get` says by which device; name that one in `uplinks` of the configuration, and restart the daemon"
            }
            Cause::OneDirection => {
                "add the inbound association (`ravelin sa add --direction in`) with the key that the peer sends by"
            }
            Cause::AcquireUnanswered => {
                "look at the key manager's log; `ravelin sa monitor` shows what it is asked"
            }
            Cause::AcquireRefused => "look at the key manager's log, here and at the peer",
            Cause::TooWeak => "`ravelin sa list` shows the suites; add an association with the demanded one",
            Cause::LimitReached => {
                "`ravelin sa replace` with new keys, or let the key manager do that at the soft limit"
            }
            Cause::Replayed => {
                "the peer counts from the beginning again: give both hosts new keys (`ravelin sa replace`)"
            }
            Cause::NotAuthentic => {
                "the keys or suites differ: compare `ravelin sa list` on both hosts, give both new keys"
            }
            Cause::Unanswered => {
                "look at the peer (`ravelin status` there): it may be down, or have no association for its answers"
            }
        };
        format!("{what}; {explain}")
    }
}

impl HealthBook {
    /// Who gets nothing through for long enough: whose, to whom, why, since when, and a flow of it.
    pub(crate) fn found(&self, now: Time) -> Vec<(AppId, IpAddr, Cause, Time, Option<Flow>)> {
        let troubles = self.troubles.iter().filter(|(_, one)| now.since(one.since) >= PATIENCE);
        let mut out: Vec<_> = troubles
            .map(|((app, peer, _), one)| (*app, *peer, one.cause, one.since, Some(one.flow)))
            .collect();
        let told: BTreeSet<IpAddr> = out.iter().map(|one| one.1).collect();
        for ((direction, peer, _), one) in &self.suspicions {
            let waits = one.waits.filter(|(_, at)| now.since(*at) < EVIDENCE);
            // Datagrams that nobody answers are no fault by themselves.
            let counts = one.cause != Cause::Unanswered || waits.is_some();
            let until = if one.cause.is_of_arrivals() { one.last } else { now };
            let late = until.since(one.since) >= PATIENCE;
            if late && counts && !(told.contains(peer) && *direction == Direction::Outbound) {
                let app = one.selectors.app.or(one.waits.map(|(app, _)| app)).unwrap_or(AppId::NONE);
                out.push((app, *peer, one.cause, one.since, None));
            }
        }
        out
    }
}

#[cfg(test)]
impl HealthBook {
    /// The causes of all problems.
    pub(super) fn causes(&self, now: Time) -> Vec<Cause> {
        self.found(now).into_iter().map(|one| one.2).collect()
    }
}
