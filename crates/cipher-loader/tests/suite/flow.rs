//! Stream ciphers, combined modes and blocks of 8 octets from libraries, compared with a second form in Rust.

use crypto::UnitFailed;
use crypto::custom::{AeadKey, AeadOp, CustomCipher, CustomKey, StreamKey, StreamOp};

use crate::flow_lab::{Flow, eight_folder, folder};

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

#[test]
fn a_cipher_with_blocks_of_8_octets_is_loaded_with_tests_of_blocks_and_cbc() {
    let folder = eight_folder();
    let loaded = folder.load().unwrap();
    assert_eq!((loaded.counts.block, loaded.counts.cbc), (110, 10));
    // 2^20 blocks a key, whatever the manifest says.
    assert_eq!(loaded.cipher.description().most_octets(), Some(8 << 20));
}
