//! Link types (the registry at tcpdump.org/linktypes.html) and where the IP packet begins.

use wire::eth::{self, Ethernet};

/// What a captured frame starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Four octets of address family, host order of the capturing machine (BSD loopback).
    Null,
    /// Ethernet.
    Ethernet,
    /// An IP header, version by its first nibble.
    Raw,
    /// Linux "cooked" capture, version 1.
    LinuxSll,
    /// Linux "cooked" capture, version 2.
    LinuxSll2,
    /// An IPv4 header.
    Ipv4,
    /// An IPv6 header.
    Ipv6,
    /// Another, by its number.
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

    /// Its number in files.
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

    /// The IP packet in a frame.
    pub fn ip(self, frame: &[u8]) -> Option<&[u8]> {
        match self {
            LinkType::Ethernet => {
                let view = Ethernet::new_checked(frame).ok()?;
                is_ip(view.ethertype()).then_some(())?;
                version(frame.get(view.header_len()..)?)
            }
            LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => version(frame),
            // The family's number depends on the system; the packet says its version itself.
            LinkType::Null => version(frame.get(4..)?),
            LinkType::LinuxSll => {
                is_ip(be16(frame, 14)?).then_some(())?;
                version(frame.get(16..)?)
            }
            LinkType::LinuxSll2 => {
                is_ip(be16(frame, 0)?).then_some(())?;
                version(frame.get(20..)?)
            }
            LinkType::Other(_) => None,
        }
    }
}

fn is_ip(ethertype: u16) -> bool {
    matches!(ethertype, eth::IPV4 | eth::IPV6)
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
        assert_eq!(LinkType::Raw.ip(&[0x10, 0]), None);
    }
}
