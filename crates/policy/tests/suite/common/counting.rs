//! What a piece of work allocates, on the thread that does it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The cost of a piece of work on the allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocationCount {
    /// Calls of the allocator.
    pub calls: usize,
    /// The most octets at a time beyond what was held before.
    pub peak: usize,
    live: usize,
}

thread_local! {
    static TAKEN: Cell<AllocationCount> = const { Cell::new(AllocationCount { calls: 0, peak: 0, live: 0 }) };
}

struct Counting;

// SAFETY: hands every call on to the system's allocator; counting is all it adds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has nothing left to count with.
        let _ = TAKEN.try_with(|taken| {
            let AllocationCount { calls, peak, live } = taken.get();
            let live = live + layout.size();
            taken.set(AllocationCount { calls: calls + 1, peak: peak.max(live), live });
        });
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let _ = TAKEN.try_with(|taken| {
            let now = taken.get();
            taken.set(AllocationCount { live: now.live.saturating_sub(layout.size()), ..now });
        });
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Do it, and say what it took.
pub fn counted<T>(work: impl FnOnce() -> T) -> (AllocationCount, T) {
    TAKEN.set(AllocationCount::default());
    let out = work();
    (TAKEN.get(), out)
}
