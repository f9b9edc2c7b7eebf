//! The vnet header (struct virtio_net_hdr of linux/virtio_net.h, native endian on a TUN): what the kernel left undone.

use wire::{DropReason, Gso, GsoKind};

/// Octets of the header.
pub(super) const LEN: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// TCP with ECN: beside the type. CWR goes on the first segment only.
const GSO_ECN: u8 = 0x80;

/// One header.
#[derive(Clone, Copy, Debug)]
pub(super) struct VnetHeader {
    flags: u8,
    gso_type: u8,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VnetHeader {
    pub(super) fn parse(bytes: &[u8; LEN]) -> VnetHeader {
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

    /// The work left, with offsets from the IP header, which begins `before` octets behind the place that the kernel counts from.
    pub(super) fn gso(self, before: u16) -> Result<Gso, DropReason> {
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
