//! What a host's programs and kernel say behind the encryption: a packet socket (packet(7)) on the TUN, which sees every
//! packet between the record and the engine, with the mark of its owner. Tests prove by it that the traffic of a row was of
//! the kind that the row is called after.

use std::cell::{Ref, RefCell};

use crate::PacketSocket;
use anyhow::Context;
use lab::Side;
use lab::rig::Rig;
use wire::Record;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::udp::Udp;

/// A super-packet with its record.
const LONGEST: usize = 70_000;
/// The TUN of every rig.
const TUN: &std::ffi::CStr = c"rvl0";

/// A packet on the TUN.
#[derive(Clone, Debug)]
pub struct Inner {
    /// Whether the packet is one of this host, on its way to the engine; otherwise it came out of the engine.
    pub out: bool,
    /// The mark in the packet's record.
    pub mark: u32,
    /// The IP headers of the packet.
    pub headers: Headers,
    /// The octets of the packet, from the IP header on.
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

/// A TCP segment that was seen on the TUN.
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
    socket: PacketSocket,
    seen: RefCell<Vec<Inner>>,
}

impl Inside {
    /// Listen from now on. The daemon must have made its TUN.
    ///
    /// # Errors
    /// If there is none, or it cannot be heard.
    pub fn listen(rig: &Rig, side: Side) -> anyhow::Result<Inside> {
        let socket = rig.lab.host(side).run(|| PacketSocket::open(TUN))?.context("listening on the TUN")?;
        Ok(Inside { socket, seen: RefCell::default() })
    }

    /// All that passed until now, since [`Inside::forget`].
    ///
    /// # Panics
    /// If the socket breaks, or the kernel had no room for a packet: then nothing is proved.
    pub fn look(&self) -> Ref<'_, Vec<Inner>> {
        self.drain().expect("the TUN can be heard");
        assert_eq!(self.socket.lost().expect("the socket counts"), 0, "packets of the TUN were missed");
        self.seen.borrow()
    }

    /// Forget all that passed until now.
    pub fn forget(&self) {
        drop(self.look());
        self.seen.borrow_mut().clear();
    }

    fn drain(&self) -> anyhow::Result<()> {
        let mut buffer = vec![0; LONGEST];
        while let Some((len, out)) = self.socket.receive(&mut buffer)? {
            let frame = buffer.get(..len).unwrap_or_default();
            // What the device itself emits, router solicitations, has no record: it ended.
            let Ok(record) = Record::parse(frame) else { continue };
            let packet = frame.get(wire::record::LEN..).unwrap_or_default();
            let Ok(headers) = Headers::parse(packet) else { continue };
            let packet = packet.get(..headers.total_len).unwrap_or(packet).to_vec();
            self.seen.borrow_mut().push(Inner { out, mark: record.mark, headers, packet });
        }
        Ok(())
    }
}
