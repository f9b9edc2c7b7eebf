//! Whether a thread waits: what lets another one leave out the system call that would wake it.
//!
//! `models/` compiles this file against a model of the memory of processors (loom) and tries every order of two threads.

#[cfg(model)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(model))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Whether a thread waits, or is about to.
pub(super) struct WaitFlag(AtomicBool);

impl WaitFlag {
    /// The flag of a thread that does not wait.
    pub(super) fn new() -> WaitFlag {
        WaitFlag(AtomicBool::new(false))
    }

    /// Say that the thread is about to wait. It must look for what it waits for behind this, before it does.
    pub(super) fn begin_waiting(&self) {
        // A swap, so that this is behind what the other thread wrote: the model does not order a store so.
        self.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Say that the thread waits no more.
    pub(super) fn end_waiting(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the thread has to be woken, by whoever asks first. What it waits for must be there before this.
    pub(super) fn take_waiting(&self) -> bool {
        // Either this sees that the thread waits, or that sees what is there.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::AcqRel)
    }
}
