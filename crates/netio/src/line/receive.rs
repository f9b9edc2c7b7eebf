//! From the interface to buffers.

use super::{BATCH, Port};
use crate::udp::{self, receive};
use crate::vnet::{self, VnetHeader};
use std::io;
use std::os::fd::AsRawFd;
use wire::{Buf, DropReason, Gso, Pool};

/// A frame that arrived.
#[derive(Debug)]
pub struct Arrived {
    /// The frame, from its Ethernet header on, without the tag that the kernel took out.
    pub frame: Buf,
    /// That tag: type and identifier with priority, in network order.
    pub tag: Option<[u8; 4]>,
    vnet: VnetHeader,
}

impl Arrived {
    /// The checksum and segmentation work that the kernel left, with offsets from the IP header, which begins `before`
    /// octets behind the frame's start.
    ///
    /// # Errors
    /// [`DropReason::GsoInvalid`] if it contradicts itself or is of a kind that nobody here knows.
    pub fn gso(&self, before: usize) -> Result<Gso, DropReason> {
        self.vnet.gso(u16::try_from(before).map_err(|_| DropReason::GsoInvalid)?)
    }
}

impl Port {
    /// Take waiting frames (never waits) into buffers of `pool`, which need [`super::FRAME`] octets behind [`super::HEADROOM`].
    /// Whether there may be more. `dropped` hears of frames that cannot be taken.
    ///
    /// # Errors
    /// If the interface is down or gone.
    pub fn recv(
        &mut self,
        pool: &mut Pool,
        out: &mut Vec<Arrived>,
        dropped: &mut impl FnMut(DropReason),
    ) -> io::Result<bool> {
        while self.slots.len() < BATCH {
            self.slots.push(pool.take());
        }
        let mut batch = [const { udp::ArrivedDatagram::NONE }; BATCH];
        let count = match receive(self.socket.as_raw_fd(), &mut self.slots, &mut batch) {
            // A super-packet of a kind that a vnet header cannot tell of (SCTP, tunnels): the kernel has dropped it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                dropped(DropReason::GsoInvalid);
                return Ok(true);
            }
            answer => answer?,
        };
        let rest = self.slots.len() - count;
        for (mut frame, arrived) in self.slots.drain(rest..).rev().zip(&batch) {
            frame.set_len(arrived.len());
            let vnet = frame.as_slice().first_chunk().map(VnetHeader::parse);
            match vnet.filter(|_| !arrived.is_cut() && frame.trim_front(vnet::LEN)) {
                Some(vnet) => out.push(Arrived { frame, tag: arrived.tag(), vnet }),
                None => {
                    dropped(DropReason::Truncated);
                    pool.put(frame);
                }
            }
        }
        Ok(count == BATCH)
    }
}
