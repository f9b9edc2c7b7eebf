//! What an outer packet carries: ESP in UDP, bare ESP or AH, or something else on the port (RFC 3948 section 2).

use crate::proof::SealProof;
use sadb::sa::Encapsulation;
use sadb::{Endpoints, SaConfig};
use std::net::IpAddr;
use std::ops::Range;
use wire::ah::Ah;
use wire::esp::{Esp, UdpPayload, classify};
use wire::ip::Headers;
use wire::ipcomp::IpComp;
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::udp::{self, Udp, UdpRepr};
use wire::{DropReason, Packet, Pool, checksum, options, protocol, stage};

/// The port of ESP in UDP (RFC 3948 section 2.1).
pub const PORT: u16 = 4500;

/// Write the UDP header of a datagram of `len` octets, without checksum.
pub(crate) fn write(header: &mut [u8], ends: &Endpoints, len: usize) -> Result<(), DropReason> {
    let payload_len = len.saturating_sub(udp::HEADER_LEN);
    udp::emit(header, &UdpRepr { src_port: ends.local_port, dst_port: ends.remote_port, payload_len })?;
    Ok(())
}

/// Complete the checksum where the standards ask for one: always over IPv6 (RFC 8200 section 8.1). Over IPv4 it stays
/// zero (RFC 3948 section 2.1); the kernel's UDP socket computes its own anyway.
pub(crate) fn fill_checksum(datagram: &mut [u8], ends: &Endpoints) -> Result<(), DropReason> {
    if ends.remote.is_ipv6() {
        Udp::new_checked(datagram)?.fill_checksum(ends.local, ends.remote);
    }
    Ok(())
}

/// The addresses for the checksum of a UDP header between these ends, where the standards ask for one: see
/// [`fill_checksum`].
#[inline]
pub(crate) fn checksum_ends(ends: &Endpoints) -> Option<(IpAddr, IpAddr)> {
    ends.remote.is_ipv6().then_some((ends.local, ends.remote))
}

/// A NAT keepalive for the peer of this association (RFC 3948 section 2.3): one octet 0xff in UDP. `packet` is empty,
/// its buffer comes from `pool`. `None` if the association is bare, or the buffer too small.
pub fn keepalive(
    config: &SaConfig,
    mut packet: Packet<stage::Scheduled>,
    pool: &mut Pool,
) -> Option<Packet<stage::Outer>> {
    const PAYLOAD: [u8; 1] = [0xff];
    let ends = &config.endpoints;
    let ip = if ends.remote.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    let payload_len = udp::HEADER_LEN + PAYLOAD.len();
    let is_udp = config.options.encapsulation == Encapsulation::Udp;
    let bytes = if is_udp { packet.buf_mut().push_back(ip + payload_len) } else { None };
    let written = bytes.and_then(|bytes| {
        write_keepalive(bytes, ip, ends, payload_len).ok()?;
        bytes.last_mut().map(|last| *last = PAYLOAD[0])?;
        fill_checksum(bytes.get_mut(ip..)?, ends).ok()?;
        Some(SealProof::done())
    });
    match written {
        Some(sealed) => Some(packet.advance(&sealed)),
        None => {
            pool.put(packet.into_buf());
            None
        }
    }
}

fn write_keepalive(
    bytes: &mut [u8],
    ip: usize,
    ends: &Endpoints,
    payload_len: usize,
) -> Result<(), DropReason> {
    const TTL: u8 = 64;
    match (ends.local, ends.remote) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let protocol = protocol::UDP;
            let repr = Ipv4Repr { src, dst, protocol, ttl: TTL, tos: 0, id: 0, df: true, payload_len };
            ipv4::emit(bytes, &repr)?;
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: protocol::UDP,
                hop_limit: TTL,
                traffic_class: 0,
                flow_label: 0,
                payload_len,
            };
            ipv6::emit(bytes, &repr)?;
        }
        _ => return Err(DropReason::BadHeader),
    }
    write(bytes.get_mut(ip..).ok_or(DropReason::NoRoom)?, ends, payload_len)
}

/// What was read from the outer headers of a packet of an association: all that decapsulation needs of them.
#[derive(Clone, Copy, Debug)]
pub struct Outer {
    /// The address of the sender.
    pub src: IpAddr,
    /// The address of this host.
    pub dst: IpAddr,
    /// The UDP port of the sender; `None` without UDP.
    pub src_port: Option<u16>,
    /// The IP protocol number: ESP, AH, IPComp, or IP in IP by the version inside.
    pub protocol: u8,
    /// The type of service octet: DSCP and ECN.
    pub tos: u8,
    /// Time to live of IPv4, hop limit of IPv6.
    pub ttl: u8,
    /// The association's name: SPI, or CPI of IPComp. Zero for IP in IP, which has none on the wire.
    pub spi: u32,
    /// The sequence number as it travels: the low 32 bits.
    pub sequence: u32,
    /// The checksum of the UDP header is there and wrong. What a UDP socket gave has none any more; over IPv6, too, a
    /// tunnel may do without one (RFC 6935).
    pub corrupt: bool,
    /// Offset in the packet at which the protocol's header starts.
    pub(crate) at: usize,
    /// Offset at which the packet ends.
    pub(crate) end: usize,
    /// Offset of the octet that names what follows the headers in front.
    pub(crate) named_at: usize,
}

impl Outer {
    /// Find what is protected in a whole outer IP packet from the wire, whose headers are known. UDP counts when it is
    /// for `port`.
    ///
    /// # Errors
    /// [`DropReason::Keepalive`], [`DropReason::IkeUnsupported`], [`DropReason::NotEsp`], [`DropReason::EspTooShort`],
    /// [`DropReason::AhTooShort`], [`DropReason::Fragment`], [`DropReason::RoutingUnfinished`],
    /// [`DropReason::BadOption`], and what the UDP header is refused for. [`DropReason::Unkeyed`] for IPComp and IP in
    /// IP: they prove nothing, and count only inside an association that does ([`Self::nested`]).
    #[inline]
    pub fn find(bytes: &[u8], headers: &Headers, port: u16) -> Result<Outer, DropReason> {
        match headers.protocol {
            protocol::UDP => Outer::in_udp(bytes, headers, port),
            protocol::ESP | protocol::AH => Outer::bare(bytes, headers),
            protocol::IPCOMP | protocol::IPV4 | protocol::IPV6 => Err(DropReason::Unkeyed),
            _ => Err(DropReason::NotEsp),
        }
    }

    /// Find what an inner packet that came out of a keyed association is wrapped in: the next round of a bundle. UDP is
    /// not looked into.
    ///
    /// # Errors
    /// As [`Self::find`]; [`DropReason::IpCompTooShort`].
    pub fn nested(bytes: &[u8], headers: &Headers) -> Result<Outer, DropReason> {
        match headers.protocol {
            protocol::ESP | protocol::AH | protocol::IPCOMP | protocol::IPV4 | protocol::IPV6 => {
                Outer::bare(bytes, headers)
            }
            _ => Err(DropReason::NotEsp),
        }
    }

    fn in_udp(bytes: &[u8], headers: &Headers, port: u16) -> Result<Outer, DropReason> {
        let udp = Udp::new_checked(headers.upper(bytes))?;
        if udp.dst_port() != port {
            return Err(DropReason::NotEsp);
        }
        if headers.has_options {
            check_arrived(bytes, headers)?;
        }
        match classify(udp.payload()) {
            UdpPayload::Esp => {}
            UdpPayload::Keepalive => return Err(DropReason::Keepalive),
            UdpPayload::Ike => return Err(DropReason::IkeUnsupported),
            UdpPayload::Other => return Err(DropReason::NotEsp),
        }
        // The length of the datagram decides, not that of the packet around it.
        let at = headers.header_len + udp::HEADER_LEN;
        let esp = bytes.get(at..at + udp.payload().len()).ok_or(DropReason::Truncated)?;
        let header = Esp::new_checked(esp).map_err(|_| DropReason::EspTooShort)?;
        let name = (header.spi(), header.sequence());
        let corrupt = udp.checksum() != 0
            && checksum::verify_transport(bytes, headers) == Some(false)
            && !checksum::is_partial(bytes, headers);
        let outer = Outer::at(headers, protocol::ESP, Some(udp.src_port()), name, at..at + esp.len());
        Ok(Outer { corrupt, ..outer })
    }

    fn bare(bytes: &[u8], headers: &Headers) -> Result<Outer, DropReason> {
        if headers.fragment.is_some() {
            return Err(DropReason::Fragment);
        }
        if headers.has_options {
            check_arrived(bytes, headers)?;
        }
        let upper = headers.upper(bytes);
        let name = match headers.protocol {
            protocol::ESP => {
                let header = Esp::new_checked(upper).map_err(|_| DropReason::EspTooShort)?;
                (header.spi(), header.sequence())
            }
            protocol::AH => {
                let header = Ah::new_checked(upper).map_err(|_| DropReason::AhTooShort)?;
                (header.spi(), header.sequence())
            }
            protocol::IPCOMP => {
                let header = IpComp::new_checked(upper).map_err(|_| DropReason::IpCompTooShort)?;
                (header.cpi().into(), 0)
            }
            _ => (0, 0),
        };
        let at = headers.header_len;
        Ok(Outer::at(headers, headers.protocol, None, name, at..at + upper.len()))
    }

    fn at(
        headers: &Headers,
        protocol: u8,
        src_port: Option<u16>,
        name: (u32, u32),
        place: Range<usize>,
    ) -> Outer {
        Outer {
            src: headers.src,
            dst: headers.dst,
            src_port,
            protocol,
            tos: headers.tos,
            ttl: headers.ttl,
            spi: name.0,
            sequence: name.1,
            corrupt: false,
            at: place.start,
            end: place.end,
            named_at: headers.protocol_at,
        }
    }

    /// Octets of the IP headers in front.
    pub(crate) fn headers(&self) -> usize {
        if self.src_port.is_some() { self.at - udp::HEADER_LEN } else { self.at }
    }
}

/// Refuse a packet whose source route or routing header is unfinished: only its last destination may open it.
#[cold]
fn check_arrived(bytes: &[u8], headers: &Headers) -> Result<(), DropReason> {
    let on_the_way = if headers.version == 4 {
        options::is_on_the_way(bytes.get(..headers.header_len).unwrap_or_default())?
    } else {
        ipv6::walk(bytes.get(..headers.total_len).unwrap_or_default())?.routing.is_some()
    };
    if on_the_way { Err(DropReason::RoutingUnfinished) } else { Ok(()) }
}
