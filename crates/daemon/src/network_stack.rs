//! Where the control plane learns which devices there are and what routes take.

use std::net::IpAddr;

use netio::link::{Link, Links};

use crate::paths;

/// The network stack that is asked.
#[derive(Debug)]
pub(crate) enum NetworkStack {
    /// The kernel's, in the network namespace of the thread that asks.
    Kernel,
    /// One of a test: these devices, and no route to anybody.
    #[cfg(test)]
    Fixed(Vec<Link>),
}

impl NetworkStack {
    /// The devices that there are.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(crate) fn links(&self) -> netio::Result<Vec<Link>> {
        match self {
            NetworkStack::Kernel => Links::open()?.list(),
            #[cfg(test)]
            NetworkStack::Fixed(links) => Ok(links.clone()),
        }
    }

    /// The MTU of the route from `local` to `remote` in octets; `None`: there is none for now, or it cannot be asked for.
    pub(crate) fn route_mtu(&self, local: IpAddr, remote: IpAddr) -> Option<u16> {
        match self {
            NetworkStack::Kernel => paths::route_mtu(local, remote),
            #[cfg(test)]
            NetworkStack::Fixed(_) => None,
        }
    }
}
