//! The providers as the house uses them.

use crate::packet;

use crypto::{CryptoError, Integrity, Provider, Secret, SuiteId, UnitFailed};
use crypto_std::{Ring, RustCrypto};
use packet::{Packet, keymat};
use proptest::prelude::*;

const COMMON: [SuiteId; 3] = [SuiteId::AES_128_GCM, SuiteId::AES_256_GCM, SuiteId::CHACHA20_POLY1305];

#[test]
fn the_registry_offers_every_suite() {
    let mut registry = crypto_std::registry().unwrap();
    registry.allow_legacy(true).unwrap();
    let mut count = 0;
    for suite in SuiteId::all() {
        let by = if COMMON.contains(&suite) { "ring" } else { "rustcrypto" };
        assert_eq!(registry.provider(suite).unwrap().name(), by, "{suite}");
        let want = suite.keymat_len();
        assert!(registry.transform(suite, &Secret::new(vec![1; want]), true).is_ok());
        for got in [0, 1, want - 1, want + 1, 200] {
            let refused = registry.transform(suite, &Secret::new(vec![1; got]), false).err();
            assert_eq!(refused, Some(CryptoError::KeyLength { suite, want, got }));
        }
        count += 1;
    }
    assert_eq!(count, 106);
    for integrity in Integrity::ALL.iter().copied().filter(|i| *i != Integrity::Combined) {
        let want = integrity.keymat_len();
        let key = registry.authenticator(integrity, &Secret::new(vec![1; want])).unwrap();
        assert_eq!(key.len(), integrity.iv_len() + integrity.icv_len());
        for got in [0, 1, want - 1, want + 1, 200] {
            let refused = registry.authenticator(integrity, &Secret::new(vec![1; got])).err();
            assert_eq!(refused, Some(CryptoError::AuthenticatorKeyLength { integrity, want, got }));
        }
    }
    let combined = registry.authenticator(Integrity::Combined, &Secret::new(vec![])).err();
    assert_eq!(combined, Some(CryptoError::NoAuthenticator(Integrity::Combined)));
}

#[test]
fn both_providers_know_every_answer() {
    assert_eq!(crypto::known_answer::check(&Ring), Ok(()));
    assert_eq!(crypto::known_answer::check(&RustCrypto), Ok(()));
}

#[test]
fn lengths_of_another_suite_let_nothing_through() {
    for suite in SuiteId::all() {
        let key = RustCrypto.transform(suite, &keymat(suite.keymat_len(), 1), false).unwrap();
        let good = |n| Packet::new(suite, n, vec![7; 48]);
        let spoil: [fn(&mut Packet); 3] =
            [|p| p.icv.push(0), |p| p.icv.truncate(p.icv.len() - 1), |p| p.iv.push(0)];
        let mut all = vec![good(1)];
        for (n, spoil) in (2..).zip(spoil) {
            let mut packet = good(n);
            spoil(&mut packet);
            all.push(packet);
        }
        if suite.block_len() > 1 {
            let mut packet = good(9);
            packet.data.pop();
            all.push(packet);
        }
        all.push(good(10));
        let before = all.clone();
        let sealed = key.seal_batch(&mut all.iter_mut().map(Packet::seal_op).collect::<Vec<_>>());
        assert_eq!(sealed, Err(UnitFailed), "{suite}");
        let last = all.len() - 1;
        for (n, (packet, before)) in all.iter().zip(&before).enumerate() {
            if n == 0 || n == last {
                assert_eq!(packet, &before.clone().sealed(key.as_ref()), "{suite}: others change nothing");
            } else {
                assert!(packet.data.iter().chain(&packet.icv).all(|o| *o == 0), "{suite} {n}");
            }
        }
        let mut ops: Vec<_> = all.iter_mut().map(|p| p.open_op(true)).collect();
        key.open_batch(&mut ops).unwrap();
        let right: Vec<_> = ops.iter().map(|op| op.ok).collect();
        assert!((0..right.len()).all(|n| right[n] == (n == 0 || n == last)), "{suite}: {right:?}");
    }
}

#[test]
fn a_forged_packet_leaves_no_plaintext_behind() {
    for suite in SuiteId::all().filter(|suite| suite.encrypts()) {
        let key = RustCrypto.transform(suite, &keymat(suite.keymat_len(), 1), true).unwrap();
        let plain = vec![0x55; 240];
        let mut packet = Packet::new(suite, 77, plain.clone()).sealed(key.as_ref());
        packet.icv[0] ^= 1;
        assert_eq!(key.open(packet.open_op(true)), Ok(false));
        let alike = packet.data.chunks(16).zip(plain.chunks(16)).filter(|(a, b)| a == b).count();
        assert_eq!(alike, 0, "{suite}");
    }
}

fn a_batch() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![3 => 0usize..40, 1 => 40usize..130, 1 => Just(64usize)], 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_sealed_opens_alone_and_in_batches(
        suite in prop::sample::select(SuiteId::all().collect::<Vec<_>>()),
        seed: u8,
        extended: bool,
        first: u64,
        blocks in a_batch(),
    ) {
        let key = RustCrypto.transform(suite, &keymat(suite.keymat_len(), seed), extended).unwrap();
        let unit = suite.block_len();
        let fresh: Vec<_> = blocks.iter().enumerate().map(|(n, len)| {
            let octets = if unit == 1 { len * 7 } else { len * unit };
            let data = (0..octets).map(|i| (i * 31) as u8 ^ seed).collect();
            Packet::new(suite, first.wrapping_add(n as u64), data)
        }).collect();
        let mut sealed = fresh.clone();
        key.seal_batch(&mut sealed.iter_mut().map(Packet::seal_op).collect::<Vec<_>>()).unwrap();
        for (fresh, sealed) in fresh.iter().zip(&sealed) {
            prop_assert_eq!(&fresh.clone().sealed(key.as_ref()), sealed);
            prop_assert_eq!(sealed.opened(key.as_ref()), Some(fresh.data.clone()));
        }
        let mut opened = sealed.clone();
        let mut ops: Vec<_> = opened.iter_mut().map(|p| p.open_op(false)).collect();
        key.open_batch(&mut ops).unwrap();
        prop_assert!(ops.iter().all(|op| op.ok));
        drop(ops);
        for (fresh, opened) in fresh.iter().zip(&opened) {
            prop_assert_eq!(&fresh.data, &opened.data);
        }
    }

    #[test]
    fn one_octet_changed_anywhere_is_refused(
        suite in prop::sample::select(SuiteId::all().collect::<Vec<_>>()),
        extended: bool,
        blocks in 0usize..12,
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let key = RustCrypto.transform(suite, &keymat(suite.keymat_len(), 3), extended).unwrap();
        let mut packet = Packet::new(suite, 0x1_0000_0001, vec![9; blocks * suite.block_len()]).sealed(key.as_ref());
        let len = 8 + packet.iv.len() + packet.data.len() + packet.icv.len();
        let at = at.index(len);
        let octet = packet.header.iter_mut().chain(&mut packet.iv).chain(&mut packet.data).chain(&mut packet.icv).nth(at);
        *octet.unwrap() ^= 1 << bit;
        prop_assert_eq!(packet.opened(key.as_ref()), None);
    }

    #[test]
    fn the_two_providers_make_the_same_packets(
        suite in prop::sample::select(COMMON.to_vec()),
        key: [u8; 36],
        extended: bool,
        sequence: u64,
        header: [u8; 8],
        data in prop::collection::vec(any::<u8>(), 0..2200),
    ) {
        let keymat = Secret::new(key[..suite.keymat_len()].to_vec());
        let ring = Ring.transform(suite, &keymat, extended).unwrap();
        let rust = RustCrypto.transform(suite, &keymat, extended).unwrap();
        let fresh = Packet { header, ..Packet::new(suite, sequence, data) };
        let sealed = fresh.clone().sealed(ring.as_ref());
        prop_assert_eq!(&sealed, &fresh.clone().sealed(rust.as_ref()));
        prop_assert_eq!(sealed.opened(ring.as_ref()), Some(fresh.data.clone()));
        prop_assert_eq!(sealed.opened(rust.as_ref()), Some(fresh.data.clone()));
    }

    #[test]
    fn where_the_parts_of_an_ah_packet_are_cut_does_not_matter(
        integrity in prop::sample::select(Integrity::ALL[1..].to_vec()),
        octets in prop::collection::vec(any::<u8>(), 0..700),
        mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        sequence: u64,
    ) {
        let key = RustCrypto.authenticator(integrity, &keymat(integrity.keymat_len(), 5)).unwrap();
        let mut whole = vec![0; key.len()];
        key.sign(sequence, &[&octets], &mut whole);
        let mut at: Vec<_> = cuts.drain(..).map(|c| c.index(octets.len() + 1)).collect();
        at.extend([0, octets.len()]);
        at.sort_unstable();
        let parts: Vec<_> = at.windows(2).map(|w| &octets[w[0]..w[1]]).collect();
        let mut pieces = vec![0; key.len()];
        key.sign(sequence, &parts, &mut pieces);
        prop_assert_eq!(&whole, &pieces);
        prop_assert!(key.verify(&parts, &whole));
    }
}
