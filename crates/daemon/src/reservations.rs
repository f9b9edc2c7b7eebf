//! The reservations of this gateway: requests become entries of the table, what is held becomes documents
//! (docs/design/0044).
//!
//! What enters: the graph in force, requests, what packets cost. What leaves: reservations that were admitted, or a
//! refusal with its figures. What data threads do for them is the caller's to tell them.

use std::time::Duration;

use api::{QosFlow, QosReservation, QosReserve, QosResource, QosResourceKind, QosTaken, Spi};
use config::{LoadedGraph, suggestion};
use documents::api_error::{ApiError, Blame};
use qos::graph::description::{Class, Description, Unit};
use qos::reservation::{
    Capacity, Flow, FlowCounts, FlowTerms, LONGEST, MOST, Refused, Reservation, ReservationId, Reservations,
    Scope,
};
use qos::{AggregateId, Direction};
use sockmon::{ReservedClass, ReservedName};
use wire::{Time, protocol};

/// The part of a second, and of an uplink, that reservations can take: three quarters, as is usual for RSVP. The rest is
/// for everybody else.
const RESERVABLE: (u64, u64) = (3, 4);
/// Nanoseconds in one second.
const SECOND: u64 = 1_000_000_000;
/// Octets that a packet counts as at least, where the request says nothing.
const USUAL_PACKET: u64 = 128;
/// Octets of a packet of full size, of which a burst has at least one.
const FULL_PACKET: u64 = 1500;
/// Octets that outer headers add at most: IPv6 (40), UDP (8), ESP (8), IV (16), padding and trailer (17), ICV (32).
const OUTER_HEADERS: u64 = 121;
/// The virtual destination port where none is given: the first dynamic one (RFC 2207 section 5).
const USUAL_VIRTUAL_PORT: u16 = 8192;
/// The refused reservations that a sentence names; of more it says how many there are.
const NAMED: usize = 5;

/// The table of reservations over the graph in force.
#[derive(Clone, Debug)]
pub struct Booking {
    table: Reservations,
    key: [u8; 16],
}

/// A request that names what the graph has.
pub struct Sound {
    /// The reservation that is asked for. Its cost is to be filled in, and its unit chosen.
    reservation: Reservation,
    /// The units of which one is to serve it.
    units: Vec<usize>,
}

fn bad(text: impl Into<String>) -> ApiError {
    ApiError::new(Blame::BadRequest, text)
}

impl Booking {
    /// No reservations over a graph. The key is random and secret.
    pub fn new(graph: &LoadedGraph, key: [u8; 16]) -> Booking {
        let (units, uplinks) = capacities(&graph.description);
        Booking { table: Reservations::new(units, uplinks, key, MOST), key }
    }

    /// The key for the hashes of flows, and the most flows.
    pub fn room(&self) -> ([u8; 16], usize) {
        (self.key, MOST)
    }

    /// Compare a request with the graph.
    ///
    /// # Errors
    /// The request contradicts itself, or names what the graph does not have.
    pub fn examine(&self, graph: &LoadedGraph, asked: &QosReserve) -> Result<Sound, ApiError> {
        let flow = flow(&asked.flow)?;
        let class = self.class(graph, asked, &flow)?;
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
    fn class(&self, graph: &LoadedGraph, asked: &QosReserve, flow: &Flow) -> Result<AggregateId, ApiError> {
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
            let text = format!(
                "{name:?} is the class of packets that nothing else is known of; reserve another one"
            );
            return Err(bad(text));
        }
        if !meets(class, flow) {
            let text = format!(
                "the class {name:?} is for inbound packets, and these ports are those of outbound ones"
            );
            return Err(bad(text).remedy("name the flow by its SPI, or take a class of both directions"));
        }
        Ok(id)
    }

    /// Make a reservation, whose packets are expected to cost so many nanoseconds each at their least length. The answer
    /// is its number, and what it took the place of.
    ///
    /// # Errors
    /// The figures that refuse it, or the holder of the flow.
    pub fn admit(
        &mut self,
        sound: Sound,
        ns: u64,
        now: Time,
    ) -> Result<(ReservationId, Option<Reservation>), ApiError> {
        let Sound { mut reservation, units } = sound;
        reservation.ps_per_octet = ns.saturating_mul(1000).div_ceil(reservation.least);
        let before = self.table.find(&reservation.flow).map(|(id, before)| (id, before.clone()));
        let own = before.as_ref().filter(|(_, before)| before.holder == reservation.holder);
        let is_left = |unit: &usize| self.table.units().get(*unit).map_or(0, Capacity::free);
        // What it takes the place of stays on its unit; for a new one it is the unit with the most left.
        let kept = own.map(|(_, before)| before.unit).filter(|unit| units.contains(unit));
        // The last of equals would be taken: the order is turned, so that it is the first.
        let unit = kept.or_else(|| units.iter().rev().copied().max_by_key(is_left));
        reservation.unit = unit.ok_or_else(|| refusal(&Refused::NoCapacity))?;
        if let Some((id, before)) = own {
            // What a packet costs is learned, and moves: the same request is a refresh all the same.
            let same = Reservation { ps_per_octet: before.ps_per_octet, ..reservation.clone() };
            if same == *before && self.table.refresh(*id, now) {
                return Ok((*id, Some(before.clone())));
            }
        }
        let id = self.table.admit(reservation, now).map_err(|refused| refusal(&refused))?;
        Ok((id, before.map(|(_, before)| before)))
    }

    /// Let a reservation live on.
    ///
    /// # Errors
    /// There is none of this number, or it is another holder's.
    pub fn refresh(&mut self, id: ReservationId, holder: &str, now: Time) -> Result<(), ApiError> {
        self.held_by(id, holder)?;
        self.table.refresh(id, now);
        Ok(())
    }

    /// Whether a reservation is there, and this holder's.
    ///
    /// # Errors
    /// There is none of this number, or it is another holder's.
    pub fn held_by(&self, id: ReservationId, holder: &str) -> Result<&Reservation, ApiError> {
        let Some(reservation) = self.table.get(id) else {
            return Err(ApiError::new(Blame::NotFound, format!("there is no reservation {}", id.0)).remedy(
                "it has ended, or was never made: `ravelin qos reserve add` makes it again, `list` shows those there are",
            ));
        };
        if reservation.holder != holder {
            let text = format!("reservation {} is held by {}, not by {holder}", id.0, reservation.holder);
            return Err(bad(text).remedy("name its holder"));
        }
        Ok(reservation)
    }

    /// End a reservation, whoever holds it.
    pub fn release(&mut self, id: ReservationId) -> Option<Reservation> {
        self.table.release(id)
    }

    /// The table as it is, if a reservation would take the place of another one, to go back to.
    pub fn before(&self, sound: &Sound) -> Option<Booking> {
        self.table.find(&sound.flow()).is_some().then(|| self.clone())
    }

    /// End what was not refreshed in time.
    pub fn expire(&mut self, now: Time) -> Vec<(ReservationId, Reservation)> {
        self.table.expire(now)
    }

    /// The reservations for which another graph has no class, unit, uplink or room, which end when it takes the place of
    /// this one.
    pub fn would_end(&self, next: &LoadedGraph) -> Vec<(ReservationId, Reservation)> {
        exchange(&mut self.table.clone(), next)
    }

    /// Go on over another graph. The answer is what has ended by it.
    pub fn exchange(&mut self, next: &LoadedGraph) -> Vec<(ReservationId, Reservation)> {
        exchange(&mut self.table, next)
    }

    /// The flow of a reservation.
    pub fn flow(&self, id: ReservationId) -> Option<Flow> {
        self.table.get(id).map(|of| of.flow)
    }

    /// The flows of all reservations, in their order.
    pub fn flows(&self) -> Vec<Flow> {
        self.table.iter().map(|(_, reservation, _)| reservation.flow).collect()
    }

    /// The number of reservations.
    pub fn count(&self) -> usize {
        self.table.count()
    }

    /// The reservations as documents, with what came of the flows in the order of [`Booking::flows`].
    pub fn documents(&self, graph: &LoadedGraph, counts: &[FlowCounts], now: Time) -> Vec<QosReservation> {
        let counts = counts.iter().copied().chain(std::iter::repeat(FlowCounts::default()));
        let rows = self.table.iter().zip(counts);
        rows.map(|((id, of, ends), counts)| self.document(graph, id, of, ends.since(now), counts)).collect()
    }

    /// The reservation of a number as a document, with what came of its flow.
    pub fn one(
        &self,
        graph: &LoadedGraph,
        id: ReservationId,
        counts: FlowCounts,
        now: Time,
    ) -> Option<QosReservation> {
        let ends = self.table.ends(id)?;
        Some(self.document(graph, id, self.table.get(id)?, ends.since(now), counts))
    }

    fn document(
        &self,
        graph: &LoadedGraph,
        id: ReservationId,
        of: &Reservation,
        left: Duration,
        counts: FlowCounts,
    ) -> QosReservation {
        let name = |list: &[Capacity], place: usize| list.get(place).map_or("?", |one| &one.name).to_owned();
        QosReservation {
            id: id.0,
            class: graph.aggregates.name(of.class).unwrap_or("?").to_owned(),
            rate_bits_per_second: of.rate,
            burst_octets: of.burst,
            packet_octets: of.least,
            flow: shown(&of.flow),
            holder: of.holder.clone(),
            seconds_to_live: of.lifetime.as_secs(),
            seconds_left: left.as_secs_f64().ceil() as u64,
            takes: QosTaken {
                uplink: name(self.table.uplinks(), of.uplink),
                uplink_octets_per_second: of.octets(),
                unit: name(self.table.units(), of.unit),
                unit_ns_per_second: of.unit_ns(),
            },
            packets_within: counts.within,
            packets_beyond: counts.beyond,
        }
    }

    /// The units and uplinks, with what is left of each.
    pub fn resources(&self) -> Vec<QosResource> {
        let resource = |kind| {
            move |of: &Capacity| QosResource {
                kind,
                name: of.name.clone(),
                reservable: of.whole,
                reserved: of.taken,
                free: of.free(),
            }
        };
        let units = self.table.units().iter().map(resource(QosResourceKind::Unit));
        units.chain(self.table.uplinks().iter().map(resource(QosResourceKind::Uplink))).collect()
    }
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

/// What data threads are told of a reservation.
pub fn terms(of: &Reservation) -> FlowTerms {
    FlowTerms { class: of.class, rate: of.rate, burst: of.burst, least: of.least }
}

/// What the kernel half is told of the flow of a reservation: its name, if its packets show one before they are sealed.
pub fn kernel_name(flow: &Flow) -> Option<ReservedName> {
    let Scope::Ports { source, destination, dscp } = flow.scope else { return None };
    Some(ReservedName {
        destination: flow.destination,
        protocol: flow.protocol,
        source_port: source,
        destination_port: destination,
        dscp,
    })
}

/// What the kernel half is told of a reservation.
pub fn kernel_class(of: &Reservation) -> ReservedClass {
    ReservedClass {
        class: of.class,
        rate: of.rate.div_ceil(8),
        burst: of.burst,
        least: u32::try_from(of.least).unwrap_or(u32::MAX),
    }
}

/// A sentence about a reservation for the audit log: what it is for, and who holds it.
pub fn words(id: ReservationId, of: &Reservation) -> String {
    let Flow { destination, protocol, scope } = of.flow;
    let port = |port: u16| if port == 0 { "any".to_owned() } else { port.to_string() };
    let flow = match scope {
        Scope::Spi { spi, virtual_port } => format!("SPI {} virtual port {virtual_port}", Spi(spi)),
        Scope::Ports { source, destination, dscp } => {
            let dscp = dscp.map_or_else(|| "any".to_owned(), |dscp| dscp.to_string());
            format!("ports {} to {}, DSCP {dscp}", port(source), port(destination))
        }
    };
    format!(
        "reservation {} of {}: {} bit/s to {destination}, protocol {protocol}, {flow}",
        id.0, of.holder, of.rate
    )
}

/// Some reservations in one sentence: their numbers and holders.
pub fn listed(ended: &[(ReservationId, Reservation)]) -> String {
    let one = |(id, of): &(ReservationId, Reservation)| format!("{} of {}", id.0, of.holder);
    let mut text: Vec<String> = ended.iter().take(NAMED).map(one).collect();
    if let Some(more) = ended.len().checked_sub(NAMED).filter(|more| *more > 0) {
        text.push(format!("{more} more"));
    }
    text.join(", ")
}

/// The reason of the table, as a refusal of the API. What is refused for its figures alone can be tried again.
fn refusal(refused: &Refused) -> ApiError {
    let (fault, remedy) = match refused {
        Refused::Unit { .. } | Refused::Uplink { .. } => {
            (Blame::Conflict, "`ravelin qos reserve list` says who holds what; ask for less, or wait")
        }
        Refused::Taken { .. } => (Blame::BadRequest, "the holder can remove it, or let it end"),
        Refused::TooMany { .. } => {
            (Blame::BadRequest, "remove one that is not needed, or wait until one ends")
        }
        Refused::SameSpi { .. } => (Blame::BadRequest, "refresh that one, or remove it first"),
        _ => return bad(refused.to_string()),
    };
    ApiError::new(fault, refused.to_string()).remedy(remedy)
}

/// What reservations can take of the units and uplinks of a graph.
fn capacities(graph: &Description) -> (Vec<Capacity>, Vec<Capacity>) {
    let part = |whole: u64| (u128::from(whole) * u128::from(RESERVABLE.0) / u128::from(RESERVABLE.1)) as u64;
    let units = graph.units.iter().map(|unit| Capacity::new(&unit.name.value, part(SECOND)));
    let uplinks =
        graph.uplinks.iter().map(|uplink| Capacity::new(&uplink.name.value, part(uplink.rate.value / 8)));
    (units.collect(), uplinks.collect())
}

/// Go on over another graph. The answer is what has ended by it.
fn exchange(table: &mut Reservations, next: &LoadedGraph) -> Vec<(ReservationId, Reservation)> {
    let (units, uplinks) = capacities(&next.description);
    table.set_capacities(units, uplinks, |reservation| {
        let name = next.aggregates.name(reservation.class);
        let class = next.description.classes.iter().find(|class| Some(class.name.value.as_str()) == name);
        class.is_some_and(|class| meets(class, &reservation.flow))
    })
}

/// Whether packets of the flow can be in the class: those by ports are outbound.
fn meets(class: &Class, flow: &Flow) -> bool {
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
    let all = graph.units.iter().enumerate();
    let found: Vec<usize> = match name {
        None => all.filter(|(_, unit)| serves(unit)).map(|(place, _)| place).collect(),
        Some(name) => {
            let Some((place, unit)) = all.clone().find(|(_, unit)| unit.name.value == name) else {
                let names: Vec<&str> = all.map(|(_, unit)| unit.name.value.as_str()).collect();
                return Err(bad(format!("the graph has no unit {name:?}"))
                    .remedy(format!("units: {}", names.join(", "))));
            };
            if serves(unit) { vec![place] } else { Vec::new() }
        }
    };
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

/// A flow as a document.
fn shown(flow: &Flow) -> QosFlow {
    let Flow { destination, protocol, scope } = *flow;
    let none = QosFlow {
        destination,
        protocol,
        spi: None,
        virtual_port: None,
        source_port: None,
        destination_port: None,
        dscp: None,
    };
    let port = |port: u16| (port != 0).then_some(port);
    match scope {
        Scope::Spi { spi, virtual_port } => {
            QosFlow { spi: Some(Spi(spi)), virtual_port: Some(virtual_port), ..none }
        }
        Scope::Ports { source, destination, dscp } => {
            QosFlow { source_port: port(source), destination_port: port(destination), dscp, ..none }
        }
    }
}
