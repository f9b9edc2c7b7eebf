//! What a call through the loader costs over the same functions of the same library, in turns: nanoseconds a packet in
//! counter mode, in batches of 16.
//!
//! `cargo run --release -p cipher-loader --example overhead MANIFEST`; each line is `figure NAME VALUE UNIT`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "an example may look at the clock")]
#![allow(clippy::disallowed_macros, reason = "what an example measured is its output")]

use std::ffi::{OsString, c_void};
use std::path::PathBuf;
use std::time::Instant;

use cipher_loader::{Request, Trial, Trust, load};
use crypto::custom::{CtrOp, CustomCipher, CustomKey};
use libloading::os::unix::Library;

/// `struct ravelin_cipher` up to the functions that are called (include/ravelin_cipher.h).
#[repr(C)]
struct Description {
    abi: [u32; 4],
    flags: u64,
    texts: [*const u8; 3],
    lengths: [u32; 4],
    ctx_size: u32,
    ctx_align: u32,
    max_octets_per_key: u64,
    setkey: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> i32,
    encrypt_blocks: usize,
    decrypt_blocks: usize,
    ctr_xor: usize,
    ctr_xor_batch: Option<unsafe extern "C" fn(*const c_void, *mut Packet, usize)>,
}

/// `struct ravelin_ctr`: one packet of a batch.
#[repr(C)]
struct Packet {
    counter: [u8; 16],
    data: *mut u8,
    len: usize,
}

/// Packets of a batch.
const BATCH: usize = 16;
const TURNS: usize = 15;
const ROUNDS: usize = 20_000;

/// The memory of a key, aligned as a cipher may ask for.
#[repr(align(64))]
struct Context([u8; 16384]);

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|word| word == "trial") {
        cipher_loader::trial::child_main();
    }
    let manifest = PathBuf::from(arguments.get(1).expect("overhead MANIFEST"));
    let trial = Trial::own(["trial"]);
    let request = Request { manifest: manifest.clone(), sha256: None, trust: Trust::Caller, trial };
    let loaded = load(&request).unwrap_or_else(|error| panic!("{error}"));
    let secret: Vec<u8> = (0..loaded.cipher.description().key_len).map(|octet| octet as u8).collect();
    let Ok(CustomKey::Block(key)) = loaded.cipher.set_key(&secret) else { panic!("no block cipher") };

    let library = manifest.parent().unwrap().join(&loaded.manifest.library.file);
    // SAFETY: the library has passed its trial; its constructors may run once more.
    let library = unsafe { Library::new(library) }.unwrap();
    // SAFETY: the header gives the symbol this type, and the description lives as long as the library.
    let description: &Description = unsafe {
        let describe =
            library.get::<unsafe extern "C" fn(u32) -> *const Description>(b"ravelin_cipher_v1").unwrap();
        &*describe(0)
    };
    let batch = description.ctr_xor_batch.expect("a cipher with ctr_xor_batch");
    let mut context = Box::new(Context([0; 16384]));
    assert!(description.ctx_size as usize <= context.0.len() && description.ctx_align <= 64);
    let context_at = context.0.as_mut_ptr().cast::<c_void>();
    // SAFETY: the context is as long and as aligned as the description asks for.
    assert_eq!(unsafe { (description.setkey)(context_at, secret.as_ptr(), secret.len()) }, 0);

    for len in [0, 64, 1400] {
        let mut data = vec![vec![0; len]; BATCH];
        let mut directly = || {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                let mut packets: [Packet; BATCH] = std::array::from_fn(|at| Packet {
                    counter: [1; 16],
                    data: data[at].as_mut_ptr(),
                    len: data[at].len(),
                });
                // SAFETY: each record names a buffer of its own, and the context has its key.
                unsafe { batch(context_at, packets.as_mut_ptr(), BATCH) };
            }
            start.elapsed().as_nanos() as f64 / (ROUNDS * BATCH) as f64
        };
        let mut more = vec![vec![0; len]; BATCH];
        let mut loaded = || {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                let mut rest = more.iter_mut();
                let mut ops: [CtrOp<'_>; BATCH] =
                    std::array::from_fn(|_| CtrOp { counter: [1; 16], data: rest.next().unwrap() });
                key.ctr_xor_batch(&mut ops).unwrap();
            }
            start.elapsed().as_nanos() as f64 / (ROUNDS * BATCH) as f64
        };
        let mut differences: Vec<f64> = (0..TURNS)
            .map(|turn| {
                let (first, second) = if turn % 2 == 0 {
                    let direct = directly();
                    (direct, loaded())
                } else {
                    let through = loaded();
                    (directly(), through)
                };
                second - first
            })
            .collect();
        differences.sort_by(f64::total_cmp);
        println!("figure abi.{len}.ns {:.2} ns", differences[TURNS / 2]);
    }
}
