//! What a component from outside is shown: the layout is that of `include/ravelin-qos.h`.

use crate::meta::{Colour, Direction, HeaderKind, Meta};

/// What is the same for each packet of a call: the C header's `struct ravelin_qos_call`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The time now, in nanoseconds of the monotonic clock.
    pub now_ns: u64,
    /// 64 random bits of this call, from the graph's seed.
    pub random: u64,
}

/// What is known of a packet: the C header's `struct ravelin_qos_meta`, 64 octets. Each field is one of [`Meta`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketView {
    /// The time of arrival, in nanoseconds of the monotonic clock.
    pub arrived_ns: u64,
    /// The nanoseconds of a processor that the packet is expected to cost.
    pub cost_ns: u64,
    /// The packets that it counts as: 1, or the pieces of a super-packet.
    pub packets: u32,
    /// The octets of the packet.
    pub octets: u32,
    /// The number of its security association; 0: none is known.
    pub association: u32,
    /// The SPI; 0: none is known.
    pub spi: u32,
    /// The mark of the packet in the kernel.
    pub mark: u32,
    /// A keyed hash of the user that it is charged to.
    pub user: u32,
    /// A keyed hash of its flow.
    pub flow: u32,
    /// The number of the key.
    pub key: u32,
    /// The number of the application; 0: none is known.
    pub app: u16,
    /// The number of the suite in the graph's list.
    pub suite: u16,
    /// The number of the far end among the prefixes that the graph names; 0: in none.
    pub peer: u16,
    /// The units that can serve the packet, one bit each.
    pub units: u16,
    /// The number of its class in this instance.
    pub class: u8,
    /// The colour: 0 green, 1 yellow, 2 red.
    pub colour: u8,
    /// The DSCP of the outer header, six bits.
    pub dscp_outer: u8,
    /// The DSCP of the inner header, six bits.
    pub dscp_inner: u8,
    /// The ECN field of the inner header, two bits.
    pub ecn: u8,
    /// The front of the packet: 0 ESP, 1 ESP in UDP, 2 AH, 3 IPComp, 4 IKE, 5 keepalive, 6 ICMP error, 7 clear.
    pub header: u8,
    /// The direction: 0 outbound, 1 inbound.
    pub direction: u8,
    /// The associations of its bundle that are done.
    pub index: u8,
}

impl PacketView {
    /// What is shown of a packet. A number that is too large for its field is shown as the largest.
    pub fn of(meta: &Meta) -> PacketView {
        let short = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        PacketView {
            arrived_ns: meta.arrived.0,
            cost_ns: meta.amount.ns,
            packets: short(meta.amount.packets),
            octets: short(meta.amount.octets),
            association: meta.association,
            spi: meta.spi,
            mark: meta.mark,
            user: meta.user,
            flow: meta.flow,
            key: meta.key.into(),
            app: meta.app.0,
            suite: meta.suite,
            peer: meta.peer,
            units: meta.units.0,
            class: meta.aggregate.0,
            colour: match meta.colour {
                Colour::Green => 0,
                Colour::Yellow => 1,
                Colour::Red => 2,
            },
            dscp_outer: meta.dscp[0],
            dscp_inner: meta.dscp[1],
            ecn: meta.ecn & 3,
            header: match meta.header {
                HeaderKind::Esp => 0,
                HeaderKind::EspInUdp => 1,
                HeaderKind::Ah => 2,
                HeaderKind::IpComp => 3,
                HeaderKind::Ike => 4,
                HeaderKind::Keepalive => 5,
                HeaderKind::IcmpError => 6,
                HeaderKind::Clear => 7,
            },
            direction: match meta.direction {
                Direction::Outbound => 0,
                Direction::Inbound => 1,
            },
            index: meta.index,
        }
    }
}
