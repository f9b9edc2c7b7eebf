//! From frames to bursts and packets.

use super::{BUFFER, FrameDevice, VNET_LEN, filter, open_frames};
use crate::error::Result;
use crate::sockopt;
use crate::udp::{ArrivedDatagram, receive};
use crate::xdp::XdpReceiver;
use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wire::ip::Headers;
use wire::udp::{self, Udp};
use wire::{Buf, Burst, DropReason, Meta, OuterHeader, Packet, Pool, Time, eth, protocol, stage};

/// Frames taken with one system call.
const FRAMES: usize = 8;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// GSO_UDP_L4: the frame is many datagrams of one flow under one header.
const GSO_UDP: u8 = 5;

/// Receives the outer packets of one device.
#[derive(Debug)]
pub struct FrameReceiver {
    source: Source,
    port: u16,
    /// Buffers that wait for a frame.
    slots: Vec<Buf>,
    /// Frames that the kernel had no room for.
    lost: u64,
}

#[derive(Debug)]
enum Source {
    Packet(Socket),
    Xdp(Box<XdpReceiver>),
}

/// The frames that one call received.
#[derive(Debug, Default)]
pub struct Frames {
    /// Bursts of ESP in UDP, headers removed.
    pub bursts: Vec<Burst<stage::Raw>>,
    /// Everything else: bare ESP and AH, fragments.
    pub packets: Vec<Packet<stage::Raw>>,
}

impl Frames {
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

impl FrameReceiver {
    /// Open a socket for what may be outer packets, with ESP in UDP to `port` (CAP_NET_RAW).
    ///
    /// # Errors
    /// If the kernel does not let us.
    pub fn open(device: &FrameDevice, port: u16) -> Result<FrameReceiver> {
        let socket = open_frames(device, libc::ETH_P_ALL as u16, |socket| {
            // Before it is bound: no frame comes that was not asked for.
            filter::take_outer(socket, port)?;
            sockopt::set_int(socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
            sockopt::set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER as libc::c_int)
        })?;
        Ok(FrameReceiver { source: Source::Packet(socket), port, slots: Vec::new(), lost: 0 })
    }

    /// Take frames from an AF_XDP socket.
    pub fn over(xdp: XdpReceiver, port: u16) -> FrameReceiver {
        FrameReceiver { source: Source::Xdp(Box::new(xdp)), port, slots: Vec::new(), lost: 0 }
    }

    /// Frames that arrived when the socket had no room, since it was made. Asks the kernel: not for every packet.
    pub fn lost(&mut self) -> u64 {
        match &self.source {
            Source::Xdp(xdp) => self.lost = xdp.lost().unwrap_or(self.lost),
            Source::Packet(socket) => {
                // SAFETY: struct tpacket_stats is two numbers, both of which the kernel writes.
                let seen = unsafe { sockopt::get(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS) };
                // The kernel counts from zero again after each answer.
                let [_, dropped]: [u32; 2] = seen.unwrap_or_default();
                self.lost += u64::from(dropped);
            }
        }
        self.lost
    }

    /// Take waiting frames (never waits) into buffers of `pool`, which need [`super::VNET_LEN`], an Ethernet header and an IP
    /// packet behind their headroom. Whether there may be more.
    ///
    /// # Errors
    /// If the device is down or gone.
    pub fn recv(
        &mut self,
        now: Time,
        pool: &mut Pool,
        out: &mut Frames,
        dropped: &mut impl FnMut(DropReason),
    ) -> io::Result<bool> {
        let socket = match &mut self.source {
            Source::Packet(socket) => socket.as_raw_fd(),
            Source::Xdp(xdp) => return Ok(copy_out(xdp, self.port, now, pool, out, dropped)),
        };
        while self.slots.len() < FRAMES {
            self.slots.push(pool.take());
        }
        let mut batch = [const { ArrivedDatagram::NONE }; FRAMES];
        let count = receive(socket, &mut self.slots, &mut batch)?;
        let rest = self.slots.len() - count;
        for (mut buf, arrived) in self.slots.drain(rest..).rev().zip(&batch) {
            buf.set_len(arrived.len());
            let taken = if arrived.is_cut() {
                Err((buf, DropReason::Truncated))
            } else {
                out.take_vnet(buf, self.port, now)
            };
            if let Err((buf, reason)) = taken {
                dropped(reason);
                pool.put(buf);
            }
        }
        Ok(count == FRAMES)
    }
}

impl AsFd for FrameReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.source {
            Source::Packet(socket) => socket.as_fd(),
            Source::Xdp(xdp) => xdp.as_fd(),
        }
    }
}

/// Frames out of shared memory, each into a buffer. Whether there may be more.
fn copy_out(
    xdp: &mut XdpReceiver,
    port: u16,
    now: Time,
    pool: &mut Pool,
    out: &mut Frames,
    dropped: &mut impl FnMut(DropReason),
) -> bool {
    for _ in 0..FRAMES * 8 {
        let mut buf = pool.take();
        let mut whole = false;
        let there = xdp.recv(|frame| {
            whole = buf.push_back(frame.len()).map(|room| room.copy_from_slice(frame)).is_some();
        });
        if !there {
            pool.put(buf);
            return false;
        }
        let taken = if whole { out.take(buf, port, now) } else { Err((buf, DropReason::NoRoom)) };
        if let Err((buf, reason)) = taken {
            dropped(reason);
            pool.put(buf);
        }
    }
    true
}
