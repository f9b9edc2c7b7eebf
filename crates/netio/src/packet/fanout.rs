//! Several packet sockets that share the frames of a device: a program gives each frame to one of them (packet(7),
//! PACKET_FANOUT).

use crate::sockopt;
use socket2::Socket;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const PACKET_FANOUT_DATA: libc::c_int = 22;
const PACKET_FANOUT_EBPF: u32 = 7;
const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: u32 = 0x4000;
const PACKET_FANOUT_FLAG_UNIQUEID: u32 = 0x2000;

/// A group of sockets that share frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fanout(u32);

const FLAGS: u32 = PACKET_FANOUT_EBPF | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;

impl Fanout {
    /// A group that this socket is the first of. What the program (socket filter) answers, modulo the number of sockets,
    /// is the place in the group of the socket that hears a frame.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn new(first: &Socket, program: BorrowedFd<'_>) -> io::Result<Fanout> {
        // The kernel chooses a number that nobody else in this namespace has.
        let asked = (FLAGS | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
        sockopt::set_int(first, libc::SOL_PACKET, libc::PACKET_FANOUT, asked.cast_signed())?;
        let have = sockopt::get_int(first, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        sockopt::set_int(first, libc::SOL_PACKET, PACKET_FANOUT_DATA, program.as_raw_fd())?;
        Ok(Fanout(have.cast_unsigned() & 0xffff))
    }

    /// Put a socket of the same device into the group, behind those that are in it. If the device goes down and comes
    /// back, the kernel puts them in again in the order in which they were made.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn add(self, socket: &Socket) -> io::Result<()> {
        let asked = FLAGS << 16 | self.0;
        sockopt::set_int(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, asked.cast_signed())
    }
}
