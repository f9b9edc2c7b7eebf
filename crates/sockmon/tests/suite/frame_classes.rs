//! The sockets of frames by class (docs/design/0042), packet sockets and those of AF_XDP: an outer packet waits in the socket
//! of its association's class, and its flood takes no place of another. Needs root.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Instant;

use netio::packet::{FrameDevice, FrameReceiver, Frames};
use netio::{clock, xdp};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketAddrAny, SocketType, sendto, socket};
use sockmon::{FrameSteering, QueueShare, QueueTable, SaName, SocketSplit};
use wire::{AggregateId, Pool, eth};

use crate::common::*;

const URGENT: AggregateId = AggregateId(1);
const BULK: AggregateId = AggregateId(2);

const PORT: u16 = 4500;
/// The type of service of expedited packets (DSCP 46).
const EXPEDITED: u8 = 46 << 2;
const ESP: u8 = 50;
const AH: u8 = 51;

/// The kind of the sockets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FrameKind {
    Packet,
    Xdp,
}

/// A split with queue 0 for urgent packets (by DSCP 46 or their association), queue 1 for bulk, queue 2 for strangers.
fn split(limits: [u32; 3]) -> SocketSplit {
    let mut of_dscp = [BULK; 64];
    of_dscp[46] = URGENT;
    let mut shares = [None; 64];
    for (at, class) in (0..).zip([URGENT, BULK]) {
        shares[usize::from(class.0)] = Some(QueueShare { first: at, count: 1 });
    }
    SocketSplit { limits: limits[..2].to_vec(), strangers: limits[2], of_dscp, shares }
}

/// Alice's sockets by queue, with the counts of their queues.
struct Receiver {
    _steering: Option<FrameSteering>,
    frames: FrameReceiver,
    table: QueueTable,
    world: World,
}

impl Receiver {
    fn new(name: &str, kind: FrameKind, split: SocketSplit, queues: usize) -> Receiver {
        let mut world = World::new(name);
        world.attach();
        let uplink = world.uplink;
        let frames = world.alice.run(move || {
            let device = FrameDevice::of(uplink).unwrap();
            match kind {
                FrameKind::Packet => FrameReceiver::open(&device, PORT, queues).unwrap(),
                FrameKind::Xdp => FrameReceiver::over(xdp::open(&device, queues).unwrap().0, PORT),
            }
        });
        let (frames, table, steering) = world.monitor(move |sockmon| {
            sockmon.set_frame_port(PORT).unwrap();
            let table = sockmon.split_sockets(Some(&split), SPLIT_KEY).unwrap();
            let steering = (kind == FrameKind::Xdp).then(|| {
                let sockets: Vec<_> = (0..queues).map(|queue| frames.queue_fd(queue).unwrap()).collect();
                sockmon.steer_frames(uplink, &sockets).unwrap()
            });
            frames.choose_by(sockmon.frame_choice().unwrap()).unwrap();
            (frames, table, steering)
        });
        Receiver { _steering: steering, frames, table, world }
    }

    /// Make known an association from Bob to Alice in each family, with this SPI and class.
    fn associate(&mut self, spi: u32, class: AggregateId) {
        for source in [BOB, BOB6] {
            let sa = SaName { spi, source: Some(source.parse().unwrap()) };
            self.world.monitor(move |sockmon| sockmon.set_sa_class(sa, class).unwrap());
        }
    }

    /// Take what has come to each socket, when so many packets have. They are counted as taken.
    fn take(&mut self, count: usize) -> Vec<usize> {
        let mut pool = Pool::new(70_000 + eth::HEADER_LEN, 0, 16);
        let mut taken = vec![0; self.frames.queues()];
        let begun = Instant::now();
        while taken.iter().sum::<usize>() < count {
            assert!(begun.elapsed() < SOON, "{taken:?} of {count} packets came");
            for (queue, taken) in taken.iter_mut().enumerate() {
                let mut more = true;
                while more {
                    let mut out = Frames::default();
                    let received = self.frames.recv_of(
                        (queue, 64),
                        clock::monotonic(),
                        &mut pool,
                        &mut out,
                        &mut |_| {},
                    );
                    let received = received.unwrap();
                    *taken += received.packets;
                    self.table.take(queue, received.packets as u64);
                    more = received.more;
                }
            }
            std::thread::yield_now();
        }
        taken
    }

    /// Wait until these have arrived, by queue.
    fn wait_for(&self, arrived: &[u64]) {
        let begun = Instant::now();
        let counts =
            || -> Vec<u64> { (0..arrived.len()).map(|queue| self.table.counts(queue).arrived).collect() };
        while counts() != arrived {
            assert!(begun.elapsed() < SOON, "{:?}", counts());
            std::thread::yield_now();
        }
    }
}

fn set(socket: &impl AsRawFd, level: i32, option: i32, value: i32) {
    // SAFETY: the option reads a number of this length.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), 4) };
    assert_eq!(done, 0, "option {option}: {}", std::io::Error::last_os_error());
}

fn mark(socket: &impl AsRawFd, is_v6: bool, tos: u8) {
    match is_v6 {
        true => set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos.into()),
        false => set(socket, libc::IPPROTO_IP, libc::IP_TOS, tos.into()),
    }
}

/// Bob sends these datagrams to Alice.
fn send(world: &World, is_v6: bool, tos: u8, datagrams: Vec<Vec<u8>>) {
    world.bob.run(move || {
        let (own, peer) = if is_v6 { (BOB6, ALICE6) } else { (BOB, ALICE) };
        let socket = UdpSocket::bind((own, 0)).unwrap();
        mark(&socket, is_v6, tos);
        for datagram in datagrams {
            socket.send_to(&datagram, (peer, PORT)).unwrap();
        }
    });
}

/// Bob sends a bare packet of ESP or AH to Alice.
fn send_bare(world: &World, is_v6: bool, tos: u8, protocol: u8, spi: u32) {
    world.bob.run(move || {
        let family = if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let kind = Protocol::from_raw(u32::from(protocol).try_into().unwrap());
        let fd = socket(family, SocketType::RAW, Some(kind)).unwrap();
        mark(&fd, is_v6, tos);
        let to = if is_v6 { ALICE6 } else { ALICE };
        let to = SocketAddrAny::from(SocketAddr::new(to.parse().unwrap(), 0));
        let head: &[u8] = if protocol == AH { &[17, 4, 0, 0] } else { &[] };
        let packet = [head, &spi.to_be_bytes(), &[7; 60]].concat();
        sendto(&fd, &packet, SendFlags::empty(), &to).unwrap();
    });
}

/// A datagram of an association.
fn esp(spi: u32) -> Vec<u8> {
    [&spi.to_be_bytes()[..], &[7; 96]].concat()
}

/// Each packet of a kind is in the socket of its class.
fn goes_by_class(name: &str, kind: FrameKind) {
    let mut alice = Receiver::new(name, kind, split([100; 3]), 3);
    alice.associate(0x1001, URGENT);
    alice.associate(0x1002, BULK);
    alice.associate(0x1003, AggregateId::DEFAULT);
    let cases = [
        // The association says so, whatever the outer header has.
        (0, esp(0x1001), [1, 0, 0]),
        (EXPEDITED, esp(0x1002), [0, 1, 0]),
        // Without a class of its own the outer header says it.
        (0, esp(0x1003), [0, 1, 0]),
        (EXPEDITED | 1, esp(0x1003), [1, 0, 0]),
        // What names no association waits behind the classes, and so do keepalives, IKE, what is short and fragments.
        (EXPEDITED, esp(0x1007), [0, 0, 1]),
        (EXPEDITED, vec![0xff], [0, 0, 1]),
        (EXPEDITED, esp(0), [0, 0, 1]),
        (EXPEDITED, vec![0, 0, 0x10], [0, 0, 1]),
        (EXPEDITED, [esp(0x1001), vec![7; 2000]].concat(), [0, 0, 2]),
    ];
    for is_v6 in [false, true] {
        for (tos, datagram, expected) in &cases {
            send(&alice.world, is_v6, *tos, vec![datagram.clone()]);
            let taken = alice.take(expected.iter().sum());
            assert_eq!(
                taken,
                expected,
                "{kind:?}, IPv6 {is_v6}, {tos}: {:x?}",
                &datagram[..datagram.len().min(4)]
            );
        }
        for protocol in [ESP, AH] {
            for (tos, spi, expected) in
                [(0, 0x1001, [1, 0, 0]), (EXPEDITED, 0x1003, [1, 0, 0]), (EXPEDITED, 0x1007, [0, 0, 1])]
            {
                send_bare(&alice.world, is_v6, tos, protocol, spi);
                assert_eq!(alice.take(1), expected, "{kind:?}, IPv6 {is_v6}, {protocol}: {spi:x}");
            }
        }
    }
    let counts = [0, 1, 2].map(|queue| alice.table.counts(queue));
    assert_eq!(counts.map(|queue| (queue.arrived, queue.taken)), [(12, 12), (4, 4), (16, 16)]);
}

/// A flood is kept to the limit of its queue, which holds for both families together.
fn floods_keep_to_their_queues(name: &str, kind: FrameKind) {
    let mut alice = Receiver::new(name, kind, split([16, 8, 4]), 3);
    alice.associate(0x2001, URGENT);
    alice.associate(0x2002, BULK);
    for is_v6 in [false, true] {
        send(&alice.world, is_v6, 0, vec![esp(0x2002); 20]);
        send(&alice.world, is_v6, EXPEDITED, vec![esp(0x9999); 20]);
        send(&alice.world, is_v6, 0, vec![esp(0x2001); 5]);
    }
    alice.wait_for(&[10, 40, 40]);
    assert_eq!([0, 1, 2].map(|queue| alice.table.counts(queue).lost), [0, 32, 36]);
    assert_eq!(alice.world.counter("socket_queue_full"), 68);
    assert_eq!(alice.take(22), [10, 8, 4]);
    // What was taken makes room.
    send(&alice.world, true, 0, vec![esp(0x2002); 3]);
    assert_eq!(alice.take(3), [0, 3, 0]);
    let bulk = alice.table.counts(1);
    assert_eq!((bulk.arrived, bulk.lost, bulk.taken, bulk.waiting()), (43, 32, 11, 0));
}

#[test]
fn a_frame_waits_in_the_packet_socket_of_its_associations_class() {
    goes_by_class("frame-classes", FrameKind::Packet);
}

#[test]
fn a_frame_waits_in_the_af_xdp_socket_of_its_associations_class() {
    goes_by_class("frame-xdp-classes", FrameKind::Xdp);
}

#[test]
fn a_flood_of_frames_of_one_class_or_of_strangers_takes_no_place_of_another() {
    floods_keep_to_their_queues("frame-flood", FrameKind::Packet);
}

#[test]
fn a_flood_of_one_class_or_of_strangers_takes_no_place_of_another_in_af_xdp() {
    floods_keep_to_their_queues("frame-xdp-flood", FrameKind::Xdp);
}

#[test]
fn a_super_packet_goes_where_its_first_datagram_does_and_counts_as_many_as_it_has() {
    let mut alice = Receiver::new("frame-runs", FrameKind::Packet, split([16, 40, 8]), 3);
    alice.associate(0x3001, URGENT);
    alice.associate(0x3002, BULK);
    let run = |datagrams: Vec<Vec<u8>>, alice: &Receiver| {
        alice.world.bob.run(move || {
            let socket = UdpSocket::bind((BOB, 0)).unwrap();
            set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, datagrams[0].len() as i32);
            socket.send_to(&datagrams.concat(), (ALICE, PORT)).unwrap();
        });
    };
    run([vec![esp(0x3002)], vec![esp(0x3001); 9]].concat(), &alice);
    assert_eq!(alice.take(10), [0, 10, 0]);
    assert_eq!((alice.table.counts(0).arrived, alice.table.counts(1).arrived), (0, 10));
    // One that is longer than the limit is taken by an empty queue, and by no other.
    run(vec![esp(0x3002); 48], &alice);
    run(vec![esp(0x3002)], &alice);
    alice.wait_for(&[0, 59, 0]);
    assert_eq!(alice.take(48), [0, 48, 0]);
    let bulk = alice.table.counts(1);
    assert_eq!((bulk.arrived, bulk.lost, bulk.taken), (59, 1, 58));
}

#[test]
fn full_rx_rings_of_af_xdp_leave_chunks_for_another_class() {
    const FLOODS: u32 = 4;
    let mut shares = [None; 64];
    for (queue, class) in (0..).zip(1..=FLOODS + 1) {
        shares[class as usize] = Some(QueueShare { first: queue, count: 1 });
    }
    // No limit is reached, so the rings are.
    let split = SocketSplit { limits: vec![100_000; 5], strangers: 9, of_dscp: [URGENT; 64], shares };
    let mut alice = Receiver::new("frame-xdp-rings", FrameKind::Xdp, split, 6);
    let class = |class: u32| AggregateId(class as u8);
    (1..=FLOODS + 1).for_each(|number| alice.associate(0x7000 + number, class(number)));
    for flood in 2..=FLOODS + 1 {
        send(&alice.world, false, 0, vec![esp(0x7000 + flood); 1100]);
    }
    alice.wait_for(&[0, 1100, 1100, 1100, 1100]);
    send(&alice.world, false, 0, vec![esp(0x7001); 200]);
    alice.wait_for(&[200]);
    let ring = alice.frames.most().unwrap() as usize;
    assert_eq!(alice.take(200 + 4 * ring), [200, ring, ring, ring, ring, 0]);
    assert_eq!(alice.frames.lost() as usize, 4 * (1100 - ring));
}

#[test]
fn packet_sockets_keep_their_places_when_the_device_comes_back() {
    let mut alice = Receiver::new("frame-down", FrameKind::Packet, split([100; 3]), 3);
    alice.associate(0x8001, URGENT);
    alice.associate(0x8002, BULK);
    alice.world.alice.sh("ip link set up0 down; ip link set up0 up");
    alice.world.bob.run(|| lab::wait_for_carrier("up1").unwrap());
    // Each socket says once that the device was down.
    let mut pool = Pool::new(70_000 + eth::HEADER_LEN, 0, 16);
    for queue in 0..3 {
        let error = alice.frames.recv_of(
            (queue, 1),
            clock::monotonic(),
            &mut pool,
            &mut Frames::default(),
            &mut |_| {},
        );
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::ENETDOWN));
    }
    for (spi, expected) in [(0x8001, [1, 0, 0]), (0x8002, [0, 1, 0]), (0x8003, [0, 0, 1])] {
        send(&alice.world, false, 0, vec![esp(spi)]);
        assert_eq!(alice.take(1), expected, "{spi:x}");
    }
}
