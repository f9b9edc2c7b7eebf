//! A key is used once, whatever became of its association.

use crate::common;

use common::config;
use crypto::{Fingerprint, Secret, SuiteId};
use sadb::{Direction, KeyBook, SadError};

/// A fingerprint that is no one-way function; the book does not care.
struct Reversed;

impl Fingerprint for Reversed {
    fn of(&self, octets: &[u8]) -> [u8; 32] {
        let mut out = [octets.len() as u8; 32];
        out.iter_mut().zip(octets.iter().rev()).for_each(|(to, from)| *to = *from);
        out
    }
}

fn keyed(suite: SuiteId, key: u8, salt: u8) -> sadb::SaConfig {
    let mut config = config(Direction::Outbound, 0x1000);
    config.suite = suite;
    let key = vec![key; suite.cipher().key_len()].into_iter().chain([salt; 4]);
    config.keymat = Secret::new(key.collect());
    config
}

#[test]
fn a_key_is_refused_the_second_time_under_any_salt_suite_direction_or_spi() {
    let mut book = KeyBook::new(Reversed);
    let _ = book.admit(&keyed(SuiteId::AES_256_GCM, 1, 1)).unwrap();
    let mut other = keyed(SuiteId::CHACHA20_POLY1305, 1, 2);
    other.direction = Direction::Inbound;
    other.spi = sadb::Spi(0x2000);
    assert_eq!(book.admit(&other).err(), Some(SadError::KeyReused));
    assert_eq!(book.admit(&keyed(SuiteId::AES_256_GCM, 1, 1)).err(), Some(SadError::KeyReused));
    // Other keys are fine, also under the same salt.
    let _ = book.admit(&keyed(SuiteId::AES_256_GCM, 2, 1)).unwrap();
    let _ = book.admit(&keyed(SuiteId::AES_128_GCM, 1, 1)).unwrap();
    assert_eq!(book.len(), 3);
}

#[test]
fn only_a_key_that_was_never_used_is_struck_out() {
    let mut book = KeyBook::new(Reversed);
    let admission = book.admit(&keyed(SuiteId::AES_128_GCM, 1, 1)).unwrap();
    assert_eq!(book.admit(&keyed(SuiteId::AES_128_GCM, 1, 1)).err(), Some(SadError::KeyReused));
    book.withdraw(admission);
    assert!(book.is_empty());
    // Forgetting the admission keeps the entry: the safe side.
    drop(book.admit(&keyed(SuiteId::AES_128_GCM, 1, 1)).unwrap());
    assert_eq!(book.admit(&keyed(SuiteId::AES_128_GCM, 1, 1)).err(), Some(SadError::KeyReused));
}

#[test]
fn keying_material_of_the_wrong_length_leaves_no_entry() {
    let mut book = KeyBook::new(Reversed);
    for len in [0, 16, 19, 21, 36] {
        let mut config = config(Direction::Outbound, 0x1000);
        config.keymat = Secret::new(vec![1; len]);
        let want = SadError::KeymatLength { suite: SuiteId::AES_128_GCM, want: 20, got: len };
        assert_eq!(book.admit(&config).err(), Some(want));
    }
    assert!(book.is_empty());
}

#[test]
fn the_next_daemon_knows_the_keys_of_this_one() {
    let mut book = KeyBook::new(Reversed);
    let _ = book.admit(&keyed(SuiteId::AES_128_GCM, 1, 1)).unwrap();
    let _ = book.admit(&keyed(SuiteId::AES_128_GCM, 2, 1)).unwrap();
    let mut next = KeyBook::import(Reversed, &book.export());
    assert_eq!(next.admit(&keyed(SuiteId::AES_128_GCM, 2, 9)).err(), Some(SadError::KeyReused));
    let _ = next.admit(&keyed(SuiteId::AES_128_GCM, 3, 1)).unwrap();
    assert_eq!((book.len(), next.len()), (2, 3));
}
