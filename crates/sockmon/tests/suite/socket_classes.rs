//! The sockets of outer packets by class (docs/design/0042): a datagram waits in the socket of its association's class, and
//! its flood takes no place of another. Needs root.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use sockmon::{QueueShare, QueueTable, QueuedSockets, SaName, SocketSplit};
use wire::AggregateId;

use crate::common::*;

const URGENT: AggregateId = AggregateId(1);
const BULK: AggregateId = AggregateId(2);
/// A class that the graph does not have.
const OTHER_CLASS: AggregateId = AggregateId(9);

const PORT: u16 = 4500;
/// The type of service of expedited packets (DSCP 46).
const EXPEDITED: u8 = 46 << 2;

/// An option that takes a number.
fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) {
    // SAFETY: the option reads a number of this length.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), 4) };
    assert_eq!(done, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// A socket of the port, as the daemon opens it.
fn open(is_v6: bool) -> UdpSocket {
    let family = if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let fd = socket(family, SocketType::DGRAM, None).unwrap();
    set_socket_reuseport(&fd, true).unwrap();
    if is_v6 {
        set_ipv6_v6only(&fd, true).unwrap();
    }
    let address: SocketAddr =
        if is_v6 { format!("[::]:{PORT}") } else { format!("0.0.0.0:{PORT}") }.parse().unwrap();
    bind(&fd, &address).unwrap();
    let socket = UdpSocket::from(fd);
    socket.set_nonblocking(true).unwrap();
    socket
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
    world: World,
    sockets: [Vec<UdpSocket>; 2],
    table: QueueTable,
}

impl Receiver {
    /// A receiver with so many sockets of each family. Behind them is one that only sends and was bound second, as in the
    /// daemon.
    fn new(name: &str, split: SocketSplit, queues: usize) -> Receiver {
        let mut world = World::new(name);
        world.attach();
        let sockets = [false, true].map(|is_v6| {
            world.alice.run(move || {
                let first = open(is_v6);
                let sends = open(is_v6);
                let mut all = vec![first];
                all.extend((1..queues).map(|_| open(is_v6)));
                all.push(sends);
                all
            })
        });
        let table = world.monitor(move |sockmon| sockmon.split_sockets(Some(&split), SPLIT_KEY).unwrap());
        let mut receiver = Receiver { world, sockets, table };
        receiver.put(queues);
        let sockmon = receiver.world.sockmon.as_ref().unwrap();
        let number = |program: BorrowedFd<'_>| program.as_raw_fd();
        let choice = number(sockmon.socket_choice().unwrap());
        let filter = number(sockmon.socket_filter().unwrap());
        for sockets in &receiver.sockets {
            set(sockets[0].as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, choice);
            for socket in &sockets[..queues] {
                set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_BPF, filter);
            }
        }
        receiver
    }

    /// Give the queues to the first so many sockets.
    fn put(&mut self, queues: usize) {
        let fds = |sockets: &[UdpSocket]| -> Vec<OwnedFd> {
            sockets[..queues].iter().map(|socket| socket.try_clone().unwrap().into()).collect()
        };
        let (v4, v6) = (fds(&self.sockets[0]), fds(&self.sockets[1]));
        self.world.monitor(move |sockmon| {
            let udp = [v4, v6];
            let udp = udp.each_ref().map(|sockets| sockets.iter().map(AsFd::as_fd).collect());
            sockmon.put_sockets(&QueuedSockets { udp, ..QueuedSockets::default() }).unwrap();
        });
    }

    /// Make known an association from Bob to Alice in each family, with this SPI and class.
    fn associate(&mut self, spi: u32, class: AggregateId) {
        for source in [BOB, BOB6] {
            let sa = SaName { spi, source: Some(source.parse().unwrap()) };
            self.world.monitor(move |sockmon| sockmon.set_sa_class(sa, class).unwrap());
        }
    }

    /// Take what has come to each socket of a family, when so many datagrams have.
    fn take(&self, is_v6: bool, count: usize) -> Vec<usize> {
        let sockets = &self.sockets[usize::from(is_v6)];
        let mut taken = vec![0; sockets.len()];
        let begun = Instant::now();
        while taken.iter().sum::<usize>() < count {
            assert!(begun.elapsed() < SOON, "{taken:?} of {count} datagrams came");
            for (socket, taken) in sockets.iter().zip(&mut taken) {
                let mut octets = [0; 2000];
                while socket.recv(&mut octets).is_ok() {
                    *taken += 1;
                }
            }
            std::thread::yield_now();
        }
        taken
    }
}

/// Bob sends these datagrams to Alice from a port.
fn send(world: &World, is_v6: bool, tos: u8, datagrams: Vec<Vec<u8>>) {
    world.bob.run(move || {
        let (own, peer) = if is_v6 { (BOB6, ALICE6) } else { (BOB, ALICE) };
        let socket = UdpSocket::bind((own, 0)).unwrap();
        match is_v6 {
            true => set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos.into()),
            false => set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_TOS, tos.into()),
        }
        for datagram in datagrams {
            socket.send_to(&datagram, (peer, PORT)).unwrap();
        }
    });
}

/// A datagram of an association.
fn esp(spi: u32) -> Vec<u8> {
    [&spi.to_be_bytes()[..], &[7; 96]].concat()
}

#[test]
fn a_datagram_waits_in_the_socket_of_its_associations_class() {
    let mut alice = Receiver::new("socket-classes", split([100; 3]), 3);
    alice.associate(0x1001, URGENT);
    alice.associate(0x1002, BULK);
    alice.associate(0x1003, AggregateId::DEFAULT);
    alice.associate(0x1004, OTHER_CLASS);
    // An association of another sender; one of anybody.
    let stranger = SaName { spi: 0x1005, source: Some("203.0.113.9".parse().unwrap()) };
    let anybody = SaName { spi: 0x1006, source: None };
    alice.world.monitor(move |sockmon| {
        sockmon.set_sa_class(stranger, URGENT).unwrap();
        sockmon.set_sa_class(anybody, URGENT).unwrap();
    });
    let cases = [
        // The association says so, whatever the outer header has.
        (0, esp(0x1001), [1, 0, 0]),
        (EXPEDITED, esp(0x1002), [0, 1, 0]),
        // Without a class of its own, and with one that the graph does not have, the outer header says it.
        (0, esp(0x1003), [0, 1, 0]),
        (EXPEDITED, esp(0x1003), [1, 0, 0]),
        (EXPEDITED, esp(0x1004), [1, 0, 0]),
        (EXPEDITED | 1, esp(0x1004), [1, 0, 0]),
        (EXPEDITED, esp(0x1006), [1, 0, 0]),
        // What names no association of its sender waits behind the classes, and so do keepalives, IKE and what is short.
        (EXPEDITED, esp(0x1007), [0, 0, 1]),
        (EXPEDITED, esp(0x1005), [0, 0, 1]),
        (EXPEDITED, vec![0xff], [0, 0, 1]),
        (EXPEDITED, esp(0), [0, 0, 1]),
        (EXPEDITED, vec![0, 0, 0x10], [0, 0, 1]),
        (EXPEDITED, Vec::new(), [0, 0, 1]),
    ];
    for is_v6 in [false, true] {
        for (tos, datagram, expected) in &cases {
            send(&alice.world, is_v6, *tos, vec![datagram.clone()]);
            let taken = alice.take(is_v6, 1);
            assert_eq!((&taken[..3], taken[3]), (&expected[..], 0), "IPv6 {is_v6}, {tos}: {datagram:x?}");
        }
    }
    // Each family has its sockets, and a queue both.
    assert_eq!([0, 1, 2].map(|queue| alice.table.counts(queue).arrived), [10, 4, 12]);
    // An association that is gone is a stranger's.
    let gone = SaName { spi: 0x1001, source: Some(BOB.parse().unwrap()) };
    alice.world.monitor(move |sockmon| sockmon.forget_sa_class(gone).unwrap());
    send(&alice.world, false, 0, vec![esp(0x1001)]);
    assert_eq!(alice.take(false, 1), [0, 0, 1, 0]);
    // All at once: those of the next graph, and no others.
    let kept = SaName { spi: 0x1002, source: Some(BOB.parse().unwrap()) };
    alice.world.monitor(move |sockmon| sockmon.set_sa_classes(&[(kept, URGENT)].into()).unwrap());
    send(&alice.world, false, 0, vec![esp(0x1002), esp(0x1003)]);
    assert_eq!(alice.take(false, 2), [1, 0, 1, 0]);
}

#[test]
fn a_flood_of_one_class_or_of_strangers_takes_no_place_of_another() {
    let mut alice = Receiver::new("socket-flood", split([16, 8, 4]), 3);
    alice.associate(0x2001, URGENT);
    alice.associate(0x2002, BULK);
    for is_v6 in [false, true] {
        send(&alice.world, is_v6, 0, vec![esp(0x2002); 20]);
        send(&alice.world, is_v6, EXPEDITED, vec![esp(0x9999); 20]);
        send(&alice.world, is_v6, 0, vec![esp(0x2001); 5]);
    }
    // A queue is of both families together, so its limit is.
    let begun = Instant::now();
    while [0, 1, 2].map(|queue| alice.table.counts(queue).arrived) != [10, 40, 40] {
        assert!(begun.elapsed() < SOON, "{:?}", alice.table.counts(1));
    }
    let lost = [0, 1, 2].map(|queue| alice.table.counts(queue).lost);
    assert_eq!(lost, [0, 32, 36]);
    assert_eq!(alice.world.counter("socket_queue_full"), 68);
    assert_eq!(alice.take(false, 17), [5, 8, 4, 0]);
    assert_eq!(alice.take(true, 5), [5, 0, 0, 0]);
    // What was taken makes room.
    alice.table.take(1, 8);
    send(&alice.world, true, 0, vec![esp(0x2002); 3]);
    assert_eq!(alice.take(true, 3), [0, 3, 0, 0]);
    let bulk = alice.table.counts(1);
    assert_eq!((bulk.arrived, bulk.lost, bulk.taken, bulk.waiting()), (43, 32, 8, 3));
}

#[test]
fn a_run_of_joined_datagrams_goes_where_its_first_one_does_and_counts_as_many_as_it_has() {
    let mut alice = Receiver::new("socket-runs", split([16, 40, 8]), 3);
    alice.associate(0x3001, URGENT);
    alice.associate(0x3002, BULK);
    let run = |datagrams: Vec<Vec<u8>>, alice: &Receiver| {
        alice.world.bob.run(move || {
            let socket = UdpSocket::bind((BOB, 0)).unwrap();
            set(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, datagrams[0].len() as i32);
            socket.send_to(&datagrams.concat(), (ALICE, PORT)).unwrap();
        });
    };
    // The kernel cuts it for a socket that does not ask for joined ones, and gives all of it to this socket.
    let mixed = || [vec![esp(0x3002)], vec![esp(0x3001); 9]].concat();
    run(mixed(), &alice);
    assert_eq!(alice.take(false, 10), [0, 10, 0, 0]);
    assert_eq!((alice.table.counts(0).arrived, alice.table.counts(1).arrived), (0, 10));
    alice.table.take(1, 10);
    // In one piece it counts as many too. One that is longer than the limit is taken by an empty queue, and by no other.
    alice.sockets[0].iter().for_each(|socket| set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1));
    run(vec![esp(0x3002); 48], &alice);
    run(vec![esp(0x3002)], &alice);
    assert_eq!(alice.take(false, 1), [0, 1, 0, 0]);
    let bulk = alice.table.counts(1);
    assert_eq!((bulk.arrived, bulk.lost, bulk.waiting()), (59, 1, 48));
}

#[test]
fn senders_are_spread_over_the_sockets_of_their_class_and_each_stays_in_one() {
    let mut shares = [None; 64];
    shares[usize::from(BULK.0)] = Some(QueueShare { first: 0, count: 4 });
    let split = SocketSplit { limits: vec![100; 4], strangers: 9, of_dscp: [BULK; 64], shares };
    let mut alice = Receiver::new("socket-users", split, 5);
    let addresses: Vec<String> = (0..24).map(|host| format!("10.99.0.{}", 200 + host)).collect();
    let commands: Vec<String> = addresses.iter().map(|own| format!("ip addr add {own}/24 dev up1")).collect();
    alice.world.bob.run_sh(commands.join("\n"));
    let mut used = [0; 4];
    for own in addresses {
        let sa = SaName { spi: 0x4001, source: Some(own.parse().unwrap()) };
        alice.world.monitor(move |sockmon| sockmon.set_sa_class(sa, AggregateId::DEFAULT).unwrap());
        alice.world.bob.run(move || {
            for _ in 0..3 {
                UdpSocket::bind((own.as_str(), 0)).unwrap().send_to(&esp(0x4001), (ALICE, PORT)).unwrap();
            }
        });
        let taken = alice.take(false, 3);
        assert!(taken[4..] == [0, 0] && taken.contains(&3), "{taken:?}");
        used.iter_mut().zip(taken).for_each(|(sum, datagrams)| *sum += datagrams);
    }
    // A key that is fixed: the hash of each address is known to be even enough.
    assert!(used.iter().all(|datagrams| *datagrams > 0), "{used:?}");
}

#[test]
fn without_a_split_everything_is_in_the_first_socket_and_nothing_is_counted() {
    let mut alice = Receiver::new("socket-none", split([1; 3]), 3);
    let table = alice.world.monitor(|sockmon| sockmon.split_sockets(None, [0; 6]).unwrap());
    alice.associate(0x5001, BULK);
    send(&alice.world, false, 0, [vec![esp(0x5001); 9], vec![esp(0x9999); 9]].concat());
    assert_eq!(alice.take(false, 18), [18, 0, 0, 0]);
    assert_eq!(table.counts(0), sockmon::QueueCounts::default());
}

#[test]
fn sockets_change_places_and_keep_what_waits() {
    let mut alice = Receiver::new("socket-places", split([100; 3]), 3);
    alice.associate(0x6001, BULK);
    send(&alice.world, false, 0, vec![esp(0x6001); 4]);
    // The same once more changes nothing.
    alice.put(3);
    alice.sockets.iter_mut().for_each(|sockets| sockets.swap(0, 1));
    alice.put(3);
    send(&alice.world, false, 0, vec![esp(0x6001); 2]);
    assert_eq!(alice.take(false, 6), [4, 2, 0, 0]);
    // A socket that has no queue any more gets nothing; what would go there goes to the first one.
    alice.put(1);
    send(&alice.world, false, 0, vec![esp(0x6001); 3]);
    assert_eq!(alice.take(false, 3), [3, 0, 0, 0]);
}
