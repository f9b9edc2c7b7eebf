//! Requests for reservations, compared with the graph in force.
//!
//! What enters: a document of the API. What leaves: a reservation whose class, uplink and units are there, without its
//! cost; or what is wrong with the request.

use std::time::Duration;

use api::{QosFlow, QosReserve, Spi};
use config::{LoadedGraph, suggestion};
use documents::api_error::{ApiError, Blame};
use qos::graph::description::{Class, Description, Unit};
use qos::reservation::{Flow, LONGEST, Refused, Reservation, Scope};
use qos::{AggregateId, Direction};
use wire::protocol;

/// Octets that a packet counts as at least, where the request says nothing.
const USUAL_PACKET: u64 = 128;
/// Octets of a packet of full size, of which a burst has at least one.
const FULL_PACKET: u64 = 1500;
/// Octets that outer headers add at most: IPv6 (40), UDP (8), ESP (8), IV (16), padding and trailer (17), ICV (32).
const OUTER_HEADERS: u64 = 121;
/// The virtual destination port where none is given: the first dynamic one (RFC 2207 section 5).
const USUAL_VIRTUAL_PORT: u16 = 8192;

/// A request that names what the graph has.
pub struct Sound {
    /// The reservation that is asked for. Its cost is to be filled in, and its unit chosen.
    pub(super) reservation: Reservation,
    /// The units of which one is to serve it.
    pub(super) units: Vec<usize>,
}

impl Sound {
    /// The flow that is asked for.
    pub fn flow(&self) -> Flow {
        self.reservation.flow
    }

    /// Octets that each packet counts as at least.
    pub fn least(&self) -> u64 {
        self.reservation.least
    }
}

fn bad(text: impl Into<String>) -> ApiError {
    ApiError::new(Blame::BadRequest, text)
}

/// Compare a request with the graph.
///
/// # Errors
/// The request contradicts itself, or names what the graph does not have.
pub fn examine(graph: &LoadedGraph, asked: &QosReserve) -> Result<Sound, ApiError> {
    let flow = flow(&asked.flow)?;
    let class = class(graph, asked, &flow)?;
    let least = asked.packet_octets.unwrap_or(USUAL_PACKET);
    if asked.rate_bits_per_second == 0 {
        return Err(bad(
            "a reservation of rate 0 promises nothing; give the bits a second that the flow needs",
        ));
    }
    if !(1..=65_535).contains(&least) {
        return Err(bad(format!("a packet has 1 to 65535 octets, not {least}")));
    }
    let packet = least.max(FULL_PACKET);
    if asked.burst_octets < packet {
        return Err(bad(format!(
            "a burst of {} octets does not hold one packet; give at least {packet}",
            asked.burst_octets
        )));
    }
    if !(1..=LONGEST.as_secs()).contains(&asked.seconds_to_live) {
        return Err(bad(format!(
            "a reservation lives 1 to {} seconds without a refresh, not {}",
            LONGEST.as_secs(),
            asked.seconds_to_live
        ))
        .remedy("give less, and refresh it in time"));
    }
    let is_right = |c: char| c.is_ascii_alphanumeric() || "-_.@:/".contains(c);
    if !(1..=64).contains(&asked.holder.len()) || !asked.holder.chars().all(is_right) {
        return Err(bad("the name of a holder has 1 to 64 letters, digits and -_.@:/"));
    }
    let (uplink, overhead) = uplink(&graph.description, asked.uplink.as_deref())?;
    Ok(Sound {
        units: units(&graph.description, asked.unit.as_deref(), &asked.class)?,
        reservation: Reservation {
            class,
            rate: asked.rate_bits_per_second,
            burst: asked.burst_octets,
            flow,
            holder: asked.holder.clone(),
            lifetime: Duration::from_secs(asked.seconds_to_live),
            least,
            overhead: OUTER_HEADERS + overhead,
            ps_per_octet: 0,
            unit: 0,
            uplink,
        },
    })
}

/// The number of a class that the flow can be in.
fn class(graph: &LoadedGraph, asked: &QosReserve, flow: &Flow) -> Result<AggregateId, ApiError> {
    let name = &asked.class;
    let classes = &graph.description.classes;
    let id = graph.aggregates.find(name);
    let (Some(class), Some(id)) = (classes.iter().find(|class| class.name.value == *name), id) else {
        let names: Vec<&str> = classes.iter().map(|class| class.name.value.as_str()).collect();
        let remedy = match suggestion(name, &names) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("classes: {}", names.join(", ")),
        };
        return Err(bad(format!("the graph has no class {name:?}")).remedy(remedy));
    };
    if id == AggregateId::DEFAULT {
        let text =
            format!("{name:?} is the class of packets that nothing else is known of; reserve another one");
        return Err(bad(text));
    }
    if !meets(class, flow) {
        let text =
            format!("the class {name:?} is for inbound packets, and these ports are those of outbound ones");
        return Err(bad(text).remedy("name the flow by its SPI, or take a class of both directions"));
    }
    Ok(id)
}

/// Whether packets of the flow can be in the class: those by ports are outbound.
pub(super) fn meets(class: &Class, flow: &Flow) -> bool {
    match flow.scope {
        Scope::Spi { .. } => true,
        Scope::Ports { .. } => class.direction.value.has(Direction::Outbound),
    }
}

/// The uplink of a name, or the only one: its place, and the octets that its link adds to a packet.
fn uplink(graph: &Description, name: Option<&str>) -> Result<(usize, u64), ApiError> {
    let names =
        || graph.uplinks.iter().map(|uplink| uplink.name.value.as_str()).collect::<Vec<_>>().join(", ");
    let mut all = graph.uplinks.iter().enumerate();
    let found = match (name, graph.uplinks.len()) {
        (_, 0) => {
            let remedy = "write [uplink.NAME] with its rate into the graph";
            return Err(
                bad("the graph describes no uplink, so nothing of one can be reserved").remedy(remedy)
            );
        }
        (Some(name), _) => all.find(|(_, uplink)| uplink.name.value == name),
        (None, 1) => all.next(),
        (None, _) => {
            return Err(bad("the graph has several uplinks").remedy(format!("name one: {}", names())));
        }
    };
    let Some((place, uplink)) = found else {
        let text = format!("the graph has no uplink {:?}", name.unwrap_or_default());
        return Err(bad(text).remedy(format!("uplinks: {}", names())));
    };
    Ok((place, uplink.overhead.value))
}

/// The units of which one can serve a class: that of a name, or all that do.
fn units(graph: &Description, name: Option<&str>, class: &str) -> Result<Vec<usize>, ApiError> {
    let serves = |unit: &Unit| unit.reserved.is_empty() || unit.reserved.iter().any(|one| one.value == class);
    let all = &graph.units;
    let is_meant = |unit: &&Unit| name.is_none_or(|name| unit.name.value == name);
    if let (Some(name), None) = (name, all.iter().find(is_meant)) {
        let names: Vec<&str> = all.iter().map(|unit| unit.name.value.as_str()).collect();
        let text = format!("the graph has no unit {name:?}");
        return Err(bad(text).remedy(format!("units: {}", names.join(", "))));
    }
    let found = all.iter().enumerate().filter(|(_, unit)| is_meant(unit) && serves(unit));
    let found: Vec<usize> = found.map(|(at, _)| at).collect();
    if found.is_empty() {
        let whom = name
            .map_or_else(|| "no unit serves".to_owned(), |name| format!("the unit {name:?} does not serve"));
        return Err(
            bad(format!("{whom} the class {class:?}")).remedy("see `reserved` of the units in the graph")
        );
    }
    Ok(found)
}

/// The flow of a request.
fn flow(asked: &QosFlow) -> Result<Flow, ApiError> {
    let QosFlow { destination, protocol, spi, virtual_port, source_port, destination_port, dscp } = *asked;
    let is_ipsec = matches!(protocol, protocol::ESP | protocol::AH);
    let scope = match (spi, is_ipsec) {
        (None, true) => {
            return Err(bad("a flow of ESP or AH is named by its SPI, which is missing (RFC 2207)"));
        }
        (Some(_), false) => {
            return Err(bad(format!(
                "an SPI names flows of ESP (50) and AH (51), not of protocol {protocol}"
            )));
        }
        (Some(Spi(spi)), true) => {
            if source_port.or(destination_port).is_some() || dscp.is_some() {
                return Err(bad(
                    "the ports and the DSCP of a flow that is named by its SPI cannot be read; leave them out",
                ));
            }
            if spi < 256 {
                return Err(bad(format!(
                    "the SPI {} is reserved: no packet has it (RFC 4303 section 2.1)",
                    Spi(spi)
                )));
            }
            let virtual_port = virtual_port.unwrap_or(USUAL_VIRTUAL_PORT);
            if virtual_port == 0 {
                return Err(bad(Refused::NoVirtualPort.to_string()));
            }
            Scope::Spi { spi, virtual_port }
        }
        (None, false) => {
            if virtual_port.is_some() {
                return Err(bad("a virtual port goes with an SPI; a flow by ports has its destination port"));
            }
            if let Some(dscp) = dscp.filter(|dscp| *dscp > 63) {
                return Err(bad(format!("a DSCP is 0 to 63, not {dscp}")));
            }
            Scope::Ports {
                source: source_port.unwrap_or(0),
                destination: destination_port.unwrap_or(0),
                dscp,
            }
        }
    };
    Ok(Flow { destination, protocol, scope })
}
