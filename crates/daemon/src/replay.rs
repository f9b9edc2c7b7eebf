//! The offline door: packets of a capture through the same engine, in the capture's own time, without root, daemon or clock.
//!
//! What enters: a configuration with its policy, a capture, keys for the associations. What leaves: the packets that the
//! engine made, as a capture, and one [`ReplayLine`] per packet. ESP packets (protocol 50, or UDP on the ESP port) go
//! inbound, all others outbound as packets of one application. The same input gives the same output, octet for octet.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::{ReplayDirection, ReplayLine, ReplaySummary, ReplayVerdict, SaAdd};
use crypto::Secret;
use crypto_std::KeyedFingerprint;
use engine::{Inbound, InboundOutcome, Outbound, Outcome};
use netio::pcap::{Frame, Reader, Writer};
use sadb::sa::OutboundState;
use sadb::spd::RuleId;
use sadb::{InboundSa, OutboundSa};
use wire::ip::{self, Headers};
use wire::{AppId, Buf, DropReason, Meta, Packet, Pool, protocol, record};
use zeroize::Zeroizing;

use crate::associations::{self, Defaults};
use crate::config::Config;
use crate::crypto_units;
use crate::keys::{Keys, KeysError};
use crate::policy_store::{self, Candidate, PolicyStore};

/// The longest keys file that is read.
const MAX_KEYS: u64 = 16 << 20;
/// Fragmented packets whose way is remembered.
const MAX_FRAGMENTED: usize = 4096;

/// What to replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The capture.
    pub input: PathBuf,
    /// Where the engine's packets go.
    pub output: PathBuf,
    /// The application that packets of programs belong to; `None`: none.
    pub app: Option<String>,
}

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The policy, the keys file or an argument is not as it must be.
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
    policy: Candidate,
    app: AppId,
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
    /// With this configuration, and keys from `keys`: one JSON object a line, as POST `/v1/sa` takes it. `name` names them
    /// in errors.
    ///
    /// # Errors
    /// [`ReplayError::BadInput`] with file and line.
    pub fn new(
        config: &Config,
        app: Option<&str>,
        keys: Option<(&str, &mut dyn Read)>,
    ) -> Result<Replay, ReplayError> {
        let bad = |text: String| ReplayError::BadInput(text);
        let store = PolicyStore::new(&config.policy, None).map_err(|error| bad(error.to_string()))?;
        let policy = store.read().map_err(|error| bad(error.to_string()))?;
        if policy.errors > 0 {
            return Err(bad(policy.diagnostics.trim_end().to_owned()));
        }
        let app = match app {
            None => AppId::NONE,
            Some(name) => policy.compiled.find(name).map(|found| found.id).ok_or_else(|| {
                let file = config.policy.display();
                bad(format!(
                    "{file} has no block for application {name:?}; `ravelin policy check` lists those it has"
                ))
            })?,
        };
        let mut replay = Replay {
            // The same seed every time: so is the output.
            outbound: Outbound::new(Arc::new(policy.compiled.spd.clone()), 0),
            inbound: Inbound::new(config.esp.port),
            policy,
            app,
            esp_port: config.esp.port,
            pool: Pool::new(engine::BUF_CAPACITY, engine::HEADROOM, 16),
            esp_fragments: BTreeSet::new(),
            sent: Vec::new(),
            opened: Vec::new(),
        };
        if let Some((name, keys)) = keys {
            replay.add_keys(name, keys, config)?;
        }
        Ok(replay)
    }

    fn add_keys(&mut self, name: &str, keys: &mut dyn Read, config: &Config) -> Result<(), ReplayError> {
        let mut text = Zeroizing::new(String::with_capacity(64 << 10));
        let read = keys.take(MAX_KEYS).read_to_string(&mut text);
        read.map_err(|error| ReplayError::BadInput(format!("{name}: {error}")))?;
        let registry = crypto_units::untimed(&config.crypto).map_err(KeysError::from)?;
        let mut book = Keys::import(registry, Secret::new(vec![0; KeyedFingerprint::KEY_LEN]), &[])?;
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let at = |text: String| ReplayError::BadInput(format!("{name}:{}: {text}", index + 1));
            let request: SaAdd = serde_json::from_str(line).map_err(|error| {
                // Its message may quote the key.
                at(format!("column {}: this is not an association; see ravelin(1), REPLAY", error.column()))
            })?;
            self.add_sa(request, config.esp.path_mtu, &mut book).map_err(|refused| {
                at(refused
                    .remedy
                    .map_or(refused.message.clone(), |remedy| format!("{}; {remedy}", refused.message)))
            })?;
        }
        Ok(())
    }

    fn add_sa(
        &mut self,
        request: SaAdd,
        path_mtu: Option<u16>,
        book: &mut Keys,
    ) -> Result<(), crate::refused::Refused> {
        use crate::refused::{Fault, Refused};
        let spi = associations::requested_spi(&request)?.ok_or_else(|| {
            Refused::new(Fault::BadRequest, "\"auto\" is no SPI here")
                .remedy("give the one that the capture has")
        })?;
        let compiled = &self.policy.compiled;
        let app = |name: &str| compiled.find(name).map(|found| found.id);
        let sequence = request.sequence;
        let config = associations::configuration(request, spi, &Defaults { path_mtu, app: &app, random: 0 })?;
        // Nothing that was admitted here is ever withdrawn: an error ends the replay.
        let _admission = book.admit(&config)?;
        match config.direction {
            sadb::Direction::Inbound => {
                let mut sa = InboundSa::new(config, &book.registry)?;
                if let Some(top) = sequence.filter(|top| *top > 0) {
                    let _ = sa.replay.commit(top);
                }
                self.inbound.add_sa(sa)?;
            }
            sadb::Direction::Outbound => {
                let mut sa = OutboundSa::new(config, &book.registry)?;
                if let Some(next_sequence) = sequence {
                    let state = OutboundState { next_sequence, ..sa.export() };
                    sa = OutboundSa::import(state, &book.registry)?;
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
            spi: None,
            sequence: None,
            written: 0,
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
        if headers.is_some_and(|headers| self.is_esp(bytes, &headers)) {
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

    fn is_esp(&mut self, bytes: &[u8], headers: &Headers) -> bool {
        let flow = ip::flow(bytes, headers, false);
        let by_port = headers.protocol == protocol::UDP
            && (flow.local_port == self.esp_port || flow.remote_port == self.esp_port);
        let esp = headers.protocol == protocol::ESP || by_port;
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
        line.application = self.policy.compiled.application(app).map(|found| found.name.clone());
        line.rule = policy_store::rule_position(&self.policy.compiled, RuleId(rule));
        line.spi = (spi != 0).then_some(api::Spi(spi));
        line.sequence = (sequence != 0).then_some(sequence);
    }
}

/// Replay a capture file into another; `line` hears of every packet.
///
/// # Errors
/// [`ReplayError`].
pub fn run(
    config: &Config,
    options: &ReplayOptions,
    keys: Option<(&str, &mut dyn Read)>,
    line: &mut dyn FnMut(&ReplayLine) -> std::io::Result<()>,
) -> Result<ReplaySummary, ReplayError> {
    let mut replay = Replay::new(config, options.app.as_deref(), keys)?;
    let mut reader = Reader::open(&options.input)?;
    let mut writer = create(&options.output)?;
    let mut summary = ReplaySummary::default();
    while let Some(frame) = reader.next_frame()? {
        summary.packets += 1;
        let time = frame.time;
        let verdict = replay.frame(summary.packets, &frame, &mut |bytes| {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            Ok(writer.write(time, bytes, length)?)
        })?;
        summary.written += u64::from(verdict.written);
        summary.dropped += u64::from(verdict.verdict == ReplayVerdict::Drop);
        line(&verdict)?;
    }
    writer.finish()?;
    Ok(summary)
}

fn create(path: &Path) -> Result<Writer<BufWriter<File>>, ReplayError> {
    Ok(Writer::create(path)?)
}
