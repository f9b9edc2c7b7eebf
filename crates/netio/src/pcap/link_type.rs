//! Link types (the registry at tcpdump.org/linktypes.html) and where the IP packet begins.

use wire::link::{self, FrameContent};

/// The kind of link header that a captured frame starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Four octets of address family, host order of the capturing machine (BSD loopback).
    Null,
    /// An Ethernet frame, header first.
    Ethernet,
    /// An IP header, version by its first nibble.
    Raw,
    /// Linux "cooked" capture, version 1.
    LinuxSll,
    /// Linux "cooked" capture, version 2.
    LinuxSll2,
    /// An IPv4 packet, without a link-layer header.
    Ipv4,
    /// An IPv6 packet, without a link-layer header.
    Ipv6,
    /// Another link type, by its number.
    Other(u32),
}

impl LinkType {
    /// The type of this number.
    pub const fn from_number(number: u32) -> LinkType {
        match number {
            0 | 108 => LinkType::Null,
            1 => LinkType::Ethernet,
            // 12 and 14: what BSD systems wrote for RAW.
            12 | 14 | 101 => LinkType::Raw,
            113 => LinkType::LinuxSll,
            276 => LinkType::LinuxSll2,
            228 => LinkType::Ipv4,
            229 => LinkType::Ipv6,
            other => LinkType::Other(other),
        }
    }

    /// The number of the link type in files.
    pub const fn number(self) -> u32 {
        match self {
            LinkType::Null => 0,
            LinkType::Ethernet => 1,
            LinkType::Raw => 101,
            LinkType::LinuxSll => 113,
            LinkType::LinuxSll2 => 276,
            LinkType::Ipv4 => 228,
            LinkType::Ipv6 => 229,
            LinkType::Other(number) => number,
        }
    }

    /// The IP packet in a frame; `None`: none in it, or one whose first octet is not that of a header.
    pub fn ip(self, frame: &[u8]) -> Option<&[u8]> {
        let (at, _) = self.ip_at(frame)?;
        version(frame.get(at..)?)
    }

    /// The offset at which a frame's IP packet begins, and the IP version that the link header gives, if it gives one.
    /// The packet itself is not examined, except for link types that have the version nowhere else.
    pub fn ip_at(self, frame: &[u8]) -> Option<(usize, Option<u8>)> {
        match self.carried(frame) {
            FrameContent::Ip(place) => Some((place.at, place.version)),
            FrameContent::Other | FrameContent::Unread => None,
        }
    }

    /// The content of a frame. A frame of an unknown link type may hold an IP packet.
    pub fn carried(self, frame: &[u8]) -> FrameContent {
        match self {
            LinkType::Ethernet => link::ethernet(frame),
            LinkType::Ipv4 => link::named(frame, 0, 4),
            LinkType::Ipv6 => link::named(frame, 0, 6),
            LinkType::Raw => link::bare(frame, 0),
            // The family's number depends on the system; the packet says its version itself.
            LinkType::Null => link::bare(frame, 4),
            LinkType::LinuxSll => cooked(frame, be16(frame, 2), be16(frame, 14), 16),
            LinkType::LinuxSll2 => cooked(frame, be16(frame, 8), be16(frame, 0), 20),
            LinkType::Other(number) => other(number, frame),
        }
    }

    /// Turn a link header round, so that it is one of the answer: Ethernet addresses change places; in a cooked header, which has only
    /// the sender's address, what came from a host becomes what goes to one, and the address is left out.
    pub fn turn(self, header: &mut [u8]) {
        match self {
            LinkType::Ethernet => {
                if let Some(addresses) = header.first_chunk_mut::<12>() {
                    addresses.rotate_left(6);
                }
            }
            LinkType::LinuxSll => {
                if let Some(head) = header.first_chunk_mut::<14>() {
                    head[1] = turned(head[1]);
                    head[4..].fill(0);
                }
            }
            LinkType::LinuxSll2 => {
                if let Some(head) = header.first_chunk_mut::<20>() {
                    head[10] = turned(head[10]);
                    head[11..].fill(0);
                }
            }
            _ => {}
        }
    }
}

/// The packet type of an answer to a cooked header's type. A packet that this host sent (4) is answered by one for this
/// host (0); every other (0, broadcast, multicast, another host's) is answered by one that this host sent.
const fn turned(kind: u8) -> u8 {
    if kind == 4 { 0 } else { 4 }
}

/// The content of a frame behind a cooked header, which names the kind of device (ARPHRD) and a protocol.
fn cooked(frame: &[u8], hardware: Option<u16>, protocol: Option<u16>, at: usize) -> FrameContent {
    const NETLINK: u16 = 824;
    const LLC: u16 = 4;
    match protocol {
        _ if hardware == Some(NETLINK) || frame.len() < at => FrameContent::Other,
        Some(LLC) => link::llc(frame, at),
        // The others are words of Linux for what has no type: raw IEEE 802.3, CAN, control frames of PPP.
        Some(protocol @ 0x0600..) => link::typed(frame, protocol, at),
        _ => FrameContent::Other,
    }
}

/// Link types that carry no IP: Bluetooth, CAN, USB, LAPD, signalling system 7, FlexRay, LIN, D-Bus, netlink.
const WITHOUT_IP: [u32; 19] =
    [139, 140, 141, 142, 177, 186, 187, 189, 190, 201, 203, 210, 212, 220, 227, 231, 249, 251, 253];

/// Link types that a reader for IP meets seldom, by their numbers.
fn other(number: u32, frame: &[u8]) -> FrameContent {
    match number {
        // PPP; in a frame of HDLC, in which Cisco's begins with another octet; with a direction in front.
        9 => link::ppp(frame, 0),
        50 if matches!(frame.first(), Some(0x0f | 0x8f)) => {
            link::typed(frame, be16(frame, 2).unwrap_or(0), 4)
        }
        50 => link::ppp(frame, 0),
        104 => link::typed(frame, be16(frame, 2).unwrap_or(0), 4),
        166 | 204 => link::ppp(frame, 1),
        // A PPPoE session.
        51 => link::pppoe(frame, 0),
        // FDDI: frame control of LLC frames, two stations, LLC.
        10 if matches!(frame.first(), Some(0x50..=0x57)) => link::llc(frame, 13),
        // Classical IP over ATM: LLC.
        100 => link::llc(frame, 0),
        // BSD's encapsulation device: family, SPI and flags.
        109 => link::bare(frame, 12),
        number if WITHOUT_IP.contains(&number) => FrameContent::Other,
        _ => FrameContent::Unread,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|octets| u16::from_be_bytes(*octets))
}

fn version(packet: &[u8]) -> Option<&[u8]> {
    matches!(packet.first()? >> 4, 4 | 6).then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ip_packet_is_found_behind_each_header() {
        let ip = [0x45, 0, 0, 20];
        let with = |header: &[u8]| [header, &ip].concat();
        let mut ethernet = [0u8; 14];
        ethernet[12..].copy_from_slice(&[0x08, 0x00]);
        let mut tagged = [0u8; 18];
        tagged[12..].copy_from_slice(&[0x81, 0x00, 0, 5, 0x08, 0x00]);
        let mut sll = [0u8; 16];
        sll[14..].copy_from_slice(&[0x08, 0x00]);
        let mut sll2 = [0u8; 20];
        sll2[..2].copy_from_slice(&[0x08, 0x00]);
        let table: [(LinkType, &[u8]); 7] = [
            (LinkType::Ethernet, &ethernet),
            (LinkType::Ethernet, &tagged),
            (LinkType::Raw, &[]),
            (LinkType::Ipv4, &[]),
            (LinkType::Null, &[2, 0, 0, 0]),
            (LinkType::LinuxSll, &sll),
            (LinkType::LinuxSll2, &sll2),
        ];
        for (link, header) in table {
            assert_eq!(link.ip(&with(header)), Some(&ip[..]), "{link:?}");
            assert_eq!(link.ip(header), None, "{link:?} without a packet");
            assert_eq!(LinkType::from_number(link.number()), link);
        }
        ethernet[13] = 0x06;
        assert_eq!(LinkType::Ethernet.ip(&with(&ethernet)), None, "ARP");
        assert_eq!(LinkType::Other(147).ip(&ip), None);
        assert_eq!(LinkType::Other(147).carried(&ip), FrameContent::Unread);
        assert_eq!(LinkType::Other(227).carried(&ip), FrameContent::Other, "CAN");
        for (number, header) in [
            (9, &[0xff, 3, 0, 0x21][..]),
            (9, &[0, 0x21]),
            (50, &[0xff, 3, 0, 0x21]),
            (50, &[0x0f, 0, 8, 0]),
            (104, &[0x0f, 0, 8, 0]),
            (204, &[1, 0xff, 3, 0x21]),
            (51, &[0x11, 0, 0, 1, 0, 6, 0, 0x21]),
            (10, &[0x51, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
            (100, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
            (109, &[2; 12]),
        ] {
            assert_eq!(LinkType::Other(number).ip(&with(header)), Some(&ip[..]), "link type {number}");
        }
        assert_eq!(LinkType::Raw.ip(&[0x10, 0]), None);
        let strange = [&tagged[..], &[0x10, 0]].concat();
        assert_eq!(LinkType::Ethernet.ip(&strange), None, "no IP version");
        assert_eq!(LinkType::Ethernet.ip_at(&strange), Some((18, Some(4))), "but the link header says so");
    }

    #[test]
    fn a_header_turned_twice_is_the_first_but_for_cooked_addresses() {
        let mut ethernet: Vec<u8> = (0..18).collect();
        LinkType::Ethernet.turn(&mut ethernet);
        assert_eq!(ethernet, [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17]);
        let mut cooked = [0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0];
        LinkType::LinuxSll.turn(&mut cooked);
        assert_eq!(cooked, [0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
        let mut second = [8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0];
        LinkType::LinuxSll2.turn(&mut second);
        assert_eq!(second, [8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        LinkType::Ethernet.turn(&mut []);
    }
}
