//! What is told of reservations: to the data threads, to the kernel half, and in sentences.

use api::Spi;
use qos::reservation::{Flow, FlowTerms, Reservation, ReservationId, Scope};
use sockmon::{ReservedClass, ReservedName};

/// The refused reservations that a sentence names; of more it says how many there are.
const NAMED: usize = 5;

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
