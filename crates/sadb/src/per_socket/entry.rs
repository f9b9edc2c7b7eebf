//! One entry of the policy database.

use std::fmt;
use std::net::IpAddr;

use wire::{AppId, Flow, Prefix, Time};

use crate::spd::{Decision, PortRange};

/// The direction of the packets that an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryDirection {
    /// Packets in both directions (paper 000 section 3.4.1: "a policy for both inbound and outbound processing").
    Mirrored,
    /// Packets to this host.
    Inbound,
    /// Packets from this host.
    Outbound,
}

impl EntryDirection {
    /// The word for this direction in listings.
    pub const fn name(self) -> &'static str {
        match self {
            EntryDirection::Mirrored => "mirrored",
            EntryDirection::Inbound => "inbound",
            EntryDirection::Outbound => "outbound",
        }
    }
}

/// The flows that an entry is for, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySelector {
    /// The IP protocol number of the flows.
    pub protocol: u8,
    /// The address of this host; `None` matches any.
    pub local: Option<IpAddr>,
    /// The port of this host; 0 where the protocol has none.
    pub local_port: u16,
    /// The addresses of the peers.
    pub remote: Prefix,
    /// The ports of the peers.
    pub remote_port: PortRange,
}

impl EntrySelector {
    /// Whether the selector covers a flow.
    pub fn matches(&self, flow: &Flow) -> bool {
        self.protocol == flow.protocol
            && self.local_port == flow.local_port
            && self.local.is_none_or(|local| local == flow.local)
            && self.remote.contains(flow.remote)
            && self.remote_port.contains(flow.remote_port)
    }
}

impl fmt::Display for EntrySelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.local {
            Some(IpAddr::V4(local)) => write!(f, "{local}:{}", self.local_port)?,
            Some(IpAddr::V6(local)) => write!(f, "[{local}]:{}", self.local_port)?,
            None => write!(f, "any:{}", self.local_port)?,
        }
        write!(f, " - {}", self.remote)?;
        match self.remote_port {
            PortRange::ANY => write!(f, " port any")?,
            PortRange { first, last } if first == last => write!(f, " port {first}")?,
            PortRange { first, last } => write!(f, " port {first}-{last}")?,
        }
        match self.protocol {
            6 => f.write_str(" tcp"),
            17 => f.write_str(" udp"),
            n => write!(f, " protocol {n}"),
        }
    }
}

/// One policy entry: what the flows of one socket get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The application whose policy the entry comes from and whose packets it is for.
    pub app: AppId,
    /// The kernel's cookie of the socket that made the entry.
    pub socket: u64,
    /// The direction of the packets that it is for.
    pub direction: EntryDirection,
    /// The flows that it is for.
    pub selector: EntrySelector,
    /// The action for these flows, and the rules behind it.
    pub decision: Decision,
    /// The time at which the entry goes if nothing uses it; `None`: it goes with its socket.
    pub expires: Option<Time>,
    /// Whether its socket is closed. The entry then serves only what that socket still sends.
    pub closing: bool,
}

impl Entry {
    pub(super) fn is_alive(&self, now: Time) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }
}
