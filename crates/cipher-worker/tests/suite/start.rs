//! Workers and packets for the tests.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cipher_loader::{Trial, Trust, examine};
use cipher_worker::{Event, Isolated, Settings, WorkerError};
use crypto::custom::CustomCipher;
use crypto::{OpenOp, Provider, SealOp, Secret, SuiteId, Suites, Transform, UnitFailed};
use crypto_std::CustomProvider;

use crate::lab::Folder;

/// This test program, which runs the ignored test below.
pub fn program() -> Trial {
    Trial {
        program: std::env::current_exe().unwrap(),
        arguments: ["--ignored", "--exact", "start::the_process_that_starts_workers"]
            .map(Into::into)
            .to_vec(),
    }
}

#[test]
#[ignore = "the tests of this program run it, in a process of its own"]
fn the_process_that_starts_workers() {
    cipher_worker::child_main();
}

/// A batch may take longer here than in use: these tests share a processor with others, and none is about time.
pub const PATIENT: Duration = Duration::from_millis(500);

pub fn settings() -> Settings {
    Settings { keys: 8, deadline: PATIENT, key_deadline: PATIENT, ..Settings::default() }
}

/// A worker whose events are kept.
pub struct Worker {
    pub cipher: Arc<Isolated>,
    pub events: Mutex<Receiver<Event>>,
}

impl Worker {
    pub fn start(folder: &Folder, settings: Settings) -> Worker {
        Worker::try_start(folder, settings).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_start(folder: &Folder, settings: Settings) -> Result<Worker, WorkerError> {
        let examined = examine(&folder.path("manifest.json"), None, Trust::Caller).unwrap();
        let (tell, events) = channel();
        let on_event = move |event: &Event| {
            let _ = tell.send(event.clone());
        };
        let cipher = Isolated::start(&program(), &examined, settings, on_event)?;
        Ok(Worker { cipher: Arc::new(cipher), events: Mutex::new(events) })
    }

    /// The next event, which comes.
    pub fn event(&self) -> Event {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.recv_timeout(Duration::from_secs(20)).expect("an event")
    }

    /// The text of the next failure.
    pub fn failure(&self) -> String {
        match self.event() {
            Event::Failed(why) => why.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// End the process from outside.
    pub fn kill(&self) {
        let pid = self.cipher.report().pid.unwrap();
        let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
        // It may have ended before.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Wait until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The provider of a cipher, and its suites.
pub fn provider(cipher: Arc<dyn CustomCipher>) -> (CustomProvider, Vec<SuiteId>) {
    let mut suites = Suites::standard();
    suites.register(cipher.description(), 61_000, true).unwrap();
    let own = suites.all().filter(|suite| suite.custom().is_some()).collect();
    (CustomProvider::new(cipher, &suites).unwrap(), own)
}

/// The key of a suite whose keying material is a counting pattern.
pub fn key(provider: &CustomProvider, suite: SuiteId) -> Box<dyn Transform> {
    let keymat = (0..suite.keymat_len()).map(|at| (at * 7 + 3) as u8).collect();
    provider.transform(suite, &Secret::new(keymat), true).unwrap_or_else(|error| panic!("{suite}: {error}"))
}

/// One packet of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub sequence: u64,
    pub header: [u8; 8],
    pub iv: Vec<u8>,
    pub data: Vec<u8>,
    pub icv: Vec<u8>,
}

impl Packet {
    pub fn new(suite: SuiteId, sequence: u64, len: usize) -> Packet {
        let data = (0..len).map(|at| (at as u64 * 31 + sequence) as u8).collect();
        let (iv, icv) = (vec![0; suite.iv_len()], vec![0; suite.icv_len()]);
        Packet { sequence, header: sequence.to_be_bytes(), iv, data, icv }
    }
}

/// Sixteen packets of lengths that a suite takes, the first one with this number.
pub fn batch(suite: SuiteId, first: u64, longest: usize) -> Vec<Packet> {
    let len = |at: usize| (longest * (at * 5 % 16 + 1) / 16).next_multiple_of(16);
    (0..16).map(|at| Packet::new(suite, first + at as u64, len(at))).collect()
}

pub fn seal(key: &dyn Transform, packets: &mut [Packet]) -> Result<(), UnitFailed> {
    let mut ops: Vec<SealOp<'_>> = packets
        .iter_mut()
        .map(|Packet { sequence, header, iv, data, icv }| SealOp {
            sequence: *sequence,
            header,
            iv,
            data,
            icv,
        })
        .collect();
    key.seal_batch(&mut ops)
}

/// Open packets; each says whether it was genuine.
pub fn open(key: &dyn Transform, packets: &mut [Packet]) -> Result<Vec<bool>, UnitFailed> {
    let mut ops: Vec<OpenOp<'_>> = packets
        .iter_mut()
        .map(|Packet { sequence, header, iv, data, icv }| OpenOp {
            sequence: *sequence,
            header,
            iv,
            data,
            icv,
            ok: false,
        })
        .collect();
    key.open_batch(&mut ops)?;
    Ok(ops.iter().map(|op| op.ok).collect())
}
