//! Plain TCP segments, which most segments are: whole, without IP options or extension headers, and with no TCP options
//! or with timestamps alone in the usual layout.

use super::{DONT_FRAGMENT, FIRST};
use crate::checksum::{self, fold};
use crate::tcp::Flags;
use crate::{ipv4, ipv6, protocol, tcp};

/// The option octets in front of timestamps in the usual layout: NOP, NOP, kind 8, length 10.
const STAMPS: [u8; 4] = [1, 1, 8, 10];

/// A view of a plain TCP segment. Fields are read where they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct PlainSegment<'a> {
    ip: Ip<'a>,
    tcp: &'a [u8; tcp::HEADER_LEN],
    /// The timestamp option's value and echo.
    stamps: Option<&'a [u8; 8]>,
    /// The octets of the addresses and the TCP header, which follow each other.
    covered: &'a [u8],
    data: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
enum Ip<'a> {
    V4(&'a [u8; ipv4::HEADER_LEN]),
    V6(&'a [u8; ipv6::HEADER_LEN]),
}

#[inline]
fn u16_at<const N: usize>(head: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline]
fn u32_at<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

impl<'a> PlainSegment<'a> {
    /// Reads a packet that is `bytes` from end to end. `None` if it is not plain, or not right. Its transport checksum
    /// is not verified. An IPv4 packet is plain only if it must not be fragmented.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<PlainSegment<'a>> {
        match bytes.first()? >> 4 {
            4 => {
                let (head, rest) = bytes.split_first_chunk::<{ ipv4::HEADER_LEN }>()?;
                let right = head[0] == FIRST
                    && usize::from(u16_at(head, 2)) == bytes.len()
                    && u16_at(head, 6) == DONT_FRAGMENT
                    && head[9] == protocol::TCP
                    && super::header_sum(head) == 0xffff;
                if right { PlainSegment::read_tcp(Ip::V4(head), bytes.get(12..)?, rest) } else { None }
            }
            6 => {
                let (head, rest) = bytes.split_first_chunk::<{ ipv6::HEADER_LEN }>()?;
                let right = usize::from(u16_at(head, 4)) == rest.len()
                    && head[6] == protocol::TCP
                    // Mapped, compatible, loopback, none: not on a wire.
                    && u32_at(head, 8) | u32_at(head, 12) != 0
                    && u32_at(head, 24) | u32_at(head, 28) != 0;
                if right { PlainSegment::read_tcp(Ip::V6(head), bytes.get(8..)?, rest) } else { None }
            }
            _ => None,
        }
    }

    #[inline]
    fn read_tcp(ip: Ip<'a>, from_addresses: &'a [u8], bytes: &'a [u8]) -> Option<PlainSegment<'a>> {
        const BARE: u8 = 0x50;
        const STAMPED: u8 = 0x80;
        let (tcp, rest) = bytes.split_first_chunk::<{ tcp::HEADER_LEN }>()?;
        let (stamps, data) = match tcp[12] {
            BARE => (None, rest),
            STAMPED => {
                let (layout, rest) = rest.split_first_chunk::<4>()?;
                let (stamps, rest) = rest.split_first_chunk::<8>()?;
                if *layout != STAMPS {
                    return None;
                }
                (Some(stamps), rest)
            }
            _ => return None,
        };
        if u16_at(tcp, 18) != 0 {
            return None;
        }
        let covered = from_addresses.get(..from_addresses.len() - data.len())?;
        Some(PlainSegment { ip, tcp, stamps, covered, data })
    }

    /// The IP version, 4 or 6.
    #[inline]
    pub fn version(&self) -> u8 {
        match self.ip {
            Ip::V4(_) => 4,
            Ip::V6(_) => 6,
        }
    }

    /// The source and destination address, in four words each. IPv4 addresses are in their mapped form (RFC 4291
    /// section 2.5.5.2).
    #[inline]
    pub fn addresses(&self) -> [[u32; 4]; 2] {
        match self.ip {
            Ip::V4(head) => [[0, 0, 0xffff, u32_at(head, 12)], [0, 0, 0xffff, u32_at(head, 16)]],
            Ip::V6(head) => [
                [u32_at(head, 8), u32_at(head, 12), u32_at(head, 16), u32_at(head, 20)],
                [u32_at(head, 24), u32_at(head, 28), u32_at(head, 32), u32_at(head, 36)],
            ],
        }
    }

    /// The source and the destination port.
    #[inline]
    pub fn ports(&self) -> [u16; 2] {
        [u16_at(self.tcp, 0), u16_at(self.tcp, 2)]
    }

    /// The sequence number of the segment.
    #[inline]
    pub fn seq(&self) -> u32 {
        u32_at(self.tcp, 4)
    }

    /// The acknowledgment number of the segment.
    #[inline]
    pub fn ack(&self) -> u32 {
        u32_at(self.tcp, 8)
    }

    /// The flags of the segment.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(u16::from(self.tcp[13]))
    }

    /// The window field, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        u16_at(self.tcp, 14)
    }

    /// The timestamp option's value and echo, if it is there.
    #[inline]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        self.stamps.map(|stamps| (u32_at(stamps, 0), u32_at(stamps, 4)))
    }

    /// The data of the segment.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The type of service or traffic class: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        match self.ip {
            Ip::V4(head) => head[1],
            Ip::V6(head) => (u16_at(head, 0) >> 4) as u8,
        }
    }

    /// The time to live or hop limit.
    #[inline]
    pub fn ttl(&self) -> u8 {
        match self.ip {
            Ip::V4(head) => head[8],
            Ip::V6(head) => head[7],
        }
    }

    /// The IPv4 identification; zero for IPv6.
    #[inline]
    pub fn id(&self) -> u16 {
        match self.ip {
            Ip::V4(head) => u16_at(head, 4),
            Ip::V6(_) => 0,
        }
    }

    /// The IPv6 flow label; zero for IPv4.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        match self.ip {
            Ip::V4(_) => 0,
            Ip::V6(head) => u32_at(head, 0) & 0xf_ffff,
        }
    }

    /// Octets of the headers in front of the data.
    #[inline]
    pub fn data_at(&self) -> usize {
        self.covered.len() + if self.version() == 4 { 12 } else { 8 }
    }

    /// The partial sum of pseudo-header and TCP header. Together with that of the data it folds to 0xffff if the
    /// checksum is right.
    #[inline]
    pub fn sum(&self) -> u32 {
        let addresses = if self.version() == 4 { 8 } else { 32 };
        let len = (self.covered.len() - addresses + self.data.len()) as u32;
        short_sum(self.covered) + u32::from(protocol::TCP) + (len >> 16) + (len & 0xffff)
    }

    /// Whether the TCP checksum is right.
    #[inline]
    pub fn verify(&self) -> bool {
        let data = if self.data.is_empty() { 0 } else { checksum::sum(self.data) };
        fold(self.sum() + data) == 0xffff
    }
}

/// The partial sum of whole words of four octets.
#[inline]
fn short_sum(octets: &[u8]) -> u32 {
    let (words, _) = octets.as_chunks::<4>();
    let total: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    let total = (total >> 32) + (total & 0xffff_ffff);
    let total = ((total >> 16) + (total & 0xffff)) as u32;
    u32::from(fold(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::Headers;
    use crate::tcp::{Tcp, TcpOption};
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;

    /// A segment that is plain, except for the octets that `damage` changes.
    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let damage = prop::collection::vec((0_usize..64, any::<u8>()), 0..3);
        let shape =
            (any::<bool>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), any::<[u8; 44]>());
        (shape, damage, any::<bool>()).prop_map(|((v6, stamped, data, random), damage, sound)| {
            let header = if stamped { 32 } else { 20 };
            let mut bytes = if v6 { vec![0x60; 40] } else { vec![0x45; 20] };
            let ip = bytes.len();
            bytes[1..].copy_from_slice(&random[1..ip]);
            let total = (ip + header + data.len()) as u16;
            if v6 {
                bytes[4..6].copy_from_slice(&(total - 40).to_be_bytes());
                bytes[6] = 6;
                bytes[8] = 0x20;
                bytes[24] = 0x20;
            } else {
                bytes[2..4].copy_from_slice(&total.to_be_bytes());
                bytes[6..8].copy_from_slice(&[0x40, 0]);
                bytes[9] = 6;
            }
            bytes.extend(&random[..12]);
            bytes.extend([if stamped { 0x80 } else { 0x50 }, random[13], random[14], random[15], 0, 0, 0, 0]);
            if stamped {
                bytes.extend(STAMPS);
                bytes.extend(&random[16..24]);
            }
            bytes.extend(data);
            for (at, octet) in damage {
                if let Some(place) = bytes.get_mut(at) {
                    *place = octet;
                }
            }
            if let Ok(mut view) = crate::ipv4::Ipv4::new_checked(&mut bytes[..]) {
                view.fill_checksum();
            }
            if let Some(headers) = Headers::parse(&bytes).ok().filter(|_| sound) {
                let _ = checksum::complete_transport(&mut bytes, &headers);
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn says_what_the_long_way_says(bytes in packets()) {
            let Some(plain) = PlainSegment::read(&bytes) else { return Ok(()) };
            let long = Headers::parse(&bytes).expect("what is plain is right");
            prop_assert!(crate::ip::checksum_ok(&bytes, &long));
            prop_assert!(long.fragment.is_none() && long.dont_fragment && !long.has_options);
            prop_assert_eq!((long.version, long.tos, long.ttl), (plain.version(), plain.tos(), plain.ttl()));
            prop_assert_eq!((long.total_len, long.header_len + 20 <= plain.data_at()), (bytes.len(), true));
            let octets: Vec<u8> = plain.addresses().iter()
                .flat_map(|words| &words[if plain.version() == 4 { 3 } else { 0 }..])
                .flat_map(|word| word.to_be_bytes()).collect();
            prop_assert_eq!(crate::ip::addresses(&bytes, long.version), &octets[..]);
            if let Ok(view) = crate::ipv4::Ipv4::new_checked(&bytes[..]) {
                prop_assert_eq!((view.id(), 0), (plain.id(), plain.flow_label()));
            }
            if let Ok(view) = crate::ipv6::Ipv6::new_checked(&bytes[..]) {
                prop_assert_eq!((0, view.flow_label()), (plain.id(), plain.flow_label()));
            }
            let view = Tcp::new_checked(long.upper(&bytes)).expect("a segment");
            prop_assert_eq!([view.src_port(), view.dst_port()], plain.ports());
            prop_assert_eq!((view.seq(), view.ack(), view.flags()), (plain.seq(), plain.ack(), plain.flags()));
            prop_assert_eq!((view.window(), view.urgent()), (plain.window(), 0));
            prop_assert_eq!((view.payload(), &bytes[plain.data_at()..]), (plain.data(), plain.data()));
            let options: Vec<_> = view.options().map(|option| option.expect("an option")).collect();
            match plain.timestamps() {
                None => prop_assert!(options.is_empty()),
                Some((value, echo)) => {
                    prop_assert_eq!(&options[2..], &[TcpOption::Timestamps { value, echo }]);
                }
            }
            prop_assert_eq!(plain.verify(), checksum::verify_transport(&bytes, &long) == Some(true));
        }
    }

    #[test]
    fn most_segments_are_plain() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let plain = (0..500).filter(|_| {
            let bytes = packets().new_tree(&mut runner).expect("a packet").current();
            PlainSegment::read(&bytes).is_some()
        });
        assert!(plain.count() > 100);
    }
}
