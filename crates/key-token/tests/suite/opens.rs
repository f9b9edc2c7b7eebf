//! What a token opens.

use std::fs;
use std::process::Command;

use key_token::{KeyFile, OaepHash, seal};

use crate::lab::{Kind, Lab, MODULE, public_key, run, uri};

/// Sealed to a token's key, opened by it once.
fn opens(kind: Kind) {
    let lab = Lab::new();
    let key = lab.token_with("gateway", kind);
    let file = lab.wrap("one.key", &[&key]);
    let keymat = lab.open(&uri("gateway"), &file).unwrap();
    assert_eq!(keymat.len(), 2 * 36);
    let again = lab.open(&uri("gateway"), &file).unwrap_err();
    assert_eq!(again.fault, "Used");
    let id = KeyFile::read(&file).unwrap().id().to_string();
    assert!(again.text.contains(&id) && again.text.contains("used-key-files"), "{again:?}");
    assert!(again.remedy.contains("ravelin key wrap"), "{again:?}");
    // The book is asked before the token: no try of a PIN is lost for a file that is used.
    assert_eq!(lab.job("open", &uri("gateway"), &file, "wrong-pin").unwrap_err().fault, "Used");
    // Another file to the same key has other keying material.
    let other = lab.wrap("two.key", &[&key]);
    assert_ne!(lab.open(&uri("gateway"), &other).unwrap(), keymat);
}

#[test]
fn a_token_with_an_rsa_key_opens_a_file_once() {
    opens(Kind::Rsa);
}

#[test]
fn a_token_with_a_key_on_p256_opens_a_file_once() {
    opens(Kind::P256);
}

#[test]
fn a_token_with_a_key_on_p384_opens_a_file_once() {
    opens(Kind::P384);
}

#[test]
fn both_ends_have_the_same_keying_material() {
    let (here, there) = (Lab::new(), Lab::new());
    let keys = [here.token_with("east", Kind::Rsa), there.token_with("west", Kind::P256)];
    let file = here.wrap("pair.key", &[&keys[0], &keys[1]]);
    let copy = there.path("pair.key");
    fs::copy(&file, &copy).unwrap();
    let east = here.open(&uri("east"), &file).unwrap();
    assert_eq!(there.open(&uri("west"), &copy).unwrap(), east);
}

#[test]
fn the_key_is_found_among_others_by_its_public_half_by_label_and_by_id() {
    let lab = Lab::new();
    lab.token("gateway");
    let keys = [("first", Kind::P256), ("second", Kind::P256), ("third", Kind::Rsa)]
        .map(|(label, kind)| lab.generate("gateway", kind, label, "shown"));
    let selects =
        ["pkcs11:token=gateway", "pkcs11:token=gateway;object=second", "pkcs11:token=gateway;id=secon%64"];
    for (number, select) in selects.iter().enumerate() {
        let file = lab.wrap(&format!("{number}.key"), &[&keys[1]]);
        lab.open(&format!("{select}?module-path={MODULE}"), &file).unwrap();
    }
    let file = lab.wrap("wrong.key", &[&keys[1]]);
    let other = format!("pkcs11:token=gateway;object=first?module-path={MODULE}");
    assert_eq!(lab.open(&other, &file).unwrap_err().fault, "OtherToken");
}

#[test]
fn a_key_whose_public_half_is_not_on_the_token_opens_too() {
    for kind in [Kind::P256, Kind::Rsa] {
        let lab = Lab::new();
        lab.token("gateway");
        let keys = ["first", "second"].map(|label| lab.generate("gateway", kind, label, "hidden"));
        let other = lab.key("other.pem", kind);
        let file = lab.wrap("two.key", &[&other, &keys[1]]);
        lab.open(&uri("gateway"), &file).unwrap();
        let refused = lab.job("public key", &uri("gateway"), &file, "").unwrap_err();
        assert_eq!(refused.fault, "PublicKey");
        assert!(refused.remedy.contains("--public-key"), "{refused:?}");
    }
}

#[test]
fn a_token_shows_the_public_key_that_openssl_made() {
    for kind in [Kind::Rsa, Kind::P256, Kind::P384] {
        let lab = Lab::new();
        lab.token("gateway");
        let key = lab.key("a.pem", kind);
        lab.import("gateway", &key, "ipsec", "a1b2");
        let shown = lab.job("public key", &uri("gateway"), &key, "").unwrap();
        assert_eq!(shown, public_key(&key).id().to_string());
        // The id is what an operator computes without this program.
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("openssl pkey -in {} -pubout -outform DER | sha256sum", key.display()));
        let by_hand = String::from_utf8(run(&mut command).stdout).unwrap();
        assert_eq!(by_hand.split_whitespace().next(), Some(shown.as_str()));
    }
}

#[test]
fn a_key_that_asks_for_its_pin_at_each_use_is_refused() {
    let lab = Lab::new();
    lab.token("gateway");
    let key = lab.generate("gateway", Kind::P256, "ipsec", "always-authenticates");
    let refused = lab.open(&uri("gateway"), &lab.wrap("one.key", &[&key])).unwrap_err();
    assert_eq!(refused.fault, "Token");
    assert!(refused.text.contains("CKA_ALWAYS_AUTHENTICATE"), "{refused:?}");
}

#[test]
fn softhsm_has_no_oaep_with_sha256_and_the_error_says_what_to_do() {
    let lab = Lab::new();
    let key = lab.token_with("gateway", Kind::Rsa);
    let file = lab.path("sha256.key");
    let sealed = seal("aes256gcm", 36, &[public_key(&key)], OaepHash::Sha256).unwrap();
    fs::write(&file, sealed.octets()).unwrap();
    let refused = lab.open(&uri("gateway"), &file).unwrap_err();
    assert_eq!(refused.fault, "Token");
    assert!(refused.remedy.contains("--oaep sha1"), "{refused:?}");
}
