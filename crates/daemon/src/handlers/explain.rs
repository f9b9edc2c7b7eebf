//! The handler of `/v1/explain`, which says why the traffic of a socket or a flow is treated as it is.

mod drops;
mod subject;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use api::{ExplainQuery, Explanation, FlowInfo, ProcessInfo, SaInfo, SocketExplained};
use axum::extract::State;
use sadb::spd::{Action, Failure, Level, Negotiating, Terms};
use sockmon::SocketInfo;
use wire::{AppId, DropReason, Flow, Services};

use crate::plane::{Plane, Shared};
use control::answer::{Answer, Doc};
use control::extract::Query;
use documents::api_error::{ApiError, Blame};
use documents::associations::{SaView, protocol, protocol_word};
use documents::classes::class_name;
use documents::decision::class_by_graph;
use subject::application;

pub(super) async fn explain(
    State(plane): State<Shared>,
    Query(query): Query<ExplainQuery>,
) -> Answer<Explanation> {
    let mut plane = plane.get().await?;
    let explained = match (query.pid, query.socket, query.drop, query.app.zip(query.to)) {
        (Some(pid), None, None, None) => of_process(&plane, pid).await,
        (None, Some(socket), None, None) => of_socket(&plane, &socket).await,
        (None, None, Some(which), None) => drops::of_drop(&mut plane, &which).await,
        (None, None, None, Some((app, to))) => of_nobody(&plane, &app, &to, query.from_port).await,
        _ => Err(ApiError::new(
            Blame::BadRequest,
            "ask for one of: a process (pid), a connection (socket), what was refused (drop), a program and a peer (app and to)",
        )),
    };
    Ok(Doc(explained?))
}

async fn of_process(plane: &Plane, pid: u32) -> Result<Explanation, ApiError> {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| {
        ApiError::new(Blame::NotFound, format!("there is no process {pid}"))
            .remedy("`ps -e` lists those there are")
    })?;
    let app = plane.app_of_pid(pid)?;
    let executable = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let process = ProcessInfo {
        refused: app == Some(sockmon::REFUSED),
        pid,
        comm: Some(comm.trim_end().to_owned()),
        executable: executable.map(|path| path.display().to_string()),
        application: app.filter(|id| *id != sockmon::REFUSED).and_then(|id| application(plane, id)),
    };
    let pins = plane.pinned_files_at(process.executable.iter().map(String::as_str));
    let mut sockets = Vec::new();
    let all = plane.sockets()?;
    for socket in all.iter().filter(|s| s.pid == pid) {
        sockets.push(explained(plane, socket, socket.flow()).await?);
    }
    Ok(Explanation { process: Some(process), sockets, drops: Vec::new(), pins })
}

async fn of_socket(plane: &Plane, text: &str) -> Result<Explanation, ApiError> {
    let asked = parse(text)?;
    let sockets = plane.sockets()?;
    // The connection itself, else the socket without a peer (UDP server, listener) that would take it.
    let connected = |s: &&SocketInfo| s.flow() == Some(asked);
    let open = |s: &&SocketInfo| {
        s.protocol == asked.protocol
            && s.remote.port() == 0
            && s.local.port() == asked.local_port
            && (s.local.ip().is_unspecified() || s.local.ip() == asked.local)
    };
    let mut found: Vec<&SocketInfo> = sockets.iter().filter(connected).collect();
    if found.is_empty() {
        found = sockets.iter().filter(open).collect();
    }
    if found.is_empty() {
        return Err(ApiError::new(Blame::NotFound, format!("no process has a socket for {asked}")).remedy(
            "`ss -tunap` lists the sockets; a connection that is closed already cannot be explained",
        ));
    }
    let mut explanation = Explanation::default();
    for socket in found {
        explanation.sockets.push(explained(plane, socket, Some(asked)).await?);
    }
    Ok(explanation)
}

/// The flow of a socket that has a peer.
pub(super) fn flow_of(socket: &SocketInfo) -> Option<Flow> {
    if socket.remote.port() == 0 {
        return None;
    }
    Some(Flow {
        opaque: false,
        local: socket.local.ip().to_canonical(),
        remote: socket.remote.ip().to_canonical(),
        local_port: socket.local.port(),
        remote_port: socket.remote.port(),
        protocol: socket.protocol,
    })
}

/// A path of the policy whose file has this bare name.
fn path_of<'a>(plane: &'a Plane, name: &str) -> Option<&'a str> {
    let mut names = plane.policy().compiled().applications.iter().map(|app| app.name.as_str());
    names.find(|path| path.rsplit_once('/').is_some_and(|(_, file)| file == name))
}

/// The explanation of a flow that no socket has yet, with the source address that this host would choose.
async fn of_nobody(
    plane: &Plane,
    program: &str,
    to: &str,
    from_port: Option<u16>,
) -> Result<Explanation, ApiError> {
    let target: policy::Target = to
        .parse()
        .map_err(|error: policy::TargetError| ApiError::new(Blame::BadRequest, error.to_string()))?;
    let from_port = from_port.unwrap_or(0);
    let unknown = target.flow(None, from_port);
    let flow = target.flow(source_towards(&unknown), from_port);
    let app = plane.policy().app(program).unwrap_or(AppId::NONE);
    if app == AppId::NONE
        && let Some(path) = path_of(plane, program)
    {
        // "No block names it" would be true of the word, and of no program that bears it.
        let text = format!("the policy names {path}, and {program:?} alone may be another file");
        return Err(ApiError::new(Blame::BadRequest, text).remedy(format!("ask with --app {path}")));
    }
    let side = |address, port| (port != 0).then(|| SocketAddr::new(address, port).to_string());
    let out = SocketExplained {
        pid: None,
        comm: None,
        fd: None,
        state: None,
        application: application(plane, app),
        flow: FlowInfo {
            protocol: protocol_word(flow.protocol),
            local: side(flow.local, from_port),
            remote: Some(SocketAddr::new(flow.remote, flow.remote_port).to_string()),
        },
        decision: None,
        sa_out: None,
        sa_in: Vec::new(),
        effect: String::new(),
    };
    let explained = judged(plane, out, app, Services::NONE, &flow).await?;
    let pins = plane
        .policy()
        .compiled()
        .application(app)
        .map(|app| plane.pinned_files_at(app.pins.keys().map(String::as_str)));
    Ok(Explanation { sockets: vec![explained], pins: pins.unwrap_or_default(), ..Explanation::default() })
}

/// The address that this host would send the flow from. Nothing is sent: connect(2) of a datagram socket only asks the
/// routes.
fn source_towards(flow: &Flow) -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind(SocketAddr::new(flow.local, 0)).ok()?;
    socket.connect(SocketAddr::new(flow.remote, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

async fn explained(
    plane: &Plane,
    socket: &SocketInfo,
    flow: Option<Flow>,
) -> Result<SocketExplained, ApiError> {
    let app = socket.app;
    let side = |address: SocketAddr| (address.port() != 0).then(|| address.to_string());
    let mut out = SocketExplained {
        pid: Some(socket.pid),
        comm: Some(socket.comm.clone()),
        fd: i32::try_from(socket.fd).ok(),
        state: Some(socket.state.name().to_owned()),
        application: application(plane, app),
        flow: FlowInfo {
            protocol: protocol_word(socket.protocol),
            local: side(socket.local),
            remote: side(socket.remote),
        },
        decision: None,
        sa_out: None,
        sa_in: Vec::new(),
        effect: "depends on the peer".to_owned(),
    };
    let Some(flow) = flow else { return Ok(out) };
    out.flow.local = Some(SocketAddr::new(flow.local, flow.local_port).to_string());
    out.flow.remote = Some(SocketAddr::new(flow.remote, flow.remote_port).to_string());
    let asked = match socket.required {
        0 => Services::NONE,
        1 => Services::AUTHENTICATED,
        _ => Services::ENCRYPTED,
    };
    judged(plane, out, app, asked, &flow).await
}

/// The explanation of a flow, completed by what policy, engine and associations decide about it.
async fn judged(
    plane: &Plane,
    mut out: SocketExplained,
    app: AppId,
    asked: Services,
    flow: &Flow,
) -> Result<SocketExplained, ApiError> {
    let flow = *flow;
    if app == sockmon::REFUSED {
        out.effect = "refused: the file of the program is not known to be what the policy says".to_owned();
        return Ok(out);
    }
    out.decision = Some(plane.policy().decision(app, &flow));
    if app == AppId::NONE
        && let (Some(decision), Some(note)) = (&mut out.decision, rule_note(plane, &flow))
    {
        decision.notes.push(note);
    }
    let (action, terms, found) = plane.halves().preview(app, flow, asked).await?;
    let protect = matches!(action, Action::Protect { .. });
    out.effect = effect(action, &terms, found.as_ref().err().copied(), is_own(flow.remote)).to_owned();
    if let Some(observed) = out.decision.as_ref().and_then(|decision| decision.observed.as_ref()) {
        out.effect = format!("{}; {observed}", out.effect);
    }
    if asked != Services::NONE {
        out.effect.push_str(" (the socket asks for protection itself)");
    }
    let classes = plane.classes().get();
    let name = |view: SaView| -> SaInfo {
        view.named(|id| plane.policy().app_name(id), &plane.config().crypto.ciphers, &classes)
    };
    if protect {
        out.sa_out = found.ok().map(name);
        let serving = plane.halves().serving(app, flow).await?;
        out.sa_in = serving.into_iter().map(name).collect();
        // What leaves protected and is never answered is no protection of anything.
        if out.sa_in.is_empty() && out.effect == PROTECTED {
            out.effect = ONE_DIRECTION.to_owned();
        }
        if let (Some(graph), Some(decision)) = (plane.graph(), &mut out.decision)
            && decision.class.is_none()
            && out.sa_out.as_ref().is_none_or(|sa| sa.class.is_none())
        {
            let unless = "since neither the item nor an association names a class";
            decision.why.push(class_by_graph(&graph.loaded.description, unless));
        }
    }
    Ok(out)
}

/// The decision of the SPD's rules about a flow that no application's policy covers, in words.
fn rule_note(plane: &Plane, flow: &Flow) -> Option<String> {
    let snapshot = plane.rules().snapshot()?;
    let rule = snapshot.lookup(sadb::rules::Direction::Out, &sadb::PacketKey::of_flow(flow));
    let said = match rule {
        Some(rule) => {
            let scrubbed = scrub::Profile::of_id(rule.scrub);
            let scrubbed = scrubbed.map_or_else(String::new, |by| format!(" (scrubbed: {})", by.name()));
            let class = class_name(&plane.classes().get(), rule.class);
            let class = class.map_or_else(String::new, |class| format!(" (class: {class})"));
            format!("rule {} of the SPD is the first that matches{scrubbed}{class}", rule.label)
        }
        None => "no rule of the SPD matches, so it would be discarded".to_owned(),
    };
    Some(format!(
        "{said}; rules decide about packets that reach the engine, and this program's go straight out"
    ))
}

/// The sentence for a flow that associations protect in both directions.
const PROTECTED: &str = "protected";
/// The sentence for a flow that has an association for one direction only.
const ONE_DIRECTION: &str =
    "blocked: one direction only: what goes out is protected, and no inbound association takes the answers";

/// The sentence that says what happens to the flow's packets now.
fn effect(action: Action, terms: &Terms, missing: Option<DropReason>, own: bool) -> &'static str {
    match (action, missing) {
        (Action::Discard, _) => "refused",
        (_, _) if own => "local: between two sockets of this host, checked but not encrypted",
        (Action::Bypass, _) => "clear",
        (Action::Protect { .. }, None) => PROTECTED,
        (Action::Protect { level: Level::AcceptOnly, .. }, Some(DropReason::NoSa)) => {
            "clear: no association serves this flow, and the policy asks for none"
        }
        (Action::Protect { level: Level::Optional, .. }, Some(DropReason::NoSa))
            if (terms.negotiating, terms.failure) == (Negotiating::Pass, Failure::Pass) =>
        {
            "clear: protection is optional and no association serves this flow"
        }
        (Action::Protect { level: Level::Optional, .. }, Some(DropReason::NoSa)) => {
            "as the item says for while one is negotiated and for when that fails: no association serves this flow"
        }
        (Action::Protect { .. }, Some(DropReason::SaTooWeak)) => {
            "blocked: the association gives less than the policy demands"
        }
        (Action::Protect { .. }, Some(_)) => {
            "blocked: protection is mandatory and no association serves this flow"
        }
    }
}

/// Whether an address is this host's own: such traffic never reaches an uplink.
fn is_own(addr: IpAddr) -> bool {
    if addr.is_loopback() {
        return true;
    }
    let own = netio::link::Links::open().and_then(|mut links| links.addresses());
    own.is_ok_and(|own| own.iter().map(|a| a.addr).collect::<BTreeSet<_>>().contains(&addr))
}

/// Read a flow from `LOCAL:PORT,REMOTE:PORT[/PROTOCOL]`; without a protocol it is TCP.
fn parse(text: &str) -> Result<Flow, ApiError> {
    let bad = || {
        ApiError::new(
            Blame::BadRequest,
            format!("{:?} is no connection", text.chars().take(128).collect::<String>()),
        )
        .remedy(
            "write LOCAL:PORT,REMOTE:PORT, with /udp behind it for UDP: 192.0.2.1:40000,192.0.2.2:443/tcp",
        )
    };
    let (ends, word) = text.split_once('/').unwrap_or((text, "tcp"));
    let (local, remote) = ends.split_once(',').ok_or_else(bad)?;
    let local: SocketAddr = local.trim().parse().map_err(|_| bad())?;
    let remote: SocketAddr = remote.trim().parse().map_err(|_| bad())?;
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(bad());
    }
    Ok(Flow {
        opaque: false,
        local: local.ip().to_canonical(),
        remote: remote.ip().to_canonical(),
        local_port: local.port(),
        remote_port: remote.port(),
        protocol: protocol(word)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_as_people_write_them() {
        let flow = parse("192.0.2.1:40000,192.0.2.2:443/tcp").unwrap();
        assert_eq!((flow.protocol, flow.local_port, flow.remote_port), (6, 40000, 443));
        assert_eq!(parse("[2001:db8::1]:5,[2001:db8::2]:53/udp").unwrap().protocol, 17);
        assert_eq!(parse("192.0.2.1:1, 192.0.2.2:2").unwrap().protocol, 6);
        for text in
            ["", "192.0.2.1:1", "192.0.2.1,192.0.2.2", "192.0.2.1:1,[::1]:2", "192.0.2.1:1,192.0.2.2:2/x"]
        {
            assert!(parse(text).unwrap_err().remedy.is_some(), "{text}");
        }
    }

    #[test]
    fn what_happens_follows_from_verdict_and_association() {
        let protect = |level| Action::Protect { services: Services::ENCRYPTED, level };
        let table = [
            (Action::Bypass, Some(DropReason::NoSa), false, "clear"),
            (Action::Discard, Some(DropReason::NoSa), false, "refused"),
            (Action::Discard, Some(DropReason::NoSa), true, "refused"),
            (protect(Level::Mandatory), None, false, "protected"),
            (protect(Level::Mandatory), None, true, "local"),
            (protect(Level::Mandatory), Some(DropReason::NoSa), false, "blocked"),
            (protect(Level::Optional), Some(DropReason::NoSa), false, "clear: protection is optional"),
            (protect(Level::AcceptOnly), Some(DropReason::NoSa), false, "clear: no association"),
            (
                protect(Level::Mandatory),
                Some(DropReason::SaTooWeak),
                false,
                "blocked: the association gives less",
            ),
        ];
        for (action, missing, own, want) in table {
            let terms = match action {
                Action::Protect { level, .. } => Terms::of(level),
                _ => Terms::of(Level::Mandatory),
            };
            let said = effect(action, &terms, missing, own);
            assert!(said.starts_with(want), "{action:?} {missing:?} {own}");
        }
        let terms = Terms { negotiating: Negotiating::Drop, ..Terms::of(Level::Optional) };
        let said = effect(protect(Level::Optional), &terms, Some(DropReason::NoSa), false);
        assert!(said.starts_with("as the item says"), "{said}");
    }
}
