//! What a start and its rehearsal open alike.

use std::path::Path;

use config::Config;
use netio::raw::{Kind, RawReceiver, RawSender};
use netio::udp::Family;

use super::error::RunError;
use crate::host::Record;

/// The cgroup to attach to.
pub(super) fn unified(config: &Config) -> Result<std::path::PathBuf, RunError> {
    Ok(config.cgroup.clone().map_or_else(netio::cgroup::unified_root, Ok)?)
}

pub(super) fn read_record(run_dir: &Path) -> Result<Option<Record>, RunError> {
    let doing = "reading what an earlier daemon changed on the host";
    Record::read(run_dir).map_err(|source| RunError::System { doing, source })
}

/// Where bare ESP and AH come from, and IP in IP where it is asked for, of each family that the host has.
pub(super) fn open_raw(config: &Config) -> Result<Vec<RawReceiver>, RunError> {
    let mut out = Vec::new();
    let kinds: &[Kind] = match config.tunnels_from.is_empty() {
        true => &[Kind::Esp, Kind::Ah],
        false => &[Kind::Esp, Kind::Ah, Kind::Ipv4, Kind::Ipv6],
    };
    for family in [Family::V4, Family::V6] {
        for kind in kinds.iter().copied() {
            out.extend(RawReceiver::open(family, kind)?);
        }
    }
    Ok(out)
}

/// Where ICMP errors come from, of each family that the host has.
pub(super) fn open_errors() -> Result<Vec<RawReceiver>, RunError> {
    let mut out = Vec::new();
    for family in [Family::V4, Family::V6] {
        out.extend(RawReceiver::open(family, Kind::Errors)?);
    }
    Ok(out)
}

pub(super) fn raw_sender() -> Result<RawSender, RunError> {
    let first = netio::random::number()
        .map_err(|source| RunError::System { doing: "reading random octets", source })?;
    Ok(RawSender::open(first)?)
}
