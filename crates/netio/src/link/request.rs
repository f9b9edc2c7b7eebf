//! One question and its answers over a route netlink socket (RFC 3549), synchronously.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// Kernel answers come in datagrams of at most 32 KiB.
const DATAGRAM: usize = 64 * 1024;

/// A socket to the routing part of the kernel, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Conversation {
    socket: Socket,
    sequence: u32,
}

impl Conversation {
    pub(super) fn open() -> io::Result<Conversation> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Conversation { socket, sequence: 0 })
    }

    /// Request a change of the kernel. `flags` are added to REQUEST and ACK.
    pub(super) fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.ask(message, NLM_F_ACK | flags, |_| {})
    }

    /// Request every object of a kind.
    pub(super) fn dump(
        &mut self,
        message: RouteNetlinkMessage,
        each: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.ask(message, NLM_F_DUMP, each)
    }

    /// Send a request that has one answer.
    pub(super) fn look_up(
        &mut self,
        message: RouteNetlinkMessage,
        each: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.ask(message, NLM_F_ACK, each)
    }

    fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let mut datagram = Vec::with_capacity(DATAGRAM);
            self.socket.recv(&mut datagram, 0)?;
            for answer in messages(&datagram) {
                let answer = answer?;
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::InnerMessage(inner) => each(inner),
                    _ => {}
                }
            }
        }
    }
}

/// The messages of one datagram. A message that the library cannot read ends them with an error.
pub(super) fn messages(
    datagram: &[u8],
) -> impl Iterator<Item = io::Result<NetlinkMessage<RouteNetlinkMessage>>> + '_ {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest);
        // Messages are aligned to four octets.
        let used =
            parsed.as_ref().map_or(rest.len(), |m| (m.header.length as usize).next_multiple_of(4).max(16));
        rest = rest.get(used..).unwrap_or_default();
        Some(parsed.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string())))
    })
}
