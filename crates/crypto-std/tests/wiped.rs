//! A key that is dropped leaves nothing of itself in the memory it had.
//!
//! The allocator of this test looks at what is given back. Two different keys of one suite must leave the same octets behind,
//! addresses aside: whatever differs was made of the key.

mod packet;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crypto::{Integrity, Provider, SuiteId};
use crypto_std::{Ring, RustCrypto};
use packet::{Packet, keymat};

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
fn left_by<T>(owner: T) -> Vec<u64> {
    USED.store(0, Relaxed);
    ARMED.store(true, Relaxed);
    drop(owner);
    ARMED.store(false, Relaxed);
    let here = &raw const ARMED as u64;
    let heap = Box::new(0u8);
    let heap = &raw const *heap as u64;
    let address = |word: &u64| [here, heap].iter().any(|base| word >> 32 == base >> 32);
    LEFT[..USED.load(Relaxed)].iter().map(|word| word.load(Relaxed)).filter(|w| !address(w)).collect()
}

// One test only: another one in parallel would give memory back as well.
#[test]
fn a_dropped_key_leaves_nothing_of_itself() {
    // The test sees what is left.
    assert_ne!(left_by(Box::new([1u64; 4])), left_by(Box::new([2u64; 4])));
    assert!(!left_by(Box::new([1u64; 4])).is_empty());

    let providers: [&dyn Provider; 2] = [&Ring, &RustCrypto];
    for provider in providers {
        for suite in SuiteId::all().filter(|suite| provider.offers(*suite)) {
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
    for integrity in Integrity::ALL[1..].iter().copied() {
        let [one, two] = [1, 0xc7].map(|seed| {
            let key = RustCrypto.authenticator(integrity, &keymat(integrity.keymat_len(), seed)).unwrap();
            let mut icv = vec![0; key.len()];
            key.sign(1, &[&[1; 99]], &mut icv);
            left_by(key)
        });
        assert!(!one.is_empty());
        assert_eq!(one, two, "{}", integrity.name());
    }
}
