//! One frame for all protocols: what of an inner packet is enclosed, what stays in front, and the outer headers around
//! it.
//!
//! ```text
//! transport  | own headers kept |     | protocol's header | rest of the packet         | protocol's trailer |
//! tunnel     | new IP header    | UDP | protocol's header | whole packet               | protocol's trailer |
//! BEET       | new IP header    | UDP | protocol's header | pseudo header, rest of it  | protocol's trailer |
//! ```

use crate::inner::Inner;
use crate::{beet, headers, lengths, transport, tunnel, udp_encap};
use sadb::sa::Encapsulation;
use sadb::{Mode, OutboundSa, SaConfig};
use std::net::IpAddr;
use wire::ipv4::{self, Ipv4, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::stage::Scheduled;
use wire::{DropReason, Packet, addr, protocol};

/// The most that one IPv4 packet, or one IPv6 payload, can hold.
const LONGEST: usize = u16::MAX as usize;

/// Read a whole inner packet, which must fill its buffer exactly.
#[inline]
pub(crate) fn read(config: &SaConfig, bytes: &mut [u8]) -> Result<Inner, DropReason> {
    match config.mode {
        Mode::Tunnel => tunnel::read(bytes),
        Mode::Transport => {
            let udp = config.options.encapsulation == Encapsulation::Udp;
            transport::read(bytes, &config.endpoints, udp && config.options.protocol.is_keyed())
        }
        Mode::Beet => beet::read(bytes, &config.selectors, config.endpoints.remote.is_ipv4()),
    }
}

/// Octets of the outer IP header with what stays behind it in transport mode.
pub(crate) struct Layout {
    /// Octets of the UDP header, or zero.
    pub ip: usize,
    /// The UDP header, or nothing.
    pub udp: usize,
    /// Octets of the protocol's header, IV included.
    pub head: usize,
    /// Octets of the inner packet that are enclosed.
    pub body: usize,
    /// Octets that the protocol puts behind what is enclosed.
    pub tail: usize,
    /// Octets of the inner packet in front of what is enclosed; they are not enclosed.
    gone: usize,
}

impl Layout {
    /// The lengths for a packet of `len` octets. `tail` gets them without its own, and returns the octets behind what
    /// is enclosed.
    #[inline]
    pub fn new(
        config: &SaConfig,
        inner: &Inner,
        len: usize,
        head: usize,
        tail: impl FnOnce(&Layout) -> usize,
    ) -> Result<Layout, DropReason> {
        let ip = if inner.kept > 0 { inner.kept } else { lengths::outer_header(config) };
        let body = len - inner.body;
        let mut layout =
            Layout { ip, udp: lengths::udp_header(config), head, body, tail: 0, gone: inner.body };
        layout.tail = tail(&layout);
        let total = layout.total();
        let limit = if config.endpoints.remote.is_ipv4() { LONGEST } else { LONGEST + ipv6::HEADER_LEN };
        if total > limit { Err(DropReason::TooLong) } else { Ok(layout) }
    }

    /// Octets of the outer packet.
    pub fn total(&self) -> usize {
        self.ip + self.payload()
    }

    /// Everything behind the outer IP header.
    pub fn payload(&self) -> usize {
        self.udp + self.head + self.body + self.tail
    }

    /// Whether the buffer has room in front and behind.
    #[inline]
    pub fn check_room(&self, packet: &Packet<Scheduled>) -> Result<(), DropReason> {
        let front = (self.ip + self.udp + self.head).saturating_sub(self.gone);
        if packet.buf().headroom() < front || packet.buf().tailroom() < self.tail {
            return Err(DropReason::NoRoom);
        }
        Ok(())
    }

    /// Make room in front and put the outer IP and UDP headers there. What is behind them is the caller's to write.
    #[inline]
    pub fn open_front(
        &self,
        sa: &OutboundSa,
        packet: &mut Packet<Scheduled>,
        inner: &Inner,
        number: u8,
    ) -> Result<(), DropReason> {
        let config = sa.config();
        let front = self.ip + self.udp + self.head;
        let buf = packet.buf_mut();
        match front.checked_sub(self.gone) {
            Some(more) => {
                buf.push_front(more).ok_or(DropReason::NoRoom)?;
            }
            // Only in BEET mode is the header that goes longer than all that come.
            None => {
                if !buf.trim_front(self.gone - front) {
                    return Err(DropReason::NoRoom);
                }
            }
        }
        if inner.kept > 0 {
            let from = front - self.gone;
            packet.bytes_mut().copy_within(from..from + inner.kept, 0);
        }
        let number = if self.udp > 0 { protocol::UDP } else { number };
        self.write_ip(sa, packet, inner, number)?;
        if self.udp > 0 {
            let (_, datagram) = packet.bytes_mut().split_at_mut_checked(self.ip).ok_or(DropReason::NoRoom)?;
            udp_encap::write(datagram, &config.endpoints, self.payload())?;
        }
        Ok(())
    }

    /// The outer IP header: a new one, or the packet's own.
    fn write_ip(
        &self,
        sa: &OutboundSa,
        packet: &mut Packet<Scheduled>,
        inner: &Inner,
        number: u8,
    ) -> Result<(), DropReason> {
        let config = sa.config();
        let payload_len = self.payload();
        let policy = &config.options.headers;
        if inner.kept > 0 {
            // The packet's own header, its flags and identification included.
            packet.meta.may_fragment |= !inner.df;
            let bytes = packet.bytes_mut();
            wire::ip::set_protocol(bytes, inner.named_at, number);
            if config.endpoints.remote.is_ipv4() {
                let mut ip = Ipv4::new_checked(bytes)?;
                ip.set_total_len((self.ip + payload_len) as u16);
                ip.fill_checksum();
            } else {
                ipv6::put_payload_len(bytes.get_mut(..self.total()).ok_or(DropReason::NoRoom)?)?;
            }
            packet.meta.tos = inner.tos;
            return Ok(());
        }
        // IPv6 has no such flag: there only what the inner packet says counts.
        let may_fragment = packet.meta.may_fragment;
        let df = match config.endpoints.remote.is_ipv4() {
            true => headers::outer_df(policy, inner.df, may_fragment),
            false => !may_fragment && headers::outer_df(policy, inner.df, may_fragment),
        };
        // The socket that sends it must allow what its header allows.
        packet.meta.may_fragment = !df;
        let tos = headers::outer_tos(policy, inner.tos);
        packet.meta.tos = tos;
        // BEET replaces addresses; the packet's lifetime goes on (draft-nikander-esp-beet-mode section 5.2).
        let ttl = if config.mode == Mode::Beet { inner.ttl } else { headers::outer_ttl(policy, inner.ttl) };
        let id = match config.mode {
            // What the inner packet has travels on. One of IPv6 has none, and its pieces need one to meet.
            Mode::Beet if df || addr::from_bits(config.selectors.local.first()).is_ipv4() => {
                inner.label as u16
            }
            Mode::Beet => sa.next_identification(),
            // An atomic datagram needs no identification (RFC 6864 section 4.1).
            Mode::Tunnel | Mode::Transport => {
                if df {
                    0
                } else {
                    sa.next_identification()
                }
            }
        };
        let bytes = packet.bytes_mut();
        match (config.endpoints.local, config.endpoints.remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                ipv4::emit(bytes, &Ipv4Repr { src, dst, protocol: number, ttl, tos, id, df, payload_len })?
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::emit(
                bytes,
                &Ipv6Repr {
                    src,
                    dst,
                    next_header: number,
                    hop_limit: ttl,
                    traffic_class: tos,
                    // Of a tunnel none: a copied one would tell flows apart and collide at a gateway (RFC 4301 section
                    // 5.1.2.2 note 8).
                    flow_label: if config.mode == Mode::Beet { inner.label } else { 0 },
                    payload_len,
                },
            )?,
            // The configuration was checked: both ends are of one family.
            _ => return Err(DropReason::BadHeader),
        }
        Ok(())
    }
}

/// An outer packet that must not be fragmented by its policy, though its inner one may, has nowhere to go if it does
/// not fit. One of IPv6 that may be fragmented here is one that every link has to carry: see [`headers::outer_df`].
#[inline]
pub(crate) fn check_df(
    config: &SaConfig,
    packet: &Packet<Scheduled>,
    layout: &Layout,
    limit: usize,
) -> Result<(), DropReason> {
    let set = config.forbids_fragments() && wire::ip::version(packet.bytes()) != Some(6);
    if set && packet.meta.may_fragment && layout.total() > limit { Err(DropReason::TooBig) } else { Ok(()) }
}
