//! Raw sockets for bare ESP and AH by class (docs/design/0042): each packet is taken by the one socket of its class, as far
//! as that has room. Needs root.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrAny, SocketType, recv, sendto, socket,
};
use sockmon::{QueueShare, QueueTable, QueuedSockets, SaName, SocketSplit};
use wire::AggregateId;

use crate::common::*;

const URGENT: AggregateId = AggregateId(1);
const BULK: AggregateId = AggregateId(2);
/// The type of service of expedited packets (DSCP 46).
const EXPEDITED: i32 = 46 << 2;
const ESP: u32 = 50;
const AH: u32 = 51;

/// A raw socket for packets of this protocol.
fn open(is_v6: bool, protocol: u32) -> OwnedFd {
    let family = if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let protocol = Protocol::from_raw(protocol.try_into().unwrap());
    let fd = socket(family, SocketType::RAW, Some(protocol)).unwrap();
    rustix::io::ioctl_fionbio(&fd, true).unwrap();
    fd
}

fn set(socket: &OwnedFd, level: i32, option: i32, value: i32) {
    // SAFETY: the option reads a number of this length.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), 4) };
    assert_eq!(done, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// The kinds of raw sockets.
const KINDS: [(bool, u32); 4] = [(false, ESP), (true, ESP), (false, AH), (true, AH)];

/// Alice's sockets of each kind, by queue.
struct Receiver {
    world: World,
    sockets: Vec<Vec<OwnedFd>>,
    table: QueueTable,
}

/// A receiver with queue 0 for urgent packets (by DSCP 46 or their association), queue 1 for bulk, queue 2 for strangers.
fn receiver(name: &str, limits: [u32; 3]) -> Receiver {
    let mut world = World::new(name);
    world.attach();
    let sockets: Vec<Vec<OwnedFd>> = KINDS
        .iter()
        .map(|(is_v6, protocol)| world.alice.run(|| (0..3).map(|_| open(*is_v6, *protocol)).collect()))
        .collect();
    let mut of_dscp = [BULK; 64];
    of_dscp[46] = URGENT;
    let mut shares = [None; 64];
    for (at, class) in (0..).zip([URGENT, BULK]) {
        shares[usize::from(class.0)] = Some(QueueShare { first: at, count: 1 });
    }
    let split = SocketSplit { limits: limits[..2].to_vec(), strangers: limits[2], of_dscp, shares };
    let sockmon = world.sockmon();
    let table = sockmon.split_sockets(Some(&split), [0; 6]).unwrap();
    let of = |kinds: [usize; 2]| {
        let queues = |kind: usize| (0..).zip(&sockets[kind]).map(|(queue, fd)| (fd.as_fd(), queue));
        kinds.into_iter().flat_map(queues).collect()
    };
    let all = QueuedSockets { esp: of([0, 1]), ah: of([2, 3]), ..QueuedSockets::default() };
    sockmon.put_sockets(&all).unwrap();
    let filter = sockmon.raw_filter().unwrap().as_raw_fd();
    sockets.iter().flatten().for_each(|fd| set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, filter));
    for (spi, class) in [(0x1001, URGENT), (0x1002, BULK), (0x1003, AggregateId::DEFAULT)] {
        for source in [BOB, BOB6] {
            let sa = SaName { spi, source: Some(source.parse().unwrap()) };
            sockmon.set_sa_class(sa, class).unwrap();
        }
    }
    Receiver { world, sockets, table }
}

impl Receiver {
    /// Bob sends so many packets of a kind.
    fn send(&self, kind: usize, tos: i32, spi: u32, count: usize) {
        let (is_v6, protocol) = KINDS[kind];
        let spi = spi.to_be_bytes();
        let payload = if protocol == AH { [&[17, 4, 0, 0][..], &spi].concat() } else { spi.to_vec() };
        self.world.bob.run(move || {
            let fd = open(is_v6, protocol);
            match is_v6 {
                true => set(&fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos),
                false => set(&fd, libc::IPPROTO_IP, libc::IP_TOS, tos),
            }
            let to: IpAddr = if is_v6 { ALICE6 } else { ALICE }.parse().unwrap();
            let to = SocketAddrAny::from(std::net::SocketAddr::new(to, 0));
            let packet = [payload, vec![7; 60]].concat();
            for _ in 0..count {
                sendto(&fd, &packet, SendFlags::empty(), &to).unwrap();
            }
        });
    }

    /// Take what has come to each socket of a kind, when so many packets have.
    fn take(&self, kind: usize, count: usize) -> Vec<usize> {
        let mut taken = vec![0; 3];
        let begun = Instant::now();
        while taken.iter().sum::<usize>() < count {
            assert!(begun.elapsed() < SOON, "{taken:?} of {count} packets came");
            for (fd, taken) in self.sockets[kind].iter().zip(&mut taken) {
                while recv(fd, &mut [0u8; 200][..], RecvFlags::empty()).is_ok() {
                    *taken += 1;
                }
            }
            std::thread::yield_now();
        }
        taken
    }
}

#[test]
fn a_bare_packet_is_taken_by_the_one_socket_of_its_class() {
    let alice = receiver("raw-classes", [100; 3]);
    let cases = [
        (0, 0x1001, [1, 0, 0]),
        (EXPEDITED, 0x1002, [0, 1, 0]),
        (0, 0x1003, [0, 1, 0]),
        (EXPEDITED, 0x1003, [1, 0, 0]),
        (EXPEDITED, 0x9999, [0, 0, 1]),
    ];
    for kind in 0..KINDS.len() {
        for (tos, spi, expected) in cases {
            alice.send(kind, tos, spi, 1);
            assert_eq!(alice.take(kind, 1), expected, "kind {kind}, {tos}, {spi:#x}");
        }
    }
    assert_eq!([0, 1, 2].map(|queue| alice.table.counts(queue).arrived), [8, 8, 4]);
}

#[test]
fn a_flood_of_one_class_of_bare_packets_takes_no_place_of_another() {
    let alice = receiver("raw-flood", [16, 8, 4]);
    for kind in 0..KINDS.len() {
        alice.send(kind, 0, 0x1002, 10);
        alice.send(kind, EXPEDITED, 0x9999, 10);
        alice.send(kind, 0, 0x1001, 4);
    }
    // A queue is of all kinds together, and so is its limit.
    assert_eq!(alice.take(0, 16), [4, 8, 4]);
    for kind in 1..KINDS.len() {
        assert_eq!(alice.take(kind, 4), [4, 0, 0], "kind {kind}");
    }
    let lost = [0, 1, 2].map(|queue| alice.table.counts(queue).lost);
    assert_eq!(lost, [0, 32, 36]);
}
