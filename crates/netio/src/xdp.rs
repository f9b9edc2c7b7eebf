//! AF_XDP sockets: frames between a device and memory that is shared with the kernel (Documentation/networking/af_xdp.rst).
//!
//! What enters and leaves is what [`crate::packet`] has: frames, one datagram each, since this way knows no super-packets. In
//! *copy mode*, which every driver has. Each device has a memory of equal chunks, the first part for what arrives and the
//! second for what leaves, and rings of their addresses: *fill* and *rx*, *tx* and *completion*. The two halves are of two
//! threads and share nothing but the descriptor.
//!
//! Where outer packets wait by class (docs/design/0042), the device's queue has a socket for each queue of classes. They share
//! the memory and the fill ring (XDP_SHARED_UMEM), and each has an rx ring of its own. Together these are shorter than
//! the fill ring, so a class whose rx ring is full leaves chunks for the others.
//!
//! This is where the rings' unsafe code is: `memory.rs` maps, `ring.rs` reads and writes one ring each.

mod memory;
mod ring;

use crate::error::{Error, IoContext, Result, check, check_len};
use crate::link::receive_queues;
use crate::packet::FrameDevice;
use crate::sockopt;
use memory::{CHUNK, Memory, RingSizes, Rings};
use ring::{Consumer, Producer};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use wire::DropReason;

/// The octets that the kernel keeps free in front of a frame that arrives.
const KERNEL_HEADROOM: usize = 256;
/// Chunks for each direction, and entries of each ring, where one socket receives.
const CHUNKS: u32 = 2048;
/// Chunks for what arrives, and entries of the fill ring, where several sockets receive.
const SHARED_CHUNKS: u32 = 4096;
/// Chunks that are never in an rx ring: those that the kernel fills while all rings are full.
const SPARE: u32 = 256;
/// Entries of the rx ring of each of several sockets, at most.
const LONGEST_SHARED: u32 = 512;
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
    /// The sockets of the queues behind the first.
    further: Vec<Further>,
    /// The entries of the rx ring of each socket.
    most: u32,
}

/// A socket that shares memory and fill ring with the first one.
#[derive(Debug)]
struct Further {
    received: Consumer<libc::xdp_desc>,
    _rings: Rings,
    socket: OwnedFd,
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

/// Open sockets on the first queue of a device (CAP_NET_RAW), one for each of so many queues of classes; the first one sends
/// too. Nothing arrives until an XDP program sends it there.
///
/// # Errors
/// If the device has more queues or larger frames than this can take, or the kernel does not let us.
pub fn open(device: &FrameDevice, queues: usize) -> Result<(XdpReceiver, XdpSender)> {
    check_device(device)?;
    let name = &device.name;
    patiently(|| make(device, queues)).doing(|| format!("opening an AF_XDP socket on {name}"))
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

/// The rings of the first of so many sockets.
fn sizes(queues: usize) -> RingSizes {
    if queues < 2 {
        return RingSizes { fill: CHUNKS, completion: CHUNKS, received: CHUNKS, sending: CHUNKS };
    }
    let each =
        u32::try_from(queues).map_or(1, |queues| (SHARED_CHUNKS - SPARE) / queues).clamp(1, LONGEST_SHARED);
    // The largest power of two up to that.
    let received = 1 << each.ilog2();
    RingSizes { fill: SHARED_CHUNKS, completion: CHUNKS, received, sending: CHUNKS }
}

/// A socket that is not bound yet.
fn socket() -> io::Result<OwnedFd> {
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes no pointer; the descriptor it answers is new and nobody else's.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(libc::AF_XDP, flags, 0))?)) }
}

/// Bind a socket to the first queue of a device, over its own memory or over that of another socket.
fn bind(socket: &OwnedFd, device: &FrameDevice, shares: Option<&OwnedFd>) -> io::Result<()> {
    let mut address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: if shares.is_some() { libc::XDP_SHARED_UMEM } else { libc::XDP_COPY },
        sxdp_ifindex: device.index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: shares.map_or(0, |first| first.as_raw_fd().cast_unsigned()),
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_xdp of `len` octets.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_mut(&mut address).cast(), len) };
    check(bound).map(drop)
}

fn make(device: &FrameDevice, queues: usize) -> io::Result<(XdpReceiver, XdpSender)> {
    let sizes = sizes(queues);
    let first = socket()?;
    let memory = Memory::new((sizes.fill + sizes.sending) as usize * CHUNK)?;
    let register = libc::xdp_umem_reg {
        addr: memory.address(),
        len: memory.len() as u64,
        chunk_size: CHUNK as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    sockopt::set(&first, libc::SOL_XDP, libc::XDP_UMEM_REG, &register)?;
    for (ring, entries) in [
        (libc::XDP_UMEM_FILL_RING, sizes.fill),
        (libc::XDP_UMEM_COMPLETION_RING, sizes.completion),
        (libc::XDP_RX_RING, sizes.received),
        (libc::XDP_TX_RING, sizes.sending),
    ] {
        sockopt::set(&first, libc::SOL_XDP, ring, &entries)?;
    }
    let (rings, [mut fill, done], received, sending) = Rings::map(&first, sizes)?;
    let chunk = |number: u32| u64::from(number) * CHUNK as u64;
    (0..sizes.fill).for_each(|number| {
        fill.push(chunk(number));
    });
    fill.publish();
    bind(&first, device, None)?;
    let further = (1..queues).map(|_| {
        let socket = socket()?;
        sockopt::set(&socket, libc::SOL_XDP, libc::XDP_RX_RING, &sizes.received)?;
        let (rings, received) = Rings::map_received(&socket, sizes.received)?;
        bind(&socket, device, Some(&first))?;
        Ok(Further { received, _rings: rings, socket })
    });
    let further = further.collect::<io::Result<Vec<_>>>()?;
    let shared = Arc::new(Shared { socket: first, memory, _rings: rings });
    let free = (sizes.fill..sizes.fill + sizes.sending).map(chunk).collect();
    let longest = device.mtu as usize + wire::eth::HEADER_LEN;
    Ok((
        XdpReceiver { shared: Arc::clone(&shared), fill, received, further, most: sizes.received },
        XdpSender { shared, sending, done: done.into_consumer(), free, longest },
    ))
}

impl XdpReceiver {
    /// Give the next frame of a queue to `take` (never waits); `false`: there is none.
    pub fn recv(&mut self, queue: usize, take: impl FnOnce(&[u8])) -> bool {
        let received = match queue.checked_sub(1) {
            None => Some(&mut self.received),
            Some(further) => self.further.get_mut(further).map(|further| &mut further.received),
        };
        let Some(received) = received else { return false };
        let Some(frame) = received.pop() else { return false };
        take(self.shared.memory.read(frame.addr, frame.len as usize));
        received.release();
        self.fill.push(frame.addr / CHUNK as u64 * CHUNK as u64);
        self.fill.publish();
        true
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        1 + self.further.len()
    }

    /// The most frames that wait in each queue.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// The socket of a queue.
    pub fn queue_fd(&self, queue: usize) -> Option<BorrowedFd<'_>> {
        match queue.checked_sub(1) {
            None => Some(self.shared.socket.as_fd()),
            Some(further) => self.further.get(further).map(|further| further.socket.as_fd()),
        }
    }

    /// Frames that arrived when a ring or the memory had no room (struct xdp_statistics); `None`: the kernel does not say.
    pub fn lost(&self) -> Option<u64> {
        (0..self.queues()).filter_map(|queue| self.queue_fd(queue)).map(lost).sum()
    }
}

/// Frames that arrived when the ring of a socket, or the memory, had no room.
fn lost(socket: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: struct xdp_statistics begins with three numbers, and so many has every kernel; rx_ring_full is the fourth.
    let seen = unsafe { sockopt::get(socket, libc::SOL_XDP, libc::XDP_STATISTICS) };
    let [dropped, _, _, ring_full, ..]: [u64; 6] = seen.ok()?;
    Some(dropped + ring_full)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rx_rings_of_several_sockets_leave_chunks_in_the_fill_ring() {
        for queues in 2..=17 {
            let sizes = sizes(queues);
            assert!(sizes.received.is_power_of_two() && sizes.received >= 128, "{queues}: {sizes:?}");
            assert!(sizes.received * queues as u32 + SPARE <= sizes.fill, "{queues}: {sizes:?}");
        }
        assert_eq!(sizes(1).received, CHUNKS);
    }
}
