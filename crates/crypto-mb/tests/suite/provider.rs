//! The wide unit as the house uses it, at every width that this processor has, against the units that it stands beside.

use crate::packet;
use crate::widths;

use crypto::{CryptoError, OpenOp, Provider, Registry, SealOp, Secret, SuiteId, Transform, UnitFailed};
use crypto_mb::Wide;
use crypto_std::{Ring, RustCrypto};
use packet::{Packet, keymat};
use proptest::prelude::*;
use widths::{suites, suites_of_all, widths};

/// The same key at each width that has the suite.
fn keys(suite: SuiteId, keymat: &Secret, extended: bool) -> Vec<Box<dyn Transform>> {
    let widths = Wide::detect_all().into_iter().filter(|wide| wide.offers(suite));
    widths.map(|wide| wide.transform(suite, keymat, extended).unwrap()).collect()
}

#[test]
fn it_offers_gcm_and_chacha_and_nothing_else() {
    for wide in widths() {
        for suite in SuiteId::all() {
            // Only the widest may have ChaCha20-Poly1305.
            if suite != SuiteId::CHACHA20_POLY1305 || !wide.offers(suite) {
                assert_eq!(wide.offers(suite), suites_of_all()[..9].contains(&suite), "{suite}");
            }
            let want = suite.keymat_len();
            for got in [0, 1, want.saturating_sub(1), want, want + 1, 200] {
                let made = wide.transform(suite, &Secret::new(vec![1; got]), true).err();
                let expected = match (wide.offers(suite), got == want) {
                    (false, _) => Some(CryptoError::NoProvider(suite)),
                    (true, false) => Some(CryptoError::KeyLength { suite, want, got }),
                    (true, true) => None,
                };
                assert_eq!(made, expected, "{suite} {got}");
            }
        }
    }
}

#[test]
fn it_knows_every_answer() {
    for wide in widths() {
        assert_eq!(crypto::known_answer::check(&wide), Ok(()), "{wide:?}");
        assert!(Registry::new().with_tested(wide).is_ok());
    }
}

/// Every length up to two steps of the widest and a rest, so every way through a step, an end and a part of a block.
#[test]
fn packets_of_every_length_are_those_of_another_unit() {
    for suite in suites() {
        let keymat = keymat(suite.keymat_len(), 0x35);
        let other = RustCrypto.transform(suite, &keymat, false).unwrap();
        let keys = keys(suite, &keymat, false);
        for len in (0..2200usize).chain([4096, 9000]) {
            let data: Vec<u8> = (0..len).map(|i| (i * 37 + len) as u8).collect();
            let fresh = Packet::new(suite, len as u64, data.clone());
            let expected = fresh.clone().sealed(other.as_ref());
            for key in &keys {
                let sealed = fresh.clone().sealed(key.as_ref());
                assert_eq!(sealed, expected, "{suite} {len}");
                assert_eq!(sealed.opened(key.as_ref()).as_ref(), Some(&data), "{suite} {len}");
            }
        }
    }
}

/// What stands before and behind a packet is neither read nor written: full registers are used at its ends as well.
#[test]
fn a_packet_among_other_octets_is_what_it_is_alone() {
    const AROUND: usize = 192;
    for suite in suites() {
        let keymat = keymat(suite.keymat_len(), 0x77);
        for key in keys(suite, &keymat, true) {
            for len in (0..700usize).chain([1399, 1400, 1499]) {
                let before = AROUND + len % 64;
                let data: Vec<u8> = (0..len).map(|i| (i * 29 + len) as u8).collect();
                let alone = Packet::new(suite, len as u64, data.clone()).sealed(key.as_ref());
                let mut area = vec![0xa5; before + len + AROUND];
                let within = before..before + len;
                area[within.clone()].copy_from_slice(&data);
                let mut packet = Packet::new(suite, len as u64, Vec::new());
                key.seal(SealOp { data: &mut area[within.clone()], ..packet.seal_op() }).unwrap();
                assert_eq!((&packet.iv, &packet.icv), (&alone.iv, &alone.icv), "{suite} {len}");
                assert_eq!(area[within.clone()], alone.data, "{suite} {len}");
                let op = OpenOp { data: &mut area[within.clone()], ..packet.open_op(false) };
                assert_eq!(key.open(op), Ok(true), "{suite} {len}");
                assert_eq!(area[within.clone()], data, "{suite} {len}");
                let (front, behind) = (&area[..before], &area[within.end..]);
                assert!(front.iter().chain(behind).all(|octet| *octet == 0xa5), "{suite} {len}");
            }
        }
    }
}

/// The longest packet that there may be is right to its end, and one octet more is refused even if another unit sealed it.
#[test]
fn the_longest_packet_and_one_octet_more() {
    const LONGEST: usize = 1 << 24;
    for suite in suites().into_iter().filter(|suite| Ring.offers(*suite)) {
        let keymat = keymat(suite.keymat_len(), 0x19);
        let ring = Ring.transform(suite, &keymat, false).unwrap();
        let packets = [LONGEST, LONGEST + 1].map(|len| Packet::new(suite, 1, vec![0x3c; len]));
        for key in keys(suite, &keymat, false) {
            let [longest, longer] = packets.clone().map(|packet| packet.sealed(ring.as_ref()));
            assert!(packets[0].clone().sealed(key.as_ref()) == longest, "{suite}");
            assert!(longest.opened(key.as_ref()).as_ref() == Some(&packets[0].data), "{suite}");
            assert!(longer.opened(key.as_ref()).is_none(), "{suite}");
        }
    }
}

#[test]
fn lengths_of_another_suite_let_nothing_through() {
    for suite in suites() {
        for key in keys(suite, &keymat(suite.keymat_len(), 1), false) {
            let spoil: [fn(&mut Packet); 4] = [
                |p| p.icv.push(0),
                |p| p.icv.truncate(p.icv.len() - 1),
                |p| p.iv.push(0),
                |p| p.data.resize((1 << 24) + 1, 7),
            ];
            for spoil in spoil {
                let mut packet = Packet::new(suite, 3, vec![7; 48]);
                spoil(&mut packet);
                let mut sealed = packet.clone();
                assert_eq!(key.seal(sealed.seal_op()), Err(UnitFailed), "{suite}");
                assert!(sealed.data.iter().chain(&sealed.icv).all(|octet| *octet == 0), "{suite}");
                assert_eq!(packet.opened(key.as_ref()), None, "{suite}");
            }
        }
    }
}

#[test]
fn a_forged_packet_leaves_no_plaintext_behind() {
    for suite in suites() {
        for key in keys(suite, &keymat(suite.keymat_len(), 1), true) {
            for len in [1, 16, 240, 1500] {
                let mut packet = Packet::new(suite, 77, vec![0x55; len]).sealed(key.as_ref());
                packet.icv[0] ^= 1;
                assert_eq!(key.open(packet.open_op(true)), Ok(false));
                assert_eq!(packet.data, vec![0; len], "{suite}");
            }
        }
    }
}

/// Every bit of every part, once, in packets that end in each way.
#[test]
fn one_bit_changed_anywhere_is_refused() {
    for suite in suites() {
        for key in keys(suite, &keymat(suite.keymat_len(), 3), true) {
            for len in [0, 1, 16, 33, 64, 257, 513] {
                let packet = Packet::new(suite, 0x1_0000_0001, vec![9; len]).sealed(key.as_ref());
                let octets = 8 + packet.iv.len() + len + packet.icv.len();
                for bit in 0..8 * octets {
                    let mut changed = packet.clone();
                    let Packet { header, iv, data, icv, .. } = &mut changed;
                    let octet = header.iter_mut().chain(iv).chain(data).chain(icv).nth(bit / 8).unwrap();
                    *octet ^= 1 << (bit % 8);
                    assert_eq!(changed.opened(key.as_ref()), None, "{suite} {len} bit {bit}");
                }
                // The upper half of an extended number is authenticated, too.
                let other = Packet { sequence: packet.sequence ^ 1 << 32, ..packet.clone() };
                assert_eq!(other.opened(key.as_ref()), None, "{suite} {len}");
                assert!(packet.opened(key.as_ref()).is_some());
            }
        }
    }
}

#[test]
fn any_key_and_packet_in_a_batch_as_another_unit_makes_them() {
    let suites = suites();
    if suites.is_empty() {
        return;
    }
    proptest!(ProptestConfig::with_cases(300), |(
        suite in prop::sample::select(suites),
        key: [u8; 36],
        extended: bool,
        first: u64,
        header: [u8; 8],
        lens in prop::collection::vec(prop_oneof![0usize..200, 1300..1500usize, 0..9100usize], 1..24),
        fill: u64,
    )| {
        let keymat = Secret::new(key[..suite.keymat_len()].to_vec());
        let other = RustCrypto.transform(suite, &keymat, extended).unwrap();
        let octet = |n: usize| (n as u64).wrapping_mul(fill | 1).rotate_left(17) as u8;
        let fresh: Vec<_> = lens.iter().enumerate().map(|(n, len)| {
            let data = (0..*len).map(octet).collect();
            Packet { header, ..Packet::new(suite, first.wrapping_add(n as u64), data) }
        }).collect();
        let expected: Vec<_> = fresh.iter().map(|packet| packet.clone().sealed(other.as_ref())).collect();
        for key in keys(suite, &keymat, extended) {
            let mut packets = fresh.clone();
            key.seal_batch(&mut packets.iter_mut().map(Packet::seal_op).collect::<Vec<_>>()).unwrap();
            prop_assert_eq!(&packets, &expected);
            let mut ops: Vec<_> = packets.iter_mut().map(|packet| packet.open_op(false)).collect();
            key.open_batch(&mut ops).unwrap();
            prop_assert!(ops.iter().all(|op| op.ok));
            drop(ops);
            prop_assert!(packets.iter().zip(&fresh).all(|(packet, fresh)| packet.data == fresh.data));
        }
    });
}
