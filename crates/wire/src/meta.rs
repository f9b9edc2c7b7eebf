//! What travels beside the bytes of one packet: one flat struct, one cache line.

use crate::{Time, protocol};

/// An application as policy numbers it. Zero: no policy names this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(pub u16);

impl AppId {
    /// Programs that no application block names.
    pub const NONE: AppId = AppId(0);
}

/// By which profile the packets of a flow are scrubbed; of two, the stricter one is greater. What the numbers mean is the scrubber's
/// matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScrubId(pub u8);

impl ScrubId {
    /// They are not scrubbed.
    pub const NONE: ScrubId = ScrubId(0);
}

/// The security services a packet has had or must have (paper 001 section 2.3: the flags in the mbuf header).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Services(u8);

impl Services {
    /// No service.
    pub const NONE: Services = Services(0);
    /// Data origin authentication and integrity.
    pub const AUTHENTICATED: Services = Services(1);
    /// Confidentiality; always with authentication here.
    pub const ENCRYPTED: Services = Services(3);

    /// Whether every service in `need` is in `self`.
    pub const fn satisfies(self, need: Services) -> bool {
        self.0 & need.0 == need.0
    }

    /// What a packet has had after both: members of a bundle add up.
    #[must_use]
    pub const fn union(self, other: Services) -> Services {
        Services(self.0 | other.0)
    }

    /// The bits: 1 authenticated, 2 encrypted.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// How a super-packet is to be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GsoKind {
    /// An ordinary packet.
    #[default]
    None,
    /// A TCP super-packet over IPv4 or IPv6.
    Tcp,
    /// A run of UDP datagrams of one flow under one header (UDP_SEGMENT).
    Udp,
}

/// Segmentation and checksum work that the kernel left to the reader of the packet (the vnet header).
/// Offsets count from the first byte of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gso {
    /// What to cut, if anything.
    pub kind: GsoKind,
    /// The transport checksum is a pseudo-header sum only and must be completed.
    pub needs_checksum: bool,
    /// Payload octets per segment.
    pub size: u16,
    /// Where the checksummed area starts (the transport header).
    pub checksum_start: u16,
    /// Where the checksum field is, from `checksum_start`.
    pub checksum_offset: u16,
}

impl Gso {
    /// Whether the checksum that is left to do is that of the transport, which begins at `at`: whoever finishes it writes to where this says.
    #[inline]
    pub fn fits(&self, at: usize, transport: u8) -> bool {
        let offset = match transport {
            protocol::TCP => 16,
            protocol::UDP => 6,
            protocol::ICMP | protocol::ICMPV6 => 2,
            _ => return !self.needs_checksum,
        };
        !self.needs_checksum
            || usize::from(self.checksum_start) == at && usize::from(self.checksum_offset) == offset
    }
}

/// What is known about a packet beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta {
    /// When it entered the house.
    pub received: Time,
    /// The kernel's cookie of the sending socket; the connection's key from SYN-ACK to TIME_WAIT.
    pub cookie: u64,
    /// The ESP sequence number it was sealed or opened with.
    pub sequence: u64,
    /// The SPI of the security association that sealed or opened it.
    pub spi: u32,
    /// The mark as the kernel gave it (layout: docs/design/0002).
    pub mark: u32,
    /// The rule of the policy that decided.
    pub rule: u32,
    /// Segmentation and checksum work left to do.
    pub gso: Gso,
    /// The application whose socket sent it, or to which its association is bound.
    pub app: AppId,
    /// Services applied (inbound) or demanded (outbound).
    pub services: Services,
    /// By which profile it is scrubbed.
    pub scrub: ScrubId,
    /// Type of service octet (DSCP and ECN) of the outer header.
    pub tos: u8,
    /// The outer packet may be cut into IP fragments (its inner packet allowed it).
    pub may_fragment: bool,
}

#[cfg(test)]
mod tests {
    #[test]
    fn meta_is_one_cache_line() {
        assert!(size_of::<super::Meta>() <= 64, "{}", size_of::<super::Meta>());
    }
}
