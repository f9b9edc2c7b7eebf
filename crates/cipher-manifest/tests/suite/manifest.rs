//! The reader of manifests.

use cipher_manifest::{Document, Manifest};
use crypto::custom::Primitive;
use proptest::prelude::*;

const GOOD: &str = r#"{
  "name": "proofaes", "version": "1.2", "vendor": "Example",
  "kind": "block", "block": 16, "key": 64, "nonce": 0, "tag": 0,
  "constant_time": true, "max_octets": 0, "transform_id": 61440,
  "library": {"file": "libproofaes.so", "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"},
  "vectors": {"file": "proofaes.json", "sha256": "0000000000000000000000000000000000000000000000000000000000000001"},
  "source": "https://example.org/proofaes", "licence": "MIT"
}"#;

fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let error = Manifest::parse(GOOD.replacen(from, to, 1).as_bytes()).expect_err(to);
    assert_eq!(error.document(), Document::Manifest);
    assert!(!error.remedy().is_empty());
    error.to_string()
}

#[test]
fn a_manifest_is_read_as_it_is_written() {
    let manifest = Manifest::parse(GOOD.as_bytes()).unwrap();
    assert_eq!(manifest.description.name, "proofaes");
    assert_eq!(manifest.description.primitive, Primitive::Block { block_len: 16 });
    assert_eq!((manifest.description.key_len, manifest.description.max_octets), (64, None));
    assert!(manifest.constant_time);
    assert_eq!(manifest.transform_id, 61440);
    assert_eq!(manifest.library.file, "libproofaes.so");
    let digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    assert_eq!(manifest.library.sha256.to_string(), digest);
    assert_eq!(manifest.vectors.sha256.0[31], 1);
    assert_eq!(manifest.licence, "MIT");
    let limited = GOOD.replace("\"max_octets\": 0", "\"max_octets\": 4096");
    assert_eq!(Manifest::parse(limited.as_bytes()).unwrap().description.max_octets, Some(4096));
    let stream =
        GOOD.replace("\"block\", \"block\": 16", "\"stream\"").replace("\"nonce\": 0", "\"nonce\": 12");
    assert_eq!(Manifest::parse(stream.as_bytes()).unwrap().description.primitive, Primitive::Stream);
    let aead = stream.replace("\"stream\"", "\"aead\"").replace("\"tag\": 0", "\"tag\": 16");
    assert_eq!(
        Manifest::parse(aead.as_bytes()).unwrap().description.primitive,
        Primitive::Aead { tag_len: 16 }
    );
}

#[test]
fn a_field_that_is_wrong_is_named() {
    for (from, to, field) in [
        ("\"proofaes\"", "\"Proofaes\"", "name"),
        ("\"proofaes\"", "\"aes256\"", "name"),
        ("\"1.2\"", "\"\"", "version"),
        ("\"Example\"", "\"a\\u0007\"", "vendor"),
        ("\"block\": 16", "\"block\": 12", "block"),
        ("\"key\": 64", "\"key\": 15", "key"),
        ("\"key\": 64", "\"key\": 4294967295", "key"),
        ("\"nonce\": 0", "\"nonce\": 12", "nonce"),
        ("\"tag\": 0", "\"tag\": 16", "tag"),
        ("\"block\", \"block\": 16", "\"stream\", \"block\": 0", "nonce"),
        ("\"transform_id\": 61440", "\"transform_id\": 1023", "transform_id"),
        ("\"transform_id\": 61440", "\"transform_id\": 65533", "transform_id"),
        ("\"transform_id\": 61440", "\"transform_id\": 126976", "transform_id"),
        ("libproofaes.so", "../libproofaes.so", "library.file"),
        ("libproofaes.so", "/lib/x.so", "library.file"),
        ("libproofaes.so", "..", "library.file"),
        ("libproofaes.so", ".", "library.file"),
        ("libproofaes.so", "", "library.file"),
        ("libproofaes.so", "a\\u0000b", "library.file"),
        ("proofaes.json", "libproofaes.so", "vectors.file"),
        ("proofaes.json", "a/b", "vectors.file"),
        ("0123456789abcdef0123", "123456789abcdef0123", "library.sha256"),
        ("0123456789abcdef0123", "g123456789abcdef0123", "library.sha256"),
        ("00000000000000000001", "0000000000000000000001", "vectors.sha256"),
        ("\"https://example.org/proofaes\"", "\"\"", "source"),
        ("\"MIT\"", "\"\\n\"", "licence"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(&format!("manifest, field `{field}`: ")), "{to}: {error}");
    }
    for id in ["1024", "65532"] {
        assert!(Manifest::parse(GOOD.replace("61440", id).as_bytes()).is_ok(), "{id}");
    }
}

#[test]
fn what_is_no_json_of_this_kind_is_refused_with_its_line() {
    for (from, to, line, word) in [
        ("\"kind\"", "\"colour\": 1, \"kind\"", 3, "colour"),
        ("\"sha256\": \"01", "\"sha1\": \"01", 5, "sha1"),
        ("\"key\": 64", "\"key\": \"64\"", 3, "string"),
        ("\"key\": 64", "\"key\": -1", 3, "-1"),
        ("\"key\": 64", "\"key\": 64, \"key\": 32", 3, "duplicate field `key`"),
        ("\"constant_time\": true", "\"constant_time\": 1", 4, "boolean"),
        ("\"kind\": \"block\"", "\"kind\": \"hash\"", 3, "hash"),
        (", \"licence\": \"MIT\"", "", 8, "licence"),
        ("\n}", "\n} {}", 8, "trailing"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(&format!("line {line}, ")) && error.contains(word), "{to}: {error}");
    }
    // An error is one line, however long and strange the text is.
    let error = refused("\"kind\"", &format!("\"\\u001b[2J{}\": 1, \"kind\"", "x".repeat(30_000)));
    assert!(error.len() < 500 && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn the_bound_of_length_holds() {
    let mut long = GOOD.to_owned();
    long.push_str(&" ".repeat(Manifest::MOST_OCTETS - long.len()));
    assert!(Manifest::parse(long.as_bytes()).is_ok());
    long.push(' ');
    let error = Manifest::parse(long.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("65537 octets"), "{error}");
    let deep = "[".repeat(60_000);
    assert!(Manifest::parse(deep.as_bytes()).is_err());
}

proptest! {
    #[test]
    fn any_octets_give_a_manifest_that_is_sound_or_an_error(at in 0..GOOD.len(), octet: u8, cut in 0..GOOD.len()) {
        let mut octets = GOOD.as_bytes().to_vec();
        octets[at] = octet;
        if let Ok(manifest) = Manifest::parse(&octets) {
            prop_assert!(manifest.description.check().is_ok());
            prop_assert!(!manifest.library.file.contains('/'));
        }
        prop_assert!(Manifest::parse(&octets[..cut]).is_err());
    }
}
