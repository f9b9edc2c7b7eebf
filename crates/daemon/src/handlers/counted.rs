//! `/v1/flows/counted`: flows as the kernel half counts them, and those that ended lately.

use api::{CountedFlows, CountedQuery, FlowRecord};
use axum::extract::State;
use sockmon::CountedFlow;
use std::net::IpAddr;
use wire::{AppId, Prefix};

use crate::plane::{Plane, Shared};
use control::answer::{Answer, Doc};
use control::extract::Query;
use documents::api_error::{ApiError, Blame};

/// The most live flows of one answer.
const MAX_FLOWS: usize = 10_000;

pub(super) async fn list(
    State(plane): State<Shared>,
    Query(query): Query<CountedQuery>,
) -> Answer<CountedFlows> {
    let plane = plane.get().await?;
    let Some(mut table) = plane.flow_table() else {
        let refused = ApiError::new(Blame::Conflict, "flows are not counted");
        let remedy = "put [flows] into the configuration and restart the daemon (`ravelin run --take-over`)";
        return Err(refused.remedy(remedy).into());
    };
    let wanted = FlowSelection::of(&plane, &query)?;
    let all = plane.counted_flows()?;
    table.flows = all.len();
    let mut chosen: Vec<_> = all.into_iter().filter(|flow| wanted.has_counted(&plane, flow)).collect();
    chosen.sort_by_cached_key(|flow| std::cmp::Reverse(flow.traffic.octets()));
    let left_out = chosen.len().saturating_sub(MAX_FLOWS);
    chosen.truncate(MAX_FLOWS);
    // What policy says of it is asked for those alone that are shown.
    let live: Vec<FlowRecord> = chosen.iter().map(|flow| plane.flow_record(flow)).collect();
    let (ended, last) = plane.observers().flows_ended_after(query.after.unwrap_or(u64::MAX));
    let ended = ended.filter(|record| wanted.has(record)).cloned().collect();
    Ok(Doc(CountedFlows { table, live, left_out, ended, last }))
}

/// Read a prefix from `ADDRESS` or `ADDRESS/LENGTH`.
fn prefix(text: &str) -> Option<Prefix> {
    match text.split_once('/') {
        Some((address, length)) => Prefix::new(address.parse().ok()?, length.parse().ok()?),
        None => Some(Prefix::host(text.parse().ok()?)),
    }
}

/// Which flows were asked for.
struct FlowSelection {
    /// The name of the application in the policy, if the policy knows what was asked for.
    application: Option<String>,
    /// The name or path that was asked for. It is compared with programs where the policy does not know it.
    program: Option<String>,
    peers: Option<Prefix>,
}

impl FlowSelection {
    fn of(plane: &Plane, query: &CountedQuery) -> Result<FlowSelection, ApiError> {
        let peers = query.peer.as_deref().map(|text| {
            prefix(text).ok_or_else(|| {
                let text: String = text.chars().take(64).collect();
                ApiError::new(Blame::BadRequest, format!("{text:?} is no address and no prefix"))
                    .remedy("write 192.0.2.1 or 2001:db8::/32")
            })
        });
        let app = query.app.as_deref().and_then(|name| plane.policy().app(name));
        Ok(FlowSelection {
            application: app.map(|app| plane.policy().app_name(app)),
            program: query.app.clone(),
            peers: peers.transpose()?,
        })
    }

    fn has_counted(&self, plane: &Plane, flow: &CountedFlow) -> bool {
        let name = || match flow.id.app() {
            AppId::NONE => String::new(),
            app => plane.policy().app_name(app),
        };
        let program = || flow.sender.as_ref().map(|sender| plane.observers().program(sender));
        self.of_peer(flow.id.flow().remote) && self.of_program(name, program)
    }

    fn has(&self, record: &FlowRecord) -> bool {
        self.of_peer(record.remote.ip())
            && self.of_program(|| record.application.clone(), || record.program.clone())
    }

    fn of_peer(&self, peer: IpAddr) -> bool {
        self.peers.is_none_or(|peers| peers.contains(peer))
    }

    fn of_program(&self, application: impl Fn() -> String, program: impl Fn() -> Option<String>) -> bool {
        match (&self.application, &self.program) {
            (Some(wanted), _) => application() == *wanted,
            (None, Some(wanted)) => {
                program().is_some_and(|path| path == *wanted || path.rsplit('/').next() == Some(wanted))
            }
            (None, None) => true,
        }
    }
}
