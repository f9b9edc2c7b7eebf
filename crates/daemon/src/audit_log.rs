//! The audit log as a file: one JSON object a line, mode 0600 (`[audit]` in the configuration).
//!
//! What enters: ends of packets from the data threads, and what somebody had the daemon do. What leaves: lines of a
//! [`JsonLog`], for which nobody waits, and the same to a collector, where there is one. No key is ever among it.

mod remote;

use std::io;
use std::time::Duration;

use engine::{Audited, Dropped};
use netio::clock;
use remote_log::RemoteLogError;
use serde_json::{Map, Value, json};
use wire::Time;

use crate::json_log::{self, JsonLog, LogCounts, LogOptions};
use config::{AuditConfig, Config};

pub use remote::Remote;

/// An end for whoever has something to tell. Without a file it takes nothing.
#[derive(Clone, Debug, Default)]
pub struct Auditor {
    log: JsonLog,
    remote: Option<Remote>,
}

impl Auditor {
    /// Open the file and begin to write; without a configuration there is none.
    ///
    /// # Errors
    /// If the file cannot be opened, or there is no thread to be had.
    pub fn start(config: Option<&AuditConfig>) -> io::Result<Auditor> {
        let Some(config) = config else { return Ok(Auditor::default()) };
        let options = LogOptions { file: config.file.clone(), size: config.size, files: 1 };
        Ok(Auditor { log: JsonLog::start("rvl-audit", "audit log", options)?, remote: None })
    }

    /// The same, who tells the collector of `[audit.remote]` too, if there is one.
    ///
    /// # Errors
    /// [`RemoteLogError`], if a certificate, a key or the spool cannot be used.
    pub fn with_remote(self, config: &Config) -> Result<Auditor, RemoteLogError> {
        let remote = config.audit.as_ref().and_then(|audit| audit.remote.as_ref());
        let remote = remote.map(|remote| Remote::start(remote, &config.instance)).transpose()?;
        Ok(Auditor { remote, ..self })
    }

    /// From here on the collector is connected to.
    pub fn connect(&self) {
        if let Some(remote) = &self.remote {
            remote.connect();
        }
    }

    /// The collector, if there is one.
    pub fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }

    /// The daemon ends: what was told goes to the collector, or stays in the spool.
    pub fn stop(&self) {
        if let Some(remote) = &self.remote {
            remote.stop();
        }
    }

    fn tell(&self, at: Duration, fields: Map<String, Value>) {
        if let Some(remote) = &self.remote {
            remote.tell(at, fields.clone());
        }
        self.log.tell(at, fields);
    }

    /// Whether there is an audit log to write to.
    pub fn is_on(&self) -> bool {
        self.log.is_on()
    }

    /// The counts of the audit log's entries.
    pub fn counts(&self) -> LogCounts {
        self.log.counts()
    }

    /// Packets ended on their way `out` or `in`; `now` is the data threads' clock.
    pub fn packet(&self, way: &'static str, now: Time, audited: &Audited) {
        let (at, fields) = match audited {
            Audited::Packet(dropped) => (dropped.at, of_packet(way, dropped)),
            Audited::LeftOut(reason, count) => {
                let text = "more of these in a second than are told one by one";
                (
                    now,
                    json_log::fields(
                        json!({ "event": "left_out", "of": reason.name(), "direction": way, "count": count, "text": text }),
                    ),
                )
            }
        };
        let age = Duration::from_nanos(now.0.saturating_sub(at.0));
        self.tell(clock::wall().saturating_sub(age), fields);
    }

    /// Somebody had the daemon do something.
    pub fn action(&self, action: &str, uid: u32, pid: Option<i32>, detail: &str) {
        let mut fields = json_log::fields(json!({ "event": action, "uid": uid, "detail": detail }));
        if let Some(pid) = pid {
            fields.insert("pid".to_owned(), pid.into());
        }
        self.tell(clock::wall(), fields);
    }

    /// The kernel half refused a call or a packet of an application.
    pub fn refusal(&self, application: &str, event: &sockmon::Event) {
        let way = if event.attempt == sockmon::Attempt::PacketIn { "in" } else { "out" };
        let mut fields = json_log::fields(json!({
            "event": event.reason, "direction": way, "application": application, "protocol": event.protocol,
            "attempt": event.attempt.word(), "peer": event.peer.ip(), "peer_port": event.peer.port(),
        }));
        if let Some(text) = crate::kernel_counters::text(event.reason) {
            fields.insert("text".to_owned(), text.into());
        }
        if event.observed {
            fields.insert("observed".to_owned(), true.into());
        }
        if event.pid != 0 {
            fields.extend(json_log::fields(
                json!({ "pid": event.pid, "uid": event.uid, "program": event.comm }),
            ));
        }
        self.tell(clock::wall(), fields);
    }

    /// A cipher of one's own failed, works again, or is not used any more.
    pub fn cipher(&self, changed: &api::CipherChanged) {
        let api::CipherChanged { cipher, change, text, left_out } = changed;
        let fields = json!({ "event": change.name(), "cipher": cipher, "text": text, "left_out": left_out });
        self.tell(clock::wall(), json_log::fields(fields));
    }

    /// Something about an executable file whose digest policy asks for.
    pub fn executable(&self, event: &str, path: &str, text: &str) {
        let fields = json_log::fields(json!({ "event": event, "path": path, "text": text }));
        self.tell(clock::wall(), fields);
    }

    /// A process executed a file that policy does not take for what it names.
    pub fn executed(&self, event: &sockmon::Event) {
        let mut fields = json_log::fields(json!({
            "event": event.reason, "pid": event.pid, "uid": event.uid, "program": event.comm,
        }));
        if let Some(text) = crate::kernel_counters::text(event.reason) {
            fields.insert("text".to_owned(), text.into());
        }
        self.tell(clock::wall(), fields);
    }

    /// Write that so many more of a kind could not be told one by one.
    pub fn left_out(&self, of: &str, count: u64, text: &str) {
        let fields = json_log::fields(json!({ "event": "left_out", "of": of, "count": count, "text": text }));
        self.tell(clock::wall(), fields);
    }
}

/// What RFC 4303 section 4 and RFC 4301 section 5 want said, as far as it is known.
fn of_packet(way: &'static str, dropped: &Dropped) -> Map<String, Value> {
    let mut out = json_log::fields(json!({
        "event": dropped.reason.name(), "direction": way, "text": dropped.reason.text(), "octets": dropped.len,
    }));
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    if dropped.spi != 0 {
        put("spi", format!("{:#010x}", dropped.spi).into());
        put("sequence", dropped.sequence.into());
    }
    if let Some(flow) = &dropped.flow {
        let (src, dst, ports) = match way {
            "out" => (flow.local, flow.remote, (flow.local_port, flow.remote_port)),
            _ => (flow.remote, flow.local, (flow.remote_port, flow.local_port)),
        };
        put(
            "inner",
            json!({
                "src": src, "dst": dst, "protocol": flow.protocol, "src_port": ports.0, "dst_port": ports.1,
            }),
        );
        if dropped.outer.is_none() {
            put("src", json!(src));
            put("dst", json!(dst));
        }
    }
    if let Some((src, dst)) = dropped.outer {
        put("src", json!(src));
        put("dst", json!(dst));
    }
    if dropped.flow_label != 0 {
        put("flow_label", format!("{:#07x}", dropped.flow_label).into());
    }
    out
}

#[cfg(test)]
mod tests;
