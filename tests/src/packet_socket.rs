//! A packet socket (packet(7)) on one device: every frame that passes it, and frames put on it.

use std::cell::Cell;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Octets that the kernel may hold between two looks.
const KERNEL_BUFFER: libc::c_int = 64 << 20;

/// A packet socket on one device. It belongs to the network namespace in which it was opened.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    lost: Cell<u64>,
}

impl PacketSocket {
    /// Open a socket on the device `name` of the calling thread's namespace. It hears what passes from now on.
    ///
    /// # Errors
    /// If there is no such device, or the thread may not hear it.
    pub fn open(name: &CStr) -> io::Result<PacketSocket> {
        let check =
            |answer: libc::c_int| if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) };
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
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        // SAFETY: all zeroes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::sa_family_t;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex =
            if index == 0 { return Err(io::Error::last_os_error()) } else { index as libc::c_int };
        // SAFETY: the address is a live sockaddr_ll of that length.
        check(unsafe {
            libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        })?;
        Ok(PacketSocket { socket, lost: Cell::new(0) })
    }

    /// The next frame, if there is one: its length, and whether this host sends it.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, bool)>> {
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
                error => Err(error),
            },
        }
    }

    /// Put a frame on the device.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame has the length that is passed.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Frames since it was opened for which the kernel had no room.
    ///
    /// # Errors
    /// The system's.
    pub fn lost(&self) -> io::Result<u64> {
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
        if read != 0 {
            return Err(io::Error::last_os_error());
        }
        // Counted from zero after each reading.
        self.lost.set(self.lost.get() + u64::from(statistics[1]));
        Ok(self.lost.get())
    }
}
