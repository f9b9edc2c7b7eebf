//! What a host's programs and kernel say behind the encryption: a packet socket (packet(7)) on the TUN, which sees every
//! packet between the record and the engine, with the mark of its owner. Tests prove by it that the traffic of a row was of
//! the kind that the row is called after.

use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, ensure};
use netio::lab::Side;
use ravelin::rig::Rig;
use wire::Record;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::udp::Udp;

/// A super-packet with its record.
const LONGEST: usize = 70_000;
/// Octets that the kernel may hold between two looks.
const KERNEL_BUFFER: libc::c_int = 64 << 20;
/// The TUN of every rig.
const TUN: &std::ffi::CStr = c"rvl0";

/// A packet on the TUN.
#[derive(Clone, Debug)]
pub struct Inner {
    /// Of this host, on its way to the engine; else it came out of it.
    pub out: bool,
    /// The mark in its record.
    pub mark: u32,
    /// Its IP headers.
    pub headers: Headers,
    /// From the IP header on.
    pub packet: Vec<u8>,
}

impl Inner {
    /// What follows the IP headers.
    pub fn upper(&self) -> &[u8] {
        self.headers.upper(&self.packet)
    }

    /// The TCP segment, if it is one.
    pub fn tcp(&self) -> Option<Segment<'_>> {
        let whole = self.headers.protocol == wire::protocol::TCP && self.headers.fragment.is_none();
        whole.then(|| Tcp::new_checked(self.upper()).ok()).flatten().map(Segment)
    }

    /// Ports and payload of a whole UDP datagram (or of a super-packet of several).
    pub fn udp(&self) -> Option<(u16, u16, &[u8])> {
        let whole = self.headers.protocol == wire::protocol::UDP && self.headers.fragment.is_none();
        let udp = whole.then(|| Udp::new_checked(self.upper()).ok()).flatten()?;
        let (from, to) = (udp.src_port(), udp.dst_port());
        Some((from, to, self.upper().get(wire::udp::HEADER_LEN..).unwrap_or_default()))
    }

    /// The type of an ICMP or ICMPv6 message.
    pub fn icmp(&self) -> Option<u8> {
        let icmp = matches!(self.headers.protocol, wire::protocol::ICMP | wire::protocol::ICMPV6);
        (icmp && self.headers.fragment.is_none()).then(|| self.upper().first().copied()).flatten()
    }
}

/// A TCP segment.
#[derive(Debug)]
pub struct Segment<'a>(pub Tcp<&'a [u8]>);

impl Segment<'_> {
    /// Whether of SYN, FIN, RST and ACK it has exactly these.
    pub fn is(&self, flags: Flags) -> bool {
        let all = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0 | Flags::ACK.0;
        self.0.flags().0 & all == flags.0
    }

    /// Whether one of its ports is this.
    pub fn has_port(&self, port: u16) -> bool {
        self.0.src_port() == port || self.0.dst_port() == port
    }

    /// Octets that it carries.
    pub fn len(&self) -> usize {
        self.0.payload().len()
    }

    /// Whether it carries none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What follows kind and length of an option.
    pub fn option(&self, kind: u8) -> Option<Vec<u8>> {
        self.0.options().flatten().find_map(|option| match option {
            TcpOption::Other { kind: is, data } if is == kind => Some(data.to_vec()),
            _ => None,
        })
    }
}

/// Listens on a host's TUN.
pub struct Inside {
    socket: OwnedFd,
    seen: RefCell<Vec<Inner>>,
    lost: Cell<u64>,
}

impl Inside {
    /// Listen from now on. The daemon must have made its TUN.
    ///
    /// # Errors
    /// If there is none, or it cannot be heard.
    pub fn listen(rig: &Rig, side: Side) -> anyhow::Result<Inside> {
        let socket = rig.lab.host(side).run(open)?.context("listening on the TUN")?;
        Ok(Inside { socket, seen: RefCell::default(), lost: Cell::new(0) })
    }

    /// All that passed until now, since [`Inside::forget`].
    ///
    /// # Panics
    /// If the socket breaks, or the kernel had no room for a packet: then nothing is proved.
    pub fn look(&self) -> Ref<'_, Vec<Inner>> {
        self.drain().expect("the TUN can be heard");
        assert_eq!(self.lost.get(), 0, "packets of the TUN were missed");
        self.seen.borrow()
    }

    /// Begin anew.
    pub fn forget(&self) {
        drop(self.look());
        self.seen.borrow_mut().clear();
    }

    fn drain(&self) -> anyhow::Result<()> {
        let mut buffer = vec![0; LONGEST];
        while let Some((len, out)) = self.receive(&mut buffer)? {
            let frame = buffer.get(..len).unwrap_or_default();
            // What the device itself emits, router solicitations, has no record: it ended.
            let Ok(record) = Record::parse(frame) else { continue };
            let packet = frame.get(wire::record::LEN..).unwrap_or_default();
            let Ok(headers) = Headers::parse(packet) else { continue };
            let packet = packet.get(..headers.total_len).unwrap_or(packet).to_vec();
            self.seen.borrow_mut().push(Inner { out, mark: record.mark, headers, packet });
        }
        let mut statistics = [0_u32; 2];
        let mut len = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the option writes two u32, for which there is room.
        let read = unsafe {
            let to = statistics.as_mut_ptr().cast();
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                to,
                &raw mut len,
            )
        };
        ensure!(read == 0, io::Error::last_os_error());
        // Counted from zero after each reading.
        self.lost.set(self.lost.get() + u64::from(statistics[1]));
        Ok(())
    }

    /// The next frame: its length, and whether this host sends it.
    fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<Option<(usize, bool)>> {
        // SAFETY: all zeroes are a valid sockaddr_ll.
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&from) as libc::socklen_t;
        // SAFETY: the buffer and the address have the lengths that are passed.
        let octets = unsafe {
            let to = (&raw mut from).cast();
            let flags = libc::MSG_DONTWAIT;
            libc::recvfrom(
                self.socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                flags,
                to,
                &raw mut len,
            )
        };
        match usize::try_from(octets) {
            Ok(octets) => Ok(Some((octets, from.sll_pkttype == libc::PACKET_OUTGOING))),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error.into()),
            },
        }
    }
}

fn open() -> io::Result<OwnedFd> {
    let check = |answer: libc::c_int| if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) };
    // SAFETY: no pointer is passed. Protocol 0 receives nothing until bind.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just returned it to us alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let room = KERNEL_BUFFER;
    // SAFETY: the value is an int, and so is its length.
    check(unsafe {
        let len = size_of_val(&room) as libc::socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, (&raw const room).cast(), len)
    })?;
    // SAFETY: a C string that lives for the call.
    let index = unsafe { libc::if_nametoindex(TUN.as_ptr()) };
    // SAFETY: all zeroes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::sa_family_t;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex =
        if index == 0 { return Err(io::Error::last_os_error()) } else { index as libc::c_int };
    // SAFETY: the address is a live sockaddr_ll of that length.
    check(unsafe { libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as libc::socklen_t) })?;
    Ok(socket)
}
