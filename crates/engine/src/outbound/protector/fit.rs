//! Packet sizes: the ways to make a packet fit its path (RFC 4301 section 8.2, RFC 1191, RFC 8201).

use sadb::sa::Fragmentation;
use sadb::{Mode, SaConfig};
use wire::ip::Headers;
use wire::stage::Selected;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::{DropReason, GsoKind, Packet, checksum, ipv6, protocol, udp};

/// The largest value of an IP length field.
const LONGEST: usize = u16::MAX as usize;

/// The way in which a packet goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The packet goes on in one piece.
    Whole,
    /// The packet is cut into segments of at most this many octets.
    Cut(usize),
    /// The packet is cut into IPv4 fragments of at most this many octets.
    Fragments(usize),
}

/// The way on for a packet through an association of this configuration, the first member of a bundle, that carries
/// inner packets of `mtu` octets. Checksums left to us are completed where the packet goes on whole; `may_fragment` is
/// set where the outer packet must be fragmented.
///
/// # Errors
/// [`DropReason::TooBig`] if the sender is to be told, [`DropReason::GsoInvalid`].
pub(super) fn tunnel<S>(
    packet: &mut Packet<S>,
    headers: &Headers,
    mtu: usize,
    config: &SaConfig,
) -> Result<Fit, DropReason> {
    let gso = packet.meta.gso;
    match gso.kind {
        GsoKind::Tcp => Ok(Fit::Cut(mtu)),
        GsoKind::None if is_divisible(packet, headers, mtu) => {
            // As large as it comes: `mtu` is the limit.
            (packet.meta.gso.kind, packet.meta.gso.size) = (GsoKind::Tcp, u16::MAX);
            Ok(Fit::Cut(mtu))
        }
        GsoKind::None => {
            let is_long = packet.bytes().len() > mtu;
            fits(packet, headers, packet.bytes().len(), mtu)?;
            complete(packet)?;
            // What its sender let be fragmented is, in front of the tunnel where the outer packet must not be.
            let whole = config.forbids_fragments();
            let before = (config.options.headers.fragment == Fragmentation::Before || whole)
                && config.mode == Mode::Tunnel
                && headers.version == 4
                && is_long;
            if whole && !before && headers.version == 4 && is_long {
                return Err(DropReason::TooBig);
            }
            if before || whole && !is_long {
                packet.meta.may_fragment = false;
            }
            Ok(if before { Fit::Fragments(mtu) } else { Fit::Whole })
        }
        GsoKind::Udp => {
            let datagram = headers.header_len + udp::HEADER_LEN + usize::from(gso.size);
            let longest = datagram.min(packet.bytes().len());
            fits(packet, headers, longest, mtu)?;
            // Nothing cuts them before the tunnel.
            if longest > mtu && headers.version == 4 && config.forbids_fragments() {
                return Err(DropReason::TooBig);
            }
            Ok(Fit::Cut(LONGEST))
        }
    }
}

/// Whether this is a TCP segment that its sender made for the uplink, that is too long for the tunnel, and that may be
/// cut like a super-packet. Its sender meant a stream, so cutting it is no fragmentation and the don't-fragment flag
/// does not apply (RFC 9293 section 3.7: segments are the sender's choice, not the receiver's business).
fn is_divisible<S>(packet: &Packet<S>, headers: &Headers, mtu: usize) -> bool {
    // What was joined from fragments is carried whole.
    if packet.bytes().len() <= mtu || headers.protocol != protocol::TCP || packet.meta.may_fragment {
        return false;
    }
    let Ok(tcp) = Tcp::new_checked(headers.upper(packet.bytes())) else { return false };
    // A signature over the segment (RFC 2385, RFC 5925) would be wrong on every piece.
    let signed = |option| matches!(option, Ok(TcpOption::Other { kind: 19 | 29, .. }) | Err(_));
    // Its pieces get right checksums, so its own must be.
    !tcp.flags().intersects(Flags::SYN | Flags::RST)
        && headers.header_len + tcp.header_len() < mtu
        && !tcp.options().any(signed)
        && (packet.meta.gso.needs_checksum
            || checksum::verify_transport(packet.bytes(), headers) == Some(true))
}

/// The way on for a packet in clear. The sender knows this path better than we do, so super-packets are cut as it
/// wished.
///
/// # Errors
/// [`DropReason::GsoInvalid`].
pub(super) fn clear(packet: &mut Packet<Selected>) -> Result<Fit, DropReason> {
    match packet.meta.gso.kind {
        GsoKind::Tcp | GsoKind::Udp => Ok(Fit::Cut(LONGEST)),
        GsoKind::None => {
            complete(packet)?;
            Ok(Fit::Whole)
        }
    }
}

/// Check that a packet of `len` octets fits, or may be fragmented behind us.
fn fits<S>(packet: &mut Packet<S>, headers: &Headers, len: usize, mtu: usize) -> Result<(), DropReason> {
    if len <= mtu || packet.meta.may_fragment {
        return Ok(());
    }
    // No IPv6 sender goes below 1280 octets (RFC 8200 section 5), so no answer would help it: RFC 2473 section 7.1.
    let must_carry = headers.version == 6 && len <= ipv6::MIN_MTU;
    if headers.dont_fragment && !must_carry {
        return Err(DropReason::TooBig);
    }
    packet.meta.may_fragment = true;
    Ok(())
}

/// Finish the checksum of which the kernel computed only a part.
fn complete<S>(packet: &mut Packet<S>) -> Result<(), DropReason> {
    let gso = packet.meta.gso;
    if gso.needs_checksum {
        let (start, offset) = (usize::from(gso.checksum_start), usize::from(gso.checksum_offset));
        checksum::complete_partial(packet.bytes_mut(), start, offset)?;
        packet.meta.gso.needs_checksum = false;
    }
    Ok(())
}
