//! The reader of vector files.

use cipher_manifest::Vectors;
use proptest::prelude::*;

use crate::published::{self, file, filling};

/// The error that a file with 100 good tests and this one has.
fn refused(test: &str) -> String {
    let mut tests = filling(100);
    tests.push(test.to_owned());
    Vectors::parse(file("proofaes", &tests).as_bytes()).expect_err(test).to_string()
}

#[test]
fn the_published_tests_are_read_as_they_are_written() {
    let mut tests = filling(100);
    let others = [published::FIPS_197, published::CTR, published::CBC, published::GCM, published::CHACHA20];
    tests.extend(others.map(str::to_owned));
    let vectors = Vectors::parse(file("proofaes", &tests).as_bytes()).unwrap();
    assert_eq!((vectors.cipher(), vectors.tests().len()), ("proofaes", 105));
    let modes: Vec<&str> = vectors.tests().iter().skip(100).map(|test| test.case.mode()).collect();
    assert_eq!(modes, ["block", "ctr", "cbc", "gcm", "stream"]);
    // Keys are never printed.
    assert_eq!(format!("{vectors:?}"), "Vectors { cipher: \"proofaes\", tests: 105 }");
    assert_eq!(format!("{:?}", vectors.tests()[103]), "Vector { tc_id: 104, mode: \"gcm\" }");
}

#[test]
fn fewer_than_100_valid_tests_that_encrypt_something_are_too_few() {
    let parse = |tests: &[String]| Vectors::parse(file("proofaes", tests).as_bytes()).map(|_| ());
    assert!(parse(&filling(100)).is_ok());
    let error = parse(&filling(99)).unwrap_err();
    assert!(error.to_string().contains("99 valid tests encrypt something"), "{error}");
    // Tests with an empty message, and invalid ones, do not count among the hundred.
    let mut tests = filling(99);
    let empty = r#""mode":"ctr","key":"00","iv":"00000000000000000000000000000000","msg":"","ct":"","result":"valid""#;
    tests.push(empty.to_owned());
    tests.push(published::GCM.replace("\"valid\"", "\"invalid\""));
    assert!(parse(&tests).is_err());
}

#[test]
fn what_no_test_can_be_is_refused_with_its_number_and_field() {
    for (from, to, field) in [
        ("\"ct\":\"f58c", "\"ct\":\"f5", "ct"),
        ("\"iv\":\"0001", "\"iv\":\"", "iv"),
        ("\"mode\":\"cbc\"", "\"mode\":\"block\"", "iv"),
        ("\"mode\":\"cbc\"", "\"mode\":\"stream\"", "iv"),
        ("\"mode\":\"cbc\"", "\"mode\":\"cbc\",\"tag\":\"00\"", "tag"),
        ("\"mode\":\"cbc\"", "\"mode\":\"cbc\",\"aad\":\"00\"", "aad"),
        ("\"mode\":\"cbc\"", "\"mode\":\"cbc\",\"offset\":1", "offset"),
    ] {
        assert!(published::CBC.contains(from), "{from}");
        let error = refused(&published::CBC.replace(from, to));
        assert!(error.contains(&format!("test 101, field `{field}`")), "{to}: {error}");
    }
    let error = refused(&published::GCM.replace("\"tag\":\"76fc", "\"tag\":\""));
    assert!(error.contains("field `tag`"), "{error}");
    let error = refused(&published::CHACHA20.replace("\"offset\":64", "\"offset\":18446744073709551600"));
    assert!(error.contains("field `offset`"), "{error}");
    let error = refused(r#""mode":"block","key":"00","msg":"00112233","ct":"00112233","result":"valid""#);
    assert!(error.contains("no multiple of the block"), "{error}");
    let error = refused(r#""mode":"block","key":"00","msg":"","ct":"","result":"valid""#);
    assert!(error.contains("it is empty"), "{error}");
}

#[test]
fn what_is_no_json_of_this_kind_is_refused_with_its_line() {
    for (test, word) in [
        (published::CBC.replace("\"msg\":\"6b", "\"msg\":\"6x"), "hexadecimal"),
        (published::CBC.replace("\"msg\":\"6b", "\"msg\":\"6"), "hexadecimal"),
        (published::CBC.replace("\"mode\":\"cbc\"", "\"mode\":\"ofb\""), "ofb"),
        (published::CBC.replace("\"mode\"", "\"comment\":\"\",\"mode\""), "comment"),
        (published::CBC.replace("\"valid\"", "\"acceptable\""), "acceptable"),
        (published::CBC.replace(",\"result\":\"valid\"", ""), "result"),
    ] {
        let error = refused(&test);
        assert!(error.contains(", line ") && error.contains(word), "{error}");
    }
    // A text that is no key may still be one with a slip in it.
    let error = refused(&published::CBC.replace("\"603deb", "\"603de"));
    assert!(!error.contains("603de") && !error.contains("15ca71be"), "{error}");
    let mut tests = filling(100);
    tests.push(published::CBC.replace("\"mode\"", "\"tcId\":7,\"mode\""));
    assert!(Vectors::parse(file("proofaes", &tests).as_bytes()).is_err());
    let twice = file("proofaes", &filling(100)).replace("\"tcId\":2,", "\"tcId\":1,");
    let error = Vectors::parse(twice.as_bytes()).unwrap_err();
    assert_eq!((error.tc_id(), error.field()), (Some(1), Some("tcId")));
}

#[test]
fn the_bounds_of_length_and_number_hold() {
    let mut long = file("proofaes", &filling(100));
    long.push_str(&" ".repeat(Vectors::MOST_OCTETS + 1 - long.len()));
    let error = Vectors::parse(long.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("16777217 octets"), "{error}");
    long.pop();
    assert!(Vectors::parse(long.as_bytes()).is_ok());
    let short = r#""mode":"ctr","key":"","iv":"00000000000000000000000000000000","msg":"00","ct":"00","result":"valid""#;
    let most = vec![short.to_owned(); Vectors::MOST_TESTS];
    assert!(Vectors::parse(file("proofaes", &most).as_bytes()).is_ok());
    let more = vec![short.to_owned(); Vectors::MOST_TESTS + 1];
    let error = Vectors::parse(file("proofaes", &more).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("more than 100000 tests"), "{error}");
}

proptest! {
    #[test]
    fn any_octets_give_tests_or_an_error(at in 0usize..20_000, octet: u8, cut in 0usize..20_000) {
        let mut octets = file("proofaes", &filling(100)).into_bytes();
        let len = octets.len();
        octets[at % len] = octet;
        let _ = Vectors::parse(&octets);
        prop_assert!(Vectors::parse(&octets[..cut % len]).is_err());
    }
}

/// A fuzz target whose seeds are refused at once tries little behind the first check.
#[test]
fn the_seeds_of_the_fuzz_targets_are_read() {
    let modes = include_bytes!("../../../../fuzz/corpus/cipher_vectors/modes");
    assert_eq!(Vectors::parse(modes).unwrap().tests().len(), 104);
    let block = include_bytes!("../../../../fuzz/corpus/cipher_manifest/block");
    let aead = include_bytes!("../../../../fuzz/corpus/cipher_manifest/aead");
    assert!(
        cipher_manifest::Manifest::parse(block).is_ok() && cipher_manifest::Manifest::parse(aead).is_ok()
    );
}
