//! One ring between us and the kernel: one side produces, the other consumes, and each owns one of two counters that only grow.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring as this side sees it: its place in memory, and how far this side has come.
#[derive(Debug)]
pub(super) struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// A power of two.
    len: u32,
    /// The position of this side in the ring, published or not.
    at: u32,
}

// SAFETY: a ring's side belongs to whoever has this value; the other side is the kernel, and the counters are atomic.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// # Safety
    /// `start` begins a mapping of a ring of `len` (a power of two) entries at these offsets, which outlives this value.
    pub(super) unsafe fn at(start: NonNull<u8>, offsets: &libc::xdp_ring_offset, len: u32) -> Ring<T> {
        // SAFETY: the caller vouches for the mapping; the kernel aligns counters and entries.
        unsafe {
            Ring {
                producer: start.add(offsets.producer as usize).cast(),
                consumer: start.add(offsets.consumer as usize).cast(),
                entries: start.add(offsets.desc as usize).cast(),
                len,
                at: 0,
            }
        }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: in the mapping (see `at`), and only ever used as an atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    fn entry(&self, at: u32) -> NonNull<T> {
        // SAFETY: masked, so inside the ring's entries.
        unsafe { self.entries.add((at & (self.len - 1)) as usize) }
    }
}

/// The side that adds: the fill and the tx ring.
#[derive(Debug)]
pub(super) struct Producer<T>(pub(super) Ring<T>);

impl<T: Copy> Producer<T> {
    /// Add an entry; `false`: the ring is full. The kernel sees it at [`Producer::publish`].
    pub(super) fn push(&mut self, entry: T) -> bool {
        let ring = &mut self.0;
        if ring.at.wrapping_sub(ring.consumer().load(Ordering::Acquire)) >= ring.len {
            return false;
        }
        // SAFETY: the slot is free: the kernel has consumed what was in it, and does not look until `publish`.
        unsafe { ring.entry(ring.at).write(entry) };
        ring.at = ring.at.wrapping_add(1);
        true
    }

    pub(super) fn publish(&self) {
        self.0.producer().store(self.0.at, Ordering::Release);
    }

    /// Whether the kernel has taken everything.
    pub(super) fn is_drained(&self) -> bool {
        self.0.consumer().load(Ordering::Acquire) == self.0.at
    }

    /// The other side of a ring that nothing was added to.
    pub(super) fn into_consumer(self) -> Consumer<T> {
        Consumer(self.0)
    }
}

/// The side that takes: the rx and the completion ring.
#[derive(Debug)]
pub(super) struct Consumer<T>(pub(super) Ring<T>);

impl<T: Copy> Consumer<T> {
    /// Take the next entry, if there is one. Its slot is the kernel's again at [`Consumer::release`].
    pub(super) fn pop(&mut self) -> Option<T> {
        let ring = &mut self.0;
        if ring.producer().load(Ordering::Acquire) == ring.at {
            return None;
        }
        // SAFETY: the kernel has written the slot before it raised the counter, and leaves it alone until `release`.
        let entry = unsafe { ring.entry(ring.at).read() };
        ring.at = ring.at.wrapping_add(1);
        Some(entry)
    }

    pub(super) fn release(&self) {
        self.0.consumer().store(self.0.at, Ordering::Release);
    }
}
