//! The daemon's UDP port, which any user may hold while no daemon runs: who does is named, and the start tries again for a while.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::Duration;

use netio::udp::{Holder, UdpOptions, UdpTransport, holders};

use super::error::RunError;
use config::Config;

/// How long a start waits for a port that somebody else holds, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_millis(200);

/// The sockets that were handed over, with so many queues, or new ones.
pub(super) fn open(
    config: &Config,
    (handed_over, queues): (Vec<OwnedFd>, usize),
) -> Result<UdpTransport, RunError> {
    if !handed_over.is_empty() {
        return Ok(UdpTransport::from_fds(handed_over, queues)?);
    }
    let options = UdpOptions { port: config.esp.port, ..UdpOptions::default() };
    let begun = netio::clock::monotonic();
    let mut told = Vec::new();
    loop {
        let error = match UdpTransport::open(&options) {
            Ok(transport) => return Ok(transport),
            Err(error) if error.kind() != ErrorKind::AddrInUse => return Err(error.into()),
            Err(error) => error,
        };
        let found = holders(options.port);
        if netio::clock::monotonic().since(begun) >= PATIENCE {
            return Err(match found.is_empty() {
                true => error.into(),
                false => RunError::Unfit(format!(
                    "{}; end it, or give another port on both hosts (`port` in [esp]); what must be protected stays refused where a \
                     kernel half is in force",
                    held(options.port, &found)
                )),
            });
        }
        if found != told && !found.is_empty() {
            tracing::warn!("{}; trying again for {} seconds", held(options.port, &found), PATIENCE.as_secs());
            told = found;
        }
        std::thread::sleep(TURN);
    }
}

fn held(port: u16, by: &[Holder]) -> String {
    let by: Vec<String> = by.iter().map(ToString::to_string).collect();
    format!("UDP port {port} is held by {}", by.join(" and by "))
}
