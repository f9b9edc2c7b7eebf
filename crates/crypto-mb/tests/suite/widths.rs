//! What of the wide unit this processor can run; a test says what it cannot look at.
#![allow(dead_code, reason = "each test file uses a part of this")]
#![allow(clippy::disallowed_macros, reason = "a test says what it skipped")]

use crypto::{Provider, SuiteId};
use crypto_mb::Wide;

/// Every width that this processor has. Without any, that is said.
pub fn widths() -> Vec<Wide> {
    let widths = Wide::detect_all();
    if widths.is_empty() {
        println!("skipped: the wide unit: this processor has no VAES and VPCLMULQDQ");
    }
    widths
}

/// Every suite that some processor has.
pub fn suites_of_all() -> Vec<SuiteId> {
    let all: Vec<_> = SuiteId::all().filter(|suite| suite.to_string().contains("gcm")).collect();
    assert_eq!(all.len(), 9);
    [&all[..], &[SuiteId::CHACHA20_POLY1305]].concat()
}

/// The suites that this processor has the instructions for. The names of the others are printed.
pub fn suites() -> Vec<SuiteId> {
    let widths = Wide::detect_all();
    let offered = |suite: &SuiteId| widths.iter().any(|wide| wide.offers(*suite));
    let (here, missing): (Vec<_>, Vec<_>) = suites_of_all().into_iter().partition(offered);
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(SuiteId::to_string).collect();
        println!("skipped: the wide unit's {}: this processor lacks their instructions", names.join(", "));
    }
    here
}
