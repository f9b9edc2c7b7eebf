//! Ciphers of one's own: what is used, what is left out, what is withdrawn.

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

fn check(registry: &mut Registry) -> Option<Result<(), CryptoError>> {
    registry.next_to_check().map(|cipher| cipher.check_again())
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
    let table = config::CipherConfig { source: CipherSource::BuiltIn { name: Maes512::NAME }, alone: false };
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
    assert!(told[0].starts_with("the cipher /gone/manifest.json is not used: the manifest cannot be read"));
    assert!(told[1].starts_with("the cipher maes512 is not used: /gone"), "{told:?}");
    let suite = registry.suites().find("maes512ctr-sha256").unwrap();
    let refused = registry.transform(suite, &Secret::new(vec![1; 100]), false).map(drop).unwrap_err();
    assert_eq!(refused, CryptoError::NoProvider(suite));
    assert!(refused.remedy().unwrap().contains("ravelin status"));
    assert!(registry.transform(SuiteId::AES_128_GCM, &Secret::new(vec![1; 20]), false).is_ok());
}

/// A cipher that takes no key once it is told to.
struct Silent {
    inner: Maes512,
    silent: Arc<AtomicBool>,
}

impl CustomCipher for Silent {
    fn description(&self) -> &CustomDescription {
        self.inner.description()
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        if self.silent.load(Ordering::Relaxed) {
            return Err(SetKeyError::Unit(crypto::UnitFailed));
        }
        self.inner.set_key(key)
    }
}

/// The registry with a cipher in a worker, which counts as up while the switch says so.
fn in_a_worker(cipher: Arc<dyn CustomCipher>, up: &Arc<AtomicBool>) -> Registry {
    let up = Arc::clone(up);
    let state = move || WorkerState {
        is_up: up.load(Ordering::Relaxed),
        text: String::new(),
        counts: Default::default(),
    };
    let worker = RunningWorker {
        answers: Arc::clone(&cipher),
        state: Box::new(state),
        settle: Box::new(|| ()),
        keys: 512,
        silent: AtomicU32::new(0),
    };
    let of = CipherWithAnswers { worker: Some(worker), ..with_answers(cipher) };
    Registry::new().with_suites(suites()).with(Tested::new(of, &suites()).unwrap())
}

#[test]
fn a_worker_with_a_wrong_answer_is_withdrawn_at_once_and_a_silent_one_at_the_third_time() {
    let up = Arc::new(AtomicBool::new(true));
    let changed = Arc::new(AtomicBool::new(false));
    let changing = Changing { inner: Maes512::new(), changed: Arc::clone(&changed) };
    let mut registry = in_a_worker(Arc::new(changing), &up);
    assert_eq!(registry.key_rooms().collect::<Vec<_>>(), [("maes512", 512)]);
    assert_eq!(check(&mut registry), Some(Ok(())));
    changed.store(true, Ordering::Relaxed);
    assert_eq!(check(&mut registry), Some(Err(CryptoError::CipherChanged { name: "maes512" })));

    let silent = Arc::new(AtomicBool::new(false));
    let cipher = Silent { inner: Maes512::new(), silent: Arc::clone(&silent) };
    let mut registry = in_a_worker(Arc::new(cipher), &up);
    let mut outcomes = |times: usize| (0..times).map(|_| check(&mut registry)).collect::<Vec<_>>();
    silent.store(true, Ordering::Relaxed);
    up.store(false, Ordering::Relaxed);
    assert_eq!(outcomes(5), vec![Some(Ok(())); 5], "a worker that is starting gives no answer");
    up.store(true, Ordering::Relaxed);
    assert_eq!(outcomes(2), vec![Some(Ok(())); 2]);
    silent.store(false, Ordering::Relaxed);
    assert_eq!(outcomes(1), [Some(Ok(()))], "an answer ends the row");
    silent.store(true, Ordering::Relaxed);
    let gone = Some(Err(CryptoError::CipherChanged { name: "maes512" }));
    assert_eq!(outcomes(3), [Some(Ok(())), Some(Ok(())), gone]);
}

/// mAES-512 whose counter mode is not that of its blocks.
struct OtherMode(Maes512);

struct OtherModeKey(Box<dyn crypto::custom::BlockKey>);

impl CustomCipher for OtherMode {
    fn description(&self) -> &CustomDescription {
        self.0.description()
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        match self.0.set_key(key)? {
            CustomKey::Block(key) => Ok(CustomKey::Block(Box::new(OtherModeKey(key)))),
            other => Ok(other),
        }
    }
}

impl crypto::custom::BlockKey for OtherModeKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), crypto::UnitFailed> {
        self.0.encrypt_blocks(blocks)
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), crypto::UnitFailed> {
        self.0.decrypt_blocks(blocks)
    }

    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), crypto::UnitFailed> {
        self.0.ctr_xor_batch(ops)?;
        // One octet of a packet that is long enough for the fast way.
        if let Some(octet) = ops.iter_mut().filter(|op| op.data.len() > 512).find_map(|op| op.data.last_mut())
        {
            *octet ^= 1;
        }
        Ok(())
    }
}

#[test]
fn a_counter_mode_that_is_not_that_of_the_blocks_is_found() {
    let why = Tested::new(with_answers(Arc::new(OtherMode(Maes512::new()))), &suites()).err().unwrap();
    assert!(why.contains("its counter mode is not that of its blocks"), "{why}");
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
    assert_eq!(check(&mut registry), Some(Ok(())));
    assert_eq!(seal(key.as_ref()), sealed);
    changed.store(true, Ordering::Relaxed);
    let fault = CryptoError::CipherChanged { name: "maes512" };
    assert_eq!(check(&mut registry), Some(Err(fault.clone())));
    // Keys that are there stop, new ones are not made, and it stays so.
    changed.store(false, Ordering::Relaxed);
    assert_eq!(seal(key.as_ref()), Err(crypto::UnitFailed));
    let op =
        OpenOp { sequence: 1, header: &[0; 8], iv: &[0; 8], data: &mut [0; 32], icv: &[0; 16], ok: false };
    assert_eq!(key.open(op), Err(crypto::UnitFailed));
    assert_eq!(registry.transform(suite, &keymat, false).map(drop), Err(fault));
    assert_eq!(check(&mut registry), None, "a cipher that is withdrawn is asked again");
    let told: Vec<_> = crate::crypto_units::faults(&registry).collect();
    assert!(told.len() == 1 && told[0].message.contains("other answers than at the start"), "{told:?}");
    // Its provider with wrong answers from the start is none.
    let wrong = Changing { inner: Maes512::new(), changed: Arc::new(AtomicBool::new(true)) };
    assert!(Tested::new(with_answers(Arc::new(wrong)), &suites()).is_err());
}
