//! `ravelin spd list --per-socket`: the entries of sockets.

use api::{SpdEntries, SpdEntry, path};

use crate::client::Ask;
use crate::output;

pub(super) fn list(ask: &Ask) -> anyhow::Result<()> {
    let list: SpdEntries = ask.connect.get(path::ENTRIES)?;
    ask.show(&list, |list| match list.entries.as_slice() {
        [] => "no entries: no socket of an application with a policy has made a call yet\n".to_owned(),
        entries => table(entries),
    })
}

fn table(entries: &[SpdEntry]) -> String {
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    output::table(
        &["APPLICATION", "SOCKET", "DIR", "PROTO", "LOCAL", "REMOTE", "PORT", "ACTION", "LINE", "LEFT"],
        &rows,
    )
}

fn row(entry: &SpdEntry) -> Vec<String> {
    let local = match entry.local {
        Some(std::net::IpAddr::V6(local)) => format!("[{local}]:{}", entry.local_port),
        Some(local) => format!("{local}:{}", entry.local_port),
        None => format!("any:{}", entry.local_port),
    };
    let left = match entry.expires_ms {
        Some(ms) => format!("{} s{}", ms.div_ceil(1000), if entry.closing { ", closed" } else { "" }),
        None => "-".to_owned(),
    };
    vec![
        entry.application.clone(),
        entry.socket.to_string(),
        entry.direction.clone(),
        match entry.protocol {
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            n => n.to_string(),
        },
        local,
        entry.remote.clone(),
        entry.remote_port.clone(),
        entry.action.clone(),
        entry.rule.as_ref().map_or_else(|| "-".to_owned(), |rule| rule.line.to_string()),
        left,
    ]
}
