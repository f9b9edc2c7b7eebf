//! News of devices: made, changed, deleted. The daemon re-attaches its programs by them.

use super::{Link, request};
use crate::error::{Doing, Result};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is new, or its state changed.
    Changed(Link),
    /// It is gone (deleted, or moved to another namespace).
    Gone(Link),
    /// The kernel had more news than the socket holds: list the devices again.
    Missed,
}

/// A socket that hears of changes in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Watch {
    socket: Socket,
}

impl Watch {
    /// Listen from now on.
    pub fn open() -> Result<Watch> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, libc::RTMGRP_LINK.cast_unsigned()))?;
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
            _ => None,
        }
    };
    request::messages(datagram).filter_map(event).collect()
}
