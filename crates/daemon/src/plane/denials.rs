//! What the kernel half tells since the last time: refusals, and files that came to a place that policy names.

use sockmon::{Attempt, Event};

use super::Plane;
use crate::denials::PER_SECOND;
use crate::health::Cause;

impl Plane {
    /// Hear what the kernel half tells since the last time. Refusals go into the log, the audit log, and the list of the last ones;
    /// the result is whether a file came to a place that policy names. The kernel half knows it already, but its number is ours
    /// only while somebody holds it.
    pub fn hear(&mut self) -> bool {
        let events = self.monitor.get().events();
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                tracing::debug!(%error, "refusals cannot be read");
                return false;
            }
        };
        let mut new = false;
        for event in events {
            match event.attempt {
                Attempt::Execute(identity) if event.reason == "executables_new" => {
                    new = true;
                    tracing::info!(pid = event.pid, program = event.comm, %identity, "a new file of a program that policy names");
                }
                Attempt::Execute(identity) if event.reason == "executables_unverified" => {
                    self.policy.note_unverified_file();
                    if !self.is_told(&event) {
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
                Attempt::Execute(_) if !self.is_told(&event) => {}
                Attempt::Execute(identity) => tracing::error!(
                    pid = event.pid,
                    program = event.comm,
                    %identity,
                    "no room for one more executable in the kernel half: its processes are refused every peer; make the policy smaller"
                ),
                _ => self.note_refusal(event),
            }
        }
        let counters = self.kernel_counters().unwrap_or_default();
        let count =
            |word: &str| counters.iter().find(|(known, _)| *known == word).map_or(0, |(_, count)| *count);
        let executables = [count("executables_new"), count("executables_unverified")];
        let [more_new, more_unverified] = self.denials.more_executables(executables);
        new |= more_new;
        if more_unverified {
            self.policy.note_unverified_file();
        }
        if new {
            self.policy.note_new_file();
        }
        self.note_lost(&counters);
        new
    }

    /// Whether the log and the audit log hear of it, or only how many of its kind were left out.
    fn is_told(&mut self, event: &Event) -> bool {
        let per_second = self.config.audit.as_ref().map_or(PER_SECOND, |audit| audit.per_second);
        self.denials.measure.admits(event, netio::clock::wall().as_secs(), per_second)
    }

    fn note_refusal(&mut self, event: Event) {
        let cause = match event.reason {
            "egress_group" => Some(Cause::NoGroup),
            "egress_unguarded" => Some(Cause::NoUplink),
            _ => None,
        };
        if let Some(cause) = cause.filter(|_| !event.observed) {
            self.health.refused(event.app, event.peer, event.protocol, cause, netio::clock::monotonic());
        }
        if !self.is_told(&event) {
            return;
        }
        let application = self.policy.app_name(event.app);
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
        self.denials.add(event, netio::clock::wall(), self.policy.generation());
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
