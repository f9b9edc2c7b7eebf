//! What the routes to peers take.

use std::net::IpAddr;

use netio::link::Links;

/// What the route from `local` to `remote` takes; `None`: there is none for now, or it cannot be asked for.
pub fn route_mtu(local: IpAddr, remote: IpAddr) -> Option<u16> {
    look(&mut Links::open().ok()?, local, remote)
}

pub(crate) fn look(links: &mut Links, local: IpAddr, remote: IpAddr) -> Option<u16> {
    match links.path_mtu(local, remote) {
        Ok(mtu) => Some(u16::try_from(mtu).unwrap_or(u16::MAX)),
        Err(error) => {
            tracing::debug!("the path MTU to {remote} stays as it is: {error}");
            None
        }
    }
}
