//! The sockets of one UDP port: per family one that never fragments and one that may, and further ones that only receive.
//!
//! All are bound to the same port (SO_REUSEPORT), and a classic BPF program gives every arriving datagram to the first, so
//! the second only sends. Where datagrams are split by class, a program of the caller's takes its place and gives some of
//! them to the further sockets. *Never* means PMTUDISC_PROBE: DF set, and the learned path MTU ignored, because an inner
//! "packet too big" makes a route exception that outer packets to the same address share (research: host path,
//! section 4). *May* means OMIT for IPv4 (no DF, the device's MTU) and DONT for IPv6.

use crate::error::{Error, IoContext, Result};
use crate::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

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
pub(super) struct FamilySockets {
    /// Sends whole packets, and receives: alone, or as the first queue.
    pub(super) whole: Socket,
    pub(super) fragmenting: Socket,
    /// The queues behind the first.
    pub(super) further: Vec<Socket>,
}

impl FamilySockets {
    /// Open the two that send on `port` (0: the kernel chooses).
    pub(super) fn open(family: Family, port: u16, buffer: usize) -> Result<FamilySockets> {
        let what = || format!("opening UDP port {port} ({family:?})");
        let whole = bind(family, port, buffer, false).doing(what)?;
        give_all_to_the_first(&whole).doing(what)?;
        let port = local(&whole).doing(what)?.port();
        let fragmenting = bind(family, port, buffer, true).doing(what)?;
        Ok(FamilySockets { whole, fragmenting, further: Vec::new() })
    }

    /// Open further queues, until there are so many.
    pub(super) fn open_queues(&mut self, family: Family, queues: usize) -> Result<()> {
        let port = self.port().doing(|| "asking for the UDP port".into())?;
        while 1 + self.further.len() < queues {
            let socket = bind(family, port, 0, false)
                .doing(|| format!("opening another socket of UDP port {port} ({family:?})"))?;
            self.further.push(socket);
        }
        Ok(())
    }

    /// The socket of a queue.
    pub(super) fn queue(&self, queue: usize) -> Option<&Socket> {
        match queue.checked_sub(1) {
            None => Some(&self.whole),
            Some(further) => self.further.get(further),
        }
    }

    /// The sockets of the queues, in their order.
    pub(super) fn queues(&self) -> impl Iterator<Item = &Socket> {
        std::iter::once(&self.whole).chain(&self.further)
    }

    /// Every socket, in the order of a hand-over: those of one kind in the order of the queues.
    pub(super) fn all(&self) -> impl Iterator<Item = &Socket> {
        self.queues().chain([&self.fragmenting])
    }

    /// Let the first socket have every datagram again.
    pub(super) fn give_all_to_the_first(&self) -> io::Result<()> {
        give_all_to_the_first(&self.whole)
    }

    /// Let a program choose the queue of each datagram.
    pub(super) fn choose_by(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let number = program.as_raw_fd();
        sockopt::set_int(&self.whole, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, number)
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(local(&self.whole)?.port())
    }
}

/// Sockets that another daemon handed over, sorted by what they are. Those of one kind come in the order of their queues;
/// of each family there are so many, or none. Another number is refused: which of them receives what is not known.
pub(super) fn sort(
    fds: Vec<OwnedFd>,
    queues: usize,
) -> Result<(Option<FamilySockets>, Option<FamilySockets>)> {
    let mut found: [[Vec<Socket>; 2]; 2] = Default::default();
    for fd in fds {
        let socket = Socket::from(fd);
        let (ipv6, fragmenting) = kind(&socket).doing(|| "looking at a handed-over socket".into())?;
        found[usize::from(ipv6)][usize::from(fragmenting)].push(socket);
    }
    let family = |name: &str, [mut whole, mut fragmenting]: [Vec<Socket>; 2]| {
        if (whole.len(), fragmenting.len()) == (0, 0) {
            return Ok(None);
        }
        if (whole.len(), fragmenting.len()) != (queues, 1) {
            return Err(Error::unfit(
                format!(
                    "{} {name} sockets that receive and {} that fragment were handed over, where {queues} and 1 belong",
                    whole.len(),
                    fragmenting.len()
                ),
                "hand over between daemons of the same version, or start the daemon without --take-over",
            ));
        }
        let further = whole.split_off(1);
        Ok(whole.pop().zip(fragmenting.pop()).map(|(whole, fragmenting)| FamilySockets {
            whole,
            fragmenting,
            further,
        }))
    };
    let [v4, v6] = found;
    Ok((family("IPv4", v4)?, family("IPv6", v6)?))
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
    if buffer > 0 {
        set_receive_buffer(&socket, buffer)?;
        set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, buffer)?;
    }
    socket.bind(&any.into())?;
    Ok(socket)
}

/// Set the octets that wait in a socket, of which the kernel takes twice as many, for what it keeps beside them.
pub(super) fn set_receive_buffer(socket: &Socket, octets: usize) -> io::Result<()> {
    set_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, octets)
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
