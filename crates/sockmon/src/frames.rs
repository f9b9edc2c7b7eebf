//! AF_XDP: a device's outer packets to sockets, past the host (`bpf/frames.bpf.c`), by class where they are split.

use crate::error::SockmonError;
use crate::programs::{COUNTERS, FRAME_PORT, Maps, SA_CLASSES, SOCKET_QUEUES, SOCKET_SPLIT};
use crate::sys;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/frames.bpf.o"));

/// The maps of an instance that the program reads and writes too.
const SHARED: [&str; 5] = [COUNTERS, FRAME_PORT, SA_CLASSES, SOCKET_QUEUES, SOCKET_SPLIT];

/// The map of the sockets by the queue of a class.
const SOCKETS: &str = "frame_sockets";

/// How long another program may still be there, and how often is tried meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(20);

/// The name of the program.
const PROGRAM: &str = "frames";

/// Whether an XDP program with this number is one that a [`FrameSteering`] attached; another one leaves no room for it.
///
/// # Errors
/// If the kernel does not tell (CAP_SYS_ADMIN).
pub fn is_frame_steering(program: u32) -> Result<bool, SockmonError> {
    let what = || SockmonError::system(format!("ask for BPF program {program}"));
    let program = sys::prog_by_id(program).map_err(what())?;
    Ok(sys::prog_name(program.as_fd()).map_err(what())? == PROGRAM)
}

/// A device's outer packets go to a socket as long as this lives.
#[derive(Debug)]
pub struct FrameSteering {
    _link: Link,
    _object: Object,
}

// SAFETY: libbpf's object and link are plain memory and descriptors that no thread owns; nothing is done with them but to drop them.
unsafe impl Send for FrameSteering {}

impl FrameSteering {
    /// Give ESP in UDP to the port of [`FRAME_PORT`], bare ESP and AH that arrive on the first queue of the device to these
    /// AF_XDP sockets: each to that of its class's queue, and all to the first where packets are not split. Where the driver
    /// knows XDP it does it, else the kernel's generic layer.
    ///
    /// # Errors
    /// If the kernel has no AF_XDP, or another XDP program is attached to the device.
    pub(crate) fn attach(
        maps: &Maps,
        ifindex: u32,
        sockets: &[BorrowedFd<'_>],
    ) -> Result<FrameSteering, SockmonError> {
        let fail = |source| SockmonError::Load { source };
        let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(fail)?;
        for mut map in object.maps_mut() {
            if let Some(name) = SHARED.into_iter().find(|name| OsStr::new(name) == map.name()) {
                map.reuse_fd(maps.get(name)?.as_fd()).map_err(fail)?;
            }
        }
        let object = object.load().map_err(fail)?;
        let map = object.maps().find(|map| map.name() == OsStr::new(SOCKETS));
        let map = map.ok_or(SockmonError::Answer(SOCKETS))?;
        let map = MapHandle::try_from(&map).map_err(SockmonError::bpf("open a map of frames.bpf.o"))?;
        for (queue, socket) in (0u32..).zip(sockets) {
            let socket = socket.as_raw_fd().cast_unsigned();
            map.update(&queue.to_ne_bytes(), &socket.to_ne_bytes(), MapFlags::ANY)
                .map_err(SockmonError::bpf("write a map of frames.bpf.o"))?;
        }
        let program = object.progs_mut().find(|program| program.name() == OsStr::new(PROGRAM));
        let program = program.ok_or(SockmonError::Answer("the program of frames.bpf.o"))?;
        let mut link = program.attach_xdp(ifindex.cast_signed());
        // The kernel takes the program of a daemon that has just ended away a little later.
        for _ in 0..PATIENCE.as_millis() / AGAIN.as_millis() {
            if link.is_ok() {
                break;
            }
            std::thread::sleep(AGAIN);
            link = program.attach_xdp(ifindex.cast_signed());
        }
        let link = link.map_err(SockmonError::bpf(format!("attach to device {ifindex} as XDP program")))?;
        Ok(FrameSteering { _link: link, _object: object })
    }
}
