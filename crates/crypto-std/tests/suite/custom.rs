//! Ciphers of one's own under the host's modes: beside an oracle in Python, beside standard suites of the same primitives,
//! under forged packets, under a unit that fails, and between peers whose ciphers differ.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test asks another program")]
#![allow(clippy::disallowed_macros, reason = "a test that does not run says so")]

pub mod ciphers;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crypto::custom::CustomCipher;
use crypto::{CryptoError, Provider, SuiteId, Suites, Transform, UnitFailed};
use crypto_maes::Maes512;
use crypto_std::{CustomProvider, RustCrypto};

use self::ciphers::{Aes, Box20, Fault, Watched};
use crate::packet::{Packet, keymat};

fn suites(cipher: &dyn CustomCipher) -> Suites {
    let mut suites = Suites::standard();
    suites.register(cipher.description(), 61440, true).unwrap();
    suites
}

fn provider(cipher: impl CustomCipher + 'static) -> (CustomProvider, Vec<SuiteId>) {
    let suites = suites(&cipher);
    let own = suites.all().filter(|suite| suite.custom().is_some()).collect();
    (CustomProvider::new(Arc::new(cipher), &suites).unwrap(), own)
}

fn key(provider: &dyn Provider, suite: SuiteId, extended: bool) -> Box<dyn Transform> {
    provider.transform(suite, &keymat(suite.keymat_len(), 1), extended).unwrap()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn counting(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i % 251) as u8).collect()
}

#[test]
fn packets_of_every_mode_are_those_of_the_oracle() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Command::new("python3").arg(here.join("tests/custom_oracle.py")).output().unwrap();
    if String::from_utf8_lossy(&out.stderr).contains("No module named 'cryptography'") {
        assert!(std::env::var_os("CI").is_none(), "python3 with the package `cryptography` is not installed");
        eprintln!("skipped: python3 with the package `cryptography` is not installed");
        return;
    }
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let (provider, own) = provider(Maes512::new());
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap(), format!("behaviour {}", provider.behaviour()));
    let mut seen = std::collections::BTreeSet::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let suite = suites(&Maes512::new()).find(words[0]).unwrap();
        let key = key(&provider, suite, words[1] == "1");
        let data = counting(words[2].parse().unwrap());
        let mut packet = Packet::new(suite, 0x5_0000_0007, data.clone()).sealed(key.as_ref());
        let got = [&packet.iv, &packet.data, &packet.icv].map(|part| hex(part));
        assert_eq!(got, [words[3], words[4], words[5]], "{suite} {} {}", words[1], words[2]);
        assert_eq!(packet.opened(key.as_ref()), Some(data), "{suite}");
        packet.sequence ^= 1 << 32;
        let without_upper = packet.opened(key.as_ref()).is_some();
        assert_eq!(without_upper, words[1] == "0", "{suite}: the upper half counts where it is extended");
        seen.insert(suite);
    }
    assert_eq!(seen, own.into_iter().collect(), "every suite of the cipher has an answer");
}

#[test]
fn aes_as_a_cipher_of_ones_own_makes_the_packets_of_the_standard_suites() {
    let (provider, _) = provider(Aes::new("house256", Fault::None));
    let suites = suites(&Aes::new("house256", Fault::None));
    for (own, standard) in [
        ("house256ctr-sha256", "aes256ctr-sha256"),
        ("house256cbc-sha1", "aes256cbc-sha1"),
        ("house256gcm", "aes256gcm"),
    ] {
        let (own, standard) = (suites.find(own).unwrap(), standard.parse::<SuiteId>().unwrap());
        assert_eq!(own.keymat_len(), standard.keymat_len());
        for extended in [false, true] {
            let (mine, theirs) = (key(&provider, own, extended), key(&RustCrypto, standard, extended));
            for octets in [16, 48, 64, 1424] {
                let one = Packet::new(own, 9, counting(octets)).sealed(mine.as_ref());
                let two = Packet::new(standard, 9, counting(octets)).sealed(theirs.as_ref());
                assert_eq!((&one.iv, &one.data), (&two.iv, &two.data), "{own} {octets}");
                // Alone, the whole packet is the same; the host's MAC has a key of its own.
                assert_eq!(one.icv == two.icv, own.to_string() == "house256gcm", "{own}");
            }
        }
    }
}

#[test]
fn chacha20_poly1305_as_a_cipher_of_ones_own_makes_the_packets_of_rfc_7634() {
    let (provider, own) = provider(Box20::new());
    let [suite] = own[..] else { panic!("one suite") };
    for extended in [false, true] {
        let (mine, theirs) =
            (key(&provider, suite, extended), key(&RustCrypto, SuiteId::CHACHA20_POLY1305, extended));
        for octets in [0, 1, 64, 1501] {
            let one = Packet::new(suite, 77, counting(octets)).sealed(mine.as_ref());
            let two = Packet::new(SuiteId::CHACHA20_POLY1305, 77, counting(octets)).sealed(theirs.as_ref());
            assert_eq!(one, two);
            assert_eq!(two.opened(mine.as_ref()), Some(counting(octets)));
        }
    }
}

#[test]
fn a_batch_is_as_its_packets_alone_and_forged_ones_do_not_open() {
    for (provider, own) in [
        provider(Maes512::new()),
        provider(Aes::short("small8")),
        provider(ciphers::Flow),
        provider(Box20::new()),
    ] {
        for suite in own {
            let key = key(&provider, suite, true);
            let octets = |n: usize| 16 * (n * 7 % 40);
            let fresh = |n: usize| Packet::new(suite, n as u64 + 1, counting(octets(n)));
            let mut all: Vec<Packet> = (0..19).map(fresh).collect();
            key.seal_batch(&mut all.iter_mut().map(Packet::seal_op).collect::<Vec<_>>()).unwrap();
            for (n, packet) in all.iter().enumerate() {
                assert_eq!(*packet, fresh(n).sealed(key.as_ref()), "{suite} {n}");
            }
            for packet in all.iter_mut().step_by(3) {
                packet.icv[1] ^= 4;
            }
            let sent = all.clone();
            let mut ops: Vec<_> = all.iter_mut().enumerate().map(|(n, p)| p.open_op(n % 2 == 0)).collect();
            key.open_batch(&mut ops).unwrap();
            let ok: Vec<bool> = ops.iter().map(|op| op.ok).collect();
            assert_eq!(ok, (0..19).map(|n| n % 3 != 0).collect::<Vec<_>>(), "{suite}");
            for (n, packet) in all.iter().enumerate().filter(|(n, _)| n % 3 != 0) {
                assert_eq!(packet.data, counting(octets(n)), "{suite} {n}");
            }
            if !suite.custom().unwrap().kind().is_alone() {
                // What did not verify was not touched by the cipher (the outer GCM of a cascade may have).
                let cascade = suite.to_string().ends_with("-aes256gcm");
                assert!(cascade || all.iter().zip(&sent).step_by(3).all(|(now, then)| now.data == then.data));
            }
        }
    }
}

#[test]
fn foreign_code_never_sees_an_octet_that_was_not_verified() {
    let watched = Watched::new();
    let calls = watched.calls.clone();
    let (provider, own) = provider(watched);
    let behind_the_host = own.into_iter().filter(|suite| !suite.custom().unwrap().kind().is_alone());
    // Suites of one kind differ in the MAC alone.
    let mut kinds = Vec::new();
    for suite in behind_the_host {
        let kind = suite.custom().unwrap().kind();
        let is_first = !kinds.contains(&kind);
        kinds.push(kind);
        let count = if is_first { 100_000u32 } else { 10_000 };
        let key = key(&provider, suite, false);
        let sealed = Packet::new(suite, 3, counting(96)).sealed(key.as_ref());
        let before = calls.load(Ordering::Relaxed);
        for n in 0..count {
            let mut forged = sealed.clone();
            let part = match n % 4 {
                0 => &mut forged.data[..],
                1 => &mut forged.icv[..],
                2 => &mut forged.iv[..],
                _ => &mut forged.header[..],
            };
            let at = n as usize / 4 % part.len();
            part[at] ^= 1 << (n % 7);
            assert_eq!(key.open(forged.open_op(true)), Ok(false), "{suite}");
        }
        assert_eq!(calls.load(Ordering::Relaxed), before, "{suite}: {count} forged packets");
        assert!(sealed.opened(key.as_ref()).is_some());
        assert!(calls.load(Ordering::Relaxed) > before, "{suite}: the counter counts");
    }
}

#[test]
fn peers_with_unlike_ciphers_under_one_name_do_not_authenticate() {
    let (one, own) = provider(Aes::new("house256", Fault::None));
    // The same but for one key in the fingerprint, and none of those that traffic uses.
    let (other, _) = provider(Aes::new("house256", Fault::OtherForOneKey));
    assert_ne!(one.behaviour(), other.behaviour());
    for suite in own.into_iter().filter(|suite| !suite.custom().unwrap().kind().is_alone()) {
        let packet = Packet::new(suite, 1, counting(64)).sealed(key(&one, suite, true).as_ref());
        assert!(packet.opened(key(&one, suite, true).as_ref()).is_some(), "{suite}");
        assert_eq!(packet.opened(key(&other, suite, true).as_ref()), None, "{suite}");
    }
}

#[test]
fn a_unit_that_fails_seals_and_opens_nothing() {
    let (sound, own) = provider(Aes::new("house256", Fault::None));
    let (failing, _) = provider(Aes::new("house256", Fault::FailsLater));
    for suite in own {
        let good = Packet::new(suite, 1, counting(64)).sealed(key(&sound, suite, true).as_ref());
        let Ok(key) = failing.transform(suite, &keymat(suite.keymat_len(), 1), true) else {
            // GCM asks for E(0) with the key.
            assert_eq!(suite.to_string(), "house256gcm");
            continue;
        };
        let mut packet = Packet::new(suite, 1, counting(64));
        assert_eq!(key.seal(packet.seal_op()), Err(UnitFailed), "{suite}");
        assert_eq!(key.open(good.clone().open_op(false)), Err(UnitFailed), "{suite}");
    }
}

#[test]
fn keys_that_are_refused_say_why() {
    let (provider, own) = provider(Maes512::new());
    for suite in own {
        let short = provider.transform(suite, &keymat(suite.keymat_len() - 1, 1), true).err().unwrap();
        assert!(matches!(short, CryptoError::KeyLength { .. }), "{suite}");
        let alike = crypto::Secret::new(vec![5; suite.keymat_len()]);
        let weak = provider.transform(suite, &alike, true).err().unwrap();
        assert_eq!(
            weak.to_string(),
            format!("{suite}: the cipher refuses this key as weak; draw another one")
        );
    }
    let standard = provider.transform(SuiteId::AES_128_GCM, &keymat(20, 1), true).err();
    assert_eq!(standard, Some(CryptoError::NoProvider(SuiteId::AES_128_GCM)));
    assert!(!provider.offers(SuiteId::AES_256_GCM));
    let missing = CustomProvider::new(Arc::new(Maes512::new()), &Suites::standard()).unwrap_err();
    assert_eq!(missing.to_string(), "the cipher maes512 is not in the catalogue of suites");
}
