//! What the kernel half refused lately, to be explained afterwards, and its way into the audit log.
//!
//! What enters: events of the socket monitor: refused calls, and packets that ended (of a kind that comes often only one in a
//! while). What leaves: the last of them by number. How often each reason refused each application is counted in the kernel
//! half and does not rest on events: those can be lost, which is counted too.

use std::collections::VecDeque;
use std::time::Duration;

use sockmon::{Attempt, Event};

use crate::plane::Plane;

/// Refusals that are remembered.
const KEPT: usize = 1024;

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Its number since the daemon's start, from 1.
    pub id: u64,
    /// When the daemon heard of it, since 1970: up to a second behind.
    pub at: Duration,
    /// The generation of the policy that was in force.
    pub generation: u64,
    /// What happened.
    pub event: Event,
}

/// The last refusals.
#[derive(Debug, Default)]
pub struct Denials {
    last: VecDeque<Denial>,
    count: u64,
    /// Events that were lost up to now, by the kernel half's count; `None`: not read yet.
    lost: Option<u64>,
}

impl Denials {
    /// Remember one.
    pub fn add(&mut self, event: Event, at: Duration, generation: u64) {
        self.count += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Denial { id: self.count, at, generation, event });
    }

    /// The one with this number, if it is still remembered.
    pub fn find(&self, id: u64) -> Option<&Denial> {
        self.last.iter().find(|denial| denial.id == id)
    }

    /// All that are remembered, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Denial> {
        self.last.iter().rev()
    }

    /// How many more events were lost.
    fn more_lost(&mut self, lost: u64) -> u64 {
        lost.saturating_sub(self.lost.replace(lost).unwrap_or(lost))
    }
}

/// What was tried, in a word.
pub fn attempt(attempt: Attempt) -> &'static str {
    match attempt {
        Attempt::Connect => "connect",
        Attempt::Send => "sendmsg",
        Attempt::Bind => "bind",
        Attempt::Listen => "listen",
        Attempt::SetMark => "setsockopt SO_MARK",
        Attempt::Require => "setsockopt RAVELIN_REQUIRE",
        Attempt::PacketOut => "packet out",
        Attempt::PacketIn => "packet in",
        Attempt::Other(_) => "unknown",
    }
}

impl Plane {
    /// Hear what was refused since the last time: into the log, the audit log, and the list of the last ones.
    pub fn hear_denials(&mut self) {
        let Some(monitor) = &self.monitor else { return };
        let events = monitor.get().events();
        let events = match events {
            Ok(events) => events,
            Err(error) => return tracing::debug!(%error, "refusals cannot be read"),
        };
        for event in events {
            let application = self.policy.app_name(event.app);
            tracing::info!(
                pid = event.pid,
                program = event.comm,
                application,
                peer = %event.peer,
                reason = event.reason,
                "refused"
            );
            self.auditor.refusal(&application, &event);
            self.denials.add(event, netio::clock::wall(), self.policy.compiled.spd.generation);
        }
        let counters = self.kernel_counters().unwrap_or_default();
        if let Some((_, lost)) = counters.iter().find(|(word, _)| *word == "events_lost") {
            let more = self.denials.more_lost(*lost);
            if more > 0 {
                let text =
                    "refusals by the kernel half: counted by application and reason, but without particulars";
                tracing::warn!("{more} {text}");
                self.auditor.left_out("refused", more, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(port: u16) -> Event {
        Event {
            pid: 1,
            uid: 0,
            comm: "curl".into(),
            app: wire::AppId(1),
            attempt: Attempt::Connect,
            peer: ([192, 0, 2, 1], port).into(),
            protocol: 6,
            reason: "connect_untrusted",
        }
    }

    #[test]
    fn the_last_are_remembered_by_number() {
        let mut denials = Denials::default();
        for port in 1..=1030 {
            denials.add(event(port), Duration::ZERO, 1);
        }
        assert_eq!(denials.newest().next().map(|denial| denial.id), Some(1030));
        assert_eq!(denials.newest().count(), KEPT);
        assert_eq!(denials.find(6), None);
        assert_eq!(denials.find(7).map(|denial| denial.event.peer.port()), Some(7));
    }

    #[test]
    fn what_was_lost_before_the_daemon_came_is_not_news() {
        let mut denials = Denials::default();
        assert_eq!([5, 5, 8].map(|lost| denials.more_lost(lost)), [0, 0, 3]);
    }
}
