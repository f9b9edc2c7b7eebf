//! A packet in words: as the comment in a capture file, and as a line for people.

use std::fmt::Write;
use std::time::Duration;

use super::names::Names;
use crate::capture::{Direction, Facts, Fate, Record};
use documents::associations::protocol_word;

/// What is known of a packet, as `name=value` words: `verdict=protected sa=0x00001001 seq=7 peer=192.0.2.2 suite=aes128gcm
/// app=/usr/bin/curl`.
pub(super) fn comment(facts: &Facts, names: &mut Names) -> String {
    let mut out = format!("verdict={}", facts.fate.name());
    let mut word = |name: &str, value: &dyn std::fmt::Display| {
        let _ = write!(out, " {name}={value}");
    };
    match facts.fate {
        Fate::Dropped(reason) => word("reason", &reason),
        Fate::Held(id) => word("acquire", &id.0),
        Fate::Protected | Fate::Clear | Fate::Waiting => {}
    }
    if facts.spi != 0 {
        word("sa", &format_args!("{:#010x}", facts.spi));
        word("seq", &facts.sequence);
    }
    if let Some(peer) = facts.peer {
        word("peer", &peer);
    }
    if let Some(suite) = names.suite(facts) {
        word("suite", &suite);
    }
    if let Some(app) = names.app(facts.app) {
        word("app", &app);
    }
    if let Some(rule) = names.rule(facts.rule) {
        word("rule", &rule);
    }
    if let Fate::Dropped(reason) = facts.fate {
        word("meaning", &format_args!("{:?}", reason.text()));
    }
    out
}

/// A line: time, way, who talked to whom, length, then as in [`comment`].
pub(super) fn line(record: &Record, len: usize, comment: &str) -> String {
    let Facts { way, flow, outer, .. } = record.facts;
    let mut out = format!("{} {:<3} ", time(record.time), way.name());
    match flow {
        Some(flow) => {
            let ends = match way {
                Direction::In => (flow.remote, flow.remote_port, flow.local, flow.local_port),
                Direction::Out => (flow.local, flow.local_port, flow.remote, flow.remote_port),
            };
            let (from, from_port, to, to_port) = ends;
            let ports = matches!(flow.protocol, 6 | 17 | 132);
            let end = |address: std::net::IpAddr, port: u16| match ports {
                true => std::net::SocketAddr::new(address, port).to_string(),
                false => address.to_string(),
            };
            let protocol = protocol_word(flow.protocol);
            let _ = write!(out, "{} > {} {protocol}", end(from, from_port), end(to, to_port));
        }
        None => out.push_str(if outer { "sealed" } else { "unreadable" }),
    }
    let _ = writeln!(out, " {len} octets  {comment}");
    out
}

/// Time of day, UTC, with nanoseconds.
fn time(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs() % 86_400;
    let (h, m, s) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{h:02}:{m:02}:{s:02}.{:09}", since_1970.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_has_nine_digits_behind_the_point() {
        assert_eq!(time(Duration::new(86_400 * 3 + 3600 + 61, 7)), "01:01:01.000000007");
    }
}
