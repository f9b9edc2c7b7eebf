//! `/v1/explain?drop=ID|last|all`: what was refused, and what the policy says of it now.

use std::net::IpAddr;
use std::time::Duration;

use api::{DropExplained, Explanation, FlowInfo};
use wire::{AppId, Flow};

use super::subject::application;
use crate::denials::Denial;
use crate::health::Ended;
use crate::json_log::utc;
use crate::kernel_counters;
use crate::plane::Plane;
use documents::api_error::{ApiError, Blame};
use documents::associations::protocol_word;

pub(super) async fn of_drop(plane: &mut Plane, which: &str) -> Result<Explanation, ApiError> {
    // What is new of files waits for the next tick: `unfinished` says so.
    plane.hear();
    plane.hear_drops().await?;
    let number = match which {
        "all" | "last" => None,
        id => Some(id.parse::<u64>().map_err(|_| {
            ApiError::new(Blame::BadRequest, "no such drop").remedy("ask for a number, `last` or `all`")
        })?),
    };
    // Both halves in one list, by when it happened.
    let refused = plane.observers().refusals().map(|one| (one.at, one.id, Half::Kernel(one)));
    let ended = plane.observers().drops().map(|one| (one.at, one.id, Half::Engine(one)));
    let mut found: Vec<(Duration, u64, Half<'_>)> = refused.chain(ended).collect();
    found.retain(|(_, id, _)| number.is_none_or(|number| number == *id));
    found.sort_by_key(|(at, id, _)| std::cmp::Reverse((*at, *id)));
    if which == "last" {
        found.truncate(1);
    }
    if found.is_empty() && which != "all" {
        let text =
            "this drop is not, or no longer, known: the daemon remembers the last 1024 since its start";
        return Err(ApiError::new(Blame::NotFound, text)
            .remedy("`ravelin explain --drop all` lists them; the audit log keeps them longer"));
    }
    Ok(Explanation {
        drops: found
            .into_iter()
            .map(|(_, _, half)| match half {
                Half::Kernel(denial) => explained(plane, denial),
                Half::Engine(ended) => of_the_engine(plane, ended),
            })
            .collect(),
        ..Explanation::default()
    })
}

/// Where a packet or call came to its end.
enum Half<'p> {
    Kernel(&'p Denial),
    Engine(&'p Ended),
}

/// The end of a packet in the engine, by the table of reasons.
fn of_the_engine(plane: &Plane, ended: &Ended) -> DropExplained {
    let dropped = &ended.dropped;
    let outbound = ended.direction == sadb::Direction::Outbound;
    let side = |addr, port| std::net::SocketAddr::new(addr, port).to_string();
    let (local, remote) = match (&dropped.flow, dropped.outer) {
        (Some(flow), _) => {
            (Some(side(flow.local, flow.local_port)), Some(side(flow.remote, flow.remote_port)))
        }
        (None, Some((src, dst))) if outbound => (Some(src.to_string()), Some(dst.to_string())),
        (None, Some((src, dst))) => (Some(dst.to_string()), Some(src.to_string())),
        (None, None) => (None, None),
    };
    let policy = dropped.flow.as_ref().filter(|_| dropped.app != AppId::NONE);
    DropExplained {
        id: ended.id,
        time: utc(ended.at),
        application: application(plane, dropped.app),
        pid: None,
        uid: None,
        comm: None,
        attempt: if outbound { "packet out" } else { "packet in" }.to_owned(),
        flow: FlowInfo {
            protocol: dropped
                .flow
                .as_ref()
                .map_or_else(|| "any".to_owned(), |flow| protocol_word(flow.protocol)),
            local,
            remote,
        },
        reason: dropped.reason.name().to_owned(),
        text: Some(dropped.reason.text().to_owned()),
        observed: false,
        decision: policy.map(|flow| plane.policy().decision(dropped.app, flow)),
    }
}

fn explained(plane: &Plane, denial: &Denial) -> DropExplained {
    let event = &denial.event;
    let remote = event.peer.ip().to_canonical();
    let any = if remote.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let flow = Flow {
        opaque: false,
        local: any,
        remote,
        local_port: 0,
        remote_port: event.peer.port(),
        protocol: event.protocol,
    };
    let mut decision = (event.app != AppId::NONE).then(|| plane.policy().decision(event.app, &flow));
    let now = plane.policy().generation();
    if let Some(decision) = decision.as_mut().filter(|_| now != denial.generation) {
        let note = format!(
            "said by generation {now} of the policy; generation {} was in force then",
            denial.generation
        );
        decision.notes.push(note);
    }
    let of_process = |number: u32| (event.pid != 0).then_some(number);
    DropExplained {
        id: denial.id,
        time: utc(denial.at),
        application: application(plane, event.app),
        pid: of_process(event.pid),
        uid: of_process(event.uid),
        comm: (!event.comm.is_empty()).then(|| event.comm.clone()),
        attempt: event.attempt.word().to_owned(),
        flow: FlowInfo {
            protocol: protocol_word(event.protocol),
            local: None,
            remote: Some(std::net::SocketAddr::new(remote, event.peer.port()).to_string()),
        },
        reason: event.reason.to_owned(),
        text: kernel_counters::text(event.reason).map(ToOwned::to_owned),
        observed: event.observed,
        decision,
    }
}
