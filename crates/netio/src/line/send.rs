//! From buffers to the interface.

use super::{BATCH, Port};
use crate::error::check;
use crate::vnet::{self, VnetHeader};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp};
use wire::{Buf, DropReason, Gso, GsoKind, Pool, udp};

/// A frame that leaves.
#[derive(Debug)]
pub struct OutgoingFrame {
    /// The frame, from its Ethernet header on.
    pub frame: Buf,
    /// The checksum and segmentation work for the kernel, with offsets from the IP header.
    pub gso: Gso,
    /// The octets in front of the IP header.
    pub before: usize,
}

/// The result of sending frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendResult {
    /// Frames that the interface took.
    pub frames: u64,
    /// The octets of the frames that the interface took.
    pub octets: u64,
    /// Frames that are longer than it carries.
    pub too_long: u64,
    /// Frames for which it had no room.
    pub full: u64,
    /// Frames that the kernel refused otherwise: the interface is down or gone.
    pub refused: u64,
}

impl SendResult {
    /// Add what became of other frames.
    pub fn add(&mut self, other: SendResult) {
        let SendResult { frames, octets, too_long, full, refused } = other;
        self.frames += frames;
        self.octets += octets;
        self.too_long += too_long;
        self.full += full;
        self.refused += refused;
    }
}

/// The vnet header of a frame.
fn header(leaving: &OutgoingFrame) -> Result<[u8; vnet::LEN], DropReason> {
    let OutgoingFrame { frame, gso, before } = leaving;
    let before = u16::try_from(*before).map_err(|_| DropReason::GsoInvalid)?;
    if gso.kind == GsoKind::None {
        return Ok(VnetHeader::emit(gso, before, 0, 0));
    }
    let packet = frame.as_slice().get(usize::from(before)..).ok_or(DropReason::Truncated)?;
    let headers = Headers::parse(packet)?;
    let upper = headers.upper(packet);
    let (len, ecn) = match gso.kind {
        GsoKind::Tcp => {
            let tcp = Tcp::new_checked(upper)?;
            (tcp.header_len(), tcp.flags().contains(Flags::CWR))
        }
        _ => (udp::HEADER_LEN, false),
    };
    let len = u16::try_from(headers.header_len + len).map_err(|_| DropReason::GsoInvalid)?;
    let mut vnet = VnetHeader::emit(gso, before, len, headers.version);
    if ecn {
        VnetHeader::mark_ecn(&mut vnet);
    }
    Ok(vnet)
}

impl Port {
    /// Send frames in order, with as few system calls as it takes; their buffers go back to the pool. What does not fit the
    /// interface's queue is dropped, as a router does.
    pub fn send(&mut self, frames: &mut Vec<OutgoingFrame>, pool: &mut Pool) -> SendResult {
        let mut sent = SendResult::default();
        frames.retain_mut(|leaving| {
            let done = header(leaving).is_ok_and(|vnet| {
                let room = leaving.frame.push_front(vnet::LEN);
                room.map(|room| room.copy_from_slice(&vnet)).is_some()
            });
            sent.refused += u64::from(!done);
            done
        });
        for some in frames.chunks(BATCH) {
            self.send_some(some, &mut sent);
        }
        frames.drain(..).for_each(|leaving| pool.put(leaving.frame));
        sent
    }

    fn send_some(&self, mut frames: &[OutgoingFrame], sent: &mut SendResult) {
        while let Some((_, behind)) = frames.split_first() {
            match send(self.socket.as_raw_fd(), frames) {
                Ok(count) => {
                    let (gone, rest) = frames.split_at(count.min(frames.len()));
                    sent.frames += gone.len() as u64;
                    sent.octets += gone.iter().map(|l| (l.frame.len() - vnet::LEN) as u64).sum::<u64>();
                    frames = rest;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Whoever waits here lets the other direction wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sent.full += frames.len() as u64;
                    return;
                }
                Err(error) => {
                    match error.raw_os_error() {
                        Some(libc::ENOBUFS) => sent.full += 1,
                        Some(libc::EMSGSIZE) => sent.too_long += 1,
                        _ => sent.refused += 1,
                    }
                    frames = behind;
                }
            }
        }
    }
}

/// sendmmsg(2): how many went; an error is about the first.
fn send(socket: libc::c_int, frames: &[OutgoingFrame]) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
    // SAFETY: mmsghdr is plain old data; all zeroes is a valid value of it.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for ((message, part), leaving) in messages.iter_mut().zip(&mut parts).zip(frames) {
        let octets = leaving.frame.as_slice();
        *part = libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    let wanted = frames.len().min(BATCH);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: each of the first `wanted` messages points to one iovec over a frame that is borrowed until the call returns; the
    // kernel only reads them.
    let sent = unsafe { libc::sendmmsg(socket, messages.as_mut_ptr(), wanted as libc::c_uint, flags) };
    check(sent).map(|sent| usize::try_from(sent).unwrap_or(0))
}
