//! The crypto units as the targets of ESP use them.
#![allow(dead_code, reason = "each target uses a part of this")]

use crypto::Registry;
use crypto_mb::Wide;
use std::sync::LazyLock;

/// The crypto units that every machine has.
pub static STANDARD: LazyLock<Registry> =
    LazyLock::new(|| crypto_std::registry().expect("known answers are right"));

/// The units of the product: the wide one before the others, where the processor has it.
pub static PRODUCT: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = crypto_std::registry().expect("known answers are right");
    if let Some(wide) = Wide::detect() {
        registry = registry.with_tested(wide).expect("known answers are right");
        registry.prefer(None, "wide").expect("it is there");
    }
    registry
});

/// One of the two.
pub fn units(standard: bool) -> &'static Registry {
    if standard { &STANDARD } else { &PRODUCT }
}
