//! Memory that is shared with the kernel, and the rings in it.

use super::ring::{Consumer, Producer, Ring};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};

/// The size of a chunk in octets: one page, which every kernel takes.
pub(super) const CHUNK: usize = 4096;

/// A memory mapping, which is removed when this value is dropped.
#[derive(Debug)]
struct Map {
    start: NonNull<u8>,
    len: usize,
}

impl Map {
    fn new(len: usize, flags: libc::c_int, fd: libc::c_int, offset: libc::off_t) -> io::Result<Map> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing that is there.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, fd, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Map { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and everything that points into it goes with or before its owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

// SAFETY: a mapping belongs to the process, not to a thread; who reads and writes what in it is said where that is done.
unsafe impl Send for Map {}
// SAFETY: as above: the value itself is only an address and a length.
unsafe impl Sync for Map {}

/// The memory of a socket, divided into chunks for frames.
#[derive(Debug)]
pub(super) struct Memory(Map);

impl Memory {
    pub(super) fn new(len: usize) -> io::Result<Memory> {
        Map::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0).map(Memory)
    }

    pub(super) fn address(&self) -> u64 {
        self.0.start.as_ptr() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.0.len
    }

    /// The offset and the length of a range in the mapping. An address outside of the mapping, which no kernel should
    /// give, becomes an empty range.
    fn range(&self, at: u64, len: usize) -> (usize, usize) {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        match at.checked_add(len) {
            Some(end) if end <= self.0.len && at / CHUNK == (end.max(at + 1) - 1) / CHUNK => (at, len),
            _ => (0, 0),
        }
    }

    /// The octets of a frame that the rx ring named. They belong to this process until the chunk goes back to the fill
    /// ring.
    pub(super) fn read(&self, at: u64, len: usize) -> &[u8] {
        let (at, len) = self.range(at, len);
        // SAFETY: the range is inside the mapping and inside one chunk. The chunk was taken from the rx ring and is given back
        // by the same thread after this borrow, so the kernel does not write to it meanwhile.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().add(at), len) }
    }

    /// The octets of a free chunk that the sender may write.
    #[expect(clippy::mut_from_ref, reason = "each chunk has one owner: the list of free ones, or the kernel")]
    pub(super) fn write(&self, at: u64, len: usize) -> &mut [u8] {
        let (at, len) = self.range(at, len);
        // SAFETY: the range is inside the mapping and inside one chunk, which the sender has just taken from its list of free
        // ones: neither the kernel nor the receiver, whose chunks are others, touches it.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr().add(at), len) }
    }
}

/// The mappings of rings, which must live as long as the rings are used.
#[derive(Debug)]
pub(super) struct Rings(#[expect(dead_code, reason = "held, not read")] Vec<Map>);

/// The numbers of entries of a socket's rings, powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingSizes {
    pub(super) fill: u32,
    pub(super) completion: u32,
    pub(super) received: u32,
    pub(super) sending: u32,
}

/// The mapped rings of a socket: the mappings; the producers of `fill` and `completion`; the rx ring; the tx ring.
type MappedRings = (Rings, [Producer<u64>; 2], Consumer<libc::xdp_desc>, Producer<libc::xdp_desc>);

/// The octets of an entry of the fill and the completion ring, and of the rx and the tx ring.
const ENTRIES: (usize, usize) = (size_of::<u64>(), size_of::<libc::xdp_desc>());

/// Where the kernel has the parts of a socket's rings.
fn offsets(fd: libc::c_int) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: xdp_mmap_offsets is plain old data; all zeroes is a valid value of it.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&offsets) as libc::socklen_t;
    let out = ptr::from_mut(&mut offsets).cast();
    // SAFETY: `out` is writable for `len` octets.
    crate::error::check(unsafe {
        libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, out, &mut len)
    })?;
    Ok(offsets)
}

/// Map a ring of so many entries, each of so many octets.
fn map_ring(
    fd: libc::c_int,
    at: &libc::xdp_ring_offset,
    (entries, octets): (u32, usize),
    place: u64,
) -> io::Result<Map> {
    let len = at.desc as usize + entries as usize * octets;
    Map::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd, place.cast_signed())
}

impl Rings {
    /// Map the four rings, which socket options have asked the kernel for.
    pub(super) fn map(socket: impl AsFd, sizes: RingSizes) -> io::Result<MappedRings> {
        let fd = socket.as_fd().as_raw_fd();
        let offsets = offsets(fd)?;
        let (address, frame) = ENTRIES;
        let fill = map_ring(fd, &offsets.fr, (sizes.fill, address), libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let done =
            map_ring(fd, &offsets.cr, (sizes.completion, address), libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let received =
            map_ring(fd, &offsets.rx, (sizes.received, frame), libc::XDP_PGOFF_RX_RING.cast_unsigned())?;
        let sending =
            map_ring(fd, &offsets.tx, (sizes.sending, frame), libc::XDP_PGOFF_TX_RING.cast_unsigned())?;
        // SAFETY: each ring is in a mapping of its own, as long as its entries need, at the offsets that the kernel gave, and
        // lives as long as `Rings`, which the owner of the ring keeps.
        let rings = unsafe {
            (
                [
                    Producer(Ring::at(fill.start, &offsets.fr, sizes.fill)),
                    Producer(Ring::at(done.start, &offsets.cr, sizes.completion)),
                ],
                Consumer(Ring::at(received.start, &offsets.rx, sizes.received)),
                Producer(Ring::at(sending.start, &offsets.tx, sizes.sending)),
            )
        };
        Ok((Rings(vec![fill, done, received, sending]), rings.0, rings.1, rings.2))
    }

    /// Map the rx ring alone of a socket that shares the other rings with another one.
    pub(super) fn map_received(
        socket: impl AsFd,
        entries: u32,
    ) -> io::Result<(Rings, Consumer<libc::xdp_desc>)> {
        let fd = socket.as_fd().as_raw_fd();
        let offsets = offsets(fd)?;
        let place = libc::XDP_PGOFF_RX_RING.cast_unsigned();
        let received = map_ring(fd, &offsets.rx, (entries, ENTRIES.1), place)?;
        // SAFETY: the ring is in this mapping, as long as its entries need, at the offsets that the kernel gave, and lives as
        // long as `Rings`, which the owner of the ring keeps.
        let ring = unsafe { Consumer(Ring::at(received.start, &offsets.rx, entries)) };
        Ok((Rings(vec![received]), ring))
    }
}
