//! The order in which a daemon comes up (research: host path, sections 3, 5 and 6):
//!
//! 1. checks that refuse rather than half-work, the policy, the right to be this instance (or a hand-over);
//! 2. the exempt cgroup, *then* sockets: a socket keeps the cgroup it was made in;
//! 3. the TUN, persistent, and the settings of the host;
//! 4. the kernel half, with the policy and the sockets that were open before;
//! 5. the data threads, last: whatever is redirected before then waits in the TUN or ends there.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use crypto::Registry;
use engine::IcmpPolicy;
use netio::cgroup::Cgroup;
use netio::clear::ClearSender;
use netio::tun::{Queues, Tun, TunConfig, TunOptions};
use netio::udp::UdpTransport;
use qos::behaviour::foreign::Libraries;
use qos::graph::Aggregates;
use sadb::handover::HandOver;
use sadb::sa::DEFAULT_PATH_MTU;
use sadb::{InboundSa, OutboundSa};
use sockmon::Sockmon;
use tokio::sync::oneshot;

use crate::audit_log::Auditor;
use crate::classes::ClassCatalogue;
use crate::datapath::{
    self, EventReceiver, GraphExchange, InboundHalf, InboundThread, KernelQueues, OutboundHalf,
    OutboundThread, SocketQueues, UnitThreads,
};
use crate::device::Device;
use crate::flows::{self, FlowLog};
use crate::gateway::HandedRules;
use crate::graphs::PreparedGraph;
use crate::handover::{self, TakenOver};
use crate::host::{self, Record};
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::network_stack::NetworkStack;
use crate::paths::route_mtu;
use crate::plane::{
    Associations, GraphInForce, Halves, Host, Hosts, Observers, Plane, PolicyInForce, Rivals,
};
use crate::policy_store::Candidate;
use crate::reservations::Booking;
use crate::scrubbed::Scrubbed;
use crate::socket_queues::{OpenedSockets, OuterSockets};
use crate::surveyed::Surveyed;
use crate::uplinks::{self, Uplink};
use crate::{detach, doctor, gateway, socket_queues, state, translation, tun_queues};
use config::{Config, OuterIo};
use control::socket::{self, Lock, SocketError};
use control::{notify, privileges};
use documents::api_error::ApiError;

mod boot;
mod error;
mod first;
mod first_graph;
mod group;
mod parts;
mod port;
mod rehearsal;

pub use boot::{Booted, boot};
pub use error::RunError;
use first::First;
use first_graph::FirstGraph;
use parts::{open_errors, open_raw, raw_sender, read_record, unified};

/// The options of a daemon's start and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Take associations and devices over from the running daemon of the instance.
    pub take_over: bool,
    /// Take everything off the host at the end.
    pub detach_on_exit: bool,
}

/// A daemon that is up.
pub(crate) struct Daemon {
    pub(crate) plane: Plane,
    pub(crate) held: ProcessParts,
    pub(crate) control: UnixListener,
    pub(crate) handover: UnixListener,
}

/// What a daemon holds beside its control plane.
pub(crate) struct ProcessParts {
    pub(crate) lock: Lock,
    pub(crate) outbound_ended: oneshot::Receiver<OutboundHalf>,
    pub(crate) inbound_ended: oneshot::Receiver<InboundHalf>,
    /// The first queue of the TUN, for a hand-over.
    pub(crate) tun: Tun,
    /// The further queues of the TUN, in their order; none where there is no graph.
    pub(crate) further: Vec<Tun>,
    /// The UDP sockets, for a hand-over.
    pub(crate) udp: UdpTransport,
    pub(crate) options: RunOptions,
    /// Events of both threads.
    pub(crate) told: EventReceiver,
    /// Answers to questions for names.
    pub(crate) heard: tokio::sync::mpsc::Receiver<crate::names::ResolvedName>,
}

pub(crate) fn start(
    config: Config,
    options: RunOptions,
    registry: Registry,
    libraries: Libraries,
) -> Result<Daemon, RunError> {
    fit(doctor::quick_checks(Some(&config)))?;
    // Before a daemon that works is ended: programs that this kernel does not take must not be found out behind it.
    if options.take_over {
        fit(doctor::program_checks().collect())?;
    }
    let uplinks = uplinks::choose(&config)?;
    let run_dir = state::make(&config.instance, options.take_over)?;
    // A daemon that runs goes on with its policy, where the one that would take over has none.
    let fall_back = !options.take_over;
    // Made before a daemon that works is ended, too: what of it the engine does not carry out is told here.
    let graph = FirstGraph::prepare(&config, &run_dir, &registry, libraries)?;
    let classes = ClassCatalogue::new(
        graph.as_ref().map_or_else(Aggregates::without_graph, |graph| graph.prepared.loaded.classes()),
    );
    let suites = &config.crypto.ciphers.suites;
    let mut first = First::read(&config.policy, suites, &classes, &run_dir, fall_back)?;
    let outputs = Outputs::open(&config, &run_dir)?;
    if options.take_over {
        rehearsal::rehearse(&config, &run_dir, &uplinks, &mut first.candidate)?;
    }
    let (lock, taken) = become_the_daemon(&config, &run_dir, options, &registry, &classes)?;
    let is_taken = taken.is_some();
    let instance = config.instance.clone();
    let up = first.settle_trial(fall_back).and_then(|()| {
        let graph = FirstGraph::settled(graph, &first.candidate.compiled)?;
        let before = Before::look(&config, &run_dir)?;
        let up = bring_up(
            config,
            options,
            registry,
            Ready { uplinks, first, graph, outputs, lock, taken, before },
        );
        if up.is_err() && !before.pins && !options.take_over {
            take_back(&instance, &run_dir, before);
        }
        up
    });
    let up = up.map_err(explained);
    if is_taken { up.map_err(|error| RunError::AfterTake(Box::new(error))) } else { up }
}

/// Files and sockets that are asked for: those that cannot be had are told before anything is changed, and before a daemon that works is
/// ended.
struct Outputs {
    auditor: Auditor,
    flows: FlowLog,
    control: socket::Prepared,
    handover: socket::Prepared,
}

impl Outputs {
    fn open(config: &Config, run_dir: &Path) -> Result<Outputs, RunError> {
        let unfit = |what: &str, file: &Path, error: &dyn std::fmt::Display, section: &str| {
            RunError::Unfit(format!("the {what} {}: {error}; name another file in {section}", file.display()))
        };
        let auditor = Auditor::start(config.audit.as_ref()).map_err(|error| {
            let file = config.audit.as_ref().map_or(Path::new(""), |audit| &audit.file);
            unfit("audit log", file, &error, "[audit]")
        })?;
        let auditor = auditor
            .with_remote(config)
            .map_err(|error| RunError::Unfit(format!("[audit.remote]: {error}")))?;
        let flows = FlowLog::start(config.flows.as_ref()).map_err(|error| {
            let file = config.flows.as_ref().and_then(|flows| flows.log.as_deref());
            unfit("flow log", file.unwrap_or(Path::new("")), &error, "[flows]")
        })?;
        let control = socket::prepare(&config.control_socket).map_err(|error| {
            RunError::Unfit(format!("control_socket: {error}; name another place for it"))
        })?;
        let handover = socket::prepare(&handover::socket(run_dir))?;
        Ok(Outputs { auditor, flows, control, handover })
    }
}

/// A kernel half that could not be loaded, with what the kernel lacks, if that is the reason.
fn explained(error: RunError) -> RunError {
    match error {
        RunError::Kernel(_) => fit(doctor::program_checks().collect()).err().unwrap_or(error),
        error => error,
    }
}

/// What there was of the instance before this start.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// Its kernel half: what must be protected is refused at least.
    pins: bool,
    /// The record of what a daemon changed on the host.
    record: bool,
}

impl Before {
    fn look(config: &Config, run_dir: &Path) -> Result<Before, RunError> {
        let pins = sockmon::instances()?.contains(&config.instance);
        Ok(Before { pins, record: host::record_exists(run_dir) })
    }
}

/// Write down which device is the instance's. An error ends no start: the device is then told by its name.
fn note_tun(run_dir: &Path, tun: &Tun) {
    if let Err(error) = Record::note_tun(run_dir, tun.index()) {
        tracing::warn!("the index of the TUN is not written down: {error}");
    }
}

/// A first start that fails leaves the host as it was: nobody had anything protected yet, and nobody looks after it now.
fn take_back(instance: &str, run_dir: &Path, before: Before) {
    let done = detach::take_down(instance, run_dir);
    for left in &done.left {
        tracing::warn!(
            "left behind by the failed start: {left}; `ravelin detach --instance {instance}` tries again"
        );
    }
    // The numbers and the used keys of an earlier daemon stay.
    if !done.again && !before.record {
        let _ = state::remove(instance, run_dir);
    }
}

/// What a start has before it changes anything on the host.
struct Ready {
    uplinks: Vec<Uplink>,
    first: First,
    graph: Option<FirstGraph>,
    outputs: Outputs,
    lock: Lock,
    taken: Option<TakenOver>,
    before: Before,
}

fn bring_up(
    config: Config,
    options: RunOptions,
    registry: Registry,
    ready: Ready,
) -> Result<Daemon, RunError> {
    let Ready {
        uplinks,
        first: First { store, mut candidate, instead },
        graph,
        outputs,
        lock,
        taken,
        before,
    } = ready;
    let Outputs { auditor, flows, control, handover } = outputs;
    let run_dir = config.run_dir();
    let control = control.place()?;
    let handover = handover.place()?;

    let (state, tun_fds, udp_fds) = match taken {
        Some(TakenOver { state, tun, udp, sockets }) => (Some(state), Some(tun), (udp, sockets)),
        None => (None, None, (Vec::new(), 1)),
    };
    // Before the record: a record without a book means that the book was lost.
    let keys = match &state {
        None => Keys::open(registry, &run_dir, before.pins || before.record)?,
        Some(state) => Keys::take_over(registry, &run_dir, state.fingerprint_key.clone(), &state.used_keys)?,
    };

    let parent = unified(&config)?;
    let earlier = read_record(&run_dir)?;
    let exempt = group::own(&config, &parent, earlier.as_ref(), state.is_some())?;
    note_host(&config, &run_dir, &exempt)?;
    exempt.enter()?;
    // Programs that an earlier daemon left take this one for any other program until then.
    sockmon::exempt(&config.instance, exempt.path())?;
    auditor.connect();
    group::remove_earlier(earlier.as_ref(), &exempt);
    let mut udp = port::open(&config, udp_fds)?;
    let clear = ClearSender::open()?;
    let raw = open_raw(&config)?;
    let class_queues = graph.as_ref().map_or(1, |graph| graph.prepared.sockets.opened(graph.maker.queues()));
    let (frames_out, mut frames_in) =
        datapath::frames::open(&config, &uplinks, class_queues, &udp, &raw)?.unzip();
    let is_handed_over = tun_fds.is_some();
    let (tun, further) = open_tun(&config, tun_fds, &uplinks)?;
    note_tun(&run_dir, &tun);
    host::apply_settings()?;

    let path_mtu = uplinks::path_mtu(&config, &uplinks);
    let insides = gateway::insides(&config)?;
    let handed = state.as_ref().map(|state| HandedRules::read(&state.rules)).transpose()?;
    let rules = gateway::first_rules(&config, &store.classes().of_documents(), handed.as_ref())?;
    let known: Vec<u32> =
        uplinks.iter().map(|u| u.index).chain(insides.iter().map(|inside| inside.index)).collect();
    let surveyed = Surveyed::look(&config, &known)?;
    let monitor = Sockmon::attach(&sockmon::Options {
        uplinks: uplinks.iter().map(|u| u.index).collect(),
        others: surveyed.others.clone(),
        locals: surveyed.locals.clone(),
        insides: insides.iter().map(|inside| inside.index).collect(),
        spans: if config.gateway.is_some() { gateway::spans(&rules.in_order()) } else { Vec::new() },
        omit: left_out(),
        marks: config.marks,
        per_socket: translation::again(config.translation),
        flows: flows::counted(config.flows.as_ref()),
        no_requests: !config.socket_requests,
        inside_icmp: gateway::inside_icmp(&config),
        ..sockmon::Options::new(&config.instance, parent, exempt.path().to_owned(), tun.index())
    })?;
    filter_queue(&tun, &monitor, is_handed_over)?;
    monitor.clear_reserved()?;
    let planned = graph.as_ref().map(|graph| (&graph.prepared.queues, graph.maker.queues()));
    let (further, split) = tun_queues::open(&tun, further, &monitor, planned)?;
    // Sockets that an earlier daemon stamped keep a policy, in the engine too.
    candidate.follow(&monitor.moved(&candidate.compiled.subjects)?);
    let (mut out_half, mut in_half) = halves(&config, &candidate, state, &keys, path_mtu)?;
    if let Some(frames) = &mut frames_in {
        frames.steer(&monitor, &udp, &raw)?;
    }
    let planned = graph.as_ref().map(|graph| (&graph.prepared.sockets, graph.maker.queues()));
    let classes = Associations::classes_of(&in_half);
    let outer = OuterSockets { udp: &mut udp, raw, frames: frames_in.as_ref() };
    let OpenedSockets { split: sockets, plain: raw, queued, given_up } =
        socket_queues::open(outer, &monitor, planned, &classes)?;
    // From here on a worker that is late would keep a data thread waiting.
    keys.registry.settle();
    let in_queues = sockets.as_ref().map(|sockets| match &frames_in {
        Some(frames) => SocketQueues::of_frames(frames, sockets),
        None => SocketQueues::new(&udp, queued, sockets),
    });
    let mut key = [0; 16];
    netio::random::fill(&mut key)
        .map_err(|source| RunError::System { doing: "reading random octets", source })?;
    let (outbound, out_inbox) = control::channel::channel()?;
    let (inbound, in_inbox) = control::channel::channel()?;
    let graph = graph.map(|FirstGraph { store, maker, prepared }| {
        let PreparedGraph {
            loaded,
            outbound: out_graph,
            inbound: in_graph,
            queues: planned,
            sockets: wanted,
            notes,
        } = prepared;
        let (seal, open) =
            datapath::unit_threads(&loaded.description, || outbound.waker(), || inbound.waker())?;
        out_half.exchange =
            Some(GraphExchange { graph: out_graph, classes: planned.classes(), threads: seal });
        in_half.exchange = Some(GraphExchange { graph: in_graph, classes: wanted.classes(), threads: open });
        let booking = Booking::new(&loaded, key);
        Ok::<_, RunError>(GraphInForce {
            loaded,
            store,
            maker,
            queues: split.clone(),
            sockets,
            notes,
            booking,
            detached: Vec::new(),
        })
    });
    let graph = graph.transpose()?;
    let has_graph = graph.is_some();
    out_half.engine.set_rules(rules.snapshot());
    in_half.engine.set_rules(rules.snapshot());
    let (teller, told) = datapath::event_channel();
    (out_half.teller, in_half.teller) = (teller.clone(), teller);
    let per_second = config.audit.as_ref().map(|audit| audit.per_second);
    out_half.engine.set_audit(per_second);
    in_half.engine.set_audit(per_second);
    (out_half.auditor, in_half.auditor) = (auditor.clone(), auditor.clone());
    in_half.outbound = Some(outbound.waker()?);
    let (hosts, heard) = Hosts::new(&config.names);
    let tun_device = Device { name: tun.name().to_owned(), index: tun.index() };
    let guarded: Vec<Device> = uplinks.iter().map(Uplink::device).collect();
    let host = Host::new(NetworkStack::Kernel, tun_device, guarded, insides)
        .with_path_mtu(path_mtu)
        .with_surveyed(surveyed)
        .holding_queues(1 + further.len());
    let host = if config.outer == OuterIo::Udp { host } else { host.taking_frames() };
    let scrubbed = Scrubbed::new(out_half.engine.scrubbers().clone());
    let mut plane = Plane::new(
        config,
        Halves::new(outbound, inbound),
        Monitor::new(monitor),
        host,
        Associations::new(keys),
        PolicyInForce::new(store, hosts),
        Observers::new(auditor, flows, scrubbed),
    )
    .with_graph(graph);
    // Optional traffic of a peer that has an association already is sticky from the first packet.
    // What came by a hand-over is nowhere else: nothing from here on may end it that can be said instead.
    if let Err(refused) = plane.put_first_live(&out_half, &in_half) {
        tracing::warn!(
            "optional traffic is not refused in clear from every peer with an association: {refused}"
        );
    }
    plane.put_first_in_force(candidate, instead)?;
    plane.put_first_rules_in_force(rules)?;
    plane.translate_first(&mut out_half, &mut in_half)?;

    let errors = open_errors()?;
    let sender = raw_sender()?;
    let tun_out = tun.try_clone()?;
    let queues = std::iter::once(&tun).chain(&further).map(Tun::try_clone).collect::<Result<Vec<_>, _>>()?;
    let queues = split.map(|split| KernelQueues::new(queues, &split));
    out_half.mtus = plane.first_mtus()?;
    out_half.marks = plane.config().marks;
    let (frames, udp_out) = (frames_out, udp.clone());
    plane.begin_count()?;
    let outbound_thread = OutboundThread {
        tun: tun_out,
        queues,
        frames,
        udp: udp_out,
        raw: sender,
        clear,
        errors,
        heard: Vec::new(),
        units: UnitThreads::default(),
        takes_priorities: has_graph && netio::udp::takes_priorities(),
        priorities: None,
    };
    let frames = frames_in.unwrap_or_default();
    let inbound_thread = InboundThread {
        udp: udp.clone(),
        queues: in_queues,
        given_up,
        raw,
        tun: tun.try_clone()?,
        frames,
        units: UnitThreads::default(),
    };
    let outbound_ended = control::channel::start(
        "rvl-outbound",
        out_half,
        out_inbox,
        if has_graph { datapath::begin_outbound } else { privileges::keep_sending },
        |half, inbox| outbound_thread.serve(half, inbox),
    )?;
    let inbound_ended = control::channel::start(
        "rvl-inbound",
        in_half,
        in_inbox,
        if has_graph { datapath::begin_inbound } else { privileges::give_up_all },
        |half, inbox| inbound_thread.serve(half, inbox),
    )?;
    let held = ProcessParts { lock, outbound_ended, inbound_ended, tun, further, udp, options, told, heard };
    Ok(Daemon { plane, held, control, handover })
}

/// Refuse rather than half-work.
fn fit(checks: Vec<api::Check>) -> Result<(), RunError> {
    let report = api::Doctor::new(checks);
    if report.ok {
        return Ok(());
    }
    let mut text = "this host lacks something that the daemon needs:".to_owned();
    for check in report.failures() {
        text.push_str(&format!("\n  {}: {}", check.name, check.found));
        if let Some(remedy) = &check.remedy {
            text.push_str(&format!("\n    {remedy}"));
        }
    }
    text.push_str("\n`ravelin doctor` makes these checks alone");
    Err(RunError::Unfit(text))
}

fn become_the_daemon(
    config: &Config,
    run_dir: &Path,
    options: RunOptions,
    registry: &Registry,
    classes: &ClassCatalogue,
) -> Result<(Lock, Option<TakenOver>), RunError> {
    if !options.take_over {
        return match socket::lock(run_dir) {
            Ok(lock) => Ok((lock, None)),
            Err(error @ SocketError::Taken { .. }) => {
                Err(RunError::Unfit(format!("{error}; stop it, or start with --take-over")))
            }
            Err(error) => Err(error.into()),
        };
    }
    let request =
        handover::Request::new(&config.instance, &config.tun.name, config.esp.port).with_ciphers(registry);
    let taken = handover::take(run_dir, &request, registry.suites(), |rules| {
        let handed = HandedRules::read(rules).map_err(|refused| refused.to_string())?;
        let classes = classes.of_documents();
        gateway::first_rules(config, &classes, Some(&handed)).map(drop).map_err(|error| error.to_string())
    })?;
    Ok((socket::lock(run_dir)?, Some(taken)))
}

/// Programs of the kernel half that a test leaves out, to see that it fails without them (docs/design/0005); in debug builds alone.
fn left_out() -> Vec<String> {
    let names: Vec<String> = if cfg!(debug_assertions) {
        std::env::var("SOCKMON_TEST_OMIT").into_iter().collect()
    } else {
        Vec::new()
    };
    if !names.is_empty() {
        tracing::warn!("left out for a test, which opens holes: {}", names.join(", "));
    }
    names
}

fn note_host(config: &Config, run_dir: &Path, exempt: &Cgroup) -> Result<(), RunError> {
    let file = |source| RunError::System { doing: "writing down what is changed on the host", source };
    let before = read_record(run_dir)?;
    let mut record = Record {
        tun: config.tun.name.clone(),
        tun_index: before.as_ref().filter(|before| before.tun == config.tun.name).map_or(0, |b| b.tun_index),
        cgroup: exempt.path().to_owned(),
        control_socket: config.control_socket.clone(),
        netns: netio::netns::cookie()?,
        netns_inode: host::netns_inode(Path::new("/proc/thread-self/ns/net")).map_err(file)?,
        settings: Default::default(),
    };
    record.note_settings(before.as_ref())?;
    record.write(run_dir).map_err(file)
}

/// The TUN with the queues of the daemon before, or with one: that of the device that is there, or of a new one.
///
/// A device that was made with one queue is replaced, but for one that is handed over. The kernel half of the instance
/// refuses what must be protected from before the old device goes until it has its programs on the new one.
fn open_tun(
    config: &Config,
    handed_over: Option<Vec<OwnedFd>>,
    uplinks: &[Uplink],
) -> Result<(Tun, Vec<Tun>), RunError> {
    let name = &config.tun.name;
    let queue_len = config.tun.queue;
    let options = TunOptions { queues: Queues::Several, persist: true, offload: true, queue_len };
    let (tun, further) = match handed_over {
        Some(fds) => {
            let (tun, further) = Tun::from_fds(fds)?;
            if tun.queues() == Queues::One {
                tracing::info!(
                    "the TUN {name} was made with one queue by an earlier version; a restart without --take-over makes it anew"
                );
            }
            (tun, further)
        }
        None => {
            if netio::tun::has_one_queue(name)? {
                tracing::info!(
                    "the TUN {name} was made with one queue by an earlier version: it is made anew"
                );
                sockmon::forget_tun(&config.instance)?;
            }
            (Tun::open(name, &options)?, Vec::new())
        }
    };
    let mtu = uplinks.iter().map(|uplink| uplink.mtu).min().unwrap_or(1500).clamp(1280, 65_535);
    tun.configure(&TunConfig { address: host::TUN_ADDRESS, mtu })?;
    Ok((tun, further))
}

/// Only what the kernel half has seen comes into the queue of the TUN. What came before does not count, but for that of a daemon which
/// hands over: its queue has the filter.
fn filter_queue(tun: &Tun, monitor: &Sockmon, is_handed_over: bool) -> Result<(), RunError> {
    if let Some(filter) = monitor.queue_filter()? {
        tun.set_filter(filter)?;
    }
    if !is_handed_over {
        let forgotten = tun.forget_queue()?;
        tracing::debug!(forgotten, "packets that came before the TUN's queue had its filter");
    }
    Ok(())
}

/// Both halves of the engine with the policy, and with the associations that were handed over; `fallback` is the path MTU of one
/// whose peer has no route.
fn halves(
    config: &Config,
    candidate: &Candidate,
    state: Option<HandOver>,
    keys: &Keys,
    fallback: Option<u16>,
) -> Result<(OutboundHalf, InboundHalf), RunError> {
    let mut seed = [0; 8];
    let random = |source| RunError::System { doing: "reading random octets", source };
    netio::random::fill(&mut seed).map_err(random)?;
    let spd = Arc::new(candidate.compiled.spd.clone());
    let outbound = engine::Outbound::new(Arc::clone(&spd), u64::from_ne_bytes(seed));
    let mut own_seed = [0; 16];
    netio::random::fill(&mut own_seed).map_err(random)?;
    let scrubbers = engine::Scrubbers::new(|profile| config.scrub.of(profile), own_seed);
    let mut outbound = outbound.behind_the_kernel_half().gathering().scrubbing_by(scrubbers.clone());
    let mut inbound = engine::Inbound::new(config.esp.port);
    inbound.scrub_with(scrubbers.clone(), Arc::clone(&spd), !u64::from_ne_bytes(seed));
    inbound.scrub_outer(config.scrub.outer(), own_seed);
    if let Some(limits) = translation::limits(config.translation) {
        outbound = outbound.translating_per_socket(limits);
        inbound = inbound.translating_per_socket(spd, limits);
    }
    outbound.set_icmp(IcmpPolicy { port: config.esp.port, ..config.icmp.outer.clone() });
    inbound.set_icmp(config.icmp.inner.clone());
    inbound.take_tunnels_from(config.tunnels_from.clone());
    if let Some(state) = state {
        let count = (state.outbound.len(), state.inbound.len());
        // One that this version does not take any more must not cost all the others.
        let lost = |side: &str, spi: sadb::Spi, error: sadb::SadError| {
            let error = RunError::from(ApiError::from(error));
            tracing::error!("{side} association {spi} is not taken over: {error}");
        };
        for (spi, sa) in state.outbound.into_iter().map(|sa| (sa.config.spi, sa)) {
            match OutboundSa::import(sa, &keys.registry) {
                Ok(mut sa) => {
                    let ends = &sa.config().endpoints;
                    let route = route_mtu(ends.local, ends.remote);
                    sa.follow_route(route.or(fallback).unwrap_or(DEFAULT_PATH_MTU));
                    if let Err(error) = outbound.add_sa(sa) {
                        lost("outbound", spi, error);
                    }
                }
                Err(error) => lost("outbound", spi, error),
            }
        }
        for (spi, sa) in state.inbound.into_iter().map(|sa| (sa.config.spi, sa)) {
            match InboundSa::import(sa, &keys.registry) {
                Ok(sa) => {
                    if let Some(rivals) = Rivals::find(&candidate.compiled.spd, sa.config()) {
                        let words = rivals.words(&candidate.compiled);
                        tracing::error!("inbound association {spi} is not taken over: {words}");
                        continue;
                    }
                    if let Err(error) = inbound.add_sa(sa) {
                        lost("inbound", spi, error);
                    }
                }
                Err(error) => lost("inbound", spi, error),
            }
        }
        tracing::info!(outbound = count.0, inbound = count.1, "associations taken over");
        crate::scrubbed::take_over(&scrubbers, &state.scrubbed);
    }
    Ok((OutboundHalf::new(outbound), InboundHalf::new(inbound)))
}

/// What another daemon would have to ask for to take over from this one.
pub(crate) fn own_request(plane: &Plane) -> handover::Request {
    let config = plane.config();
    handover::Request::new(&config.instance, &config.tun.name, config.esp.port)
}

/// Give everything to the daemon at the other end: both threads stop, then their state goes.
///
/// # Errors
/// If that does not succeed; this daemon must end all the same.
pub(crate) async fn hand_over(
    plane: Plane,
    held: ProcessParts,
    giving: handover::Giving,
) -> Result<(), RunError> {
    let ProcessParts { lock, outbound_ended, inbound_ended, tun, further, udp, .. } = held;
    // Where frames are taken, nobody takes them from here on: what comes waits in the sockets for the new daemon.
    if plane.config().outer != OuterIo::Udp
        && let Err(error) = udp.fds().into_iter().try_for_each(netio::packet::undeafen)
    {
        tracing::debug!("what comes during the hand-over is lost: {error}");
    }
    plane.stop_threads().map_err(ApiError::from)?;
    let outbound = outbound_ended.await.map_err(|_| RunError::Thread)?;
    let inbound = inbound_ended.await.map_err(|_| RunError::Thread)?;
    let (fingerprint_key, used_keys) = plane.handed_keys();
    let state = HandOver {
        fingerprint_key,
        used_keys,
        inbound: inbound.engine.export(),
        outbound: outbound.engine.export(),
        rules: plane.handed_rules(),
        scrubbed: crate::scrubbed::hand_over(outbound.engine.scrubbers()),
    };
    let count = (state.outbound.len(), state.inbound.len());
    // Every other copy of a key goes before the new daemon hears of it.
    drop((outbound, inbound, plane));
    // Before the other daemon goes on, and this one ends: a unit of systemd whose main process has ended is over.
    if let Some(pid) = giving.peer() {
        notify::successor(pid);
    }
    let queues: Vec<_> = std::iter::once(&tun).chain(&further).map(Tun::as_fd).collect();
    let open = giving.give(state, &queues, (&udp.fds(), udp.queues())).map_err(|source| {
        RunError::System { doing: "handing over (the keys are gone; add new ones)", source }
    })?;
    tracing::info!(outbound = count.0, inbound = count.1, "handed over to the new daemon");
    drop((tun, further, udp, lock));
    // Its end tells the new daemon that this one has ended: nothing may come after.
    drop(open);
    Ok(())
}
