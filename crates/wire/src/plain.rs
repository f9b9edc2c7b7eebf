//! Plain packets, which most packets are: IPv4 without options, whole, with TCP or UDP inside. They serve code that has
//! no use for everything that [`Headers`](crate::ip::Headers) says; other packets take the longer path.

mod segment;

pub use segment::PlainSegment;

use crate::field::{be16, be32, octet};
use crate::{Flow, ipv4, protocol, tcp, udp};
use std::net::{IpAddr, Ipv4Addr};

/// The first octet of a header of version 4 and five words.
const FIRST: u8 = 0x45;
/// The bits of the more-fragments flag and the fragment offset.
const FRAGMENT: u16 = 0x3fff;
const DONT_FRAGMENT: u16 = 0x4000;
/// Octets of the shortest plain packet.
const SHORTEST: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;
/// The offset of the octet of TCP flags.
const TCP_FLAGS: usize = ipv4::HEADER_LEN + 13;
const SYN: u8 = 2;

/// The header fields of a plain packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The source address of the packet.
    pub src: Ipv4Addr,
    /// The destination address of the packet.
    pub dst: Ipv4Addr,
    /// The source port in the upper half, and the destination port in the lower.
    pub ports: u32,
    /// The protocol number of TCP or UDP.
    pub protocol: u8,
    /// The type of service octet: DSCP and ECN.
    pub tos: u8,
    /// The time to live.
    pub ttl: u8,
    /// Whether the packet must not be fragmented on its way.
    pub dont_fragment: bool,
    /// Whether it is a TCP segment with SYN, which negotiates.
    pub syn: bool,
    /// Octets of the packet; the bytes may go on behind it.
    pub total_len: usize,
    /// Whether the checksum of the header is right.
    pub checksum_ok: bool,
}

/// The sum of a header without options, from its five 32-bit words. It is 0xffff if the checksum is right.
#[inline]
fn header_sum<const N: usize>(head: &[u8; N]) -> u64 {
    // One after the other: a vector of five words costs more than it saves.
    let word =
        |at: usize| u64::from(u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    let sum = word(0) + word(4) + word(8) + word(12) + word(16);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

impl Plain {
    /// Reads the packet at the start of `bytes`. `None` if it is not plain, or not right.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Plain> {
        let head = bytes.first_chunk::<SHORTEST>()?;
        let (total_len, fragment) = (usize::from(be16(head, 2)), be16(head, 6));
        let protocol = octet(head, 9);
        let (least, syn) = match protocol {
            protocol::UDP => (SHORTEST, false),
            protocol::TCP => (ipv4::HEADER_LEN + tcp::HEADER_LEN, octet(bytes, TCP_FLAGS) & SYN != 0),
            _ => return None,
        };
        let right = octet(head, 0) == FIRST
            && fragment & FRAGMENT == 0
            && total_len >= least
            && total_len <= bytes.len();
        right.then(|| Plain {
            src: Ipv4Addr::from(crate::field::array::<4>(head, 12)),
            dst: Ipv4Addr::from(crate::field::array::<4>(head, 16)),
            ports: be32(head, 20),
            protocol,
            tos: octet(head, 1),
            ttl: octet(head, 8),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            syn,
            total_len,
            checksum_ok: header_sum(head) == 0xffff,
        })
    }

    /// The flow of the packet, as [`ip::flow`](crate::ip::flow) gives it.
    #[inline]
    pub fn flow(&self, outbound: bool) -> Flow {
        let Plain { src, dst, ports, protocol, .. } = *self;
        let (src_port, dst_port) = ((ports >> 16) as u16, ports as u16);
        let (src, dst) = (IpAddr::V4(src), IpAddr::V4(dst));
        if outbound {
            Flow {
                local: src,
                remote: dst,
                local_port: src_port,
                remote_port: dst_port,
                protocol,
                opaque: false,
            }
        } else {
            Flow {
                local: dst,
                remote: src,
                local_port: dst_port,
                remote_port: src_port,
                protocol,
                opaque: false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{self, Headers};
    use crate::tcp::{Flags, Tcp};
    use proptest::prelude::*;

    /// Octets that are often a plain packet, or nearly.
    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let first = prop_oneof![8 => Just(0x45), 1 => any::<u8>()];
        let fragment = prop_oneof![4 => Just(0x4000), 4 => Just(0), 1 => any::<u16>()];
        let protocol = prop_oneof![4 => Just(6), 4 => Just(17), 1 => any::<u8>()];
        let octets = proptest::collection::vec(any::<u8>(), 0..80);
        (octets, first, fragment, protocol, 0_usize..90).prop_map(
            |(mut bytes, first, fragment, protocol, len)| {
                let at = [(0, first), (2, 0), (3, len as u8), (9, protocol)];
                let fragment = fragment.to_be_bytes();
                for (at, octet) in at.into_iter().chain([(6, fragment[0]), (7, fragment[1])]) {
                    if let Some(place) = bytes.get_mut(at) {
                        *place = octet;
                    }
                }
                bytes
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn says_what_the_long_way_says(bytes in packets()) {
            let long = Headers::parse(&bytes);
            let Some(plain) = Plain::read(&bytes) else {
                // Whatever all stages together would call plain is plain.
                if let Ok(long) = long {
                    let short = long.upper(&bytes).len() < if long.protocol == 6 { 20 } else { 8 };
                    let other = long.version != 4 || long.has_options || long.fragment.is_some();
                    prop_assert!(short || other || !matches!(long.protocol, 6 | 17));
                }
                return Ok(());
            };
            let long = long.unwrap();
            prop_assert!(long.version == 4 && long.header_len == 20 && !long.has_options);
            prop_assert_eq!(plain.checksum_ok, ip::checksum_ok(&bytes, &long));
            prop_assert_eq!(long.fragment, None);
            prop_assert_eq!((plain.total_len, plain.tos, plain.ttl), (long.total_len, long.tos, long.ttl));
            prop_assert_eq!((plain.dont_fragment, plain.protocol), (long.dont_fragment, long.protocol));
            for outbound in [true, false] {
                prop_assert_eq!(plain.flow(outbound), ip::flow(&bytes, &long, outbound));
            }
            if let (6, Ok(tcp)) = (plain.protocol, Tcp::new_checked(long.upper(&bytes))) {
                prop_assert_eq!(plain.syn, tcp.flags().contains(Flags::SYN));
            }
        }
    }
}
