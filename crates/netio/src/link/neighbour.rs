//! Neighbours: which station has an address on a link, as the kernel knows it.

use super::{Links, family};
use crate::error::{IoContext, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use std::io;
use std::net::IpAddr;

impl Links {
    /// The station (Ethernet address) that has `address` on the device `index`; `None`: the kernel does not know it (yet).
    pub fn neighbour(&mut self, index: u32, address: IpAddr) -> Result<Option<[u8; 6]>> {
        let mut found = None;
        let answer =
            self.conversation.look_up(RouteNetlinkMessage::GetNeighbour(message(index, address)), |answer| {
                if let RouteNetlinkMessage::NewNeighbour(message) = answer {
                    found = found.or_else(|| station(&message));
                }
            });
        match answer {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            answer => answer.doing(|| format!("asking who has {address}")).map(|()| found),
        }
    }

    /// Tell the kernel that the neighbour is used: it asks for one that it does not know, and asks again where it was long
    /// ago.
    pub fn use_neighbour(&mut self, index: u32, address: IpAddr) -> Result<()> {
        let mut message = message(index, address);
        message.header.flags = NeighbourFlags::Use;
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.conversation
            .change(RouteNetlinkMessage::NewNeighbour(message), flags)
            .doing(|| format!("looking for the neighbour {address}"))
    }
}

fn message(index: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(address);
    message.header.ifindex = index;
    let address = match address {
        IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
        IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
    };
    message.attributes.push(NeighbourAttribute::Destination(address));
    message
}

/// The station of an entry that can be used.
fn station(message: &NeighbourMessage) -> Option<[u8; 6]> {
    use NeighbourState as S;
    let state = message.header.state;
    if !matches!(state, S::Reachable | S::Stale | S::Delay | S::Probe | S::Permanent | S::Noarp) {
        return None;
    }
    message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(octets) => octets.as_slice().try_into().ok(),
        _ => None,
    })
}
