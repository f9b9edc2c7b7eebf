//! AF_XDP sockets: frames between a device and memory that is shared with the kernel (Documentation/networking/af_xdp.rst).
//!
//! What enters and leaves is what [`crate::packet`] has: frames, one datagram each, since this way knows no super-packets. In
//! *copy mode*, which every driver has. Each socket has a memory of equal chunks, the first half for what arrives and the
//! second for what leaves, and four rings of their addresses: *fill* and *rx*, *tx* and *completion*. The two halves are of two
//! threads and share nothing but the descriptor.
//!
//! This is where the rings' unsafe code is: `memory.rs` maps, `ring.rs` reads and writes one ring each.

mod memory;
mod ring;

use crate::error::{Error, IoContext, Result, check, check_len};
use crate::link::receive_queues;
use crate::packet::FrameDevice;
use crate::sockopt;
use memory::{CHUNK, Memory, Rings};
use ring::{Consumer, Producer};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use wire::DropReason;

/// The octets that the kernel keeps free in front of a frame that arrives.
const KERNEL_HEADROOM: usize = 256;
/// Chunks for each direction, and entries of each ring.
const CHUNKS: u32 = 2048;
/// The largest MTU whose frames fit a chunk.
const MAX_MTU: u32 = (CHUNK - KERNEL_HEADROOM - wire::eth::HEADER_LEN) as u32;

/// The time for which another socket may still hold the queue.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two attempts to get the queue.
const AGAIN: Duration = Duration::from_millis(20);

/// The half that receives.
#[derive(Debug)]
pub struct XdpReceiver {
    shared: Arc<Shared>,
    fill: Producer<u64>,
    received: Consumer<libc::xdp_desc>,
}

/// The half that sends.
#[derive(Debug)]
pub struct XdpSender {
    shared: Arc<Shared>,
    sending: Producer<libc::xdp_desc>,
    done: Consumer<u64>,
    /// Chunks that hold nothing.
    free: Vec<u64>,
    /// Longest frame that may be sent: the device's MTU and an Ethernet header, in octets.
    longest: usize,
}

#[derive(Debug)]
struct Shared {
    socket: OwnedFd,
    memory: Memory,
    _rings: Rings,
}

/// Open a socket on the first queue of a device (CAP_NET_RAW). Nothing arrives until an XDP program sends it there.
///
/// # Errors
/// If the device has more queues or larger frames than this can take, or the kernel does not let us.
pub fn open(device: &FrameDevice) -> Result<(XdpReceiver, XdpSender)> {
    check_device(device)?;
    let name = &device.name;
    patiently(|| make(device)).doing(|| format!("opening an AF_XDP socket on {name}"))
}

/// Check that frames of a device can be received here.
///
/// # Errors
/// The device has more queues, or larger frames, than that.
pub fn check_device(device: &FrameDevice) -> Result<()> {
    let name = &device.name;
    let queues = receive_queues(name)?;
    if queues > 1 {
        return Err(Error::unfit(
            format!("{name} receives on {queues} queues, and AF_XDP takes one"),
            format!("ethtool -L {name} combined 1, or outer = \"af_packet\" in [io]"),
        ));
    }
    if device.mtu > MAX_MTU {
        return Err(Error::unfit(
            format!("{name} has an MTU of {}, and AF_XDP takes {MAX_MTU}", device.mtu),
            format!("ip link set {name} mtu {MAX_MTU}, or outer = \"af_packet\" in [io]"),
        ));
    }
    Ok(())
}

/// Repeat an attempt that the kernel may allow a moment later: a queue becomes free some time after the socket of an
/// earlier daemon was closed.
fn patiently<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..PATIENCE.as_millis() / AGAIN.as_millis() {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(AGAIN),
            answer => return answer,
        }
    }
    open()
}

fn make(device: &FrameDevice) -> io::Result<(XdpReceiver, XdpSender)> {
    // SAFETY: socket takes no pointer; the descriptor it answers is new and nobody else's.
    let socket = unsafe {
        let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        OwnedFd::from_raw_fd(check(libc::socket(libc::AF_XDP, flags, 0))?)
    };
    let memory = Memory::new(2 * CHUNKS as usize * CHUNK)?;
    let register = libc::xdp_umem_reg {
        addr: memory.address(),
        len: memory.len() as u64,
        chunk_size: CHUNK as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    sockopt::set(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &register)?;
    for ring in
        [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
    {
        sockopt::set(&socket, libc::SOL_XDP, ring, &CHUNKS)?;
    }
    let (rings, [mut fill, done], received, sending) = Rings::map(&socket, CHUNKS)?;
    let chunk = |number: u32| u64::from(number) * CHUNK as u64;
    (0..CHUNKS).for_each(|number| {
        fill.push(chunk(number));
    });
    fill.publish();
    let mut address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: device.index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_xdp of `len` octets.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_mut(&mut address).cast(), len) };
    check(bound)?;
    let shared = Arc::new(Shared { socket, memory, _rings: rings });
    let free = (CHUNKS..2 * CHUNKS).map(chunk).collect();
    let longest = device.mtu as usize + wire::eth::HEADER_LEN;
    Ok((
        XdpReceiver { shared: Arc::clone(&shared), fill, received },
        XdpSender { shared, sending, done: done.into_consumer(), free, longest },
    ))
}

impl XdpReceiver {
    /// Give the next frame to `take` (never waits); `false`: there is none.
    pub fn recv(&mut self, take: impl FnOnce(&[u8])) -> bool {
        let Some(frame) = self.received.pop() else { return false };
        take(self.shared.memory.read(frame.addr, frame.len as usize));
        self.received.release();
        self.fill.push(frame.addr / CHUNK as u64 * CHUNK as u64);
        self.fill.publish();
        true
    }
}

impl XdpReceiver {
    /// Frames that arrived when ring or memory had no room (struct xdp_statistics); `None`: the kernel does not say.
    pub fn lost(&self) -> Option<u64> {
        // SAFETY: struct xdp_statistics begins with three numbers, and so many has every kernel; rx_ring_full is the fourth.
        let seen = unsafe { sockopt::get(&self.shared.socket, libc::SOL_XDP, libc::XDP_STATISTICS) };
        let [dropped, _, _, ring_full, ..]: [u64; 6] = seen.ok()?;
        Some(dropped + ring_full)
    }
}

impl XdpSender {
    /// Write the next frame of `len` octets; it leaves at [`XdpSender::kick`].
    ///
    /// # Errors
    /// [`DropReason::TooBig`], [`DropReason::Backpressure`].
    pub fn send(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> std::result::Result<(), DropReason> {
        if len > self.longest {
            return Err(DropReason::TooBig);
        }
        if self.free.is_empty() {
            self.kick()?;
            self.collect();
        }
        let chunk = self.free.pop().ok_or(DropReason::Backpressure)?;
        write(self.shared.memory.write(chunk, len));
        let frame = libc::xdp_desc { addr: chunk, len: len as u32, options: 0 };
        if !self.sending.push(frame) {
            self.free.push(chunk);
            return Err(DropReason::Backpressure);
        }
        self.sending.publish();
        Ok(())
    }

    /// Have the kernel send what was written.
    ///
    /// # Errors
    /// [`DropReason::Backpressure`], [`DropReason::Unroutable`]: the device is down or gone.
    pub fn kick(&mut self) -> std::result::Result<(), DropReason> {
        // The kernel takes 32 frames a call.
        for _ in 0..=CHUNKS / 32 {
            // SAFETY: no octets are passed; the frames are in the ring.
            let sent = check_len(unsafe {
                libc::sendto(
                    self.shared.socket.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            });
            match sent {
                Ok(_) => break,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR | libc::EBUSY) => {
                        self.collect();
                        if self.sending.is_drained() {
                            break;
                        }
                    }
                    Some(libc::ENOBUFS) => return Err(DropReason::Backpressure),
                    _ => return Err(DropReason::Unroutable),
                },
            }
        }
        self.collect();
        Ok(())
    }

    fn collect(&mut self) {
        while let Some(chunk) = self.done.pop() {
            self.free.push(chunk);
        }
        self.done.release();
    }
}

impl AsFd for XdpReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}
