//! Reservations in the graph of classes: what flows are promised, and what that leaves free.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Spi;

/// The packets that a reservation is for. Outbound they are named by what the inner packet shows (destination, protocol,
/// ports, DSCP), and in both directions by the SPI (RFC 2207).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QosFlow {
    /// The destination address: with an SPI that of the outer header, else that of the inner one.
    pub destination: IpAddr,
    /// The number of the protocol: 50 (ESP) and 51 (AH) with an SPI, that of the transport without.
    pub protocol: u8,
    /// The security parameter index (the generalized port identifier of RFC 2207).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spi: Option<Spi>,
    /// The virtual destination port of RFC 2207, with an SPI; 8192 if absent. It is not in the packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_port: Option<u16>,
    /// The source port; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The destination port; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// The DSCP, 0 to 63; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
}

/// A reservation that is asked for. One for the same flow by the same holder takes the place of the one there is, and
/// the same one again refreshes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QosReserve {
    /// The class of the graph that packets within the rate get.
    pub class: String,
    /// Bits a second of packets as they wait: the inner packet outbound, the datagram inbound.
    pub rate_bits_per_second: u64,
    /// Octets that may come at once; at least one packet of 1500 octets.
    pub burst_octets: u64,
    /// Octets that each packet counts as at least, 1 to 65535; 128 if absent. The smaller they are, the more of a unit
    /// and an uplink the rate takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_octets: Option<u64>,
    /// The packets that it is for.
    pub flow: QosFlow,
    /// The name of who holds it, 1 to 64 letters, digits and `-_.@:/`.
    pub holder: String,
    /// Seconds that it lives without a refresh, 1 to 3600.
    pub seconds_to_live: u64,
    /// The uplink of the graph whose octets it takes; absent: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
    /// The crypto unit whose time it takes; absent: of those that serve the class, the one with the most left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A refresh of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QosRefresh {
    /// The holder of the reservation.
    pub holder: String,
}

/// The query of DELETE `/v1/qos/reservations/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QosHolder {
    /// The holder of the reservation.
    pub holder: String,
}

/// A reservation that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosReservation {
    /// The number of the reservation, which no other one of this daemon gets.
    pub id: u64,
    /// The class of the graph that packets within the rate get.
    pub class: String,
    /// Bits a second of packets within the rate.
    pub rate_bits_per_second: u64,
    /// Octets that may come at once.
    pub burst_octets: u64,
    /// Octets that each packet counts as at least.
    pub packet_octets: u64,
    /// The packets that it is for.
    pub flow: QosFlow,
    /// The name of who holds it.
    pub holder: String,
    /// Seconds that it lives without a refresh.
    pub seconds_to_live: u64,
    /// Seconds until it ends, unless it is refreshed.
    pub seconds_left: u64,
    /// What the reservation takes of an uplink and a crypto unit.
    pub takes: QosTaken,
    /// Packets within the rate, which got the class.
    pub packets_within: u64,
    /// Packets beyond the rate, which had the class that they would have had without.
    pub packets_beyond: u64,
}

/// What a reservation takes of an uplink and a crypto unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosTaken {
    /// The uplink whose octets it takes.
    pub uplink: String,
    /// The octets that it takes of the uplink in each second, those of outer headers with them.
    pub uplink_octets_per_second: u64,
    /// The crypto unit whose time it takes.
    pub unit: String,
    /// The nanoseconds that it takes of the unit in each second.
    pub unit_ns_per_second: u64,
}

/// What reservations take of a crypto unit or an uplink, and leave free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosResource {
    /// Whether it is a unit, counted in nanoseconds, or an uplink, counted in octets.
    pub kind: QosResourceKind,
    /// The name in the graph.
    pub name: String,
    /// The amount that reservations can take in each second.
    pub reservable: u64,
    /// The amount that they take.
    pub reserved: u64,
    /// The amount that is left.
    pub free: u64,
}

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QosResourceKind {
    /// A crypto unit, counted in nanoseconds of work.
    Unit,
    /// An uplink, counted in octets.
    Uplink,
}

/// The answer of `ravelin qos reserve list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosReservations {
    /// The reservations by their number.
    pub reservations: Vec<QosReservation>,
    /// The most reservations at once.
    pub most: u64,
    /// The crypto units and uplinks, with what is left of each.
    pub resources: Vec<QosResource>,
}

/// The answer to a reservation that was made, or refreshed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosReserved {
    /// The reservation as it is held now.
    pub reservation: QosReservation,
    /// The crypto units and uplinks, with what is left of each.
    pub resources: Vec<QosResource>,
}

/// The answer to a reservation that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosReservationRemoved {
    /// The reservation as it was.
    pub reservation: QosReservation,
    /// The crypto units and uplinks, with what is left of each.
    pub resources: Vec<QosResource>,
}
