//! Sockets as the table knows them, and how its entries are found.

use std::net::IpAddr;

use wire::{AppId, Flow, Time, addr};

use super::entry::Entry;

/// Finds the entries for exactly one flow. The application comes last: an inbound packet does not say whose it is.
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

    /// The flow again.
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

/// Finds the entries for every peer of a local port.
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

/// The entries that one socket has for every peer; the first that matches decides.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub socket: u64,
    pub local: IpAddr,
    pub entries: Vec<Entry>,
}

impl Group {
    /// Whether packets of this host's end of the flow are its socket's.
    pub fn reaches(&self, flow: &Flow) -> bool {
        match self.local {
            IpAddr::V4(own) if own.is_unspecified() => flow.local.is_ipv4(),
            IpAddr::V6(own) if own.is_unspecified() => true,
            own => own == flow.local,
        }
    }
}

/// One socket.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub app: AppId,
    /// When it made its first call.
    pub since: Time,
    /// Where its entries for every peer are, and whether they are mirrored (a listener) or inbound.
    pub broad: Option<(BroadKey, IpAddr, bool)>,
    /// Its entries for one flow each.
    pub exact: Vec<ExactKey>,
    /// A connection that the entries of its listener serve.
    pub accepted: Option<Flow>,
    /// It is closed; from then on nothing of it is left.
    pub closing: Option<Time>,
    /// When it is to be looked at: the same as in the table's queue.
    pub due: Option<Time>,
}

impl Owner {
    pub fn new(app: AppId, since: Time) -> Owner {
        Owner { app, since, broad: None, exact: Vec::new(), accepted: None, closing: None, due: None }
    }
}
