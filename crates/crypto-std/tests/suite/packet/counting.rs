//! Allocations of a piece of work, and of packets under the keys of a provider. The test program that has this has but one test: another one in
//! parallel would allocate as well.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crypto::{OpenOp, Provider, SealOp, Suites};

use crate::packet::{Packet, keymat};

struct Counting;

thread_local! {
    /// Counts the allocations of this thread alone, since the test harness allocates on its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator; counting is all it adds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BATCH: usize = 19;

/// Do it: nothing is allocated.
pub fn counted(what: &str, run: impl FnOnce()) {
    let before = ALLOCATIONS.get();
    run();
    assert_eq!(ALLOCATIONS.get() - before, 0, "{what}");
}

/// Check that the counter of allocations counts.
pub fn counts() {
    counted("nothing", || ());
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1u8; 10]));
    assert!(ALLOCATIONS.get() > before, "the counter counts");
}

/// No packet of any of these suites allocates, sealed or opened, genuine or forged, alone or in a batch.
pub fn packets_allocate_nothing(providers: &[&dyn Provider], suites: &Suites) {
    for provider in providers {
        for suite in suites.all().filter(|suite| provider.offers(*suite)) {
            for extended in [false, true] {
                let what = format!("{} {suite} {extended}", provider.name());
                let key = provider.transform(suite, &keymat(suite.keymat_len(), 1), extended).unwrap();
                let mut packets: Vec<_> =
                    (0..BATCH).map(|n| Packet::new(suite, n as u64, vec![3; 16 * (n * 7 % 90)])).collect();
                let mut alone = Packet::new(suite, 99, vec![3; 1408]);
                let mut ops: Vec<SealOp<'_>> = packets.iter_mut().map(Packet::seal_op).collect();
                counted(&what, || assert_eq!(key.seal_batch(&mut ops), Ok(())));
                drop(ops);
                counted(&what, || assert_eq!(key.seal(alone.seal_op()), Ok(())));
                packets[4].icv[0] ^= 1;
                let mut ops: Vec<OpenOp<'_>> = packets.iter_mut().map(|p| p.open_op(false)).collect();
                counted(&what, || assert_eq!(key.open_batch(&mut ops), Ok(())));
                assert_eq!(ops.iter().filter(|op| op.ok).count(), BATCH - 1, "{what}");
                drop(ops);
                let mut right = false;
                counted(&what, || right = key.open(alone.open_op(false)) == Ok(true));
                assert!(right, "{what}");
            }
        }
    }
}
