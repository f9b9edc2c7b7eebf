//! The packets of one connection: how they are made, and what a reader sees of them.

use scrub::Side;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::ip::Headers;
use wire::ipv4::Ipv4Repr;
use wire::ipv6::Ipv6Repr;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::{ah, checksum, ip, ipv4, ipv6, protocol};

/// The port of the service that is inside.
pub const SERVICE: u16 = 80;

/// The things that the packets of one connection share.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Whether packets are of IPv6 instead of IPv4.
    pub v6: bool,
    /// The port of the outside host.
    pub port: u16,
    /// The initial sequence number of the outside host.
    pub isn: u32,
    /// The initial sequence number of the inside host.
    pub inside_isn: u32,
    /// Whether both hosts have timestamps.
    pub timestamps: bool,
    /// The window scales that the hosts offer: outside, inside.
    pub scale: [Option<u8>; 2],
    /// The window field of the inside host, not scaled.
    pub window: u16,
}

impl Default for Scene {
    fn default() -> Scene {
        Scene {
            v6: false,
            port: 40_000,
            // The numbers wrap inside of the stream.
            isn: u32::MAX - 2,
            inside_isn: 7_000,
            timestamps: false,
            scale: [None; 2],
            window: 8_192,
        }
    }
}

/// A segment that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// The side that sends it, by its addresses.
    pub sender: Side,
    /// The sequence number of the segment.
    pub seq: u32,
    /// The acknowledgment number of the segment.
    pub ack: u32,
    /// The flags of the segment.
    pub flags: Flags,
    /// The window field of the segment.
    pub window: u16,
    /// The urgent pointer of the segment.
    pub urgent: u16,
    /// The time to live of the packet.
    pub ttl: u8,
    /// The timestamp value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// The shift of the window scale option.
    pub scale: Option<u8>,
    /// Whether it has an MD5 option.
    pub md5: bool,
    /// Whether its checksum is wrong.
    pub spoilt: bool,
    /// Whether it is behind an authentication header.
    pub signed: bool,
    /// The data of the segment.
    pub payload: &'a [u8],
}

impl Draft<'_> {
    /// A segment with nothing in it.
    pub fn plain(sender: Side, seq: u32, ack: u32, flags: Flags) -> Draft<'static> {
        Draft {
            sender,
            seq,
            ack,
            flags,
            window: 8_192,
            urgent: 0,
            ttl: 64,
            timestamps: None,
            scale: None,
            md5: false,
            spoilt: false,
            signed: false,
            payload: &[],
        }
    }

    /// Write the whole packet into `out`.
    pub fn write(&self, scene: &Scene, out: &mut Vec<u8>) {
        let mut options = [1_u8; 40];
        let mut used = 0;
        let mut option = |bytes: &[u8]| {
            options[used..used + bytes.len()].copy_from_slice(bytes);
            used += bytes.len();
        };
        if self.flags.contains(Flags::SYN) {
            option(&[2, 4, 0x05, 0x78]);
        }
        if let Some(scale) = self.scale {
            option(&[1, 3, 3, scale]);
        }
        if let Some((value, echo)) = self.timestamps {
            option(&[1, 1, 8, 10]);
            option(&value.to_be_bytes());
            option(&echo.to_be_bytes());
        }
        if self.md5 {
            option(&[1, 1, 19, 18]);
            option(&[0x5a; 16]);
        }
        let tcp_len = 20 + used + self.payload.len();
        let outward = self.sender == Side::Inside;
        out.clear();
        if scene.v6 {
            let hosts = [
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2),
            ];
            let [src, dst] = turned(hosts, outward);
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: protocol::TCP,
                hop_limit: self.ttl,
                traffic_class: 0,
                flow_label: 0,
                payload_len: tcp_len,
            };
            out.resize(ipv6::HEADER_LEN, 0);
            ipv6::emit(out, &repr).expect("it fits");
        } else {
            let hosts = [Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(192, 0, 2, 2)];
            let [src, dst] = turned(hosts, outward);
            let repr = Ipv4Repr {
                src,
                dst,
                protocol: protocol::TCP,
                ttl: self.ttl,
                tos: 0,
                id: 1,
                df: true,
                payload_len: tcp_len,
            };
            out.resize(ipv4::HEADER_LEN, 0);
            ipv4::emit(out, &repr).expect("it fits");
        }
        let [from, to] = turned([scene.port, SERVICE], outward);
        out.extend(from.to_be_bytes());
        out.extend(to.to_be_bytes());
        out.extend(self.seq.to_be_bytes());
        out.extend(self.ack.to_be_bytes());
        let offset = ((20 + used) as u16 / 4) << 12;
        out.extend((offset | self.flags.0).to_be_bytes());
        out.extend(self.window.to_be_bytes());
        out.extend([0, 0]);
        out.extend(self.urgent.to_be_bytes());
        out.extend(&options[..used]);
        out.extend(self.payload);
        let headers = Headers::parse(out).expect("a packet of our own");
        checksum::complete_transport(out, &headers).expect("it is whole");
        if self.spoilt {
            let view = Tcp::new_checked(&mut out[headers.header_len..]);
            let mut view = view.expect("a segment of our own");
            let check = view.checksum();
            view.set_checksum(check ^ 0x0101);
        }
        if self.signed {
            sign(out, &headers);
        }
    }
}

/// Put an authentication header in front of the transport. Nobody here has its key.
fn sign(out: &mut Vec<u8>, headers: &Headers) {
    const ICV: usize = 12;
    let len = ah::header_len(ICV, headers.version);
    let transport = out.split_off(headers.header_len);
    out.resize(headers.header_len + len, 0);
    ah::emit(&mut out[headers.header_len..], headers.protocol, 0x1234, 1, len).expect("it fits");
    out.extend(transport);
    ip::set_protocol(out, headers.protocol_at, protocol::AH);
    let (mut longer, total) = (*headers, out.len());
    ip::put_total_len(out, &mut longer, total).expect("it fits");
}

fn turned<T>([client, service]: [T; 2], outward: bool) -> [T; 2] {
    if outward { [service, client] } else { [client, service] }
}

/// The parts of a segment that a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment<'a> {
    /// The sequence number of the segment.
    pub seq: u32,
    /// The acknowledgment number of the segment.
    pub ack: u32,
    /// The flags of the segment.
    pub flags: Flags,
    /// The window field of the segment.
    pub window: u16,
    /// The urgent pointer of the segment.
    pub urgent: u16,
    /// The time to live of the packet.
    pub ttl: u8,
    /// The timestamp of the sender.
    pub timestamp: Option<u32>,
    /// The shift of the window scale option, at most 14.
    pub scale: Option<u8>,
    /// Whether it has an MD5 option.
    pub md5: bool,
    /// Whether its checksum is right.
    pub sound: bool,
    /// The data of the segment.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Read a packet; `None` if it is no whole TCP packet with a right IP header.
    pub fn parse(packet: &'a [u8]) -> Option<Segment<'a>> {
        let outer = Headers::parse(packet).ok()?;
        // A reader that does not go past an authentication header is one that loses the packet.
        let headers = ah::behind(packet, &outer).ok()?;
        if headers.protocol != protocol::TCP || headers.fragment.is_some() || !ip::checksum_ok(packet, &outer)
        {
            return None;
        }
        let bytes = packet.get(headers.header_len..headers.total_len)?;
        let view = Tcp::new_checked(bytes).ok()?;
        let mut segment = Segment {
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            ttl: headers.ttl,
            timestamp: None,
            scale: None,
            md5: false,
            sound: checksum::verify_transport(packet, &headers) == Some(true),
            payload: bytes.get(view.header_len()..)?,
        };
        for option in view.options() {
            match option {
                Ok(TcpOption::Timestamps { value, .. }) => segment.timestamp = Some(value),
                Ok(TcpOption::WindowScale(shift)) => segment.scale = Some(shift.min(14)),
                Ok(TcpOption::Other { kind: 19, .. }) => segment.md5 = true,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Some(segment)
    }

    /// Whether all of `flags` are set.
    pub fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }
}
