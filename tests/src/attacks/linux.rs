//! Linux as the host inside: a namespace with real sockets, and the wire in front of it.

use super::packet::{IN6, OUT6};
use super::reading::Reading;
use super::stage::Inside;
use super::{PORT, packet};
use crate::{PATIENCE, PacketSocket, wait_until};
use lab::{Lab, LabOptions, Side};
use netio::link::{Links, Scope};
use netio::sysctl;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use wire::ip::Headers;
use wire::{Time, checksum};

/// The IP protocol number that case H13 sends, which no stack knows.
const UNKNOWN: i32 = 253;
/// The source address of the echoes by which a packet is known to have been worked off.
const BARRIER: [u8; 4] = [192, 0, 2, 254];

/// The host inside: the kernel, as bob of a lab.
pub struct Linux {
    lab: Lab,
    socket: PacketSocket,
    /// Ethernet header up to the type: to bob, from alice.
    header: [u8; 12],
    listener: TcpListener,
    datagrams: UdpSocket,
    raw: Socket,
    streams: Vec<(u16, TcpStream, Vec<u8>, bool)>,
    reads: bool,
    got: Vec<Vec<u8>>,
    barrier: u32,
}

impl Linux {
    /// Build a fresh host. The calling thread stays on one CPU from now on, so that the kernel takes packets in the
    /// order in which they are sent.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn build(name: &str) -> anyhow::Result<Linux> {
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &cpus)?;
        let lab = Lab::build(&LabOptions { name: name.to_owned(), segmentation: false })?;
        let station = |side| -> anyhow::Result<[u8; 6]> {
            let address = lab.host(side).device()?.address;
            address.as_slice().try_into().map_err(|_| anyhow::anyhow!("eth0 has no Ethernet address"))
        };
        let header = [station(Side::Bob)?, station(Side::Alice)?].concat();
        let (listener, datagrams, raw) = lab.bob().run(|| {
            let mut links = Links::open()?;
            let device = links.index("eth0")?;
            links.add_address(device, IpAddr::from(IN6), 64, Scope::Universe)?;
            links.add_route(Ipv4Addr::new(192, 0, 2, 0).into(), 24, Some(Side::Alice.v4().into()), device)?;
            let outside = Ipv6Addr::from(OUT6).segments();
            let network = Ipv6Addr::new(outside[0], outside[1], outside[2], outside[3], 0, 0, 0, 0);
            links.add_route(network.into(), 64, Some(Side::Alice.v6().into()), device)?;
            // Fragments that wait are gone after a second: scripts let that time pass.
            sysctl::set("net/ipv4/ipfrag_time", 1)?;
            sysctl::set("net/ipv6/ip6frag_time", 1)?;
            sysctl::set("net/ipv4/icmp_ratelimit", 0)?;
            let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
            let listener = TcpListener::bind(any)?;
            listener.set_nonblocking(true)?;
            let datagrams = UdpSocket::bind(any)?;
            datagrams.set_nonblocking(true)?;
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(UNKNOWN)))?;
            raw.set_nonblocking(true)?;
            anyhow::Ok((listener, datagrams, raw))
        })??;
        let socket = lab.alice().run(|| PacketSocket::open(c"eth0"))??;
        let mut linux = Linux {
            header: header.try_into().map_err(|_| anyhow::anyhow!("two stations"))?,
            lab,
            socket,
            listener,
            datagrams,
            raw,
            streams: Vec::new(),
            reads: true,
            got: Vec::new(),
            barrier: 0,
        };
        // The route to a new IPv6 address is made by a worker of the kernel, some time after the address.
        let mut first = packet::v6(17, &packet::udp((40000, PORT), b"first"));
        first.src = OUT6;
        let first = packet::summed(first.bytes());
        wait_until("a datagram over IPv6", PATIENCE, || {
            linux.put(&first);
            linux.settle();
            linux.serve();
            !std::mem::take(&mut linux.got).is_empty()
        });
        Ok(linux)
    }

    fn put(&self, packet: &[u8]) {
        let six = packet.first().is_some_and(|first| first >> 4 == 6);
        let kind: [u8; 2] = if six { [0x86, 0xdd] } else { [8, 0] };
        let frame = [&self.header[..], &kind, packet].concat();
        self.socket.send(&frame).expect("a frame on the wire");
    }

    /// All that the kernel says until an echo behind the last packet is answered.
    fn settle(&mut self) -> Vec<Vec<u8>> {
        self.barrier += 1;
        let mut echo = packet::v4(1, &packet::icmp(8, 0, self.barrier, b"barrier"));
        echo.src = BARRIER;
        self.put(&echo.summed().bytes());
        let mut all = Vec::new();
        let mut buffer = vec![0; 70_000];
        let mut answered = false;
        wait_until("the kernel's answer to an echo", PATIENCE, || {
            while let Some((len, out)) = self.socket.receive(&mut buffer).expect("the wire can be heard") {
                let Some(packet) = buffer.get(14..len).filter(|_| !out) else { continue };
                let Ok(headers) = Headers::parse(packet) else { continue };
                let mut packet = packet[..headers.total_len].to_vec();
                if headers.dst == IpAddr::from(BARRIER) {
                    answered |= packet.get(24..28) == Some(&self.barrier.to_be_bytes());
                    continue;
                }
                // The sums are the device's work, which this one does not do.
                let _ = checksum::complete_transport(&mut packet, &headers);
                if headers.protocol == wire::protocol::ICMP && headers.upper(&packet).first() == Some(&0) {
                    self.got.push(headers.upper(&packet)[8..].to_vec());
                }
                all.push(packet);
            }
            answered
        });
        all
    }

    /// Whether the services found something to read or to accept.
    fn serve(&mut self) -> bool {
        let before =
            (self.streams.len(), self.streams.iter().map(|s| s.2.len() + usize::from(s.3)).sum::<usize>());
        while let Ok((stream, from)) = self.listener.accept() {
            stream.set_nonblocking(true).expect("a socket that does not wait");
            self.streams.push((from.port(), stream, Vec::new(), false));
        }
        let mut buffer = vec![0; 70_000];
        while let Ok(len) = self.datagrams.recv(&mut buffer) {
            self.got.push(buffer[..len].to_vec());
        }
        while let Ok(len) = self.raw.read(&mut buffer) {
            self.got.push(buffer[20..len].to_vec());
        }
        for (_, stream, octets, closed) in &mut self.streams {
            while self.reads && !*closed {
                match stream.read(&mut buffer) {
                    Ok(len) if len > 0 => octets.extend(&buffer[..len]),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    _ => {
                        *closed = true;
                        let _ = stream.shutdown(std::net::Shutdown::Write);
                    }
                }
            }
        }
        before
            != (self.streams.len(), self.streams.iter().map(|s| s.2.len() + usize::from(s.3)).sum::<usize>())
    }

    fn fragments_wait(&self) -> bool {
        self.lab
            .bob()
            .run(|| {
                let file = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
                let text = file("sockstat").unwrap_or_default() + &file("sockstat6").unwrap_or_default();
                text.lines().any(|line| line.starts_with("FRAG") && !line.contains("inuse 0 "))
            })
            .expect("bob's namespace")
    }
}

impl Inside for Linux {
    fn take(&mut self, _: Time, packet: Option<&[u8]>) -> Vec<Vec<u8>> {
        match packet {
            Some(packet) => self.put(packet),
            // Time went by: it is the kernel's fragments that wait for it.
            None => wait_until("the end of waiting fragments", PATIENCE, || !self.fragments_wait()),
        }
        let mut all = self.settle();
        // What services do makes the kernel speak again.
        while self.serve() {
            all.extend(self.settle());
        }
        all
    }

    fn connect(&mut self, _: Time, to: SocketAddr) -> Vec<Vec<u8>> {
        let stream = self.lab.bob().run(|| {
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            match socket.connect(&to.into()) {
                Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
                _ => Ok(TcpStream::from(socket)),
            }
        });
        let stream = stream.expect("bob's namespace").expect("a connection begins");
        let all = self.settle();
        self.streams.push((to.port(), stream, Vec::new(), false));
        all
    }

    fn read(&mut self, on: bool) {
        self.reads = on;
    }

    fn finish(&mut self) -> Reading {
        self.reads = true;
        self.serve();
        let mut reading = Reading { datagrams: std::mem::take(&mut self.got), ..Reading::default() };
        for (port, stream, octets, _) in self.streams.drain(..) {
            reading.again(port, &octets);
            let stream = Socket::from(stream);
            let _ = stream.set_linger(Some(Duration::ZERO));
        }
        self.settle();
        self.got.clear();
        reading
    }
}
