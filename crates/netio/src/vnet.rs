//! The vnet header (struct virtio_net_hdr of linux/virtio_net.h, native endian on a TUN and a packet socket): what the kernel left undone.

use wire::{DropReason, Gso, GsoKind};

/// The octets of the header.
pub(crate) const LEN: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// TCP with ECN: beside the type. CWR goes on the first segment only.
const GSO_ECN: u8 = 0x80;

/// The header in front of a packet (`struct virtio_net_hdr`), with its fields in the host's octet order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VnetHeader {
    flags: u8,
    gso_type: u8,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VnetHeader {
    pub(crate) fn parse(bytes: &[u8; LEN]) -> VnetHeader {
        // The header length is a hint and not used: the packet's own headers say it.
        let [flags, gso_type, _, _, s0, s1, c0, c1, o0, o1] = *bytes;
        VnetHeader {
            flags,
            gso_type,
            gso_size: u16::from_ne_bytes([s0, s1]),
            checksum_start: u16::from_ne_bytes([c0, c1]),
            checksum_offset: u16::from_ne_bytes([o0, o1]),
        }
    }

    /// The octets to write in front of `header_len` octets of headers and a coalesced packet's payloads. They ask the
    /// kernel to cut the packet and to finish the checksums. The IP header begins `before` octets behind the place from
    /// which the kernel counts.
    pub(crate) fn emit(gso: &Gso, before: u16, header_len: u16, version: u8) -> [u8; LEN] {
        let gso_type = match (gso.kind, version) {
            (GsoKind::None, _) => GSO_NONE,
            (GsoKind::Tcp, 4) => GSO_TCPV4,
            (GsoKind::Tcp, _) => GSO_TCPV6,
            (GsoKind::Udp, _) => GSO_UDP_L4,
        };
        let [h0, h1] = (before + header_len).to_ne_bytes();
        let [s0, s1] = gso.size.to_ne_bytes();
        let [c0, c1] = (before + gso.checksum_start).to_ne_bytes();
        let [o0, o1] = gso.checksum_offset.to_ne_bytes();
        [if gso.needs_checksum { NEEDS_CSUM } else { 0 }, gso_type, h0, h1, s0, s1, c0, c1, o0, o1]
    }

    /// That CWR is on the first segment only (`emit` cannot tell it from `Gso`).
    pub(crate) fn mark_ecn(bytes: &mut [u8; LEN]) {
        bytes[1] |= GSO_ECN;
    }

    /// The work left, with offsets from the IP header, which begins `before` octets behind the place that the kernel counts from.
    pub(crate) fn gso(self, before: u16) -> Result<Gso, DropReason> {
        let kind = match self.gso_type & !GSO_ECN {
            GSO_NONE => GsoKind::None,
            GSO_TCPV4 | GSO_TCPV6 => GsoKind::Tcp,
            GSO_UDP_L4 => GsoKind::Udp,
            _ => return Err(DropReason::GsoInvalid),
        };
        if kind != GsoKind::None && self.gso_size == 0 {
            return Err(DropReason::GsoInvalid);
        }
        let needs_checksum = self.flags & NEEDS_CSUM != 0;
        let (checksum_start, checksum_offset) = match needs_checksum {
            true => {
                (self.checksum_start.checked_sub(before).ok_or(DropReason::GsoInvalid)?, self.checksum_offset)
            }
            false => (0, 0),
        };
        let size = if kind == GsoKind::None { 0 } else { self.gso_size };
        Ok(Gso { kind, needs_checksum, size, checksum_start, checksum_offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u8, gso_type: u8, gso_size: u16, start: u16) -> VnetHeader {
        VnetHeader { flags, gso_type, gso_size, checksum_start: start, checksum_offset: 6 }
    }

    #[test]
    fn what_is_emitted_is_parsed() {
        for (kind, version) in [(GsoKind::Tcp, 4), (GsoKind::Tcp, 6), (GsoKind::Udp, 4), (GsoKind::Udp, 6)] {
            let gso = Gso { kind, needs_checksum: true, size: 1348, checksum_start: 40, checksum_offset: 16 };
            let bytes = VnetHeader::emit(&gso, 16, 60, version);
            assert_eq!(VnetHeader::parse(&bytes).gso(16), Ok(gso));
            assert_eq!(bytes[2..4], 76u16.to_ne_bytes());
        }
    }

    #[test]
    fn types_map_and_contradictions_are_refused() {
        let kind = |h: VnetHeader| h.gso(16).map(|g| g.kind);
        assert_eq!(kind(header(0, 0, 0, 0)), Ok(GsoKind::None));
        assert_eq!(kind(header(1, 4, 1220, 56)), Ok(GsoKind::Tcp));
        assert_eq!(kind(header(1, 5, 1400, 36)), Ok(GsoKind::Udp));
        // UFO, an unknown type, a super-packet without a size, a checksum that starts inside the record.
        for bad in [header(0, 3, 100, 0), header(0, 9, 100, 0), header(0, 1, 0, 0), header(1, 0, 0, 15)] {
            assert_eq!(kind(bad), Err(DropReason::GsoInvalid), "{bad:?}");
        }
    }
}
