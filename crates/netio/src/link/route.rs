//! Routes: which device leads to an address, which devices lead to everywhere.

use super::{Links, family};
use crate::error::{Error, IoContext, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteNextHop,
    RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::IpAddr;

/// The kernel's answer to "which way to this address".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The device it leaves by.
    pub index: u32,
    /// The source address the host would take.
    pub source: Option<IpAddr>,
    /// The router, unless the address is on the link.
    pub gateway: Option<IpAddr>,
}

/// A default route: a device that leads to the rest of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// The index of the device that the route leads to.
    pub index: u32,
    /// Whether the route is one of IPv6.
    pub ipv6: bool,
    /// The metric of the route: the lowest is used first.
    pub metric: u32,
}

impl Links {
    /// The way that an ordinary packet to `to` takes.
    pub fn route_to(&mut self, to: IpAddr) -> Result<Route> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(to);
        message.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(to.into()));
        let mut found = None;
        self.conversation
            .look_up(RouteNetlinkMessage::GetRoute(message), |answer| {
                if let RouteNetlinkMessage::NewRoute(message) = answer {
                    found = found.or_else(|| route(&message));
                }
            })
            .doing(|| format!("asking for the route to {to}"))?;
        found.ok_or_else(|| Error::unfit(format!("there is no route to {to}"), "see `ip route get`"))
    }

    /// The largest packet in octets that the route from `from` to `to` takes whole, as far as this host knows: the MTU
    /// of the device, or of the route if that is smaller. What ICMP errors taught the kernel about the destination is
    /// left out.
    pub fn path_mtu(&mut self, from: IpAddr, to: IpAddr) -> Result<u32> {
        let doing = || format!("asking for the route from {from} to {to}");
        let way = match self.way(Some(from), to, RouteFlags::empty()) {
            // The address is not this host's, or not yet: the way that others' packets take is the best guess.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.way(None, to, RouteFlags::empty())
            }
            way => way,
        };
        let way = way.doing(doing)?;
        let way =
            way.ok_or_else(|| Error::unfit(format!("there is no route to {to}"), "see `ip route get`"))?;
        let configured = match way.mtu {
            // A route exception expires; the route itself may have a metric all the same.
            Some(_) if way.expires => {
                let route = self.way(Some(from), to, RouteFlags::FibMatch).doing(doing)?;
                route.and_then(|route| route.mtu)
            }
            mtu => mtu,
        };
        let device = self.link(way.index)?.mtu;
        Ok(configured.map_or(device, |mtu| mtu.min(device)))
    }

    fn way(&mut self, from: Option<IpAddr>, to: IpAddr, flags: RouteFlags) -> io::Result<Option<RouteEntry>> {
        let whole = if to.is_ipv4() { 32 } else { 128 };
        let mut message = RouteMessage::default();
        message.header.address_family = family(to);
        message.header.destination_prefix_length = whole;
        message.header.flags = flags;
        message.attributes.push(RouteAttribute::Destination(to.into()));
        if let Some(from) = from {
            message.header.source_prefix_length = whole;
            message.attributes.push(RouteAttribute::Source(from.into()));
        }
        let mut found = None;
        self.conversation.look_up(RouteNetlinkMessage::GetRoute(message), |answer| {
            if let RouteNetlinkMessage::NewRoute(message) = answer {
                found = found.or(Some(RouteEntry::of(&message)));
            }
        })?;
        Ok(found)
    }

    /// The default routes of the main table, both families.
    pub fn default_routes(&mut self) -> Result<Vec<DefaultRoute>> {
        let mut out = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            self.conversation
                .dump(RouteNetlinkMessage::GetRoute(message), |answer| {
                    if let RouteNetlinkMessage::NewRoute(message) = answer {
                        defaults(&message, &mut out);
                    }
                })
                .doing(|| "listing the routes".into())?;
        }
        Ok(out)
    }

    /// Every address that is this host's, with the length of its prefix: the routes of type `local`, of all tables (RTN_LOCAL).
    pub fn local_addresses(&mut self) -> Result<Vec<(IpAddr, u8)>> {
        let mut out = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            self.conversation
                .dump(RouteNetlinkMessage::GetRoute(message), |answer| {
                    if let RouteNetlinkMessage::NewRoute(message) = answer {
                        out.extend(local(&message));
                    }
                })
                .doing(|| "listing the addresses of this host".into())?;
        }
        out.sort();
        out.dedup();
        Ok(out)
    }

    /// Route `to/len` by the device `index`, through `gateway` if given; replaces one that is there.
    pub fn add_route(&mut self, to: IpAddr, len: u8, gateway: Option<IpAddr>, index: u32) -> Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(to);
        message.header.destination_prefix_length = len;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        message.header.scope =
            if gateway.is_none() && to.is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
        message.attributes = vec![RouteAttribute::Destination(to.into()), RouteAttribute::Oif(index)];
        message.attributes.extend(gateway.map(|router| RouteAttribute::Gateway(router.into())));
        self.conversation
            .change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
            .doing(|| format!("adding a route to {to}/{len}"))
    }
}

/// The device and the MTU that a route message names.
#[derive(Clone, Copy)]
struct RouteEntry {
    index: u32,
    mtu: Option<u32>,
    expires: bool,
}

impl RouteEntry {
    fn of(message: &RouteMessage) -> RouteEntry {
        let mut out = RouteEntry { index: 0, mtu: None, expires: false };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Oif(index) => out.index = *index,
                RouteAttribute::Metrics(metrics) => {
                    out.mtu = metrics.iter().find_map(|metric| match metric {
                        RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
                        _ => None,
                    });
                }
                RouteAttribute::CacheInfo(info) => out.expires = info.expires != 0,
                _ => {}
            }
        }
        out
    }
}

fn route(message: &RouteMessage) -> Option<Route> {
    let mut out = Route { index: 0, source: None, gateway: None };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => out.index = *index,
            RouteAttribute::PrefSource(source) => out.source = ip(source),
            RouteAttribute::Gateway(router) => out.gateway = ip(router),
            _ => {}
        }
    }
    (out.index != 0).then_some(out)
}

fn local(message: &RouteMessage) -> Option<(IpAddr, u8)> {
    if message.header.kind != RouteType::Local {
        return None;
    }
    let to = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(to) => ip(to),
        _ => None,
    })?;
    Some((to, message.header.destination_prefix_length))
}

/// A default route may have several next hops, each with a device of its own.
fn defaults(message: &RouteMessage, out: &mut Vec<DefaultRoute>) {
    let header = &message.header;
    let unicast = header.kind == RouteType::Unicast && header.table == RouteHeader::RT_TABLE_MAIN;
    if !unicast || header.destination_prefix_length != 0 {
        return;
    }
    let mut metric = 0;
    let mut devices = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Priority(n) => metric = *n,
            RouteAttribute::Oif(index) => devices.push(*index),
            RouteAttribute::MultiPath(hops) => {
                devices.extend(hops.iter().map(|hop: &RouteNextHop| hop.interface_index));
            }
            _ => {}
        }
    }
    let ipv6 = header.address_family == AddressFamily::Inet6;
    out.extend(devices.into_iter().map(|index| DefaultRoute { index, ipv6, metric }));
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}
