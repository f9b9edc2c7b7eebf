//! News of devices: made, changed, deleted, and of their addresses. The daemon re-attaches its programs by them. News of routes, where
//! they are asked for: the path MTU of associations follows them.

use super::{Link, request};
use crate::error::{IoContext, Result};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// An event of a network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A device is new, or its state changed.
    Changed(Link),
    /// A device is gone (deleted, or moved to another namespace).
    Gone(Link),
    /// A route, or a rule that chooses between tables of them, came, changed or went.
    Routes,
    /// A device got an address, or lost one.
    Addressed,
    /// The kernel had more news than the socket holds: list the devices again.
    Missed,
}

/// The groups of news about routes: of the tables, of the rules between them, of next hops.
const ROUTES: [u32; 5] = [
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
    libc::RTNLGRP_NEXTHOP,
];

/// A socket that hears of changes in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Watch {
    socket: Socket,
}

impl Watch {
    /// Listen from now on for news of devices.
    pub fn open() -> Result<Watch> {
        Watch::of(&[])
    }

    /// Listen from now on for news of devices and of routes.
    pub fn open_with_routes() -> Result<Watch> {
        Watch::of(&ROUTES)
    }

    fn of(groups: &[u32]) -> Result<Watch> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            let first = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
            socket.bind(&SocketAddr::new(0, first.cast_unsigned()))?;
            groups.iter().try_for_each(|group| socket.add_membership(*group))?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        Ok(Watch { socket: open().doing(|| "listening for changes of devices".into())? })
    }

    /// The news since the last call; never waits. Wait on the descriptor with [`crate::poll`].
    pub fn events(&mut self) -> Result<Vec<Event>> {
        let mut out = Vec::new();
        loop {
            let mut datagram = Vec::with_capacity(64 * 1024);
            match self.socket.recv(&mut datagram, 0) {
                Ok(_) => out.extend(events(&datagram)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(out),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => out.push(Event::Missed),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e).doing(|| "hearing of changes of devices".into()),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn events(datagram: &[u8]) -> Vec<Event> {
    let event = |message: io::Result<_>| {
        let message: netlink_packet_core::NetlinkMessage<_> = match message {
            Ok(message) => message,
            Err(_) => return Some(Event::Missed),
        };
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                Some(Event::Changed(link.into()))
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                Some(Event::Gone(link.into()))
            }
            NetlinkPayload::InnerMessage(
                RouteNetlinkMessage::NewRoute(_)
                | RouteNetlinkMessage::DelRoute(_)
                | RouteNetlinkMessage::NewRule(_)
                | RouteNetlinkMessage::DelRule(_),
            ) => Some(Event::Routes),
            NetlinkPayload::InnerMessage(
                RouteNetlinkMessage::NewAddress(_) | RouteNetlinkMessage::DelAddress(_),
            ) => Some(Event::Addressed),
            _ => None,
        }
    };
    request::messages(datagram).filter_map(event).collect()
}
