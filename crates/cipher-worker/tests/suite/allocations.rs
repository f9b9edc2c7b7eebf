//! No packet allocates, ahead or by a call.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crypto::custom::{AeadOp, CbcOp, CtrOp, CustomCipher, CustomKey};

use crate::flow_lab::folder;
use crate::lab::Folder;
use crate::start::{Worker, settings};

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
    let worker = Worker::start(&Folder::with(&["-DCTR=12"]), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[3; 32]) else { panic!("no key") };
    let mut data = vec![0; 9008];
    let before = COUNT.get();
    assert!(before > 0);
    for number in 0..300u64 {
        key.encrypt_blocks(&mut data).unwrap();
        key.decrypt_blocks(&mut data).unwrap();
        let mut counter = [1; 16];
        counter[4..12].copy_from_slice(&number.to_be_bytes());
        key.ctr_xor_batch(&mut [CtrOp { counter, data: &mut data[..1000] }]).unwrap();
        let _ = key.cbc_encrypt_batch(&mut [CbcOp { iv: [1; 16], data: &mut data[..1008] }]).unwrap();
    }
    assert_eq!(COUNT.get(), before);
    let report = worker.cipher.report();
    assert!(report.ahead > 0 && report.called > 0, "{report:?}");
    let worker = Worker::start(&folder(true, &[]), settings());
    let Ok(CustomKey::Aead(key)) = worker.cipher.set_key(&[3; 32]) else { panic!("no key") };
    let before = COUNT.get();
    for _ in 0..3 {
        let mut tag = [0; 16];
        let (nonce, aad) = (&[4; 12], &[5; 12]);
        key.seal_batch(&mut [AeadOp { nonce, aad, data: &mut data, tag: &mut tag, ok: false }]).unwrap();
        let mut ops = [AeadOp { nonce, aad, data: &mut data, tag: &mut tag, ok: false }];
        key.open_batch(&mut ops).unwrap();
        assert!(ops[0].ok);
    }
    assert_eq!(COUNT.get(), before);
}
