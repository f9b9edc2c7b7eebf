//! From bursts and packets to frames.

use super::{FrameDevice, VNET_LEN, open_frames};
use crate::error::{Result, check_len};
use crate::link::Links;
use crate::sockopt;
use crate::udp::{SendResult, patiently};
use crate::xdp::XdpSender;
use socket2::Socket;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;
use wire::ip::Headers;
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::udp::{self, Udp, UdpRepr};
use wire::{Burst, DropReason, OuterHeader, Packet, Time, checksum, eth, protocol, stage};

pub(super) const PACKET_QDISC_BYPASS: libc::c_int = 20;
const NEEDS_CSUM: u8 = 1;
const GSO_UDP: u8 = 5;
/// The time for which the kernel's answer about a next hop is believed.
const BELIEVED: Duration = Duration::from_secs(5);
/// The time after which the kernel is asked again about a next hop that it did not know.
const IMPATIENCE: Duration = Duration::from_millis(100);
/// The usual time to live, where it is left to the host.
const TTL: u8 = 64;
/// Vnet, Ethernet, IPv6 and UDP header.
const LONGEST: usize = VNET_LEN + eth::HEADER_LEN + ipv6::HEADER_LEN + udp::HEADER_LEN;

/// The reason why a packet does not leave as a frame, so that it has to leave by a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The kernel does not know (yet) which station the next hop is, or it is on a device that is not ours.
    NoNeighbour,
    /// The packet may have to be cut into IP fragments.
    ToFragment,
}

#[derive(Clone, Copy, Debug)]
struct NextHop {
    /// The index of the port, and the link-layer address of the next hop; `None` if the kernel knows none.
    to: Option<(usize, [u8; 6])>,
    until: Time,
}

#[derive(Debug)]
struct Port {
    device: FrameDevice,
    wire: Wire,
}

#[derive(Debug)]
enum Wire {
    Packet(Socket),
    Xdp(Box<XdpSender>),
}

/// Sends outer packets as frames.
#[derive(Debug)]
pub struct FrameSender {
    ports: Vec<Port>,
    next_hops: HashMap<IpAddr, NextHop>,
    links: Links,
    /// Peers to which there is no way, and what there is to say about them.
    lost: HashSet<IpAddr>,
    news: Option<String>,
}

/// Peers whose next hops are remembered: as many as associations may have.
const WAYS: usize = 131_072;

/// Room for one more: without those that are not believed any longer, and if these are few, without every second one, so that
/// the kernel is not asked about all of them at once.
fn make_room(next_hops: &mut HashMap<IpAddr, NextHop>, now: Time, most: usize) {
    if next_hops.len() < most {
        return;
    }
    next_hops.retain(|_, next_hop| now < next_hop.until);
    if next_hops.len() > most / 2 {
        let mut stays = false;
        next_hops.retain(|_, _| {
            stays = !stays;
            stays
        });
    }
}

impl FrameSender {
    /// Open a socket on each device (CAP_NET_RAW).
    ///
    /// # Errors
    /// If the kernel does not let us.
    pub fn open(devices: Vec<FrameDevice>) -> Result<FrameSender> {
        let port = |device: FrameDevice| {
            let socket = open_frames(&device, 0, |socket| {
                sockopt::set_int(socket, libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1)
            })?;
            Ok(Port { device, wire: Wire::Packet(socket) })
        };
        FrameSender::new(devices.into_iter().map(port).collect::<Result<_>>()?)
    }

    /// Send over AF_XDP sockets.
    ///
    /// # Errors
    /// If the kernel does not answer questions.
    pub fn over(sockets: Vec<(FrameDevice, XdpSender)>) -> Result<FrameSender> {
        let port = |(device, xdp)| Port { device, wire: Wire::Xdp(Box::new(xdp)) };
        FrameSender::new(sockets.into_iter().map(port).collect())
    }

    fn new(ports: Vec<Port>) -> Result<FrameSender> {
        Ok(FrameSender {
            ports,
            next_hops: HashMap::new(),
            links: Links::open()?,
            lost: HashSet::new(),
            news: None,
        })
    }

    /// A message about the next hops since the last call: one that was lost, or found again.
    #[inline]
    pub fn take_news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// Send a burst as one frame, which device or kernel cuts into its datagrams.
    ///
    /// # Errors
    /// [`Unsent`]: nothing of it was sent.
    pub fn send_burst(
        &mut self,
        now: Time,
        burst: &Burst<stage::Outer>,
    ) -> std::result::Result<SendResult, Unsent> {
        let header = &burst.header;
        if header.may_fragment {
            return Err(Unsent::ToFragment);
        }
        let (port, station) = self.next_hop(now, header.dst)?;
        if let Some(Port { device, wire: Wire::Xdp(xdp) }) = self.ports.get_mut(port) {
            return Ok(send_each(xdp, device, station, burst));
        }
        let stride = if burst.count() > 1 { burst.stride() } else { 0 };
        let mut head = [0; LONGEST];
        let len = match write_head(&mut head, header, burst.bytes().len(), stride) {
            Ok(len) => len,
            Err(reason) => return Ok(SendResult { dropped: Some(reason), ..SendResult::default() }),
        };
        let sent =
            self.transmit(port, station, header.dst, head.get_mut(..len).unwrap_or_default(), burst.bytes());
        Ok(match sent {
            Ok(()) => SendResult { datagrams: burst.count(), dropped: None, whole: true },
            Err(reason) => SendResult { dropped: Some(reason), ..SendResult::default() },
        })
    }

    /// Send a whole outer packet.
    ///
    /// # Errors
    /// [`Unsent`], or inside it why the kernel did not take it.
    pub fn send(
        &mut self,
        now: Time,
        packet: &Packet<stage::Outer>,
    ) -> std::result::Result<std::result::Result<(), DropReason>, Unsent> {
        if packet.meta.may_fragment {
            return Err(Unsent::ToFragment);
        }
        let dst = match Headers::parse(packet.bytes()) {
            Ok(headers) => headers.dst,
            Err(error) => return Ok(Err(error.into())),
        };
        let (port, station) = self.next_hop(now, dst)?;
        let mut head = [0; VNET_LEN + eth::HEADER_LEN];
        Ok(self.transmit(port, station, dst, &mut head, packet.bytes()))
    }

    fn next_hop(&mut self, now: Time, dst: IpAddr) -> std::result::Result<(usize, [u8; 6]), Unsent> {
        let known = self.next_hops.get(&dst).filter(|next_hop| now < next_hop.until).copied();
        known.unwrap_or_else(|| self.find(now, dst)).to.ok_or(Unsent::NoNeighbour)
    }

    /// Ask the kernel for the next hop. The question also tells the kernel that the neighbour is in use, since frames
    /// sent here do not.
    #[cold]
    fn find(&mut self, now: Time, dst: IpAddr) -> NextHop {
        let to = self.ask(dst);
        match &to {
            Ok(_) if self.lost.remove(&dst) => self.news = Some(format!("frames to {dst} leave")),
            Err(why) if self.lost.insert(dst) => {
                let meanwhile = "its packets leave by the kernel's sockets until then";
                self.news = Some(format!("no frames to {dst}: {why}; {meanwhile}"));
            }
            _ => {}
        }
        let until = now + if to.is_ok() { BELIEVED } else { IMPATIENCE };
        let next_hop = NextHop { to: to.ok(), until };
        make_room(&mut self.next_hops, now, WAYS);
        if self.lost.len() > WAYS {
            self.lost.retain(|peer| self.next_hops.contains_key(peer));
        }
        self.next_hops.insert(dst, next_hop);
        next_hop
    }

    fn ask(&mut self, dst: IpAddr) -> std::result::Result<(usize, [u8; 6]), String> {
        let route = self.links.route_to(dst).map_err(|error| error.to_string())?;
        let port = self.ports.iter().position(|port| port.device.index == route.index);
        let port = port.ok_or_else(|| "its route is by another device than the uplinks".to_owned())?;
        let hop = route.gateway.unwrap_or(dst);
        let _ = self.links.use_neighbour(route.index, hop);
        let station = self.links.neighbour(route.index, hop).map_err(|error| error.to_string())?;
        let name = self.ports.get(port).map_or("", |port| &port.device.name);
        Ok((port, station.ok_or_else(|| format!("no station on {name} answers for {hop} yet"))?))
    }

    fn transmit(
        &mut self,
        port: usize,
        station: [u8; 6],
        dst: IpAddr,
        head: &mut [u8],
        body: &[u8],
    ) -> std::result::Result<(), DropReason> {
        let Some(Port { device, wire }) = self.ports.get_mut(port) else {
            return Err(DropReason::Unroutable);
        };
        let ethertype = ethertype_of(dst);
        let socket = match wire {
            Wire::Packet(socket) => socket,
            Wire::Xdp(xdp) => {
                let (head, from) = (eth::HEADER_LEN, device.station);
                xdp.send(head + body.len(), |frame| {
                    let (ethernet, rest) = frame.split_at_mut(head.min(frame.len()));
                    write_ethernet(ethernet, station, from, ethertype);
                    rest.iter_mut().zip(body).for_each(|(to, from)| *to = *from);
                })?;
                return xdp.kick();
            }
        };
        let frame = head.get_mut(VNET_LEN..VNET_LEN + eth::HEADER_LEN).ok_or(DropReason::NoRoom)?;
        write_ethernet(frame, station, device.station, ethertype);
        patiently(socket, || send(socket, head, body))
    }
}

fn ethertype_of(dst: IpAddr) -> u16 {
    if dst.is_ipv4() { eth::IPV4 } else { eth::IPV6 }
}

/// Each datagram of a burst as a frame of its own, with a UDP checksum.
fn send_each(
    xdp: &mut XdpSender,
    device: &FrameDevice,
    station: [u8; 6],
    burst: &Burst<stage::Outer>,
) -> SendResult {
    let header = &burst.header;
    let mut sent = SendResult::default();
    let mut head = [0; LONGEST];
    for datagram in burst.datagrams() {
        let written = write_head(&mut head, header, datagram.len(), 0).and_then(|len| {
            let ip = head.get(VNET_LEN + eth::HEADER_LEN..len).unwrap_or_default();
            xdp.send(eth::HEADER_LEN + ip.len() + datagram.len(), |frame| {
                let (ethernet, rest) = frame.split_at_mut(eth::HEADER_LEN.min(frame.len()));
                write_ethernet(ethernet, station, device.station, ethertype_of(header.dst));
                let (packet, payload) = rest.split_at_mut(ip.len().min(rest.len()));
                if packet.len() == ip.len() && payload.len() == datagram.len() {
                    packet.copy_from_slice(ip);
                    payload.copy_from_slice(datagram);
                }
                if let Ok(mut udp) = Udp::new_checked(&mut rest[header.len() - udp::HEADER_LEN..]) {
                    udp.fill_checksum(header.src, header.dst);
                }
            })
        });
        match written {
            Ok(()) => sent.datagrams += 1,
            Err(reason) => {
                sent.dropped = Some(reason);
                break;
            }
        }
    }
    if let Err(reason) = xdp.kick() {
        sent.dropped = Some(reason);
    }
    sent
}

/// An Ethernet header without tags (IEEE 802.3) at `frame`, which has room for it.
fn write_ethernet(frame: &mut [u8], to: [u8; 6], from: [u8; 6], ethertype: u16) {
    let octets = to.into_iter().chain(from).chain(ethertype.to_be_bytes());
    frame.iter_mut().zip(octets).for_each(|(octet, value)| *octet = value);
}

/// Vnet, (room for) Ethernet, IP and UDP header in front of `len` octets of datagrams of `stride` octets each; zero: one. How
/// many octets. The UDP checksum is that of the pseudo-header, for the device or kernel to finish.
fn write_head(
    head: &mut [u8; LONGEST],
    header: &OuterHeader,
    len: usize,
    stride: usize,
) -> std::result::Result<usize, DropReason> {
    let ip_len = header.len() - udp::HEADER_LEN;
    let udp_at = VNET_LEN + eth::HEADER_LEN + ip_len;
    let payload_len = udp::HEADER_LEN + len;
    let [c0, c1] = ((udp_at - VNET_LEN) as u16).to_ne_bytes();
    let [h0, h1] = ((udp_at - VNET_LEN + udp::HEADER_LEN) as u16).to_ne_bytes();
    let [s0, s1] = u16::try_from(stride).map_err(|_| DropReason::TooLong)?.to_ne_bytes();
    let [o0, o1] = 6_u16.to_ne_bytes();
    let kind = if stride == 0 { 0 } else { GSO_UDP };
    let vnet = head.get_mut(..VNET_LEN).ok_or(DropReason::NoRoom)?;
    vnet.copy_from_slice(&[NEEDS_CSUM, kind, h0, h1, s0, s1, c0, c1, o0, o1]);
    let ttl = if header.ttl == 0 { TTL } else { header.ttl };
    let ip = head.get_mut(VNET_LEN + eth::HEADER_LEN..udp_at).ok_or(DropReason::NoRoom)?;
    match (header.src, header.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::emit(
            ip,
            &Ipv4Repr {
                src,
                dst,
                protocol: protocol::UDP,
                ttl,
                tos: header.tos,
                id: 0,
                df: true,
                payload_len,
            },
        )?,
        (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::emit(
            ip,
            &Ipv6Repr {
                src,
                dst,
                next_header: protocol::UDP,
                hop_limit: ttl,
                traffic_class: header.tos,
                flow_label: 0,
                payload_len,
            },
        )?,
        _ => return Err(DropReason::BadHeader),
    }
    let datagram = head.get_mut(udp_at..udp_at + udp::HEADER_LEN).ok_or(DropReason::NoRoom)?;
    udp::emit(datagram, &UdpRepr { src_port: header.src_port, dst_port: header.dst_port, payload_len: len })?;
    let sum = checksum::fold(checksum::pseudo(header.src, header.dst, protocol::UDP, payload_len));
    datagram.get_mut(6..8).ok_or(DropReason::NoRoom)?.copy_from_slice(&sum.to_be_bytes());
    Ok(udp_at + udp::HEADER_LEN)
}

fn send(socket: &Socket, head: &[u8], body: &[u8]) -> io::Result<usize> {
    let part =
        |octets: &[u8]| libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
    let mut parts = [part(head), part(body)];
    // SAFETY: msghdr is plain old data; all zeroes is a valid value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    // SAFETY: both parts are live for the call with the lengths given; sendmsg only reads them.
    check_len(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_forgets_what_is_old_and_at_most_half_of_the_rest() {
        let addr = |n: u32| IpAddr::V4(n.into());
        let next_hop = |until| NextHop { to: None, until: Time(until) };
        let mut next_hops: HashMap<_, _> =
            (0..8).map(|n| (addr(n), next_hop(if n < 5 { 10 } else { 20 }))).collect();
        make_room(&mut next_hops, Time(15), 9);
        assert_eq!(next_hops.len(), 8, "there is room");
        make_room(&mut next_hops, Time(15), 8);
        assert_eq!(next_hops.len(), 3, "five are old");
        next_hops.extend((10..15).map(|n| (addr(n), next_hop(20))));
        make_room(&mut next_hops, Time(15), 8);
        assert_eq!(next_hops.len(), 4);
    }
}
