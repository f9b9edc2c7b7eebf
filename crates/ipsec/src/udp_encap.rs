//! What an outer packet carries: ESP in UDP, bare ESP, or something else on the port (RFC 3948 section 2).

use sadb::Endpoints;
use std::net::IpAddr;
use wire::esp::{Esp, UdpPayload, classify};
use wire::ip::Headers;
use wire::udp::{self, Udp, UdpRepr};
use wire::{DropReason, protocol};

/// The port of ESP in UDP (RFC 3948 section 2.1).
pub const PORT: u16 = 4500;

/// Write the UDP header of a datagram of `len` octets, without checksum.
pub(crate) fn write(header: &mut [u8], ends: &Endpoints, len: usize) -> Result<(), DropReason> {
    let payload_len = len - udp::HEADER_LEN;
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

/// What was read from the outer headers of an ESP packet: all that decapsulation needs of them.
#[derive(Clone, Copy, Debug)]
pub struct Outer {
    /// The sender's address.
    pub src: IpAddr,
    /// This host's address.
    pub dst: IpAddr,
    /// The sender's UDP port; `None` for ESP without UDP.
    pub src_port: Option<u16>,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// The association's name.
    pub spi: u32,
    /// The sequence number as it travels: the low 32 bits.
    pub sequence: u32,
    /// Where the ESP header starts.
    pub(crate) at: usize,
    /// Where the ESP packet ends.
    pub(crate) end: usize,
}

impl Outer {
    /// Find the ESP packet in a whole outer IP packet whose headers are known. UDP counts when it is for `port`.
    ///
    /// # Errors
    /// [`DropReason::Keepalive`], [`DropReason::IkeUnsupported`], [`DropReason::NotEsp`], [`DropReason::EspTooShort`],
    /// and what the UDP header is refused for.
    pub fn find(bytes: &[u8], headers: &Headers, port: u16) -> Result<Outer, DropReason> {
        let upper = headers.upper(bytes);
        let (at, src_port, len) = match headers.protocol {
            protocol::ESP => (headers.header_len, None, upper.len()),
            protocol::UDP => {
                let udp = Udp::new_checked(upper)?;
                if udp.dst_port() != port {
                    return Err(DropReason::NotEsp);
                }
                match classify(udp.payload()) {
                    UdpPayload::Esp => {}
                    UdpPayload::Keepalive => return Err(DropReason::Keepalive),
                    UdpPayload::Ike => return Err(DropReason::IkeUnsupported),
                    UdpPayload::Other => return Err(DropReason::NotEsp),
                }
                // The length of the datagram decides, not that of the packet around it.
                (headers.header_len + udp::HEADER_LEN, Some(udp.src_port()), udp.payload().len())
            }
            _ => return Err(DropReason::NotEsp),
        };
        let end = at + len;
        let esp = bytes.get(at..end).ok_or(DropReason::Truncated)?;
        let header = Esp::new_checked(esp).map_err(|_| DropReason::EspTooShort)?;
        Ok(Outer {
            src: headers.src,
            dst: headers.dst,
            src_port,
            tos: headers.tos,
            ttl: headers.ttl,
            spi: header.spi(),
            sequence: header.sequence(),
            at,
            end,
        })
    }
}
