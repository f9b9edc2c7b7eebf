//! smoltcp as the host inside, in memory.

use super::PORT;
use super::kit::SERVER;
use super::packet::IN6;
use super::reading::Reading;
use super::stage::Inside;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::net::SocketAddr;
use wire::Time;

/// Sockets that listen at a time.
const BACKLOG: usize = 8;
const BUFFER: usize = 65_535;

/// The host inside: smoltcp, in memory.
pub struct Small {
    interface: Interface,
    link: Link,
    sockets: SocketSet<'static>,
    datagrams: SocketHandle,
    streams: Vec<Stream>,
    reads: bool,
    got: Vec<Vec<u8>>,
}

struct Stream {
    handle: SocketHandle,
    /// The port outside, known once the connection is.
    port: Option<u16>,
    octets: Vec<u8>,
}

#[derive(Default)]
struct Link {
    coming: VecDeque<Vec<u8>>,
    going: Vec<Vec<u8>>,
}

impl Small {
    /// Build a fresh host.
    pub fn build() -> Small {
        let mut link = Link::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = 7;
        let mut interface = Interface::new(config, &mut link, Instant::from_millis(0));
        interface.update_ip_addrs(|addresses| {
            for address in
                [IpAddress::from(std::net::IpAddr::from(SERVER)), std::net::IpAddr::from(IN6).into()]
            {
                let prefix = if matches!(address, IpAddress::Ipv4(_)) { 24 } else { 64 };
                addresses.push(IpCidr::new(address, prefix)).expect("room for an address");
            }
        });
        let gateway = std::net::Ipv4Addr::new(198, 51, 100, 1);
        interface.routes_mut().add_default_ipv4_route(gateway).expect("room for a route");
        let gateway = std::net::Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);
        interface.routes_mut().add_default_ipv6_route(gateway).expect("room for a route");
        let mut sockets = SocketSet::new(Vec::new());
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 2 * BUFFER]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(PORT).expect("a port");
        let datagrams = sockets.add(socket);
        let streams = Vec::new();
        let mut host = Small { interface, link, sockets, datagrams, streams, reads: true, got: Vec::new() };
        host.listen();
        host
    }

    fn stream() -> tcp::Socket<'static> {
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        // It answers timestamps with its own, as other stacks do.
        socket.set_tsval_generator(Some(|| 1));
        socket
    }

    /// Open new sockets until as many listen as ever do ([`BACKLOG`]).
    fn listen(&mut self) {
        let listening = |s: &&Stream| self.sockets.get::<tcp::Socket<'_>>(s.handle).is_listening();
        for _ in self.streams.iter().filter(listening).count()..BACKLOG {
            let mut socket = Small::stream();
            socket.listen(PORT).expect("a port");
            self.streams.push(Stream { handle: self.sockets.add(socket), port: None, octets: Vec::new() });
        }
    }

    fn serve(&mut self) {
        for stream in &mut self.streams {
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(stream.handle);
            stream.port = socket.remote_endpoint().map(|end| end.port).or(stream.port);
            while self.reads && socket.can_recv() {
                let taken = socket.recv(|octets| {
                    stream.octets.extend(&*octets);
                    (octets.len(), ())
                });
                taken.expect("it can receive");
            }
            if socket.state() == tcp::State::CloseWait {
                socket.close();
            }
        }
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.datagrams);
        while let Ok((octets, _)) = socket.recv() {
            self.got.push(octets.to_vec());
        }
        self.listen();
    }

    fn run(&mut self, now: Time) -> Vec<Vec<u8>> {
        let now = Instant::from_micros(now.since(Time::from_secs(0)).as_micros() as i64);
        for _ in 0..4 {
            self.interface.poll(now, &mut self.link, &mut self.sockets);
            self.serve();
        }
        let all = std::mem::take(&mut self.link.going);
        for packet in &all {
            if packet.len() > 28 && packet[0] >> 4 == 4 && packet[9] == 1 && packet[20] == 0 {
                self.got.push(packet[28..].to_vec());
            }
        }
        all
    }
}

impl Inside for Small {
    fn take(&mut self, now: Time, packet: Option<&[u8]>) -> Vec<Vec<u8>> {
        self.link.coming.extend(packet.map(<[u8]>::to_vec));
        self.run(now)
    }

    fn connect(&mut self, now: Time, to: SocketAddr) -> Vec<Vec<u8>> {
        let mut socket = Small::stream();
        socket.connect(self.interface.context(), to, 50_000 + to.port() % 1000).expect("a connection begins");
        let handle = self.sockets.add(socket);
        self.streams.push(Stream { handle, port: Some(to.port()), octets: Vec::new() });
        self.run(now)
    }

    fn read(&mut self, on: bool) {
        self.reads = on;
    }

    fn finish(&mut self) -> Reading {
        self.reads = true;
        self.serve();
        let mut reading = Reading { datagrams: std::mem::take(&mut self.got), ..Reading::default() };
        for stream in self.streams.drain(..) {
            if let Some(port) = stream.port {
                reading.again(port, &stream.octets);
            }
        }
        reading
    }
}

impl Device for Link {
    type RxToken<'a> = Coming;
    type TxToken<'a> = Going<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Coming, Going<'_>)> {
        let packet = self.coming.pop_front()?;
        Some((Coming(packet), Going(&mut self.going)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Going<'_>> {
        Some(Going(&mut self.going))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

/// A packet on its way in.
#[derive(Debug)]
pub struct Coming(Vec<u8>);

impl RxToken for Coming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

/// Room for a packet on its way out.
#[derive(Debug)]
pub struct Going<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Going<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let answer = write(&mut packet);
        self.0.push(packet);
        answer
    }
}
