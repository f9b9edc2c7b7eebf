//! Packets made by hand, as a peer or an attacker would.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn sum(bytes: &[u8], start: u32) -> u32 {
    bytes.chunks(2).fold(start, |acc, pair| {
        acc + u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
    })
}

fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An IP packet around a payload, of the family of the addresses.
pub fn ip(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    fragment(source, destination, protocol, payload, 0, false)
}

/// An IPv4 fragment at `offset` octets.
pub fn fragment(
    source: &str,
    destination: &str,
    protocol: u8,
    payload: &[u8],
    offset: u16,
    more: bool,
) -> Vec<u8> {
    match (source.parse().unwrap(), destination.parse().unwrap()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut packet = vec![0x45, 0];
            packet.extend_from_slice(&(20 + payload.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[0x12, 0x34]);
            packet.extend_from_slice(&((u16::from(more) << 13) | (offset / 8)).to_be_bytes());
            packet.extend_from_slice(&[64, protocol, 0, 0]);
            packet.extend_from_slice(&source.octets());
            packet.extend_from_slice(&destination.octets());
            let check = fold(sum(&packet, 0));
            packet[10..12].copy_from_slice(&check.to_be_bytes());
            packet.extend_from_slice(payload);
            packet
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend_from_slice(&(payload.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[protocol, 64]);
            packet.extend_from_slice(&source.octets());
            packet.extend_from_slice(&destination.octets());
            packet.extend_from_slice(payload);
            packet
        }
        _ => panic!("two families"),
    }
}

fn pseudo(source: &str, destination: &str, protocol: u8, len: usize) -> u32 {
    let octets = |text: &str| match text.parse().unwrap() {
        IpAddr::V4(a) => Ipv4Addr::octets(&a).to_vec(),
        IpAddr::V6(a) => Ipv6Addr::octets(&a).to_vec(),
    };
    sum(&octets(source), sum(&octets(destination), u32::from(protocol) + len as u32))
}

/// A UDP header and payload with its checksum.
pub fn udp_datagram(source: (&str, u16), destination: (&str, u16), payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend_from_slice(&source.1.to_be_bytes());
    datagram.extend_from_slice(&destination.1.to_be_bytes());
    datagram.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    datagram.extend_from_slice(&[0, 0]);
    datagram.extend_from_slice(payload);
    let check = fold(sum(&datagram, pseudo(source.0, destination.0, 17, datagram.len())));
    datagram[6..8].copy_from_slice(&check.to_be_bytes());
    datagram
}

pub fn udp(source: (&str, u16), destination: (&str, u16), payload: &[u8]) -> Vec<u8> {
    ip(source.0, destination.0, 17, &udp_datagram(source, destination, payload))
}

/// A bare TCP segment.
pub fn tcp(
    source: (&str, u16),
    destination: (&str, u16),
    sequence: u32,
    acknowledge: u32,
    flags: u8,
) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend_from_slice(&source.1.to_be_bytes());
    segment.extend_from_slice(&destination.1.to_be_bytes());
    segment.extend_from_slice(&sequence.to_be_bytes());
    segment.extend_from_slice(&acknowledge.to_be_bytes());
    segment.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    let check = fold(sum(&segment, pseudo(source.0, destination.0, 6, segment.len())));
    segment[16..18].copy_from_slice(&check.to_be_bytes());
    ip(source.0, destination.0, 6, &segment)
}

pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// An ICMP error that quotes `quoted`, in the family of the addresses; `word` is the second 32-bit word (the MTU).
pub fn icmp_error(from: &str, to: &str, kind: u8, code: u8, word: u32, quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&word.to_be_bytes());
    message.extend_from_slice(quoted);
    let v6 = from.contains(':');
    let start = if v6 { pseudo(from, to, 58, message.len()) } else { 0 };
    let check = fold(sum(&message, start));
    message[2..4].copy_from_slice(&check.to_be_bytes());
    ip(from, to, if v6 { 58 } else { 1 }, &message)
}

pub struct Ports {
    pub source: u16,
    pub destination: u16,
}

/// Protocol and ports of a packet without extension headers.
pub fn transport(packet: &[u8]) -> (u8, Ports) {
    let (protocol, at) = match packet[0] >> 4 {
        4 => (packet[9], usize::from(packet[0] & 15) * 4),
        _ => (packet[6], 40),
    };
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (protocol, Ports { source: word(at), destination: word(at + 2) })
}

/// TCP sequence number, acknowledgement number and flags of an IPv4 packet without options.
pub fn tcp_numbers(packet: &[u8]) -> (u32, u32, u8) {
    let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
    (word(24), word(28), packet[33])
}

/// Send a whole IP packet from the calling thread's network namespace.
pub fn send_raw(packet: &[u8]) {
    send_from(c"up1", packet);
}

/// Send a whole IP packet on this device of the calling thread's network namespace.
pub fn send_from(device: &std::ffi::CStr, packet: &[u8]) {
    send_as(device, [2, 0, 0, 0, 0, 0x0a], ethertype(packet), packet);
}

/// Send a whole IP packet to a station, behind so many priority tags (IEEE 802.1Q, VLAN 0).
pub fn send_tagged(device: &std::ffi::CStr, station: [u8; 6], packet: &[u8], tags: usize) {
    let types = [vec![0x8100; tags], vec![ethertype(packet)]].concat();
    let mut payload: Vec<u8> = Vec::new();
    for next in &types[1..] {
        payload.extend([0, 0]);
        payload.extend(next.to_be_bytes());
    }
    payload.extend(packet);
    send_as(device, station, types[0], &payload);
}

fn ethertype(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }
}

fn send_as(device: &std::ffi::CStr, station: [u8; 6], ethertype: u16, packet: &[u8]) {
    // SAFETY: zeroes are a sockaddr_ll.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_protocol = ethertype.to_be();
    // SAFETY: a C string.
    to.sll_ifindex = unsafe { libc::if_nametoindex(device.as_ptr()) } as i32;
    to.sll_halen = 6;
    to.sll_addr[..6].copy_from_slice(&station);
    // SAFETY: the buffers have the lengths that are passed; the descriptor is closed again.
    let sent = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0);
        let sent = libc::sendto(
            fd,
            packet.as_ptr().cast(),
            packet.len(),
            0,
            (&raw const to).cast(),
            size_of_val(&to) as libc::socklen_t,
        );
        libc::close(fd);
        sent
    };
    assert_eq!(sent, packet.len() as isize, "{}", std::io::Error::last_os_error());
}

/// A packet socket on a device of the calling thread's namespace that counts frames with IPv4, IPv6 or the type of experiments.
pub fn listen_on(device: &std::ffi::CStr) -> std::os::fd::OwnedFd {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    // SAFETY: no pointer is passed.
    let fd =
        unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, (libc::ETH_P_ALL as u16).to_be().into()) };
    assert!(fd >= 0, "these tests need root: AF_PACKET failed");
    // SAFETY: the kernel has just returned it to us.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: zeroes are a sockaddr_ll; a C string; the address has the length that is passed.
    unsafe {
        let mut at: libc::sockaddr_ll = std::mem::zeroed();
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        at.sll_ifindex = libc::if_nametoindex(device.as_ptr()) as i32;
        let len = size_of_val(&at) as libc::socklen_t;
        assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const at).cast(), len), 0);
    }
    socket
}

/// How many frames for bob's station it has got by now.
pub fn heard(socket: &std::os::fd::OwnedFd) -> u32 {
    use std::os::fd::AsRawFd;
    let mut count = 0;
    let mut frame = [0u8; 2048];
    let until = std::time::Instant::now() + super::NEVER;
    while std::time::Instant::now() < until {
        // SAFETY: the buffer has the length that is passed.
        let n = unsafe {
            libc::recv(socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if n < 0 {
            super::breathe();
        } else if frame[..6] == [2, 0, 0, 0, 0, 0x0b] {
            count += 1;
        }
    }
    count
}
