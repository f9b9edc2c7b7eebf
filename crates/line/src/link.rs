//! What is in front of the IP packet: stations and VLAN tags, and who has which.

use std::net::IpAddr;

use wire::eth::{self, Ethernet};

use wire::link::vlans;

/// A header with three tags: two in the frame, and the one that the kernel takes out.
const LONGEST: usize = eth::HEADER_LEN + 3 * 4;
/// Pairs of hosts whose stations are remembered, a power of two.
const PAIRS: usize = 1 << 14;

/// The link header of a frame, from the stations to the type, with its VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    octets: [u8; LONGEST],
    len: u8,
}

impl Link {
    /// That of a frame, with the tag that the kernel took out of it, and how many octets of the frame it is.
    pub fn of(frame: &[u8], tag: Option<[u8; 4]>) -> Option<(Link, usize)> {
        let before = Ethernet::new_checked(frame).ok()?.header_len();
        let (stations, rest) = frame.get(..before)?.split_at_checked(12)?;
        let mut link = Link { octets: [0; LONGEST], len: 0 };
        for part in [stations, tag.as_ref().map_or(&[][..], |tag| tag), rest] {
            link.push(part)?;
        }
        Some((link, before))
    }

    fn push(&mut self, part: &[u8]) -> Option<()> {
        let at = usize::from(self.len);
        self.octets.get_mut(at..at + part.len())?.copy_from_slice(part);
        self.len += part.len() as u8;
        Some(())
    }

    /// The octets of the header.
    pub fn octets(&self) -> &[u8] {
        self.octets.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The type behind the tags.
    pub fn ethertype(&self) -> u16 {
        let end = usize::from(self.len);
        let field = self.octets.get(end.saturating_sub(2)..end).and_then(<[u8]>::first_chunk);
        field.map_or(0, |octets| u16::from_be_bytes(*octets))
    }

    /// The VLANs as a number.
    pub fn number(&self) -> u32 {
        vlans(self.octets().get(12..usize::from(self.len) - 2).unwrap_or_default(), 0)
    }

    /// The same with the stations turned round; none of a frame to a group, which nobody answers for.
    pub fn turned(&self) -> Option<Link> {
        let mut out = *self;
        let (destination, rest) = out.octets.split_at_mut(6);
        destination.swap_with_slice(rest.get_mut(..6)?);
        (self.octets[0] & 1 == 0).then_some(out)
    }

    /// For another type of packet behind the same tags.
    fn with_type(mut self, version: u8) -> Link {
        let kind = if version == 4 { eth::IPV4 } else { eth::IPV6 };
        let end = usize::from(self.len);
        if let Some(field) = self.octets.get_mut(end.saturating_sub(2)..end) {
            field.copy_from_slice(&kind.to_be_bytes());
        }
        self
    }
}

/// With which link header two hosts were last seen: for packets that no frame is at hand for. A table of fixed size, in which
/// pairs may displace each other.
#[derive(Debug)]
pub struct Stations {
    key: sockmon::line::LineKey,
    pairs: Vec<Option<([IpAddr; 2], Link)>>,
    /// Packets of one flow come many in a row.
    last: Option<([IpAddr; 2], Link)>,
}

impl Stations {
    /// An empty table, in which no hosts are known. The key keeps pairs from being found that displace others.
    pub fn new(key: sockmon::line::LineKey) -> Stations {
        Stations { key, pairs: vec![None; PAIRS], last: None }
    }

    fn place(&self, one: IpAddr, other: IpAddr, realm: u32) -> usize {
        (sockmon::line::hash(&self.key, one, other) ^ realm) as usize % PAIRS
    }

    /// A packet from `source` to `destination` went on with this header.
    pub fn learn(&mut self, source: IpAddr, destination: IpAddr, link: &Link) {
        let seen = Some(([source, destination], *link));
        if self.last == seen {
            return;
        }
        let at = self.place(source, destination, link.number());
        if let Some(place) = self.pairs.get_mut(at) {
            *place = seen;
        }
        self.last = seen;
    }

    /// The header of a packet from `source` to `destination` of that VLAN.
    pub fn find(&self, source: IpAddr, destination: IpAddr, realm: u32) -> Option<Link> {
        let found = self.pairs.get(self.place(source, destination, realm))?.as_ref();
        let (pair, link) = found.filter(|(_, link)| link.number() == realm)?;
        let link = match *pair == [source, destination] {
            true => Some(*link),
            false if *pair == [destination, source] => link.turned(),
            false => None,
        };
        link.map(|link| link.with_type(if source.is_ipv4() { 4 } else { 6 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tags: &[[u8; 4]], kind: u16) -> Vec<u8> {
        let mut out = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        tags.iter().for_each(|tag| out.extend(tag));
        out.extend(kind.to_be_bytes());
        out.extend([0x45; 20]);
        out
    }

    #[test]
    fn tags_of_the_kernel_go_back_to_their_place() {
        let inner = [0x81, 0, 0, 7];
        let (link, before) = Link::of(&frame(&[inner], eth::IPV4), Some([0x88, 0xa8, 0x20, 9])).unwrap();
        assert_eq!(before, 18);
        assert_eq!(link.octets()[12..], [0x88, 0xa8, 0x20, 9, 0x81, 0, 0, 7, 8, 0]);
        assert_eq!(link.ethertype(), eth::IPV4);
        let number = |tags: &[[u8; 4]]| Link::of(&frame(tags, eth::IPV4), None).unwrap().0.number();
        assert_eq!(link.number(), number(&[[0x88, 0xa8, 0, 9], inner]), "priority is not part of it");
        assert_ne!(link.number(), number(&[[0x81, 0, 0, 9], inner]), "whose number it is, is");
        assert_eq!(number(&[[0x81, 0, 0x60, 0]]), number(&[]), "VLAN 0 is none");
        let (plain, before) = Link::of(&frame(&[], eth::IPV6), None).unwrap();
        assert_eq!((before, plain.ethertype()), (14, eth::IPV6));
        assert_ne!(plain.number(), link.number());
        let three = frame(&[inner, inner], eth::IPV4);
        assert_eq!(Link::of(&three, Some(inner)).unwrap().0.octets().len(), LONGEST);
        assert!(Link::of(&three[..13], None).is_none());
        // A third tag in the frame is not looked behind: its type is no IP.
        let deep = frame(&[inner, inner, inner], eth::IPV4);
        assert_eq!(Link::of(&deep, None).unwrap().0.ethertype(), 0x8100);
    }

    #[test]
    fn groups_are_not_answered_and_stations_are_found_both_ways() {
        let (link, _) = Link::of(&frame(&[], eth::IPV4), None).unwrap();
        let turned = link.turned().unwrap();
        assert_eq!(
            (&turned.octets()[..6], &turned.octets()[6..12]),
            (&link.octets()[6..12], &link.octets()[..6])
        );
        let mut group = frame(&[], eth::IPV4);
        group[0] = 0xff;
        assert!(Link::of(&group, None).unwrap().0.turned().is_none());
        let mut stations = Stations::new([7; 16]);
        let [a, b, c] = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|text| text.parse().unwrap());
        stations.learn(a, b, &link);
        let realm = link.number();
        assert_eq!((stations.find(a, b, realm), stations.find(b, a, realm)), (Some(link), Some(turned)));
        assert_eq!(stations.find(a, b, realm + 1), None, "another VLAN");
        assert_eq!(stations.find(a, c, realm), None);
    }
}
