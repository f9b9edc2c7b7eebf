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

/// The column of the class, which is shown where an association has one.
const CLASS: usize = 9;

fn table(sas: &[SaInfo]) -> String {
    let mut rows: Vec<Vec<String>> = sas.iter().map(row).collect();
    let mut head = vec![
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
    ];
    if sas.iter().any(|sa| sa.class.is_some()) {
        head.insert(CLASS, "CLASS");
        for (row, sa) in rows.iter_mut().zip(sas) {
            row.insert(CLASS, sa.class.clone().unwrap_or_else(|| "-".to_owned()));
        }
    }
    output::table(&head, &rows)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sa(class: Option<&str>) -> SaInfo {
        let mut document = serde_json::json!({
            "spi": "0x1000", "direction": "out", "mode": "tunnel", "suite": "aes128gcm",
            "local": "192.0.2.1", "remote": "192.0.2.2", "local_port": 4500, "remote_port": 4500,
            "selectors": {"local": "192.0.2.1", "remote": "192.0.2.2"},
            "path_mtu": 1500, "inner_mtu": 1438, "sequence": 0, "counters": {"packets": 0, "bytes": 0},
        });
        if let Some(class) = class {
            document["class"] = class.into();
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_class_is_a_column_where_an_association_has_one() {
        let plain = table(&[sa(None)]);
        assert!(!plain.contains("CLASS"), "{plain}");
        let text = table(&[sa(None), sa(Some("voice"))]);
        let words = |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        let at = words(0).iter().position(|word| *word == "CLASS").unwrap();
        assert_eq!(words(0)[at - 1..at + 2], ["APPLICATION", "CLASS", "STATE"]);
        assert!(words(1).contains(&"-") && !words(1).contains(&"voice"), "{text}");
        let found = words(2);
        let class = found.iter().position(|word| *word == "voice").unwrap();
        assert_eq!((found[class - 1], found[class + 1]), ("(shared)", "mature"), "{text}");
    }
}
