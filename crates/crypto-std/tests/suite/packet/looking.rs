//! What is in memory when it is given back. The test program that has this has but one test: another one in parallel would give memory back
//! as well.
//!
//! Two different keys of one suite must leave the same octets behind, addresses aside: whatever differs was made of the key.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crypto::{Provider, Suites};

use crate::packet::{Packet, keymat};

const WORDS: usize = 8192;

static ARMED: AtomicBool = AtomicBool::new(false);
static USED: AtomicUsize = AtomicUsize::new(0);
static LEFT: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

struct Looking;

// SAFETY: hands every call on to the system's allocator, and reads memory that is not given back yet.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeros, so that nothing is there but what the owner wrote.
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if ARMED.load(Relaxed) {
            for at in 0..layout.size() / 8 {
                // SAFETY: inside the block, which is still allocated; the block was zeroed when it was taken.
                let word = unsafe { ptr.cast::<u64>().add(at).read_unaligned() };
                LEFT[USED.fetch_add(1, Relaxed)].store(word, Relaxed);
            }
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Looking = Looking;

/// What was in the memory that dropping this gave back. Addresses, which have their upper bits alike, are left out.
pub fn left_by<T>(owner: T) -> Vec<u64> {
    left_while(|| drop(owner))
}

/// What was in the memory that was given back while this worked, as [`left_by`] has it.
pub fn left_while(work: impl FnOnce()) -> Vec<u64> {
    USED.store(0, Relaxed);
    ARMED.store(true, Relaxed);
    work();
    ARMED.store(false, Relaxed);
    let here = &raw const ARMED as u64;
    let heap = Box::new(0u8);
    let heap = &raw const *heap as u64;
    let address = |word: &u64| [here, heap].iter().any(|base| word >> 32 == base >> 32);
    LEFT[..USED.load(Relaxed)].iter().map(|word| word.load(Relaxed)).filter(|w| !address(w)).collect()
}

/// The test sees what is left.
pub fn sees() {
    assert_ne!(left_by(Box::new([1u64; 4])), left_by(Box::new([2u64; 4])));
    assert!(!left_by(Box::new([1u64; 4])).is_empty());
}

/// A dropped key of any of these suites leaves nothing of itself.
pub fn keys_leave_nothing(providers: &[&dyn Provider], suites: &Suites) {
    for provider in providers {
        for suite in suites.all().filter(|suite| provider.offers(*suite)) {
            let [one, two] = [1, 0xc7].map(|seed| {
                let key = provider.transform(suite, &keymat(suite.keymat_len(), seed), true).unwrap();
                let packet = Packet::new(suite, 3, vec![5; 1408]).sealed(key.as_ref());
                assert!(packet.opened(key.as_ref()).is_some());
                left_by(key)
            });
            assert!(!one.is_empty(), "{suite}");
            assert_eq!(one, two, "{} {suite}", provider.name());
        }
    }
}
