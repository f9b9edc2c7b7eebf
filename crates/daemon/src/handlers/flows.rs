//! `/v1/flows`: the flows of programs that have a policy.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use api::{Flows, LiveFlow};
use axum::extract::State;
use sockmon::SocketInfo;
use wire::AppId;

use super::explain::flow_of;
use crate::plane::{Plane, Shared};
use control::answer::{Answer, Doc};

/// The most flows of one answer.
const MAX_FLOWS: usize = 10_000;

pub(super) async fn list(State(plane): State<Shared>) -> Answer<Flows> {
    let plane = plane.get().await?;
    let sockets = plane.sockets()?;
    // A socket that several processes hold is one flow.
    let all: BTreeSet<LiveFlow> = sockets.iter().filter_map(|socket| live(&plane, socket)).collect();
    let left_out = all.len().saturating_sub(MAX_FLOWS);
    Ok(Doc(Flows { flows: all.into_iter().take(MAX_FLOWS).collect(), left_out }))
}

fn live(plane: &Plane, socket: &SocketInfo) -> Option<LiveFlow> {
    if socket.app == AppId::NONE {
        return None;
    }
    let flow = flow_of(socket)?;
    Some(LiveFlow {
        application: plane.policy().app_name(socket.app),
        protocol: flow.protocol,
        local: SocketAddr::new(flow.local, flow.local_port),
        remote: SocketAddr::new(flow.remote, flow.remote_port),
    })
}
