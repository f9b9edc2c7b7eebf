//! Cells: small buffers for short packets that wait, so that a queue does not hold buffers of full size.

use wire::{Buf, Burst, Packet, Pool};

/// The length of the longest packet that waits in a cell, in octets. A longer one keeps the buffer that it came in.
pub(crate) const LONGEST_IN_CELL: usize = 2048;

/// The number of octets that a cell leaves free behind the longest packet: a bundle asks for more than one association.
pub(crate) const CELL_TAILROOM: usize = 512;

/// Move a short packet out of a buffer of full size.
#[inline]
pub(crate) fn packet_in_cell<S>(packet: Packet<S>, pool: &mut Pool) -> Packet<S> {
    if packet.bytes().len() > LONGEST_IN_CELL || packet.buf().capacity() < crate::BUF_CAPACITY {
        return packet;
    }
    match pool.cell(packet.bytes(), CELL_TAILROOM) {
        Some(cell) => {
            let moved = packet.piece(cell, packet.meta);
            pool.put(packet.into_buf());
            moved
        }
        None => packet,
    }
}

/// Move short datagrams out of a buffer of full size.
#[inline]
pub(crate) fn burst_in_cell<S>(burst: Burst<S>, pool: &mut Pool) -> Burst<S> {
    if burst.bytes().len() > LONGEST_IN_CELL {
        return burst;
    }
    let (burst, before) = burst.moved(|octets| pool.cell(octets, CELL_TAILROOM));
    if let Some(before) = before {
        pool.put(before);
    }
    burst
}

/// A buffer with a copy of these octets: a cell if they fit into one. `None` if they fit into no buffer.
pub(crate) fn copy_of(octets: &[u8], pool: &mut Pool) -> Option<Buf> {
    if octets.len() <= LONGEST_IN_CELL
        && let Some(cell) = pool.cell(octets, CELL_TAILROOM)
    {
        return Some(cell);
    }
    let mut buf = pool.take();
    match buf.push_back(octets.len()) {
        Some(room) => {
            room.copy_from_slice(octets);
            Some(buf)
        }
        None => {
            pool.put(buf);
            None
        }
    }
}
