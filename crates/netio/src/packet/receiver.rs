//! The sockets for the frames of one device: packet sockets or AF_XDP, one, or one for the queue of each class
//! (docs/design/0042).

use super::{BUFFER, Fanout, FrameDevice, Frames, deafen, filter, open_frames};
use crate::error::{IoContext, Result};
use crate::sockopt;
use crate::udp::{ArrivedDatagram, receive};
use crate::xdp::XdpReceiver;
use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wire::{Buf, Burst, DropReason, Pool, Time};

/// Frames taken from a packet socket with one system call.
const FRAMES: usize = 8;
/// Frames taken from an AF_XDP socket at once.
const XDP_FRAMES: usize = FRAMES * 8;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

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
    Packet(PacketSockets),
    Xdp(Box<XdpReceiver>),
}

/// The packet sockets of a device.
#[derive(Debug)]
struct PacketSockets {
    /// Where there are several queues: what is no outer packet, and what a queue has no room for. It is deaf.
    refused: Option<Socket>,
    first: Socket,
    /// The sockets of the queues behind the first.
    further: Vec<Socket>,
}

impl PacketSockets {
    fn queues(&self) -> impl Iterator<Item = &Socket> {
        std::iter::once(&self.first).chain(&self.further)
    }

    fn queue(&self, queue: usize) -> Option<&Socket> {
        self.queues().nth(queue)
    }
}

/// What one call received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramesReceived {
    /// The packets that were taken from the socket, those that were dropped here among them.
    pub packets: usize,
    /// There may be more: call again.
    pub more: bool,
}

/// A packet socket in the hands of somebody who does not receive from it.
#[derive(Debug)]
pub struct FrameHandle(Socket);

impl FrameHandle {
    /// Set the octets that may wait, of which the kernel takes twice as many, for what it keeps beside them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_receive_buffer(&self, octets: usize) -> Result<()> {
        let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
        sockopt::set_int(&self.0, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets)
            .doing(|| "setting the receive buffer of a packet socket".into())
    }
}

/// A packet socket for what may be outer packets. It hears nothing if it is deaf.
fn open(device: &FrameDevice, port: u16, is_deaf: bool) -> Result<Socket> {
    open_frames(device, libc::ETH_P_ALL as u16, |socket| {
        // Before it is bound: no frame comes that was not asked for.
        if is_deaf {
            deafen(socket).map_err(io::Error::other)?;
        } else {
            filter::take_outer(socket, port)?;
        }
        sockopt::set_int(socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        sockopt::set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER as libc::c_int)
    })
}

impl FrameReceiver {
    /// Open sockets for what may be outer packets, one for each of so many queues, with ESP in UDP to `port`
    /// (CAP_NET_RAW). The first one hears everything until [`FrameReceiver::choose_by`].
    ///
    /// # Errors
    /// If the kernel does not let us.
    pub fn open(device: &FrameDevice, port: u16, queues: usize) -> Result<FrameReceiver> {
        // In the order in which they will share the frames (see `Fanout::add`).
        let refused = (queues > 1).then(|| open(device, port, true)).transpose()?;
        let first = open(device, port, false)?;
        let further = (1..queues).map(|_| open(device, port, true)).collect::<Result<_>>()?;
        let sockets = PacketSockets { refused, first, further };
        Ok(FrameReceiver { source: Source::Packet(sockets), port, slots: Vec::new(), lost: 0 })
    }

    /// Take frames from AF_XDP sockets.
    pub fn over(xdp: XdpReceiver, port: u16) -> FrameReceiver {
        FrameReceiver { source: Source::Xdp(Box::new(xdp)), port, slots: Vec::new(), lost: 0 }
    }

    /// Let a BPF program (socket filter) choose the queue of each frame: 0 is for none, and the queues follow. It knows
    /// what is no outer packet; sockets of AF_XDP have a program of their own.
    ///
    /// # Errors
    /// The kernel's.
    pub fn choose_by(&self, program: BorrowedFd<'_>) -> Result<()> {
        let Source::Packet(PacketSockets { refused: Some(refused), first, further }) = &self.source else {
            return Ok(());
        };
        let join = || -> io::Result<()> {
            let group = Fanout::new(refused, program)?;
            group.add(first)?;
            for socket in further {
                group.add(socket)?;
                // It has heard nothing before it was in the group.
                filter::take_outer(socket, self.port)?;
            }
            Ok(())
        };
        join().doing(|| "sharing frames among packet sockets".into())
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        match &self.source {
            Source::Packet(sockets) => sockets.queues().count(),
            Source::Xdp(xdp) => xdp.queues(),
        }
    }

    /// The most packets that a queue holds, whatever its limit is; `None`: its receive buffer says it.
    pub fn most(&self) -> Option<u32> {
        match &self.source {
            Source::Packet(_) => None,
            Source::Xdp(xdp) => Some(xdp.most()),
        }
    }

    /// The socket of a queue.
    pub fn queue_fd(&self, queue: usize) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Packet(sockets) => sockets.queue(queue).map(AsFd::as_fd),
            Source::Xdp(xdp) => xdp.queue_fd(queue),
        }
    }

    /// The packet sockets of the queues, for somebody who does not receive from them; none of AF_XDP.
    ///
    /// # Errors
    /// The kernel's.
    pub fn handles(&self) -> Result<Vec<FrameHandle>> {
        let Source::Packet(sockets) = &self.source else { return Ok(Vec::new()) };
        let copies = sockets.queues().map(|socket| socket.try_clone().map(FrameHandle));
        copies.collect::<io::Result<_>>().doing(|| "copying the descriptor of a packet socket".into())
    }

    /// Frames that arrived when a socket had no room, since they were made. Asks the kernel: not for every packet.
    pub fn lost(&mut self) -> u64 {
        match &self.source {
            Source::Xdp(xdp) => self.lost = xdp.lost().unwrap_or(self.lost),
            Source::Packet(sockets) => {
                for socket in sockets.queues() {
                    // SAFETY: struct tpacket_stats is two numbers, both of which the kernel writes.
                    let seen = unsafe { sockopt::get(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS) };
                    // The kernel counts from zero again after each answer.
                    let [_, dropped]: [u32; 2] = seen.unwrap_or_default();
                    self.lost += u64::from(dropped);
                }
            }
        }
        self.lost
    }

    /// Take waiting frames of the first queue, as [`FrameReceiver::recv_of`] does. Whether there may be more.
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
        self.recv_of((0, usize::MAX), now, pool, out, dropped).map(|received| received.more)
    }

    /// Take waiting frames (never waits) of a queue, at most so many, into buffers of `pool`, which need
    /// [`super::VNET_LEN`], an Ethernet header and an IP packet behind their headroom.
    ///
    /// # Errors
    /// If the device is down or gone.
    pub fn recv_of(
        &mut self,
        (queue, most): (usize, usize),
        now: Time,
        pool: &mut Pool,
        out: &mut Frames,
        dropped: &mut impl FnMut(DropReason),
    ) -> io::Result<FramesReceived> {
        let socket = match &mut self.source {
            Source::Packet(sockets) => sockets.queue(queue).map(AsRawFd::as_raw_fd),
            Source::Xdp(xdp) => {
                let most = most.min(XDP_FRAMES);
                return Ok(copy_out(xdp, (queue, most), self.port, now, (pool, out), dropped));
            }
        };
        let Some(socket) = socket else { return Ok(FramesReceived::default()) };
        let most = most.clamp(1, FRAMES);
        while self.slots.len() < most {
            self.slots.push(pool.take());
        }
        let from = self.slots.len() - most;
        let mut batch = [const { ArrivedDatagram::NONE }; FRAMES];
        let count = receive(socket, self.slots.get_mut(from..).unwrap_or_default(), &mut batch)?;
        let rest = self.slots.len() - count;
        let mut packets = 0;
        for (mut buf, arrived) in self.slots.drain(rest..).rev().zip(&batch) {
            buf.set_len(arrived.len());
            let before = out.bursts.len();
            let taken = if arrived.is_cut() {
                Err((buf, DropReason::Truncated))
            } else {
                out.take_vnet(buf, self.port, now)
            };
            if let Err((buf, reason)) = taken {
                dropped(reason);
                pool.put(buf);
            }
            // What is no burst, or an empty one, was one packet for the kernel half too.
            let datagrams = out.bursts.get(before..).unwrap_or_default().iter().map(Burst::count);
            packets += datagrams.sum::<usize>().max(1);
        }
        Ok(FramesReceived { packets, more: count == most })
    }
}

impl AsFd for FrameReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.source {
            Source::Packet(sockets) => sockets.first.as_fd(),
            Source::Xdp(xdp) => xdp.as_fd(),
        }
    }
}

/// At most so many frames of a queue out of shared memory, each into a buffer.
fn copy_out(
    xdp: &mut XdpReceiver,
    (queue, most): (usize, usize),
    port: u16,
    now: Time,
    (pool, out): (&mut Pool, &mut Frames),
    dropped: &mut impl FnMut(DropReason),
) -> FramesReceived {
    for packets in 0..most {
        let mut buf = pool.take();
        let mut whole = false;
        let there = xdp.recv(queue, |frame| {
            whole = buf.push_back(frame.len()).map(|room| room.copy_from_slice(frame)).is_some();
        });
        if !there {
            pool.put(buf);
            return FramesReceived { packets, more: false };
        }
        let taken = if whole { out.take(buf, port, now) } else { Err((buf, DropReason::NoRoom)) };
        if let Err((buf, reason)) = taken {
            dropped(reason);
            pool.put(buf);
        }
    }
    FramesReceived { packets: most, more: true }
}
