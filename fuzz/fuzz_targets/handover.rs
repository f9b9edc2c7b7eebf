//! The hand-over between daemons: any octets are refused, or are exactly what they would be written as.
//!
//! Head and checksum are put right, so that the fields are reached: whoever is at the socket can do so too.
#![no_main]

use crypto::{Secret, Suites};
use libfuzzer_sys::fuzz_target;
use sadb::handover::HandOver;
use std::sync::LazyLock;

fuzz_target!(|bytes: &[u8]| {
    let _ = HandOver::from_bytes(bytes, &Suites::standard());
    let mut sealed = HEAD.clone();
    sealed.extend((bytes.len() as u64 + 28).to_be_bytes());
    sealed.extend(bytes);
    sealed.extend(crc64(&sealed).to_be_bytes());
    if let Ok(state) = HandOver::from_bytes(&sealed, &Suites::standard()) {
        assert_eq!(state.to_bytes().expose(), sealed, "one state has one form");
    }
});

/// Magic and version, as they are written today.
static HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let empty = HandOver {
        fingerprint_key: Secret::new(Vec::new()),
        used_keys: Vec::new(),
        inbound: Vec::new(),
        outbound: Vec::new(),
        rules: Vec::new(),
        scrubbed: Vec::new(),
    };
    empty.to_bytes().expose()[..12].to_vec()
});

/// CRC-64 of ECMA-182 as xz has it, bit by bit.
fn crc64(octets: &[u8]) -> u64 {
    !octets.iter().fold(!0, |crc: u64, octet| {
        (0..8).fold(crc ^ u64::from(*octet), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xc96c_5795_d787_0f42 } else { crc >> 1 }
        })
    })
}
