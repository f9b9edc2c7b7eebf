//! Control messages beside a datagram (cmsg(3)): addresses, type of service, time to live. Written and read as plain octets
//! with checked lengths; only the layout of `cmsghdr` is the C library's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The octets that every control message of one datagram or burst needs: packet information of IPv6 takes 40, and
/// class, hop limit, losses, priority and segment size take 24 each.
pub(super) const ROOM: usize = 192;

/// The control message with IPv6 flow information: `IPV6_FLOWINFO` of linux/in6.h.
pub(crate) const IPV6_FLOWINFO: libc::c_int = 11;

const ALIGN: usize = align_of::<usize>();
const HEADER: usize = size_of::<libc::cmsghdr>().next_multiple_of(ALIGN);

/// A buffer for control messages, aligned as the kernel wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control {
    pub(super) octets: [u8; ROOM],
}

impl Control {
    pub(super) const EMPTY: Control = Control { octets: [0; ROOM] };
}

/// The information that control messages give about one datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DatagramInfo {
    /// The address that the datagram was sent to.
    pub(super) dst: Option<IpAddr>,
    /// The type of service or the traffic class of the datagram.
    pub(super) tos: u8,
    /// The time to live or the hop limit on arrival.
    pub(super) ttl: Option<u8>,
    /// The number of datagrams for which the socket's queue had no room, since the socket was made.
    pub(super) lost: Option<u32>,
    /// The IPv6 flow label, where the socket asks for it.
    pub(super) flow_label: u32,
    /// The octets of each datagram except the last, if several were joined (UDP_GRO).
    pub(super) stride: Option<usize>,
    /// The VLAN tag that the kernel took out of a frame: its type and its content, in network order.
    pub(super) tag: Option<[u8; 4]>,
}

/// Read the control messages of one datagram. Unknown messages are skipped.
pub(super) fn parse(octets: &[u8]) -> DatagramInfo {
    let mut out = DatagramInfo::default();
    let mut rest = octets;
    while let Some((level, kind, data, behind)) = next(rest) {
        match (level, kind) {
            // struct in_pktinfo: index, the local address used, the address in the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let addr: Option<[u8; 4]> = data.get(8..).and_then(|d| d.first_chunk().copied());
                out.dst = addr.map(|a| IpAddr::V4(Ipv4Addr::from(a)));
            }
            // struct in6_pktinfo: the address in the header, index.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let addr: Option<[u8; 16]> = data.first_chunk().copied();
                out.dst = addr.map(|a| IpAddr::V6(Ipv6Addr::from(a)));
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => out.tos = data.first().copied().unwrap_or(0),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => out.tos = int(data).unwrap_or(0),
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                out.ttl = int(data)
            }
            // Traffic class and flow label, in network order.
            (libc::IPPROTO_IPV6, IPV6_FLOWINFO) => {
                let info = data.first_chunk().map(|n| u32::from_be_bytes(*n));
                out.flow_label = info.unwrap_or(0) & 0xf_ffff;
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                out.lost = data.first_chunk().map(|n| u32::from_ne_bytes(*n));
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let stride = data.first_chunk().map(|n| libc::c_int::from_ne_bytes(*n));
                out.stride = stride.and_then(|n| usize::try_from(n).ok());
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => out.tag = tag(data),
            _ => {}
        }
        rest = behind;
    }
    out
}

/// The VLAN tag in a `struct tpacket_auxdata` (packet(7)): status, three lengths and offsets, then the content of the
/// tag and its type.
fn tag(data: &[u8]) -> Option<[u8; 4]> {
    const VALID: u32 = libc::TP_STATUS_VLAN_VALID;
    let [s0, s1, s2, s3, .., c0, c1, t0, t1] = *data.first_chunk::<20>()?;
    let half = |one, other| u16::from_ne_bytes([one, other]).to_be_bytes();
    let (status, [c0, c1], [t0, t1]) = (u32::from_ne_bytes([s0, s1, s2, s3]), half(c0, c1), half(t0, t1));
    (status & VALID != 0).then_some([t0, t1, c0, c1])
}

/// The low octet of an int.
fn int(data: &[u8]) -> Option<u8> {
    data.first_chunk().map(|n| libc::c_int::from_ne_bytes(*n) as u8)
}

/// The level, type and data of the first message, and the octets behind it.
fn next(octets: &[u8]) -> Option<(libc::c_int, libc::c_int, &[u8], &[u8])> {
    let len = usize::from_ne_bytes(*octets.first_chunk()?);
    let level = libc::c_int::from_ne_bytes(*octets.get(size_of::<usize>()..)?.first_chunk()?);
    let kind = libc::c_int::from_ne_bytes(*octets.get(size_of::<usize>() + 4..)?.first_chunk()?);
    let data = octets.get(HEADER..len)?;
    let behind = octets.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
    Some((level, kind, data, behind))
}

/// A writer that puts control messages one behind the other.
pub(super) struct Writer<'a> {
    control: &'a mut Control,
    len: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(control: &'a mut Control) -> Writer<'a> {
        Writer { control, len: 0 }
    }

    /// The octets of control messages that were written so far.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Write the message that has the datagram leave from this address.
    pub(super) fn source(&mut self, addr: IpAddr) {
        match addr {
            IpAddr::V4(v4) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&v4.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            IpAddr::V6(v6) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&v6.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    /// Write the messages that set type of service (or traffic class) and time to live (or hop limit). A time to live
    /// of zero leaves it to the host.
    pub(super) fn service(&mut self, ipv6: bool, tos: u8, ttl: u8) {
        let (level, tos_kind, ttl_kind) = match ipv6 {
            false => (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL),
            true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT),
        };
        self.push(level, tos_kind, &libc::c_int::from(tos).to_ne_bytes());
        if ttl != 0 {
            self.push(level, ttl_kind, &libc::c_int::from(ttl).to_ne_bytes());
        }
    }

    /// Write the message that gives the datagram this mark, which needs CAP_NET_RAW.
    pub(super) fn mark(&mut self, mark: u32) {
        self.push(libc::SOL_SOCKET, libc::SO_MARK, &mark.to_ne_bytes());
    }

    /// Write the message that gives the datagram this priority among the queueing disciplines of its device. It stands
    /// behind the type of service, of which the kernel makes a priority too: the last message counts.
    pub(super) fn priority(&mut self, priority: u32) {
        self.push(libc::SOL_SOCKET, libc::SO_PRIORITY, &priority.to_ne_bytes());
    }

    /// Write the message that has the kernel cut the payload into datagrams of `stride` octets (UDP_SEGMENT).
    pub(super) fn segment(&mut self, stride: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &stride.to_ne_bytes());
    }

    fn push(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        let len = HEADER + data.len();
        let end = self.len + len.next_multiple_of(ALIGN);
        let Some(room) = self.control.octets.get_mut(self.len..end) else {
            debug_assert!(false, "ROOM holds every message that is written");
            return;
        };
        room.fill(0);
        room[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
        room[size_of::<usize>()..][..4].copy_from_slice(&level.to_ne_bytes());
        room[size_of::<usize>() + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
        room[HEADER..len].copy_from_slice(data);
        self.len = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_is_that_of_the_c_library() {
        // SAFETY: CMSG_LEN and CMSG_SPACE only compute.
        let (len, space) = unsafe { (libc::CMSG_LEN(12) as usize, libc::CMSG_SPACE(12) as usize) };
        assert_eq!((len, space), (HEADER + 12, (HEADER + 12).next_multiple_of(ALIGN)));
        assert_eq!(size_of::<libc::in_pktinfo>(), 12);
        assert_eq!(size_of::<libc::in6_pktinfo>(), 20);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut control = Control::EMPTY;
        let mut writer = Writer::new(&mut control);
        let addr: Ipv6Addr = "2001:db8::7".parse().unwrap();
        writer.source(IpAddr::V6(addr));
        writer.service(true, 0xb8, 63);
        let len = writer.len();
        let info =
            DatagramInfo { dst: Some(IpAddr::V6(addr)), tos: 0xb8, ttl: Some(63), ..DatagramInfo::default() };
        assert_eq!(parse(&control.octets[..len]), info);
        assert_eq!(parse(&control.octets[..len]).stride, None);
        // A cut message is not read.
        assert_eq!(parse(&control.octets[..30]), DatagramInfo::default());
    }

    proptest! {
        #[test]
        fn any_octets_are_survived(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&octets);
        }
    }
}
