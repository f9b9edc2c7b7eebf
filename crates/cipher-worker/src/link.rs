//! The two memories as the host has them, and the bell that wakes the worker.

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::futex;
use crate::layout::{self, host, worker};
use crate::memory::{Memory, Outside};

/// What leads to a worker.
#[derive(Debug)]
pub(crate) struct Link {
    /// The memory that the host writes.
    pub(crate) host: Memory,
    /// The memory that the worker writes.
    pub(crate) worker: Memory,
    generation: AtomicU32,
}

impl Link {
    /// New memories for so many keys, locked, with nothing in them but the host's head.
    pub(crate) fn new(keys: usize) -> io::Result<Link> {
        let host = Memory::create("ravelin-cipher-host", layout::host_len(keys), true)?;
        let worker = Memory::create("ravelin-cipher-worker", layout::worker_len(keys), false)?;
        host.lock()?;
        worker.lock()?;
        let link = Link { host, worker, generation: AtomicU32::new(0) };
        link.head(keys).map_err(io::Error::other)?;
        Ok(link)
    }

    fn head(&self, keys: usize) -> Result<(), Outside> {
        self.host.put(host::MAGIC, &layout::MAGIC.to_ne_bytes())?;
        self.host.put(host::VERSION, &layout::VERSION.to_ne_bytes())?;
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        self.host.put(host::KEYS, &keys.to_ne_bytes())
    }

    /// A number that no record of a key had before.
    pub(crate) fn next_generation(&self) -> u32 {
        loop {
            let next = self.generation.fetch_add(1, Relaxed).wrapping_add(1);
            if next != 0 {
                return next;
            }
        }
    }

    /// Tell the worker that there is something to do.
    pub(crate) fn ring_worker(&self) -> Result<(), Outside> {
        let bell = self.host.word(host::DOORBELL)?;
        bell.fetch_add(1, SeqCst);
        if self.worker.word(worker::SLEEPING)?.load(SeqCst) != 0 {
            futex::wake(bell);
        }
        Ok(())
    }
}
