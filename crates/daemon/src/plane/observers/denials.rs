//! What the kernel half tells since the last time: refusals, and files that came to a place that policy names.

use sockmon::{Attempt, Event};

use super::Observers;
use crate::denials::PER_SECOND;
use crate::health::Cause;
use crate::monitor::Monitor;
use crate::plane::PolicyInForce;
use config::Config;

/// What the kernel half tells of files that the policy names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// A file came to a place that the policy names.
    pub(crate) new_file: bool,
    /// A file was executed whose digest is not known.
    pub(crate) unverified: bool,
}

impl Observers {
    /// Hear what the kernel half tells since the last time. Refusals go into the log, the audit log, and the list of the last ones; the
    /// result is what is new of files that the policy names. The kernel half knows a new file already, but its number is ours only while
    /// somebody holds it.
    pub(in crate::plane) fn hear(
        &mut self,
        config: &Config,
        monitor: &Monitor,
        policy: &PolicyInForce,
    ) -> News {
        let per_second = config.audit.as_ref().map_or(PER_SECOND, |audit| audit.per_second);
        let mut news = News::default();
        let events = monitor.get().events();
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                tracing::debug!(%error, "refusals cannot be read");
                return news;
            }
        };
        for event in events {
            match event.attempt {
                Attempt::Execute(identity) if event.reason == "executables_new" => {
                    news.new_file = true;
                    tracing::info!(pid = event.pid, program = event.comm, %identity, "a new file of a program that policy names");
                }
                Attempt::Execute(identity) if event.reason == "executables_unverified" => {
                    news.unverified = true;
                    if !self.is_told(&event, per_second) {
                        continue;
                    }
                    tracing::warn!(
                        pid = event.pid,
                        program = event.comm,
                        %identity,
                        "a file was executed that is not known to have the digest that policy asks for: its process is refused every peer"
                    );
                    self.auditor.executed(&event);
                }
                Attempt::Execute(_) if !self.is_told(&event, per_second) => {}
                Attempt::Execute(identity) => tracing::error!(
                    pid = event.pid,
                    program = event.comm,
                    %identity,
                    "no room for one more executable in the kernel half: its processes are refused every peer; make the policy smaller"
                ),
                _ => self.note_refusal(event, per_second, policy),
            }
        }
        let counters = monitor.get().counters().unwrap_or_default();
        let count =
            |word: &str| counters.iter().find(|(known, _)| *known == word).map_or(0, |(_, count)| *count);
        let executables = [count("executables_new"), count("executables_unverified")];
        let [more_new, more_unverified] = self.denials.more_executables(executables);
        news.new_file |= more_new;
        news.unverified |= more_unverified;
        self.note_lost(&counters);
        news
    }

    /// Whether the log and the audit log hear of it, or only how many of its kind were left out.
    fn is_told(&mut self, event: &Event, per_second: u32) -> bool {
        self.denials.measure.admits(event, netio::clock::wall().as_secs(), per_second)
    }

    fn note_refusal(&mut self, event: Event, per_second: u32, policy: &PolicyInForce) {
        let cause = match event.reason {
            "egress_group" => Some(Cause::NoGroup),
            "egress_unguarded" => Some(Cause::NoUplink),
            _ => None,
        };
        if let Some(cause) = cause.filter(|_| !event.observed) {
            self.health.refused(event.app, event.peer, event.protocol, cause, netio::clock::monotonic());
        }
        if !self.is_told(&event, per_second) {
            return;
        }
        let application = policy.app_name(event.app);
        tracing::info!(
            pid = event.pid,
            program = event.comm,
            application,
            peer = %event.peer,
            reason = event.reason,
            "{}",
            if event.observed { "would be refused (observed)" } else { "refused" }
        );
        self.auditor.refusal(&application, &event);
        self.denials.add(event, netio::clock::wall(), policy.generation());
    }

    fn note_lost(&mut self, counters: &[(&'static str, u64)]) {
        if let Some((_, lost)) = counters.iter().find(|(word, _)| *word == "events_lost") {
            let more = self.denials.more_lost(*lost);
            if more > 0 {
                let text =
                    "refusals by the kernel half: counted by application and reason, but without particulars";
                tracing::warn!("{more} {text}");
                self.auditor.left_out("refused", more, text);
            }
        }
        let count =
            |word: &str| counters.iter().find(|(known, _)| *known == word).map_or(0, |(_, count)| *count);
        let more = self.denials.more_left_out(count("events_left_out"));
        let own = std::mem::take(&mut self.denials.measure.left_out);
        for (of, more) in own.into_iter().chain((more > 0).then_some(("refused", more))) {
            let text = "more of these in a second than are told one by one";
            tracing::info!(of, more, "refusals left out: {text}");
            self.auditor.left_out(of, more, text);
        }
    }
}
