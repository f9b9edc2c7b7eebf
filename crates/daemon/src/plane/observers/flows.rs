//! Flows of the kernel half: what has ended is taken out of its table, what goes on for long is written, and each is told with names.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use api::{FlowEnd, FlowInitiator, FlowRecord, FlowTable};
use sockmon::{CountedFlow, FlowId};
use wire::{AppId, Time};

use super::Observers;
use crate::flows::end::{Pressure, end_of};
use crate::flows::sums;
use crate::json_log::utc;
use crate::monitor::Monitor;
use crate::plane::PolicyInForce;
use documents::api_error::ApiError;

/// Flows that are taken out at a time, so that a flood of short ones stops nobody else for long.
const MOST_ENDS: usize = 8192;

impl Observers {
    /// Take out of the table what has ended, and write what goes on for long.
    ///
    /// # Errors
    /// If the table cannot be read or written.
    pub(in crate::plane) fn follow_flows(
        &mut self,
        monitor: &Monitor,
        policy: &PolicyInForce,
    ) -> Result<(), ApiError> {
        let Some(config) = self.flows.config.clone() else { return Ok(()) };
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
                    self.end_flow(&flow.id, end, monitor, policy)?;
                }
                _ => {
                    let before = self.flows.told.get(&flow.id).copied().unwrap_or(flow.first);
                    let due = now.since(before) >= config.interval;
                    if due {
                        let record = self.flow_record(&flow, None, policy);
                        self.flows.write(&record);
                    }
                    told.insert(flow.id, if due { now } else { before });
                }
            }
        }
        self.flows.told = told;
        Ok(())
    }

    fn end_flow(
        &mut self,
        id: &FlowId,
        end: FlowEnd,
        monitor: &Monitor,
        policy: &PolicyInForce,
    ) -> Result<(), ApiError> {
        let taken = monitor.get().take_flow(id)?;
        if let Some(flow) = taken {
            let record = self.flow_record(&flow, Some(end), policy);
            self.flows.remember(record);
        }
        Ok(())
    }

    /// A flow for people and logs.
    pub(in crate::plane) fn flow_record(
        &self,
        counted: &CountedFlow,
        end: Option<FlowEnd>,
        policy: &PolicyInForce,
    ) -> FlowRecord {
        let (app, flow) = (counted.id.app(), counted.id.flow());
        let (outbound, inbound) = sums(&counted.traffic);
        let decision = policy.decision(app, &flow);
        let (now, wall) = (netio::clock::monotonic(), netio::clock::wall());
        let at = |time: Time| utc(wall.saturating_sub(Duration::from_nanos(now.0.saturating_sub(time.0))));
        FlowRecord {
            number: 0,
            application: if app == AppId::NONE { String::new() } else { policy.app_name(app) },
            program: counted.sender.as_ref().map(|sender| self.flows.program(sender)),
            pid: counted.sender.as_ref().map(|sender| sender.pid),
            protocol: flow.protocol,
            local: SocketAddr::new(flow.local, flow.local_port),
            remote: SocketAddr::new(flow.remote, flow.remote_port),
            begun: counted.begun.map(|begun| match begun {
                sockmon::FlowInitiator::Here => FlowInitiator::Here,
                sockmon::FlowInitiator::There => FlowInitiator::There,
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
    pub(in crate::plane) fn flow_table(&self, monitor: &Monitor) -> Option<FlowTable> {
        let config = self.flows.config.as_ref()?;
        let counts = self.flows.log_counts();
        let counters = monitor.get().counters().unwrap_or_default();
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
