//! The enc device (paper 001 section 2.2): where `tcpdump` sees protected packets in clear.
//!
//! What enters: copies that the kernel half makes of packets on their way into and out of protection. What leaves: nothing.
//! It is a TUN that nobody reads, so a copy ends there once the packet sockets have seen it. It takes no offloads, so the
//! kernel cuts super-packets and completes checksums before anybody looks. It goes with the process that opened it.

use crate::error::{IoContext, Result};
use crate::link::Links;
use crate::sysctl;
use crate::tun::device;
use std::fs::File;
use std::io;

/// Copies that may lie in the device unread; they are as long as packets on the wire.
const QUEUE: u32 = 32;
/// The MTU of the device, for which no copy is too long.
const MTU: u32 = 65_535;
/// The calling thread's namespace's packet sockets.
const PACKET_SOCKETS: &str = "/proc/thread-self/net/packet";

/// An enc device of the calling thread's network namespace.
#[derive(Debug)]
pub struct EncDevice {
    /// The device lives as long as this.
    _file: File,
    index: u32,
}

impl EncDevice {
    /// Make the device `name` and set it up, without addresses.
    ///
    /// # Errors
    /// If there is a device of that name already, or the kernel does not let us.
    pub fn open(name: &str) -> Result<EncDevice> {
        let (file, name) = device::open(name)?;
        device::set_offloads(&file, false).doing(|| format!("setting the offloads of {name}"))?;
        let mut links = Links::open()?;
        let index = links.index(&name)?;
        links.set_queue_len(index, QUEUE)?;
        links.set_mtu(index, MTU)?;
        // It must show nothing but copies: no router solicitation, no multicast report.
        links.set_no_generated_addresses(index)?;
        links.set_multicast(index, false)?;
        match sysctl::set(&format!("net/ipv6/conf/{name}/disable_ipv6"), 1) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        links.set_up(index, true)?;
        Ok(EncDevice { _file: file, index })
    }

    /// The interface index of the device.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether a packet socket is bound to the device. A socket that listens on every device at once does not count: it
    /// sees protected packets on the TUN already.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn has_listener(&self) -> Result<bool> {
        let list = std::fs::read_to_string(PACKET_SOCKETS).doing(|| format!("reading {PACKET_SOCKETS}"))?;
        Ok(is_bound(&list, self.index))
    }
}

/// Whether the list (`sk RefCnt Type Proto Iface R Rmem User Inode`) has a socket of that interface.
fn is_bound(list: &str, index: u32) -> bool {
    let bound = |line: &str| line.split_whitespace().nth(4).and_then(|word| word.parse().ok());
    list.lines().skip(1).any(|line| bound(line) == Some(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_of_the_interface_counts() {
        let list = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                    0000000000000000 3      3    0003   7     1 0      0      4711 \n\
                    0000000000000000 3      3    0003   0     1 0      0      4712 \n";
        assert!(is_bound(list, 7));
        for other in [0x0003, 1, 4711, 77] {
            assert!(!is_bound(list, other), "{other}");
        }
        assert!(!is_bound("", 7));
    }
}
