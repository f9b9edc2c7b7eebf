//! In steady state no packet allocates under the wide unit, whatever its width.

#[path = "../../crypto-std/tests/suite/packet/counting.rs"]
mod counting;
#[path = "../../crypto-std/tests/suite/packet.rs"]
mod packet;
#[path = "suite/widths.rs"]
mod widths;

use counting::{counts, packets_allocate_nothing};
use crypto::{Provider, Suites};
use widths::widths;

#[test]
fn no_packet_allocates() {
    let widths = widths();
    let providers: Vec<&dyn Provider> = widths.iter().map(|wide| wide as &dyn Provider).collect();
    counts();
    packets_allocate_nothing(&providers, &Suites::standard());
}
