//! Bursts: slots, limits, and what adapters get that know whole packets only.

use proptest::prelude::*;
use std::net::IpAddr;
use wire::burst::{MAX_DATAGRAMS, MAX_LEN_V4, MAX_LEN_V6};
use wire::ip::Headers;
use wire::udp::Udp;
use wire::{Buf, Burst, OuterHeader, Pool, Time, checksum, stage};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

fn header(v6: bool) -> OuterHeader {
    let (src, dst) = if v6 { ("2001:db8::1", "2001:db8::2") } else { ("192.0.2.1", "192.0.2.2") };
    OuterHeader {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        src_port: 4500,
        dst_port: 4501,
        tos: 0xb9,
        ttl: 61,
        may_fragment: false,
    }
}

fn begin(v6: bool, stride: usize) -> Burst<stage::Scheduled> {
    Burst::begin(&Placed, Buf::with_capacity(70_000, 100), header(v6), stride).unwrap()
}

/// Add a datagram of `len` octets, all of them `value`.
fn add(burst: &mut Burst<stage::Scheduled>, len: usize, value: u8) -> bool {
    match burst.next_slot(len) {
        Some(slot) => {
            slot.fill(value);
            assert_eq!(slot.len(), len);
            assert!(burst.commit(len));
            true
        }
        None => {
            assert!(!burst.commit(len));
            false
        }
    }
}

#[test]
fn a_shorter_datagram_is_the_last() {
    let mut burst = begin(false, 100);
    assert!(burst.is_empty() && !burst.is_full());
    assert!(!add(&mut burst, 0, 0) && !add(&mut burst, 101, 0));
    assert!(add(&mut burst, 100, 1) && add(&mut burst, 100, 2) && add(&mut burst, 99, 3));
    assert!(burst.is_full() && !add(&mut burst, 99, 4));
    let lens: Vec<_> = burst.datagrams().map(|d| (d.len(), d[0])).collect();
    assert_eq!(lens, [(100, 1), (100, 2), (99, 3)]);
    assert_eq!((burst.stride(), burst.count(), burst.bytes().len()), (100, 3, 299));
    let burst: Burst<stage::Outer> = burst.advance(&Placed);
    assert_eq!(burst.into_buf().headroom(), 100);
}

#[test]
fn a_slot_that_is_not_committed_never_was() {
    let mut burst = begin(false, 100);
    burst.next_slot(100).unwrap().fill(9);
    burst.next_slot(50).unwrap().fill(1);
    assert!(burst.is_empty());
    assert!(burst.commit(50));
    assert_eq!(burst.bytes(), [1; 50]);
    // Alone, it is a burst of one whose stride is its length.
    assert_eq!((burst.stride(), burst.count()), (50, 1));
}

#[test]
fn the_limits_are_those_of_the_kernel() {
    let fill = |v6, stride| {
        let mut burst = begin(v6, stride);
        while add(&mut burst, stride, 7) {}
        assert!(burst.is_full());
        (burst.count(), burst)
    };
    assert_eq!(fill(false, 100).0, MAX_DATAGRAMS);
    assert_eq!(fill(false, MAX_LEN_V4).0, 1);
    assert_eq!(fill(true, MAX_LEN_V6).0, 1);
    assert_eq!(fill(false, 1472).0, 65_507 / 1472);
    assert_eq!(fill(true, 1452).0, 65_487 / 1452);
    // What is left is too little for a full one, but a last short one may still come.
    let (_, mut burst) = fill(false, 1472);
    assert!(add(&mut burst, 65_507 - 44 * 1472, 8) && !add(&mut burst, 1, 8));

    let refused =
        |capacity, header, stride| Burst::begin(&Placed, Buf::with_capacity(capacity, 0), header, stride);
    assert!(refused(100, header(false), 101).is_none());
    assert!(refused(100, header(false), 0).is_none());
    assert!(refused(70_000, header(false), MAX_LEN_V4 + 1).is_none());
    assert!(refused(70_000, header(true), MAX_LEN_V6 + 1).is_none());
    let mixed = OuterHeader { dst: header(true).dst, ..header(false) };
    assert!(refused(100, mixed, 10).is_none());
    assert!(Burst::raw(Buf::with_capacity(9, 0), mixed, 0, Time(0)).is_none());
    // No room in the buffer.
    let mut small = refused(250, header(false), 100).unwrap();
    assert!(add(&mut small, 100, 1) && add(&mut small, 100, 1) && small.is_full());
}

#[test]
fn what_was_received_is_opened_in_place() {
    let raw = |len: usize, stride| {
        let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
        Burst::raw(Buf::from_slice(&bytes, 0, 0), header(true), stride, Time(5)).unwrap()
    };
    let lens = |len, stride| raw(len, stride).datagrams_mut().map(|d| d.len()).collect::<Vec<_>>();
    assert_eq!(lens(250, 100), [100, 100, 50]);
    assert_eq!(lens(200, 100), [100, 100]);
    // The kernel says no stride, or one that is no use: one datagram.
    assert_eq!(lens(250, 0), [250]);
    assert_eq!(lens(250, 251), [250]);
    assert_eq!(lens(0, 0), [0; 0]);
    assert_eq!((raw(0, 0).count(), raw(250, 100).count(), raw(250, 251).stride()), (1, 3, 250));
    let mut burst = raw(250, 100);
    burst.datagrams_mut().for_each(|d| d[0] = 0xee);
    assert_eq!([0, 100, 200].map(|at| burst.bytes()[at]), [0xee; 3]);
    assert_eq!(burst.meta.received, Time(5));
}

#[test]
fn room_in_front_of_each_datagram_is_made_or_nothing_changes() {
    let bytes: Vec<u8> = (0..250).map(|i| i as u8).collect();
    let raw = || Burst::raw(Buf::from_slice(&bytes, 0, 0), header(true), 100, Time(5)).unwrap();
    let mut pool = Pool::new(250 + 3 * 8, 20, 2);
    let mut burst = raw().spread(8, &mut pool).unwrap();
    assert_eq!((burst.stride(), burst.lead(), burst.count(), burst.bytes().len()), (108, 8, 3, 274));
    let all: Vec<u8> = burst.datagrams().flat_map(|datagram| &datagram[8..]).copied().collect();
    assert_eq!(all, bytes);
    assert_eq!(burst.datagrams_mut().map(|datagram| datagram.len()).collect::<Vec<_>>(), [108, 108, 58]);
    // Less than there is already; none; more than the buffers hold.
    assert_eq!(burst.spread(4, &mut pool).unwrap().lead(), 8);
    assert_eq!(raw().spread(0, &mut pool).unwrap().bytes(), bytes);
    let allocated = pool.allocated();
    let burst = raw().spread(9, &mut pool).unwrap_err();
    assert_eq!((burst.bytes(), burst.stride(), burst.lead()), (&bytes[..], 100, 0));
    raw().spread(9, &mut pool).unwrap_err();
    assert!(pool.allocated() <= allocated + 1, "the buffer went back");
}

#[test]
fn buffers_go_round() {
    let mut pool = Pool::new(70_000, 0, 4);
    let mut singles = Pool::new(2000, 48, 4);
    for _ in 0..100 {
        let mut burst = Burst::begin(&Placed, pool.take(), header(false), 1000).unwrap();
        while add(&mut burst, 1000, 1) {}
        let burst: Burst<stage::Outer> = burst.advance(&Placed);
        let mut kept = None;
        // One at a time: each goes back before the next is made, but for the borrow that the iterator holds.
        for packet in burst.packets(&mut singles) {
            kept = Some(packet.unwrap().into_buf());
        }
        singles.put(kept.unwrap());
        pool.put(burst.into_buf());
    }
    assert_eq!(pool.allocated(), 1);
}

proptest! {
    /// Whole packets carry what the burst says, with right lengths and checksums, in order.
    #[test]
    fn packets_are_the_datagrams_with_headers(
        v6: bool, may_fragment: bool, stride in 1..1500usize, full in 0..64usize, last in 0..1500usize, first: u64,
    ) {
        let mut burst = begin(v6, stride);
        for i in 0..full {
            if !add(&mut burst, stride, i as u8) {
                break;
            }
        }
        add(&mut burst, last.min(stride), 0xff);
        burst.header.may_fragment = may_fragment;
        (burst.meta.sequence, burst.meta.spi) = (first, 77);
        let burst: Burst<stage::Outer> = burst.advance(&Placed);
        let mut pool = Pool::new(3000, 48, 0);
        let packets: Vec<_> = burst.packets(&mut pool).map(Result::unwrap).collect();
        prop_assert_eq!(packets.len(), burst.count());
        for (i, (packet, datagram)) in packets.iter().zip(burst.datagrams()).enumerate() {
            let headers = Headers::parse(packet.bytes()).unwrap();
            let udp = Udp::new_checked(headers.upper(packet.bytes())).unwrap();
            prop_assert_eq!(udp.payload(), datagram);
            prop_assert_eq!((udp.src_port(), udp.dst_port()), (4500, 4501));
            let ends: (IpAddr, IpAddr) = (headers.src, headers.dst);
            prop_assert_eq!(ends, (burst.header.src, burst.header.dst));
            prop_assert_eq!((headers.tos, headers.ttl, headers.dont_fragment), (0xb9, 61, v6 || !may_fragment));
            prop_assert!(wire::ip::checksum_ok(packet.bytes(), &headers));
            prop_assert_eq!(checksum::verify_transport(packet.bytes(), &headers), Some(true));
            prop_assert_eq!((packet.meta.sequence, packet.meta.spi), (first.wrapping_add(i as u64), 77));
            prop_assert_eq!(packet.meta.may_fragment, may_fragment);
        }
    }
}
