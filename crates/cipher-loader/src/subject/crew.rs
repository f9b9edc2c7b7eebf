//! Threads that are there before a filter forbids to start any.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// What a thread is given to do.
pub type Job = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// The threads beside the one that gives them work.
const THREADS: usize = 3;

/// A thread that waits for work.
struct Worker {
    jobs: Sender<Job>,
    done: Receiver<Result<(), String>>,
}

/// Threads that wait for work.
pub(crate) struct Crew(Vec<Worker>);

impl Crew {
    /// A crew without any thread.
    pub(crate) fn none() -> Crew {
        Crew(Vec::new())
    }

    /// Threads without any capability.
    pub(crate) fn new() -> io::Result<Crew> {
        let mut workers = Vec::new();
        for _ in 0..THREADS {
            let (to, jobs) = channel::<Job>();
            let (done, from) = channel();
            thread::Builder::new().name("rvl-check".to_owned()).spawn(move || {
                let none = CapabilitySet::empty();
                let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
                let bare = set_capabilities(None, sets).map_err(|error| error.to_string());
                // The first word says that the thread is ready.
                let mut open = done.send(bare).is_ok();
                while open {
                    let Ok(job) = jobs.recv() else { return };
                    open = done.send(job()).is_ok();
                }
            })?;
            from.recv().map_err(io::Error::other)?.map_err(io::Error::other)?;
            workers.push(Worker { jobs: to, done: from });
        }
        Ok(Crew(workers))
    }

    /// Do all of this at once: the last job here, each of the others on a thread of its own.
    pub(crate) fn together(&self, mut jobs: Vec<Job>) -> Result<(), String> {
        let Some(own) = jobs.pop() else { return Ok(()) };
        if jobs.len() > self.0.len() {
            return Err(format!("{} jobs are more than the threads that there are", jobs.len() + 1));
        }
        let mut given = Vec::new();
        for (job, worker) in jobs.into_iter().zip(&self.0) {
            worker.jobs.send(job).map_err(|_| "a thread has ended".to_owned())?;
            given.push(&worker.done);
        }
        let mut result = own();
        for from in given {
            let done = from.recv().map_err(|_| "a thread has ended".to_owned());
            result = result.and(done.and_then(|done| done));
        }
        result
    }
}
