//! The offline door: packets of a capture through the same engine, in the capture's own time, without root, daemon or clock.
//!
//! What enters: a capture, associations with their keys and rules (JSON lines, or the language of setkey), perhaps a
//! configuration with its policy. What leaves: the packets that the engine made, as a capture, and one [`ReplayLine`] per
//! packet. ESP and AH packets (protocols 50 and 51, or UDP on the ESP port) go inbound, all others outbound as packets of one
//! application, unless the caller says which way. The same input gives the same output, octet for octet.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::{ReplayDirection, ReplayLine, ReplaySummary, ReplayVerdict, SaAdd};
use crypto::Registry;
use engine::{Inbound, InboundOutcome, Outbound, Outcome};
use netio::pcap::{Frame, Reader, Writer};
use policy::Compiled;
use sadb::sa::{OutboundState, Padding};
use sadb::spd::RuleId;
use sadb::{InboundSa, OutboundSa};
use wire::ip::{self, Headers};
use wire::{AppId, Buf, DropReason, Meta, Packet, Pool, protocol, record};
use zeroize::Zeroizing;

use crate::associations::{self, Defaults};
use crate::config::{Config, ESP_PORT, without_keys};
use crate::import::{self, Ends, What};
use crate::keys::KeysError;
use crate::policy_store::{self, PolicyStore};
use crate::refused::{Fault, Refused};
use crate::rules::RuleBook;

/// Fragmented packets whose way is remembered.
const MAX_FRAGMENTED: usize = 4096;

/// Which half of the engine packets go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// What is ESP or AH inbound, everything else outbound.
    #[default]
    Auto,
    /// All inbound.
    In,
    /// All outbound.
    Out,
}

/// What to replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The capture.
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
    pub way: Way,
    /// This host's addresses, for files of setkey; empty: such a file speaks for both hosts.
    pub local: Vec<IpAddr>,
    /// Put the engine's packets into the lines as well.
    pub hex: bool,
}

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The policy, the file of associations or an argument is not as it must be.
    #[error("{0}")]
    BadInput(String),
    /// A file.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// The machine.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// Whoever takes the lines does not.
    #[error("{0}")]
    Line(#[from] std::io::Error),
}

/// The engine with everything it needs offline.
pub struct Replay {
    policy: Compiled,
    rules: RuleBook,
    app: AppId,
    way: Way,
    hex: bool,
    esp_port: u16,
    outbound: Outbound,
    inbound: Inbound,
    pool: Pool,
    /// Source, destination and number of fragmented packets that began as ESP.
    esp_fragments: BTreeSet<(IpAddr, IpAddr, u32)>,
    sent: Vec<Outcome>,
    opened: Vec<InboundOutcome>,
}

impl Replay {
    /// With the associations and rules of `file` (see [`import`]); `name` names it in errors. With a configuration its policy
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
        let esp_port = config.map_or(ESP_PORT, |config| config.esp.port);
        let mut replay = Replay {
            // The same seed every time: so is the output.
            outbound: Outbound::new(Arc::new(policy.spd.clone()), 0),
            inbound: Inbound::new(esp_port),
            policy,
            rules: RuleBook::default(),
            app,
            way: options.way,
            hex: options.hex,
            esp_port,
            pool: Pool::new(engine::BUF_CAPACITY, engine::HEADROOM, 16),
            esp_fragments: BTreeSet::new(),
            sent: Vec::new(),
            opened: Vec::new(),
        };
        if let Some((name, file)) = file {
            let path_mtu = config.and_then(|config| config.esp.path_mtu);
            replay.add_file(name, file, &options.local, path_mtu, registry)?;
        }
        if config.is_none() && replay.rules.is_empty() {
            replay.rules.add_associations_decide();
        }
        replay.outbound.set_rules(replay.rules.snapshot());
        replay.inbound.set_rules(replay.rules.snapshot());
        Ok(replay)
    }

    fn add_file(
        &mut self,
        name: &str,
        file: &mut dyn Read,
        local: &[IpAddr],
        path_mtu: Option<u16>,
        registry: &Registry,
    ) -> Result<(), ReplayError> {
        let mut text = Zeroizing::new(String::with_capacity(64 << 10));
        let read = file.take(import::MAX_FILE).read_to_string(&mut text);
        read.map_err(|error| ReplayError::BadInput(format!("{name}: {error}")))?;
        let ends = if local.is_empty() { Ends::Both } else { Ends::Local(local) };
        let entries =
            import::read(&text, ends).map_err(|error| ReplayError::BadInput(format!("{name}:{error}")))?;
        for entry in entries {
            let added = match entry.what {
                What::Sa(request) => self.add_sa(*request, path_mtu, registry),
                What::Rule(request) => self.rules.add(&request).map(drop),
                // There is nothing yet.
                What::FlushSas | What::FlushRules => Ok(()),
            };
            added.map_err(|refused| {
                let text = match &refused.remedy {
                    Some(remedy) => format!("{}; {remedy}", refused.message),
                    None => refused.message,
                };
                ReplayError::BadInput(format!("{name}:{}: {}", entry.line, without_keys(&text)))
            })?;
        }
        Ok(())
    }

    /// No book of used keys: what is replayed reaches no wire, and one key at both ends is what a file for both hosts has.
    fn add_sa(&mut self, request: SaAdd, path_mtu: Option<u16>, registry: &Registry) -> Result<(), Refused> {
        let spi = associations::requested_spi(&request)?.ok_or_else(|| {
            Refused::new(Fault::BadRequest, "\"auto\" is no SPI here")
                .remedy("give the one that the capture has")
        })?;
        let policy = &self.policy;
        let app = |name: &str| policy.find(name).map(|found| found.id);
        let sequence = request.sequence;
        // As other implementations pad, so that packets can be compared.
        let padding = Padding::Least;
        let defaults =
            Defaults { path_mtu, keepalive: crate::config::KEEPALIVE, app: &app, random: 0, padding };
        let config = associations::configuration(request, spi, &defaults)?;
        match config.direction {
            sadb::Direction::Inbound => {
                let mut sa = InboundSa::new(config, registry)?;
                if let Some(top) = sequence.filter(|top| *top > 0) {
                    let _ = sa.replay.commit(top);
                }
                self.inbound.add_sa(sa)?;
            }
            sadb::Direction::Outbound => {
                let mut sa = OutboundSa::new(config, registry)?;
                if let Some(next_sequence) = sequence {
                    let state = OutboundState { next_sequence, ..sa.export() };
                    sa = OutboundSa::import(state, registry)?;
                }
                self.outbound.add_sa(sa)?;
            }
        }
        Ok(())
    }

    /// One frame; the packets that the engine made of it go to `write`.
    ///
    /// # Errors
    /// If `write` does not take them.
    pub fn frame(
        &mut self,
        index: u64,
        frame: &Frame,
        write: &mut dyn FnMut(&[u8]) -> Result<(), ReplayError>,
    ) -> Result<ReplayLine, ReplayError> {
        let mut line = ReplayLine {
            index,
            time: frame.time.as_secs_f64(),
            direction: ReplayDirection::Outbound,
            verdict: ReplayVerdict::Skip,
            reason: None,
            source: None,
            destination: None,
            application: None,
            rule: None,
            spd_rule: None,
            spi: None,
            sequence: None,
            written: 0,
            packets: Vec::new(),
        };
        let Some(bytes) = frame.ip() else { return Ok(line) };
        let headers = Headers::parse(bytes).ok();
        line.source = headers.as_ref().map(|h| h.src);
        line.destination = headers.as_ref().map(|h| h.dst);
        let buf = Buf::from_slice(bytes, engine::HEADROOM, engine::TAILROOM);
        let now = frame.clock();
        self.outbound.expire(now, &mut self.pool, &mut self.sent);
        self.sent.clear();
        self.inbound.expire(now);
        let inbound = match self.way {
            Way::In => true,
            Way::Out => false,
            Way::Auto => headers.is_some_and(|headers| self.is_protected(bytes, &headers)),
        };
        if inbound {
            line.direction = ReplayDirection::Inbound;
            self.inbound.handle(now, Packet::raw(buf, Meta::default()), &mut self.pool, &mut self.opened);
            self.report_inbound(&mut line, write)?;
        } else {
            let mark = record::STAMPED | u32::from(self.app.0);
            let meta = Meta { app: self.app, mark, ..Meta::default() };
            self.outbound.handle(now, Packet::from_host(buf, meta), &mut self.pool, &mut self.sent);
            self.report_outbound(&mut line, write)?;
        }
        Ok(line)
    }

    fn is_protected(&mut self, bytes: &[u8], headers: &Headers) -> bool {
        let flow = ip::flow(bytes, headers, false);
        let by_port = headers.protocol == protocol::UDP
            && (flow.local_port == self.esp_port || flow.remote_port == self.esp_port);
        let esp = matches!(headers.protocol, protocol::ESP | protocol::AH) || by_port;
        let Some(fragment) = headers.fragment else { return esp };
        // Ports are in the first fragment only.
        let key = (headers.src, headers.dst, fragment.id);
        if esp && self.esp_fragments.len() < MAX_FRAGMENTED {
            self.esp_fragments.insert(key);
        }
        esp || self.esp_fragments.contains(&key)
    }

    fn report_outbound(
        &mut self,
        line: &mut ReplayLine,
        write: &mut dyn FnMut(&[u8]) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        for outcome in std::mem::take(&mut self.sent) {
            let (verdict, meta, bytes) = match &outcome {
                Outcome::Send(packet) => (ReplayVerdict::Protect, packet.meta, packet.bytes()),
                // This engine gathers nothing.
                Outcome::Burst(_) => continue,
                Outcome::Clear(packet) => (ReplayVerdict::Bypass, packet.meta, packet.bytes()),
                Outcome::Reply(packet, _) => (ReplayVerdict::Reply, packet.meta, packet.bytes()),
                Outcome::Held(_) => {
                    line.verdict = ReplayVerdict::Hold;
                    continue;
                }
                Outcome::Drop(dropped) => {
                    self.ended(line, dropped);
                    continue;
                }
            };
            write(bytes)?;
            line.written += 1;
            if self.hex {
                line.packets.push(hex(bytes));
            }
            if line.verdict == ReplayVerdict::Skip {
                line.verdict = verdict;
                self.known(line, meta.app, meta.rule, meta.spi, meta.sequence);
            }
        }
        Ok(())
    }

    fn report_inbound(
        &mut self,
        line: &mut ReplayLine,
        write: &mut dyn FnMut(&[u8]) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        for outcome in std::mem::take(&mut self.opened) {
            match outcome {
                InboundOutcome::Deliver(packet, _) => {
                    write(packet.bytes())?;
                    line.written += 1;
                    if self.hex {
                        line.packets.push(hex(packet.bytes()));
                    }
                    line.verdict = ReplayVerdict::Deliver;
                    let meta = packet.meta;
                    self.known(line, meta.app, meta.rule, meta.spi, meta.sequence);
                    self.pool.put(packet.into_buf());
                }
                InboundOutcome::Drop(dropped) => self.ended(line, &dropped),
            }
        }
        Ok(())
    }

    /// The packet, or a part of it, ended. A part that went on keeps its verdict.
    fn ended(&self, line: &mut ReplayLine, dropped: &engine::Dropped) {
        let held = dropped.reason == DropReason::FragmentHeld;
        line.reason = Some(dropped.reason.name().to_owned());
        if line.verdict == ReplayVerdict::Skip {
            line.verdict = if held { ReplayVerdict::Hold } else { ReplayVerdict::Drop };
        }
        self.known(line, dropped.app, dropped.rule, dropped.spi, dropped.sequence);
    }

    fn known(&self, line: &mut ReplayLine, app: AppId, rule: u32, spi: u32, sequence: u64) {
        line.application = self.policy.application(app).map(|found| found.name.clone());
        line.rule = policy_store::rule_position(&self.policy, RuleId(rule));
        line.spd_rule = self.rules.name_of(rule);
        line.spi = (spi != 0).then_some(api::Spi(spi));
        line.sequence = (sequence != 0).then_some(sequence);
    }
}

fn policy_of(config: &Config) -> Result<Compiled, ReplayError> {
    let bad = |text: String| ReplayError::BadInput(text);
    let store = PolicyStore::new(&config.policy, None).map_err(|error| bad(error.to_string()))?;
    let policy = store.read().map_err(|error| bad(error.to_string()))?;
    if policy.errors > 0 {
        return Err(bad(policy.diagnostics.trim_end().to_owned()));
    }
    Ok(policy.compiled)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, octet| {
        // Into a string: this cannot fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
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
    let registry = crate::crypto_units::untimed(&crypto).map_err(KeysError::from)?;
    let mut replay = Replay::new(config, &options.engine, file, &registry)?;
    let mut reader = Reader::open(&options.input)?;
    let mut writer = options.output.as_deref().map(Writer::create).transpose()?;
    let mut summary = ReplaySummary::default();
    while let Some(frame) = reader.next_frame()? {
        summary.packets += 1;
        let time = frame.time;
        let verdict = replay.frame(summary.packets, &frame, &mut |bytes| {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            match &mut writer {
                Some(writer) => Ok(writer.write(time, bytes, length)?),
                None => Ok(()),
            }
        })?;
        summary.written += u64::from(verdict.written);
        summary.dropped += u64::from(verdict.verdict == ReplayVerdict::Drop);
        line(&verdict)?;
    }
    if let Some(writer) = writer {
        writer.finish()?;
    }
    Ok(summary)
}
