//! Others make and open key files: OpenSSL in the token's place, and a second implementation of the format.

use std::fs;
use std::path::Path;
use std::process::Command;

use crypto::Secret;
use key_token::{KeyFile, Method, OaepHash, Recipient, open_with, seal};

use crate::lab::{Kind, Lab, public_key, run};

/// What OpenSSL makes of a recipient's octets with the private key in a file.
fn by_openssl(lab: &Lab, key: &Path, recipient: &Recipient) -> Secret {
    let input = lab.path("input");
    let output = match recipient.method {
        Method::RsaOaepSha256 | Method::RsaOaepSha1 => {
            fs::write(&input, &recipient.sealed).unwrap();
            let hash = if recipient.method == Method::RsaOaepSha1 { "sha1" } else { "sha256" };
            let mut command = Command::new("openssl");
            command.args(["pkeyutl", "-decrypt", "-pkeyopt", "rsa_padding_mode:oaep"]);
            command.args([
                "-pkeyopt",
                &format!("rsa_oaep_md:{hash}"),
                "-pkeyopt",
                &format!("rsa_mgf1_md:{hash}"),
            ]);
            run(command.arg("-inkey").arg(key).arg("-in").arg(&input))
        }
        Method::EcdhP256 | Method::EcdhP384 => {
            // The key's own SubjectPublicKeyInfo with another point at its end.
            let len = if recipient.method == Method::EcdhP256 { 65 } else { 97 };
            let der = public_key(key).der().to_vec();
            let peer = [&der[..der.len() - len], &recipient.sealed[..len]].concat();
            fs::write(&input, peer).unwrap();
            let mut command = Command::new("openssl");
            command.args(["pkeyutl", "-derive", "-peerform", "DER", "-inkey"]).arg(key);
            run(command.arg("-peerkey").arg(&input))
        }
    };
    Secret::new(output.stdout)
}

#[test]
fn openssl_opens_what_is_sealed_here() {
    let lab = Lab::new();
    let keys = [lab.key("a.pem", Kind::Rsa), lab.key("b.pem", Kind::P256), lab.key("c.pem", Kind::P384)];
    let publics: Vec<_> = keys.iter().map(|key| public_key(key)).collect();
    for oaep in [OaepHash::Sha256, OaepHash::Sha1] {
        let file = seal("aes128cbc-sha256", 48, &publics, oaep).unwrap();
        let file = KeyFile::parse(&file.octets()).unwrap();
        let opened: Vec<Secret> = file
            .recipients()
            .iter()
            .zip(&keys)
            .map(|(recipient, key)| {
                open_with(&file, recipient, |recipient| Ok(by_openssl(&lab, key, recipient))).unwrap()
            })
            .collect();
        assert_eq!(opened[0].len(), 48);
        assert!(opened.iter().all(|keymat| *keymat == opened[0]));
        // Not with another key's secret.
        open_with(&file, &file.recipients()[1], |_| Ok(Secret::new(vec![0; 32]))).unwrap_err();
        open_with(&file, &file.recipients()[0], |_| Ok(Secret::new(vec![0; 31]))).unwrap_err();
    }
}

/// The file that `make.py` wrote with another library, from the design alone.
#[test]
fn what_a_second_implementation_sealed_is_opened_here() {
    let lab = Lab::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let file = KeyFile::read(&folder.join("sealed.key")).unwrap();
    assert_eq!(
        (file.suite(), file.id().to_string().as_str()),
        ("aes128gcm", "303132333435363738393a3b3c3d3e3f")
    );
    let keymat: Vec<u8> = (0..20).collect();
    let keys = ["rsa256.pem", "rsa1.pem", "p256.pem", "p384.pem"];
    assert_eq!(file.recipients().len(), keys.len());
    for (recipient, key) in file.recipients().iter().zip(keys) {
        let key = folder.join(key);
        assert_eq!(recipient.key, public_key(&key).id());
        let opened = open_with(&file, recipient, |recipient| Ok(by_openssl(&lab, &key, recipient))).unwrap();
        assert_eq!(opened.expose(), keymat, "{}", key.display());
    }
}
