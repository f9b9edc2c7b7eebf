//! Frames by packet sockets, which say what the sender wants them to say.

use super::{ret, word};
use std::ffi::{CString, c_int};
use std::io;
use std::str::SplitWhitespace;

/// An Ethernet frame for bob: device, the type that the socket's address names, that of the frame (both hexadecimal), and whom
/// the IP packet in it is for. A type of VLAN (8100) has IP behind its tag.
pub fn frame(fd: c_int, words: &mut SplitWhitespace<'_>) -> io::Result<String> {
    frame_behind(fd, &[], words)
}

/// An Ethernet frame as [`frame`] makes it, in which the device is to write a checksum. The first two words say at
/// which octet of the frame begins what the checksum covers, and how many octets behind that it is written.
pub fn summed(fd: c_int, words: &mut SplitWhitespace<'_>) -> io::Result<String> {
    let on: c_int = 1;
    // SAFETY: an int, with its length.
    ret(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, PACKET_VNET_HDR, (&raw const on).cast(), 4) })?;
    let mut number = || word(words).parse::<u16>().expect("a number").to_ne_bytes();
    let (start, offset) = (number(), number());
    // struct virtio_net_hdr, with VIRTIO_NET_HDR_F_NEEDS_CSUM.
    let header = [&[1, 0, 0, 0, 0, 0], &start[..], &offset[..]].concat();
    frame_behind(fd, &header, words)
}

const PACKET_VNET_HDR: c_int = 15;

fn frame_behind(fd: c_int, header: &[u8], words: &mut SplitWhitespace<'_>) -> io::Result<String> {
    let device = word(words);
    let mut kind = || u16::from_str_radix(word(words), 16).expect("a type");
    let (named, real) = (kind(), kind());
    let to: std::net::IpAddr = word(words).parse().expect("an address");
    let mut data = header.to_vec();
    data.extend([2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a]);
    data.extend(real.to_be_bytes());
    if real == 0x8100 {
        // A tag that reads as the beginning of an IPv4 header, if the frame is named that.
        data.extend(if named == 0x0800 { [0x45, 5] } else { [0, 5] });
        data.extend(if to.is_ipv4() { [8, 0] } else { [0x86, 0xdd] });
    }
    // A length: SNAP (RFC 1042), or the service access point of IP (RFC 948).
    match real {
        0x2c => data.extend([0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
        0x27 => data.extend([6, 6, 3]),
        // IPv4 among ISO's protocols (RFC 2427), and a bridged frame behind SNAP (RFC 2684).
        0x28 => data.extend([0xfe, 0xfe, 3, 0xcc]),
        0x2d => data.extend([0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7]),
        _ => {}
    }
    match to {
        std::net::IpAddr::V4(to) => {
            data.extend([0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 99, 0, 1]);
            data.extend(to.octets());
        }
        std::net::IpAddr::V6(to) => {
            data.extend([0x60, 0, 0, 0, 0, 16, 17, 64]);
            data.extend(std::net::Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1).octets());
            data.extend(to.octets());
        }
    }
    data.extend([0, 9, 0, 9, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    send_frame(fd, device, named, &data)
}

/// Who has 10.99.0.2 (RFC 826)?
pub fn arp(fd: c_int, device: &str) -> io::Result<String> {
    let mut data = vec![0xff; 6];
    data.extend([2, 0, 0, 0, 0, 0x0a, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 0x0a, 10, 99, 0, 1]);
    data.extend([0, 0, 0, 0, 0, 0, 10, 99, 0, 2]);
    send_frame(fd, device, 0x0806, &data)
}

/// Send a frame by this device, with the type `named` in the address.
fn send_frame(fd: c_int, device: &str, named: u16, data: &[u8]) -> io::Result<String> {
    let device = CString::new(device).expect("no zero octet");
    // SAFETY: zeroes are a sockaddr_ll.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = named.to_be();
    // SAFETY: a valid C string.
    at.sll_ifindex = unsafe { libc::if_nametoindex(device.as_ptr()) } as c_int;
    let (at, len) = ((&raw const at).cast(), size_of_val(&at) as libc::socklen_t);
    // SAFETY: the buffers have the lengths that are passed.
    ret(unsafe { libc::sendto(fd, data.as_ptr().cast(), data.len(), 0, at, len) } as c_int)
        .map(|_| "ok".into())
}
