//! No packet allocates, in any form of a library.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crypto::custom::{CbcOp, CtrOp, CustomCipher, CustomKey};

use crate::lab::Folder;

/// The system's allocator, which counts for each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_packet_allocates() {
    for form in [&[][..], &["-DFLAGS=3"], &["-DCTR=12"]] {
        let loaded = Folder::with(form).load().unwrap();
        let Ok(CustomKey::Block(key)) = loaded.cipher.set_key(&[3; 32]) else { panic!("no key") };
        let mut data = vec![0; 9000];
        let before = COUNT.get();
        assert!(before > 0);
        for _ in 0..3 {
            key.encrypt_blocks(&mut data).unwrap();
            key.decrypt_blocks(&mut data).unwrap();
            key.ctr_xor_batch(&mut [CtrOp { counter: [1; 16], data: &mut data }]).unwrap();
            let _ = key.cbc_encrypt_batch(&mut [CbcOp { iv: [1; 16], data: &mut data }]).unwrap();
        }
        assert_eq!(COUNT.get(), before, "{form:?}");
    }
}
