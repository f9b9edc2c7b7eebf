//! `/v1/explain?drop=ID|last|all`: what was refused, and what the policy says of it now.

use std::net::IpAddr;

use api::{DropExplained, Explanation, FlowInfo};
use wire::{AppId, Flow};

use super::application;
use crate::associations::protocol_word;
use crate::denials::{Denial, attempt};
use crate::json_log::utc;
use crate::kernel_counters;
use crate::plane::Plane;
use crate::refused::{Fault, Refused};

pub(super) fn of_drop(plane: &mut Plane, which: &str) -> Result<Explanation, Refused> {
    // What is new of files waits for the next tick: `unfinished` says so.
    plane.hear();
    let denials = &plane.denials;
    let found: Vec<&Denial> = match which {
        "all" => denials.newest().collect(),
        "last" => denials.newest().take(1).collect(),
        id => {
            let id = id.parse().map_err(|_| {
                Refused::new(Fault::BadRequest, "no such drop").remedy("ask for a number, `last` or `all`")
            })?;
            denials.find(id).into_iter().collect()
        }
    };
    if found.is_empty() && which != "all" {
        let text =
            "this drop is not, or no longer, known: the daemon remembers the last 1024 since its start";
        return Err(Refused::new(Fault::NotFound, text)
            .remedy("`ravelin explain --drop all` lists them; the audit log keeps them longer"));
    }
    Ok(Explanation {
        drops: found.into_iter().map(|denial| explained(plane, denial)).collect(),
        ..Explanation::default()
    })
}

fn explained(plane: &Plane, denial: &Denial) -> DropExplained {
    let event = &denial.event;
    let remote = event.peer.ip().to_canonical();
    let any = if remote.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let flow =
        Flow { local: any, remote, local_port: 0, remote_port: event.peer.port(), protocol: event.protocol };
    let mut decision = (event.app != AppId::NONE).then(|| plane.policy.decision(event.app, &flow));
    let now = plane.policy.compiled.spd.generation;
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
        attempt: attempt(event.attempt).to_owned(),
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
