//! The ciphers of one's own that a configuration names, made ready for use: compiled in, or loaded from their libraries.
//!
//! What enters: the `[[cipher]]` tables. What leaves: providers for the registry of suites, and a reason for each cipher
//! that is not used. No cipher keeps a daemon from starting: what needs its suites is refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use cipher_loader::trial::child_main as trial_main;
use cipher_loader::{Examined, LoadError, Loaded, Trial, Trust, examine};
use cipher_manifest::{Digest, Vectors, vectors};
use config::{CipherSource, CiphersConfig, Isolation};
use crypto::custom::CustomCipher;
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
    /// Asks for the state of the process.
    pub state: WorkerQuestion,
    /// Called when the first known answers were right: until then the worker has more time for each batch.
    pub settle: Box<dyn Fn() + Send + Sync>,
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
    worker: Option<(WorkerQuestion, Box<dyn Fn() + Send + Sync>)>,
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
    let StartedWorker { cipher, state, settle } = start(&examined, deadline)?;
    let worker = Some((state, settle));
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
                    if tested.answers() {
                        if let Some((_, settle)) = &tested.of.worker {
                            settle();
                        }
                        return Ok(tested);
                    }
                    why = format!(
                        "it computes wrong answers (fingerprint {}); test this machine's memory and processor",
                        Digest(*tested.provider.behaviour().octets())
                    );
                    of = tested.of;
                }
            }
        }
        Err(why)
    }

    fn answers(&self) -> bool {
        match &self.of.known {
            KnownAnswers::Fingerprint(known) => self.provider.behaviour().octets() == known,
            KnownAnswers::Vectors(vectors) => vectors::run(vectors, self.of.cipher.as_ref()).is_ok(),
        }
    }
}

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
        // A worker that is starting fails its vectors without a wrong answer, and its fingerprint says enough.
        if self.of.worker.is_none() && !self.answers() {
            self.provider.withdraw();
        }
        self.provider.check_again()
    }

    fn fault(&self) -> Option<CryptoError> {
        self.provider.fault()
    }

    fn fingerprint(&self) -> Option<&[u8; 32]> {
        self.provider.fingerprint()
    }

    fn worker(&self) -> Option<WorkerState> {
        self.of.worker.as_ref().map(|(state, _)| state())
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
    let workers: BTreeMap<_, _> = registry.workers().map(|(name, state)| (name, state.text)).collect();
    let state = |table: &config::CipherConfig| {
        let name = name(&table.source)?;
        Some(api::CipherState {
            name: name.to_owned(),
            isolation: isolation(&table.source).to_owned(),
            alone: table.alone,
            fingerprint: fingerprints.get(name).cloned(),
            worker: workers.get(name).cloned(),
        })
    };
    ciphers.tables.iter().filter_map(state).collect()
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
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crypto::custom::{CustomDescription, CustomKey, SetKeyError};
    use crypto::{OpenOp, SealOp};

    use super::*;

    /// mAES-512, until it is told to compute something else.
    #[derive(Debug)]
    struct Changing {
        inner: Maes512,
        changed: Arc<AtomicBool>,
    }

    impl CustomCipher for Changing {
        fn description(&self) -> &CustomDescription {
            self.inner.description()
        }

        fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
            let mut key = key.to_vec();
            key[0] ^= u8::from(self.changed.load(Ordering::Relaxed));
            self.inner.set_key(&key)
        }
    }

    fn no_worker(_: &Examined, _: Duration) -> Result<StartedWorker, String> {
        Err("no worker is started here".to_owned())
    }

    fn with_answers(cipher: Arc<dyn CustomCipher>) -> CipherWithAnswers {
        CipherWithAnswers { cipher, known: KnownAnswers::Fingerprint(MAES512), worker: None }
    }

    fn suites() -> Suites {
        let mut suites = Suites::standard();
        suites.register(&crypto_maes::description(), crypto_maes::TRANSFORM_ID, false).unwrap();
        suites
    }

    fn seal(key: &dyn Transform) -> Result<[u8; 32], crypto::UnitFailed> {
        let (mut data, mut icv) = ([7; 32], [0; 16]);
        let op = SealOp { sequence: 1, header: &[0; 8], iv: &mut [0; 8], data: &mut data, icv: &mut icv };
        key.seal(op).map(|()| data)
    }

    #[test]
    fn a_configured_cipher_serves_its_suites_and_is_known_by_its_fingerprint() {
        let table =
            config::CipherConfig { source: CipherSource::BuiltIn { name: Maes512::NAME }, alone: false };
        let ciphers = CiphersConfig { tables: vec![table], suites: suites(), refused: Vec::new() };
        let registry = add(&ciphers, Registry::new(), &mut no_worker);
        assert_eq!(registry.left_out().count(), 0, "{:?}", registry.left_out().collect::<Vec<_>>());
        let suite = registry.suites().find("maes512ctr-sha256").unwrap();
        let known = fingerprints(&registry);
        let agreed = agreement(suite, &known).unwrap();
        assert_eq!((agreed.transform_id, agreed.key_bits, agreed.keymat_octets), (61_440, 512, 100));
        assert_eq!(agreed.fingerprint, Some(Digest(MAES512).to_string()));
        assert_eq!(agreement(SuiteId::AES_128_GCM, &known), None);
        let keymat = Secret::new((0..100).collect());
        assert!(seal(registry.transform(suite, &keymat, false).unwrap().as_ref()).is_ok());
    }

    #[test]
    fn a_cipher_that_is_not_there_is_told_of_and_the_others_go_on() {
        let refused = config::RefusedCipher {
            manifest: "/gone/manifest.json".into(),
            why: "the manifest cannot be read".to_owned(),
            remedy: "install it".to_owned(),
        };
        let gone = config::CipherConfig {
            source: CipherSource::Library {
                manifest: "/gone/maes512.json".into(),
                sha256: Digest([0; 32]),
                name: Some("maes512".to_owned()),
                isolation: Isolation::default(),
                deadline: Duration::from_millis(2),
            },
            alone: false,
        };
        let ciphers = CiphersConfig { tables: vec![gone], suites: suites(), refused: vec![refused] };
        let registry = add(&ciphers, crypto_std::registry().unwrap(), &mut no_worker);
        let told: Vec<_> = crate::crypto_units::faults(&registry).map(|fault| fault.message).collect();
        assert!(
            told[0].starts_with("the cipher /gone/manifest.json is not used: the manifest cannot be read")
        );
        assert!(told[1].starts_with("the cipher maes512 is not used: /gone"), "{told:?}");
        let suite = registry.suites().find("maes512ctr-sha256").unwrap();
        let refused = registry.transform(suite, &Secret::new(vec![1; 100]), false).map(drop).unwrap_err();
        assert_eq!(refused, CryptoError::NoProvider(suite));
        assert!(refused.remedy().unwrap().contains("ravelin status"));
        assert!(registry.transform(SuiteId::AES_128_GCM, &Secret::new(vec![1; 20]), false).is_ok());
    }

    #[test]
    fn a_cipher_that_answers_otherwise_is_used_no_more() {
        let changed = Arc::new(AtomicBool::new(false));
        let cipher = Arc::new(Changing { inner: Maes512::new(), changed: Arc::clone(&changed) });
        let tested = Tested::new(with_answers(cipher), &suites()).unwrap();
        let mut registry = crypto_std::registry().unwrap().with_suites(suites()).with(tested);
        let suite = registry.suites().find("maes512ctr-sha256").unwrap();
        let keymat = Secret::new((0..100).collect());
        let key = registry.transform(suite, &keymat, false).unwrap();
        let sealed = seal(key.as_ref());
        assert!(sealed.is_ok());
        assert_eq!(registry.check_next(), Some(("maes512", Ok(()))));
        assert_eq!(seal(key.as_ref()), sealed);
        changed.store(true, Ordering::Relaxed);
        let fault = CryptoError::CipherChanged { name: "maes512" };
        assert_eq!(registry.check_next(), Some(("maes512", Err(fault.clone()))));
        // Keys that are there stop, new ones are not made, and it stays so.
        changed.store(false, Ordering::Relaxed);
        assert_eq!(seal(key.as_ref()), Err(crypto::UnitFailed));
        let op = OpenOp {
            sequence: 1,
            header: &[0; 8],
            iv: &[0; 8],
            data: &mut [0; 32],
            icv: &[0; 16],
            ok: false,
        };
        assert_eq!(key.open(op), Err(crypto::UnitFailed));
        assert_eq!(registry.transform(suite, &keymat, false).map(drop), Err(fault));
        assert!(registry.check_next().unwrap().1.is_err());
        let told: Vec<_> = crate::crypto_units::faults(&registry).collect();
        assert!(told.len() == 1 && told[0].message.contains("other answers than at the start"), "{told:?}");
        // Its provider with wrong answers from the start is none.
        let wrong = Changing { inner: Maes512::new(), changed: Arc::new(AtomicBool::new(true)) };
        assert!(Tested::new(with_answers(Arc::new(wrong)), &suites()).is_err());
    }
}
