//! The events of sockets, for the paper's own translation (docs/design/0011): from the kernel's ring to
//! [`SocketEvent`]s.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBufferBuilder};
use sadb::SocketEvent;
use sadb::per_socket::Call;
use wire::{AppId, Flow, Time, addr, protocol};

use crate::abi::{self, Wire};
use crate::error::SockmonError;
use crate::model::{SocketInfo, SocketState};
use crate::programs::Maps;

/// The reader of the ring. There may be one at a time: the kernel keeps one place for readers.
#[derive(Debug)]
pub struct SocketEvents {
    pub(crate) map: MapHandle,
}

impl SocketEvents {
    /// Hand on events in the order in which they happened, some at a time, until `take` answers `false`. It is called with
    /// none, too, when `patience` is over.
    ///
    /// # Errors
    /// [`SockmonError::Bpf`] if the ring cannot be read.
    pub fn serve(
        self,
        patience: Duration,
        mut take: impl FnMut(&mut Vec<SocketEvent>) -> bool,
    ) -> Result<(), SockmonError> {
        let fail = || SockmonError::bpf("read map socket_events");
        let batch: RefCell<Vec<SocketEvent>> = RefCell::new(Vec::new());
        let mut ring = RingBufferBuilder::new();
        ring.add(&self.map, |bytes| {
            let event = abi::SocketEvent::read(bytes).and_then(|event| from_kernel(&event));
            batch.borrow_mut().extend(event);
            0
        })
        .map_err(fail())?;
        let ring = ring.build().map_err(fail())?;
        loop {
            match ring.poll(patience) {
                Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => continue,
                answer => answer.map_err(fail())?,
            }
            let mut events = batch.take();
            if !take(&mut events) {
                return Ok(());
            }
            events.clear();
            batch.replace(events);
        }
    }
}

fn from_kernel(event: &abi::SocketEvent) -> Option<SocketEvent> {
    let call = match event.call {
        abi::CALL_LISTEN => Call::Listen,
        abi::CALL_ACCEPT => Call::Accept,
        abi::CALL_CONNECT => Call::Connect,
        abi::CALL_RECVFROM => Call::RecvFrom,
        abi::CALL_SENDTO => Call::SendTo,
        abi::CALL_CLOSE => Call::Close,
        abi::CALL_TIME_WAIT => Call::TimeWait,
        _ => return None,
    };
    let flow = Flow {
        opaque: false,
        local: addr::from_bits(u128::from_be_bytes(event.local)),
        remote: addr::from_bits(u128::from_be_bytes(event.remote)),
        local_port: event.local_port,
        remote_port: event.remote_port,
        protocol: event.protocol,
    };
    Some(SocketEvent { socket: event.cookie, app: AppId(event.app), call, flow, now: Time(event.time) })
}

/// Begin a report for a new reader, to whom nothing has been reported yet.
pub(crate) fn begin(maps: &Maps) -> Result<(), SockmonError> {
    maps.retain("announced", |_: &abi::AnnouncedKey| true).map(drop)
}

/// The calls that these sockets must have made, as far as the policy names their applications.
pub(crate) fn calls_of(sockets: &[SocketInfo], netns: u64, now: Time) -> Vec<SocketEvent> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for socket in sockets {
        let ours = socket.netns == netns && socket.app != AppId::NONE && socket.cookie != 0;
        // Several descriptors may be one socket.
        if !ours || !seen.insert(socket.cookie) {
            continue;
        }
        let flow = Flow {
            opaque: false,
            local: socket.local.ip(),
            remote: socket.remote.ip(),
            local_port: socket.local.port(),
            remote_port: socket.remote.port(),
            protocol: socket.protocol,
        };
        let mut made =
            |call, flow| out.push(SocketEvent { socket: socket.cookie, app: socket.app, call, flow, now });
        let is_tcp = socket.protocol == protocol::TCP;
        let has_peer = flow.remote_port != 0;
        match socket.state {
            SocketState::Listen if is_tcp => made(Call::Listen, flow),
            SocketState::Unconnected if is_tcp => {}
            // Whether it came in, nobody knows any more; where a listener has its port, that one's entries serve it.
            _ if is_tcp && has_peer => made(Call::Accept, flow),
            _ if is_tcp => {}
            _ => {
                if flow.local_port != 0 {
                    made(Call::RecvFrom, flow);
                }
                if has_peer {
                    made(Call::SendTo, flow);
                }
            }
        }
    }
    // Listeners first, so that their connections find them.
    out.sort_by_key(|event| event.call != Call::Listen);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Identity;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    fn socket(protocol: u8, state: SocketState, cookie: u64, local: &str, remote: &str) -> SocketInfo {
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        SocketInfo {
            pid: 1,
            comm: String::new(),
            identity: Identity { inode: 1, device: 1, generation: 0 },
            fd: 3,
            app: AppId(7),
            watched: true,
            required: 0,
            mark: 0,
            protocol,
            local: at(local),
            remote: at(remote),
            state,
            cookie,
            netns: 5,
            inode: 9,
        }
    }

    #[test]
    fn open_sockets_make_the_calls_that_made_them() {
        let nobody = "0.0.0.0:0";
        let sockets = [
            socket(6, SocketState::Established, 2, "10.0.0.1:21", "10.0.0.2:999"),
            socket(6, SocketState::Listen, 1, "0.0.0.0:21", nobody),
            socket(6, SocketState::Unconnected, 3, "10.0.0.1:4000", nobody),
            socket(17, SocketState::Unconnected, 4, "0.0.0.0:53", nobody),
            socket(17, SocketState::Established, 5, "10.0.0.1:54", "10.0.0.2:53"),
            socket(17, SocketState::Established, 5, "10.0.0.1:54", "10.0.0.2:53"),
            SocketInfo { netns: 6, ..socket(6, SocketState::Listen, 8, "0.0.0.0:21", nobody) },
            SocketInfo { app: AppId::NONE, ..socket(6, SocketState::Listen, 9, "0.0.0.0:21", nobody) },
        ];
        let calls: Vec<(u64, Call)> =
            calls_of(&sockets, 5, Time(3)).iter().map(|event| (event.socket, event.call)).collect();
        let want = [
            (1, Call::Listen),
            (2, Call::Accept),
            (4, Call::RecvFrom),
            (5, Call::RecvFrom),
            (5, Call::SendTo),
        ];
        assert_eq!(calls, want);
    }

    #[test]
    fn an_event_of_the_kernel_is_read_and_an_unknown_one_is_not() {
        let mapped = |v4: [u8; 4]| {
            let mut bytes = [0; 16];
            bytes[10..12].fill(0xff);
            bytes[12..].copy_from_slice(&v4);
            bytes
        };
        let event = abi::SocketEvent {
            cookie: 9,
            time: 77,
            app: 3,
            local_port: 21,
            remote_port: 1000,
            protocol: 6,
            call: abi::CALL_CONNECT,
            local: mapped([10, 0, 0, 1]),
            remote: mapped([10, 0, 0, 2]),
        };
        let got = from_kernel(&event).unwrap();
        assert_eq!((got.socket, got.app, got.call, got.now), (9, AppId(3), Call::Connect, Time(77)));
        assert_eq!(got.flow.to_string(), "10.0.0.1:21 -> 10.0.0.2:1000/tcp");
        assert_eq!(got.flow.local, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(from_kernel(&abi::SocketEvent { call: 99, ..event }), None);
    }
}
