//! Which side a packet of a capture came from. A capture does not say where the scrubber would have stood: prefixes do, or else the
//! first packet between two hosts.

use std::collections::HashMap;
use std::net::IpAddr;

use scrub::Side;
use wire::addr::Prefix;
use wire::icmp::Icmpv4;
use wire::ip::Headers;
use wire::protocol;
use wire::quote::Quoted;
use wire::tcp::{Flags, Tcp};

/// Pairs of hosts in one generation; at most two generations are remembered.
const MOST: usize = 1 << 16;

/// What is known of two hosts.
#[derive(Clone, Debug)]
struct Pair {
    /// The one with the lower address is inside.
    low_inside: bool,
    /// The link header of its first packet, and whether the host with the lower address sent that.
    header: Box<[u8]>,
    low_sent: bool,
    /// One of its packets went on. Until then every packet is the first: what is not in the output must not decide about what is, or
    /// scrubbing the output again would find other sides.
    settled: bool,
}

/// The state that tells which side a packet of a capture came from.
#[derive(Debug)]
pub(super) struct Sides {
    inside: Vec<Prefix>,
    most: usize,
    /// Pairs met since the last turn, and those met in the turn before: who was not met for two turns is forgotten.
    young: HashMap<(End, End), Pair>,
    old: HashMap<(End, End), Pair>,
}

/// A host; its port only where a host talks to itself, since nothing else tells its ends apart.
type End = (IpAddr, u16);

/// Sender and receiver of a packet, or of the one that an ICMP error quotes, turned round.
fn ends(packet: &[u8], headers: &Headers) -> (End, End) {
    let (src, dst, ports) = match quoted(packet, headers) {
        Some(Quoted { src, dst, ports, .. }) => (dst, src, ports.map(|(of_src, of_dst)| (of_dst, of_src))),
        None => (headers.src, headers.dst, ports(packet, headers)),
    };
    let (of_src, of_dst) = ports.filter(|_| src == dst).unwrap_or_default();
    ((src, of_src), (dst, of_dst))
}

/// The ports of a segment or datagram that is no fragment.
fn ports(packet: &[u8], headers: &Headers) -> Option<(u16, u16)> {
    if headers.fragment.is_some()
        || !matches!(headers.protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
    {
        return None;
    }
    let [a, b, c, d] = *headers.upper(packet).first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

impl Sides {
    /// Hosts of `inside` are inside; without any, guess.
    pub fn new(inside: Vec<Prefix>) -> Sides {
        Sides { inside, most: MOST, young: HashMap::new(), old: HashMap::new() }
    }

    /// The side that a packet came from.
    ///
    /// By the prefixes, if exactly one of its ends is in them. Otherwise by the first packet between its two hosts, whose receiver is
    /// inside (whose sender, if that is the answer to a SYN): by hosts and not by ports, for fragments and ICMP errors have none and
    /// must be on the side of what they belong to. Only a host that talks to itself (both ends at one address, as at 127.0.0.1) has its
    /// ports looked at.
    ///
    /// An ICMP error is about a packet of another flow and may be a router's: it comes from the side to which that packet went.
    pub fn of(&mut self, packet: &[u8], headers: &Headers, link_header: &[u8]) -> Side {
        let (src, dst) = ends(packet, headers);
        let low_sends = src <= dst;
        let whole = headers.fragment.is_none();
        let pair = self.pair((src.min(dst), src.max(dst)), whole, || {
            let answers = headers.protocol == protocol::TCP
                && headers.fragment.is_none()
                && packet.get(headers.header_len..).and_then(|tcp| Tcp::new_checked(tcp).ok()).is_some_and(
                    |tcp| {
                        let flags = tcp.flags();
                        flags.contains(Flags::SYN) && flags.contains(Flags::ACK)
                    },
                );
            // The receiver is inside, or the sender if it answers.
            Pair {
                low_inside: low_sends == answers,
                header: link_header.into(),
                low_sent: low_sends,
                settled: false,
            }
        });
        let guessed = if pair.low_inside == low_sends { Side::Inside } else { Side::Outside };
        let within = |address: IpAddr| self.inside.iter().any(|prefix| prefix.contains(address));
        match (within(src.0), within(dst.0)) {
            (true, false) => Side::Inside,
            (false, true) => Side::Outside,
            _ => guessed,
        }
    }

    /// The link header of the first packet between the hosts of this one, and whether it went the same way.
    pub fn header(&mut self, packet: &[u8], headers: &Headers) -> Option<(&[u8], bool)> {
        let (src, dst) = ends(packet, headers);
        let key = (src.min(dst), src.max(dst));
        let pair = self.young.get(&key).or_else(|| self.old.get(&key))?;
        Some((&pair.header, pair.low_sent == (src <= dst)))
    }

    /// A packet between two hosts went on.
    pub fn settle(&mut self, packet: &[u8], headers: &Headers) {
        let (src, dst) = ends(packet, headers);
        if let Some(pair) = self.young.get_mut(&(src.min(dst), src.max(dst))) {
            pair.settled = true;
        }
    }

    /// `first`: it is made anew unless it is settled.
    fn pair(&mut self, key: (End, End), first: bool, new: impl FnOnce() -> Pair) -> &Pair {
        if first {
            for generation in [&mut self.young, &mut self.old] {
                if generation.get(&key).is_some_and(|pair| !pair.settled) {
                    generation.remove(&key);
                }
            }
        }
        if !self.young.contains_key(&key) {
            let pair = self.old.remove(&key).unwrap_or_else(new);
            if self.young.len() >= self.most {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key, pair);
        }
        &self.young[&key]
    }
}

/// What an ICMP error quotes.
fn quoted(packet: &[u8], headers: &Headers) -> Option<Quoted> {
    let upper = headers.upper(packet);
    let error = match headers.version {
        4 => headers.protocol == protocol::ICMP && matches!(upper.first()?, 3 | 4 | 5 | 11 | 12),
        _ => headers.protocol == protocol::ICMPV6 && upper.first()? & 0x80 == 0,
    };
    if !error || headers.fragment.is_some() {
        return None;
    }
    Quoted::read(headers.version, Icmpv4::new_checked(upper).ok()?.payload())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ipv4::{self, Ipv4Repr};

    fn packet(src: [u8; 4], dst: [u8; 4], flags: Flags) -> Vec<u8> {
        let repr = Ipv4Repr {
            src: src.into(),
            dst: dst.into(),
            protocol: 6,
            ttl: 64,
            tos: 0,
            id: 1,
            df: true,
            payload_len: 20,
        };
        let mut packet = vec![0; 40];
        ipv4::emit(&mut packet, &repr).unwrap();
        packet[32] = 5 << 4;
        packet[33] = flags.0 as u8;
        packet
    }

    fn side(sides: &mut Sides, packet: &[u8]) -> Side {
        let headers = Headers::parse(packet).unwrap();
        let side = sides.of(packet, &headers, &[]);
        sides.settle(packet, &headers);
        side
    }

    #[test]
    fn a_packet_that_ended_decides_nothing() {
        let mut sides = Sides::new(Vec::new());
        let (there, back) = (packet(A, B, Flags::ACK), packet(B, A, Flags::ACK));
        let dropped = sides.of(&there, &Headers::parse(&there).unwrap(), &[]);
        assert_eq!((dropped, side(&mut sides, &back)), (Side::Outside, Side::Outside));
        assert_eq!(side(&mut sides, &there), Side::Inside);
    }

    const A: [u8; 4] = [192, 0, 2, 1];
    const B: [u8; 4] = [198, 51, 100, 1];
    const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

    #[test]
    fn the_receiver_of_the_first_packet_is_inside() {
        for (first, second) in [(A, B), (B, A)] {
            let mut sides = Sides::new(Vec::new());
            assert_eq!(side(&mut sides, &packet(first, second, Flags::SYN)), Side::Outside);
            assert_eq!(side(&mut sides, &packet(second, first, SYN_ACK)), Side::Inside);
            assert_eq!(side(&mut sides, &packet(first, second, Flags::ACK)), Side::Outside);
            let mut sides = Sides::new(Vec::new());
            assert_eq!(
                side(&mut sides, &packet(second, first, SYN_ACK)),
                Side::Inside,
                "who answers is inside"
            );
            assert_eq!(side(&mut sides, &packet(first, second, Flags::ACK)), Side::Outside);
        }
    }

    /// Both ends at one address, as on a loopback link: the ports tell the two apart.
    #[test]
    fn the_ends_of_a_host_that_talks_to_itself_have_sides() {
        let talk = |from: u16, to: u16, flags| {
            let mut packet = packet([127, 0, 0, 1], [127, 0, 0, 1], flags);
            packet[20..22].copy_from_slice(&from.to_be_bytes());
            packet[22..24].copy_from_slice(&to.to_be_bytes());
            packet
        };
        let mut sides = Sides::new(Vec::new());
        for (client, server) in [(40_000, 80), (80, 40_001)] {
            assert_eq!(side(&mut sides, &talk(client, server, Flags::SYN)), Side::Outside);
            assert_eq!(side(&mut sides, &talk(server, client, SYN_ACK)), Side::Inside);
            assert_eq!(side(&mut sides, &talk(client, server, Flags::ACK)), Side::Outside);
        }
    }

    #[test]
    fn prefixes_decide_where_exactly_one_end_is_in_them() {
        let mut sides = Sides::new(vec![Prefix::new(A.into(), 24).unwrap()]);
        assert_eq!(side(&mut sides, &packet(A, B, Flags::SYN)), Side::Inside);
        assert_eq!(side(&mut sides, &packet(B, A, SYN_ACK)), Side::Outside);
        let neighbour = [192, 0, 2, 9];
        assert_eq!(side(&mut sides, &packet(A, neighbour, Flags::SYN)), Side::Outside, "both: a guess");
        assert_eq!(side(&mut sides, &packet(neighbour, A, SYN_ACK)), Side::Inside);
    }

    #[test]
    fn memory_is_bounded_and_who_talks_is_remembered() {
        let mut sides = Sides::new(Vec::new());
        sides.most = 8;
        assert_eq!(side(&mut sides, &packet(A, B, Flags::SYN)), Side::Outside);
        for n in 0..200 {
            assert_eq!(side(&mut sides, &packet(A, [203, 0, 113, n], Flags::SYN)), Side::Outside);
            assert_eq!(side(&mut sides, &packet(B, A, Flags::ACK)), Side::Inside, "after {n} others");
            assert!(sides.young.len() + sides.old.len() <= 16);
        }
    }
}
