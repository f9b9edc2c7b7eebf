//! The records of sockets in the table, and the keys that find its entries.

use std::net::IpAddr;

use wire::{AppId, Flow, Time, addr};

use super::entry::Entry;

/// The key of the entries for exactly one flow. The application is its last part, so that one range holds all
/// applications: an inbound packet does not say whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExactKey {
    remote: u128,
    local: u128,
    ports: u32,
    protocol: u8,
    pub app: AppId,
}

impl ExactKey {
    pub fn new(app: AppId, flow: &Flow) -> ExactKey {
        ExactKey {
            remote: addr::to_bits(flow.remote),
            local: addr::to_bits(flow.local),
            ports: u32::from(flow.remote_port) << 16 | u32::from(flow.local_port),
            protocol: flow.protocol,
            app,
        }
    }

    /// The flow that the key was made of.
    pub fn flow(&self) -> Flow {
        Flow {
            opaque: false,
            local: addr::from_bits(self.local),
            remote: addr::from_bits(self.remote),
            local_port: self.ports as u16,
            remote_port: (self.ports >> 16) as u16,
            protocol: self.protocol,
        }
    }
}

/// The key of the entries of a local port for every peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BroadKey {
    pub protocol: u8,
    pub port: u16,
    pub app: AppId,
}

impl BroadKey {
    pub fn new(app: AppId, flow: &Flow) -> BroadKey {
        BroadKey { protocol: flow.protocol, port: flow.local_port, app }
    }
}

/// The entries that one socket has for every peer. The first that matches decides.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub socket: u64,
    pub local: IpAddr,
    pub entries: Vec<Entry>,
}

impl Group {
    /// Whether this host's end of the flow belongs to the group's socket.
    pub fn reaches(&self, flow: &Flow) -> bool {
        match self.local {
            IpAddr::V4(own) if own.is_unspecified() => flow.local.is_ipv4(),
            IpAddr::V6(own) if own.is_unspecified() => true,
            own => own == flow.local,
        }
    }
}

/// The table's record of one socket.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub app: AppId,
    /// The time of its first call.
    pub since: Time,
    /// The key and local address of its entries for every peer, and whether they are mirrored (a listener) or inbound.
    pub broad: Option<(BroadKey, IpAddr, bool)>,
    /// The keys of its entries for one flow each.
    pub exact: Vec<ExactKey>,
    /// The flow of a connection that the entries of its listener serve.
    pub accepted: Option<Flow>,
    /// The time at which a closed socket is forgotten; `None` while it is open.
    pub closing: Option<Time>,
    /// The time at which it is examined next, the same as in the table's queue.
    pub due: Option<Time>,
}

impl Owner {
    pub fn new(app: AppId, since: Time) -> Owner {
        Owner { app, since, broad: None, exact: Vec::new(), accepted: None, closing: None, due: None }
    }
}
