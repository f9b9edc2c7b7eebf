//! The TUN between the host and the engine, with vnet header and the 16-octet record (docs/design/0002).
//!
//! What enters: whatever the kernel redirected to the device, `vnet header (10) | record (16) | IP packet`, super-packets
//! included. What leaves: `Packet<Inner>` that starts at the IP header, and to the kernel the same three parts with
//! the proof in the record. The device is persistent: with the daemon dead, what is redirected to it is counted and dropped.
//!
//! Packets of one flow that arrived together go to the kernel in one piece ([`Tun::send_coalesced`]): its stack is walked once for
//! all of them.
//!
//! The TUN has no back-pressure: an unread packet is dropped without an error to its sender. Its queue is a latency
//! budget (research: host path, section 2), since with TCP segmentation one slot may hold 64 KiB.
//!
//! The device is made with several queues possible ([`Queues::Several`]); one is attached when it is opened, further ones
//! by [`Tun::attach_queue`]. Filter, steering program, owner and offloads are the device's, so they hold for every queue.

mod coalesced;
pub(crate) mod device;
mod owner;
mod several;

use crate::error::{Error, IoContext, Result};
use crate::link::{Links, Scope};
use crate::sysctl;
use crate::vnet::{self, VnetHeader};
pub use coalesced::DeliveryResult;
use device::Flags;
pub use owner::owner_fault;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::{AppId, DropReason, Meta, Packet, Pool, Record, Time, record, stage};

/// The octets in front of the IP packet: vnet header and record.
pub const PREFIX_LEN: usize = vnet::LEN + record::LEN;

/// Packets that are forgotten at one time.
const QUEUE_AT_MOST: usize = 1 << 16;

/// The longest packet the kernel hands over (a super-packet of the largest IPv4 length).
pub const MAX_PACKET: usize = 65_535;

/// How many queues a device can have, which is settled when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// One descriptor holds the device.
    One,
    /// Up to 256 descriptors hold a queue each.
    Several,
}

/// The options for opening the device.
#[derive(Clone, Debug)]
pub struct TunOptions {
    /// The kind of the device. One that is there and nobody holds is replaced, if it has one queue and is to have several.
    pub queues: Queues,
    /// Keep the device when its last descriptor is closed.
    pub persist: bool,
    /// Take TCP and UDP super-packets, and packets whose checksum is still to be computed.
    pub offload: bool,
    /// Packets that the kernel keeps for us, in each queue.
    pub queue_len: u32,
}

impl Default for TunOptions {
    fn default() -> TunOptions {
        TunOptions { queues: Queues::Several, persist: true, offload: true, queue_len: 512 }
    }
}

/// The settings that the host has to give the device.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Any address of its own, with link scope: without one, loose reverse-path filtering drops what arrives on it.
    pub address: Ipv4Addr,
    /// The MTU of the device. Redirected packets do not look at it; what the host routes to the TUN itself does.
    pub mtu: u32,
}

/// One answer of the device.
#[derive(Debug)]
pub enum FromTun {
    /// A packet of a stamped socket, or an answer under protection.
    Packet(Packet<stage::Inner>),
    /// A packet that ends here, and why.
    Dropped(DropReason),
    /// There is none now.
    Empty,
}

/// A queue of an open TUN device. Reads never block.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    index: u32,
    queues: Queues,
    /// TUN_F_* bits that the kernel accepted.
    offloads: u32,
}

impl Tun {
    /// Open the device `name` in the calling thread's network namespace; made if it is not there (of one queue, with a number in
    /// place of a `%d`). The device's programs and index survive if it was persistent and is of the wanted kind.
    ///
    /// # Errors
    /// Another process holds a queue of the device, or it is none; the kernel refuses it.
    pub fn open(name: &str, options: &TunOptions) -> Result<Tun> {
        let (file, name) = match options.queues {
            Queues::One => device::open(name)?,
            Queues::Several => (several::open(name)?, name.to_owned()),
        };
        let offloads = device::set_offloads(&file, options.offload)
            .doing(|| format!("setting the offloads of the TUN {name}"))?;
        device::set_persistent(&file, options.persist)
            .doing(|| format!("making the TUN {name} persistent"))?;
        let mut links = Links::open()?;
        let index = links.index(&name)?;
        links.set_queue_len(index, options.queue_len)?;
        Ok(Tun { file, name, index, queues: options.queues, offloads })
    }

    /// The queue behind a descriptor that another daemon handed over. Its device must be in the calling thread's namespace.
    ///
    /// # Errors
    /// The descriptor is no queue of a TUN with a vnet header, or the device cannot be made root's.
    pub fn from_fd(fd: OwnedFd) -> Result<Tun> {
        let file = File::from(fd);
        let (name, flags) = device::identity(&file).doing(|| "asking a descriptor which TUN it is".into())?;
        if !flags.contains(Flags::WANTED) {
            return Err(Error::unfit(
                format!("the TUN {name} was opened without vnet header"),
                "hand over between daemons of the same version",
            ));
        }
        device::own(&file).doing(|| format!("making the TUN {name} root's"))?;
        let link = Links::open()?.find(&name)?;
        if let Some(fault) = owner_fault(&link) {
            return Err(Error::unfit(
                fault,
                format!(
                    "delete the device (`ip link delete {name}`) and start the daemon without --take-over"
                ),
            ));
        }
        let index = link.index;
        let queues = if flags.contains(Flags::MULTI_QUEUE) { Queues::Several } else { Queues::One };
        let offloads =
            device::set_offloads(&file, true).doing(|| format!("setting the offloads of the TUN {name}"))?;
        Ok(Tun { file, name, index, queues, offloads })
    }

    /// The queues of one device behind descriptors that another daemon handed over: the first, and the others in their order.
    ///
    /// # Errors
    /// There is no descriptor, one is not what [`Tun::from_fd`] takes, or they are not all of one device.
    pub fn from_fds(fds: Vec<OwnedFd>) -> Result<(Tun, Vec<Tun>)> {
        let remedy = "start the daemon without --take-over";
        let mut queues = fds.into_iter().map(Tun::from_fd);
        let first = queues
            .next()
            .unwrap_or_else(|| Err(Error::unfit("no queue of the TUN was handed over", remedy)))?;
        let others = queues.collect::<Result<Vec<_>>>()?;
        match others.iter().find(|other| other.index != first.index) {
            None => Ok((first, others)),
            Some(other) => Err(Error::unfit(
                format!("queues of two devices were handed over, {} and {}", first.name, other.name),
                remedy,
            )),
        }
    }

    /// Attach a further queue to the device. Packets come into it from here on: those that the steering program gives it, or
    /// without one some of the flows. It goes when its last handle is dropped, with what waits in it.
    ///
    /// # Errors
    /// The device can have one queue only, is gone or not root's, or has all the queues that it can have.
    pub fn attach_queue(&self) -> Result<Tun> {
        if self.queues == Queues::One {
            return Err(Error::unfit(
                format!("the TUN {} was made with one queue, and so it stays", self.name),
                "restart the daemon without --take-over, which makes it anew",
            ));
        }
        let mut links = Links::open()?;
        let link = links.link(self.index)?;
        if let Some(fault) = owner_fault(&link) {
            return Err(Error::unfit(fault, "restart the daemon, which makes it root's"));
        }
        let (file, name) = device::attach(&link.name, Flags::SEVERAL, None)?;
        // TUNSETIFF knows names only, and makes a device where there is none: that goes again with this descriptor.
        if links.index(&name)? != self.index {
            return Err(Error::unfit(
                format!("the TUN {name} is another device than before"),
                "restart the daemon",
            ));
        }
        Ok(Tun { file, name, ..*self })
    }

    /// Take this queue, with all its handles, out of use until [`Tun::reattach_queue`]. What waits in it is lost; what comes
    /// goes to the others.
    ///
    /// # Errors
    /// The queue is detached, or its device can have no other.
    pub fn detach_queue(&self) -> Result<()> {
        device::set_attached(&self.file, false)
            .doing(|| format!("detaching a queue of the TUN {}", self.name))
    }

    /// Put a detached queue back into use, as the last one.
    ///
    /// # Errors
    /// The queue is not detached.
    pub fn reattach_queue(&self) -> Result<()> {
        device::set_attached(&self.file, true)
            .doing(|| format!("attaching a queue of the TUN {} again", self.name))
    }

    /// Check that another daemon can go on with the device: that everything [`Tun::from_fd`] needs exists.
    pub fn try_hand_over(&self) -> Result<()> {
        let file = self.file.try_clone().doing(|| format!("duplicating the TUN {}", self.name))?;
        Tun::from_fd(file.into()).map(drop)
    }

    /// A second handle, for the thread that writes.
    pub fn try_clone(&self) -> Result<Tun> {
        let file = self.file.try_clone().doing(|| format!("duplicating the TUN {}", self.name))?;
        Ok(Tun { file, name: self.name.clone(), ..*self })
    }

    /// Whether the device can have further queues.
    pub fn queues(&self) -> Queues {
        self.queues
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index of the device, which proves that a packet came through it.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether UDP super-packets are read and written whole (Linux 6.2).
    pub fn carries_udp_super_packets(&self) -> bool {
        self.offloads & device::USO != 0
    }

    /// Address, reverse-path filter, no addresses of its own making, MTU; then up.
    pub fn configure(&self, config: &TunConfig) -> Result<()> {
        let mut links = Links::open()?;
        links.set_no_generated_addresses(self.index)?;
        // What a host sends to a group comes back in at the device it went out by: here only the daemon's packets come in.
        links.set_multicast(self.index, false)?;
        links.set_mtu(self.index, config.mtu)?;
        links.add_address(self.index, IpAddr::V4(config.address), 32, Scope::Link)?;
        sysctl::replace(&format!("net/ipv4/conf/{}/rp_filter", self.name), 2)?;
        links.set_up(self.index, true)
    }

    /// Let a BPF program (socket filter) choose the queue of each packet: its answer, modulo the number of attached queues in
    /// the order in which they were attached. `None`: the kernel chooses by flow. The device keeps it.
    ///
    /// # Errors
    /// The kernel refuses the program.
    pub fn set_steering(&self, program: Option<BorrowedFd<'_>>) -> Result<()> {
        device::set_steering(&self.file, program)
            .doing(|| format!("steering packets to the queues of the TUN {}", self.name))
    }

    /// Let a BPF program (socket filter) decide what comes into the device's queues: 0 octets of a packet, or all. The device keeps it.
    pub fn set_filter(&self, program: BorrowedFd<'_>) -> Result<()> {
        device::set_filter(&self.file, program)
            .doing(|| format!("filtering the queues of the TUN {}", self.name))
    }

    /// Forget what waits in this queue; how many packets. It came before the queue had a filter.
    pub fn forget_queue(&self) -> Result<usize> {
        let mut forgotten = 0;
        // What comes meanwhile is of no interest either, but for ever it must not come.
        while forgotten < QUEUE_AT_MOST {
            match (&self.file).read(&mut [0]) {
                Ok(_) => forgotten += 1,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // A packet that does not fit, not even its vnet header, is gone.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => forgotten += 1,
                Err(e) => return Err(e).doing(|| format!("emptying the queue of the TUN {}", self.name)),
            }
        }
        Ok(forgotten)
    }

    /// Take the next packet into a buffer of `pool`, which needs [`PREFIX_LEN`] + [`MAX_PACKET`] octets behind its headroom
    /// (what the prefix took becomes headroom).
    pub fn recv(&self, now: Time, pool: &mut Pool) -> io::Result<FromTun> {
        let mut buf = pool.take();
        let room = buf.spare_mut();
        let capacity = room.len();
        let len = match (&self.file).read(room) {
            Ok(len) => len,
            Err(e) => {
                pool.put(buf);
                return match e.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(FromTun::Empty),
                    _ => Err(e),
                };
            }
        };
        buf.set_len(len);
        // The kernel cuts what does not fit without saying so.
        let prefix =
            if len < capacity { parse_prefix(buf.as_slice(), now) } else { Err(DropReason::Truncated) };
        Ok(match prefix {
            Ok(meta) if buf.trim_front(PREFIX_LEN) => FromTun::Packet(Packet::from_host(buf, meta)),
            Ok(_) => FromTun::Dropped(DropReason::Truncated),
            Err(reason) => {
                pool.put(buf);
                FromTun::Dropped(reason)
            }
        })
    }

    /// Hand a packet to the host with `mark` in its record (proof, services, application). One system call; the prefix
    /// is gathered from the stack, so the packet needs no headroom.
    pub fn send(&self, packet: &Packet<stage::Admitted>, mark: u32) -> std::result::Result<(), DropReason> {
        self.send_bytes(packet.bytes(), mark)
    }

    fn send_bytes(&self, bytes: &[u8], mark: u32) -> std::result::Result<(), DropReason> {
        let version = match bytes.first().map(|first| first >> 4) {
            Some(version @ (4 | 6)) => version,
            _ => return Err(DropReason::BadVersion),
        };
        let prefix = prefix_of([0; vnet::LEN], version, mark);
        self.write(&[IoSlice::new(&prefix), IoSlice::new(bytes)], PREFIX_LEN + bytes.len())
    }

    /// Write `len` octets in all with one writev(2).
    fn write(&self, parts: &[IoSlice<'_>], len: usize) -> std::result::Result<(), DropReason> {
        match (&self.file).write_vectored(parts) {
            Ok(written) if written == len => Ok(()),
            // The device takes a packet whole or not at all.
            Ok(_) => Err(DropReason::Truncated),
            Err(e) => Err(match e.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => DropReason::Backpressure,
                Some(libc::EINVAL) => DropReason::BadHeader,
                _ => DropReason::Unroutable,
            }),
        }
    }
}

/// Vnet header and record for the kernel.
fn prefix_of(vnet: [u8; vnet::LEN], version: u8, mark: u32) -> [u8; PREFIX_LEN] {
    let mut prefix = [0; PREFIX_LEN];
    let (first, behind) = prefix.split_at_mut(vnet::LEN);
    first.copy_from_slice(&vnet);
    behind.copy_from_slice(&Record { version, mark, cookie: 0 }.emit());
    prefix
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether there is a TUN `name` in the calling thread's network namespace that can have one queue only.
///
/// # Errors
/// The kernel does not list its devices.
pub fn has_one_queue(name: &str) -> Result<bool> {
    let links = Links::open()?.list()?;
    let owner = links.iter().find(|link| link.name == name).and_then(|link| link.tun_owner);
    Ok(owner.is_some_and(|owner| !owner.several_queues))
}

/// Delete the device `name`, persistent or not; fine if it is not there.
pub fn delete(name: &str) -> Result<()> {
    let mut links = Links::open()?;
    match links.list()?.iter().find(|link| link.name == name) {
        Some(link) => links.delete(link.index),
        None => Ok(()),
    }
}

/// Vnet header and record as [`Meta`].
fn parse_prefix(bytes: &[u8], now: Time) -> std::result::Result<Meta, DropReason> {
    let (vnet, behind) = bytes.split_first_chunk().ok_or(DropReason::Truncated)?;
    let record = Record::parse(behind)?;
    if record.mark & (record::STAMPED | record::PROOF | record::FORWARDED) == 0 {
        return Err(DropReason::Unstamped);
    }
    Ok(Meta {
        received: now,
        cookie: record.cookie,
        mark: record.mark,
        app: AppId((record.mark & record::APP_MASK) as u16),
        gso: VnetHeader::parse(vnet).gso(record::LEN as u16)?,
        ..Meta::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::GsoKind;

    fn prefix(vnet: [u8; 10], mark: u32) -> Vec<u8> {
        let record = Record { version: 4, mark, cookie: 77 };
        [&vnet[..], &record.emit(), &[0x45; 20]].concat()
    }

    #[test]
    fn record_and_vnet_header_become_meta() {
        let mut vnet = [0; 10];
        vnet[0] = 1;
        vnet[1] = 1 | 0x80;
        vnet[4..6].copy_from_slice(&1360u16.to_ne_bytes());
        vnet[6..8].copy_from_slice(&(20u16 + 16).to_ne_bytes());
        vnet[8..10].copy_from_slice(&16u16.to_ne_bytes());
        let meta = parse_prefix(&prefix(vnet, record::STAMPED | 9), Time(5)).unwrap();
        assert_eq!((meta.app, meta.cookie, meta.received), (AppId(9), 77, Time(5)));
        assert_eq!(meta.gso.kind, GsoKind::Tcp);
        assert_eq!((meta.gso.size, meta.gso.checksum_start, meta.gso.checksum_offset), (1360, 20, 16));
        assert!(meta.gso.needs_checksum);
    }

    #[test]
    fn what_is_not_ours_has_a_reason() {
        let stamped = prefix([0; 10], record::STAMPED | 9);
        let mut foreign = stamped.clone();
        foreign[11] = b'X';
        let table = [
            (prefix([0; 10], 0xd4), DropReason::Unstamped),
            (prefix([0; 10], 0), DropReason::Unstamped),
            (foreign, DropReason::BadRecord),
            (stamped[..25].to_vec(), DropReason::BadRecord),
            (stamped[..9].to_vec(), DropReason::Truncated),
            (Vec::new(), DropReason::Truncated),
        ];
        for (bytes, reason) in table {
            assert_eq!(parse_prefix(&bytes, Time(0)).unwrap_err(), reason);
        }
        assert!(parse_prefix(&prefix([0; 10], record::PROOF), Time(0)).is_ok());
        let forwarded = parse_prefix(&prefix([0; 10], record::FORWARDED), Time(0)).unwrap();
        assert_eq!((forwarded.app, forwarded.cookie), (AppId(0), 77));
    }
}
