//! The control plane's verbs for entries of sockets, where the engine translates as the paper does.

use std::sync::Arc;

use sadb::spd::Spd;
use sadb::{EntryLimits, PerSocket, SocketEvent};
use wire::Time;

use super::Inbound;

impl Inbound {
    /// Compare what arrives with the entries that sockets' events make, for every application of this policy.
    pub fn translating_per_socket(mut self, spd: Arc<Spd>, limits: EntryLimits) -> Inbound {
        self.stages.entries = Some(Box::new(PerSocket::new(spd, limits)));
        self
    }

    /// Apply what sockets did, in order.
    pub fn socket_events(&mut self, events: &[SocketEvent]) {
        if let Some(table) = &mut self.stages.entries {
            events.iter().for_each(|event| table.apply(event));
        }
    }

    /// Say which sockets exist, where events may have been lost: see [`PerSocket::retain`].
    pub fn retain_sockets(&mut self, now: Time, as_of: Time, is_open: impl FnMut(u64) -> bool) {
        if let Some(table) = &mut self.stages.entries {
            table.retain(now, as_of, is_open);
        }
    }

    /// Set the policy that entries come from.
    pub fn set_entry_policy(&mut self, spd: Arc<Spd>) {
        if let Some(table) = &mut self.stages.entries {
            table.set_policy(spd);
        }
    }

    /// The entries; `None`: the compiled policy decides.
    pub fn entries(&self) -> Option<&PerSocket> {
        self.stages.entries.as_deref()
    }
}
