//! The kernel half's table of flows, kept tidy (docs/design/0018): what has ended is taken out of it, remembered for a while and
//! written into the flow log.
//!
//! What enters: the table, once a second. What leaves: [`FlowRecord`]s. A daemon that dies loses nothing but the ends that it had not
//! written yet: the table is the kernel's, and the next daemon goes on with it.

pub(crate) mod end;
mod programs;

use std::collections::{HashMap, VecDeque};
use std::io;

use api::{Arrived, FlowRecord, SentTraffic};
use serde_json::json;
use sockmon::{FlowCounting, FlowId};
use wire::Time;

use crate::json_log::{JsonLog, LogOptions, fields};
use config::FlowsConfig;

use programs::Programs;

/// Flows that have ended and are remembered.
const KEPT: usize = 4096;

/// What is known of flows beside the table.
#[derive(Debug, Default)]
pub struct FlowLog {
    pub(crate) config: Option<FlowsConfig>,
    log: JsonLog,
    /// When a flow that goes on was last written. As many as the table has flows.
    pub(crate) told: HashMap<FlowId, Time>,
    ended: VecDeque<FlowRecord>,
    last: u64,
    pub(crate) programs: Programs,
    /// How many were in the table when it was looked at.
    pub(crate) flows: usize,
}

impl FlowLog {
    /// Begin to write, if that is wanted.
    ///
    /// # Errors
    /// If the log cannot be opened.
    pub fn start(config: Option<&FlowsConfig>) -> io::Result<FlowLog> {
        let Some(config) = config else { return Ok(FlowLog::default()) };
        let log = match &config.log {
            Some(file) => {
                let options = LogOptions { file: file.clone(), size: config.size, files: config.files };
                JsonLog::start("rvl-flows", "flow log", options)?
            }
            None => JsonLog::default(),
        };
        Ok(FlowLog { config: Some(config.clone()), log, ..FlowLog::default() })
    }

    /// Flows that have ended since the one with this number, as far as they are remembered; and the number of the last.
    pub fn ended_after(&self, number: u64) -> (impl Iterator<Item = &FlowRecord>, u64) {
        (self.ended.iter().filter(move |record| record.number > number), self.last)
    }

    /// What the log counted.
    pub fn log_counts(&self) -> crate::json_log::LogCounts {
        self.log.counts()
    }

    /// What a process executed, by path if that is known.
    pub fn program(&self, sender: &sockmon::Sender) -> String {
        self.programs.name_of(sender)
    }

    pub(crate) fn write(&self, record: &FlowRecord) {
        let Ok(value) = serde_json::to_value(record) else { return };
        let mut line = fields(json!({ "event": "flow" }));
        line.extend(fields(value));
        self.log.tell(netio::clock::wall(), line);
    }

    pub(crate) fn remember(&mut self, mut record: FlowRecord) {
        self.last += 1;
        record.number = self.last;
        self.write(&record);
        if self.ended.len() == KEPT {
            self.ended.pop_front();
        }
        self.ended.push_back(record);
    }
}

/// The flows that a configuration wants counted.
pub fn counted(config: Option<&FlowsConfig>) -> FlowCounting {
    match config {
        None => FlowCounting::Nothing,
        Some(FlowsConfig { unpoliced: false, .. }) => FlowCounting::Applications,
        Some(FlowsConfig { unpoliced: true, .. }) => FlowCounting::Everything,
    }
}

/// What the kernel half counted of an application or a flow.
pub fn sums(traffic: &sockmon::AppTraffic) -> (SentTraffic, Arrived) {
    let amount = |amount: sockmon::Amount| api::Amount { packets: amount.packets, bytes: amount.octets };
    let sent = SentTraffic {
        clear: amount(traffic.out_clear.and(traffic.out_returned)),
        returned: amount(traffic.out_returned),
        authenticated: amount(traffic.out_authenticated),
        encrypted: amount(traffic.out_encrypted),
        refused: amount(traffic.out_refused),
        would_refuse: amount(traffic.would_refuse),
        would_authenticate: amount(traffic.would_authenticate),
        would_encrypt: amount(traffic.would_encrypt),
    };
    let arrived = Arrived {
        clear: amount(traffic.in_clear),
        authenticated: amount(traffic.in_authenticated),
        encrypted: amount(traffic.in_encrypted),
        refused: amount(traffic.in_refused),
        would_refuse: amount(traffic.in_would_refuse),
    };
    (sent, arrived)
}
