//! The ciphers of one's own that a configuration names, made ready for use: compiled in, or loaded from their libraries.
//!
//! What enters: the `[[cipher]]` tables. What leaves: providers for the registry of suites, and a reason for each cipher
//! that is not used. No cipher keeps a daemon from starting: what needs its suites is refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub use cipher_loader::trial::child_main as trial_main;
use cipher_loader::{Examined, LoadError, Loaded, Trial, Trust, examine};
use cipher_manifest::{Digest, Vectors, vectors};
use config::{CipherSource, CiphersConfig, Isolation};
use crypto::custom::{CtrOp, CustomCipher, CustomKey, ctr_over_blocks};
use crypto::{CryptoError, Integrity, Provider, Registry, Secret, SuiteId, Suites, Transform, WorkerState};
use crypto_maes::Maes512;
use crypto_std::CustomProvider;

/// The hidden command of this program that tries a library in a process apart: it calls [`trial_main`].
pub const TRIAL_COMMAND: &str = "cipher-trial";

/// The hidden command of this program that is the process from which a cipher's workers are started.
pub const WORKER_COMMAND: &str = "cipher-worker";

/// How often a worker is asked for its known answers at the start, and the pause between two times.
const ATTEMPTS: usize = 30;
const PAUSE: Duration = Duration::from_millis(100);

/// The fingerprint of mAES-512 (docs/maes.md).
const MAES512: [u8; 32] = [
    0xbb, 0x38, 0xdc, 0x8f, 0x86, 0x9c, 0x81, 0xbd, 0xf6, 0x06, 0xf8, 0xeb, 0xee, 0x9f, 0x58, 0xa8, 0xed,
    0x53, 0x0b, 0xa9, 0x51, 0x95, 0xbd, 0x31, 0xe5, 0xa4, 0x4f, 0x0e, 0x94, 0x21, 0xca, 0x2a,
];

/// Add what the configuration names to a registry. Libraries are tried in processes apart, which takes some ten
/// milliseconds each, and starts programs: this comes before a process forbids itself to do so.
#[must_use]
pub fn add(ciphers: &CiphersConfig, registry: Registry, start: StartWorker<'_>) -> Registry {
    let suites = ciphers.suites.clone();
    let mut registry = registry.with_suites(suites.clone());
    for refused in &ciphers.refused {
        let name = refused.manifest.display().to_string();
        let why = format!("{}; {}", refused.why, refused.remedy);
        registry.leave_out("", CryptoError::CipherLeftOut { name, why });
    }
    for table in &ciphers.tables {
        let (name, made) = match &table.source {
            CipherSource::BuiltIn { name } => (*name, built_in(name)),
            CipherSource::Library { manifest, sha256, name: Some(name), isolation, deadline } => {
                (name.as_str(), library(manifest, *sha256, *isolation, *deadline, start))
            }
            CipherSource::Library { name: None, .. } => continue,
        };
        let provider = made.and_then(|made| Tested::new(made, &suites));
        registry = match provider {
            Ok(provider) => registry.with(provider),
            Err(why) => {
                let known = name_in(&suites, name);
                registry.leave_out(known, CryptoError::CipherLeftOut { name: name.to_owned(), why });
                registry
            }
        };
    }
    registry
}

/// The name of a cipher as the catalogue has it.
fn name_in(suites: &Suites, name: &str) -> &'static str {
    suites.all_modes().map(|mode| mode.cipher()).find(|known| *known == name).unwrap_or_default()
}

/// A cipher in a process of its own.
pub struct StartedWorker {
    /// The cipher, ready to make keys.
    pub cipher: Arc<dyn CustomCipher>,
    /// The same cipher as known answers are put to it, which have a key of their own.
    pub answers: Arc<dyn CustomCipher>,
    /// Asks for the state of the process.
    pub state: WorkerQuestion,
    /// Called when the start is over: until then the worker has more time for batches and keys.
    pub settle: Box<dyn Fn() + Send + Sync>,
    /// The number of keys that the process has room for.
    pub keys: usize,
}

/// Asks for the state of a worker.
pub type WorkerQuestion = Box<dyn Fn() -> WorkerState + Send + Sync>;

/// Starts a process for a library that was examined and has passed its trial. The room of workers is beside this one, so
/// that whoever uses both hands it in.
pub type StartWorker<'a> = &'a mut dyn FnMut(&Examined, Duration) -> Result<StartedWorker, String>;

/// A cipher, the answers that it must give, and the process that it runs in, if it has one of its own.
struct CipherWithAnswers {
    cipher: Arc<dyn CustomCipher>,
    known: KnownAnswers,
    worker: Option<RunningWorker>,
}

/// The process that a cipher runs in.
struct RunningWorker {
    answers: Arc<dyn CustomCipher>,
    state: WorkerQuestion,
    settle: Box<dyn Fn() + Send + Sync>,
    keys: usize,
    /// Times in turn that known answers did not come although the process was up.
    silent: AtomicU32,
}

/// The known answers of a cipher, beside the fingerprint that it had at the start.
enum KnownAnswers {
    /// The fingerprint of what it must compute.
    Fingerprint([u8; 32]),
    /// The vectors of its manifest.
    Vectors(Vectors),
}

fn built_in(name: &str) -> Result<CipherWithAnswers, String> {
    match name {
        Maes512::NAME => Ok(CipherWithAnswers {
            cipher: Arc::new(Maes512::new()),
            known: KnownAnswers::Fingerprint(MAES512),
            worker: None,
        }),
        other => Err(format!("{other} is not compiled in")),
    }
}

fn library(
    manifest: &Path,
    sha256: Digest,
    isolation: Isolation,
    deadline: Duration,
    start: StartWorker<'_>,
) -> Result<CipherWithAnswers, String> {
    let trial = Trial::own([TRIAL_COMMAND]);
    let told = |error: LoadError| format!("{error}; {}", error.remedy());
    let examined = examine(manifest, Some(sha256), Trust::Root).map_err(told)?;
    if isolation == Isolation::None {
        let loaded = Loaded::after_trial(examined, &trial).map_err(told)?;
        let known = KnownAnswers::Vectors(loaded.vectors);
        return Ok(CipherWithAnswers { cipher: loaded.cipher, known, worker: None });
    }
    let library = examined.manifest.library.file.clone();
    cipher_loader::trial::run(&trial, &examined).map_err(|why| told(LoadError::Trial { library, why }))?;
    let StartedWorker { cipher, answers, state, settle, keys } = start(&examined, deadline)?;
    let worker = Some(RunningWorker { answers, state, settle, keys, silent: AtomicU32::new(0) });
    Ok(CipherWithAnswers { cipher, known: KnownAnswers::Vectors(examined.vectors), worker })
}

/// The provider of a cipher with its known answers, which are put to it again while it is in use.
struct Tested {
    provider: CustomProvider,
    of: CipherWithAnswers,
}

impl Tested {
    /// The provider, if the cipher gives the answers that are known. A worker on a machine that starts everything at once
    /// may be late and start again, so it is asked several times.
    fn new(of: CipherWithAnswers, suites: &Suites) -> Result<Tested, String> {
        let attempts = if of.worker.is_some() { ATTEMPTS } else { 1 };
        let mut of = of;
        let mut why = String::new();
        for attempt in 0..attempts {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            match CustomProvider::new(Arc::clone(&of.cipher), suites) {
                Err(error) => why = error.to_string(),
                Ok(provider) => {
                    let tested = Tested { provider, of };
                    match tested.answers() {
                        Answers::Right => return Ok(tested),
                        Answers::Missing(text) => why = format!("it does not answer: {text}"),
                        Answers::Wrong(text) => {
                            return Err(format!(
                                "it computes wrong answers ({text}; fingerprint {}); test this machine's memory and \
                                 processor",
                                Digest(*tested.provider.behaviour().octets())
                            ));
                        }
                    }
                    of = tested.of;
                }
            }
        }
        Err(why)
    }

    /// The cipher as known answers are put to it.
    fn asked(&self) -> &dyn CustomCipher {
        self.of.worker.as_ref().map_or(self.of.cipher.as_ref(), |worker| worker.answers.as_ref())
    }

    fn answers(&self) -> Answers {
        match &self.of.known {
            KnownAnswers::Fingerprint(known) if self.provider.behaviour().octets() != known => {
                Answers::Wrong("another fingerprint".to_owned())
            }
            KnownAnswers::Fingerprint(_) => counter_mode(self.asked()),
            KnownAnswers::Vectors(vectors) => match vectors::run(vectors, self.asked()) {
                Ok(_) => Answers::Right,
                Err(error) if error.no_answer => Answers::Missing(error.to_string()),
                Err(error) => Answers::Wrong(error.to_string()),
            },
        }
    }
}

/// The outcome of known answers.
#[derive(Debug, PartialEq, Eq)]
enum Answers {
    /// All of them came.
    Right,
    /// One did not come, in words.
    Missing(String),
    /// One was another, in words.
    Wrong(String),
}

/// Whether the cipher's own counter mode is that of its blocks, which the fingerprint knows, for lengths on both sides
/// of a block's border and a counter that carries.
fn counter_mode(cipher: &dyn CustomCipher) -> Answers {
    const LENGTHS: [usize; 8] = [1, 15, 16, 17, 127, 128, 512, 1400];
    let octets: Vec<u8> = (0..cipher.description().key_len).map(|at| (at * 29 + 7) as u8).collect();
    let Ok(CustomKey::Block(key)) = cipher.set_key(&octets) else {
        return Answers::Missing("it took no key".to_owned());
    };
    let packets = || LENGTHS.map(|len| (0..len).map(|at| at as u8).collect::<Vec<u8>>());
    let counter = |number: usize| [[number as u8 ^ 0x5a; 12].as_slice(), &[0, 0, 0, 0xfe]].concat();
    let mut own = packets();
    let mut blocks = packets();
    let counters: Vec<[u8; 16]> =
        (0..LENGTHS.len()).filter_map(|number| counter(number).try_into().ok()).collect();
    let run = |packets: &mut [Vec<u8>], by_blocks: bool| {
        let ops = packets.iter_mut().zip(&counters);
        let mut ops: Vec<_> = ops.map(|(data, counter)| CtrOp { counter: *counter, data }).collect();
        if by_blocks {
            ctr_over_blocks(|blocks| key.encrypt_blocks(blocks), &mut ops)
        } else {
            key.ctr_xor_batch(&mut ops)
        }
    };
    match run(&mut own, false).and_then(|()| run(&mut blocks, true)) {
        Err(error) => Answers::Missing(error.to_string()),
        Ok(()) if own == blocks => Answers::Right,
        Ok(()) => Answers::Wrong("its counter mode is not that of its blocks".to_owned()),
    }
}

/// Times in turn that known answers may be missing from a process that is up.
const MOST_SILENT: u32 = 3;

impl Provider for Tested {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn offers(&self, suite: SuiteId) -> bool {
        self.provider.offers(suite)
    }

    fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        self.provider.transform(suite, keymat, extended)
    }

    fn check_again(&self) -> Result<(), CryptoError> {
        // Asked before, since a process that does not answer counts as one that is down from then on.
        let was_up = self.of.worker.as_ref().is_some_and(|worker| (worker.state)().is_up);
        let withdraw = match (self.answers(), &self.of.worker) {
            (Answers::Right, Some(worker)) => {
                worker.silent.store(0, Relaxed);
                false
            }
            (Answers::Right, None) => false,
            (Answers::Wrong(_), _) | (Answers::Missing(_), None) => true,
            // A process that is starting gives no answer. One that is up and gives none three times in turn may choose
            // whom it answers.
            (Answers::Missing(_), Some(worker)) => {
                was_up && worker.silent.fetch_add(1, Relaxed) + 1 >= MOST_SILENT
            }
        };
        if withdraw {
            self.provider.withdraw();
        }
        self.provider.check_again()
    }

    fn key_room(&self) -> Option<usize> {
        self.of.worker.as_ref().map(|worker| worker.keys)
    }

    fn settle(&self) {
        if let Some(worker) = &self.of.worker {
            (worker.settle)();
        }
    }

    fn fault(&self) -> Option<CryptoError> {
        self.provider.fault()
    }

    fn fingerprint(&self) -> Option<&[u8; 32]> {
        self.provider.fingerprint()
    }

    fn worker(&self) -> Option<WorkerState> {
        self.of.worker.as_ref().map(|worker| (worker.state)())
    }
}

/// Ciphers of one's own by name, each with the fingerprint of what it computes in hexadecimal digits.
pub type Fingerprints = BTreeMap<String, String>;

/// The ciphers of one's own that a registry has.
pub fn fingerprints(registry: &Registry) -> Fingerprints {
    let of = registry.fingerprints();
    of.map(|(name, fingerprint)| (name.to_owned(), Digest(*fingerprint).to_string())).collect()
}

/// The place where the code of a cipher runs, in a word for people.
fn isolation(source: &CipherSource) -> &'static str {
    match source {
        CipherSource::BuiltIn { .. } => "compiled in",
        CipherSource::Library { isolation: Isolation::Worker, .. } => "worker",
        CipherSource::Library { isolation: Isolation::None, .. } => "in process",
    }
}

/// The name of the cipher in a table, where it is known.
fn name(source: &CipherSource) -> Option<&str> {
    match source {
        CipherSource::BuiltIn { name } => Some(name),
        CipherSource::Library { name, .. } => name.as_deref(),
    }
}

/// The place where the code of a suite's cipher runs; `None` for a standard suite.
pub fn isolation_of(ciphers: &CiphersConfig, suite: &str) -> Option<&'static str> {
    let mode = ciphers.suites.find(suite).ok()?.custom()?;
    let table = ciphers.tables.iter().find(|table| name(&table.source) == Some(mode.cipher()))?;
    Some(isolation(&table.source))
}

/// The ciphers that are configured, for `status`.
pub fn report(ciphers: &CiphersConfig, registry: &Registry) -> Vec<api::CipherState> {
    let fingerprints = fingerprints(registry);
    let workers: BTreeMap<_, _> = registry.workers().collect();
    let state = |table: &config::CipherConfig| {
        let name = name(&table.source)?;
        Some(api::CipherState {
            name: name.to_owned(),
            isolation: isolation(&table.source).to_owned(),
            alone: table.alone,
            fingerprint: fingerprints.get(name).cloned(),
            worker: workers.get(name).map(|worker| worker.text.clone()),
            counts: workers.get(name).map(|worker| counts(&worker.counts)),
        })
    };
    ciphers.tables.iter().filter_map(state).collect()
}

fn counts(counts: &crypto::WorkerCounts) -> api::WorkerCounts {
    let crypto::WorkerCounts { restarts, ahead, called, late, failed } = *counts;
    api::WorkerCounts { restarts, ahead, called, late, failed }
}

/// What key managers must agree on about a suite; `None` for a standard one.
pub fn agreement(suite: SuiteId, fingerprints: &Fingerprints) -> Option<api::CustomSuite> {
    let mode = suite.custom()?;
    let combined = suite.integrity() == Integrity::Combined;
    Some(api::CustomSuite {
        cipher: mode.cipher().to_owned(),
        transform_id: mode.transform_id(),
        key_bits: suite.cipher().key_len() * 8,
        integrity: (!combined).then(|| suite.integrity().name().to_owned()),
        keymat_octets: suite.keymat_len(),
        fingerprint: fingerprints.get(mode.cipher()).cloned(),
    })
}

#[cfg(test)]
mod tests;
