//! Every packet of every shared capture goes through a scrubber: one that observes changes nothing, and what another
//! one lets pass is a packet.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "this test reads files and says what it skipped"
)]

use crate::capture;
use crate::packet;

use packet::Bench;
use scrub::{Outcome, Profile, Side};
use std::time::Duration;
use wire::ip::Headers;

#[test]
fn shared_captures_pass_or_have_a_rule() {
    let Some(files) = capture::captures() else {
        eprintln!("skipped: no shared captures");
        return;
    };
    let mut observing = Bench::profile(Profile::Observe);
    let (mut packets, mut passed) = (0, 0);
    for file in files {
        let mut strict = Bench::profile(Profile::Strict);
        for (link, frame) in capture::read(&file) {
            let Some(bytes) = capture::ip_packet(link, &frame) else { continue };
            for from in [Side::Outside, Side::Inside] {
                packets += 1;
                observing.wait(Duration::from_millis(10));
                let out = observing.pass_from(from, bytes);
                assert_eq!(
                    (out.outcome, out.bytes.as_slice()),
                    (Outcome::Forward, bytes),
                    "{}",
                    file.display()
                );
                assert!(observing.own().is_empty());
                strict.wait(Duration::from_millis(10));
                let out = strict.pass_from(from, bytes);
                if out.outcome == Outcome::Forward {
                    passed += 1;
                    let headers = Headers::parse(&out.bytes).expect("what goes on is a packet");
                    assert_eq!(headers.total_len, out.bytes.len());
                    assert!(wire::ip::checksum_ok(&out.bytes, &headers));
                }
            }
        }
    }
    assert!(packets > 5_000 && passed > 500, "{packets} {passed}");
}
