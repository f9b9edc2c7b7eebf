//! A dropped key of the wide unit leaves nothing of itself in the memory it had.

#[path = "../../crypto-std/tests/packet/looking.rs"]
mod looking;
#[path = "../../crypto-std/tests/packet/mod.rs"]
mod packet;

use crypto::Provider;
use crypto_mb::Wide;
use looking::{keys_leave_nothing, sees};

#[test]
fn a_dropped_key_leaves_nothing_of_itself() {
    let widths = Wide::detect_all();
    let providers: Vec<&dyn Provider> = widths.iter().map(|wide| wide as &dyn Provider).collect();
    sees();
    keys_leave_nothing(&providers);
}
