//! What is told about a worker: its state, its failures, its events.

use std::fmt;

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The worker takes packets.
    Up,
    /// It ended or was ended, and the next one is not ready yet. Packets fail.
    Restarting,
    /// Nothing can start workers any more. Packets fail until the cipher is loaded anew.
    Ended,
}

impl State {
    /// The word for it in reports.
    pub const fn name(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Restarting => "restarting",
            State::Ended => "ended",
        }
    }
}

/// A report on a worker, for people and for `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The state that it is in now.
    pub state: State,
    /// The process id of the worker that ran last.
    pub pid: Option<u32>,
    /// Workers that were started behind the first one.
    pub restarts: u64,
    /// Packets whose key stream was there ahead.
    pub ahead: u64,
    /// Packets that went through a call.
    pub called: u64,
    /// Times at which it was late, caught up within 20 ms and was not restarted.
    pub late: u64,
    /// The number of calls that failed.
    pub failed: u64,
    /// The reason of the last failure.
    pub last: Option<String>,
}

/// What ended a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It did not answer a batch in time.
    Late,
    /// It answered something that has no meaning.
    Answer,
    /// Its key stream, or what it made of a packet, would have left parts of the packet as they were.
    Unchanged,
    /// It did not take a key again that it had taken before.
    Key,
    /// It was not ready in time.
    Start,
    /// It ended; the text says how and during what.
    Ended(String),
    /// The process that starts workers ended.
    Spawner,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Late => "it did not answer in time",
            Failure::Answer => "it answered something that has no meaning",
            Failure::Unchanged => "it would have left parts of a packet in clear",
            Failure::Key => "it refused a key that it had taken before",
            Failure::Start => "it was not ready in time",
            Failure::Ended(how) => how,
            Failure::Spawner => "the process that starts workers is gone; restart the daemon",
        })
    }
}

/// What happened to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It failed: packets of its cipher are dropped as `unit_failed` until the next event.
    Failed(Failure),
    /// A new one has all keys and takes packets.
    Restarted {
        /// Workers that were started behind the first one.
        restarts: u64,
    },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.state.name())?;
        if let Some(pid) = self.pid {
            write!(f, ", process {pid}")?;
        }
        write!(f, ", {} restarts", self.restarts)?;
        match &self.last {
            Some(last) => write!(f, ", the last one because {last}"),
            None => Ok(()),
        }
    }
}
