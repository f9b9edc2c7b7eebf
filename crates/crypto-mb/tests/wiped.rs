//! A dropped key of the wide unit leaves nothing of itself in the memory it had.

#[path = "../../crypto-std/tests/suite/packet/looking.rs"]
mod looking;
#[path = "../../crypto-std/tests/suite/packet.rs"]
mod packet;
#[path = "suite/widths.rs"]
mod widths;

use crypto::Provider;
use looking::{keys_leave_nothing, sees};
use widths::widths;

#[test]
fn a_dropped_key_leaves_nothing_of_itself() {
    let widths = widths();
    let providers: Vec<&dyn Provider> = widths.iter().map(|wide| wide as &dyn Provider).collect();
    sees();
    keys_leave_nothing(&providers);
}
