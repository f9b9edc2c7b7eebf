//! Network devices, addresses and routes over route netlink (RFC 3549; rtnetlink(7)), synchronously: [`Links`] works in
//! the network namespace of the thread that opened it, wherever it is used afterwards.
//!
//! What enters: device indices and settings. What leaves: changes of the kernel's tables, lists of them, and events.

mod make;
mod neighbour;
mod offload;
mod request;
mod route;
mod watch;

pub use make::End;
pub(crate) use offload::interface_request;
pub use offload::{Offload, receive_queues, set_offload};
pub use route::{DefaultRoute, Route};
pub use watch::{Event, Watch};

use crate::error::{Error, IoContext, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, Nla};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoTun, LinkAttribute, LinkFlags, LinkHeader,
    LinkInfo, LinkMessage, LinkXdp,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use request::Conversation;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A network device as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The device's number in its namespace.
    pub index: u32,
    /// The name of the device.
    pub name: String,
    /// Whether an administrator set the device up.
    pub up: bool,
    /// Whether the device has a carrier, so that packets can leave.
    pub running: bool,
    /// Whether this is the loopback device.
    pub loopback: bool,
    /// Set the largest IP packet of a device, in octets.
    pub mtu: u32,
    /// Packets its queue holds.
    pub queue_len: u32,
    /// Index of the bridge or bond that it belongs to.
    pub master: Option<u32>,
    /// The kernel's name of the driver ("veth", "tun", "bridge"); `None` for hardware and loopback.
    pub kind: Option<String>,
    /// The link-layer address of the device.
    pub address: Vec<u8>,
    /// The number of the XDP program that is attached, if one is.
    pub xdp: Option<u32>,
    /// Takes part in groups.
    pub multicast: bool,
    /// The owner of a TUN or TAP, who may attach to it; `None` for other devices.
    pub tun_owner: Option<TunOwner>,
}

/// The user and the group that may attach to a TUN, beside processes with CAP_NET_ADMIN. If neither is set, everybody
/// may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunOwner {
    /// The only user who may attach, by number.
    pub user: Option<u32>,
    /// The only group that may attach, by number.
    pub group: Option<u32>,
    /// Whether several descriptors may hold the device at once: settled when the device was made.
    pub several_queues: bool,
    /// The number of queues that descriptors hold, detached ones included. The kernel tells it of a device of several
    /// queues only; 0 for others.
    pub held: u32,
}

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The index of the device that has the address.
    pub index: u32,
    /// The IP address itself, without its prefix length.
    pub addr: IpAddr,
    /// Length of the subnet's prefix, in bits.
    pub prefix_len: u8,
    /// Whether the address is valid on this link only.
    pub link_scope: bool,
}

/// The scope in which an address is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The address is valid everywhere.
    Universe,
    /// The address is valid on the link only, and never chosen as a source for other destinations.
    Link,
}

/// The devices of one network namespace.
#[derive(Debug)]
pub struct Links {
    conversation: Conversation,
}

impl Links {
    /// Talk to the kernel about the calling thread's network namespace.
    pub fn open() -> Result<Links> {
        let conversation = Conversation::open().doing(|| "opening a route netlink socket".into())?;
        Ok(Links { conversation })
    }

    /// Every device, by index.
    pub fn list(&mut self) -> Result<Vec<Link>> {
        let mut out = Vec::new();
        self.conversation
            .dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |answer| {
                if let RouteNetlinkMessage::NewLink(message) = answer {
                    out.push(Link::from(message));
                }
            })
            .doing(|| "listing the network devices".into())?;
        out.sort_by_key(|link| link.index);
        Ok(out)
    }

    /// The device called `name`.
    pub fn find(&mut self, name: &str) -> Result<Link> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let mut found = None;
        self.conversation
            .look_up(RouteNetlinkMessage::GetLink(message), |answer| {
                if let RouteNetlinkMessage::NewLink(message) = answer {
                    found = Some(Link::from(message));
                }
            })
            .doing(|| format!("looking for the device {name}"))?;
        found.ok_or_else(|| Error::unfit(format!("there is no device {name}"), "see `ip link`"))
    }

    /// The device of this index.
    pub fn link(&mut self, index: u32) -> Result<Link> {
        let mut found = None;
        self.conversation
            .look_up(RouteNetlinkMessage::GetLink(of(index)), |answer| {
                if let RouteNetlinkMessage::NewLink(message) = answer {
                    found = Some(Link::from(message));
                }
            })
            .doing(|| format!("looking for the device {index}"))?;
        found.ok_or_else(|| Error::unfit(format!("there is no device {index}"), "see `ip link`"))
    }

    /// The index of the device called `name`.
    pub fn index(&mut self, name: &str) -> Result<u32> {
        self.find(name).map(|link| link.index)
    }

    /// Set a device up or down. With IPv4 and IPv6 the kernel drops the addresses' routes when it goes down.
    pub fn set_up(&mut self, index: u32, up: bool) -> Result<()> {
        let mut message = of(index);
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        message.header.change_mask = LinkFlags::Up;
        self.set(message, |word| format!("{word} {}", if up { "up" } else { "down" }))
    }

    /// Turn membership in multicast groups on a device on or off.
    pub fn set_multicast(&mut self, index: u32, on: bool) -> Result<()> {
        let mut message = of(index);
        message.header.flags = if on { LinkFlags::Multicast } else { LinkFlags::empty() };
        message.header.change_mask = LinkFlags::Multicast;
        self.set(message, |word| format!("{word} multicast {}", if on { "on" } else { "off" }))
    }

    /// Largest IP packet, in octets.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<()> {
        self.set(with(index, LinkAttribute::Mtu(mtu)), |word| format!("{word} MTU {mtu}"))
    }

    /// Set the number of packets that the device's queue holds (for a TUN: the ring between the kernel and its reader).
    pub fn set_queue_len(&mut self, index: u32, packets: u32) -> Result<()> {
        self.set(with(index, LinkAttribute::TxQueueLen(packets)), |word| {
            format!("{word} queue length {packets}")
        })
    }

    /// Turn off generated IPv6 addresses: the device sends no router solicitation, and no MLD report for such an
    /// address.
    pub fn set_no_generated_addresses(&mut self, index: u32) -> Result<()> {
        let inet6 = AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)]);
        let attribute = LinkAttribute::AfSpecUnspec(vec![inet6]);
        self.set(with(index, attribute), |word| format!("{word} addrgenmode none"))
    }

    /// Put a device under a bridge.
    pub fn set_master(&mut self, index: u32, bridge: u32) -> Result<()> {
        self.set(with(index, LinkAttribute::Controller(bridge)), |word| format!("{word} bridge {bridge}"))
    }

    /// Move a device to another network namespace. Its index may change, its addresses are gone.
    pub fn move_to(&mut self, index: u32, namespace: BorrowedFd<'_>) -> Result<()> {
        let attribute = LinkAttribute::NetNsFd(namespace.as_raw_fd());
        self.set(with(index, attribute), |word| format!("{word} its namespace"))
    }

    /// Give a device another name.
    pub fn rename(&mut self, index: u32, name: &str) -> Result<()> {
        let attribute = LinkAttribute::IfName(name.to_owned());
        self.set(with(index, attribute), |word| format!("{word} name {name}"))
    }

    /// Delete the device of this index.
    pub fn delete(&mut self, index: u32) -> Result<()> {
        self.conversation
            .change(RouteNetlinkMessage::DelLink(of(index)), 0)
            .doing(|| format!("deleting the device {index}"))
    }

    /// Give a device an address. Without duplicate detection for IPv6: it can be used at once. An address that is there
    /// already is fine.
    pub fn add_address(&mut self, index: u32, addr: IpAddr, prefix_len: u8, scope: Scope) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(addr);
        message.header.prefix_len = prefix_len;
        message.header.index = index;
        message.header.scope = match scope {
            Scope::Universe => AddressScope::Universe,
            Scope::Link => AddressScope::Link,
        };
        message.attributes = vec![AddressAttribute::Local(addr), AddressAttribute::Address(addr)];
        if addr.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        let answer =
            self.conversation.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL);
        match answer {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            answer => answer.doing(|| format!("giving device {index} the address {addr}/{prefix_len}")),
        }
    }

    /// Every address of every device.
    pub fn addresses(&mut self) -> Result<Vec<Address>> {
        let mut out = Vec::new();
        self.conversation
            .dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |answer| {
                if let RouteNetlinkMessage::NewAddress(message) = answer {
                    out.extend(address(&message));
                }
            })
            .doing(|| "listing the addresses".into())?;
        Ok(out)
    }

    fn set(&mut self, message: LinkMessage, what: impl FnOnce(&str) -> String) -> Result<()> {
        let index = message.header.index;
        self.conversation
            .change(RouteNetlinkMessage::SetLink(message), 0)
            .doing(|| what(&format!("setting device {index}:")))
    }
}

impl From<LinkMessage> for Link {
    fn from(message: LinkMessage) -> Link {
        let LinkHeader { index, flags, .. } = message.header;
        let mut link = Link {
            index,
            name: String::new(),
            up: flags.contains(LinkFlags::Up),
            running: flags.contains(LinkFlags::Running),
            loopback: flags.contains(LinkFlags::Loopback),
            mtu: 0,
            queue_len: 0,
            master: None,
            kind: None,
            address: Vec::new(),
            xdp: None,
            multicast: flags.contains(LinkFlags::Multicast),
            tun_owner: None,
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::TxQueueLen(len) => link.queue_len = len,
                LinkAttribute::Controller(index) => link.master = Some(index),
                LinkAttribute::Address(address) => link.address = address,
                LinkAttribute::Xdp(xdp) => {
                    link.xdp = xdp.iter().find_map(|about| match about {
                        LinkXdp::ProgId(number)
                        | LinkXdp::DrvProgId(number)
                        | LinkXdp::SkbProgId(number)
                        | LinkXdp::HwProgId(number) => Some(*number),
                        _ => None,
                    });
                }
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                    link.tun_owner = infos.iter().find_map(|info| match info {
                        LinkInfo::Data(InfoData::Tun(attributes)) => Some(tun_owner(attributes)),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        link
    }
}

/// IFLA_TUN_* of linux/if_link.h: an owner or group that is not set is left out.
fn tun_owner(attributes: &[InfoTun]) -> TunOwner {
    const OWNER: u16 = 1;
    const GROUP: u16 = 2;
    const MULTI_QUEUE: u16 = 7;
    const QUEUES: u16 = 8;
    const DETACHED_QUEUES: u16 = 9;
    let value = |wanted: u16| attributes.iter().find(|attribute| attribute.kind() == wanted).map(octets_of);
    let number = |wanted| value(wanted).and_then(|octets| Some(u32::from_ne_bytes(octets.try_into().ok()?)));
    TunOwner {
        user: number(OWNER),
        group: number(GROUP),
        several_queues: value(MULTI_QUEUE).is_some_and(|octets| octets.iter().any(|octet| *octet != 0)),
        held: number(QUEUES).unwrap_or(0) + number(DETACHED_QUEUES).unwrap_or(0),
    }
}

fn octets_of(attribute: &InfoTun) -> Vec<u8> {
    let mut octets = vec![0; attribute.value_len()];
    attribute.emit_value(&mut octets);
    octets
}

fn address(message: &AddressMessage) -> Option<Address> {
    let pick = |want_local: bool| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(addr) if want_local => Some(*addr),
            AddressAttribute::Address(addr) if !want_local => Some(*addr),
            _ => None,
        })
    };
    Some(Address {
        index: message.header.index,
        addr: pick(true).or_else(|| pick(false))?,
        prefix_len: message.header.prefix_len,
        link_scope: message.header.scope == AddressScope::Link,
    })
}

fn of(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn with(index: u32, attribute: LinkAttribute) -> LinkMessage {
    let mut message = of(index);
    message.attributes.push(attribute);
    message
}

fn family(addr: IpAddr) -> AddressFamily {
    if addr.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}
