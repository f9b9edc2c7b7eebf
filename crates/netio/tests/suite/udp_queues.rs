//! Several UDP sockets of a port that receive, as queues: their order over a hand-over, what waits in those that are given
//! up, and joined datagrams. Needs root.

use crate::common;

use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use common::{LEFT, RIGHT, namespaces};
use netio::clock;
use netio::netns::Netns;
use netio::udp::{Family, MAX_DATAGRAM, UdpOptions, UdpTransport};
use wire::{Burst, Pool, stage};

const LIMIT: Duration = Duration::from_secs(5);

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pool() -> Pool {
    Pool::new(MAX_DATAGRAM, 0, 32)
}

/// Give every datagram to the socket that was bound as this one, counted from 0: a classic BPF program.
fn give_all_to(socket: BorrowedFd<'_>, number: u32) {
    let code = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut program = [libc::sock_filter { code, jt: 0, jf: 0, k: number }];
    let program = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    // SAFETY: the option reads a sock_fprog, which lives for the call with its program.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    assert_eq!(done, 0);
}

/// Wait until something comes to a queue. Returns the payloads.
fn receive(transport: &mut UdpTransport, family: Family, queue: usize) -> Vec<Vec<u8>> {
    let (mut out, begun, mut pool) = (Vec::new(), Instant::now(), pool());
    while out.is_empty() {
        assert!(begun.elapsed() < LIMIT, "nothing came to queue {queue}");
        transport.recv_bursts_of((family, queue), 8, clock::monotonic(), &mut pool, &mut out).unwrap();
    }
    out.iter().flat_map(Burst::datagrams).map(<[u8]>::to_vec).collect()
}

/// Wait until a datagram waits in a queue of each family. The first ones wait for their neighbour, and those of a busy
/// machine for a soft interrupt.
fn wait_for(transport: &UdpTransport, queue: usize) {
    for family in [Family::V4, Family::V6] {
        let fd = transport.queue_fds(family)[queue].as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: the call reads and writes one pollfd, which lives for it.
        let ready = unsafe { libc::poll(&raw mut poll, 1, LIMIT.as_millis() as libc::c_int) };
        assert_eq!(ready, 1, "nothing came to queue {queue} of {family:?}");
    }
}

fn send(peer: &Netns, number: u8) {
    let [v4, v6] = [(RIGHT.0, LEFT.0), (RIGHT.1, LEFT.1)]
        .map(|(own, to)| (peer.run(|| UdpSocket::bind((addr(own), 0))).unwrap().unwrap(), (addr(to), 4500)));
    for (socket, to) in [v4, v6] {
        socket.send_to(&[number; 20], to).unwrap();
    }
}

#[test]
fn queues_keep_their_order_and_what_waits_over_a_hand_over() {
    let (left, right) = namespaces("nt-udpqueue", 1500);
    let mut old = left.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    assert_eq!(old.queues(), 1);
    let given_up = left.run(|| old.set_queues(3)).unwrap().unwrap();
    assert!(given_up.is_empty() && old.queues() == 3);
    // The sockets of each family are the first queue, the one that fragments, and the further queues.
    for (number, queue) in [(0, 0), (2, 1), (3, 2)] {
        [Family::V4, Family::V6].iter().for_each(|family| give_all_to(old.fd(*family).unwrap(), number));
        send(&right, queue);
        wait_for(&old, queue.into());
    }
    let fds: Vec<_> = old.fds().iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    assert_eq!(fds.len(), 8);
    drop(old);
    let copies = || fds.iter().map(|fd| fd.try_clone().unwrap()).collect::<Vec<_>>();
    let refused = UdpTransport::from_fds(copies(), 2).unwrap_err().to_string();
    assert!(refused.contains("3 IPv4 sockets that receive"), "{refused}");
    let mut heir = UdpTransport::from_fds(copies(), 3).unwrap();
    drop(fds);
    for family in [Family::V4, Family::V6] {
        assert_eq!(heir.queue_fds(family).len(), 3);
        assert_eq!(receive(&mut heir, family, 0), [[0; 20]]);
        assert_eq!(receive(&mut heir, family, 1), [[1; 20]]);
    }
    // What waits in queues that are given up is read, and nothing comes to them any more.
    assert!(heir.clone().set_queues(1).is_err(), "another thread may read them");
    heir.give_all_to_the_first().unwrap();
    let mut given_up = heir.set_queues(1).unwrap();
    assert_eq!((given_up.len(), heir.queues(), heir.fds().len()), (4, 1, 4));
    let (mut out, mut pool) = (Vec::new(), pool());
    while given_up.recv_bursts(clock::monotonic(), &mut pool, &mut out).unwrap() {}
    assert_eq!(out.iter().map(|burst| burst.bytes().to_vec()).collect::<Vec<_>>(), [[2; 20]; 2]);
    assert!(given_up.is_empty());
    send(&right, 9);
    assert_eq!(receive(&mut heir, Family::V4, 0), [[9; 20]]);
    assert_eq!(receive(&mut heir, Family::V6, 0), [[9; 20]]);
}

/// Turn a device's offload on or off (SIOCETHTOOL).
fn offload(device: &str, command: u32, on: bool) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut value = [command, on.into()];
    let mut request = [0u8; 40];
    request[..device.len()].copy_from_slice(device.as_bytes());
    request[16..24].copy_from_slice(&(value.as_mut_ptr() as usize).to_ne_bytes());
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // SAFETY: the buffer is a struct ifreq whose pointer leads to a struct ethtool_value, both of which live for the call.
    assert_eq!(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, request.as_mut_ptr()) }, 0, "{device}");
}

/// The number of datagrams in the longest run of each of sixteen flows.
fn longest_runs(right: &Netns, transport: &mut UdpTransport) -> Vec<usize> {
    let mut longest = Vec::new();
    for port in 6000..6016 {
        let peer = right.run(|| UdpSocket::bind((addr(RIGHT.0), port)).unwrap()).unwrap();
        let stride: libc::c_int = 200;
        // SAFETY: the option reads a number of this length.
        let set = unsafe {
            libc::setsockopt(
                peer.as_fd().as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw const stride).cast(),
                size_of_val(&stride) as libc::socklen_t,
            )
        };
        assert_eq!(set, 0);
        peer.send_to(&[7; 20 * 200], (addr(LEFT.0), 4500)).unwrap();
        let mut bursts: Vec<Burst<stage::Raw>> = Vec::new();
        let (begun, mut pool) = (Instant::now(), pool());
        while bursts.iter().map(Burst::count).sum::<usize>() < 20 {
            assert!(begun.elapsed() < LIMIT, "{} bursts came", bursts.len());
            transport.recv_bursts(Family::V4, clock::monotonic(), &mut pool, &mut bursts).unwrap();
        }
        longest.push(bursts.iter().map(Burst::count).max().unwrap());
    }
    longest
}

/// The kernel asks the socket that the flow's hash gives whether to join datagrams, so each socket of the port has to
/// want it.
#[test]
fn datagrams_of_every_flow_are_joined_or_of_none() {
    let (left, right) = namespaces("nt-udpjoin", 1500);
    // The sender's kernel cuts each run, and the receiver's sees datagrams, as from a network.
    right.run(|| ["ip link set eth0 gso_max_segs 1"].map(sh)).unwrap();
    right.run(|| offload("eth0", 0x1f, false)).unwrap();
    left.run(|| offload("eth0", 0x2c, true)).unwrap();
    let mut transport = left.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    transport.join_datagrams(true).unwrap();
    let longest = longest_runs(&right, &mut transport);
    assert!(longest.iter().all(|run| *run > 1), "{longest:?}");
    transport.join_datagrams(false).unwrap();
    let longest = longest_runs(&right, &mut transport);
    assert!(longest.iter().all(|run| *run == 1), "{longest:?}");
}

fn sh(command: &str) {
    let done = std::process::Command::new("sh").args(["-ec", command]).status().unwrap();
    assert!(done.success(), "{command}");
}
