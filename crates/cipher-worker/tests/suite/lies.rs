//! What a hostile worker writes into its memory.

use std::sync::atomic::Ordering;

use cipher_worker::{Isolated, layout};
use proptest::prelude::*;

/// Eight octets that packets are made of, to be found where plaintext is left.
pub const MARK: [u8; 8] = *b"PLAINTXT";

/// One thing that a hostile worker writes.
#[derive(Clone, Debug)]
pub enum Lie {
    /// A word of its head.
    Head(usize, u32),
    /// The reply of a lane, so many requests ahead of the last one.
    Reply(usize, u32),
    /// The status of a lane.
    Status(usize, u32),
    /// The results of a lane.
    Results(usize, u32),
    /// Octets of a lane's data.
    Data(usize, usize, Vec<u8>),
    /// A whole lane of one octet.
    Fill(usize, u8),
    /// The head of a place, with the generation that the host asks for and another number.
    Place { key: usize, number: u64, off: u64, len: u32, generation: i32 },
    /// Octets in a place.
    Stream { key: usize, number: u64, octets: Vec<u8> },
}

/// Any of the lies, by chance.
pub fn lie() -> impl Strategy<Value = Lie> {
    let lane = 0..layout::LANES;
    let key = 0..4usize;
    let word = prop_oneof![0..5u32, any::<u32>()];
    // A packet of a batch begins at 0, and the marks that it is made of lie at multiples of 8.
    let at = prop_oneof![Just(0), 0..8192usize];
    let octets = prop_oneof![
        Just(vec![0; 512]),
        Just(MARK.repeat(64)),
        proptest::collection::vec(any::<u8>(), 1..600),
    ];
    prop_oneof![
        (prop_oneof![Just(0), Just(4), Just(8), Just(64)], word.clone())
            .prop_map(|(at, word)| Lie::Head(at, word)),
        (lane.clone(), 0..6u32).prop_map(|(lane, ahead)| Lie::Reply(lane, ahead)),
        (lane.clone(), word.clone()).prop_map(|(lane, word)| Lie::Status(lane, word)),
        (lane.clone(), word).prop_map(|(lane, word)| Lie::Results(lane, word)),
        (lane.clone(), at, octets.clone()).prop_map(|(lane, at, octets)| Lie::Data(lane, at, octets)),
        (lane, any::<u8>()).prop_map(|(lane, octet)| Lie::Fill(lane, octet)),
        (key.clone(), 30..80u64, 0..3u64, prop_oneof![0..1500u32, any::<u32>()], -1..2i32)
            .prop_map(|(key, number, off, len, generation)| Lie::Place { key, number, off, len, generation }),
        (key, 30..80u64, octets).prop_map(|(key, number, octets)| Lie::Stream { key, number, octets }),
    ]
}

/// Write it, for numbers from `base` on.
pub fn tell(isolated: &Isolated, lie: &Lie, base: u64) {
    let (host, worker) = (isolated.host_memory(), isolated.worker_memory());
    let relaxed = Ordering::Relaxed;
    match lie {
        Lie::Head(at, value) => worker.word(*at).unwrap().store(*value, relaxed),
        Lie::Reply(lane, ahead) => {
            let at = layout::lane(*lane);
            let request = host.word(at + layout::lane::REQUEST).unwrap().load(relaxed);
            worker.word(at + layout::lane::REPLY).unwrap().store(request.wrapping_add(*ahead), relaxed);
        }
        Lie::Status(lane, value) => {
            worker.word(layout::lane(*lane) + layout::lane::STATUS).unwrap().store(*value, relaxed);
        }
        Lie::Results(lane, value) => {
            let at = layout::lane(*lane) + layout::lane::RESULTS;
            (0..layout::ENTRIES)
                .for_each(|entry| worker.word(at + 4 * entry).unwrap().store(*value, relaxed));
        }
        Lie::Data(lane, at, octets) => worker.put(layout::lane_data(*lane) + at, octets).unwrap(),
        Lie::Fill(lane, octet) => worker.put(layout::lane_data(*lane), &vec![*octet; 16384]).unwrap(),
        Lie::Place { key, number, off, len, generation } => {
            let number = number + base;
            let at = layout::place(*key, number);
            let asked = host.word(layout::record(*key)).unwrap().load(relaxed);
            let generation = asked.wrapping_add_signed(*generation);
            worker.word(at + layout::place::GENERATION).unwrap().store(generation, relaxed);
            worker.word(at + layout::place::LEN).unwrap().store(*len, relaxed);
            let number = number + off * layout::PLACES as u64;
            worker.long(at + layout::place::NUMBER).unwrap().store(number, relaxed);
        }
        Lie::Stream { key, number, octets } => {
            worker.put(layout::place(*key, number + base) + layout::PLACE_HEAD, octets).unwrap();
        }
    }
}
