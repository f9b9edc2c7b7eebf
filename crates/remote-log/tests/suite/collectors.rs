//! Collectors that are as they should be, and others.

use remote_log::{RemoteLog, Settings, Severity};
use rustls::version::{TLS12, TLS13};

use crate::authority::Authority;
use crate::collector::{Collector, Manner};
use crate::support::{COLLECTOR, Folder, GATE, Pair, numbers, quick, tell, wait_for, wait_state};
use crate::verifier::assert_whole;

#[test]
fn what_is_told_arrives_and_is_confirmed_by_either_version_of_tls() {
    for version in [&TLS12, &TLS13] {
        let pair = Pair::new();
        let server = pair.settings.server;
        let collector = Collector::with_versions(server, &pair.collector, Manner::Reads, &[version]);
        let handle = pair.start();
        tell(&handle, 0..200);
        wait_for("the messages", || numbers(&collector.messages()).len() == 200);
        let state = wait_state(&handle, "a confirmation", |state| state.confirmed.is_some());
        assert_eq!((state.lost, state.error), (0, None));
        wait_for("a heartbeat", || collector.messages().iter().any(|m| m.contains(r#""event":"heartbeat""#)));
        handle.stop();
        // An end in good order leaves nothing in the spool: what the sender has last is what the collector has last.
        let state = handle.state();
        assert_eq!(state.spooled, 0, "{state:?}");
        let messages = collector.messages();
        let report = assert_whole(&messages);
        assert!(report.contains(&format!("last {} {}", state.sequence, state.hash)), "{report}");
        assert_eq!(numbers(&messages), (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn a_forged_collector_gets_nothing_and_the_right_one_everything() {
    let pair = Pair::new();
    let server = pair.settings.server;
    let folder = Folder::new();
    let other = Authority::new("authority of the test").papers(folder.path(), COLLECTOR);
    let named = pair.authority.papers(folder.path(), "other.example");
    let forged = Collector::start(server, &other, Manner::Reads);
    let handle = pair.start();
    tell(&handle, 0..50);
    let refused = |text: &'static str| {
        wait_state(&handle, text, |state| {
            state
                .error
                .as_deref()
                .is_some_and(|error| error.contains("certificate is refused") && error.contains(text))
        })
    };
    // An authority of the same name, whose key is another one.
    refused("BadSignature");
    assert_eq!(forged.messages(), Vec::<String>::new());
    drop(forged);
    let forged = Collector::start(server, &named, Manner::Reads);
    let state = refused("not valid for name");
    assert!(!state.connected && state.confirmed.is_none() && state.spooled > 0, "{state:?}");
    assert_eq!(forged.messages(), Vec::<String>::new());
    drop(forged);
    let collector = Collector::start(server, &pair.collector, Manner::Reads);
    wait_for("the messages", || numbers(&collector.messages()).len() == 50);
    wait_state(&handle, "a confirmation", |state| state.confirmed.is_some() && state.error.is_none());
    assert_whole(&collector.messages());
}

#[test]
fn a_sender_whom_the_collector_does_not_know_keeps_everything() {
    let pair = Pair::new();
    let folder = Folder::new();
    let stranger = Authority::new("another authority").papers(folder.path(), GATE);
    let settings = Settings { certificate: stranger.certificate, key: stranger.key, ..pair.settings.clone() };
    let collector = Collector::start(settings.server, &pair.collector, Manner::Reads);
    let handle = RemoteLog::start(settings).unwrap();
    handle.connect();
    tell(&handle, 0..20);
    let state = wait_state(&handle, "the refusal", |state| {
        state.error.as_deref().is_some_and(|error| error.contains("refuses this sender"))
    });
    assert!(state.confirmed.is_none() && state.lost == 0 && state.spooled > 0, "{state:?}");
    assert_eq!(collector.messages(), Vec::<String>::new());
    handle.stop();
    assert!(handle.state().spooled > 0);
}

#[test]
fn a_collector_that_is_gone_or_full_loses_nothing() {
    let mut pair = Pair::new();
    // A spool for which more is sent before a confirmation is asked for than the kernels have room for.
    pair.settings.size = 256 << 20;
    let server = pair.settings.server;
    let handle = pair.start();
    tell(&handle, 0..100);
    wait_state(&handle, "that nobody is there", |state| {
        state.error.as_deref().is_some_and(|error| error.contains("no connection to"))
    });
    let full = Collector::start(server, &pair.collector, Manner::Full);
    wait_state(&handle, "a connection", |state| state.connected);
    // More than the buffers of both kernels have room for.
    let long = "x".repeat(7000);
    for _ in 0..700 {
        handle.log(Severity::Warning, "packet", &format!(r#"{{"event":"long","text":"{long}"}}"#));
    }
    let state = wait_state(&handle, "that it takes nothing", |state| {
        state.error.as_deref().is_some_and(|error| error.contains("takes nothing"))
    });
    assert!(state.spooled > 700 * 7000, "{state:?}");
    tell(&handle, 100..200);
    drop(full);
    let collector = Collector::start(server, &pair.collector, Manner::Reads);
    wait_for("the messages", || numbers(&collector.messages()).len() == 200);
    let state =
        wait_state(&handle, "a confirmation", |state| state.confirmed.is_some() && state.error.is_none());
    assert_eq!(state.lost, 0);
    let messages = collector.messages();
    assert_whole(&messages);
    assert_eq!(numbers(&messages), (0..200).collect::<Vec<_>>());
}

#[test]
fn a_collector_that_ends_without_reading_is_no_confirmation() {
    let pair = Pair::new();
    let server = pair.settings.server;
    let full = Collector::start(server, &pair.collector, Manner::Full);
    let handle = pair.start();
    wait_state(&handle, "a connection", |state| state.connected);
    // Few enough that the kernel of the collector has them all.
    tell(&handle, 0..5);
    wait_state(&handle, "that it does not read", |state| {
        state.error.as_deref().is_some_and(|error| error.contains("may be unread"))
    });
    drop(full);
    assert_eq!(handle.state().confirmed, None);
    let collector = Collector::start(server, &pair.collector, Manner::Reads);
    wait_for("the messages", || numbers(&collector.messages()).len() == 5);
    assert_whole(&collector.messages());
}

#[test]
fn an_end_that_comes_before_everything_is_acknowledged_is_no_confirmation() {
    let pair = Pair::new();
    let server = pair.settings.server;
    let collector = Collector::start(server, &pair.collector, Manner::HalfCloses);
    let handle = RemoteLog::start(pair.settings.clone()).unwrap();
    // More than the collector's kernel takes, and less than the sender's has room for.
    let pad = "x".repeat(6000);
    for number in 0..50 {
        handle.log(
            Severity::Notice,
            "action",
            &format!(r#"{{"pad":"{pad}","event":"test","number":{number}}}"#),
        );
    }
    wait_state(&handle, "the spool", |state| state.sequence > 50);
    handle.connect();
    let state = wait_state(&handle, "an end that is none", |state| {
        state.confirmed.is_some()
            || state.error.as_deref().is_some_and(|error| error.contains("does not end a connection"))
    });
    assert_eq!(state.confirmed, None, "{state:?}");
    drop(collector);
    let collector = Collector::start(server, &pair.collector, Manner::Reads);
    wait_for("the messages", || numbers(&collector.messages()).len() == 50);
    assert_whole(&collector.messages());
}

#[test]
fn a_full_spool_keeps_the_oldest_and_says_how_many_are_missing() {
    let mut pair = Pair::new();
    pair.settings.size = Settings::LEAST;
    let handle = pair.start();
    // Short and long ones: a short one would have room where a long one has none.
    let told = 200;
    for number in 0..told {
        let pad = "x".repeat(if number % 4 == 0 { 2000 } else { 1 });
        handle.log(
            Severity::Notice,
            "action",
            &format!(r#"{{"pad":"{pad}","event":"test","number":{number}}}"#),
        );
    }
    // Each is spooled, behind the message about the start, or left out: `lost` is not final before that.
    let taken = u64::from(told) + 1;
    let state = wait_state(&handle, "an end of all", |state| state.sequence + state.lost == taken);
    assert!(state.lost > 0 && state.spooled > 55_000, "the spool is not full: {state:?}");
    let collector = Collector::start(pair.settings.server, &pair.collector, Manner::Reads);
    wait_state(&handle, "a confirmation", |state| state.confirmed.is_some());
    tell(&handle, told..told + 5);
    wait_for("the message about the gap", || collector.messages().iter().any(|m| m.contains(" gap ")));
    wait_for("what came later", || numbers(&collector.messages()).contains(&(told + 4)));
    let messages = collector.messages();
    assert_whole(&messages);
    let numbers = numbers(&messages);
    let kept = u32::try_from(u64::from(told) - state.lost).unwrap();
    let expected: Vec<u32> = (0..kept).chain(told..told + 5).collect();
    assert_eq!(numbers, expected);
    assert_eq!(messages.iter().filter(|m| m.contains(" gap ")).count(), 1);
    let gap = messages.iter().find(|m| m.contains(" gap ")).unwrap();
    assert!(gap.contains(&format!(r#""event":"left_out","count":{}"#, state.lost)), "{gap}");
}

#[test]
fn nothing_is_sent_before_it_is_allowed() {
    let pair = Pair::new();
    let collector = Collector::start(pair.settings.server, &pair.collector, Manner::Reads);
    let handle = RemoteLog::start(pair.settings.clone()).unwrap();
    tell(&handle, 0..3);
    wait_state(&handle, "the spool", |state| state.sequence >= 4);
    handle.stop();
    assert_eq!(collector.messages(), Vec::<String>::new());
    let next = quick(
        pair.settings.server,
        &pair.authority.papers(pair.folder.path(), GATE),
        pair.settings.spool.clone(),
    );
    let handle = RemoteLog::start(next).unwrap();
    handle.connect();
    wait_for("the messages", || numbers(&collector.messages()).len() == 3);
}
