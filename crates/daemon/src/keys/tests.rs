//! What the book on disk remembers, and that a lost one takes no key.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use documents::associations::{self, Defaults};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ravelin-keys-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn book(&self) -> PathBuf {
        self.0.join("used-keys")
    }

    fn open(&self, known: bool) -> Keys {
        Keys::open(crypto_std::registry().unwrap(), &self.0, known).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn config(key: u8) -> SaConfig {
    let request = serde_json::from_value(serde_json::json!({
        "direction": "out", "spi": "0x1000", "local": "192.0.2.1", "remote": "192.0.2.2",
        "mode": "transport", "suite": "aes128gcm", "keymat": format!("{key:02x}").repeat(20),
    }));
    let defaults = Defaults {
        suites: &crypto::Suites::standard(),
        classes: &Default::default(),
        path_mtu: None,
        keepalive: 20,
        app: &|_| None,
        random: 0,
        padding: sadb::sa::Padding::Least,
    };
    associations::configuration(request.unwrap(), sadb::Spi(0x1000), &defaults).unwrap()
}

fn reason(keys: &mut Keys, key: u8) -> String {
    let refused = keys.admit(&config(key)).unwrap_err();
    format!("{refused}; {}", refused.remedy.as_deref().unwrap_or_default())
}

#[test]
fn a_later_daemon_refuses_the_keys_of_an_earlier_one() {
    let folder = Folder::new("later");
    let mut first = folder.open(false);
    for key in 1..=3 {
        let _admission = first.admit(&config(key)).unwrap();
    }
    let withdrawn = first.admit(&config(4)).unwrap();
    first.withdraw(withdrawn);
    // As a crash does: nothing is closed or said goodbye to.
    std::mem::forget(first);

    let octets = fs::read(folder.book()).unwrap();
    assert_eq!(octets.len(), 8 + 32 + 3 * 32 + 32);
    assert!((1..=4u8).all(|key| !octets.windows(16).any(|w| w == [key; 16])), "a key is in the file");
    assert_eq!(fs::metadata(folder.book()).unwrap().permissions().mode() & 0o777, 0o600);

    let mut second = folder.open(true);
    assert_eq!(second.used(), 3);
    for key in 1..=3 {
        assert!(reason(&mut second, key).contains("another association"));
    }
    let _admission = second.admit(&config(4)).unwrap();
}

#[test]
fn every_damage_is_found_and_then_no_key_is_taken() {
    let folder = Folder::new("damage");
    let _admission = folder.open(false).admit(&config(1)).unwrap();
    let whole = fs::read(folder.book()).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        damaged.push(flipped);
    }
    damaged.push([&whole[..], &[0; 32]].concat());
    for octets in damaged {
        fs::write(folder.book(), &octets).unwrap();
        assert!(file::read(&folder.book()).is_err(), "{} octets", octets.len());
    }
    for known in [false, true] {
        let mut keys = folder.open(known);
        let text = reason(&mut keys, 2);
        assert!(text.contains("damaged") && text.contains("ravelin detach"), "{text}");
        // Nothing takes its place either.
        assert!(file::read(&folder.book()).is_err());
    }
    fs::write(folder.book(), &whole).unwrap();
    let _admission = folder.open(true).admit(&config(2)).unwrap();
}

#[test]
fn a_book_that_is_gone_or_cannot_be_read_takes_no_key() {
    let folder = Folder::new("gone");
    assert!(reason(&mut folder.open(true), 1).contains("gone"));
    assert!(!folder.book().exists());
    fs::create_dir(folder.book()).unwrap();
    assert!(folder.open(false).fault().is_some());
    fs::remove_dir(folder.book()).unwrap();
    assert!(folder.open(false).fault().is_none());
}

#[test]
fn a_key_is_not_taken_unless_it_is_written_down() {
    let folder = Folder::new("unwritable");
    let mut keys = folder.open(false);
    let before = fs::read(folder.book()).unwrap();
    let in_the_way = folder.0.join("used-keys.new");
    fs::create_dir(&in_the_way).unwrap();
    assert!(reason(&mut keys, 1).contains("cannot be written"));
    assert_eq!((keys.used(), fs::read(folder.book()).unwrap()), (0, before));
    fs::remove_dir(&in_the_way).unwrap();
    let _admission = keys.admit(&config(1)).unwrap();
}

#[test]
fn a_hand_over_goes_on_with_the_same_book() {
    let folder = Folder::new("over");
    let mut old = folder.open(false);
    let _admission = old.admit(&config(1)).unwrap();
    let (key, used) = old.export();
    let take = |key: &Secret| {
        let registry = crypto_std::registry().unwrap();
        Keys::take_over(registry, &folder.0, key.clone(), &used).unwrap()
    };
    let mut new = take(&key);
    assert!(reason(&mut new, 1).contains("another association"));
    let _admission = new.admit(&config(2)).unwrap();
    assert!(reason(&mut folder.open(true), 2).contains("another association"));

    assert!(take(&Secret::new(vec![7; 32])).fault().is_some(), "another daemon's book");
    fs::remove_file(folder.book()).unwrap();
    assert!(take(&key).fault().is_some());
}
