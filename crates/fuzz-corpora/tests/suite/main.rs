//! Every fuzz target over its corpus. A target is a module here, as it stands in `fuzz/fuzz_targets`.

#![allow(unused_attributes, reason = "a target begins with `no_main`, which is for programs")]
#![allow(clippy::duplicate_mod, reason = "each target has its own copy of what it shares with others")]

extern crate fuzz_corpora as libfuzzer_sys;

use std::collections::BTreeSet;

#[path = "../../../../fuzz/fuzz_targets/ah_decap.rs"]
mod ah_decap;
#[path = "../../../../fuzz/fuzz_targets/capture_file.rs"]
mod capture_file;
#[path = "../../../../fuzz/fuzz_targets/cipher_manifest.rs"]
mod cipher_manifest;
#[path = "../../../../fuzz/fuzz_targets/cipher_vectors.rs"]
mod cipher_vectors;
#[path = "../../../../fuzz/fuzz_targets/cipher_worker.rs"]
mod cipher_worker;
#[path = "../../../../fuzz/fuzz_targets/config.rs"]
mod config;
#[path = "../../../../fuzz/fuzz_targets/dns_answer.rs"]
mod dns_answer;
#[path = "../../../../fuzz/fuzz_targets/engine_inbound.rs"]
mod engine_inbound;
#[path = "../../../../fuzz/fuzz_targets/esp_decap.rs"]
mod esp_decap;
#[path = "../../../../fuzz/fuzz_targets/frame.rs"]
mod frame;
#[path = "../../../../fuzz/fuzz_targets/handover.rs"]
mod handover;
#[path = "../../../../fuzz/fuzz_targets/icmp_error.rs"]
mod icmp_error;
#[path = "../../../../fuzz/fuzz_targets/ipcomp.rs"]
mod ipcomp;
#[path = "../../../../fuzz/fuzz_targets/key_file.rs"]
mod key_file;
#[path = "../../../../fuzz/fuzz_targets/policy_parse.rs"]
mod policy_parse;
#[path = "../../../../fuzz/fuzz_targets/reassembly.rs"]
mod reassembly;
#[path = "../../../../fuzz/fuzz_targets/sa_file.rs"]
mod sa_file;
#[path = "../../../../fuzz/fuzz_targets/scrub_packet.rs"]
mod scrub_packet;
#[path = "../../../../fuzz/fuzz_targets/scrub_saved.rs"]
mod scrub_saved;
#[path = "../../../../fuzz/fuzz_targets/setkey_import.rs"]
mod setkey_import;
#[path = "../../../../fuzz/fuzz_targets/wide_unit.rs"]
mod wide_unit;
#[path = "../../../../fuzz/fuzz_targets/wire_ip.rs"]
mod wire_ip;
#[path = "../../../../fuzz/fuzz_targets/wire_tcp.rs"]
mod wire_tcp;

macro_rules! targets {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        mod over_its_corpus {
            $(
                #[test]
                fn $name() {
                    fuzz_corpora::try_all(stringify!($name), super::$name::run);
                }
            )*
        }
    };
}

targets! {
    ah_decap capture_file cipher_manifest cipher_vectors cipher_worker config dns_answer engine_inbound
    esp_decap frame handover icmp_error ipcomp key_file policy_parse reassembly
    sa_file scrub_packet scrub_saved setkey_import wide_unit wire_ip wire_tcp
}

#[test]
fn every_target_is_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let there: BTreeSet<String> =
        files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(there, NAMES.iter().map(|name| (*name).to_owned()).collect());
}
