//! The offline door: packets of a capture through the same engine, in the capture's own time, without root, daemon or clock.
//!
//! What enters: a capture, associations with their keys and rules (JSON lines, or the language of setkey), perhaps a
//! configuration with its policy. What leaves: the packets that the engine made, as a capture, and one [`ReplayLine`] per
//! packet (a second one for a fragment whose packet never became whole). The addresses of this host say which way packets go;
//! without them ESP and AH packets (protocols 50 and 51, or UDP on the ESP port) go inbound, all others outbound as packets of one
//! application, unless the caller says which way. The same input gives the same output, octet for octet.

mod arrivals;
mod batch;
mod error;
mod fragments;
mod gather;
mod lives;
mod load;
mod report;
mod wire_out;

use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::{ReplayDirection, ReplayLine, ReplaySummary, ReplayVerdict};
use cipher_loader::{Examined, Trial};
use cipher_worker::{Isolated, Settings};
use crypto::{Registry, WorkerState};
use documents::ciphers::{StartedWorker, WORKER_COMMAND};
use engine::{IcmpPolicy, Inbound, InboundOutcome, Outbound, Outcome};
use host_files::HostFiles;
use netio::pcap::{Frame, LinkType, Reader, Writer};
use policy::{AppTable, Compiled, Names};
use wire::ip::Headers;
use wire::{AppId, Buf, Meta, Packet, Pool, Time, protocol, record};

use crate::text::different;
use config::{Config, ESP_PORT};
use documents::classes::Classes;
use documents::rules::SpdRules;
pub use error::ReplayError;
use error::Write;
use fragments::Fragments;
use lives::Lives;

/// Which half of the engine packets go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HalfChoice {
    /// What is for an address of this host inbound, what is from one outbound. Of the rest, ESP and AH inbound, everything else
    /// outbound.
    #[default]
    Auto,
    /// All inbound; what is in clear is compared with the rules for inbound packets.
    In,
    /// All packets are taken as outbound.
    Out,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// Inbound, through an association.
    Open,
    /// Inbound in clear, without an association.
    Arrive,
    /// Outbound, as a packet of this host.
    Send,
}

/// The capture to replay, and how.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The path of the capture.
    pub input: PathBuf,
    /// Where the engine's packets go; `None`: nowhere.
    pub output: Option<PathBuf>,
    /// Whether legacy suites may be used, whatever the configuration says.
    pub legacy: bool,
    /// The engine that does it.
    pub engine: EngineOptions,
}

/// The engine of a replay.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// The application that packets of programs belong to; `None`: none.
    pub app: Option<String>,
    /// Which half packets go through.
    pub way: HalfChoice,
    /// This host's addresses: they say which way packets go, and which way the associations of a setkey file do. Empty: such a
    /// file speaks for both hosts.
    pub local: Vec<IpAddr>,
    /// Put the engine's packets into the lines as well.
    pub hex: bool,
    /// Send packets through the gathering, burst and fast paths of the daemon.
    pub gather: bool,
}

/// The engine with everything it needs offline.
pub struct Replay {
    policy: Compiled,
    rules: SpdRules,
    app: AppId,
    way: HalfChoice,
    hex: bool,
    esp_port: u16,
    /// The configuration or an association says so.
    port_said: Option<u16>,
    outbound: Outbound,
    inbound: Inbound,
    pool: Pool,
    /// This host's addresses; none: packets say themselves which way they go.
    local: Vec<IpAddr>,
    /// The time of the newest frame.
    now: Time,
    fragments: Fragments,
    /// Identification of the next IPv6 packet that is fragmented here.
    next_id: u32,
    /// There is neither policy nor rule: an outbound packet that an association covers is protected.
    associations_decide: bool,
    lives: Lives,
    sent: Vec<Outcome>,
    opened: Vec<InboundOutcome>,
    /// Frames that go through the engine together.
    batch: batch::Batch,
}

impl Replay {
    /// With the associations and rules of `file` (see [`documents::import`]); `name` names it in errors. With a configuration its policy
    /// decides about packets of `app`. Without one and without rules, an outbound packet that an association's selectors cover
    /// is protected by it and any other passes in clear.
    ///
    /// # Errors
    /// [`ReplayError::BadInput`] with file and line.
    pub fn new(
        config: Option<&Config>,
        options: &EngineOptions,
        file: Option<(&str, &mut dyn Read)>,
        registry: &Registry,
    ) -> Result<Replay, ReplayError> {
        let policy = match config {
            Some(config) => policy_of(config)?,
            None => policy::compile(&policy::parse("", ""), &mut policy::AppTable::new(), 1),
        };
        let app = match (&options.app, config) {
            (None, _) => AppId::NONE,
            (Some(name), Some(config)) => policy.find(name).map(|found| found.id).ok_or_else(|| {
                let file = config.policy.display();
                ReplayError::BadInput(format!(
                    "{file} has no block for application {name:?}; `ravelin policy check` lists those it has"
                ))
            })?,
            (Some(name), None) => {
                return Err(ReplayError::BadInput(format!(
                    "application {name:?} has no policy without --config; name the configuration, or leave --app out"
                )));
            }
        };
        let classes = config.map_or_else(Classes::default, |config| Classes::Of(config::classes_of(config)));
        let esp_port = config.map_or(ESP_PORT, |config| config.esp.port);
        let mut replay = Replay {
            // The same seed every time: so is the output.
            outbound: match Outbound::new(Arc::new(policy.spd.clone()), 0) {
                outbound if options.gather => outbound.gathering(),
                outbound => outbound,
            },
            inbound: Inbound::new(esp_port),
            policy,
            rules: SpdRules::naming(registry.suites(), classes),
            app,
            way: options.way,
            hex: options.hex,
            esp_port,
            port_said: config.map(|config| config.esp.port),
            pool: Pool::new(engine::BUF_CAPACITY, engine::HEADROOM, 16),
            local: options.local.clone(),
            now: Time::default(),
            fragments: Fragments::default(),
            next_id: 1,
            associations_decide: false,
            lives: Lives::default(),
            sent: Vec::new(),
            opened: Vec::new(),
            batch: batch::Batch::default(),
        };
        if let Some((name, file)) = file {
            let path_mtu = config.and_then(|config| config.esp.path_mtu);
            replay.add_file(name, file, &options.local, path_mtu, registry)?;
        }
        if config.is_none() && replay.rules.is_empty() {
            replay.associations_decide = true;
            let covered = replay.inbound.sad().list().map(|sa| sa.config().effective_selectors());
            let covered: Vec<_> = covered.collect();
            replay.rules.add_associations_decide(covered.iter());
        }
        if config.is_none() {
            replay.rules.close_outbound();
        }
        let icmp = config.map(|config| config.icmp.clone()).unwrap_or_default();
        replay.outbound.set_icmp(IcmpPolicy { port: replay.esp_port, ..icmp.outer });
        replay.inbound.set_icmp(icmp.inner);
        let tunnels_from = config.map(|config| config.tunnels_from.clone()).unwrap_or_default();
        replay.inbound.take_tunnels_from(tunnels_from);
        replay.outbound.set_rules(replay.rules.snapshot());
        replay.inbound.set_rules(replay.rules.snapshot());
        Ok(replay)
    }

    /// One frame; the packets that the engine made of it go to `write`.
    ///
    /// # Errors
    /// If `write` does not take them.
    pub fn frame(
        &mut self,
        index: u64,
        frame: &Frame,
        write: &mut Write<'_>,
    ) -> Result<ReplayLine, ReplayError> {
        let mut line = line(index, frame, None);
        let now = frame.clock();
        self.pass_time(now);
        let Some(bytes) = frame.said_ip() else {
            if let LinkType::Other(number) = frame.link {
                line.reason = Some(format!("link_type_{number}"));
            }
            return Ok(line);
        };
        let headers = Headers::parse(bytes).ok();
        line.source = headers.as_ref().map(|h| h.src);
        line.destination = headers.as_ref().map(|h| h.dst);
        let Some(headers) = headers else {
            // The engine says what is wrong with it.
            let half = if self.way == HalfChoice::In { Half::Open } else { Half::Send };
            self.take(half, now, bytes, None, &mut line, write)?;
            return Ok(line);
        };
        let key = fragments::Key::of(&headers);
        let Some(half) = self.half(bytes, &headers, key, now) else {
            return Ok(self.park(key, now, bytes, line));
        };
        for parked in key.map(|key| self.fragments.unpark(key)).unwrap_or_default() {
            self.take_parked(half, parked)?;
        }
        self.take(half, now, bytes, Some(&headers), &mut line, write)?;
        Ok(line)
    }

    /// Second lines of fragments that waited in vain, since this was last called. A fragment has a line when it comes, which says
    /// `hold`; this one says why its packet never was whole.
    pub fn take_ended(&mut self) -> Vec<ReplayLine> {
        self.fragments.take_ended()
    }

    /// The capture is over: nothing that waits can become whole. Ask for [`Replay::take_ended`] afterwards.
    pub fn finish(&mut self) {
        let before = self.lost();
        let end = fragments::much_later(self.now);
        self.outbound.expire(end, &mut self.pool, &mut self.sent);
        self.sent.clear();
        self.inbound.expire(end);
        let after = self.lost();
        self.fragments.finish(|direction| after.of(direction) - before.of(direction));
    }

    /// Where a packet goes. `None`: a fragment of a packet whose first one has not come yet.
    fn half(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        key: Option<fragments::Key>,
        now: Time,
    ) -> Option<Half> {
        let for_us = match self.sides(headers) {
            Ok(for_us) => for_us,
            Err(half) => return Some(half),
        };
        let protected = self.is_protected(bytes, headers, for_us);
        let protected = match key.filter(|_| headers.version == 6 || headers.protocol == protocol::UDP) {
            Some(key) => self.fragments.is_protected(key, headers, protected, now)?,
            None => protected,
        };
        Some(half(protected, for_us))
    }

    /// The half for a packet that is no fragment; [`Self::half`] is for any.
    fn half_of_whole(&self, bytes: &[u8], headers: &Headers) -> Half {
        match self.sides(headers) {
            Ok(for_us) => half(self.is_protected(bytes, headers, for_us), for_us),
            Err(half) => half,
        }
    }

    /// Whether a packet is for this host, as far as addresses say it.
    ///
    /// # Errors
    /// Where it goes, if that is known already.
    fn sides(&self, headers: &Headers) -> Result<Option<bool>, Half> {
        match self.way {
            HalfChoice::In => Ok(Some(true)),
            HalfChoice::Out => Err(Half::Send),
            HalfChoice::Auto if self.local.contains(&headers.dst) => Ok(Some(true)),
            HalfChoice::Auto if self.local.contains(&headers.src) => Err(Half::Send),
            HalfChoice::Auto => Ok(None),
        }
    }

    fn is_protected(&self, bytes: &[u8], headers: &Headers, for_us: Option<bool>) -> bool {
        match headers.protocol {
            protocol::ESP | protocol::AH => true,
            protocol::UDP => fragments::is_udp_to(headers, bytes, self.esp_port),
            // Of use only inside an association that has a key: the engine says so.
            protocol::IPCOMP | protocol::IPV4 | protocol::IPV6 => {
                for_us == Some(true) && self.has_member(headers.dst, headers.src)
            }
            _ => false,
        }
    }

    /// Whether there is a member of a bundle without key between these hosts.
    fn has_member(&self, local: IpAddr, remote: IpAddr) -> bool {
        self.inbound.sad().list().any(|sa| {
            let config = sa.config();
            let ends = (config.endpoints.local, config.endpoints.remote);
            !config.options.protocol.is_keyed() && ends == (local, remote)
        })
    }

    /// A packet through its half of the engine.
    fn take(
        &mut self,
        half: Half,
        now: Time,
        bytes: &[u8],
        headers: Option<&Headers>,
        line: &mut ReplayLine,
        write: &mut Write<'_>,
    ) -> Result<(), ReplayError> {
        let before = self.lost();
        match half {
            Half::Open => {
                line.direction = ReplayDirection::Inbound;
                let packet = Packet::raw(self.buffer(bytes), Meta::default());
                self.inbound.handle(now, packet, &mut self.pool, &mut self.opened);
                self.report_inbound(now, headers, line, write)?;
            }
            Half::Arrive => {
                line.direction = ReplayDirection::Inbound;
                self.arrive(now, bytes, headers, line, write)?;
            }
            Half::Send => {
                line.direction = ReplayDirection::Outbound;
                let mark = record::STAMPED | u32::from(self.app.0);
                let meta = Meta { app: self.app, mark, ..Meta::default() };
                let packet = Packet::from_host(self.buffer(bytes), meta);
                self.outbound.handle(now, packet, &mut self.pool, &mut self.sent);
                self.outbound.flush(&mut self.pool, &mut self.sent);
                self.report_outbound(bytes, headers, line, write)?;
            }
        }
        let after = self.lost();
        // The half of the engine that holds clear fragments is the outbound one.
        let side = if half == Half::Open { ReplayDirection::Inbound } else { ReplayDirection::Outbound };
        let lost = after.of(side) - before.of(side);
        self.settle_fragments(now, headers, line, side, lost);
        Ok(())
    }

    /// Let the capture's time pass.
    fn pass_time(&mut self, now: Time) {
        self.now = now;
        self.lives.begin(now, &mut self.outbound, &mut self.inbound);
        let before = self.lost();
        self.outbound.expire(now, &mut self.pool, &mut self.sent);
        // Nothing waits for associations here.
        self.sent.clear();
        self.inbound.expire(now);
        self.lives.mourn(&mut self.outbound, &mut self.inbound);
        let after = self.lost();
        self.fragments.expire(now, |direction| after.of(direction) - before.of(direction));
    }

    /// A packet in a buffer with room for whatever associations put around it, or make of it.
    fn buffer(&mut self, bytes: &[u8]) -> Buf {
        let mut buf = self.pool.take();
        match buf.push_back(bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            // A frame longer than any IP packet; its header says how much counts.
            None => buf = Buf::from_slice(bytes, engine::HEADROOM, engine::TAILROOM),
        }
        buf
    }
}

/// A line about a frame of which nothing is known yet.
fn line(index: u64, frame: &Frame, headers: Option<&Headers>) -> ReplayLine {
    ReplayLine {
        index,
        time: frame.time.as_secs_f64(),
        direction: ReplayDirection::Outbound,
        verdict: ReplayVerdict::Skip,
        reason: None,
        source: headers.map(|headers| headers.src),
        destination: headers.map(|headers| headers.dst),
        application: None,
        rule: None,
        spd_rule: None,
        spi: None,
        sequence: None,
        written: 0,
        packets: Vec::new(),
    }
}

/// Where a packet goes.
fn half(protected: bool, for_us: Option<bool>) -> Half {
    match (protected, for_us) {
        (true, _) => Half::Open,
        (false, Some(true)) => Half::Arrive,
        (false, _) => Half::Send,
    }
}

fn policy_of(config: &Config) -> Result<Compiled, ReplayError> {
    let bad = |text: String| ReplayError::BadInput(text);
    let name = config.policy.display().to_string();
    let octets = std::fs::read(&config.policy).map_err(|source| bad(format!("{name}: {source}")))?;
    let host = HostFiles::here(&config.crypto.ciphers.suites, &config::classes_of(config));
    let parsed = policy::parse_bytes_for(&name, &octets, &host);
    if parsed.tests_failed() {
        let text = parsed.render(false);
        return Err(bad(format!("{name}: its tests fail, so nothing of it is loaded\n{text}")));
    }
    if parsed.diagnostics.iter().any(|found| found.severity == policy::Severity::Error) {
        return Err(bad(parsed.render(false).trim_end().to_owned()));
    }
    let mut compiled = policy::compile(&parsed, &mut AppTable::new(), 1);
    // Nobody was asked for the addresses of host names.
    compiled.resolve(&Names::default());
    Ok(compiled)
}

/// A process for a cipher of one's own, as the daemon has one.
fn start_worker(examined: &Examined, _: Duration) -> Result<StartedWorker, String> {
    let program = Trial::own([WORKER_COMMAND]);
    // Nobody waits for packets here, and every replay is to give the same ones.
    let patient = Duration::from_secs(1);
    let settings = Settings { deadline: patient, key_deadline: patient, ..Settings::default() };
    let isolated = Isolated::start(&program, examined, settings, |_| ());
    let isolated = Arc::new(isolated.map_err(|error| error.to_string())?);
    let state = || WorkerState { is_up: true, text: String::new(), counts: Default::default() };
    let keys = isolated.keys();
    let answers = isolated.for_answers();
    Ok(StartedWorker { cipher: isolated, answers, state: Box::new(state), settle: Box::new(|| ()), keys })
}

/// Replay a capture file into another; `line` hears of every packet.
///
/// # Errors
/// [`ReplayError`].
pub fn run(
    config: Option<&Config>,
    options: &ReplayOptions,
    file: Option<(&str, &mut dyn Read)>,
    line: &mut dyn FnMut(&ReplayLine) -> std::io::Result<()>,
) -> Result<ReplaySummary, ReplayError> {
    let mut crypto = config.map(|config| config.crypto.clone()).unwrap_or_default();
    crypto.legacy |= options.legacy;
    let registry = documents::crypto_units::untimed(&crypto, &mut start_worker).map_err(ReplayError::from)?;
    let mut replay = Replay::new(config, &options.engine, file, &registry)?;
    let mut reader = Reader::open(&options.input)?;
    if let Some(output) = &options.output {
        different(&options.input, output, "--out").map_err(ReplayError::BadInput)?;
    }
    let mut writer = options.output.as_deref().map(Writer::create).transpose()?;
    let mut summary = ReplaySummary::default();
    let mut write = |time: Duration, bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        match &mut writer {
            Some(writer) => Ok(writer.write(time, bytes, length)?),
            None => Ok(()),
        }
    };
    let mut tell = |summary: &mut ReplaySummary, replay: &mut Replay, verdicts: &[ReplayLine]| {
        for verdict in replay.take_ended().iter().chain(verdicts) {
            summary.written += u64::from(verdict.written);
            summary.dropped += u64::from(verdict.verdict == ReplayVerdict::Drop);
            line(verdict)?;
        }
        Ok::<(), ReplayError>(())
    };
    while let Some(frame) = reader.next_frame()? {
        summary.packets += 1;
        summary.unread += u64::from(matches!(frame.link, LinkType::Other(_)));
        let time = frame.time;
        let verdicts = if options.engine.gather {
            replay.gather(summary.packets, frame, &mut write)?
        } else {
            vec![replay.frame(summary.packets, &frame, &mut |bytes| write(time, bytes))?]
        };
        tell(&mut summary, &mut replay, &verdicts)?;
    }
    let verdicts = replay.flush(&mut write)?;
    tell(&mut summary, &mut replay, &verdicts)?;
    replay.finish();
    for verdict in replay.take_ended() {
        summary.dropped += 1;
        line(&verdict)?;
    }
    if let Some(writer) = writer {
        writer.finish()?;
    }
    Ok(summary)
}
