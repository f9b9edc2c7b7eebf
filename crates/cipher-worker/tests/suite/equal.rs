//! A worker makes the packets of a library in this process, in every mode of every kind of cipher.

use std::sync::Arc;

use cipher_manifest::vectors;
use crypto::custom::{CtrOp, CustomCipher, CustomKey, SetKeyError, StreamOp};

use crate::flow_lab::{eight_folder, folder};
use crate::lab::Folder;
use crate::start::{Packet, Worker, batch, key, open, provider, seal, settings, until};

/// The packets of some suites of a cipher, from both.
fn same_packets(folder: &Folder, longest: usize) {
    let loaded = folder.load().unwrap_or_else(|error| panic!("{error}"));
    let worker = Worker::start(folder, settings());
    assert_eq!(vectors::run(&loaded.vectors, &*worker.cipher).unwrap(), loaded.counts);
    let (here, suites) = provider(loaded.cipher);
    let (there, _) = provider(worker.cipher.clone());
    assert_eq!(here.behaviour(), there.behaviour());
    let kept = |name: &str| !name.contains('-') || name.ends_with("sha256") || name.ends_with("aes256gcm");
    let suites: Vec<_> = suites.into_iter().filter(|suite| kept(&suite.to_string())).collect();
    assert!(!suites.is_empty());
    for suite in suites {
        let (ours, theirs, receiver) = (key(&here, suite), key(&there, suite), key(&there, suite));
        for first in [1, 17, 33, 49, 1000, 5000, 5016] {
            let plain = batch(suite, first, longest);
            let (mut want, mut got) = (plain.clone(), plain.clone());
            seal(&*ours, &mut want).unwrap();
            seal(&*theirs, &mut got).unwrap_or_else(|_| panic!("{suite}: {:?}", worker.cipher.report()));
            assert_eq!(got, want, "{suite}");
            // A forged packet in the middle of the batch, and out of order.
            let last = got[5].icv.len() - 1;
            got[5].icv[last] ^= 1;
            got.swap(2, 9);
            let genuine = open(&*receiver, &mut got).unwrap();
            for (packet, genuine) in got.iter().zip(genuine) {
                let at = (packet.sequence - first) as usize;
                assert_eq!(genuine, at != 5, "{suite}");
                assert!(!genuine || packet.data == plain[at].data, "{suite}");
            }
        }
    }
    let report = worker.cipher.report();
    assert_eq!((report.failed, report.restarts, report.last), (0, 0, None));
}

#[test]
fn a_block_cipher_makes_the_same_packets_with_and_without_modes_of_its_own() {
    same_packets(&Folder::with(&[]), 1400);
    same_packets(&Folder::with(&["-DCTR=12"]), 1400);
}

#[test]
fn blocks_of_8_octets_make_the_same_packets() {
    same_packets(&eight_folder(), 1400);
}

#[test]
fn a_stream_cipher_makes_the_same_packets() {
    same_packets(&folder(false, &[]), 1400);
}

#[test]
fn a_combined_mode_makes_the_same_packets() {
    same_packets(&folder(true, &[]), 1400);
    same_packets(&folder(true, &["-DBATCH=1", "-DFLAGS=3"]), 1400);
}

#[test]
fn packets_that_fill_lanes_are_the_same() {
    // 16 packets of up to 64 KiB need several batches, and no ring has room for them.
    same_packets(&Folder::with(&[]), 65_520);
    same_packets(&folder(true, &[]), 65_520);
}

#[test]
fn data_longer_than_a_lane_goes_in_pieces() {
    let folder = Folder::with(&[]);
    let loaded = folder.load().unwrap();
    let worker = Worker::start(&folder, settings());
    let plain: Vec<u8> = (0..700_003u32).map(|at| (at % 251) as u8).collect();
    let made = [&*loaded.cipher as &dyn CustomCipher, &*worker.cipher].map(|cipher| {
        let Ok(CustomKey::Block(key)) = cipher.set_key(&[5; 32]) else { panic!("no key") };
        let (mut blocks, mut stream, mut short) = (plain.clone(), plain.clone(), [9; 40]);
        key.encrypt_blocks(&mut blocks).unwrap();
        let mut other = [7; 300];
        key.ctr_xor_batch(&mut [
            CtrOp { counter: [0xff; 16], data: &mut short },
            CtrOp { counter: [0xfe; 16], data: &mut stream },
            CtrOp { counter: [0xfd; 16], data: &mut [] },
            CtrOp { counter: [0xfc; 16], data: &mut other },
        ])
        .unwrap();
        let mut back = blocks.clone();
        key.decrypt_blocks(&mut back).unwrap();
        assert_eq!(back, plain);
        (blocks, stream, short, other)
    });
    assert_eq!(made[0], made[1]);
    let folder = crate::flow_lab::folder(false, &[]);
    let loaded = folder.load().unwrap();
    let worker = Worker::start(&folder, settings());
    let made = [&*loaded.cipher as &dyn CustomCipher, &*worker.cipher].map(|cipher| {
        let Ok(CustomKey::Stream(key)) = cipher.set_key(&[5; 32]) else { panic!("no key") };
        let mut data = plain.clone();
        key.xor_batch(&mut [StreamOp { nonce: &[1; 12], offset: 77, data: &mut data }]).unwrap();
        data
    });
    assert_eq!(made[0], made[1]);
}

#[test]
fn key_stream_is_there_ahead_for_both_directions_and_any_order() {
    for folder in [Folder::with(&["-DCTR=12"]), folder(false, &[])] {
        let worker = Worker::start(&folder, settings());
        let (provider, suites) = provider(worker.cipher.clone());
        let suite = *suites.iter().find(|suite| suite.to_string().ends_with("-sha256")).unwrap();
        let (outbound, inbound) = (key(&provider, suite), key(&provider, suite));
        // What the look at its behaviour took.
        let before = worker.cipher.report().called;
        // The first batch makes a series known.
        let mut packets: Vec<Packet> = (1..9).map(|number| Packet::new(suite, number, 1400)).collect();
        seal(&*outbound, &mut packets).unwrap();
        open(&*inbound, &mut packets).unwrap();
        for first in (9..2009).step_by(8) {
            let number = |at: u64| first + (at * 3) % 8;
            let mut packets: Vec<Packet> = (0..8).map(|at| Packet::new(suite, number(at), 1400)).collect();
            let plain = packets.clone();
            // The worker is given the time that it needs; how fast it is is no matter here.
            std::thread::sleep(std::time::Duration::from_millis(u64::from(first < 100)));
            seal(&*outbound, &mut packets).unwrap();
            packets.reverse();
            assert!(open(&*inbound, &mut packets).unwrap().iter().all(|ok| *ok));
            packets.reverse();
            assert!(packets.iter().zip(&plain).all(|(got, want)| got.data == want.data));
        }
        let report = worker.cipher.report();
        assert!(report.ahead > 2000, "{report:?}");
        assert_eq!((report.ahead + report.called - before, report.failed), (2 * 2008, 0));
    }
}

#[test]
fn keys_come_and_go_beyond_the_room_that_there_is() {
    let folder = Folder::with(&[]);
    let worker = Worker::start(&folder, settings());
    let mut held = Vec::new();
    for number in 0..40u8 {
        match worker.cipher.set_key(&[number; 32]) {
            Ok(CustomKey::Block(key)) => held.push(key),
            Ok(_) => panic!("another kind"),
            // Eight fit.
            Err(error) => {
                assert_eq!(error, SetKeyError::NoRoom(8));
                assert_eq!(held.len(), 8);
                held.clear();
            }
        }
    }
    held.clear();
    let cipher: Arc<dyn CustomCipher> = worker.cipher.clone();
    for length in [0, 16, 31, 33, 128, 1000] {
        assert_eq!(cipher.set_key(&vec![1; length]).err(), Some(SetKeyError::Length));
    }
    until("all keys are free", || {
        let all: Vec<_> = (0..8).map(|_| cipher.set_key(&[1; 32])).collect();
        all.iter().all(Result::is_ok)
    });
    assert_eq!(worker.cipher.report().failed, 0);
}

#[test]
fn a_weak_key_is_refused_as_weak() {
    let folder = Folder::with(&["-DIN_SETKEY=if(key[0]==7)return RAVELIN_CIPHER_WEAK_KEY"]);
    let worker = Worker::start(&folder, settings());
    assert_eq!(worker.cipher.set_key(&[7; 32]).err(), Some(SetKeyError::Weak));
    assert!(worker.cipher.set_key(&[8; 32]).is_ok());
}
