//! Public keys from files.

use std::fs;
use std::process::Command;

use key_token::{Fault, PublicKey};
use proptest::prelude::*;

use crate::lab::{Kind, Lab, public, run};

fn openssl(arguments: &[&str]) -> Vec<u8> {
    run(Command::new("openssl").args(arguments)).stdout
}

#[test]
fn pem_and_der_are_one_key() {
    let lab = Lab::new();
    for (name, kind) in [("a.pem", Kind::Rsa), ("b.pem", Kind::P256), ("c.pem", Kind::P384)] {
        let key = lab.key(name, kind);
        let der = openssl(&["pkey", "-in", key.to_str().unwrap(), "-pubout", "-outform", "DER"]);
        let from_der = PublicKey::parse(&der).unwrap();
        assert_eq!(from_der, PublicKey::parse(&fs::read(public(&key)).unwrap()).unwrap());
        assert_eq!(from_der.der(), der);
    }
}

#[test]
fn what_cannot_seal_is_refused() {
    let lab = Lab::new();
    let key = lab.key("a.pem", Kind::P256);
    let path = key.to_str().unwrap();
    let short = lab.path("short.pem");
    let short = short.to_str().unwrap();
    openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", short]);
    let other = lab.path("other.pem");
    let other = other.to_str().unwrap();
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521", "-out", other]);
    let edwards = lab.path("edwards.pem");
    let edwards = edwards.to_str().unwrap();
    openssl(&["genpkey", "-algorithm", "ED25519", "-out", edwards]);
    let certificate = openssl(&["req", "-x509", "-key", path, "-subj", "/CN=a", "-days", "1"]);
    let compressed = openssl(&["pkey", "-in", path, "-pubout", "-ec_conv_form", "compressed"]);
    for (octets, word) in [
        (fs::read(&key).unwrap(), "private key"),
        (certificate, "certificate"),
        (compressed, "compressed"),
        (openssl(&["pkey", "-in", short, "-pubout"]), "1024 bits"),
        (openssl(&["pkey", "-in", other, "-pubout"]), "neither P-256 nor P-384"),
        (openssl(&["pkey", "-in", edwards, "-pubout"]), "neither of RSA nor of an elliptic curve"),
        (b"-----BEGIN PUBLIC KEY-----\n!".to_vec(), "begins like PEM"),
        (vec![], "no SubjectPublicKeyInfo"),
        (vec![b'-'; 20_000], "too long"),
    ] {
        let error = PublicKey::parse(&octets).unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert_eq!(error.fault(), Fault::PublicKey);
        assert!(!error.remedy().is_empty());
    }
}

#[test]
fn a_point_off_the_curve_seals_nothing() {
    let lab = Lab::new();
    let key = lab.key("a.pem", Kind::P256);
    let mut der = openssl(&["pkey", "-in", key.to_str().unwrap(), "-pubout", "-outform", "DER"]);
    *der.last_mut().unwrap() ^= 1;
    let key = PublicKey::parse(&der).unwrap();
    let error = key_token::seal("aes256gcm", 36, &[key], Default::default()).unwrap_err();
    assert_eq!(error.fault(), Fault::PublicKey);
}

proptest! {
    #[test]
    fn any_octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(PublicKey::parse(&octets).is_err());
    }
}
