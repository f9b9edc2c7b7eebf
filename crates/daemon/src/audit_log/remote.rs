//! The collector that is told what the audit log is told (`[audit.remote]`).

use std::time::Duration;

use api::{Problem, RemoteAuditState};
use config::RemoteAudit;
use control::privileges;
use remote_log::{Handle, RemoteLog, RemoteLogError, Settings, Severity, State};
use serde_json::{Map, Value};

use crate::json_log;

/// So many heartbeats without a confirmation are a problem.
const MISSED: u32 = 3;

/// An end for what is to be told to the collector.
#[derive(Clone, Debug)]
pub struct Remote {
    handle: Handle,
    config: RemoteAudit,
}

impl Remote {
    /// Look at certificates and spool, and begin to take lines. The thread is there before the filter of system calls,
    /// and connects after [`Remote::connect`].
    pub(super) fn start(config: &RemoteAudit, instance: &str) -> Result<Remote, RemoteLogError> {
        let RemoteAudit { ca, certificate, key, spool, .. } = config.clone();
        let settings = Settings {
            size: config.size,
            heartbeat: config.heartbeat,
            app_name: if instance == config::INSTANCE {
                "ravelin".to_owned()
            } else {
                format!("ravelin-{instance}")
            },
            at_start: privileges::give_up_all,
            ..Settings::new(config.server, &config.name, [ca, certificate, key, spool])
        };
        Ok(Remote { handle: RemoteLog::start(settings)?, config: config.clone() })
    }

    /// The daemon is in its own control group, whose traffic the kernel half lets pass.
    pub(super) fn connect(&self) {
        self.handle.connect();
    }

    /// One line, of a time since 1970. Nobody waits.
    pub(super) fn tell(&self, at: Duration, fields: Map<String, Value>) {
        let event = fields.get("event").and_then(Value::as_str).unwrap_or("-").to_owned();
        let severity = if fields.contains_key("detail") { Severity::Notice } else { Severity::Warning };
        self.handle.log(severity, &event, &json_log::text(at, fields));
    }

    /// What is known of the collector, for `ravelin status`.
    pub fn state(&self) -> RemoteAuditState {
        let state = self.handle.state();
        RemoteAuditState {
            server: self.config.server,
            connected: state.connected,
            confirmed: state.confirmed.map(json_log::utc),
            silent_seconds: state.silent_for.as_secs(),
            spooled: state.spooled,
            lost: state.lost,
            sequence: state.sequence,
            hash: state.hash,
            error: state.error,
        }
    }

    /// A collector that has confirmed nothing for several heartbeats.
    pub fn problem(&self) -> Option<Problem> {
        silence(&self.config, &self.handle.state())
    }

    /// Write down what was told, and try for two seconds to have it read.
    pub(super) fn stop(&self) {
        self.handle.stop();
    }
}

fn silence(config: &RemoteAudit, state: &State) -> Option<Problem> {
    if state.silent_for <= config.heartbeat * MISSED {
        return None;
    }
    let (server, spool, seconds) = (config.server, config.spool.display(), state.silent_for.as_secs());
    let why = state.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let message = format!("the collector of audit lines {server} has confirmed nothing for {seconds} s{why}");
    let remedy = format!(
        "look at the collector and at the way to it; {} octets are kept for it in {spool}, {} lines were left out",
        state.spooled, state.lost
    );
    Some(Problem { code: "audit_remote".to_owned(), message, remedy: Some(remedy), ..Problem::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_heartbeats_without_a_confirmation_are_a_problem() {
        let config = RemoteAudit {
            server: "192.0.2.7:6514".parse().unwrap(),
            name: "collector.example".to_owned(),
            ca: "ca".into(),
            certificate: "certificate".into(),
            key: "key".into(),
            spool: "/spool".into(),
            size: 1 << 20,
            heartbeat: Duration::from_secs(60),
        };
        let state = State {
            connected: true,
            confirmed: None,
            silent_for: Duration::from_secs(180),
            spooled: 77,
            lost: 5,
            sequence: 9,
            hash: String::new(),
            error: Some("it takes nothing".to_owned()),
        };
        assert!(silence(&config, &state).is_none());
        let problem = silence(&config, &State { silent_for: Duration::from_secs(181), ..state }).unwrap();
        assert_eq!(problem.code, "audit_remote");
        assert!(
            problem.message.ends_with("confirmed nothing for 181 s: it takes nothing"),
            "{}",
            problem.message
        );
        let remedy = problem.remedy.unwrap();
        assert!(remedy.contains("77 octets are kept for it in /spool, 5 lines"), "{remedy}");
    }
}
