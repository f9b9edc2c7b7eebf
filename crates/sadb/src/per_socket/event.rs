//! What the socket monitor tells of a socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{AppId, Flow, Time, protocol};

/// What an application did with a socket, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `listen` on a TCP socket that has a local port.
    Listen,
    /// A connection came in through a listener; the socket is the connection's.
    Accept,
    /// `connect` on a TCP socket; both ends are known.
    Connect,
    /// `recvfrom` on a datagram socket that has a local port, or anything else that waits for a datagram.
    RecvFrom,
    /// `sendto` on a datagram socket, or `send` behind `connect`.
    SendTo,
    /// The socket is closed; of its packets there are those on their way at most.
    Close,
    /// The connection is closed and the kernel answers for it for a while yet (TIME_WAIT).
    TimeWait,
}

/// One call, with the address that the socket has then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketEvent {
    /// The kernel's cookie of the socket.
    pub socket: u64,
    /// The application that it belongs to.
    pub app: AppId,
    /// What happened.
    pub call: Call,
    /// Protocol and both ends. An unspecified local address: any of this host's (`::`: of both families). For calls that
    /// name no peer the remote end means nothing.
    pub flow: Flow,
    /// When.
    pub now: Time,
}

/// The flow as entries see it: IPv4 as IPv4, and no ports where the protocol has none.
pub(super) fn canonical(flow: &Flow) -> Flow {
    let mut flow = Flow { local: flow.local.to_canonical(), remote: flow.remote.to_canonical(), ..*flow };
    if protocol::has_type(flow.protocol) {
        // Type and code stand there: for selectors of associations, not for policy.
        (flow.local_port, flow.remote_port) = (0, 0);
    }
    flow
}

/// The flow with any local address of its family.
pub(super) fn from_anywhere(flow: &Flow) -> Flow {
    Flow { local: any_like(flow.local), ..*flow }
}

/// A socket of both families that is bound to no address sends from one of the peer's family.
pub(super) fn of_one_family(flow: &Flow) -> Flow {
    if flow.local.is_unspecified() { Flow { local: any_like(flow.remote), ..*flow } } else { *flow }
}

fn any_like(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
