//! A worker that was written a second time, in Python, from docs/cipher-worker.md.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher_loader::{Trial, Trust, examine};
use cipher_worker::{Isolated, Settings, layout};
use crypto::custom::CustomCipher;

use crate::flow_lab::folder;
use crate::lab::Folder;
use crate::start::{Packet, key, open, provider, seal, settings, until};

fn python() -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap();
    let mut found = std::env::split_paths(&paths).map(|folder| folder.join("python3"));
    found.find(|path| path.exists()).expect("python3, which the oracles of other tests need as well")
}

/// A worker in Python for the cipher of this folder. Time does not matter here.
fn foreign(folder: &Folder) -> Isolated {
    let examined = examine(&folder.path("manifest.json"), None, Trust::Caller).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/worker.py");
    let program = Trial { program: python(), arguments: vec!["-B".into(), "-S".into(), script.into()] };
    let patient = std::time::Duration::from_secs(20);
    let settings = Settings { deadline: patient, key_deadline: patient, ..settings() };
    Isolated::start(&program, &examined, settings, |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn same(folder: &Folder, mode: &str) {
    let worker = Arc::new(foreign(folder));
    let (here, suites) = provider(folder.load().unwrap().cipher);
    let (there, _) = provider(worker.clone());
    assert_eq!(here.behaviour(), there.behaviour());
    let suite = *suites.iter().find(|suite| suite.to_string().ends_with(mode)).unwrap();
    let (ours, theirs, receiver) = (key(&here, suite), key(&there, suite), key(&there, suite));
    let is_ahead = mode != "cbc-sha256";
    let calls = worker.report().called;
    for first in (1..101).step_by(5) {
        let plain: Vec<Packet> = (first..first + 5).map(|number| Packet::new(suite, number, 96)).collect();
        let (mut want, mut got) = (plain.clone(), plain.clone());
        seal(&*ours, &mut want).unwrap();
        seal(&*theirs, &mut got).unwrap();
        assert_eq!(got, want);
        assert!(open(&*receiver, &mut got).unwrap().iter().all(|ok| *ok));
        assert!(got.iter().zip(&plain).all(|(got, plain)| got.data == plain.data));
        if first == 51 && is_ahead {
            // It computes ahead: half of the ring is full sooner or later.
            until("key stream ahead", || {
                let at = layout::place(0, 300);
                (0..8).any(|key| {
                    let at = at + key * layout::RING;
                    worker.worker_memory().word(at).unwrap().load(std::sync::atomic::Ordering::Relaxed) != 0
                })
            });
        }
    }
    let report = worker.report();
    assert_eq!((report.failed, report.restarts), (0, 0));
    if is_ahead {
        assert!(report.ahead > 40, "{report:?}");
        assert_eq!(report.ahead + report.called - calls, 200);
    }
}

#[test]
fn a_worker_in_python_makes_the_same_packets_of_a_block_cipher() {
    let folder = Folder::with(&["-DCTR=12"]);
    same(&folder, "ctr-sha256");
    same(&folder, "cbc-sha256");
}

#[test]
fn a_worker_in_python_makes_the_same_packets_of_a_stream_cipher() {
    same(&folder(false, &[]), "-sha256");
}

#[test]
fn a_worker_in_python_is_restarted_and_has_its_keys() {
    let worker = foreign(&folder(false, &[]));
    let Ok(crypto::custom::CustomKey::Stream(key)) = worker.set_key(&[5; 32]) else { panic!("no key") };
    let stream = |data: &mut [u8; 40]| {
        key.xor_batch(&mut [crypto::custom::StreamOp { nonce: &[9; 12], offset: 3, data }])
    };
    let mut before = [0; 40];
    stream(&mut before).unwrap();
    let pid = rustix::process::Pid::from_raw(worker.report().pid.unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("a restart", || worker.report().restarts == 1);
    let mut after = [0; 40];
    stream(&mut after).unwrap();
    assert_eq!(before, after);
    assert_eq!(worker.report().last.as_deref(), Some("SIGKILL ended it, during the start"));
}

/// What the page says and what the code has are one.
#[test]
fn the_page_has_the_constants_of_the_layout() {
    let page = include_str!("../../../../docs/cipher-worker.md");
    let row = |offset: usize, what: &str| format!("| {offset} | {what}");
    let wants = [
        row(layout::host::MAGIC, "long word: the octets `RVLCW`"),
        row(layout::host::VERSION, &format!("word: version, {}", layout::VERSION)),
        row(
            layout::host::KEYS,
            &format!("word: K, the number of keys that there is room for, at most {}", layout::MOST_KEYS),
        ),
        row(layout::host::EPOCH, "word: epoch"),
        row(layout::host::DOORBELL, "word: doorbell"),
        row(layout::lane::REQUEST, "word: request"),
        row(layout::lane::WAITING, "word: 1 while the host sleeps"),
        row(layout::lane::OP, "word: operation"),
        row(layout::lane::KEY, "word: index of the key"),
        row(layout::lane::COUNT, &format!("word: number of entries, at most {}", layout::ENTRIES)),
        row(layout::lane::ENTRIES, &format!("entries of {} octets", layout::ENTRY)),
        row(layout::LANE_CONTROL, &format!("data, {} octets", layout::LANE_DATA)),
        row(layout::entry::DATA, "word: offset of the packet"),
        row(layout::entry::LEN, "word: length of the packet"),
        row(layout::entry::AAD, "word: offset of associated data"),
        row(layout::entry::AAD_LEN, "word: length of associated data"),
        row(layout::entry::OFFSET, "long word: the first octet of key stream"),
        row(layout::entry::TAG, "word: offset of the tag"),
        row(layout::entry::NONCE, "16 octets: counter block, IV"),
        row(layout::record::GENERATION, "word: generation. 0"),
        row(
            layout::record::OCTETS,
            &format!(
                "word: octets of key stream that are wanted for each number, at most {}",
                layout::PLACE_DATA
            ),
        ),
        row(layout::record::FROM, "long word: first number of the window"),
        row(layout::record::TEMPLATE, "16 octets: counter block or nonce, with zeros"),
        row(layout::worker::STATE, "word: 1 when it takes batches"),
        row(layout::worker::VERSION, &format!("word: version, {}", layout::VERSION)),
        row(layout::worker::EPOCH, "word: the epoch"),
        row(layout::worker::SLEEPING, "word: 1 while it sleeps"),
        row(layout::lane::REPLY, "word: reply"),
        row(layout::lane::STATUS, "word: status of the batch"),
        row(layout::lane::RESULTS, "a word for each entry"),
        row(layout::place::GENERATION, "word: generation that the key stream was made for"),
        row(layout::place::LEN, "word: octets of key stream that are there"),
        row(layout::place::NUMBER, "long word: the number"),
        row(layout::PLACE_HEAD, &format!("key stream, at most {} octets", layout::PLACE_DATA)),
        format!(
            "{} lanes of {} octets each, from offset {} on",
            layout::LANES,
            layout::LANE,
            layout::lane(0)
        ),
        format!(
            "ring of {} octets for each key: {} places of {} octets",
            layout::RING,
            layout::PLACES,
            layout::PLACE
        ),
        format!("begins {} numbers behind the next one", layout::BEHIND),
        format!("each time that {} numbers were", layout::PLACES / 4),
        format!("record of {} octets", layout::RECORD),
    ];
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for want in wants {
        assert!(page.contains(&want), "{want}");
    }
    use layout::{Op, Status};
    for (op, word) in [
        (Op::SetKey, "set key"),
        (Op::DropKey, "drop key"),
        (Op::Encrypt, "encrypt blocks"),
        (Op::Decrypt, "decrypt blocks"),
        (Op::KeyStream, "key stream"),
        (Op::Cbc, "CBC encryption"),
        (Op::Seal, "seal"),
        (Op::Open, "open"),
    ] {
        assert!(page.contains(&format!("| {} | {word} |", op as u32)), "{word}");
        assert_eq!(Op::of(op as u32), Some(op));
    }
    for (status, word) in [
        (Status::Ok, "all of it is done"),
        (Status::Length, "the key has the wrong length"),
        (Status::Weak, "the key is weak"),
        (Status::Failed, "the cipher did not do it"),
        (Status::Refused, "there is no such key"),
    ] {
        assert!(page.contains(&format!("| {} | {word}", status as u32)), "{word}");
    }
}
