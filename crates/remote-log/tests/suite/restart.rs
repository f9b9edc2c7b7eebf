//! Senders that are killed, started again, or two at a time.

use std::process::{Command, Stdio};

use remote_log::{RemoteLog, Settings};

use crate::authority::Papers;
use crate::collector::{Collector, Manner};
use crate::support::{GATE, Pair, numbers, quick, tell, wait_for, wait_state};
use crate::verifier::assert_whole;

/// The folder of the test that wants a sender in a process of its own.
const FOLDER: &str = "RAVELIN_TEST_REMOTE_LOG";
/// How many messages that sender has told.
const TOLD: u32 = 300;

#[test]
#[ignore = "the test below runs it, in a process of its own"]
fn a_sender_that_will_be_killed() {
    let folder = std::path::PathBuf::from(std::env::var(FOLDER).expect("a folder"));
    let server = std::fs::read_to_string(folder.join("server")).unwrap().parse().unwrap();
    let path = |what: &str| folder.join(format!("{GATE}.{what}.pem"));
    let papers = Papers { ca: path("ca"), certificate: path("certificate"), key: path("key") };
    let handle = RemoteLog::start(quick(server, &papers, folder.join("spool"))).unwrap();
    handle.connect();
    tell(&handle, 0..TOLD);
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_sender_goes_on_with_its_chain_where_it_was() {
    let pair = Pair::new();
    let folder = pair.folder.path();
    std::fs::write(folder.join("server"), pair.settings.server.to_string()).unwrap();
    let own = std::env::current_exe().unwrap();
    let test = ["--ignored", "--exact", "restart::a_sender_that_will_be_killed"];
    let mut child = Command::new(own)
        .args(test)
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let last = format!(r#""number":{}}}"#, TOLD - 1);
    wait_for("the spool of the other process", || {
        std::fs::read_to_string(folder.join("spool/spool")).is_ok_and(|text| text.contains(&last))
    });
    // While the other one lives, this one waits for the spool and keeps what it is told.
    let handle = pair.start();
    tell(&handle, TOLD..TOLD + 10);
    wait_state(&handle, "that it waits", |state| {
        state.error.as_deref() == Some("another process has the spool")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    // What a write that was cut short leaves.
    let spool = folder.join("spool/spool");
    wait_state(&handle, "the spool", |state| state.sequence > u64::from(TOLD));
    let collector = Collector::start(pair.settings.server, &pair.collector, Manner::Reads);
    wait_for("the messages", || numbers(&collector.messages()).len() == TOLD as usize + 10);
    wait_state(&handle, "a confirmation", |state| state.confirmed.is_some());
    handle.stop();
    assert!(std::fs::metadata(spool).unwrap().len() < 200, "what is confirmed has left the spool");
    // And once more, with an empty spool.
    let before = handle.state();
    let handle = pair.start();
    tell(&handle, TOLD + 10..TOLD + 20);
    wait_for("the messages", || numbers(&collector.messages()).len() == TOLD as usize + 20);
    handle.stop();
    let messages = collector.messages();
    assert_whole(&messages);
    let start = format!(r#""last_seq":{},"last_hash":"{}""#, before.sequence, before.hash);
    assert!(messages.iter().any(|message| message.contains(&start)), "{start}");
}

#[test]
fn a_sender_that_is_stopped_with_no_collector_leaves_everything_to_the_next() {
    let pair = Pair::new();
    for round in 0..3 {
        let handle = pair.start();
        tell(&handle, 10 * round..10 * round + 10);
        wait_state(&handle, "that nobody is there", |state| state.error.is_some() && state.sequence > 10);
        handle.stop();
    }
    let settings = Settings { app_name: "ravelin".to_owned(), ..pair.settings.clone() };
    let collector = Collector::start(settings.server, &pair.collector, Manner::Reads);
    let handle = RemoteLog::start(settings).unwrap();
    handle.connect();
    wait_for("the messages", || numbers(&collector.messages()).len() == 30);
    assert_whole(&collector.messages());
}
