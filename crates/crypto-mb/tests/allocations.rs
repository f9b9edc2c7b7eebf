//! In steady state no packet allocates under the wide unit, whatever its width.

#[path = "../../crypto-std/tests/packet/counting.rs"]
mod counting;
#[path = "../../crypto-std/tests/packet/mod.rs"]
mod packet;

use counting::{counts, packets_allocate_nothing};
use crypto::Provider;
use crypto_mb::Wide;

#[test]
fn no_packet_allocates() {
    let widths = Wide::detect_all();
    let providers: Vec<&dyn Provider> = widths.iter().map(|wide| wide as &dyn Provider).collect();
    counts();
    packets_allocate_nothing(&providers);
}
