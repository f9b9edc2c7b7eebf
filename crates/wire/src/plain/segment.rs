//! The TCP segments that most are: whole, without IP options or extension headers, with no TCP options or with timestamps alone in the
//! layout that everybody uses.

use super::{DONT_FRAGMENT, FIRST};
use crate::checksum::{self, fold};
use crate::tcp::Flags;
use crate::{ipv4, ipv6, protocol, tcp};

/// NOP, NOP, timestamps of ten octets.
const STAMPS: [u8; 4] = [1, 1, 8, 10];
const STAMPS_LEN: usize = 12;

/// What the headers of such a segment say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainSegment {
    /// 4 or 6.
    pub version: u8,
    /// Source and destination, as they stand in the header; of IPv4 the first word of each.
    pub addresses: [[u32; 4]; 2],
    /// Source and destination port.
    pub ports: [u16; 2],
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// Where the data start; they end with the octets that were given.
    pub data_at: usize,
    /// DSCP and ECN.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// IPv4: the identification.
    pub id: u16,
    /// IPv6: the flow label.
    pub flow_label: u32,
}

#[inline]
fn u16_at<const N: usize>(head: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline]
fn u32_at<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

impl PlainSegment {
    /// Read a packet that is `bytes` from end to end. `None`: it is not that plain, or not right; its transport checksum is not looked
    /// at. Of IPv4 only packets that must not be fragmented are plain.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<PlainSegment> {
        match bytes.first()? >> 4 {
            4 => PlainSegment::read_v4(bytes),
            6 => PlainSegment::read_v6(bytes),
            _ => None,
        }
    }

    #[inline]
    fn read_v4(bytes: &[u8]) -> Option<PlainSegment> {
        const IP: usize = ipv4::HEADER_LEN;
        let head = bytes.first_chunk::<{ IP + tcp::HEADER_LEN }>()?;
        let right = head[0] == FIRST
            && usize::from(u16_at(head, 2)) == bytes.len()
            && u16_at(head, 6) == DONT_FRAGMENT
            && head[9] == protocol::TCP
            && super::header_sum(head) == 0xffff;
        if !right {
            return None;
        }
        let address = |at| [u32_at(head, at), 0, 0, 0];
        let mut segment = PlainSegment::read_tcp(bytes, head, IP)?;
        segment.version = 4;
        segment.addresses = [address(12), address(16)];
        (segment.tos, segment.ttl, segment.id) = (head[1], head[8], u16_at(head, 4));
        Some(segment)
    }

    #[inline]
    fn read_v6(bytes: &[u8]) -> Option<PlainSegment> {
        const IP: usize = ipv6::HEADER_LEN;
        let head = bytes.first_chunk::<{ IP + tcp::HEADER_LEN }>()?;
        if usize::from(u16_at(head, 4)) + IP != bytes.len() || head[6] != protocol::TCP {
            return None;
        }
        let address =
            |at| [u32_at(head, at), u32_at(head, at + 4), u32_at(head, at + 8), u32_at(head, at + 12)];
        let addresses = [address(8), address(24)];
        // Mapped, compatible, loopback, none: not on a wire.
        if addresses.iter().any(|address| address[0] | address[1] == 0) {
            return None;
        }
        let mut segment = PlainSegment::read_tcp(bytes, head, IP)?;
        let first = u32_at(head, 0);
        segment.version = 6;
        segment.addresses = addresses;
        (segment.tos, segment.ttl, segment.flow_label) = ((first >> 20) as u8, head[7], first & 0xf_ffff);
        Some(segment)
    }

    #[inline]
    fn read_tcp<const N: usize>(bytes: &[u8], head: &[u8; N], at: usize) -> Option<PlainSegment> {
        const BARE: u8 = 0x50;
        const STAMPED: u8 = 0x80;
        let (timestamps, header) = match head[at + 12] {
            BARE => (None, tcp::HEADER_LEN),
            STAMPED => {
                let options = bytes.get(at + tcp::HEADER_LEN..)?.first_chunk::<STAMPS_LEN>()?;
                if options.first_chunk() != Some(&STAMPS) {
                    return None;
                }
                (Some((u32_at(options, 4), u32_at(options, 8))), tcp::HEADER_LEN + STAMPS_LEN)
            }
            _ => return None,
        };
        if u16_at(head, at + 18) != 0 {
            return None;
        }
        Some(PlainSegment {
            version: 0,
            addresses: [[0; 4]; 2],
            ports: [u16_at(head, at), u16_at(head, at + 2)],
            seq: u32_at(head, at + 4),
            ack: u32_at(head, at + 8),
            flags: Flags(u16::from(head[at + 13])),
            window: u16_at(head, at + 14),
            timestamps,
            data_at: at + header,
            tos: 0,
            ttl: 0,
            id: 0,
            flow_label: 0,
        })
    }

    /// Octets in front of the TCP header.
    #[inline]
    pub fn tcp_at(&self) -> usize {
        if self.version == 4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    /// Octets of data.
    #[inline]
    pub fn len(&self, bytes: &[u8]) -> usize {
        bytes.len().saturating_sub(self.data_at)
    }

    /// The partial sum of the pseudo-header and the TCP header of `bytes`, which it was read from. With that of the data it is 0xffff
    /// folded if the checksum is right.
    #[inline]
    pub fn sum(&self, bytes: &[u8]) -> u32 {
        // Addresses and TCP header follow each other.
        let start = if self.version == 4 { 12 } else { 8 };
        let octets = bytes.get(start..self.data_at).unwrap_or(&[]);
        let len = bytes.len().saturating_sub(self.tcp_at()) as u32;
        short_sum(octets) + u32::from(protocol::TCP) + (len >> 16) + (len & 0xffff)
    }

    /// Whether the checksum is right.
    #[inline]
    pub fn verify(&self, bytes: &[u8]) -> bool {
        let data = bytes.get(self.data_at..).unwrap_or(&[]);
        let data = if data.is_empty() { 0 } else { checksum::sum(data) };
        fold(self.sum(bytes) + data) == 0xffff
    }
}

/// Partial sum of whole words of four octets.
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

    /// A segment that is plain, but for what `damage` puts into it.
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
            prop_assert_eq!((long.version, long.tos, long.ttl), (plain.version, plain.tos, plain.ttl));
            prop_assert_eq!((long.total_len, long.header_len), (bytes.len(), plain.tcp_at()));
            let octets: Vec<u8> =
                plain.addresses.iter().flat_map(|words| &words[..if plain.version == 4 { 1 } else { 4 }])
                    .flat_map(|word| word.to_be_bytes()).collect();
            prop_assert_eq!(crate::ip::addresses(&bytes, plain.version), &octets[..]);
            let view = Tcp::new_checked(long.upper(&bytes)).expect("a segment");
            prop_assert_eq!([view.src_port(), view.dst_port()], plain.ports);
            prop_assert_eq!((view.seq(), view.ack(), view.flags()), (plain.seq, plain.ack, plain.flags));
            prop_assert_eq!((view.window(), view.urgent()), (plain.window, 0));
            prop_assert_eq!(view.payload(), &bytes[plain.data_at..]);
            prop_assert_eq!(plain.len(&bytes), view.payload().len());
            let options: Vec<_> = view.options().map(|option| option.expect("an option")).collect();
            match plain.timestamps {
                None => prop_assert!(options.is_empty()),
                Some((value, echo)) => {
                    prop_assert_eq!(&options[2..], &[TcpOption::Timestamps { value, echo }]);
                }
            }
            prop_assert_eq!(plain.verify(&bytes), checksum::verify_transport(&bytes, &long) == Some(true));
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
