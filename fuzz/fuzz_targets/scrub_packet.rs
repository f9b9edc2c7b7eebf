//! Packets through a scrubber: whatever they are, what goes on is a packet, a scrubber behind it changes nothing more, and one that
//! only observes changes nothing at all.
//!
//! The first octet picks the profile. Each packet then has four octets in front: its side and link, the seconds before it, and its
//! length (little endian). The highest bit of the first says that its checksums are to be put right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scrub::{Arrival, Config, Mode, Outcome, Profile, Rule, Scrubber, Side};
use std::time::Duration;
use wire::ip::{self, Headers};
use wire::ipv4::Ipv4;
use wire::{Buf, Gso, Time, checksum, protocol};

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, mut rest)) = bytes.split_first() else { return };
    let profile = Profile::ALL[usize::from(which) % Profile::ALL.len()];
    let mut config = Config::new(profile);
    config.mtu = [1300; 2];
    let mut first = Scrubber::new(config.clone(), [1; 16]);
    let mut second = Scrubber::new(config.clone(), [1; 16]);
    // Rule Q.4 changes numbers, and what the other rules do not at all.
    config.set_mode(Rule::IsnModulation, Mode::On).expect("it may be on");
    let mut third = Scrubber::new(config, [1; 16]);
    let mut now = Time::from_secs(100);
    while let Some((&[how, wait, low, high], tail)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(tail.len());
        let (packet, behind) = tail.split_at(len);
        rest = behind;
        now = now + Duration::from_secs(u64::from(wait));
        let from = if how & 1 == 0 { Side::Outside } else { Side::Inside };
        let arrival = Arrival { from, link: u32::from(how >> 1 & 3), realm: 0 };
        let mut packet = packet.to_vec();
        if how & 0x80 != 0 {
            put_right(&mut packet);
        }
        let scrubbed = pass(&mut first, now, arrival, &packet);
        let lens = |all: &[Vec<u8>]| all.iter().map(Vec::len).collect::<Vec<_>>();
        let shifted = pass(&mut third, now, arrival, &packet);
        if profile == Profile::Observe {
            assert_eq!(scrubbed, [packet]);
            continue;
        }
        // Connections have tests of their own for this.
        let is_tcp = |bytes: &Vec<u8>| Headers::parse(bytes).is_ok_and(|h| h.protocol == protocol::TCP);
        for bytes in &shifted {
            let headers = Headers::parse(bytes).expect("what goes on is a packet");
            assert!(ip::checksum_ok(bytes, &headers));
            assert!(!is_tcp(bytes) || checksum::verify_transport(bytes, &headers) != Some(false));
        }
        let mut again = Vec::new();
        second.expire(now);
        for bytes in &scrubbed {
            let headers = Headers::parse(bytes).expect("what goes on is a packet");
            assert_eq!(headers.total_len, bytes.len());
            assert!(ip::checksum_ok(bytes, &headers));
            again.extend(pass(&mut second, now, arrival, bytes));
        }
        if !scrubbed.iter().any(is_tcp) {
            assert_eq!(scrubbed, again);
            assert_eq!(lens(&shifted), lens(&scrubbed));
        }
    }
});

/// What goes on: the packet, or its fragments.
fn pass(scrubber: &mut Scrubber, now: Time, arrival: Arrival, bytes: &[u8]) -> Vec<Vec<u8>> {
    scrubber.expire(now);
    let mut buf = Buf::from_slice(bytes, 64, 64);
    let verdict = scrubber.process(now, arrival, &mut buf, &mut Gso::default());
    let mut all = Vec::new();
    if verdict.outcome == Outcome::Forward {
        all.push(buf.as_slice().to_vec());
    }
    while let Some(own) = scrubber.poll_emitted() {
        if matches!(own.why, Rule::V4Reassemble | Rule::V6FragmentLength) {
            all.push(own.buf.as_slice().to_vec());
        }
    }
    all
}

fn put_right(packet: &mut [u8]) {
    if let Ok(mut view) = Ipv4::new_checked(&mut *packet) {
        view.fill_checksum();
    }
    if let Ok(headers) = Headers::parse(packet) {
        let _ = checksum::complete_transport(packet, &headers);
    }
}
