//! The metadata beside the bytes of a packet: one flat struct, one cache line.

use crate::{Services, Time, protocol};

/// The number that the policy gives to an application. Zero means that no policy names this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(pub u16);

impl AppId {
    /// The number of programs that no application block names.
    pub const NONE: AppId = AppId(0);
}

/// The profile by which a flow's packets are scrubbed; of two, the stricter one is greater. The scrubber knows what the
/// numbers mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScrubId(pub u8);

impl ScrubId {
    /// The packets are not scrubbed.
    pub const NONE: ScrubId = ScrubId(0);
}

/// The number of an aggregate: the traffic class of RFC 2475 and of paper 002. People know it by its name, which a graph
/// gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AggregateId(pub u8);

impl AggregateId {
    /// The aggregate of what no other one takes.
    pub const DEFAULT: AggregateId = AggregateId(0);
}

/// The kind of a super-packet, which says how to cut it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GsoKind {
    /// The packet is an ordinary one.
    #[default]
    None,
    /// A TCP super-packet over IPv4 or IPv6.
    Tcp,
    /// A run of UDP datagrams of one flow under one header (UDP_SEGMENT).
    Udp,
}

/// Segmentation and checksum work that the kernel left to the reader of the packet (the vnet header). Offsets count
/// from the first byte of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gso {
    /// The kind of super-packet, if there is anything to cut.
    pub kind: GsoKind,
    /// Whether the transport checksum is only a pseudo-header sum that must be completed.
    pub needs_checksum: bool,
    /// Payload octets of each segment.
    pub size: u16,
    /// The offset where the checksummed area starts (the transport header).
    pub checksum_start: u16,
    /// The offset of the checksum field, counted from `checksum_start`.
    pub checksum_offset: u16,
}

impl Gso {
    /// Whether the checksum to complete, if there is one, is that of the transport header at `at`. Code that completes
    /// it writes where these fields say.
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

/// The metadata of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta {
    /// The time when Ravelin received the packet.
    pub received: Time,
    /// The kernel's cookie of the sending socket. It is the connection's key from SYN-ACK to TIME_WAIT.
    pub cookie: u64,
    /// The ESP sequence number that the packet was sealed or opened with.
    pub sequence: u64,
    /// The SPI of the security association that sealed or opened it.
    pub spi: u32,
    /// The mark that the kernel gave (layout: docs/design/0002).
    pub mark: u32,
    /// The policy rule that decided.
    pub rule: u32,
    /// Segmentation and checksum work that is left to do.
    pub gso: Gso,
    /// The application whose socket sent the packet, or to which its association is bound.
    pub app: AppId,
    /// The services applied (inbound) or demanded (outbound).
    pub services: Services,
    /// The profile by which the packet is scrubbed.
    pub scrub: ScrubId,
    /// The type of service octet (DSCP and ECN) of the outer header.
    pub tos: u8,
    /// The aggregate that policy, rule or association gives it.
    pub aggregate: AggregateId,
    /// Whether the outer packet may be cut into IP fragments (its inner packet allowed it).
    pub may_fragment: bool,
}

#[cfg(test)]
mod tests {
    #[test]
    fn meta_is_one_cache_line() {
        assert!(size_of::<super::Meta>() <= 64, "{}", size_of::<super::Meta>());
    }
}
