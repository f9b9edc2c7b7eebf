//! The events that the socket monitor reports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{AppId, Flow, Time, protocol};

/// A call that an application made on a socket, or the end of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `listen` on a TCP socket that has a local port.
    Listen,
    /// A connection came in through a listener; the event's socket is that of the connection.
    Accept,
    /// `connect` on a TCP socket; both ends are known.
    Connect,
    /// `recvfrom` on a datagram socket that has a local port, or anything else that waits for a datagram.
    RecvFrom,
    /// `sendto` on a datagram socket, or `send` behind `connect`.
    SendTo,
    /// The socket is closed; at most a few of its packets are still on their way.
    Close,
    /// The connection is closed, and the kernel still answers for it in TIME_WAIT.
    TimeWait,
}

/// One call, with the address that the socket had at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketEvent {
    /// The kernel's cookie of the socket.
    pub socket: u64,
    /// The application that the socket belongs to.
    pub app: AppId,
    /// The call that was made.
    pub call: Call,
    /// The protocol and both ends. An unspecified local address means any address of this host (`::`: of both
    /// families). For calls that name no peer the remote end means nothing.
    pub flow: Flow,
    /// The time of the call.
    pub now: Time,
}

/// The flow as entries see it: an IPv4-mapped address becomes IPv4, and a protocol without ports has zeroes.
pub(super) fn canonical(flow: &Flow) -> Flow {
    let mut flow = Flow { local: flow.local.to_canonical(), remote: flow.remote.to_canonical(), ..*flow };
    if protocol::has_type(flow.protocol) {
        // Type and code stand there: for selectors of associations, not for policy.
        (flow.local_port, flow.remote_port) = (0, 0);
    }
    flow
}

/// The flow with the unspecified local address of its family.
pub(super) fn from_anywhere(flow: &Flow) -> Flow {
    Flow { local: any_like(flow.local), ..*flow }
}

/// The flow of a socket of both families that is bound to no address: it sends from an address of the peer's family.
pub(super) fn of_one_family(flow: &Flow) -> Flow {
    if flow.local.is_unspecified() { Flow { local: any_like(flow.remote), ..*flow } } else { *flow }
}

fn any_like(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
