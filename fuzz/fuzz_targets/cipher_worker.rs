//! A hostile worker of a cipher of one's own: whatever it has written into its memory, the host neither panics nor leaves
//! plaintext in a packet, and a failed call leaves zeros.
//!
//! The octets are steps: what the worker writes, and calls of the host. The worker has no thread, so a call finds its
//! answer there already or is late at once.
#![no_main]

use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use cipher_worker::{Isolated, Settings, layout};
use crypto::custom::{AeadOp, CbcOp, CtrOp, CustomCipher, CustomDescription, CustomKey, Primitive, StreamOp};
use libfuzzer_sys::fuzz_target;

/// Eight octets that every packet is made of.
const MARK: [u8; 8] = *b"PLAINTXT";

/// A host's half of each kind, with one key.
static HALVES: LazyLock<Vec<(Isolated, CustomKey)>> = LazyLock::new(|| {
    let kinds = [Primitive::Block { block_len: 16 }, Primitive::Stream, Primitive::Aead { tag_len: 16 }];
    let half = |primitive| {
        let description = CustomDescription {
            name: "hostile".to_owned(),
            version: "1".to_owned(),
            vendor: "fuzz".to_owned(),
            primitive,
            key_len: 32,
            max_octets: None,
        };
        let no_time = Duration::ZERO;
        let settings = Settings {
            keys: 1,
            deadline: no_time,
            key_deadline: no_time,
            spin: no_time,
            ..Settings::default()
        };
        let isolated = Isolated::detached(description, settings).expect("memory");
        answer(&isolated, 0, 1);
        let key = isolated.set_key(&[7; 32]).expect("the worker has said yes");
        (isolated, key)
    };
    kinds.into_iter().map(half).collect()
});

fn answer(isolated: &Isolated, lane: usize, ahead: u32) {
    let at = layout::lane(lane);
    let request = isolated.host_memory().word(at + layout::lane::REQUEST).expect("a word").load(Relaxed);
    let reply = isolated.worker_memory().word(at + layout::lane::REPLY).expect("a word");
    reply.store(request.wrapping_add(ahead), Relaxed);
}

/// The octets of the input, one behind the other; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn octet(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.octet(), self.octet(), self.octet(), self.octet()])
    }

    fn some(&mut self) -> Vec<u8> {
        let len = usize::from(self.octet());
        match self.octet() {
            0 => MARK.repeat(len),
            1 => vec![0; 4 * len],
            2 => vec![0xa5; 4 * len],
            _ => (0..len).map(|_| self.octet()).collect(),
        }
    }
}

/// One thing that the worker writes.
fn write(isolated: &Isolated, number: u64, input: &mut Input<'_>) {
    let worker = isolated.worker_memory();
    let place = layout::place(0, number);
    match input.octet() % 6 {
        0 => {
            // Any word of head and control areas.
            let at = usize::try_from(input.word()).unwrap_or(0) % layout::lane_data(0) / 4 * 4;
            worker.word(at).expect("a word").store(input.word(), Relaxed);
        }
        1 => {
            let octets = input.some();
            worker.put(layout::lane_data(0) + usize::from(input.octet()), &octets).expect("a lane");
        }
        2 => {
            let generation = isolated.host_memory().word(layout::record(0)).expect("a word").load(Relaxed);
            let generation = generation.wrapping_add_signed(i32::from(input.octet() as i8) / 64);
            worker.word(place + layout::place::GENERATION).expect("a word").store(generation, Relaxed);
        }
        3 => worker.word(place + layout::place::LEN).expect("a word").store(input.word(), Relaxed),
        4 => {
            let other = number + u64::from(input.octet() / 128) * layout::PLACES as u64;
            worker.long(place + layout::place::NUMBER).expect("a word").store(other, Relaxed);
        }
        _ => {
            let octets = input.some();
            worker.put(place + layout::PLACE_HEAD, &octets).expect("a place");
        }
    }
}

fn hidden(data: &[u8], done: bool) {
    assert!(!data.as_chunks::<8>().0.contains(&MARK), "plaintext");
    assert!(done || data.iter().all(|octet| *octet == 0), "a failed call leaves zeros");
}

fn call(key: &CustomKey, number: u64, input: &mut Input<'_>) {
    let mut nonce = [3; 16];
    nonce[4..12].copy_from_slice(&number.to_be_bytes());
    let mut data = MARK.repeat(usize::from(input.octet()) + 1);
    match key {
        CustomKey::Block(key) => match input.octet() % 4 {
            0 => {
                let done = key.encrypt_blocks(&mut data).is_ok();
                let whole = data.len() / 16 * 16;
                hidden(&data[..whole], done);
            }
            1 => {
                let _ = key.decrypt_blocks(&mut data);
            }
            2 => {
                let done = key.cbc_encrypt_batch(&mut [CbcOp { iv: nonce, data: &mut data }]).is_ok();
                let whole = data.len() / 16 * 16;
                hidden(&data[..whole], done);
            }
            _ => {
                let mut more = MARK;
                let ops = &mut [
                    CtrOp { counter: nonce, data: &mut data },
                    CtrOp { counter: nonce, data: &mut more },
                ];
                let done = key.ctr_xor_batch(ops).is_ok();
                hidden(&data, done);
                hidden(&more, done);
            }
        },
        CustomKey::Stream(key) => {
            let offset = u64::from(input.octet() / 200);
            let done =
                key.xor_batch(&mut [StreamOp { nonce: &nonce[..12], offset, data: &mut data }]).is_ok();
            hidden(&data, done);
        }
        CustomKey::Aead(key) => {
            let mut tag = [0; 16];
            let mut ops =
                [AeadOp { nonce: &nonce[..12], aad: b"header", data: &mut data, tag: &mut tag, ok: false }];
            if input.octet() < 128 {
                let done = key.seal_batch(&mut ops).is_ok();
                hidden(&data, done);
            } else {
                let done = key.open_batch(&mut ops).is_ok();
                let ok = ops[0].ok;
                assert!(done || !ok, "a verdict of a call that failed");
                assert!(ok || data.iter().all(|octet| *octet == 0));
            }
        }
    }
}

fuzz_target!(|octets: &[u8]| {
    let mut input = Input(octets);
    let kind = usize::from(input.octet()) % HALVES.len();
    let (isolated, key) = &HALVES[kind];
    let mut number = u64::from(input.octet()) + 1000;
    while !input.0.is_empty() {
        let step = input.octet();
        isolated.resume();
        answer(isolated, 0, u32::from(step / 16 % 8 != 7));
        for _ in 0..step % 4 {
            write(isolated, number, &mut input);
        }
        call(key, number, &mut input);
        number += u64::from(step / 128);
    }
});
