//! Vectors before ciphers: right ones pass, and each fault is found and named.

use cipher_manifest::Vectors;
use cipher_manifest::vectors::{Counts, VectorError, run};

use crate::ciphers::{Cipher, Fault};
use crate::published::{self, file, filling, hex};

/// The answer of one mode among 100 tests that this cipher passes.
fn answer(cipher: &Cipher, tests: &[String]) -> Result<Counts, VectorError> {
    let text = file(&cipher.description.name, tests);
    run(&Vectors::parse(text.as_bytes()).expect("a vector file"), cipher)
}

/// 100 tests of AES blocks that no fault touches, and others.
fn with_blocks(others: &[&str]) -> Vec<String> {
    let mut tests = filling(100);
    tests.extend(others.iter().map(|test| (*test).to_owned()));
    tests
}

/// The same test a hundred times and more.
fn often(test: &str) -> Vec<String> {
    vec![test.to_owned(); 100]
}

#[test]
fn right_ciphers_pass_and_are_counted() {
    let others = [published::FIPS_197, published::CTR, published::CBC, published::GCM];
    let counts = answer(&Cipher::block(Fault::None), &with_blocks(&others)).unwrap();
    assert_eq!(counts, Counts { block: 101, ctr: 1, cbc: 1, gcm: 1, ..Counts::default() });
    assert_eq!(counts.total(), 104);
    let counts = answer(&Cipher::stream(Fault::None), &often(published::CHACHA20)).unwrap();
    assert_eq!(counts, Counts { stream: 100, ..Counts::default() });
    let counts = answer(&Cipher::aead(Fault::None), &often(published::AEAD)).unwrap();
    assert_eq!(counts, Counts { aead: 100, ..Counts::default() });
}

#[test]
fn each_fault_of_a_block_cipher_is_found() {
    // A counter that wraps: its carry must not leave the last four octets.
    let wraps =
        published::CTR.replace("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", "f0f1f2f3f4f5f6f7f8f9fafbffffffff");
    let wraps =
        wraps.replace("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5", &ctr_wraps());
    for (fault, test, tc_id, why) in [
        (Fault::None, wraps.as_str(), None, ""),
        (Fault::Decrypt, published::FIPS_197, Some(1), "the plaintext is another"),
        (Fault::ManyBlocks, published::FIPS_197, Some(1), "the ciphertext is another"),
        (Fault::ManyBack, published::FIPS_197, Some(1), "the plaintext is another"),
        (Fault::OwnCtr, wraps.as_str(), Some(101), "the ciphertext is another"),
        (Fault::OwnCbc, published::CBC, Some(101), "the cipher's own CBC and its blocks differ"),
        (Fault::Unit, published::CBC, Some(1), "answer did not come"),
    ] {
        let result = answer(&Cipher::block(fault), &with_blocks(&[test]));
        match tc_id {
            None => assert!(result.is_ok(), "{fault:?}: {result:?}"),
            Some(_) => {
                let error = result.expect_err("a fault");
                assert_eq!(error.tc_id, tc_id, "{fault:?}: {error}");
                assert!(error.why.contains(why), "{fault:?}: {error}");
            }
        }
    }
}

/// The ciphertext of the message of SP 800-38A under a counter block that ends with ffffffff, by the crate `aes`.
fn ctr_wraps() -> String {
    use cipher::{BlockCipherEncrypt, KeyInit};
    let key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
    let octets = |text: &str| -> Vec<u8> {
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    let aes = aes::Aes256::new_from_slice(&octets(key)).unwrap();
    let mut stream =
        [octets("f0f1f2f3f4f5f6f7f8f9fafbffffffff"), octets("f0f1f2f3f4f5f6f7f8f9fafb00000000")].concat();
    stream.as_chunks_mut::<16>().0.iter_mut().for_each(|block| aes.encrypt_block(block.into()));
    let msg = octets("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    hex(&stream.iter().zip(msg).map(|(a, b)| a ^ b).collect::<Vec<u8>>())
}

#[test]
fn each_fault_of_a_stream_cipher_and_of_a_combined_mode_is_found() {
    let error = answer(&Cipher::stream(Fault::Offset), &often(published::CHACHA20)).unwrap_err();
    assert!(error.why.contains("in two pieces"), "{error}");
    for (fault, why) in [(Fault::Plaintext, "the plaintext is another"), (Fault::Tag, "the tag is another")] {
        let error = answer(&Cipher::aead(fault), &often(published::AEAD)).unwrap_err();
        assert_eq!((error.tc_id, error.why.as_str()), (Some(1), why));
    }
    let mut tests = often(published::AEAD);
    let forged = published::AEAD.replace("\"tag\":\"1a", "\"tag\":\"1b").replace("\"valid\"", "\"invalid\"");
    tests.push(forged);
    assert_eq!(answer(&Cipher::aead(Fault::None), &tests).unwrap().invalid, 1);
    let error = answer(&Cipher::aead(Fault::OpensAll), &tests).unwrap_err();
    assert_eq!(
        (error.tc_id, error.why.as_str()),
        (Some(101), "the test is invalid, and the cipher opened it")
    );
}

#[test]
fn one_octet_changed_anywhere_in_a_test_is_found() {
    for test in [published::FIPS_197, published::CTR, published::CBC, published::GCM] {
        for field in ["\"key\":\"", "\"ct\":\"", "\"msg\":\"", "\"iv\":\"", "\"aad\":\"", "\"tag\":\""] {
            let Some(at) = test.find(field).map(|at| at + field.len()) else { continue };
            let mut other = test.to_owned();
            let digit = if test[at..].starts_with('0') { "1" } else { "0" };
            other.replace_range(at..=at, digit);
            let error = answer(&Cipher::block(Fault::None), &with_blocks(&[&other])).expect_err(&other);
            assert_eq!(error.tc_id, Some(101), "{other}: {error}");
        }
    }
}

#[test]
fn an_invalid_test_of_a_mode_without_a_tag_has_a_key_that_is_refused() {
    let weak = published::CTR
        .replace("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", &"ee".repeat(32));
    let short = published::CTR.replace("603deb10", "");
    for key in [&weak, &short] {
        let invalid = key.replace("\"valid\"", "\"invalid\"");
        assert_eq!(answer(&Cipher::block(Fault::None), &with_blocks(&[&invalid])).unwrap().invalid, 1);
        let error = answer(&Cipher::block(Fault::None), &with_blocks(&[key])).unwrap_err();
        assert_eq!(error.tc_id, Some(101), "{error}");
    }
    let taken = published::CTR.replace("\"valid\"", "\"invalid\"");
    let error = answer(&Cipher::block(Fault::None), &with_blocks(&[&taken])).unwrap_err();
    assert!(error.why.contains("took its key"), "{error}");
}

#[test]
fn tests_of_another_cipher_kind_or_length_are_refused() {
    let vectors = Vectors::parse(file("othercipher", &filling(100)).as_bytes()).unwrap();
    let error = run(&vectors, &Cipher::block(Fault::None)).unwrap_err();
    assert_eq!(error.tc_id, None);
    assert!(error.why.contains("othercipher") && error.why.contains("proofaes"), "{error}");
    for (cipher, test) in [
        (Cipher::block(Fault::None), published::CHACHA20.to_owned()),
        (Cipher::block(Fault::None), published::AEAD.to_owned()),
        (Cipher::stream(Fault::None), published::CTR.to_owned()),
        (Cipher::aead(Fault::None), published::GCM.to_owned()),
        (
            Cipher::aead(Fault::None),
            published::AEAD.replace("90602ecbd0600691", "").replace("7e902ecbd0600691", ""),
        ),
    ] {
        let error = answer(&cipher, &often(&test)).unwrap_err();
        assert!(error.why.contains("no tests of this mode"), "{error}");
    }
}
