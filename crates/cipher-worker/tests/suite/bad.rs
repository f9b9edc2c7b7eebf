//! What a worker process is: what it may use, what it is without, and libraries that end before they are ready.

use cipher_worker::{Isolated, Settings, WorkerError};
use crypto::custom::{CustomCipher, CustomKey, SetKeyError};

use crate::lab::Folder;
use crate::start::{Worker, settings};

fn refused(arguments: &[&str]) -> String {
    match Worker::try_start(&Folder::with(arguments), settings()) {
        Ok(_) => panic!("it is ready"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_library_that_fails_before_it_is_ready_has_no_worker() {
    let why = refused(&["-DINCLUDES", "-DCONSTRUCTOR=open(\"/etc/passwd\",0)"]);
    assert_eq!(
        why,
        "the worker of toycipher is not ready: it called openat, which no cipher may, during constructors"
    );
    let why = refused(&["-DINCLUDES", "-DCONSTRUCTOR=socket(2,1,0)"]);
    assert!(why.ends_with("it called socket, which no cipher may, during constructors"), "{why}");
    let why = refused(&["-DINCLUDES", "-DCONSTRUCTOR=_exit(0)"]);
    assert!(why.ends_with("it ended the process with status 0, during constructors"), "{why}");
    let why = refused(&["-DCTX_SIZE=0"]);
    assert!(why.contains("ctx_size"), "{why}");
}

#[test]
fn a_worker_has_no_rights_no_files_and_a_filter() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    key.encrypt_blocks(&mut [1; 64]).unwrap();
    let pid = worker.cipher.report().pid.unwrap();
    let status = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |status: &str, name: &str| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}"));
        line.trim().to_owned()
    };
    let own = status(&pid.to_string());
    // Nor has the process that starts workers any right: here a thread of a test program, whose first thread waits.
    let tasks = std::fs::read_dir(format!("/proc/{}/task", field(&own, "PPid:"))).unwrap();
    let mut tasks = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let parent =
        tasks.find(|task| field(task, "Name:").starts_with("start::")).expect("the thread of the test");
    for status in [&own, &parent] {
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(status, set), "0000000000000000", "{set}");
        }
        assert_eq!(field(status, "NoNewPrivs:"), "1");
    }
    let line = |name: &str| field(&own, name);
    assert_eq!(line("Seccomp:"), "2");
    assert_eq!(line("Threads:"), "1");
    let locked: u64 = line("VmLck:").split(' ').next().unwrap().parse().unwrap();
    assert!(locked >= 4, "{locked} KiB are locked");
    // What is shared is locked by the host, page by page as it is used.
    let ours = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut shared = ours.lines().skip_while(|line| !line.contains("ravelin-cipher-worker"));
    let flags = shared.find(|line| line.starts_with("VmFlags:")).unwrap();
    assert!(flags.contains(" lo") && flags.contains(" dd"), "{flags}");
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    for (name, most) in [("Max core file size", "0"), ("Max file size", "0"), ("Max open files", "64")] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(line.split_ascii_whitespace().nth(name.split(' ').count()), Some(most), "{line}");
    }
    // Memory of no file, one pipe, the list of mappings; no socket, nothing that leads to another file.
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let to = std::fs::read_link(entry.unwrap().path()).unwrap().to_string_lossy().into_owned();
        let known = ["/memfd:ravelin", "pipe:", "/dev/null", &format!("/proc/{pid}/maps")];
        assert!(known.iter().any(|known| to.starts_with(known)), "{to}");
    }
    // Not dumpable: its files belong to root whoever it runs as, and what can be read of it needs a tracer's right.
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let host = maps.lines().find(|line| line.contains("ravelin-cipher-host")).unwrap();
    assert!(host.contains(" r--s "), "the worker can only read what the host writes: {host}");
}

#[test]
fn numbers_of_keys_that_no_worker_has_are_refused() {
    let description = Folder::with(&[]).load().unwrap().manifest.description;
    for keys in [0, 4096, usize::MAX] {
        let error = Isolated::detached(description.clone(), Settings { keys, ..settings() }).unwrap_err();
        assert!(matches!(error, WorkerError::Keys(number) if number == keys));
    }
}

#[test]
fn a_key_too_many_is_refused_by_its_number_and_room_comes_back() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let mut keys: Vec<_> = (1..=8u8).map(|octet| worker.cipher.set_key(&[octet; 32]).unwrap()).collect();
    assert_eq!(worker.cipher.keys(), keys.len());
    let refused = worker.cipher.set_key(&[9; 32]).map(drop).unwrap_err();
    assert_eq!(refused, SetKeyError::NoRoom(8));
    assert!(refused.to_string().contains("room for 8 keys"), "{refused}");
    keys.pop();
    assert!(worker.cipher.set_key(&[9; 32]).is_ok());
}

#[test]
fn a_worker_is_ended_before_others_where_memory_is_short_and_has_little_address_space() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let pid = worker.cipher.report().pid.unwrap();
    let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert!(score.trim().parse::<i32>().unwrap() >= 500, "{score}");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let spawner = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap();
    let of = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert_eq!(of(spawner), of("self"), "nobody replaces the process that starts workers");
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max address space")).unwrap();
    let most: usize = line.split_ascii_whitespace().nth(3).unwrap().parse().unwrap();
    // Eight keys, with a ring each in the shared memory.
    assert!(most < 300 << 20, "{line}");
}

#[test]
fn known_answers_have_a_key_when_all_others_are_in_use() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let held: Vec<_> = (1..=8u8).map(|octet| worker.cipher.set_key(&[octet; 32]).unwrap()).collect();
    assert_eq!(worker.cipher.set_key(&[9; 32]).map(drop), Err(SetKeyError::NoRoom(8)));
    let answers = worker.cipher.for_answers();
    for octet in 0..3u8 {
        let Ok(CustomKey::Block(key)) = answers.set_key(&[octet; 32]) else { panic!("no key") };
        // More than goes through a lane for an answer at once.
        key.encrypt_blocks(&mut [3; 10_000]).unwrap();
        assert_eq!(answers.set_key(&[1; 32]).map(drop), Err(SetKeyError::NoRoom(8)), "one at a time");
    }
    drop(held);
}
