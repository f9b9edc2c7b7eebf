//! What is left in the shared memories: no key, and no key stream of a key or a worker that is gone.

use std::sync::atomic::Ordering;

use cipher_worker::{Event, Memory, layout};
use crypto::custom::{CtrOp, CustomCipher, CustomKey};

use crate::lab::Folder;
use crate::start::{Worker, settings, until};

fn all(memory: &Memory) -> Vec<u8> {
    let mut octets = vec![0; memory.len()];
    memory.take(0, &mut octets).unwrap();
    octets
}

/// Use a series of numbers, so that there is a ring.
fn fill(key: &dyn crypto::custom::BlockKey, from: u64) {
    for number in from..from + 20 {
        let mut counter = [0; 16];
        counter[4..12].copy_from_slice(&number.to_be_bytes());
        key.ctr_xor_batch(&mut [CtrOp { counter, data: &mut [0x5a; 600] }]).unwrap();
    }
}

/// Places of all rings that have key stream.
fn places(worker: &Worker) -> usize {
    let memory = worker.cipher.worker_memory();
    let all =
        (0..settings().keys).flat_map(|key| (0..layout::PLACES as u64).map(move |n| layout::place(key, n)));
    all.filter(|at| memory.word(*at).unwrap().load(Ordering::Relaxed) != 0).count()
}

#[test]
fn a_key_stays_in_no_shared_memory() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let octets: Vec<u8> = (100..132).collect();
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&octets) else { panic!("no key") };
    worker.kill();
    assert!(matches!(worker.event(), Event::Failed(_)));
    // The thread that starts workers gives the key again.
    assert_eq!(worker.event(), Event::Restarted { restarts: 1 });
    // Nothing was asked since, so nothing has taken its place.
    for memory in [worker.cipher.host_memory(), worker.cipher.worker_memory()] {
        assert!(!all(memory).windows(8).any(|window| window == &octets[..8]), "part of the key is there");
    }
    key.encrypt_blocks(&mut [3; 64]).unwrap();
}

#[test]
fn what_packets_left_in_the_lanes_goes_with_the_next_key() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    let mut data = [0x77; 3200];
    key.encrypt_blocks(&mut data).unwrap();
    let is_there =
        |memory: &Memory, part: &[u8]| all(memory).windows(part.len()).any(|window| window == part);
    let (host, made) = (worker.cipher.host_memory(), worker.cipher.worker_memory());
    assert!(
        is_there(host, &[0x77; 16]) && is_there(made, &data[..16]),
        "the test looks at the right memories"
    );
    drop(key);
    until("nothing is left", || !is_there(host, &[0x77; 16]) && !is_there(made, &data[..16]));
}

#[test]
fn key_stream_goes_with_its_key() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    fill(&*key, 1);
    until("there is key stream", || places(&worker) > 100);
    drop(key);
    until("it is gone", || places(&worker) == 0);
    // Known answers and blocks have no ring.
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    for number in [1000, 5, 700_000, 2] {
        let mut counter = [0; 16];
        counter[4..12].copy_from_slice(&u64::to_be_bytes(number));
        key.ctr_xor_batch(&mut [CtrOp { counter, data: &mut [0x5a; 600] }]).unwrap();
        key.encrypt_blocks(&mut [3; 64]).unwrap();
    }
    assert_eq!(places(&worker), 0);
}

#[test]
fn key_stream_goes_with_its_worker() {
    let worker = Worker::start(&Folder::with(&[]), settings());
    let Ok(CustomKey::Block(key)) = worker.cipher.set_key(&[1; 32]) else { panic!("no key") };
    fill(&*key, 1);
    until("there is key stream", || places(&worker) > 100);
    worker.kill();
    assert!(matches!(worker.event(), Event::Failed(_)));
    assert_eq!(worker.event(), Event::Restarted { restarts: 1 });
    assert_eq!(places(&worker), 0);
    fill(&*key, 21);
    until("there is key stream again", || places(&worker) > 100);
    assert_eq!(worker.cipher.report().failed, 0);
}
