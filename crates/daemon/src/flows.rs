//! The kernel half's table of flows, kept tidy (docs/design/0018): what has ended is taken out of it, remembered for a while and
//! written into the flow log.
//!
//! What enters: the table, once a second. What leaves: [`FlowRecord`]s. A daemon that dies loses nothing but the ends that it had not
//! written yet: the table is the kernel's, and the next daemon goes on with it.

mod end;
mod programs;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use api::{Arrived, Begun, FlowEnd, FlowRecord, FlowTable, Sent};
use serde_json::json;
use sockmon::{Counted, CountedFlow, FlowId};
use wire::{AppId, Time};

use crate::config::FlowsConfig;
use crate::json_log::{JsonLog, LogOptions, fields, utc};
use crate::plane::Plane;
use crate::refused::Refused;

use end::{Pressure, end_of};
use programs::Programs;

/// Flows that are taken out at a time, so that a flood of short ones stops nobody else for long.
const MOST_ENDS: usize = 8192;
/// Flows that have ended and are remembered.
const KEPT: usize = 4096;

/// What is known of flows beside the table.
#[derive(Debug, Default)]
pub struct FlowBook {
    config: Option<FlowsConfig>,
    log: JsonLog,
    /// When a flow that goes on was last written. As many as the table has flows.
    told: HashMap<FlowId, Time>,
    ended: VecDeque<FlowRecord>,
    last: u64,
    programs: Programs,
    /// How many were in the table when it was looked at.
    pub(crate) flows: usize,
}

impl FlowBook {
    /// Begin to write, if that is wanted.
    ///
    /// # Errors
    /// If the log cannot be opened.
    pub fn start(config: Option<&FlowsConfig>) -> io::Result<FlowBook> {
        let Some(config) = config else { return Ok(FlowBook::default()) };
        let log = match &config.log {
            Some(file) => {
                let options = LogOptions { file: file.clone(), size: config.size, files: config.files };
                JsonLog::start("rvl-flows", "flow log", options)?
            }
            None => JsonLog::default(),
        };
        Ok(FlowBook { config: Some(config.clone()), log, ..FlowBook::default() })
    }

    /// Whether flows are counted.
    pub fn is_on(&self) -> bool {
        self.config.is_some()
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

    fn write(&self, record: &FlowRecord) {
        let Ok(value) = serde_json::to_value(record) else { return };
        let mut line = fields(json!({ "event": "flow" }));
        line.extend(fields(value));
        self.log.tell(netio::clock::wall(), line);
    }

    fn remember(&mut self, mut record: FlowRecord) {
        self.last += 1;
        record.number = self.last;
        self.write(&record);
        if self.ended.len() == KEPT {
            self.ended.pop_front();
        }
        self.ended.push_back(record);
    }
}

/// Whose flows a configuration wants counted.
pub fn counted(config: Option<&FlowsConfig>) -> Counted {
    match config {
        None => Counted::Nothing,
        Some(FlowsConfig { unpoliced: false, .. }) => Counted::Applications,
        Some(FlowsConfig { unpoliced: true, .. }) => Counted::Everything,
    }
}

/// What the kernel half counted of an application or a flow.
pub fn sums(traffic: &sockmon::AppTraffic) -> (Sent, Arrived) {
    let amount = |amount: sockmon::Amount| api::Amount { packets: amount.packets, bytes: amount.octets };
    let sent = Sent {
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

impl Plane {
    /// Take out of the table what has ended, and write what goes on for long.
    ///
    /// # Errors
    /// If the table cannot be read or written.
    pub fn follow_flows(&mut self) -> Result<(), Refused> {
        let (Some(config), Some(monitor)) = (self.flows.config.clone(), &self.monitor) else { return Ok(()) };
        let (all, room) = {
            let monitor = monitor.get();
            let flows = monitor.flows()?;
            (flows, monitor.flow_capacity()?)
        };
        let now = netio::clock::monotonic();
        let pressure = Pressure::of(all.len(), room);
        self.flows.flows = all.len();
        let mut ends = 0;
        let mut told = HashMap::with_capacity(all.len());
        for flow in all {
            self.flows.programs.meet(flow.sender.as_ref());
            match end_of(&flow, now, config.idle, pressure) {
                Some(end) if ends < MOST_ENDS => {
                    ends += 1;
                    self.end_flow(&flow.id, end)?;
                }
                _ => {
                    let before = self.flows.told.get(&flow.id).copied().unwrap_or(flow.first);
                    let due = now.since(before) >= config.interval;
                    if due {
                        let record = self.flow_record(&flow, None);
                        self.flows.write(&record);
                    }
                    told.insert(flow.id, if due { now } else { before });
                }
            }
        }
        self.flows.told = told;
        Ok(())
    }

    fn end_flow(&mut self, id: &FlowId, end: FlowEnd) -> Result<(), Refused> {
        let Some(monitor) = &self.monitor else { return Ok(()) };
        let taken = monitor.get().take_flow(id)?;
        if let Some(flow) = taken {
            let record = self.flow_record(&flow, Some(end));
            self.flows.remember(record);
        }
        Ok(())
    }

    /// A flow for people and logs.
    pub fn flow_record(&self, counted: &CountedFlow, end: Option<FlowEnd>) -> FlowRecord {
        let (app, flow) = (counted.id.app(), counted.id.flow());
        let (outbound, inbound) = sums(&counted.traffic);
        let decision = self.policy.decision(app, &flow);
        let (now, wall) = (netio::clock::monotonic(), netio::clock::wall());
        let at = |time: Time| utc(wall.saturating_sub(Duration::from_nanos(now.0.saturating_sub(time.0))));
        FlowRecord {
            number: 0,
            application: if app == AppId::NONE { String::new() } else { self.policy.app_name(app) },
            program: counted.sender.as_ref().map(|sender| self.flows.program(sender)),
            pid: counted.sender.as_ref().map(|sender| sender.pid),
            protocol: flow.protocol,
            local: SocketAddr::new(flow.local, flow.local_port),
            remote: SocketAddr::new(flow.remote, flow.remote_port),
            begun: counted.begun.map(|begun| match begun {
                sockmon::Begun::Here => Begun::Here,
                sockmon::Begun::There => Begun::There,
            }),
            first: at(counted.first),
            last: at(counted.last),
            outbound,
            inbound,
            // No block speaks for an executable that is not verified.
            verdict: if app == sockmon::REFUSED { api::Verdict::Discard } else { decision.verdict },
            line: decision.line,
            observed: decision.observed,
            end,
        }
    }

    /// How full the table is; `None`: flows are not counted.
    pub fn flow_table(&self) -> Option<FlowTable> {
        let config = self.flows.config.as_ref()?;
        let monitor = self.monitor.as_ref()?;
        let counts = self.flows.log_counts();
        let counters = self.kernel_counters().unwrap_or_default();
        Some(FlowTable {
            counted: if config.unpoliced { "everything" } else { "applications" }.to_owned(),
            flows: self.flows.flows,
            room: monitor.get().flow_capacity().unwrap_or(0),
            lost: counters.iter().find(|(word, _)| *word == "flows_lost").map_or(0, |(_, count)| *count),
            written: counts.written,
            unwritten: counts.lost.saturating_add(counts.failed),
        })
    }
}
