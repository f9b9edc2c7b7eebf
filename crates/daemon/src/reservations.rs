//! The reservations of this gateway: requests become entries of the table, what is held becomes documents
//! (docs/design/0044).
//!
//! What enters: the graph in force, requests, what packets cost. What leaves: reservations that were admitted, or a
//! refusal with its figures. What data threads do for them is the caller's to tell them.

mod request;
mod told;

use std::time::Duration;

use api::{QosFlow, QosReservation, QosResource, QosResourceKind, QosTaken, Spi};
use config::LoadedGraph;
use documents::api_error::{ApiError, Blame};
use qos::graph::Description;
use qos::reservation::{
    Capacity, Flow, FlowCounts, MOST, Refused, Reservation, ReservationId, Reservations, Scope,
};
use wire::Time;

use request::meets;
pub use request::{Sound, examine};
pub use told::{kernel_class, kernel_name, listed, terms, words};

/// The part of a second, and of an uplink, that reservations can take: three quarters, as is usual for RSVP. The rest is
/// for everybody else.
const RESERVABLE: (u64, u64) = (3, 4);
/// Nanoseconds in one second.
const SECOND: u64 = 1_000_000_000;

/// The table of reservations over the graph in force.
#[derive(Clone, Debug)]
pub struct Booking {
    table: Reservations,
    key: [u8; 16],
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
    /// No reservation has this number, or it is another holder's.
    pub fn refresh(&mut self, id: ReservationId, holder: &str, now: Time) -> Result<(), ApiError> {
        self.held_by(id, holder)?;
        self.table.refresh(id, now);
        Ok(())
    }

    /// Whether a reservation is there, and this holder's.
    ///
    /// # Errors
    /// No reservation has this number, or it is another holder's.
    pub fn held_by(&self, id: ReservationId, holder: &str) -> Result<&Reservation, ApiError> {
        let Some(reservation) = self.table.get(id) else {
            return Err(ApiError::new(Blame::NotFound, format!("there is no reservation {}", id.0)).remedy(
                "it has ended, or was never made: `ravelin qos reserve add` makes it again, `list` shows those there are",
            ));
        };
        if reservation.holder != holder {
            let text = format!("reservation {} is held by {}, not by {holder}", id.0, reservation.holder);
            return Err(ApiError::new(Blame::BadRequest, text).remedy("name its holder"));
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
        _ => return ApiError::new(Blame::BadRequest, refused.to_string()),
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
