//! Who serves a suite, told by a clock that the test holds.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crypto::{
    Authenticator, ChoiceReason, Cipher, CryptoError, Integrity, Measurement, OpenOp, Provider, Registry,
    SealOp, Secret, SuiteId, Transform, Unit, UnitFailed,
};

const GCM: SuiteId = SuiteId::AES_128_GCM;
const CHACHA: SuiteId = SuiteId::CHACHA20_POLY1305;

/// Moves the clock on instead of encrypting: so many nanoseconds a packet, and so many an octet.
struct Slow {
    name: &'static str,
    suites: Vec<SuiteId>,
    packet: u64,
    octet: u64,
    now: Arc<AtomicU64>,
    makes_keys: bool,
    fails: bool,
}

struct SlowKey {
    packet: u64,
    octet: u64,
    now: Arc<AtomicU64>,
    fails: bool,
}

impl Provider for Slow {
    fn name(&self) -> &'static str {
        self.name
    }
    fn offers(&self, suite: SuiteId) -> bool {
        self.suites.contains(&suite)
    }
    fn transform(&self, suite: SuiteId, _: &Secret, _: bool) -> Result<Box<dyn Transform>, CryptoError> {
        if !self.makes_keys {
            return Err(CryptoError::NoProvider(suite));
        }
        let Slow { packet, octet, fails, .. } = *self;
        Ok(Box::new(SlowKey { packet, octet, now: self.now.clone(), fails }))
    }
    fn authenticator(
        &self,
        integrity: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        // Tells by its error who was asked.
        Err(CryptoError::AuthenticatorKeyLength { integrity, want: self.packet as usize, got: keymat.len() })
    }
}

impl Transform for SlowKey {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            self.now.fetch_add(self.packet + self.octet * op.data.len() as u64, Ordering::Relaxed);
        }
        if self.fails { Err(UnitFailed) } else { Ok(()) }
    }
    fn open_batch(&self, _: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        Ok(())
    }
}

struct House {
    now: Arc<AtomicU64>,
    registry: Registry,
}

impl House {
    fn new() -> House {
        House { now: Arc::default(), registry: Registry::new() }
    }

    fn with(mut self, name: &'static str, suites: &[SuiteId], packet: u64, octet: u64) -> House {
        let (suites, now) = (suites.to_vec(), self.now.clone());
        self.registry =
            self.registry.with(Slow { name, suites, packet, octet, now, makes_keys: true, fails: false });
        self
    }

    fn choose(&mut self) -> u64 {
        let (now, asked) = (self.now.clone(), Rc::new(Cell::new(0)));
        self.registry.choose(&mut || {
            asked.set(asked.get() + 1);
            now.load(Ordering::Relaxed)
        });
        asked.get()
    }

    fn serves(&self, suite: SuiteId) -> (&str, ChoiceReason) {
        let unit = self.registry.units().find(|unit| unit.suite == suite).unwrap();
        assert_eq!(self.registry.provider(suite).unwrap().name(), unit.provider);
        (unit.provider, unit.why)
    }
}

#[test]
fn the_fastest_serves_and_what_was_measured_can_be_read() {
    let mut house = House::new().with("a", &[GCM, CHACHA], 100, 2).with("b", &[GCM], 200, 1);
    assert_eq!(house.serves(GCM), ("a", ChoiceReason::First));
    assert_eq!(house.serves(CHACHA), ("a", ChoiceReason::Only));
    assert!(house.choose() > 0);
    assert_eq!(house.serves(GCM), ("b", ChoiceReason::Fastest));
    assert_eq!(house.serves(CHACHA), ("a", ChoiceReason::Only));
    let measured = [
        Measurement { provider: "a", short_ns: 228, full_ns: 2900 },
        Measurement { provider: "b", short_ns: 264, full_ns: 1600 },
    ];
    let units: Vec<_> = house.registry.units().collect();
    let unit = Unit { suite: GCM, provider: "b", why: ChoiceReason::Fastest, measured: &measured };
    assert_eq!(units.iter().find(|u| u.suite == GCM), Some(&unit));
    assert_eq!(units.iter().find(|u| u.suite == CHACHA).unwrap().measured, []);
    assert_eq!(units.len(), 2);
}

#[test]
fn nothing_is_measured_where_there_is_no_choice() {
    let mut house = House::new().with("a", &[GCM], 100, 2).with("b", &[CHACHA], 200, 1);
    assert_eq!(house.choose(), 0);
    assert_eq!(House::new().choose(), 0);
}

#[test]
fn a_tenth_is_noise() {
    let mut house = House::new().with("a", &[GCM], 1000, 0).with("b", &[GCM], 901, 0);
    house.choose();
    assert_eq!(house.serves(GCM), ("a", ChoiceReason::Fastest));
    let mut house = House::new().with("a", &[GCM], 1000, 0).with("b", &[GCM], 899, 0);
    house.choose();
    assert_eq!(house.serves(GCM), ("b", ChoiceReason::Fastest));
    // A clock that stands still chooses the first.
    let mut house = House::new().with("a", &[GCM], 0, 0).with("b", &[GCM], 0, 0);
    house.choose();
    assert_eq!(house.serves(GCM), ("a", ChoiceReason::Fastest));
}

#[test]
fn a_provider_that_makes_no_key_is_not_chosen() {
    let now = Arc::new(AtomicU64::new(0));
    let mute =
        Slow { name: "mute", suites: vec![GCM], packet: 0, octet: 0, now, makes_keys: false, fails: false };
    let mut house = House::new().with("a", &[GCM], 10, 0);
    house.registry = house.registry.with(mute);
    house.choose();
    assert_eq!(house.serves(GCM), ("a", ChoiceReason::Fastest));
}

#[test]
fn a_provider_that_fails_is_not_chosen_however_fast_it_does() {
    let now = Arc::new(AtomicU64::new(0));
    let failing = |name| Slow {
        name,
        suites: vec![GCM],
        packet: 0,
        octet: 0,
        now: now.clone(),
        makes_keys: true,
        fails: true,
    };
    let mut house = House::new().with("a", &[GCM], 10, 0);
    house.registry = house.registry.with(failing("first")).with(failing("second"));
    house.choose();
    assert_eq!(house.serves(GCM), ("a", ChoiceReason::Fastest));
    let unit = house.registry.units().find(|unit| unit.suite == GCM).unwrap();
    assert_eq!(unit.measured, [Measurement { provider: "a", short_ns: 10, full_ns: 10 }]);
    // Where all fail nothing was measured.
    let mut house = House::new();
    house.registry = house.registry.with(failing("first")).with(failing("second"));
    house.choose();
    assert_eq!(house.serves(GCM), ("first", ChoiceReason::First));
}

#[test]
fn a_preference_goes_before_the_measurement() {
    let mut house = House::new().with("a", &[GCM, CHACHA], 1, 0).with("b", &[GCM, CHACHA], 100, 0);
    house.registry.prefer(Some(GCM), "b").unwrap();
    house.choose();
    assert_eq!(house.serves(GCM), ("b", ChoiceReason::Preferred));
    assert_eq!(house.serves(CHACHA), ("a", ChoiceReason::Fastest));
    house.registry.prefer(None, "b").unwrap();
    assert_eq!(house.serves(CHACHA), ("b", ChoiceReason::Preferred));
    // One for a suite goes before one for all, and a later one before an earlier one.
    house.registry.prefer(Some(CHACHA), "a").unwrap();
    house.registry.prefer(Some(GCM), "a").unwrap();
    assert_eq!(house.serves(CHACHA), ("a", ChoiceReason::Preferred));
    assert_eq!(house.serves(GCM), ("a", ChoiceReason::Preferred));
}

#[test]
fn a_preference_for_all_is_for_what_the_provider_offers() {
    let mut house = House::new().with("a", &[GCM, CHACHA], 1, 0).with("b", &[GCM], 100, 0);
    house.registry.prefer(None, "b").unwrap();
    assert_eq!(house.serves(GCM), ("b", ChoiceReason::Preferred));
    assert_eq!(house.serves(CHACHA), ("a", ChoiceReason::Only));
    let asked = |house: &House| match house.registry.authenticator(Integrity::HmacSha1, &Secret::new(vec![]))
    {
        Err(CryptoError::AuthenticatorKeyLength { want, .. }) => want,
        _ => panic!("nobody was asked"),
    };
    assert_eq!(asked(&house), 100);
    house.registry.prefer(None, "a").unwrap();
    assert_eq!(asked(&house), 1);
}

#[test]
fn a_preference_that_cannot_be_says_what_there_is() {
    let mut house = House::new().with("a", &[GCM, CHACHA], 1, 0).with("b", &[GCM], 100, 0);
    let error = house.registry.prefer(None, "c").unwrap_err();
    assert_eq!(error.to_string(), "no crypto provider is called \"c\"; registered: a, b");
    let error = house.registry.prefer(Some(CHACHA), "b").unwrap_err();
    assert_eq!(error.to_string(), "crypto provider b does not offer chacha20poly1305; those that do: a");
    assert_eq!(house.serves(CHACHA), ("a", ChoiceReason::Only));
    let error = Registry::new().prefer(None, "a").unwrap_err();
    assert_eq!(error.to_string(), "no crypto provider is called \"a\"; registered: none");
}

#[test]
fn legacy_suites_are_refused_until_allowed() {
    let legacy: Vec<_> = SuiteId::all().filter(|suite| suite.is_legacy()).collect();
    // 3DES and DES with seven MACs each; MD5 with NULL, six of CBC and three of CTR.
    assert_eq!(legacy.len(), 14 + 10);
    let mut house = House::new().with("a", &SuiteId::all().collect::<Vec<_>>(), 1, 0);
    let make = |house: &House, suite: SuiteId| {
        house.registry.transform(suite, &Secret::new(vec![0; suite.keymat_len()]), true).err()
    };
    for suite in SuiteId::all() {
        let refused = legacy.contains(&suite).then_some(CryptoError::Legacy { suite });
        assert_eq!(make(&house, suite), refused);
    }
    let text = |cipher, integrity| {
        let suite = SuiteId::new(cipher, integrity).unwrap();
        let error = CryptoError::Legacy { suite };
        format!("{error}; {}", error.remedy().unwrap())
    };
    assert_eq!(
        text(Cipher::DesCbc, Integrity::HmacSha256),
        "des-sha256 is refused: DES MUST NOT be implemented (RFC 8221); use aes128gcm or aes128cbc-sha256 instead, or set \
         `legacy = true` in the configuration to repeat old measurements with it"
    );
    assert!(text(Cipher::TripleDesCbc, Integrity::HmacMd5).contains("3DES SHOULD NOT be implemented"));
    assert!(text(Cipher::Aes128Cbc, Integrity::HmacMd5).contains("HMAC-MD5 MUST NOT be used"));
    let md5 = |house: &House| house.registry.authenticator(Integrity::HmacMd5, &Secret::new(vec![])).err();
    let refused = md5(&house).unwrap();
    assert_eq!(refused, CryptoError::LegacyAuthenticator { integrity: Integrity::HmacMd5 });
    assert!(refused.remedy().unwrap().starts_with("use sha256 instead, or set `legacy = true`"), "{refused}");
    house.registry.allow_legacy(true).unwrap();
    assert!(SuiteId::all().all(|suite| make(&house, suite).is_none()));
    assert!(matches!(md5(&house), Some(CryptoError::AuthenticatorKeyLength { .. })));
    house.registry.allow_legacy(false).unwrap();
    assert_eq!(make(&house, legacy[0]), Some(CryptoError::Legacy { suite: legacy[0] }));
}
