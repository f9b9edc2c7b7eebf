//! The clamping of the maximum segment size that a connection agrees on, so that its segments fit the tunnel uncut.

use wire::ip::Headers;
use wire::tcp::{self, Flags, Tcp, TcpOption};
use wire::{Packet, ipv4, ipv6, protocol};

/// Lower the MSS option of a SYN or SYN-ACK to what an association carries whose inner packets may have `mtu` octets
/// (RFC 6691: the MTU less fixed headers, whatever options there will be). A segment with a signature (RFC 2385, RFC
/// 5925) stays as it is.
#[inline]
pub(super) fn clamp<S>(packet: &mut Packet<S>, headers: &Headers, mtu: usize) {
    if headers.protocol == protocol::TCP {
        clamp_tcp(packet, headers, mtu);
    }
}

fn clamp_tcp<S>(packet: &mut Packet<S>, headers: &Headers, mtu: usize) {
    let complete = !packet.meta.gso.needs_checksum;
    let Some(upper) = packet.bytes_mut().get_mut(headers.header_len..headers.total_len) else { return };
    let Ok(mut tcp) = Tcp::new_checked(upper) else { return };
    if !tcp.flags().contains(Flags::SYN) {
        return;
    }
    let ip = if headers.version == 4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    let most = u16::try_from(mtu.saturating_sub(ip + tcp::HEADER_LEN)).unwrap_or(u16::MAX);
    let signed = |option| matches!(option, Ok(TcpOption::Other { kind: 19 | 29, .. }));
    if most > 0 && !tcp.options().any(signed) {
        tcp.lower_max_segment(most, complete);
    }
}
