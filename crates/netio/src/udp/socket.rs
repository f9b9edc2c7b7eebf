//! The sockets of one UDP port: per family one that never fragments and one that may.
//!
//! Both are bound to the same port (SO_REUSEPORT), and a classic BPF program gives every arriving datagram to the first, so
//! the second only sends. *Never* means PMTUDISC_PROBE: DF set, and the learned path MTU ignored, because an inner
//! "packet too big" makes a route exception that outer packets to the same address share (research: host path,
//! section 4). *May* means OMIT for IPv4 (no DF, the device's MTU) and DONT for IPv6.

use crate::error::{Error, IoContext, Result};
use crate::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// IP version of the outer packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Outer packets are IPv4.
    V4,
    /// Outer packets are IPv6.
    V6,
}

/// The sockets of one family.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) whole: Socket,
    pub(super) fragmenting: Socket,
}

impl Pair {
    /// Open both on `port` (0: the kernel chooses).
    pub(super) fn open(family: Family, port: u16, buffer: usize) -> Result<Pair> {
        let what = || format!("opening UDP port {port} ({family:?})");
        let whole = bind(family, port, buffer, false).doing(what)?;
        give_all_to_the_first(&whole).doing(what)?;
        let port = local(&whole).doing(what)?.port();
        let fragmenting = bind(family, port, buffer, true).doing(what)?;
        Ok(Pair { whole, fragmenting })
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(local(&self.whole)?.port())
    }
}

/// Sockets that another daemon handed over, in any order, sorted by what they are. Two of one kind are refused: which of
/// them receives is not known.
pub(super) fn sort(fds: Vec<OwnedFd>) -> Result<(Option<Pair>, Option<Pair>)> {
    let mut found: [[Option<Socket>; 2]; 2] = Default::default();
    for fd in fds {
        let socket = Socket::from(fd);
        let (ipv6, fragmenting) = kind(&socket).doing(|| "looking at a handed-over socket".into())?;
        let place = &mut found[usize::from(ipv6)][usize::from(fragmenting)];
        if place.replace(socket).is_some() {
            let family = if ipv6 { "IPv6" } else { "IPv4" };
            let sends = if fragmenting { "fragments" } else { "sends whole packets" };
            return Err(Error::unfit(
                format!("two {family} sockets of the hand-over are of one kind ({sends})"),
                "hand over between daemons of the same version, or start the daemon without --take-over",
            ));
        }
    }
    let pair = |[whole, fragmenting]: [Option<Socket>; 2]| match (whole, fragmenting) {
        (Some(whole), Some(fragmenting)) => Ok(Some(Pair { whole, fragmenting })),
        (None, None) => Ok(None),
        _ => Err(Error::unfit(
            "one socket of a pair is missing from the hand-over",
            "start the daemon without --take-over",
        )),
    };
    let [v4, v6] = found;
    Ok((pair(v4)?, pair(v6)?))
}

fn kind(socket: &Socket) -> io::Result<(bool, bool)> {
    Ok(match local(socket)? {
        SocketAddr::V4(_) => {
            let mode = sockopt::get_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)?;
            (false, mode != libc::IP_PMTUDISC_PROBE)
        }
        SocketAddr::V6(_) => {
            let mode = sockopt::get_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)?;
            (true, mode != libc::IPV6_PMTUDISC_PROBE)
        }
    })
}

fn local(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

fn bind(family: Family, port: u16, buffer: usize, fragmenting: bool) -> io::Result<Socket> {
    let (domain, any) = match family {
        Family::V4 => (Domain::IPV4, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        Family::V6 => (Domain::IPV6, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
    };
    let socket = Socket::new(domain, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    let on = 1;
    match family {
        Family::V4 => {
            let mode = if fragmenting { libc::IP_PMTUDISC_OMIT } else { libc::IP_PMTUDISC_PROBE };
            let options = [
                (libc::IP_MTU_DISCOVER, mode),
                (libc::IP_PKTINFO, on),
                (libc::IP_RECVTOS, on),
                (libc::IP_RECVTTL, on),
            ];
            options.iter().try_for_each(|&(name, v)| sockopt::set_int(&socket, libc::IPPROTO_IP, name, v))?;
        }
        Family::V6 => {
            socket.set_only_v6(true)?;
            let mode = if fragmenting { libc::IPV6_PMTUDISC_DONT } else { libc::IPV6_PMTUDISC_PROBE };
            let options = [
                (libc::IPV6_MTU_DISCOVER, mode),
                (libc::IPV6_RECVPKTINFO, on),
                (libc::IPV6_RECVTCLASS, on),
                (libc::IPV6_RECVHOPLIMIT, on),
            ];
            options
                .iter()
                .try_for_each(|&(name, v)| sockopt::set_int(&socket, libc::IPPROTO_IPV6, name, v))?;
        }
    }
    sockopt::set_int(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, on)?;
    set_buffer(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, buffer)?;
    set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, buffer)?;
    socket.bind(&any.into())?;
    Ok(socket)
}

/// Beyond the host's limit with CAP_NET_ADMIN, else up to it.
fn set_buffer(socket: &Socket, force: libc::c_int, ask: libc::c_int, size: usize) -> io::Result<()> {
    let size = libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX);
    sockopt::set_int(socket, libc::SOL_SOCKET, force, size)
        .or_else(|_| sockopt::set_int(socket, libc::SOL_SOCKET, ask, size))
}

/// Give every datagram to the socket that was bound first of all that share the port: the BPF program is `return 0`.
fn give_all_to_the_first(socket: &Socket) -> io::Result<()> {
    let mut program = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    sockopt::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}
