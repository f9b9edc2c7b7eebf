//! `/v1/status` and `/v1/health`: the state of the daemon, and what is wrong with it.

use std::collections::BTreeMap;

use api::{
    ChosenBy, GatewayState, Health, PolicyState, Problem, Status, StatusState, Subjects, TunState,
    UplinkState,
};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::audit_log::Remote;
use crate::device::Device;
use crate::host::TunFault;
use crate::kernel_counters;
use crate::plane::{GraphInForce, Plane, Shared, ThreadState, queue_drops};
use control::answer::{Answer, Doc, Failure};
use documents::api_error::ApiError;

pub(super) async fn status(State(plane): State<Shared>) -> Answer<Status> {
    Ok(Doc(collect(&plane).await?))
}

/// HTTP 503 when degraded, for checks that look at nothing else.
pub(super) async fn health(State(plane): State<Shared>) -> Result<impl IntoResponse, Failure> {
    let Status { state, problems, .. } = collect(&plane).await?;
    let code = match state {
        StatusState::Ok => StatusCode::OK,
        StatusState::Degraded => StatusCode::SERVICE_UNAVAILABLE,
    };
    Ok((code, Doc(Health { state, problems })))
}

async fn collect(plane: &Shared) -> Result<Status, ApiError> {
    let plane = &*plane.get().await?;
    let [outbound, inbound] = plane.halves().states().await?;
    let kernel = plane.kernel_counters()?;
    let translation = plane.translation().await?;
    let HostProblems { problems, unguarded, closed } = problems(plane, [&outbound, &inbound]);
    let protection = plane.protection(&problems, closed.as_deref()).await;
    Ok(Status {
        protection,
        crypto: documents::crypto_units::report(
            plane.associations().registry(),
            plane.config().crypto.legacy,
        ),
        ciphers: documents::ciphers::report(&plane.config().crypto.ciphers, plane.associations().registry()),
        state: if problems.is_empty() { StatusState::Ok } else { StatusState::Degraded },
        problems,
        instance: plane.config().instance.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_seconds: plane.uptime().as_secs(),
        config: plane.config().file.display().to_string(),
        tun: TunState {
            name: plane.host().tun().name.clone(),
            ifindex: plane.host().tun().index,
            queue_drops: queue_drops(&plane.host().tun().name).unwrap_or(0),
        },
        uplinks: states(plane.host().uplinks(), &unguarded),
        gateway: plane.config().gateway.as_ref().map(|gateway| GatewayState {
            inside: states(plane.host().insides(), &unguarded),
            default: if gateway.bypass_the_rest { "bypass" } else { "discard" }.to_owned(),
            spans: plane.rules().spans().len(),
        }),
        esp_port: plane.config().esp.port,
        translation: plane.policy().is_translated().then_some(translation),
        qos: plane.graph().map(GraphInForce::in_force),
        names: plane.policy().names_state(),
        policy: PolicyState {
            subjects: subjects(&plane.policy().compiled().applications),
            ..plane.policy_state()
        },
        sas_in: inbound.sas,
        sas_out: outbound.sas,
        spd_rules: plane.rules().len(),
        outbound: outbound.traffic,
        inbound: inbound.traffic,
        kernel_refused: kernel
            .iter()
            .filter(|(word, _)| kernel_counters::is_refusal(word))
            .map(|(_, n)| n)
            .sum(),
        flows: plane.flow_table(),
        audit_remote: plane.observers().remote_audit().map(Remote::state),
        kernel_untold: kernel.iter().find(|(word, _)| *word == "events_lost").map_or(0, |(_, n)| *n),
    })
}

/// Applications that are told with what chooses them.
const TOLD: usize = 256;

fn subjects(applications: &[policy::Application]) -> Subjects {
    let mut counts = BTreeMap::new();
    for word in applications.iter().flat_map(|app| &app.chosen_by) {
        *counts.entry((*word).to_owned()).or_default() += 1;
    }
    let (plain, special): (Vec<_>, Vec<_>) =
        applications.iter().partition(|app| app.chosen_by == ["program"]);
    let told = special.iter().chain(&plain).take(TOLD);
    let chosen = told.map(|app| ChosenBy {
        application: app.name.clone(),
        by: app.chosen_by.iter().map(|word| (*word).to_owned()).collect(),
    });
    Subjects { counts, applications: chosen.collect(), more: applications.len().saturating_sub(TOLD) }
}

/// What is not as it should be.
struct HostProblems {
    problems: Vec<Problem>,
    /// The uplinks that are not guarded.
    unguarded: Vec<u32>,
    /// Why nothing that must be protected leaves this host, if that is so.
    closed: Option<String>,
}

fn problems(plane: &Plane, [outbound, inbound]: [&ThreadState; 2]) -> HostProblems {
    let mut problems = Vec::new();
    let mut unguarded = Vec::new();
    let mut closed = None;
    let problem = |code: &str, message: String, remedy: &str| Problem {
        code: code.to_owned(),
        message,
        remedy: Some(remedy.to_owned()),
        ..Problem::default()
    };
    for fault in plane.kernel_faults() {
        unguarded.extend(device_of(&fault.what));
        problems.push(problem("failed", format!("{}: {}", fault.what, fault.detail), &fault.remedy));
    }
    let tun = plane.host().tun_fault();
    // What the threads hear from a device that is known to be gone or down is no other fault.
    let mut faults: Vec<&String> = Vec::new();
    match &tun {
        Some(fault) => {
            problems.push(problem("failed", fault.to_string(), fault.remedy()));
            if !matches!(fault, TunFault::Unknown(_)) {
                closed = Some(fault.to_string());
            }
        }
        None => {
            closed.clone_from(&outbound.fault);
            faults.extend([outbound, inbound].into_iter().filter_map(|half| half.fault.as_ref()));
        }
    }
    if let Some(fault) = plane.host().tun_owner_fault() {
        problems.push(problem("failed", fault, "restart the daemon, which makes it root's"));
    }
    if let Some(fault) = plane.host().foreign_queues() {
        let remedy = "find that process (`fuser -v /dev/net/tun`) and end it";
        problems.push(problem("failed", fault, remedy));
    }
    for detached in [outbound, inbound].into_iter().flat_map(|half| &half.detached) {
        let remedy = "`ravelin qos component check FILE` tries the library; `ravelin qos apply` attaches the component anew";
        problems.push(problem("failed", detached.clone(), remedy));
    }
    for fault in faults {
        let remedy = "restart the daemon if this does not end; protected traffic is refused meanwhile";
        problems.push(problem("failed", fault.clone(), remedy));
    }
    if let Some(fault) = plane.host().gateway_fault(plane.config()) {
        let remedy = "`ravelin doctor --config FILE` looks at what gateway mode needs";
        problems.push(problem("failed", fault, remedy));
    }
    for fault in plane.host().uplink_faults() {
        if fault.closed {
            closed.get_or_insert_with(|| fault.message.clone());
        }
        problems.push(problem("failed", fault.message, &fault.remedy));
    }
    for device in plane.host().unheard() {
        let message =
            format!("{} came after the start: outer packets that arrive there are lost", device.name);
        problems.push(problem("failed", message, "restart the daemon (`ravelin run --take-over`)"));
    }
    if let Some(fault) = plane.policy().translation_fault() {
        problems.push(problem("failed", fault, "restart the daemon; new flows are refused meanwhile"));
    }
    for fault in plane.policy().name_faults() {
        let remedy =
            "`ravelin policy names` lists what is known; look at [names] resolvers, or write the addresses";
        problems.push(problem("failed", fault, remedy));
    }
    problems.extend(plane.problems());
    problems.extend(plane.observers().remote_audit().and_then(Remote::problem));
    problems.extend(documents::crypto_units::faults(plane.associations().registry()));
    problems.extend(plane.associations().key_fault().map(|refused| refused.problem()));
    for block in plane.policy().refused_blocks() {
        let kept =
            if block.kept_last_good { "its last good version is in force" } else { "it has no policy" };
        let message = format!("{}: the block of {} is broken; {kept}", block.at, block.application);
        problems.push(problem(
            "refused",
            message,
            "correct the policy (`ravelin policy check`) and reload it",
        ));
    }
    for observed in plane.policy().compiled().observed() {
        let message = format!("{observed} ({}:{})", plane.policy().compiled().file, observed.line);
        let remedy = "`ravelin flows` shows what would be refused; take `observe` out of the policy to put it in force";
        problems.push(problem("observed", message, remedy));
    }
    if let Some(error) = plane.policy().last_error() {
        problems.push(problem("refused", error.to_owned(), "correct what it says and reload the policy"));
    }
    HostProblems { problems, unguarded, closed }
}

fn states(devices: &[Device], unguarded: &[u32]) -> Vec<UplinkState> {
    let state = |device: &Device| UplinkState {
        name: device.name.clone(),
        ifindex: device.index,
        guarded: !unguarded.contains(&device.index),
    };
    devices.iter().map(state).collect()
}

/// The index of the device that a pin is for, as the name of an uplink's or an inside interface's pin ends with it.
fn device_of(pin: &str) -> Option<u32> {
    let of_device = pin.strip_prefix("uplink_").or_else(|| pin.strip_prefix("inside_"))?;
    of_device.rsplit('_').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_names_its_device() {
        assert_eq!(device_of("uplink_egress_12"), Some(12));
        assert_eq!(device_of("inside_ingress_7"), Some(7));
        assert_eq!(device_of("sock_create"), None);
        assert_eq!(device_of("connect4"), None);
    }

    #[test]
    fn applications_are_told_with_what_chooses_them() {
        let many: String = (0..300).map(|n| format!("application app{n} {{\n}}\n")).collect();
        let text = many + "application from sshd uid 1000, anonymous {\n}\ndefault {\n}\n";
        let compiled = policy::compile(&policy::parse("p", &text), &mut policy::AppTable::new(), 1);
        let told = subjects(&compiled.applications);
        let counts = [("anonymous", 1), ("default", 1), ("from", 1), ("program", 300), ("uid", 1)];
        assert_eq!(told.counts, counts.map(|(word, count)| (word.to_owned(), count)).into());
        assert_eq!((told.applications.len(), told.more), (TOLD, 303 - TOLD));
        let first = &told.applications[0];
        assert_eq!(first.application, "from sshd uid 1000");
        assert_eq!(first.by, ["from", "uid"]);
    }
}
