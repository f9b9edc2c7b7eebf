//! Stream ciphers, combined modes and blocks of 8 octets from libraries, compared with a second form in Rust.

use std::fmt::Write as _;
use std::fs;

use crypto::UnitFailed;
use crypto::custom::{AeadKey, AeadOp, CustomCipher, CustomKey, StreamKey, StreamOp};

use crate::lab::{Folder, hex};

/// The ciphers of `flow.c`, written a second time.
struct Flow([u64; 4]);

fn word(octets: &[u8]) -> u64 {
    u64::from_le_bytes(octets[..8].try_into().unwrap())
}

fn mix(x: u64, k: u64) -> u64 {
    x.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(k).rotate_left(23) ^ x.rotate_left(7)
}

impl Flow {
    fn new(key: &[u8; 32]) -> Flow {
        Flow(std::array::from_fn(|at| word(&key[8 * at..])))
    }

    fn xor(&self, nonce: &[u8; 12], offset: u64, data: &mut [u8]) {
        for (octet, at) in data.iter_mut().zip(offset..) {
            let start = at / 8;
            let round = |sum: u64, k: &u64| mix(sum.wrapping_add(word(nonce)), *k) ^ word(&nonce[4..]);
            *octet ^= (self.0.iter().fold(start, round) >> (8 * (at % 8))) as u8;
        }
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        self.xor(nonce, 8, data);
        let k = self.0;
        let add = |k| move |sum: u64, octet: &u8| mix(sum.wrapping_add(u64::from(*octet)), k);
        let first = aad.iter().fold(mix(word(nonce), k[0]).wrapping_add(aad.len() as u64), add(k[2]));
        let second =
            data.iter().fold(mix(word(&nonce[4..]), k[1]).wrapping_add(data.len() as u64), add(k[3]));
        let first = first.wrapping_add(mix(second, k[0]));
        let second = second.wrapping_add(mix(first, k[1]));
        [first.to_le_bytes(), second.to_le_bytes()].concat().try_into().unwrap()
    }
}

/// A folder with the library of these arguments, a manifest and 110 vectors, of which ten are invalid for an AEAD.
fn folder(aead: bool, arguments: &[&str]) -> Folder {
    let folder = Folder::new();
    let mut all = arguments.to_vec();
    if aead {
        all.push("-DAEAD");
    }
    folder.compile_source("flow.c", &all);
    let mut text = "{\"cipher\":\"toyflow\",\"tests\":[".to_owned();
    for number in 1..=110u8 {
        let (key, nonce, offset) = ([number; 32], [number ^ 0x33; 12], u64::from(number) * 1_000_003);
        let msg = vec![number; usize::from(number)];
        let (mut ct, mut more) = (msg.clone(), String::new());
        let invalid = aead && number > 100;
        if aead {
            let mut tag = Flow::new(&key).seal(&nonce, &msg[1..], &mut ct);
            tag[0] ^= u8::from(invalid);
            write!(more, "\"aad\":\"{}\",\"tag\":\"{}\"", hex(&msg[1..]), hex(&tag)).unwrap();
        } else {
            Flow::new(&key).xor(&nonce, offset, &mut ct);
            write!(more, "\"offset\":{offset}").unwrap();
        }
        let comma = if number == 1 { "" } else { "," };
        write!(
            text,
            "{comma}{{\"tcId\":{number},\"mode\":\"{}\",\"key\":\"{}\",\"iv\":\"{}\",{more},\"msg\":\"{}\",\"ct\":\"{}\",\
             \"result\":\"{}\"}}",
            if aead { "aead" } else { "stream" },
            hex(&key),
            hex(&nonce),
            hex(&msg),
            hex(&ct),
            if invalid { "invalid" } else { "valid" }
        )
        .unwrap();
    }
    fs::write(folder.path("vectors.json"), text + "]}").unwrap();
    let lengths = if aead { "\"nonce\":12,\"tag\":16" } else { "\"nonce\":12" };
    let kind = if aead { "\"kind\":\"aead\"" } else { "\"kind\":\"stream\"" };
    folder.manifest(&[
        ("\"toycipher\"", "\"toyflow\""),
        ("\"block\":16", lengths),
        ("\"kind\":\"block\"", kind),
    ]);
    folder
}

fn stream_key(arguments: &[&str], key: &[u8; 32]) -> Box<dyn StreamKey> {
    let loaded = folder(false, arguments).load().unwrap();
    assert_eq!((loaded.counts.stream, loaded.counts.total()), (110, 110));
    match loaded.cipher.set_key(key) {
        Ok(CustomKey::Stream(key)) => key,
        _ => panic!("no key of a stream cipher"),
    }
}

fn aead_key(arguments: &[&str], key: &[u8; 32]) -> Box<dyn AeadKey> {
    let loaded = folder(true, arguments).load().unwrap();
    assert_eq!((loaded.counts.aead, loaded.counts.invalid), (100, 10));
    match loaded.cipher.set_key(key) {
        Ok(CustomKey::Aead(key)) => key,
        _ => panic!("no key of a combined mode"),
    }
}

#[test]
fn a_stream_cipher_reaches_any_octet_in_place_and_copied() {
    for form in [&["-DNOT_IN_PLACE"][..], &["-DFLAGS=3"]] {
        let key = stream_key(form, &[5; 32]);
        for (offset, len) in [(0, 0), (1, 1), (13, 5000), (u64::MAX - 2500, 2500), (u64::MAX, 0)] {
            let (mut data, mut want) = (vec![7; len], vec![7; len]);
            key.xor_batch(&mut [StreamOp { nonce: &[9; 12], offset, data: &mut data }]).unwrap();
            Flow::new(&[5; 32]).xor(&[9; 12], offset, &mut want);
            assert_eq!(data, want, "{offset} {len}");
        }
        let beyond = key.xor_batch(&mut [StreamOp { nonce: &[9; 12], offset: u64::MAX, data: &mut [1, 2] }]);
        assert_eq!(beyond, Err(UnitFailed));
        let short = key.xor_batch(&mut [StreamOp { nonce: &[9; 11], offset: 0, data: &mut [1] }]);
        assert_eq!(short, Err(UnitFailed));
    }
}

#[test]
fn a_combined_mode_is_the_same_alone_and_in_batches_in_place_and_copied() {
    for form in [
        &["-DNOT_IN_PLACE"][..],
        &["-DFLAGS=3"],
        &["-DBATCH=1"],
        &["-DBATCH=1", "-DFLAGS=3"],
        &["-DRELEASES"],
    ] {
        let key = aead_key(form, &[6; 32]);
        let plain: Vec<Vec<u8>> = (0..20usize).map(|n| vec![n as u8; n * n * 20]).collect();
        let (mut data, mut tags) = (plain.clone(), vec![[0; 16]; 20]);
        let mut ops: Vec<AeadOp<'_>> = data
            .iter_mut()
            .zip(&mut tags)
            .map(|(data, tag)| AeadOp { nonce: &[1; 12], aad: b"aad", data, tag, ok: false })
            .collect();
        key.seal_batch(&mut ops).unwrap();
        for (op, plain) in ops.iter().zip(&plain) {
            let mut want = plain.clone();
            assert_eq!(op.tag, Flow::new(&[6; 32]).seal(&[1; 12], b"aad", &mut want));
            assert_eq!(op.data, want);
        }
        ops[7].tag[3] ^= 1;
        ops[18].data[5] ^= 1;
        key.open_batch(&mut ops).unwrap();
        for (at, (op, plain)) in ops.iter().zip(&plain).enumerate() {
            assert_eq!(op.ok, at != 7 && at != 18, "{at}");
            // Whatever the library left there, nobody sees plaintext whose tag was wrong.
            assert!(
                if op.ok { op.data == plain } else { op.data.iter().all(|octet| *octet == 0) },
                "{form:?} {at}"
            );
        }
        let short = &mut [AeadOp { nonce: &[1; 12], aad: b"", data: &mut [], tag: &mut [0; 12], ok: false }];
        assert_eq!(key.seal_batch(short), Err(UnitFailed));
        assert_eq!(key.open_batch(short), Err(UnitFailed));
    }
}

#[test]
fn a_packet_longer_than_any_is_no_answer_where_it_must_be_copied() {
    let key = aead_key(&[], &[6; 32]);
    let mut long = vec![0; 65537];
    let mut tag = [0; 16];
    let mut op = [AeadOp { nonce: &[1; 12], aad: b"", data: &mut long, tag: &mut tag, ok: false }];
    assert_eq!(key.seal_batch(&mut op), Err(UnitFailed));
}

#[test]
fn faults_of_stream_ciphers_and_combined_modes_are_found() {
    for (aead, arguments, words) in [
        (false, &["-DAT=0"][..], "test vector 1: "),
        (true, &["-DOPENS"], "test vector 101: the test is invalid, and the cipher opened it"),
        (true, &["-DANSWER=4"], "test vector 101: the cipher's answer did not come"),
        (
            true,
            &["-DTAG_BEHIND"],
            "SIGSEGV ended it as it touched memory beside a buffer, during check edges",
        ),
        (true, &["-DBATCH=2"], "check `batch`: packet 2 of a batch differs"),
        (true, &["-DBATCH=3"], "check `batch`: packet 9 of a batch with one wrong tag is opened wrongly"),
    ] {
        let error = folder(aead, arguments).refused();
        assert!(error.contains(words), "{arguments:?} should be refused as {words:?}: {error}");
    }
}

/// A block of 8 octets, encrypted by the second form.
fn eight(key: &[u8; 32], block: &mut [u8; 8]) {
    let round = |x: u64, k: u64| (x ^ k).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    *block = Flow::new(key).0.into_iter().fold(word(block), round).to_le_bytes();
}

#[test]
fn a_cipher_with_blocks_of_8_octets_is_loaded_with_tests_of_blocks_and_cbc() {
    let folder = Folder::new();
    folder.compile_source("flow.c", &["-DEIGHT"]);
    let mut text = "{\"cipher\":\"toyflow\",\"tests\":[".to_owned();
    for number in 1..=120u8 {
        let (key, iv, msg) = ([number; 32], [number ^ 0x77; 8], [number.wrapping_mul(59); 40]);
        let (mut ct, mut previous) = (msg, [0; 8]);
        let chained = number > 110;
        if chained {
            previous = iv;
        }
        for block in ct.as_chunks_mut::<8>().0 {
            if chained {
                block.iter_mut().zip(previous).for_each(|(to, from)| *to ^= from);
            }
            eight(&key, block);
            previous = *block;
        }
        let mode = if chained { format!("\"cbc\",\"iv\":\"{}\"", hex(&iv)) } else { "\"block\"".to_owned() };
        let comma = if number == 1 { "" } else { "," };
        let (key, msg, ct) = (hex(&key), hex(&msg), hex(&ct));
        write!(
            text,
            "{comma}{{\"tcId\":{number},\"mode\":{mode},\"key\":\"{key}\",\"msg\":\"{msg}\",\"ct\":\"{ct}\",\
             \"result\":\"valid\"}}"
        )
        .unwrap();
    }
    fs::write(folder.path("vectors.json"), text + "]}").unwrap();
    folder.manifest(&[("\"toycipher\"", "\"toyflow\""), ("\"block\":16", "\"block\":8")]);
    let loaded = folder.load().unwrap();
    assert_eq!((loaded.counts.block, loaded.counts.cbc), (110, 10));
    // 2^20 blocks a key, whatever the manifest says.
    assert_eq!(loaded.cipher.description().most_octets(), Some(8 << 20));
}
