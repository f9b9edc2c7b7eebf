//! One entry of the policy database.

use std::fmt;
use std::net::IpAddr;

use wire::{AppId, Flow, Prefix, Time};

use crate::spd::{Decision, PortRange};

/// Which packets an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryDirection {
    /// Both ways (paper 000 section 3.4.1: "a policy for both inbound and outbound processing").
    Mirrored,
    /// To this host.
    Inbound,
    /// From this host.
    Outbound,
}

impl EntryDirection {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            EntryDirection::Mirrored => "mirrored",
            EntryDirection::Inbound => "inbound",
            EntryDirection::Outbound => "outbound",
        }
    }
}

/// Which flows an entry is for, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySelector {
    /// IP protocol number.
    pub protocol: u8,
    /// This host's address; `None`: any.
    pub local: Option<IpAddr>,
    /// This host's port; 0 where the protocol has none.
    pub local_port: u16,
    /// The peers.
    pub remote: Prefix,
    /// The peers' ports.
    pub remote_port: PortRange,
}

impl EntrySelector {
    /// Whether a flow is one of them.
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

/// One entry: what the flows of one socket get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The application whose policy it comes from, and whose packets it is for.
    pub app: AppId,
    /// The socket that made it.
    pub socket: u64,
    /// Which packets.
    pub direction: EntryDirection,
    /// Which flows.
    pub selector: EntrySelector,
    /// What they get, and by which rules.
    pub decision: Decision,
    /// When it goes if nothing uses it; `None`: with its socket.
    pub expires: Option<Time>,
    /// Its socket is closed: it serves what that socket still sends.
    pub closing: bool,
}

impl Entry {
    pub(super) fn is_alive(&self, now: Time) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }
}
