//! The command `ravelin sa list`, which shows the associations.

use std::net::IpAddr;

use api::{Encapsulation, SaInfo, SaList, SaType, path};
use clap::Args;

use super::peer::path_mtu;
use crate::client::Ask;
use crate::output;

/// Show the associations of an instance. Never shows a key.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    ask: Ask,
}

impl List {
    pub fn execute(self) -> anyhow::Result<()> {
        let list: SaList = self.ask.connect.get(path::SA)?;
        self.ask.show(&list, |list| match list.sas.as_slice() {
            [] => "no security associations; add them with `ravelin sa add`\n".to_owned(),
            sas => table(sas),
        })
    }
}

fn table(sas: &[SaInfo]) -> String {
    let rows: Vec<Vec<String>> = sas.iter().map(row).collect();
    output::table(
        &[
            "DIR",
            "SPI",
            "TYPE",
            "MODE",
            "SUITE",
            "LOCAL",
            "REMOTE",
            "SELECTORS",
            "APPLICATION",
            "STATE",
            "PMTU",
            "SEQUENCE",
            "PACKETS",
            "OCTETS",
        ],
        &rows,
    )
}

fn row(sa: &SaInfo) -> Vec<String> {
    let udp = sa.encapsulation == Encapsulation::Udp;
    let end = |address: IpAddr, port: u16| match udp {
        true => std::net::SocketAddr::new(address, port).to_string(),
        false => address.to_string(),
    };
    let port = |ports: &Option<String>| ports.as_ref().map_or_else(String::new, |p| format!(":{p}"));
    let selectors = &sa.selectors;
    let protocol = selectors.protocol.map_or_else(String::new, |p| format!(" proto {p}"));
    vec![
        sa.direction.to_string(),
        sa.spi.to_string(),
        kind(sa),
        sa.mode.to_string(),
        output::suite(sa),
        end(sa.local, sa.local_port),
        end(sa.remote, sa.remote_port),
        format!(
            "{}{} - {}{}{protocol}",
            selectors.local,
            port(&selectors.local_ports),
            selectors.remote,
            port(&selectors.remote_ports)
        ),
        selectors.app.clone().unwrap_or_else(|| "(shared)".to_owned()),
        state(sa),
        path_mtu(sa),
        sa.sequence.to_string(),
        sa.counters.packets.to_string(),
        output::octets(sa.counters.bytes),
    ]
}

fn kind(sa: &SaInfo) -> String {
    let word = match sa.kind {
        SaType::Esp => "esp",
        SaType::Ah => "ah",
        SaType::Ipcomp => "ipcomp",
        SaType::Ipip => "ipip",
    };
    match (sa.encapsulation, sa.esn) {
        (Encapsulation::Udp, false) => format!("{word}/udp"),
        (Encapsulation::Udp, true) => format!("{word}/udp/esn"),
        (Encapsulation::None, false) => word.to_owned(),
        (Encapsulation::None, true) => format!("{word}/esn"),
    }
}

fn state(sa: &SaInfo) -> String {
    match sa.state {
        api::LifeState::Mature => "mature",
        api::LifeState::Dying => "dying",
        api::LifeState::Dead => "dead",
    }
    .to_owned()
}
