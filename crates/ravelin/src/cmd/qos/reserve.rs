//! `ravelin qos reserve`: rates of classes that flows are promised, and what these leave free.

use std::net::IpAddr;

use api::{
    QosFlow, QosRefresh, QosReservation, QosReservationRemoved, QosReservations, QosReserve, QosReserved,
    QosResource, QosResourceKind, Spi, path,
};
use clap::{Args, Subcommand};
use qos::graph::{quantity, rules};

use crate::client::Ask;
use crate::cmd::debug::seconds;
use crate::output;

/// Promise a flow a rate of a class: its packets within the rate get the class, and those beyond it have the class that
/// they would have had. A promise is made as far as the crypto units and the uplinks have room, and ends by itself unless
/// it is refreshed.
#[derive(Debug, Subcommand)]
pub enum Reserve {
    Add(Add),
    Refresh(Refresh),
    Remove(Remove),
    List(List),
}

/// Reserve a rate of a class for a flow. The same once more refreshes it, and another rate takes its place: a holder that
/// repeats this in time keeps what it has, over a restart of the daemon too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ravelin qos reserve add --class ef --rate 2Mbit --burst 6kB --to 192.0.2.9 --protocol udp --port 5004 --holder pbx
  ravelin qos reserve add --class ef --rate 2Mbit --burst 6kB --to 198.51.100.2 --spi 0x1000 --holder pbx --ttl 5m
A flow with --spi is one of ESP (or AH) as RFC 2207 names it; --to is the outer destination then.")]
pub struct Add {
    /// The class of the graph that packets within the rate get.
    #[arg(long, value_name = "CLASS")]
    class: String,
    /// The rate: 64kbit, 2Mbit. It counts packets as they wait: the inner packet outbound, the datagram inbound.
    #[arg(long, value_parser = rate)]
    rate: u64,
    /// Octets that may come at once, at least one packet: 3kB.
    #[arg(long, value_parser = octets)]
    burst: u64,
    /// Octets that each packet counts as at least [default: 128B]. The smaller they are, the more of a unit and an uplink
    /// the rate takes.
    #[arg(long, value_name = "OCTETS", value_parser = octets)]
    packet: Option<u64>,
    /// The destination: of the inner packet, or with --spi of the outer one.
    #[arg(long, value_name = "ADDRESS")]
    to: IpAddr,
    /// The protocol: tcp, udp, esp, ah or a number [default: udp, or with --spi esp].
    #[arg(long, value_parser = protocol_number)]
    protocol: Option<u8>,
    /// The security parameter index of the flow.
    #[arg(long, value_name = "SPI")]
    spi: Option<Spi>,
    /// The virtual destination port of RFC 2207 [default: 8192].
    #[arg(long, value_name = "PORT", requires = "spi")]
    virtual_port: Option<u16>,
    /// The destination port; any unless told otherwise.
    #[arg(long, value_parser = port)]
    port: Option<u16>,
    /// The source port; any unless told otherwise.
    #[arg(long, value_name = "PORT", value_parser = port)]
    source_port: Option<u16>,
    /// The DSCP, 0 to 63; any unless told otherwise.
    #[arg(long)]
    dscp: Option<u8>,
    /// The name of who holds the reservation.
    #[arg(long, value_name = "NAME", value_parser = holder)]
    holder: String,
    /// How long it lives without a refresh: 90s, 5m, at most 1h.
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "2m")]
    ttl: u64,
    /// The uplink whose octets it takes, where the graph describes several.
    #[arg(long, value_name = "NAME")]
    uplink: Option<String>,
    /// The crypto unit whose time it takes [default: the one with the most left].
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,
    #[command(flatten)]
    ask: Ask,
}

/// Let a reservation live for its time to live from now on.
#[derive(Debug, Args)]
pub struct Refresh {
    /// The number of the reservation.
    id: u64,
    /// The name of who holds it.
    #[arg(long, value_name = "NAME", value_parser = holder)]
    holder: String,
    #[command(flatten)]
    ask: Ask,
}

/// Remove a reservation before its time has come.
#[derive(Debug, Args)]
pub struct Remove {
    /// The number of the reservation.
    id: u64,
    /// The name of who holds it.
    #[arg(long, value_name = "NAME", value_parser = holder)]
    holder: String,
    #[command(flatten)]
    ask: Ask,
}

/// List the reservations, and what they leave free of each crypto unit and uplink.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    ask: Ask,
}

fn rate(text: &str) -> Result<u64, String> {
    quantity::rate(text).ok_or_else(|| format!("{text:?} is no rate; write 64kbit, 2Mbit"))
}

fn octets(text: &str) -> Result<u64, String> {
    quantity::octets(text).ok_or_else(|| format!("{text:?} is no number of octets; write 1500B, 6kB"))
}

fn protocol_number(text: &str) -> Result<u8, String> {
    let number = rules::lookup(rules::PROTOCOLS, text).and_then(|number| u8::try_from(number).ok());
    number.or_else(|| text.parse().ok()).ok_or_else(|| {
        format!("{text:?} is no IP protocol; write tcp, udp, esp, ah or a number from 0 to 255")
    })
}

/// A port of the packets. Zero is none: leave the option out for any.
fn port(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is no port; write 1 to 65535, or leave it out for any"))
}

fn holder(text: &str) -> Result<String, String> {
    let is_right = |c: char| c.is_ascii_alphanumeric() || "-_.@:/".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(is_right) {
        return Ok(text.to_owned());
    }
    Err("the name of a holder has 1 to 64 letters, digits and -_.@:/".to_owned())
}

impl Reserve {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        match self {
            Reserve::Add(add) => add.execute(),
            Reserve::Refresh(refresh) => refresh.execute(),
            Reserve::Remove(remove) => remove.execute(),
            Reserve::List(List { ask }) => {
                let list: QosReservations = ask.connect.get(path::QOS_RESERVATIONS)?;
                ask.show(&list, text)
            }
        }
    }
}

impl Add {
    fn execute(self) -> anyhow::Result<()> {
        let usual = if self.spi.is_some() { wire::protocol::ESP } else { wire::protocol::UDP };
        let request = QosReserve {
            class: self.class,
            rate_bits_per_second: self.rate,
            burst_octets: self.burst,
            packet_octets: self.packet,
            flow: QosFlow {
                destination: self.to,
                protocol: self.protocol.unwrap_or(usual),
                spi: self.spi,
                virtual_port: self.virtual_port,
                source_port: self.source_port,
                destination_port: self.port,
                dscp: self.dscp,
            },
            holder: self.holder,
            seconds_to_live: self.ttl,
            uplink: self.uplink,
            unit: self.unit,
        };
        let answer: QosReserved = self.ask.connect.post(path::QOS_RESERVATIONS, &request)?;
        self.ask.show(&answer, held)
    }
}

impl Refresh {
    fn execute(self) -> anyhow::Result<()> {
        let path = path::QOS_RESERVATION_REFRESH.replace("{id}", &self.id.to_string());
        let answer: QosReserved = self.ask.connect.post(&path, &QosRefresh { holder: self.holder })?;
        self.ask.show(&answer, held)
    }
}

impl Remove {
    fn execute(self) -> anyhow::Result<()> {
        let path = path::QOS_RESERVATION_ONE.replace("{id}", &self.id.to_string());
        // The characters of a holder need no escape.
        let answer: QosReservationRemoved =
            self.ask.connect.delete(&format!("{path}?holder={}", self.holder))?;
        self.ask.show(&answer, |answer| {
            let of = &answer.reservation;
            let (id, class, rate) = (of.id, &of.class, quantity::show_rate(of.rate_bits_per_second));
            format!("reservation {id} is removed: {class}, {rate} to {}\n", flow(&of.flow))
                + &left(&answer.resources)
        })
    }
}

/// What is said of a reservation that was made or refreshed.
fn held(answer: &QosReserved) -> String {
    let of = &answer.reservation;
    let rate = quantity::show_rate(of.rate_bits_per_second);
    format!(
        "reservation {}: {}, {rate} to {}, held by {} for {} without a refresh\n",
        of.id,
        of.class,
        flow(&of.flow),
        of.holder,
        output::duration(of.seconds_left)
    ) + &left(&answer.resources)
}

/// A flow in a few words.
fn flow(of: &QosFlow) -> String {
    let known = rules::word(rules::PROTOCOLS, &of.protocol.into());
    let protocol = known.map_or_else(|| of.protocol.to_string(), str::to_owned);
    let mut text = format!("{} {protocol}", of.destination);
    if let Some(spi) = of.spi {
        text += &format!(" spi {spi}");
    }
    for (name, value) in
        [("vport", of.virtual_port), ("port", of.destination_port), ("from port", of.source_port)]
    {
        if let Some(value) = value {
            text += &format!(" {name} {value}");
        }
    }
    if let Some(dscp) = of.dscp {
        text += &format!(" dscp {dscp}");
    }
    text
}

/// What is left of each unit and uplink, for people.
pub(super) fn left(resources: &[QosResource]) -> String {
    let row = |of: &QosResource| {
        let (kind, amount): (_, fn(u64) -> String) = match of.kind {
            QosResourceKind::Unit => ("unit", work),
            QosResourceKind::Uplink => ("uplink", |octets| quantity::show_rate(octets.saturating_mul(8))),
        };
        vec![format!("{kind} {}", of.name), amount(of.reservable), amount(of.reserved), amount(of.free)]
    };
    let rows: Vec<_> = resources.iter().map(row).collect();
    if rows.is_empty() {
        String::new()
    } else {
        output::table(&["OF", "RESERVABLE", "RESERVED", "FREE"], &rows)
    }
}

/// Nanoseconds of work in each second, as a share of the second.
fn work(ns: u64) -> String {
    format!("{}.{:02} %", ns / 10_000_000, ns / 100_000 % 100)
}

fn text(list: &QosReservations) -> String {
    let row = |of: &QosReservation| {
        vec![
            of.id.to_string(),
            of.class.clone(),
            quantity::show_rate(of.rate_bits_per_second),
            flow(&of.flow),
            of.holder.clone(),
            output::duration(of.seconds_left),
            of.packets_within.to_string(),
            of.packets_beyond.to_string(),
        ]
    };
    let rows: Vec<_> = list.reservations.iter().map(row).collect();
    let mut out = match rows.is_empty() {
        true => "nothing is reserved\n".to_owned(),
        false => output::table(&["ID", "CLASS", "RATE", "TO", "HOLDER", "LEFT", "WITHIN", "BEYOND"], &rows),
    };
    out += "\n";
    out + &left(&list.resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_second_and_flows_are_words() {
        assert_eq!((work(750_000_000).as_str(), work(1_000_000).as_str()), ("75.00 %", "0.10 %"));
        let of = QosFlow {
            destination: "192.0.2.9".parse().unwrap(),
            protocol: 17,
            spi: None,
            virtual_port: None,
            source_port: None,
            destination_port: Some(5004),
            dscp: Some(46),
        };
        assert_eq!(flow(&of), "192.0.2.9 udp port 5004 dscp 46");
        let of = QosFlow {
            protocol: 50,
            spi: Some(Spi(0x1000)),
            virtual_port: Some(8192),
            destination_port: None,
            dscp: None,
            ..of
        };
        assert_eq!(flow(&of), "192.0.2.9 esp spi 0x00001000 vport 8192");
        for bad in ["0", "70000", "x"] {
            assert!(port(bad).is_err(), "{bad}");
        }
        assert!(holder("pbx 1").is_err() && holder("").is_err() && holder("pbx@10.0.0.1:5060").is_ok());
    }
}
