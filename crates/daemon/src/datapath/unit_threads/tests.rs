//! Threads of units with work of the test's own.

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::*;

/// Work that waits until the test lets it go on, and then answers or panics.
struct TestWork {
    unit: UnitId,
    number: usize,
    go_on: Option<Receiver<bool>>,
    spent: u64,
}

impl UnitWork for TestWork {
    fn unit(&self) -> UnitId {
        self.unit
    }

    fn compute(&mut self) {
        if let Some(go_on) = self.go_on.take() {
            assert!(go_on.recv().unwrap(), "the test wants the thread to end");
        }
    }

    fn set_spent(&mut self, ns: u64) {
        self.spent = ns;
    }
}

fn at_once(unit: UnitId, number: usize) -> TestWork {
    TestWork { unit, number, go_on: None, spent: 0 }
}

/// Work that goes on when the test says so.
fn held(unit: UnitId) -> (TestWork, Sender<bool>) {
    let (sender, receiver) = channel();
    (TestWork { go_on: Some(receiver), ..at_once(unit, 0) }, sender)
}

const UNIT: UnitId = UnitId(3);

fn thread(wake: &Wake) -> UnitThread<TestWork> {
    UnitThread::start("test", wake.try_clone().unwrap(), || {}).unwrap()
}

/// The threads of a data thread with one unit, and what wakes that.
fn threads() -> (UnitThreads<TestWork>, Wake) {
    let wake = Wake::new().unwrap();
    let mut threads = UnitThreads::default();
    threads.adopt(vec![thread(&wake)], |name| (name == "test").then_some(UNIT), |_| true);
    (threads, wake)
}

/// Wait as the data thread does, until there is an answer or a thread has ended.
fn wait(threads: &UnitThreads<TestWork>, wake: &Wake) {
    if !threads.begin_waiting() {
        let woken = netio::poll::readable([wake.as_fd()], Some(Duration::from_secs(20))).unwrap()[0];
        assert!(woken, "nobody woke the data thread");
    }
    threads.end_waiting();
    wake.take();
}

#[test]
fn answers_come_in_order_however_much_there_is_and_none_is_slept_through() {
    let (mut threads, wake) = threads();
    // More than a thread has room for.
    let all = 3 * DEPTH;
    for number in 0..all {
        assert!(threads.submit(at_once(UNIT, number)).is_ok());
    }
    let mut next = 0;
    while next < all {
        wait(&threads, &wake);
        while let Some(answer) = threads.next_answer() {
            assert_eq!(answer.number, next);
            next += 1;
        }
    }
    assert!(threads.is_idle());
    // One by one too, so that the thread sleeps in between.
    for number in 0..100 {
        assert!(threads.submit(at_once(UNIT, number)).is_ok());
        let answer = loop {
            match threads.next_answer() {
                Some(answer) => break answer,
                None => wait(&threads, &wake),
            }
        };
        assert_eq!(answer.number, number);
    }
}

#[test]
fn work_for_a_unit_without_a_thread_comes_back() {
    let (mut threads, _wake) = threads();
    assert!(threads.submit(at_once(UnitId(1), 7)).is_err_and(|work| work.number == 7));
}

#[test]
fn a_unit_that_stays_keeps_its_thread_and_one_that_leaves_is_heard_to_its_end() {
    let (mut threads, wake) = threads();
    let (work, go_on) = held(UNIT);
    assert!(threads.submit(work).is_ok());
    // The same unit again: what its thread has is not lost.
    threads.adopt(vec![thread(&wake)], |_| Some(UNIT), |_| true);
    assert_eq!((threads.active.len(), threads.leaving.len()), (1, 0));
    assert!(!threads.is_idle());
    // And then it is gone from the graph.
    threads.adopt(Vec::new(), |_| None, |_| true);
    assert_eq!((threads.active.len(), threads.leaving.len()), (0, 1));
    assert!(threads.submit(at_once(UNIT, 1)).is_err());
    go_on.send(true).unwrap();
    let answer = loop {
        match threads.next_answer() {
            Some(answer) => break answer,
            None => wait(&threads, &wake),
        }
    };
    assert_eq!(answer.number, 0);
    assert!(threads.is_empty());
}

#[test]
fn a_thread_that_breaks_is_told_once() {
    let (mut threads, _wake) = threads();
    let (work, go_on) = held(UNIT);
    assert!(threads.submit(work).is_ok());
    assert_eq!(threads.next_ended(), None);
    go_on.send(false).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(20);
    let ended = loop {
        if let Some(unit) = threads.next_ended() {
            break unit;
        }
        assert!(std::time::Instant::now() < end, "the thread goes on");
        std::thread::yield_now();
    };
    assert_eq!((ended, threads.next_ended()), (UNIT, None));
    assert!(threads.is_empty());
}
