//! From frames to bursts and packets.

use super::VNET_LEN;
use wire::ip::Headers;
use wire::udp::{self, Udp};
use wire::{Buf, Burst, DropReason, Meta, OuterHeader, Packet, Time, eth, protocol, stage};

/// GSO_UDP_L4: the frame is many datagrams of one flow under one header.
const GSO_UDP: u8 = 5;

/// The frames that one call received.
#[derive(Debug, Default)]
pub struct Frames {
    /// Bursts of ESP in UDP, headers removed.
    pub bursts: Vec<Burst<stage::Raw>>,
    /// Everything else: bare ESP and AH, fragments.
    pub packets: Vec<Packet<stage::Raw>>,
}

impl Frames {
    /// The number of packets that were taken, each datagram of a burst one.
    pub fn count(&self) -> usize {
        self.bursts.iter().map(Burst::count).sum::<usize>() + self.packets.len()
    }

    /// Take one frame of a packet socket: a vnet header, Ethernet header, IP packet, perhaps padding. ESP in UDP goes to
    /// `port`.
    ///
    /// # Errors
    /// The buffer, and why it holds nothing for us.
    pub fn take_vnet(
        &mut self,
        buf: Buf,
        port: u16,
        now: Time,
    ) -> std::result::Result<(), (Buf, DropReason)> {
        let [_, kind, _, _, s0, s1, ..] = match buf.as_slice().first_chunk::<VNET_LEN>() {
            Some(vnet) => *vnet,
            None => return Err((buf, DropReason::Truncated)),
        };
        let stride = if kind == GSO_UDP { usize::from(u16::from_ne_bytes([s0, s1])) } else { 0 };
        self.take_behind(VNET_LEN, stride, buf, port, now)
    }

    /// Take one frame of an AF_XDP socket, which has no vnet header; otherwise like [`Frames::take_vnet`].
    ///
    /// # Errors
    /// The buffer, and why it holds nothing for us.
    pub fn take(&mut self, buf: Buf, port: u16, now: Time) -> std::result::Result<(), (Buf, DropReason)> {
        self.take_behind(0, 0, buf, port, now)
    }

    /// A frame behind `before` octets, with datagrams of `stride` octets; zero: one.
    fn take_behind(
        &mut self,
        before: usize,
        stride: usize,
        mut buf: Buf,
        port: u16,
        now: Time,
    ) -> std::result::Result<(), (Buf, DropReason)> {
        if !buf.trim_front(before + eth::HEADER_LEN) {
            return Err((buf, DropReason::Truncated));
        }
        let headers = match Headers::parse(buf.as_slice()) {
            Ok(headers) => headers,
            Err(error) => return Err((buf, error.into())),
        };
        // Short frames are padded.
        buf.truncate(headers.total_len);
        let meta = Meta { received: now, ..Meta::default() };
        if headers.protocol != protocol::UDP || headers.fragment.is_some() || headers.has_options {
            self.packets.push(Packet::raw(buf, meta));
            return Ok(());
        }
        let (src_port, dst_port, len) = match Udp::new_checked(headers.upper(buf.as_slice())) {
            Ok(datagram) => (datagram.src_port(), datagram.dst_port(), datagram.len()),
            Err(error) => return Err((buf, error.into())),
        };
        if dst_port != port {
            return Err((buf, DropReason::NotEsp));
        }
        let header = OuterHeader {
            src: headers.src,
            dst: headers.dst,
            src_port,
            dst_port,
            tos: headers.tos,
            ttl: headers.ttl,
            may_fragment: false,
        };
        // A packet may go on behind its datagram; the kernel's sockets leave that out too.
        buf.truncate(headers.header_len + len);
        if !buf.trim_front(headers.header_len + udp::HEADER_LEN) {
            return Err((buf, DropReason::Truncated));
        }
        // Both addresses are of one header, so this is a burst.
        self.bursts.extend(Burst::raw(buf, header, stride, now));
        Ok(())
    }
}
