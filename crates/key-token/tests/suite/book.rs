//! The book of used key files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use key_token::{Fault, FileId, TokenError, UsedBook};

use crate::lab::Lab;

fn id(number: u32) -> FileId {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    FileId(id)
}

fn book(lab: &Lab) -> (UsedBook, PathBuf) {
    (UsedBook::at(lab.book()), lab.book())
}

fn refused(result: Result<(), TokenError>, fault: Fault, word: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.fault(), fault, "{error}");
    assert!(error.to_string().contains("used-key-files"), "{error}");
    assert!(error.to_string().contains(word), "{word}: {error}");
    assert!(!error.remedy().is_empty());
}

#[test]
fn an_entry_is_found_by_everybody_who_opens_the_book_later() {
    let lab = Lab::new();
    let (book, path) = book(&lab);
    book.check(id(1)).unwrap();
    assert!(!path.exists(), "to look writes nothing");
    for number in 1..=3 {
        book.enter(id(number)).unwrap();
    }
    let later = UsedBook::at(&path);
    for number in 1..=3 {
        refused(later.check(id(number)), Fault::Used, "was used");
        refused(later.enter(id(number)), Fault::Used, "was used");
    }
    later.check(id(4)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 4 * 32);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let folder = path.parent().unwrap();
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing else is left in the folder");
    // What is in the book leads back to no file.
    assert!(!fs::read(&path).unwrap().windows(16).any(|window| window == id(2).0));
}

#[test]
fn of_many_at_once_one_enters() {
    let lab = Lab::new();
    let (book, _) = book(&lab);
    for number in 0..50 {
        let entered = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| match book.enter(id(number)) {
                    Ok(()) => drop(entered.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => assert_eq!(error.fault(), Fault::Used, "{error}"),
                });
            }
        });
        assert_eq!(entered.into_inner(), 1, "file {number}");
    }
    assert_eq!(fs::metadata(lab.book()).unwrap().len(), 51 * 32);
}

#[test]
fn who_holds_the_lock_is_waited_for() {
    let lab = Lab::new();
    let (book, path) = book(&lab);
    book.enter(id(1)).unwrap();
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| book.enter(id(2)));
        // Long enough for an entry without a lock; how long it takes is nobody's business.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(fs::metadata(&path).unwrap().len(), 2 * 32);
        held.unlock().unwrap();
        other.join().unwrap().unwrap();
    });
    assert_eq!(fs::metadata(&path).unwrap().len(), 3 * 32);
}

#[test]
fn a_book_in_memory_is_no_book_that_lasts() {
    let folder = PathBuf::from(format!("/dev/shm/key-token-{}", std::process::id()));
    let book = UsedBook::at(folder.join("used-key-files"));
    let lasting = book.clone().that_lasts().enter(id(1));
    let any = book.enter(id(1));
    fs::remove_dir_all(&folder).unwrap();
    refused(lasting, Fault::Book, "ends with a reboot");
    any.unwrap();
}

#[test]
fn a_full_book_refuses_every_file() {
    let lab = Lab::new();
    let book = book(&lab).0.with_most(3);
    for number in 1..=3 {
        book.enter(id(number)).unwrap();
    }
    refused(book.check(id(4)), Fault::Book, "full (3 entries)");
    refused(book.enter(id(4)), Fault::Book, "full (3 entries)");
    refused(book.enter(id(2)), Fault::Used, "was used");
    // Its real bound is a number of the whole book, which is refused where it is passed.
    let path = lab.book();
    fs::File::options().write(true).open(&path).unwrap().set_len((UsedBook::MOST + 2) * 32).unwrap();
    refused(UsedBook::at(&path).enter(id(4)), Fault::Book, "longer than it can be");
}

#[test]
fn a_damaged_book_refuses_every_file() {
    let lab = Lab::new();
    let (book, path) = book(&lab);
    book.enter(id(1)).unwrap();
    book.enter(id(2)).unwrap();
    let whole = fs::read(&path).unwrap();
    for (octets, word) in [
        (&whole[..whole.len() - 1], "not whole"),
        (&whole[..33], "not whole"),
        (&whole[..0], "became shorter"),
        (&[&[0; 32], &whole[32..]].concat()[..], "no book"),
    ] {
        fs::write(&path, octets).unwrap();
        refused(book.check(id(3)), Fault::Book, word);
        refused(book.enter(id(3)), Fault::Book, word);
        assert_eq!(fs::read(&path).unwrap(), octets, "it is left as it is");
    }
    // What the message says makes it whole again.
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(book.enter(id(3)).unwrap_err().remedy().contains(&format!("truncate -s 64 {}", path.display())));
    fs::write(&path, &whole[..64]).unwrap();
    refused(book.enter(id(1)), Fault::Used, "was used");
    book.enter(id(3)).unwrap();
}

#[test]
fn a_book_that_others_could_write_refuses_every_file() {
    let lab = Lab::new();
    let (book, path) = book(&lab);
    book.enter(id(1)).unwrap();
    let folder = path.parent().unwrap();
    let mode =
        |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&path, 0o620);
    refused(book.check(id(2)), Fault::Book, "others may write it");
    refused(book.enter(id(2)), Fault::Book, "others may write it");
    mode(&path, 0o600);
    mode(folder, 0o1777);
    refused(book.enter(id(2)), Fault::Book, "others may write it");
    mode(folder, 0o755);
    book.enter(id(2)).unwrap();

    let elsewhere = lab.path("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    refused(book.check(id(3)), Fault::Book, "cannot be opened");
    refused(book.enter(id(3)), Fault::Book, "cannot be opened");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused(book.check(id(3)), Fault::Book, "it is no file");
    refused(book.enter(id(3)), Fault::Book, "cannot be opened");
    let nowhere = UsedBook::at(lab.path("a/b/used-key-files"));
    refused(nowhere.enter(id(3)), Fault::Book, "folder");
}
