//! A priority for the queueing disciplines of a device, beside each message (SO_PRIORITY as a control message, Linux 6.14).
//!
//! It is what SO_PRIORITY gives every packet of a socket: `skb->priority`, which `prio` and `mqprio` look up in a table, and
//! which HTB takes for the number of a class. Up to 6 everybody may set it, beyond that who has CAP_NET_RAW or
//! CAP_NET_ADMIN. A kernel before 6.14 refuses a message that has one (EINVAL).

use super::control::{Control, Writer};
use super::send::transmit;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

const LEN: usize = size_of::<libc::cmsghdr>() + align_of::<usize>();

/// A control message that gives its packet a priority, alone.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct PriorityMessage([u8; LEN]);

impl PriorityMessage {
    pub(crate) fn new(priority: u32) -> PriorityMessage {
        let mut control = Control::EMPTY;
        let mut writer = Writer::new(&mut control);
        writer.priority(priority);
        debug_assert_eq!(writer.len(), LEN);
        let mut message = PriorityMessage([0; LEN]);
        message.0.iter_mut().zip(control.octets).for_each(|(to, from)| *to = from);
        message
    }

    /// The address and the length that a message header names. The kernel only reads there.
    pub(crate) fn control(&self) -> (*mut libc::c_void, usize) {
        (self.0.as_ptr().cast_mut().cast(), LEN)
    }
}

/// Whether the kernel takes a priority beside each message. Nothing is sent to find out: the message is for the broadcast
/// address, which a socket may not send to unless it asked for that, and the kernel reads control messages before it
/// looks at the address. Where there is no socket to ask with, the answer is no.
pub fn takes_priorities() -> bool {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::DGRAM.cloexec(), Some(Protocol::UDP)) else {
        return false;
    };
    let to = SockAddr::from(SocketAddr::from((Ipv4Addr::BROADCAST, 9)));
    let mut control = Control::EMPTY;
    let mut writer = Writer::new(&mut control);
    writer.priority(0);
    let len = writer.len();
    is_taken(&transmit(&socket, &to, &[], &mut control, len))
}

/// Whether the kernel understood the control message, by its answer.
fn is_taken(answer: &io::Result<usize>) -> bool {
    !answer.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_before_6_14_is_known_by_its_refusal() {
        let answer = |errno| Err(io::Error::from_raw_os_error(errno));
        assert!(!is_taken(&answer(libc::EINVAL)));
        // The broadcast address is not for this socket; there is no route; a program of a control group refuses.
        assert!([libc::EACCES, libc::ENETUNREACH, libc::EPERM].map(answer).iter().all(is_taken));
    }

    #[test]
    fn the_kernel_here_is_asked_and_sends_nothing() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        assert_eq!(takes_priorities(), version >= (6, 14), "{release}");
    }
}
