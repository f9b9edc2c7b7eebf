//! The place of the IP packet in a frame: behind Ethernet with VLAN tags (IEEE 802.1Q), LLC and SNAP (IEEE 802.2, RFC
//! 1042), PPPoE (RFC 2516), PPP (RFC 1661, RFC 1662) and MPLS (RFC 3032).
//!
//! The octets of a frame enter. A [`FrameContent`] leaves: the place of the packet, the certainty that there is none, or
//! that this module cannot tell. The third answer matters: another reader of the same frame may know the encapsulation.

use crate::eth;
use crate::field::{be16, octet, put16};

/// The most VLAN tags that are followed. Nobody stacks as many.
const MAX_TAGS: usize = 8;
/// The most labels of an MPLS stack that are followed.
const MAX_LABELS: usize = 16;
/// Ethertypes of VLAN tags: IEEE 802.1Q, IEEE 802.1ad, and those in use before it.
const TAGS: [u16; 5] = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300];
/// The largest value of a type and length field that is a length (IEEE 802.3 section 3.2.6).
const LONGEST_LENGTH: u16 = 1500;
/// Ethertypes of MPLS, unicast and multicast.
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE_SESSION: u16 = 0x8864;
const PPP: u16 = 0x880b;
/// Ethertypes of encapsulations that some readers follow and this module does not: B.A.T.M.A.N., transparent Ethernet
/// bridging, TRILL, FabricPath, Cisco's metadata, VN-Tag, ERSPAN in both forms, MACsec without encryption, the I-tag of
/// IEEE 802.1ah, HSR, NSH, GeoNetworking, Realtek's tag and LoWPAN.
const UNREAD: [u16; 15] = [
    0x4305, 0x6558, 0x22f3, 0x8903, 0x8909, 0x8926, 0x88be, 0x22eb, 0x88e5, 0x88e7, 0x892f, 0x894f, 0x8947,
    0x8899, 0xa0ed,
];

/// Whether frames of this Ethertype may hold an IP packet where this module finds it.
pub fn may_carry_ip(kind: u16) -> bool {
    matches!(kind, eth::IPV4 | eth::IPV6 | PPPOE_SESSION | PPP)
        || TAGS.contains(&kind)
        || MPLS.contains(&kind)
}

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameContent {
    /// The frame carries an IP packet.
    Ip(Place),
    /// The frame carries no IP packet.
    Other,
    /// This module cannot read the content, and another reader may. There may be an IP packet in it.
    Unread,
}

/// The place of an IP packet in a frame. The packet itself was not examined, except for encapsulations that tell its
/// version nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Octets in front of the packet.
    pub at: usize,
    /// Octets of the frame up to the end that the innermost length field in front of the packet gives it. If there is
    /// none, or it promises more than there is, octets of the whole frame.
    pub end: usize,
    /// The IP version that the link header names.
    pub version: Option<u8>,
    /// Octets of the frame up to the end of its VLAN tags, which begin behind the MAC addresses; zero if there are
    /// none.
    pub tags_end: usize,
    /// The length fields in front of the packet: their offsets, and the offsets from which they count.
    lengths: [Option<(usize, usize)>; 2],
}

impl Place {
    fn new(at: usize, frame: &[u8]) -> Place {
        Place { at, end: frame.len(), version: None, tags_end: 0, lengths: [None; 2] }
    }

    /// Remembers a length field at `field` that counts from the place's present offset on.
    fn counts(&mut self, field: usize, value: u16) {
        self.end = self.end.min(self.at + usize::from(value));
        if let Some(free) = self.lengths.iter_mut().find(|place| place.is_none()) {
            *free = Some((field, self.at));
        }
    }

    /// Writes the packet length `packet` into the length fields of a copy of the link header.
    pub fn put_len(&self, header: &mut [u8], packet: usize) {
        for (field, from) in self.lengths.iter().flatten() {
            if let Ok(len) = u16::try_from(self.at - from + packet) {
                put16(header, *field, len);
            }
        }
    }
}

/// The content of an Ethernet frame.
pub fn ethernet(frame: &[u8]) -> FrameContent {
    if frame.len() < eth::HEADER_LEN {
        return FrameContent::Other;
    }
    behind_type(frame, Place::new(12, frame))
}

/// The content at `at` of a frame whose Ethertype is given elsewhere (Linux "cooked" headers, Cisco's HDLC).
pub fn typed(frame: &[u8], kind: u16, at: usize) -> FrameContent {
    match behind_kind(frame, Place::new(at, frame), kind) {
        // Tags lie where the offset of Ethernet is not.
        FrameContent::Ip(place) => FrameContent::Ip(Place { tags_end: 0, ..place }),
        carried => carried,
    }
}

/// The answer for an IP packet of this version at `at`.
pub fn named(frame: &[u8], at: usize, version: u8) -> FrameContent {
    FrameContent::Ip(Place { version: Some(version), ..Place::new(at, frame) })
}

/// The content of an LLC frame that begins at `at`.
pub fn llc(frame: &[u8], at: usize) -> FrameContent {
    behind_llc(frame, Place::new(at, frame))
}

/// The content of a PPP frame that begins at `at`, with or without address and control (RFC 1662 section 3.1).
pub fn ppp(frame: &[u8], at: usize) -> FrameContent {
    let begins = frame.get(at..).is_some_and(|rest| rest.starts_with(&[0xff, 0x03]));
    behind_ppp(frame, Place::new(if begins { at + 2 } else { at }, frame))
}

/// The content of a PPPoE session frame that begins at `at`.
pub fn pppoe(frame: &[u8], at: usize) -> FrameContent {
    behind_pppoe(frame, Place::new(at, frame))
}

/// The answer for a packet at `at` that says its IP version itself.
pub fn bare(frame: &[u8], at: usize) -> FrameContent {
    let place = Place::new(at, frame);
    if matches!(octet(frame, at) >> 4, 4 | 6) { FrameContent::Ip(place) } else { FrameContent::Other }
}

/// The content behind a type or length field at `place.at`.
fn behind_type(frame: &[u8], mut place: Place) -> FrameContent {
    if frame.len() < place.at + 2 {
        return FrameContent::Other;
    }
    let kind = be16(frame, place.at);
    place.at += 2;
    if kind <= LONGEST_LENGTH {
        place.counts(place.at - 2, kind);
        return behind_llc(frame, place);
    }
    behind_kind(frame, place, kind)
}

/// The content at `place.at`, behind a type field of value `kind`.
fn behind_kind(frame: &[u8], mut place: Place, mut kind: u16) -> FrameContent {
    let mut tags = 0;
    while TAGS.contains(&kind) {
        tags += 1;
        if tags > MAX_TAGS {
            return FrameContent::Unread;
        }
        if frame.len() < place.at + 4 {
            return FrameContent::Other;
        }
        kind = be16(frame, place.at + 2);
        place.at += 4;
        place.tags_end = place.at - 2;
    }
    if kind <= LONGEST_LENGTH {
        place.counts(place.at - 2, kind);
        return behind_llc(frame, place);
    }
    behind_known_type(frame, place, kind)
}

fn behind_known_type(frame: &[u8], place: Place, kind: u16) -> FrameContent {
    match kind {
        eth::IPV4 => FrameContent::Ip(Place { version: Some(4), ..place }),
        eth::IPV6 => FrameContent::Ip(Place { version: Some(6), ..place }),
        PPPOE_SESSION => behind_pppoe(frame, place),
        PPP => behind_ppp(frame, place),
        kind if MPLS.contains(&kind) => behind_labels(frame, place),
        kind if UNREAD.contains(&kind) => FrameContent::Unread,
        _ => FrameContent::Other,
    }
}

fn behind_llc(frame: &[u8], mut place: Place) -> FrameContent {
    const UNNUMBERED: u8 = 3;
    let [dsap, ssap, control] = [0, 1, 2].map(|more| octet(frame, place.at + more));
    if frame.len() < place.at + 3 {
        return FrameContent::Other;
    }
    place.at += 3;
    match (dsap, ssap) {
        // The lowest bit of the source is that of an answer, which no frame with data is.
        (0xaa, 0xaa) if control == UNNUMBERED => {
            let organisation = [0, 1, 2].map(|more| octet(frame, place.at + more));
            let kind = be16(frame, place.at + 3);
            if frame.len() < place.at + 5 {
                return FrameContent::Other;
            }
            place.at += 5;
            match organisation {
                // RFC 1042, and IEEE 802.1H for types that were bridged.
                [0, 0, 0] | [0, 0, 0xf8] => behind_kind(frame, place, kind),
                // Bridged frames (RFC 2684 section 5.2).
                [0, 0x80, 0xc2] => FrameContent::Unread,
                _ => FrameContent::Other,
            }
        }
        (0x06, 0x06) if control == UNNUMBERED => FrameContent::Ip(Place { version: Some(4), ..place }),
        // ISO protocols: the NLPID of IPv4, IPv6 and SNAP (RFC 2427 section 4).
        (0xfe, 0xfe) if control == UNNUMBERED => match octet(frame, place.at) {
            0xcc => FrameContent::Ip(Place { at: place.at + 1, version: Some(4), ..place }),
            0x8e => FrameContent::Ip(Place { at: place.at + 1, version: Some(6), ..place }),
            0x80 => FrameContent::Unread,
            _ => FrameContent::Other,
        },
        (0xaa | 0x06, 0xaa | 0xab | 0x06 | 0x07) => FrameContent::Unread,
        _ => FrameContent::Other,
    }
}

fn behind_pppoe(frame: &[u8], mut place: Place) -> FrameContent {
    const HEADER: usize = 6;
    if frame.len() < place.at + HEADER {
        return FrameContent::Other;
    }
    let (kind, code, len) = (octet(frame, place.at), octet(frame, place.at + 1), be16(frame, place.at + 4));
    let field = place.at + 4;
    place.at += HEADER;
    if (kind, code) != (0x11, 0) {
        return FrameContent::Unread;
    }
    place.counts(field, len);
    behind_ppp(frame, place)
}

/// The content behind a PPP protocol field at `place.at`, which may be compressed to one octet (RFC 1661 section 6.5).
fn behind_ppp(frame: &[u8], mut place: Place) -> FrameContent {
    let first = octet(frame, place.at);
    let (protocol, len) = if first & 1 == 1 { (u16::from(first), 1) } else { (be16(frame, place.at), 2) };
    place.at += len;
    if frame.len() < place.at {
        return FrameContent::Other;
    }
    match protocol {
        0x0021 => FrameContent::Ip(Place { version: Some(4), ..place }),
        0x0057 => FrameContent::Ip(Place { version: Some(6), ..place }),
        0x0281 | 0x0283 => behind_labels(frame, place),
        // Compressed headers, bridged frames, pieces of several links, compressed and header-compressed packets.
        0x002d | 0x002f | 0x0031 | 0x003d | 0x0061 | 0x0063 | 0x0065 | 0x0067 | 0x0069 | 0x00fb | 0x00fd => {
            FrameContent::Unread
        }
        _ => FrameContent::Other,
    }
}

/// The content behind an MPLS stack at `place.at`. Behind the last label, a packet says by its first nibble what it is
/// (RFC 4928 section 3); a pseudowire may carry a frame.
fn behind_labels(frame: &[u8], mut place: Place) -> FrameContent {
    const EXPLICIT_NULL_V4: u32 = 0;
    const EXPLICIT_NULL_V6: u32 = 2;
    for _ in 0..MAX_LABELS {
        if frame.len() < place.at + 4 {
            return FrameContent::Other;
        }
        let entry = u32::from(be16(frame, place.at)) << 16 | u32::from(be16(frame, place.at + 2));
        place.at += 4;
        if entry & 0x100 == 0 {
            continue;
        }
        place.version = match entry >> 12 {
            EXPLICIT_NULL_V4 => Some(4),
            EXPLICIT_NULL_V6 => Some(6),
            _ => None,
        };
        return match octet(frame, place.at) >> 4 {
            4 | 6 => FrameContent::Ip(place),
            _ if place.version.is_some() => FrameContent::Ip(place),
            _ => FrameContent::Unread,
        };
    }
    FrameContent::Unread
}

/// Octets that Ethernet fills a frame's payload up to: 60 without header and check sequence, and 4 for a tag that the card took off.
const PADDED: usize = 50;

/// A packet without the zeros that fill a short frame up.
pub fn without_padding(octets: &[u8]) -> &[u8] {
    match declared_len(octets).and_then(|len| octets.split_at_checked(len)) {
        Some((packet, rest)) if octets.len() <= PADDED && rest.iter().all(|octet| *octet == 0) => packet,
        _ => octets,
    }
}

/// The octets that a packet says it has; `None`: its header is cut off before that.
pub fn declared_len(octets: &[u8]) -> Option<usize> {
    let field = |at: usize| Some(usize::from(u16::from_be_bytes(*octets.get(at..)?.first_chunk()?)));
    match octets.first()? >> 4 {
        4 => field(2),
        6 => field(4).map(|payload| payload + 40),
        // No packet; there is no use in waiting for more of it.
        _ => Some(0),
    }
}

/// The type of a service provider's tag (IEEE 802.1ad), as on the wire.
const SERVICE: [u8; 2] = [0x88, 0xa8];

/// Tags, four octets each, and an interface as one number: fragments of different links never mix.
pub fn vlans(tags: &[u8], interface: u32) -> u32 {
    tags.chunks(4).fold(interface, |sum, tag| {
        let id = tag.get(2..4).map_or(0, |id| u32::from(id[0] & 0x0f) << 8 | u32::from(id[1]));
        let service = u32::from(tag.starts_with(&SERVICE));
        // Number 0 is none: the tag has a priority only, and hosts take the frame as one without (IEEE 802.1Q section 9.6).
        if id == 0 { sum } else { sum.wrapping_mul(8191).wrapping_add(id << 1 | service) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 1, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];

    fn frame(header: &[u8]) -> Vec<u8> {
        [&[2; 12], header, &IP].concat()
    }

    #[test]
    fn the_packet_is_found_behind_each_encapsulation() {
        let table: [(&str, &[u8], Option<u8>); 14] = [
            ("plain", &[8, 0], Some(4)),
            ("one tag", &[0x81, 0, 0, 5, 8, 0], Some(4)),
            ("three tags", &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 8, 0], Some(4)),
            ("an old tag", &[0x92, 0, 0, 5, 8, 0], Some(4)),
            ("PPPoE", &[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21], Some(4)),
            ("PPPoE, compressed protocol", &[0x88, 0x64, 0x11, 0, 0, 1, 0, 21, 0x21], Some(4)),
            ("MPLS", &[0x88, 0x47, 0, 6, 0x41, 0x40], None),
            ("MPLS, two labels", &[0x88, 0x47, 0, 6, 0x40, 0x40, 0, 6, 0x51, 0x40], None),
            ("MPLS, explicit null", &[0x88, 0x47, 0, 0, 1, 0x40], Some(4)),
            ("MPLS in PPPoE", &[0x88, 0x64, 0x11, 0, 0, 1, 0, 26, 2, 0x81, 0, 6, 0x41, 0x40], None),
            ("SNAP", &[0, 28, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], Some(4)),
            ("a tag in front of SNAP", &[0x81, 0, 0, 5, 0, 28, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], Some(4)),
            ("LLC", &[0, 23, 6, 6, 3], Some(4)),
            ("NLPID", &[0, 24, 0xfe, 0xfe, 3, 0xcc], Some(4)),
        ];
        for (what, header, version) in table {
            let frame = frame(header);
            let FrameContent::Ip(place) = ethernet(&frame) else { panic!("{what}: {:?}", ethernet(&frame)) };
            assert_eq!((place.at, place.version), (12 + header.len(), version), "{what}");
            assert_eq!(place.end, frame.len(), "{what}: the length field ends with the packet");
            for cut in 0..place.at {
                assert!(!matches!(ethernet(&frame[..cut]), FrameContent::Ip(_)), "{what} cut at {cut}");
            }
        }
    }

    #[test]
    fn lengths_end_a_packet_and_follow_it() {
        let long = frame(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 12, 0, 0x21]);
        let FrameContent::Ip(place) = ethernet(&long) else { panic!() };
        assert_eq!(place.end, place.at + 10, "the session says that ten octets follow its protocol field");
        let mut header = long[..place.at].to_vec();
        place.put_len(&mut header, 40);
        assert_eq!(header[18..20], [0, 42]);
        let snap = frame(&[0, 28, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        let FrameContent::Ip(place) = ethernet(&snap) else { panic!() };
        let mut header = snap[..place.at].to_vec();
        place.put_len(&mut header, 21);
        assert_eq!(header[12..14], [0, 29]);
        let plain = frame(&[8, 0]);
        let FrameContent::Ip(place) = ethernet(&plain) else { panic!() };
        let mut header = plain[..14].to_vec();
        place.put_len(&mut header, 100);
        assert_eq!(header, plain[..14], "no field, nothing written");
    }

    #[test]
    fn what_others_may_read_is_told_from_what_is_no_ip() {
        for (what, header, carried) in [
            ("ARP", &[8, 6][..], FrameContent::Other),
            ("PPPoE discovery", &[0x88, 0x63], FrameContent::Other),
            ("spanning tree", &[0, 38, 0x42, 0x42, 3], FrameContent::Other),
            ("LCP", &[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0xc0, 0x21], FrameContent::Other),
            ("compressed headers", &[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x2d], FrameContent::Unread),
            ("PPPoE of another version", &[0x88, 0x64, 0x21, 0, 0, 1, 0, 22, 0, 0x21], FrameContent::Unread),
            ("MACsec", &[0x88, 0xe5], FrameContent::Unread),
            ("a bridged frame", &[0, 28, 0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7], FrameContent::Unread),
            ("a pseudowire", &[0x88, 0x47, 0, 6, 0x41, 0x40, 0, 0, 0, 0], FrameContent::Unread),
        ] {
            assert_eq!(ethernet(&frame(header)), carried, "{what}");
        }
        let deep = [[0x81, 0, 0, 1]; 12].concat();
        assert_eq!(ethernet(&frame(&[&deep[..], &[8, 0]].concat())), FrameContent::Unread, "too many tags");
    }
}
