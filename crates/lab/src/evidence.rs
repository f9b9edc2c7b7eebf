//! What was seen on the wire, and what each frame is: the eavesdropper's judgement.

use crate::side::Side;
use memchr::memmem;
use netio::Result;
use netio::pcap::{LinkType, Writer};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use wire::eth::{self, Ethernet};
use wire::icmp::{Icmpv4, Icmpv6};
use wire::ip::{self, Headers};
use wire::quote::Quoted;
use wire::udp::Udp;
use wire::{Flow, protocol};

/// Port of ESP in UDP (RFC 3948).
const ESP_PORT: u16 = 4500;

/// Fragmented datagrams remembered at a time; the wire keeps order, so their fragments come close together.
const FRAGMENTED: usize = 64;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// ESP: in UDP to or from port 4500, a fragment of that, or protocol 50.
    Esp,
    /// What an Ethernet needs: ARP, neighbour and router discovery, group membership (IGMP, MLD). And ICMP errors about
    /// ESP, which a host sends when its daemon is gone: they quote ciphertext and name no program's flow.
    Housekeeping,
    /// Any other IP packet: it is readable, or would be to a better reader.
    Clear,
    /// Not an IP packet at all.
    Other,
}

/// One frame on the wire.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The time of arrival, since 1970.
    pub time: Duration,
    /// The host that sent the frame.
    pub from: Side,
    /// What the frame is by the judgement of the eavesdropper.
    pub class: Class,
    /// The flow, as its sender sees it; `None` if it is no IP or the IP header is broken.
    pub flow: Option<Flow>,
    /// The whole frame, Ethernet header first.
    pub frame: Vec<u8>,
}

impl Observation {
    /// The IP packet, Ethernet padding included; empty if there is none.
    pub fn packet(&self) -> &[u8] {
        LinkType::Ethernet.ip(&self.frame).unwrap_or_default()
    }
}

impl std::fmt::Display for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, class, len) = (self.from.name(), self.class, self.frame.len());
        match self.flow {
            Some(flow) => write!(f, "{from}: {class:?} {flow}, {len} octets"),
            None => write!(f, "{from}: {class:?}, {len} octets"),
        }
    }
}

/// Everything seen up to a moment. Only [`Evidence::is_complete`] evidence proves an absence.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Frames kept, in order of arrival.
    pub frames: Vec<Observation>,
    /// Number of ESP frames seen, kept or not.
    pub esp: u64,
    /// Octets of the frames of ESP: how many frames they are is up to the offloads of the wire.
    pub esp_octets: u64,
    /// Number of frames of housekeeping seen, kept or not.
    pub housekeeping: u64,
    /// Number of frames with a clear IP packet seen, kept or not.
    pub clear: u64,
    /// Number of frames seen that are not IP, kept or not.
    pub other: u64,
    /// Frames that the kernel had no room for: unseen.
    pub lost: u64,
    /// Frames judged and searched, but not kept since memory is bounded.
    pub not_kept: u64,
    /// Watched needles that were found in any frame, kept or not.
    pub found: Vec<Vec<u8>>,
}

impl Evidence {
    /// Whether nothing was lost: what is not here was not on the wire then.
    pub fn is_complete(&self) -> bool {
        self.lost == 0
    }

    /// Clear IP packets whose flow (seen from the sender) passes `filter`. Fragments behind the first have ports 0.
    pub fn clear_packets(&self, filter: impl Fn(&Flow) -> bool) -> Vec<&Observation> {
        let wanted =
            |seen: &&Observation| seen.class == Class::Clear && seen.flow.as_ref().is_some_and(&filter);
        self.frames.iter().filter(wanted).collect()
    }

    /// Every clear IP packet, broken ones included.
    pub fn all_clear(&self) -> Vec<&Observation> {
        self.frames.iter().filter(|seen| seen.class == Class::Clear).collect()
    }

    /// ESP packets that were kept.
    pub fn esp_packets(&self) -> Vec<&Observation> {
        self.frames.iter().filter(|seen| seen.class == Class::Esp).collect()
    }

    /// Whether `needle` is in a kept frame of any class, or was watched and found.
    pub fn contains_bytes(&self, needle: &[u8]) -> bool {
        let finder = memmem::Finder::new(needle);
        self.found.iter().any(|found| found == needle)
            || self.frames.iter().any(|seen| finder.find(&seen.frame).is_some())
    }

    /// Write what was kept to a capture file of Ethernet frames.
    pub fn write_pcap(&self, path: &Path) -> Result<()> {
        let mut writer = Writer::create_with(path, LinkType::Ethernet)?;
        for seen in &self.frames {
            let len = u32::try_from(seen.frame.len()).unwrap_or(u32::MAX);
            writer.write(seen.time, &seen.frame, len)?;
        }
        writer.finish().map(drop)
    }

    pub(crate) fn count(&mut self, class: Class, octets: usize) {
        if class == Class::Esp {
            self.esp_octets += octets as u64;
        }
        *match class {
            Class::Esp => &mut self.esp,
            Class::Housekeeping => &mut self.housekeeping,
            Class::Clear => &mut self.clear,
            Class::Other => &mut self.other,
        } += 1;
    }
}

/// Judges frames in the order in which they crossed the wire.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// Source, destination and id of datagrams whose first fragment was ESP, bare or in UDP.
    esp_fragments: VecDeque<(IpAddr, IpAddr, u32)>,
}

impl Judge {
    /// Class and flow of a frame.
    pub(crate) fn judge(&mut self, frame: &[u8]) -> (Class, Option<Flow>) {
        let Ok(view) = Ethernet::new_checked(frame) else { return (Class::Other, None) };
        let ethertype = view.ethertype();
        if ethertype == ARP {
            return (Class::Housekeeping, None);
        }
        if !matches!(ethertype, eth::IPV4 | eth::IPV6) {
            return (Class::Other, None);
        }
        let packet = view.payload();
        // A broken header hides nothing: the frame is as readable as any.
        let Ok(headers) = Headers::parse(packet) else { return (Class::Clear, None) };
        let packet = packet.get(..headers.total_len).unwrap_or(packet);
        let flow = ip::flow(packet, &headers, true);
        (self.class(packet, &headers, &flow), Some(flow))
    }

    fn class(&mut self, packet: &[u8], headers: &Headers, flow: &Flow) -> Class {
        if let Some(fragment) = headers.fragment {
            let key = (headers.src, headers.dst, fragment.id);
            if fragment.offset != 0 {
                let known = self.esp_fragments.contains(&key);
                return if known { Class::Esp } else { Class::Clear };
            }
            // The length field covers the whole datagram, so the checked view refuses a first fragment.
            let port = flow.local_port == ESP_PORT || flow.remote_port == ESP_PORT;
            if headers.protocol == protocol::ESP || headers.protocol == protocol::UDP && port {
                self.esp_fragments.push_back(key);
                self.esp_fragments.drain(..self.esp_fragments.len().saturating_sub(FRAGMENTED));
                return Class::Esp;
            }
            return Class::Clear;
        }
        match headers.protocol {
            protocol::ESP => Class::Esp,
            IGMP => Class::Housekeeping,
            protocol::ICMP | protocol::ICMPV6 if is_about_esp(headers, packet) => Class::Housekeeping,
            // Group membership (130-132, 143), router and neighbour discovery (133-137).
            protocol::ICMPV6 if matches!(flow.local_port >> 8, 130..=137 | 143) => Class::Housekeeping,
            protocol::UDP => match Udp::new_checked(headers.upper(packet)) {
                Ok(udp) if udp.src_port() == ESP_PORT || udp.dst_port() == ESP_PORT => Class::Esp,
                _ => Class::Clear,
            },
            _ => Class::Clear,
        }
    }
}

/// Whether an ICMP message is an error that quotes ESP.
fn is_about_esp(headers: &Headers, packet: &[u8]) -> bool {
    let upper = headers.upper(packet);
    let quoted = match headers.protocol {
        protocol::ICMP => {
            Icmpv4::new_checked(upper).ok().filter(Icmpv4::is_error).map(|m| m.payload().to_vec())
        }
        _ => Icmpv6::new_checked(upper).ok().filter(Icmpv6::is_error).map(|m| m.payload().to_vec()),
    };
    let quoted = quoted.and_then(|quoted| Quoted::read(headers.version, &quoted));
    quoted.is_some_and(|quoted| match quoted.protocol {
        protocol::ESP => true,
        protocol::UDP => quoted.ports.is_some_and(|(src, dst)| src == ESP_PORT || dst == ESP_PORT),
        _ => false,
    })
}

/// The Ethertype number of ARP.
const ARP: u16 = 0x0806;
/// IP protocol of group membership.
const IGMP: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
    const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

    fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &ethertype.to_be_bytes(), payload].concat()
    }

    fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = [&[0; 20], payload].concat();
        let repr = wire::ipv4::Ipv4Repr {
            src: A,
            dst: B,
            protocol,
            ttl: 64,
            tos: 0,
            id: 7,
            df: false,
            payload_len: payload.len(),
        };
        wire::ipv4::emit(&mut packet, &repr).unwrap();
        packet
    }

    /// Flags and offset in units of eight octets.
    fn fragment(mut packet: Vec<u8>, id: u8, more: bool, offset: u8) -> Vec<u8> {
        packet[5] = id;
        packet[6] = u8::from(more) << 5;
        packet[7] = offset;
        packet
    }

    fn v6(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = [&[0; 40], payload].concat();
        let repr = wire::ipv6::Ipv6Repr {
            src: A6,
            dst: B6,
            next_header,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            payload_len: payload.len(),
        };
        wire::ipv6::emit(&mut packet, &repr).unwrap();
        packet
    }

    fn udp(src_port: u16, dst_port: u16) -> [u8; 16] {
        let mut out = [0; 16];
        wire::udp::emit(&mut out, &wire::udp::UdpRepr { src_port, dst_port, payload_len: 8 }).unwrap();
        out
    }

    fn class(frame: &[u8]) -> Class {
        Judge::default().judge(frame).0
    }

    /// An ICMPv4 "port unreachable" about a packet.
    fn unreachable(about: &[u8]) -> Vec<u8> {
        v4(protocol::ICMP, &[&[3, 3, 0, 0, 0, 0, 0, 0], about].concat())
    }

    #[test]
    fn every_frame_has_a_class() {
        let table = [
            (ethernet(eth::IPV4, &unreachable(&v4(protocol::UDP, &udp(9, 4500)))), Class::Housekeeping),
            (ethernet(eth::IPV4, &unreachable(&v4(protocol::ESP, &[0; 8]))), Class::Housekeeping),
            (ethernet(eth::IPV4, &unreachable(&v4(protocol::UDP, &udp(9, 53)))), Class::Clear),
            (ethernet(eth::IPV4, &unreachable(&v4(protocol::TCP, &[0x11; 20]))), Class::Clear),
            (ethernet(ARP, &[0; 28]), Class::Housekeeping),
            (ethernet(0x88cc, &[0; 28]), Class::Other),
            (vec![1, 2, 3], Class::Other),
            (ethernet(eth::IPV4, &v4(protocol::ESP, &[0; 40])), Class::Esp),
            (ethernet(eth::IPV4, &v4(protocol::UDP, &udp(4500, 9))), Class::Esp),
            (ethernet(eth::IPV4, &v4(protocol::UDP, &udp(9, 4500))), Class::Esp),
            (ethernet(eth::IPV4, &v4(protocol::UDP, &udp(9, 53))), Class::Clear),
            (ethernet(eth::IPV4, &v4(protocol::UDP, &[0; 4])), Class::Clear),
            (ethernet(eth::IPV4, &v4(protocol::TCP, &[0; 20])), Class::Clear),
            (ethernet(eth::IPV4, &v4(protocol::ICMP, &[8; 8])), Class::Clear),
            (ethernet(eth::IPV4, &v4(IGMP, &[0x16; 8])), Class::Housekeeping),
            (ethernet(eth::IPV4, &[0x45; 3]), Class::Clear),
            (ethernet(eth::IPV6, &v6(protocol::UDP, &udp(4500, 4500))), Class::Esp),
            (ethernet(eth::IPV6, &v6(protocol::ICMPV6, &[135, 0, 0, 0, 0, 0, 0, 0])), Class::Housekeeping),
            (ethernet(eth::IPV6, &v6(protocol::ICMPV6, &[143, 0, 0, 0, 0, 0, 0, 0])), Class::Housekeeping),
            (ethernet(eth::IPV6, &v6(protocol::ICMPV6, &[128, 0, 0, 0, 0, 0, 0, 0])), Class::Clear),
            (ethernet(eth::IPV6, &v6(protocol::ICMPV6, &[1, 4, 0, 0, 0, 0, 0, 0])), Class::Clear),
        ];
        for (frame, expected) in table {
            assert_eq!(class(&frame), expected, "{frame:02x?}");
        }
    }

    #[test]
    fn a_fragment_is_esp_only_behind_a_first_one_that_is() {
        let mut judge = Judge::default();
        let mut class = |packet: Vec<u8>| judge.judge(&ethernet(eth::IPV4, &packet)).0;
        let esp = v4(protocol::UDP, &udp(4500, 4500));
        let other = v4(protocol::UDP, &udp(53, 53));
        assert_eq!(
            class(fragment(esp.clone(), 1, false, 2)),
            Class::Clear,
            "its first fragment was not seen"
        );
        assert_eq!(class(fragment(esp.clone(), 1, true, 0)), Class::Esp);
        assert_eq!(class(fragment(other.clone(), 1, true, 2)), Class::Esp);
        assert_eq!(class(fragment(esp.clone(), 2, false, 2)), Class::Clear, "another datagram");
        assert_eq!(class(fragment(other.clone(), 3, true, 0)), Class::Clear);
        assert_eq!(class(fragment(other, 3, false, 2)), Class::Clear);
        let bare = v4(protocol::ESP, &[7; 40]);
        assert_eq!(class(fragment(bare.clone(), 4, true, 0)), Class::Esp);
        assert_eq!(class(fragment(bare, 4, false, 2)), Class::Esp);
        // Memory is bounded: what is too long ago counts as clear, never the other way round.
        for id in 10..10 + FRAGMENTED as u8 {
            assert_eq!(class(fragment(esp.clone(), id, true, 0)), Class::Esp);
        }
        assert_eq!(class(fragment(esp, 1, false, 4)), Class::Clear);
    }

    #[test]
    fn flows_are_those_of_the_sender() {
        let (_, flow) = Judge::default().judge(&ethernet(eth::IPV4, &v4(protocol::UDP, &udp(1000, 53))));
        let flow = flow.unwrap();
        assert_eq!((flow.local, flow.local_port, flow.remote_port), (IpAddr::V4(A), 1000, 53));
    }

    #[test]
    fn what_is_kept_can_be_asked() {
        let frame = ethernet(eth::IPV4, &v4(protocol::UDP, &udp(1000, 53)));
        let (class, flow) = Judge::default().judge(&frame);
        let seen = Observation { time: Duration::ZERO, from: Side::Alice, class, flow, frame };
        let mut evidence = Evidence { found: vec![b"watched".to_vec()], ..Evidence::default() };
        evidence.count(class, seen.frame.len());
        evidence.frames.push(seen);
        assert_eq!(evidence.clear, 1);
        assert_eq!(evidence.clear_packets(|f| f.remote_port == 53).len(), 1);
        assert!(evidence.clear_packets(|f| f.remote_port == 54).is_empty());
        assert!(evidence.contains_bytes(b"watched") && evidence.contains_bytes(&[0, 53]));
        assert!(!evidence.contains_bytes(b"absent"));
        assert_eq!(evidence.frames[0].packet().len(), 36);
        assert_eq!(
            evidence.frames[0].to_string(),
            "alice: Clear 192.0.2.1:1000 -> 192.0.2.2:53/udp, 50 octets"
        );
        assert!(evidence.is_complete());
        evidence.lost = 1;
        assert!(!evidence.is_complete());
    }
}
