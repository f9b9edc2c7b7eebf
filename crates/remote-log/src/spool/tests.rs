use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;

/// A folder that goes when the test does.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ravelin-spool-{}-{number}", std::process::id()));
        folder(&path).unwrap();
        Folder(path)
    }

    fn spool(&self) -> PathBuf {
        self.0.join("spool")
    }

    fn take(&self) -> (Spool, Repairs) {
        Spool::take(&self.0, 1 << 20).unwrap().expect("the spool")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A message as [`frames::follows`] wants it.
fn message(before: Mark, text: &str) -> String {
    let (seq, prev) = (before.seq + 1, hex(&before.hash));
    format!("<85>1 T h a p i [ravelin@32473 seq=\"{seq}\" prev=\"{prev}\"] {text}")
}

fn put(spool: &mut Spool, texts: &[&str]) {
    for text in texts {
        spool.append(|before| message(before, text)).unwrap();
    }
    spool.commit().unwrap();
}

fn sent(spool: &mut Spool) -> String {
    let mut all = Vec::new();
    loop {
        let octets = spool.next().unwrap();
        if octets.is_empty() {
            return String::from_utf8(all).unwrap();
        }
        all.extend(octets);
    }
}

#[test]
fn what_is_committed_is_there_again_and_what_is_confirmed_is_not() {
    let folder = Folder::new();
    let (mut spool, repairs) = folder.take();
    assert_eq!((repairs, spool.head(), spool.octets()), (Repairs::default(), Mark::BEGIN, 0));
    put(&mut spool, &["one", "two"]);
    assert!(Spool::take(&folder.0, 1 << 20).unwrap().is_none(), "it is one process's alone");
    let (head, all) = (spool.head(), sent(&mut spool));
    assert!(all.contains("one") && all.contains("two") && head.seq == 2);
    drop(spool);
    let (mut spool, repairs) = folder.take();
    assert_eq!((repairs, spool.head()), (Repairs::default(), head));
    assert_eq!(sent(&mut spool), all);
    spool.rewind();
    assert_eq!(sent(&mut spool), all);
    put(&mut spool, &["three"]);
    spool.confirm().unwrap();
    let rest = sent(&mut spool);
    assert!(rest.contains("three") && !rest.contains("two"));
    drop(spool);
    let (mut spool, _) = folder.take();
    assert_eq!((spool.head().seq, sent(&mut spool)), (3, rest));
    spool.confirm().unwrap();
    let head = spool.head();
    drop(spool);
    let (spool, _) = folder.take();
    assert_eq!((spool.head(), spool.octets()), (head, 0));
}

#[test]
fn a_full_spool_refuses_and_one_whose_file_is_changed_is_put_aside() {
    let folder = Folder::new();
    let (mut spool, _) = Spool::take(&folder.0, 1000).unwrap().unwrap();
    let mut count = 0;
    while spool.append(|before| message(before, "some text")).is_ok() {
        count += 1;
    }
    assert!((3..10).contains(&count), "{count}");
    spool.commit().unwrap();
    assert!(std::fs::metadata(folder.spool()).unwrap().len() <= 1000);
    drop(spool);
    let whole = std::fs::read_to_string(folder.spool()).unwrap();
    std::fs::write(folder.spool(), whole.replacen("some text", "same text", 1)).unwrap();
    let (spool, repairs) = folder.take();
    let aside = repairs.damaged.expect("a file that was put aside");
    assert!(std::fs::read_to_string(aside).unwrap().contains("same text"));
    // The first message is what somebody changed it to; none behind it follows it.
    assert_eq!(spool.head().seq, 1);
    drop(spool);
    std::fs::write(folder.spool(), "nonsense").unwrap();
    let (spool, repairs) = folder.take();
    assert!(repairs.damaged.is_some() && spool.head() == Mark::BEGIN);
}

#[test]
fn a_disk_that_refuses_takes_none_of_a_batch() {
    let folder = Folder::new();
    let (mut spool, _) = folder.take();
    put(&mut spool, &["one"]);
    let head = spool.head();
    // Every write to it fails: it is open for reading alone.
    let file = std::mem::replace(&mut spool.file, File::open(folder.spool()).unwrap());
    spool.append(|before| message(before, "two")).unwrap();
    spool.append(|before| message(before, "three")).unwrap();
    assert_eq!(spool.commit().unwrap_err().0, 2);
    assert_eq!(spool.head(), head);
    spool.file = file;
    put(&mut spool, &["four"]);
    assert_eq!(spool.head().seq, 2);
    let all = sent(&mut spool);
    assert!(all.contains("four") && !all.contains("three"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_file_that_is_cut_anywhere_keeps_its_whole_messages(
        cut in 0_usize..800,
        octets in proptest::collection::vec(0_u8..32, 0..20),
    ) {
        let folder = Folder::new();
        let (mut spool, _) = folder.take();
        put(&mut spool, &["one", "two", "three"]);
        drop(spool);
        let whole = std::fs::read(folder.spool()).unwrap();
        let cut = cut.min(whole.len());
        std::fs::write(folder.spool(), [&whole[..cut], &octets[..]].concat()).unwrap();
        let (mut spool, _) = folder.take();
        let all = sent(&mut spool);
        let (len, mark) = frames::whole(all.as_bytes(), Mark { seq: 0, ..spool.begin.mark });
        prop_assert_eq!(len, all.len());
        prop_assert!(whole.windows(len.max(1)).any(|window| window == all.as_bytes()) || len == 0);
        prop_assert_eq!(spool.head().seq, mark.seq);
        // It takes messages again.
        put(&mut spool, &["four"]);
        prop_assert!(sent(&mut spool).contains("four"));
    }
}
