//! A packet under a key of mAES-512 allocates nothing. The test program has but one test, and counts its thread alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crypto::custom::{CtrOp, CustomCipher, CustomKey};
use crypto_maes::Maes512;

struct Counting;

thread_local! {
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

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

#[test]
fn no_packet_allocates() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1u8; 10]))), 1, "the counter counts");
    let secret: Vec<u8> = (0..64).collect();
    let Ok(CustomKey::Block(key)) = Maes512::new().set_key(&secret) else {
        panic!("a key of a block cipher was expected")
    };
    for len in [0, 1, 16, 64, 1400, 1408, 8192, 65536] {
        let mut packets = vec![vec![3; len]; 19];
        let mut ops: Vec<_> = packets.iter_mut().map(|data| CtrOp { counter: [9; 16], data }).collect();
        assert_eq!(allocations(|| key.ctr_xor_batch(&mut ops).unwrap()), 0, "counter mode, {len}");
        let packet = &mut packets[0];
        assert_eq!(allocations(|| key.encrypt_blocks(packet).unwrap()), 0, "encryption, {len}");
        assert_eq!(allocations(|| key.decrypt_blocks(packet).unwrap()), 0, "decryption, {len}");
    }
}
