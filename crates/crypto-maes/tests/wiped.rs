//! A key leaves nothing of itself in the memory that it gives back, nor on the stack where it was made.
//!
//! The test program has but one test: another one in parallel would give memory back as well. Two different keys must
//! leave the same words behind, addresses aside: whatever differs was made of the key.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test looks at its own memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crypto::custom::{BlockKey, CtrOp, CustomCipher, CustomKey};
use crypto_maes::{KEY_LEN, Maes512};

const WORDS: usize = 4096;

static ARMED: AtomicBool = AtomicBool::new(false);
static USED: AtomicUsize = AtomicUsize::new(0);
static LEFT: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

struct Looking;

// SAFETY: hands every call on to the system's allocator, and reads memory that is not given back yet.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeros, so that all of the memory can be read when it is given back.
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if ARMED.load(Relaxed) {
            for at in 0..layout.size() / 8 {
                // SAFETY: inside the memory, which is still allocated and was zeroed when it was taken.
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

/// The words in the memory that this gives back when it is dropped.
fn left_by<T>(owner: T) -> Vec<u64> {
    USED.store(0, Relaxed);
    ARMED.store(true, Relaxed);
    drop(owner);
    ARMED.store(false, Relaxed);
    LEFT[..USED.load(Relaxed)].iter().map(|word| word.load(Relaxed)).collect()
}

/// Octets of the stack that are looked at.
const SEEN: usize = 48 << 10;
/// Octets above them, for the function that looks.
const ABOVE: usize = 16 << 10;

#[inline(never)]
fn below<T>(work: impl FnOnce() -> T) -> T {
    let room = black_box([0u8; ABOVE]);
    let done = work();
    black_box(&room);
    done
}

/// The words of the stack that this leaves behind, zeros in place of addresses. What it makes is dropped later.
#[inline(never)]
fn left_on_stack<T>(work: impl FnOnce() -> T) -> Vec<u64> {
    let here = 0u64;
    let here = &raw const here as u64;
    let memory = File::open("/proc/self/mem").unwrap();
    let mut left = vec![0; SEEN];
    below(zeroize::zeroize_stack::<SEEN>);
    let made = below(work);
    memory.read_exact_at(&mut left, here - (ABOVE + SEEN) as u64).unwrap();
    drop(made);
    let heap = left.as_ptr() as u64;
    let address = |word: &u64| [here, heap].iter().any(|base| word >> 40 == base >> 40);
    let words = left.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.map(|word| if address(&word) { 0 } else { word }).collect()
}

fn different(one: &[u64], two: &[u64]) -> usize {
    assert_eq!(one.len(), two.len());
    one.iter().zip(two).filter(|(one, two)| one != two).count()
}

fn secret(seed: u8) -> [u8; KEY_LEN] {
    std::array::from_fn(|i| (i as u8).wrapping_mul(5) ^ seed)
}

fn key(secret: &[u8]) -> Box<dyn BlockKey> {
    match Maes512::new().set_key(secret) {
        Ok(CustomKey::Block(key)) => key,
        _ => panic!("a key of a block cipher was expected"),
    }
}

#[test]
fn a_key_leaves_nothing_of_itself() {
    // The tests see what is left.
    assert_eq!(different(&left_by(Box::new([1u64; 4])), &left_by(Box::new([2u64; 4]))), 4);
    let [one, two] = [1, 0xc7].map(|seed| left_on_stack(|| black_box(secret(seed))[0]));
    assert!(different(&one, &two) >= 6, "six of the eight words at least");

    let [one, two] = [1, 0xc7].map(|seed| {
        let key = key(&secret(seed));
        let (mut blocks, mut data) = ([7; 16 * 99], [5; 1400]);
        key.encrypt_blocks(&mut blocks).unwrap();
        key.decrypt_blocks(&mut blocks).unwrap();
        key.ctr_xor_batch(&mut [CtrOp { counter: [3; 16], data: &mut data }]).unwrap();
        left_by(key)
    });
    assert!(one.len() > 2 * 15 * 2, "at least the round keys of both cores were seen");
    assert_eq!(different(&one, &two), 0, "heap");

    // A warm-up, so that what is looked up once is looked up.
    key(&secret(9));
    let [one, two] = [1, 0xc7].map(|seed| {
        let secret = secret(seed);
        left_on_stack(|| key(&secret))
    });
    assert_eq!(different(&one, &two), 0, "stack");
    // A key that is refused as weak leaves nothing either.
    let [one, two] =
        [[1; KEY_LEN], [0xc7; KEY_LEN]].map(|weak| left_on_stack(|| Maes512::new().set_key(&weak).err()));
    assert_eq!(different(&one, &two), 0, "stack, weak key");
}
