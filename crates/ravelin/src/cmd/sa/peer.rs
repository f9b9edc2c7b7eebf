//! `sa add` and `sa list`: what keeps a peer reachable, follows it, hides silence, and what is known of the path to it.

use api::{SaAdd, SaInfo, WordOr};
use clap::Args;

/// Options of `sa add` about the peer.
#[derive(Debug, Args)]
pub struct Peer {
    /// Keep a NAT's mapping open: after so many seconds of silence a keepalive leaves (outbound); `on`: the daemon's number.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "on")]
    keepalive: Option<String>,
    /// Let at least so many packets a second leave, dummies if there are no others (outbound, tunnel mode).
    #[arg(long, value_name = "PACKETS")]
    dummy: Option<u16>,
    /// Go with the peer to another address or port, where an authentic packet shows it there. For both directions.
    #[arg(long)]
    follow_peer: bool,
    /// Take flows from an association to another peer with the same addresses on its other side (outbound, in UDP; refused otherwise).
    #[arg(long)]
    takes_over: bool,
}

impl Peer {
    /// Say so in a request.
    pub fn ask(self, request: &mut SaAdd) {
        request.keepalive = self.keepalive.map(|text| match text.parse() {
            Ok(seconds) => WordOr::Value(seconds),
            Err(_) => WordOr::Word(text),
        });
        request.dummy = self.dummy;
        request.follow_peer = self.follow_peer;
        request.takes_over = self.takes_over;
    }
}

/// The path MTU of an outbound association; behind one that was learned, how long ago.
pub fn path_mtu(sa: &SaInfo) -> String {
    match sa.pmtu {
        Some(pmtu) => match pmtu.age_seconds {
            Some(age) => format!("{} ({age}s)", sa.path_mtu),
            None => sa.path_mtu.to_string(),
        },
        None => "-".to_owned(),
    }
}
