//! Workers that end, hang or are ended, while others work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cipher_worker::{Event, Settings, State};
use crypto::UnitFailed;
use crypto::custom::{CtrOp, CustomCipher, CustomKey};

use crate::lab::Folder;
use crate::start::{Packet, Worker, key, open, provider, seal, settings, until};

/// A library that does this to a block that begins with four octets of 0xee, and is good otherwise.
fn trap(what: &str) -> Folder {
    let code =
        format!("-DIN_PACKET=if(blocks&&src[0]==0xee&&src[1]==0xee&&src[2]==0xee&&src[3]==0xee){{{what};}}");
    Folder::with(&["-DINCLUDES", &code])
}

/// What is told about a library that does this to a packet; before and behind it all is well.
fn told(what: &str) -> String {
    let worker = Worker::start(&trap(what), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    let mut good = [3; 64];
    key.encrypt_blocks(&mut good).unwrap();
    let mut bad = [0xee; 64];
    assert_eq!(key.encrypt_blocks(&mut bad), Err(UnitFailed));
    assert_eq!(bad, [0; 64], "what was handed over is left nowhere");
    let told = worker.failure();
    assert_eq!(worker.event(), Event::Restarted { restarts: 1 });
    let mut again = [3; 64];
    key.encrypt_blocks(&mut again).unwrap();
    assert_eq!(again, good, "the key is the same in the next worker");
    let report = worker.cipher.report();
    assert_eq!((report.state, report.restarts, report.failed), (State::Up, 1, 1));
    assert_eq!(report.last.as_ref(), Some(&told));
    told
}

#[test]
fn a_crash_is_told_and_the_next_worker_has_the_keys() {
    assert_eq!(told("*(volatile int *)8 = 1"), "SIGSEGV ended it, during packets");
    assert_eq!(told("__builtin_trap()"), "SIGILL ended it, during packets");
    assert_eq!(told("abort()"), "SIGABRT ended it, during packets");
}

#[test]
fn an_exit_is_told() {
    assert_eq!(told("_exit(3)"), "it ended the process with status 3, during packets");
    assert_eq!(told("exit(0)"), "it ended the process with status 0, during packets");
}

#[test]
fn a_hang_is_ended_and_told() {
    assert_eq!(told("for(;;)toy_sink++"), "it did not answer in time");
}

#[test]
fn a_system_call_is_refused_and_told_by_its_name() {
    for (what, name) in [
        ("open(\"/etc/passwd\", 0)", "openat"),
        ("socket(2, 1, 0)", "socket"),
        ("fork()", "clone (fork, or a thread)"),
        ("execve(\"/bin/true\", 0, 0)", "execve"),
        ("kill(getppid(), 9)", "system call 110"),
        ("syscall(SYS_ptrace, 0, 0, 0, 0)", "system call 101"),
        ("mmap(0, 4096, 5, 0x22, -1, 0)", "mmap (executable memory)"),
        ("mprotect((void *)((long)&toy_sink & ~4095L), 4096, 7)", "mprotect (executable memory)"),
        ("signal(11, SIG_IGN)", "rt_sigaction (a signal handler)"),
    ] {
        assert_eq!(told(what), format!("it called {name}, which no cipher may, during packets"), "{what}");
    }
}

#[test]
fn a_slow_worker_serves_as_long_as_it_keeps_the_deadline() {
    let code = "for(long i=0;i<200000;i++)toy_sink++";
    let worker = Worker::start(&trap(code), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    let mut slow = [0xee; 64];
    key.encrypt_blocks(&mut slow).unwrap();
    assert_ne!(slow, [0; 64]);
    drop((worker, key));
    // The same with a deadline that it cannot keep: it is excused once, and ended the second time.
    let late = Settings { deadline: Duration::from_micros(10), ..settings() };
    let worker = Worker::start(&trap("for(long i=0;i<3000000;i++)toy_sink++"), late);
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    assert_eq!(key.encrypt_blocks(&mut [0xee; 16]), Err(UnitFailed));
    until("it is up again or restarted", || worker.cipher.report().state == State::Up);
    until("it was late twice", || {
        let _ = key.encrypt_blocks(&mut [0xee; 16]);
        worker.cipher.report().last.is_some()
    });
    assert_eq!(worker.failure(), "it did not answer in time");
}

#[test]
fn at_the_start_a_worker_has_more_time_than_later() {
    let late = Settings {
        deadline: Duration::from_micros(10),
        key_deadline: Duration::from_micros(10),
        ..settings()
    };
    let slow = trap("for(long i=0;i<3000000;i++)toy_sink++");
    let worker = Worker::start(&slow, late);
    worker.cipher.be_patient();
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    let before = worker.cipher.report();
    key.encrypt_blocks(&mut [0xee; 16]).unwrap();
    assert_eq!((before.late, before.failed), (0, 0), "{before:?}");
    worker.cipher.settle();
    assert_eq!(key.encrypt_blocks(&mut [0xee; 16]), Err(UnitFailed));
}

#[test]
fn a_worker_that_did_not_run_for_a_moment_is_not_restarted() {
    let brief = Settings { deadline: Duration::from_millis(1), ..settings() };
    let worker = Worker::start(&Folder::with(&[]), brief);
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    let pid = worker.cipher.report().pid.unwrap();
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    let before = worker.cipher.report().late;
    signal(rustix::process::Signal::STOP);
    let mut data = [1; 32];
    assert_eq!(key.encrypt_blocks(&mut data), Err(UnitFailed));
    assert_eq!(data, [0; 32]);
    signal(rustix::process::Signal::CONT);
    // On a machine that is busy it may be late once more, or for too long: then it is restarted as any other.
    until("it is up", || worker.cipher.report().state == State::Up);
    let report = worker.cipher.report();
    assert!(report.late > before || report.restarts > 0, "{report:?}");
    until("packets again", || key.encrypt_blocks(&mut [1; 32]).is_ok());
}

#[test]
fn a_worker_that_fails_in_setkey_leaves_the_others_keys() {
    let folder = Folder::with(&["-DINCLUDES", "-DIN_SETKEY=if(key[0]==9)_exit(4)"]);
    let worker = Worker::start(&folder, settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    assert!(worker.cipher.set_key(&[9; 32]).is_err());
    assert_eq!(worker.failure(), "it ended the process with status 4, during packets");
    assert_eq!(worker.event(), Event::Restarted { restarts: 1 });
    key.encrypt_blocks(&mut [3; 64]).unwrap();
}

#[test]
fn a_key_that_the_next_worker_refuses_keeps_the_cipher_down_as_long_as_it_is_used() {
    // The key is good in the process that it names.
    let folder = Folder::with(&["-DINCLUDES", "-DIN_SETKEY=if(key[31]&&*(int*)key!=getpid())return -2"]);
    let worker = Worker::start(&folder, settings());
    let mut octets = [1; 32];
    octets[..4].copy_from_slice(&worker.cipher.report().pid.unwrap().to_ne_bytes());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&octets) else { panic!("no key") };
    key.encrypt_blocks(&mut [1; 32]).unwrap();
    worker.kill();
    assert_eq!(worker.failure(), "SIGKILL ended it, during packets");
    assert_eq!(worker.failure(), "it refused a key that it had taken before");
    let mut data = [1; 32];
    assert_eq!(key.encrypt_blocks(&mut data), Err(UnitFailed));
    assert_eq!(data, [0; 32]);
    drop(key);
    until("it is up", || worker.cipher.report().state == State::Up);
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[0; 32]) else { panic!("no key") };
    key.encrypt_blocks(&mut [1; 32]).unwrap();
}

#[test]
fn a_stopped_worker_is_ended() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    let pid = worker.cipher.report().pid.unwrap();
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    assert_eq!(key.encrypt_blocks(&mut [1; 32]), Err(UnitFailed));
    assert_eq!(worker.failure(), "it did not answer in time");
    assert_eq!(worker.event(), Event::Restarted { restarts: 1 });
    key.encrypt_blocks(&mut [1; 32]).unwrap();
}

#[test]
fn hundred_kills_cost_another_cipher_nothing() {
    let (first, second) = (Folder::with(&["-DCTR=12"]), Folder::named("othercipher"));
    // Each counts as one that works at once, so that the pause is always the shortest.
    let mortal = Worker::start(&first, Settings { settled: Duration::ZERO, ..settings() });
    let other = Worker::start(&second, settings());
    let (provider_of_other, suites) = provider(other.cipher.clone());
    let suite = *suites.iter().find(|suite| suite.to_string().ends_with("cbc-sha256")).unwrap();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (outbound, inbound) = (key(&provider_of_other, suite), key(&provider_of_other, suite));
            while !stop.load(Ordering::Relaxed) {
                let first = sent.fetch_add(4, Ordering::Relaxed) + 1;
                let plain: Vec<Packet> = (first..first + 4).map(|n| Packet::new(suite, n, 512)).collect();
                let mut packets = plain.clone();
                seal(&*outbound, &mut packets).expect("no packet of the other cipher is lost");
                let genuine = open(&*inbound, &mut packets).expect("nor is one inbound");
                assert!(genuine.iter().all(|ok| *ok));
                assert!(packets.iter().zip(&plain).all(|(got, want)| got.data == want.data));
            }
        });
        let ended = Ended(&stop);
        let Ok(CustomKey::Block(key)) = mortal.cipher.set_key(&[1; 32]) else { panic!("no key") };
        let mut number = 0u64;
        let mut step = || {
            number += 1;
            let mut counter = [0; 16];
            counter[4..12].copy_from_slice(&number.to_be_bytes());
            let mut data = [0x55; 600];
            let done = key.ctr_xor_batch(&mut [CtrOp { counter, data: &mut data }]);
            // Never the plaintext.
            assert!(!data.as_chunks::<8>().0.contains(&[0x55; 8]));
            done.is_ok()
        };
        for kill in 1..=100 {
            mortal.kill();
            assert_eq!(mortal.failure(), "SIGKILL ended it, during packets", "{kill}");
            assert_eq!(mortal.event(), Event::Restarted { restarts: kill });
            until("packets again", &mut step);
        }
        drop(ended);
    });
    assert!(sent.load(Ordering::Relaxed) > 0);
    let report = other.cipher.report();
    assert_eq!((report.failed, report.restarts), (0, 0));
}

/// Says stop, also where a test fails.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn without_the_process_that_starts_workers_packets_fail_and_it_is_told() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    let pid = worker.cipher.report().pid.unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().parse().unwrap();
    let parent = rustix::process::Pid::from_raw(parent).unwrap();
    rustix::process::kill_process(parent, rustix::process::Signal::KILL).unwrap();
    assert_eq!(worker.failure(), "the process that starts workers is gone; restart the daemon");
    assert_eq!(worker.cipher.report().state, State::Ended);
    let mut data = [1; 32];
    assert_eq!(key.encrypt_blocks(&mut data), Err(UnitFailed));
    assert_eq!(data, [0; 32]);
    // The worker died with its parent.
    until("the worker is gone", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn a_worker_ends_with_its_handle_and_keys_fail_then() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    let pid = worker.cipher.report().pid.unwrap();
    drop(worker);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(key.encrypt_blocks(&mut [1; 32]), Err(UnitFailed));
}
