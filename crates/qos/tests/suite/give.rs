//! The plain dequeueing part gives every packet, whatever it is and however long it waited.

use qos::dequeue::Give;
use qos::{Backlog, Dequeue, Leave, Meta};

use crate::common::{SECOND, at, packet};

#[test]
fn every_packet_leaves() {
    for ecn in 0..4 {
        let head = Meta { ecn, ..packet(9000) };
        assert_eq!(Give.decide(&head, &Backlog::default(), &at(100 * SECOND)), Leave::Give);
    }
    assert_eq!(Give.about().kind, "give");
}
