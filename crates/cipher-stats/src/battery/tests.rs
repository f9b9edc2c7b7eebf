use std::sync::OnceLock;

use crypto_maes::Maes512;

use super::*;
use crate::controls::TableAes;

/// The report of mAES-512, which every test of a report without faults looks at.
fn maes() -> &'static CipherStats {
    static REPORT: OnceLock<CipherStats> = OnceLock::new();
    REPORT.get_or_init(|| stats(Arc::new(Maes512::new()), Profile::QUICK, SEED).unwrap())
}

#[test]
fn maes_passes() {
    let report = maes();
    let failed: Vec<&StatsTest> = report.tests.iter().filter(|test| !test.ok).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(report.ok && !report.void, "{:#?}", report.controls);
    assert!(report.distribution.ok && report.distribution.values > 40);
    assert!(report.statement.contains("proves nothing about strength"));
    assert_eq!(report.seed, "243f6a8885a308d3");
    let left_out: Vec<&str> = report.left_out.iter().map(|left| left.data.as_str()).collect();
    assert_eq!(left_out, ["sums over two octets"]);
}

#[test]
fn weak_keys_are_counted() {
    // K1 = K2 is weak: of low and of high density that is the key without any such bit, and those with one in each half.
    assert!(maes().refused_keys >= 2, "{}", maes().refused_keys);
}

#[test]
fn each_control_behaves_as_it_must() {
    let controls = &maes().controls;
    assert_eq!(controls.len(), 7);
    let wrong: Vec<&StatsControl> = controls.iter().filter(|control| !control.ok).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(controls.iter().filter(|control| control.must_fail.is_none()).count(), 1);
}

/// A report over AES beside these controls.
fn beside(reference: &Arc<dyn CustomCipher>, controls: &[Control]) -> CipherStats {
    let cipher = crate::controls::reference();
    stats_beside(cipher, Profile::QUICK, SEED, reference, controls).unwrap()
}

#[test]
fn a_control_that_passes_makes_the_report_void() {
    let sound = Control {
        name: "AES of 14 rounds",
        cipher: crate::controls::reference(),
        data: Data::InputBits,
        test: "dependence",
    };
    let report = beside(&crate::controls::reference(), &[sound]);
    assert!(report.void && !report.ok);
    assert!(report.tests.iter().all(|test| test.ok));
}

#[test]
fn a_control_whose_test_does_not_exist_makes_the_report_void() {
    let misspelt = Control {
        name: "AES cut to 1 round",
        cipher: Arc::new(TableAes::new(1)),
        data: Data::InputBits,
        test: "dependance",
    };
    assert!(beside(&crate::controls::reference(), &[misspelt]).void);
}

#[test]
fn a_reference_that_fails_makes_the_report_void() {
    let broken: Arc<dyn CustomCipher> = Arc::new(TableAes::new(3));
    let report = beside(&broken, &[]);
    assert!(report.void && !report.ok);
    let reference = report.controls.first().unwrap();
    assert!(reference.detail.contains("integral-monobit of sums over an octet"), "{}", reference.detail);
}

#[test]
fn a_broken_cipher_fails_beside_sound_controls() {
    let report = stats(Arc::new(TableAes::new(3)), Profile::QUICK, SEED).unwrap();
    assert!(!report.ok && !report.void);
    let failed = |data: &str| report.tests.iter().any(|test| !test.ok && test.data == data);
    assert!(failed("sums over an octet"));
    assert!(!failed("key stream"));
}

#[test]
fn p_values_that_are_not_uniform_fail_together() {
    let test = |p| StatsTest {
        test: String::new(),
        data: String::new(),
        p,
        ok: true,
        counts: true,
        detail: String::new(),
    };
    // Each alone is far above the limit.
    let bad: Vec<StatsTest> = (1..=50).map(|i| test(f64::from(i) * 0.01)).collect();
    assert!(!distribution(&bad).ok);
    let good: Vec<StatsTest> = (1..=50).map(|i| test(f64::from(i) * 0.02)).collect();
    assert!(distribution(&good).ok);
    let hidden: Vec<StatsTest> = bad.into_iter().map(|test| StatsTest { counts: false, ..test }).collect();
    assert_eq!(distribution(&hidden).values, 0);
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let one = |seed| {
        let subject = Subject::new(crate::controls::reference());
        Run { subject: &subject, profile: Profile::QUICK, seed }.of(Data::OctetSums).unwrap().tests
    };
    assert_eq!(one(SEED), one(SEED));
    assert_ne!(one(SEED), one(SEED + 1));
}
