//! The format of key files.

use key_token::{Fault, KeyFile, MAX_FILE_LEN, MAX_KEYMAT_LEN, MAX_RECIPIENTS, OaepHash, seal};
use proptest::prelude::*;

use crate::lab::{Kind, Lab, public_key};

/// A file of one recipient that can be opened by nobody, for the reader alone.
fn written(suite: &str, keymat: u16, method: u8, sealed: usize) -> Vec<u8> {
    let mut octets = b"rvlkeyfl\x01".to_vec();
    octets.extend_from_slice(&[7; 16]);
    octets.push(suite.len() as u8);
    octets.extend_from_slice(suite.as_bytes());
    octets.extend_from_slice(&keymat.to_be_bytes());
    octets.push(1);
    octets.push(method);
    octets.extend_from_slice(&[9; 32]);
    octets.extend_from_slice(&(sealed as u16).to_be_bytes());
    octets.extend_from_slice(&vec![4; sealed]);
    octets.extend_from_slice(&vec![0; usize::from(keymat) + 16]);
    octets
}

#[test]
fn the_table_of_the_format_is_what_is_read() {
    for (method, sealed) in [(1, 256), (1, 1024), (2, 512), (3, 65 + 48), (4, 97 + 48)] {
        let octets = written("maes512ctr-sha256", 100, method, sealed);
        let file = KeyFile::parse(&octets).unwrap();
        assert_eq!(file.octets(), octets);
        assert_eq!((file.suite(), file.keymat_len()), ("maes512ctr-sha256", 100));
        assert_eq!(file.id().0, [7; 16]);
        assert_eq!((file.recipients()[0].key.0, file.recipients()[0].sealed.len()), ([9; 32], sealed));
    }
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let cases = [
        (written("", 36, 3, 113), "no name of a suite"),
        (written("AES256GCM", 36, 3, 113), "no name of a suite"),
        (written("aes256gcm\n", 36, 3, 113), "no name of a suite"),
        (written(&"a".repeat(65), 36, 3, 113), "no name of a suite"),
        (written("aes256gcm", 0, 3, 113), "0 octets"),
        (written("aes256gcm", MAX_KEYMAT_LEN as u16 + 1, 3, 113), "513 octets"),
        (written("aes256gcm", 36, 0, 113), "no method"),
        (written("aes256gcm", 36, 5, 113), "no method"),
        (written("aes256gcm", 36, 3, 112), "does not make 112"),
        (written("aes256gcm", 36, 4, 113), "does not make 113"),
        (written("aes256gcm", 36, 1, 255), "does not make 255"),
        (written("aes256gcm", 36, 1, 1025), "does not make 1025"),
        ([&written("aes256gcm", 36, 3, 113)[..], &[0]].concat(), "behind the end"),
        (vec![0; MAX_FILE_LEN + 1], "at most"),
    ];
    for (octets, word) in cases {
        let error = KeyFile::parse(&octets).unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert_eq!(error.fault(), Fault::KeyFile);
    }
    let mut newer = written("aes256gcm", 36, 3, 113);
    newer[8] = 2;
    assert!(KeyFile::parse(&newer).unwrap_err().to_string().contains("version 2"));
    let whole = written("aes256gcm", 36, 3, 113);
    for len in 0..whole.len() {
        assert!(KeyFile::parse(&whole[..len]).unwrap_err().to_string().contains("ends within"), "{len}");
    }
}

#[test]
fn the_longest_file_is_read() {
    let lab = Lab::new();
    let one = public_key(&lab.key("a.pem", Kind::P256));
    let keys: Vec<_> = (0..MAX_RECIPIENTS)
        .map(|number| {
            if number == 0 { one.clone() } else { public_key(&lab.key(&format!("{number}.pem"), Kind::P384)) }
        })
        .collect();
    let file = seal(&"a".repeat(64), MAX_KEYMAT_LEN, &keys, OaepHash::Sha256).unwrap();
    assert_eq!(KeyFile::parse(&file.octets()).unwrap(), file);
    assert_eq!(MAX_FILE_LEN, 9093, "as the design says");
    let too_many = [&keys[..], &keys[..1]].concat();
    assert!(seal("aes256gcm", 36, &too_many, OaepHash::Sha256).is_err());
    assert!(seal("aes256gcm", 36, &[], OaepHash::Sha256).is_err());
    assert!(
        seal("aes256gcm", 36, &[one.clone(), one.clone()], OaepHash::Sha256)
            .unwrap_err()
            .to_string()
            .contains("twice")
    );
    assert!(seal("aes256gcm", MAX_KEYMAT_LEN + 1, &keys, OaepHash::Sha256).is_err());
    assert!(seal("AES", 36, &keys, OaepHash::Sha256).is_err());
}

#[test]
fn a_file_for_another_suite_is_refused() {
    let file = KeyFile::parse(&written("aes256gcm", 36, 3, 113)).unwrap();
    file.check_suite("aes256gcm", 36).unwrap();
    let error = file.check_suite("aes128gcm", 20).unwrap_err();
    assert_eq!(error.fault(), Fault::Suite);
    assert!(error.to_string().contains("aes256gcm") && error.to_string().contains("aes128gcm"), "{error}");
    assert!(error.remedy().contains("--suite aes256gcm"), "{error:?}");
    let error = file.check_suite("aes256gcm", 68).unwrap_err();
    assert!(error.to_string().contains("36") && error.to_string().contains("68"), "{error}");
}

#[test]
fn every_suite_fits_into_a_file() {
    for suite in crypto::SuiteId::all() {
        let octets = written(&suite.to_string(), suite.keymat_len() as u16, 3, 113);
        KeyFile::parse(&octets).unwrap().check_suite(&suite.to_string(), suite.keymat_len()).unwrap();
    }
}

proptest! {
    #[test]
    fn any_octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(KeyFile::parse(&octets).is_err());
    }

    #[test]
    fn what_is_read_is_written_alike(at in 0usize..500, octet: u8, cut in 0usize..500, method in 1u8..5) {
        let sealed = [256, 256, 113, 145][usize::from(method) - 1];
        let mut octets = written("aes128gcm", 20, method, sealed);
        let len = octets.len();
        octets[at % len] = octet;
        if cut < 100 {
            octets.truncate(len - cut % len);
        }
        match KeyFile::parse(&octets) {
            Ok(file) => prop_assert_eq!(file.octets(), octets),
            Err(error) => prop_assert!(!error.to_string().contains(char::is_control)),
        }
    }
}
