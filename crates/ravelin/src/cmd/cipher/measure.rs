//! `ravelin cipher bench`: what a cipher costs on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::{CipherCost, CipherIsolation, CipherLength, CipherMeasured, CipherMix};
use cipher_kit::bench::{self, BATCH, BenchError};
use cipher_loader::{Loaded, Trial};
use cipher_worker::{Isolated, Settings};
use clap::Args;
use crypto::custom::CustomCipher;
use crypto::{SuiteId, Suites};
use crypto_maes::Maes512;
use documents::ciphers::WORKER_COMMAND;

use super::check::unusable;
use super::target::{Target, examined, trial};
use crate::exit::{Failure, Kind};
use crate::output;

/// Measure a cipher in each isolation: a key, and packets of 64 to 8192 octets, the cipher alone and whole packets of a
/// suite.
///
/// A library is measured in this process (`none`) and in a worker process, with key stream that is computed ahead and
/// with a call for each batch. Each figure is the median of seven turns; what else runs on the machine is in it. Cycles
/// are ticks of the processor's time stamp counter.
#[derive(Debug, Args)]
pub struct Bench {
    /// The manifest of the cipher, or `maes512` for the one that is compiled in.
    manifest: PathBuf,
    /// The suite whose packets are measured [default: counter mode, key stream or combined mode with SHA2-256].
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    /// A capture whose packets' lengths are the mix of a gateway.
    #[arg(long, value_name = "CAPTURE")]
    mix: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Sequence numbers that are left out behind a packet, so that a worker sees no series and computes nothing ahead.
const GAP: u64 = 1000;
/// The share of packets whose key stream was there, without which a length counts as one that is called for.
const AHEAD: f64 = 0.5;
/// The time that a worker has for a batch here. A late answer is a figure, not a failure.
const DEADLINE: Duration = Duration::from_millis(500);

impl Bench {
    pub fn execute(self) -> anyhow::Result<()> {
        let place = Place::of(&self.manifest)?;
        let mut suites = Suites::standard();
        let registered = suites.register(place.cipher().description(), place.transform_id(), true);
        registered.map_err(|error| Failure::bad_input(error.to_string()))?;
        let suite = match &self.suite {
            Some(name) => suites.find(name).map_err(|error| Failure::bad_input(error.to_string()))?,
            None => usual(&suites).ok_or_else(|| Failure::bad_input("the cipher makes no suite"))?,
        };
        let mut isolations = place.measure(&suites, suite)?;
        if let Some(capture) = &self.mix {
            let octets = octets(capture)?;
            for isolation in &mut isolations {
                isolation.mix = Some(mix(capture, &octets, &isolation.lengths));
            }
        }
        let cipher = place.cipher().description().name.clone();
        let measured = CipherMeasured { cipher, suite: suite.to_string(), isolations };
        if self.json { output::json(&measured) } else { output::text(&text(&measured)) }
    }
}

/// A cipher where its code runs.
enum Place {
    CompiledIn(Arc<dyn CustomCipher>),
    Library(Library),
}

/// A library in this process and in a worker process.
struct Library {
    here: Arc<dyn CustomCipher>,
    worker: Arc<Isolated>,
    transform_id: u16,
}

impl Place {
    fn of(manifest: &Path) -> anyhow::Result<Place> {
        let Target::Library(manifest) = Target::of(manifest) else {
            return Ok(Place::CompiledIn(Arc::new(Maes512::new())));
        };
        let (first, second) = (examined(&manifest)?, examined(&manifest)?);
        let transform_id = first.manifest.transform_id;
        let here = Loaded::after_trial(first, &trial()).map_err(|error| unusable(&error))?.cipher;
        let settings = Settings { deadline: DEADLINE, ..Settings::default() };
        let worker = Isolated::start(&Trial::own([WORKER_COMMAND]), &second, settings, |_| {});
        let worker = worker.map_err(|error| Failure::of(Kind::Failed, error.to_string()))?;
        Ok(Place::Library(Library { here, worker: Arc::new(worker), transform_id }))
    }

    fn cipher(&self) -> &Arc<dyn CustomCipher> {
        match self {
            Place::CompiledIn(cipher) => cipher,
            Place::Library(library) => &library.here,
        }
    }

    fn transform_id(&self) -> u16 {
        match self {
            Place::CompiledIn(_) => crypto_maes::TRANSFORM_ID,
            Place::Library(library) => library.transform_id,
        }
    }

    fn measure(&self, suites: &Suites, suite: SuiteId) -> anyhow::Result<Vec<CipherIsolation>> {
        let failed = |error: BenchError| Failure::of(Kind::Failed, error.to_string());
        let measure = |isolation: &str, cipher: &Arc<dyn CustomCipher>, gap: u64, alone: bool| {
            let bench = bench::Bench::new(Arc::clone(cipher), suites, suite, gap)?;
            let (setkey, lengths) = (bench.setkey()?, bench.lengths(alone)?);
            Ok(CipherIsolation { isolation: isolation.to_owned(), setkey, lengths, ahead: None, mix: None })
        };
        let library = match self {
            Place::CompiledIn(cipher) => {
                return Ok(vec![measure("compiled in", cipher, 0, true).map_err(failed)?]);
            }
            Place::Library(library) => library,
        };
        let there: Arc<dyn CustomCipher> = library.worker.clone();
        let mut isolations = vec![measure("none", &library.here, 0, true).map_err(failed)?];
        isolations.extend(ahead(&library.worker, suites, suite).map_err(failed)?);
        isolations.push(measure("worker, call", &there, GAP, true).map_err(failed)?);
        Ok(isolations)
    }
}

/// The costs where key stream was there when the packets came: lengths for which it was. `None` for suites that need the
/// data for their key stream, and have nothing to compute ahead.
fn ahead(
    worker: &Arc<Isolated>,
    suites: &Suites,
    suite: SuiteId,
) -> Result<Option<CipherIsolation>, BenchError> {
    let cipher: Arc<dyn CustomCipher> = worker.clone();
    let bench = bench::Bench::new(cipher, suites, suite, 0)?;
    let setkey = bench.setkey()?;
    let (mut lengths, mut there, mut all) = (Vec::new(), 0, 0);
    for octets in bench::LENGTHS {
        let before = worker.report();
        let length = bench.length(octets, false)?;
        let after = worker.report();
        let (counted, called) = (after.ahead - before.ahead, after.called - before.called);
        if counted as f64 > AHEAD * (counted + called) as f64 {
            lengths.push(length);
            there += counted;
            all += counted + called;
        }
    }
    let ahead = (all > 0).then(|| there as f64 / all as f64);
    let isolation = "worker, ahead".to_owned();
    Ok(ahead.map(|_| CipherIsolation { isolation, setkey, lengths, ahead, mix: None }))
}

/// The suite that is measured unless another one is asked for.
fn usual(suites: &Suites) -> Option<SuiteId> {
    let own = || suites.all().filter(|suite| suite.custom().is_some());
    let name = |suite: &SuiteId| suite.to_string();
    own().find(|suite| name(suite).ends_with("-sha256")).or_else(|| own().next())
}

/// The lengths of the packets in a capture.
fn octets(capture: &Path) -> anyhow::Result<Vec<u32>> {
    let bad = |error: netio::Error| Failure::bad_input(format!("{}: {error}", capture.display()));
    let mut reader = netio::pcap::Reader::open(capture).map_err(bad)?;
    let mut lengths = Vec::new();
    while let Some(frame) = reader.next_frame().map_err(bad)? {
        lengths.push(frame.original_len);
    }
    if lengths.is_empty() {
        return Err(Failure::bad_input(format!("{}: there is no packet in it", capture.display())));
    }
    Ok(lengths)
}

/// What a processor carries of packets of these lengths: between two measured lengths, costs grow in proportion.
fn mix(capture: &Path, octets: &[u32], lengths: &[CipherLength]) -> CipherMix {
    let (mut sum, mut seal, mut open) = (0.0, 0.0, 0.0);
    for len in octets.iter().map(|octets| f64::from(*octets)) {
        sum += len;
        seal += cost(lengths, len, |length| length.seal.ns);
        open += cost(lengths, len, |length| length.open.ns);
    }
    CipherMix {
        capture: capture.display().to_string(),
        packets: octets.len() as u64,
        mean_octets: sum / octets.len() as f64,
        seal_gbit: sum * 8.0 / seal,
        open_gbit: sum * 8.0 / open,
    }
}

/// Nanoseconds of a packet of this length, from those of the measured lengths around it; beyond them in proportion to
/// the last two.
fn cost(lengths: &[CipherLength], len: f64, of: impl Fn(&CipherLength) -> f64) -> f64 {
    let pairs = lengths.windows(2);
    let around = pairs.clone().find(|pair| len <= pair[1].octets as f64).or_else(|| pairs.last());
    let Some([low, high]) = around else { return 0.0 };
    let slope = (of(high) - of(low)) / (high.octets - low.octets) as f64;
    (of(low) + slope * (len - low.octets as f64)).max(1.0)
}

fn text(measured: &CipherMeasured) -> String {
    let mut out = format!(
        "{}, suite {}; one processor, batches of {BATCH}, each figure for one packet\n",
        measured.cipher, measured.suite
    );
    for isolation in &measured.isolations {
        out.push('\n');
        out.push_str(&isolation_text(isolation));
    }
    out
}

fn isolation_text(measured: &CipherIsolation) -> String {
    let cycles = |cost: &CipherCost| cost.cycles.map_or("-".to_owned(), |cycles| format!("{cycles:.0}"));
    let row = |length: &CipherLength| {
        let gbit = |cost: &CipherCost| format!("{:.2}", length.octets as f64 * 8.0 / cost.ns);
        let cipher = length.cipher.as_ref();
        vec![
            length.octets.to_string(),
            cipher.map_or("-".to_owned(), |cost| format!("{:.0}", cost.ns)),
            cipher.map_or("-".to_owned(), cycles),
            format!("{:.0}", length.seal.ns),
            cycles(&length.seal),
            format!("{:.0}", length.open.ns),
            cycles(&length.open),
            gbit(&length.seal),
            gbit(&length.open),
        ]
    };
    let rows: Vec<Vec<String>> = measured.lengths.iter().map(row).collect();
    let head = [
        "OCTETS",
        "CIPHER NS",
        "CYCLES",
        "SEAL NS",
        "CYCLES",
        "OPEN NS",
        "CYCLES",
        "SEAL GBIT/S",
        "OPEN GBIT/S",
    ];
    let mut out = format!("isolation {}: setkey {:.0} ns", measured.isolation, measured.setkey.ns);
    if let Some(cycles) = measured.setkey.cycles {
        out.push_str(&format!(", {cycles:.0} cycles"));
    }
    if let Some(ahead) = measured.ahead {
        out.push_str(&format!("; key stream was there for {:.0} % of the packets", ahead * 100.0));
    }
    out.push('\n');
    out.push_str(&output::table(&head, &rows));
    if let Some(mix) = &measured.mix {
        out.push_str(&format!(
            "{}: {} packets of {:.0} octets on average: one processor seals {:.2} Gbit/s and opens {:.2} Gbit/s\n",
            mix.capture, mix.packets, mix.mean_octets, mix.seal_gbit, mix.open_gbit
        ));
    }
    out
}
