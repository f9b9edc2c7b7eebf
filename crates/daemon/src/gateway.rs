//! Gateway mode: networks behind this host, whose hosts have nothing installed (docs/gateway.md; RFC 4301 section 3.3 case 2).
//!
//! What enters: `[gateway]` of the configuration and the rules of the SPD. What leaves: the inside interfaces for the kernel
//! half, and the spans of peers whose packets it lets pass without the engine, since every rule that could decide otherwise is
//! for other addresses.

mod error;
mod first;

pub use error::GatewayError;

pub use first::{HandedRules, first_rules};

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use api::{Check, CheckState};
use engine::{Outbound, Traffic};
use netio::link::{Link, Links};
use netio::tun::{DeliveryResult, Tun};
use sadb::rules::{Action, Direction, Rule, RuleKey};
use sadb::selector::{Condition, TrafficSelector, field};
use sockmon::{InsideIcmp, Span};
use wire::ip::Headers;
use wire::stage::{Admitted, Selected};
use wire::{Buf, Coalesced, DropReason, Meta, Packet, Prefix, ScrubId, fragment, ipv6, protocol, record};

use crate::device::Device;
use config::{Config, GatewayConfig};
use documents::classes::Classes;

/// The ICMP errors for this host that are believed from those networks.
pub(crate) fn inside_icmp(config: &Config) -> InsideIcmp {
    match config.gateway.as_ref().and_then(|gateway| gateway.icmp.as_ref()) {
        None => InsideIcmp::default(),
        Some(kinds) => {
            kinds.iter().fold(InsideIcmp::none(), |all, kind| all.with(kind.version, kind.kind, kind.code))
        }
    }
}

/// The inside interfaces of this network namespace.
///
/// # Errors
/// If one is not there.
pub fn insides(config: &Config) -> Result<Vec<Device>, GatewayError> {
    let Some(gateway) = &config.gateway else { return Ok(Vec::new()) };
    among(gateway, &Links::open()?.list()?)
}

pub(crate) fn among(gateway: &GatewayConfig, all: &[Link]) -> Result<Vec<Device>, GatewayError> {
    let find = |name: &String| all.iter().find(|link| link.name == *name);
    let device = |link: &Link| Device { name: link.name.clone(), index: link.index };
    gateway
        .inside
        .iter()
        .map(|name| find(name).map(device).ok_or_else(|| GatewayError::Missing(name.clone())))
        .collect()
}

/// The largest packet that every network behind this host takes.
///
/// # Errors
/// If the kernel does not say.
fn inside_mtu(insides: &[Device]) -> netio::Result<usize> {
    let all = if insides.is_empty() { Vec::new() } else { Links::open()?.list()? };
    let inside = |link: &&Link| insides.iter().any(|device| device.index == link.index);
    let least = all.iter().filter(inside).map(|link| link.mtu as usize).min();
    Ok(least.unwrap_or(usize::from(u16::MAX)))
}

/// Cuts long IPv6 packets for the networks behind this host. What came in fragments was joined for the rules to see, and the
/// kernel, as a router, would answer the whole packet with "packet too big" (RFC 8200 section 5): its sender could do nothing.
#[derive(Debug, Default)]
pub struct Fragmenter {
    /// The MTU beyond which packets are cut; 0: none is, this host is no gateway.
    mtu: usize,
    /// Addresses of this host. What is for them is joined here, and stays whole.
    own: Vec<Ipv6Addr>,
    next_id: u32,
    piece: Option<Buf>,
}

/// The largest packets that leave in one piece, for answers to those that are larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtus {
    /// The largest packet in octets that leaves for the outside without UDP around it.
    pub raw: usize,
    /// The largest packet in octets that reaches every network behind this host.
    pub inside: usize,
}

impl Mtus {
    /// The sizes for a path of this MTU (1500 if it is not known) and for inside interfaces of that one (0 if there are
    /// none).
    pub fn new(path: Option<u16>, inside: usize) -> Mtus {
        Mtus {
            raw: path.map_or(1500, usize::from),
            inside: if inside == 0 { usize::from(u16::MAX) } else { inside },
        }
    }

    /// The sizes for a path of this MTU and for the inside interfaces as they are now.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn of(path: Option<u16>, insides: &[Device]) -> netio::Result<Mtus> {
        Ok(Mtus::new(path, inside_mtu(insides)?))
    }
}

impl Default for Mtus {
    fn default() -> Mtus {
        Mtus::new(None, 0)
    }
}

/// What a [`Fragmenter`] has to know of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAddresses {
    pub(crate) mtu: usize,
    own: Vec<Ipv6Addr>,
    /// An address that reaches further than its link, of each inside interface that has any.
    by_interface: BTreeMap<u32, Ipv6Addr>,
}

impl HostAddresses {
    /// The addresses that ICMPv6 errors to the networks behind this host come from, by interface.
    pub fn by_interface(&self) -> &BTreeMap<u32, Ipv6Addr> {
        &self.by_interface
    }
}

impl HostAddresses {
    /// Look at the addresses of this host and at its inside interfaces.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn look(insides: &[Device]) -> netio::Result<HostAddresses> {
        if insides.is_empty() {
            return Ok(HostAddresses::default());
        }
        let v6 = |address: netio::link::Address| match address.addr {
            IpAddr::V6(own) => Some((address.index, own)),
            IpAddr::V4(_) => None,
        };
        let all: Vec<_> = Links::open()?.addresses()?.into_iter().filter_map(v6).collect();
        let is_inside = |index: u32| insides.iter().any(|device| device.index == index);
        let mut by_interface = BTreeMap::new();
        for (index, own) in
            all.iter().filter(|(index, own)| is_inside(*index) && !own.is_unicast_link_local())
        {
            by_interface.entry(*index).or_insert(*own);
        }
        let own = all.into_iter().map(|(_, own)| own).collect();
        Ok(HostAddresses { mtu: inside_mtu(insides)?, own, by_interface })
    }
}

impl Fragmenter {
    /// Cut packets for these surroundings from now on; `first_id` is random (RFC 7739).
    pub fn set(&mut self, surroundings: HostAddresses, first_id: u32) {
        let HostAddresses { mtu, own, .. } = surroundings;
        (self.mtu, self.own, self.next_id) = (mtu, own, first_id);
    }

    /// Hand a coalesced packet to the host, in fragments if that is what it needs.
    pub fn send(&mut self, tun: &Tun, coalesced: &Coalesced<'_>) -> DeliveryResult {
        match coalesced.packets() {
            [packet] if self.mtu != 0 && packet.len() > self.mtu.max(ipv6::MIN_MTU) => {
                self.cut(tun, packet, coalesced.mark).unwrap_or_else(|| tun.send_coalesced(coalesced))
            }
            _ => tun.send_coalesced(coalesced),
        }
    }

    /// Hand a packet to the host in fragments; `None`: it goes whole.
    #[cold]
    fn cut(&mut self, tun: &Tun, packet: &[u8], mark: u32) -> Option<DeliveryResult> {
        let headers = Headers::parse(packet).ok()?;
        let IpAddr::V6(to) = headers.dst else { return None };
        // TCP has no fragments: its sender learns from the answer.
        if headers.protocol == protocol::TCP || to.is_multicast() || self.own.contains(&to) {
            return None;
        }
        self.next_id = self.next_id.wrapping_add(1);
        let mut pieces = fragment::fragments(packet, &headers, self.next_id, ipv6::MIN_MTU).ok()?;
        let mut piece = self.piece.take().unwrap_or_else(|| Buf::with_capacity(ipv6::MIN_MTU, 0));
        let mut out = DeliveryResult::default();
        loop {
            piece.reset(0);
            match pieces.next_into(&mut piece) {
                None => break,
                Some(Ok(())) => {
                    let sent = tun.send_coalesced(&Coalesced::begin(piece.as_slice(), mark));
                    if sent.dropped.is_some() {
                        out.dropped = Some((1, sent.dropped.map_or(DropReason::Backpressure, |(_, r)| r)));
                        break;
                    }
                }
                Some(Err(error)) => {
                    out.dropped = Some((1, error.into()));
                    break;
                }
            }
        }
        out.packets = usize::from(out.dropped.is_none());
        self.piece = Some(piece);
        Some(out)
    }
}

/// The answer to a forwarded packet that passes in clear and does not fit its way, with its mark: the kernel, which would
/// have given it, did not see where the packet went.
pub fn too_big(
    engine: &mut Outbound,
    packet: &Packet<Selected>,
    mtus: Mtus,
) -> Option<(Packet<Admitted>, u32)> {
    let meta = &packet.meta;
    if meta.mark & (record::STAMPED | record::PROOF | record::FORWARDED) != record::FORWARDED {
        return None;
    }
    let headers = Headers::parse(packet.bytes()).ok()?;
    let mtu = if meta.mark & record::ARRIVED == 0 { mtus.raw } else { mtus.inside };
    let error = engine.too_big(meta, packet.bytes(), &headers, mtu)?;
    let mark = record::PROOF;
    Some((Packet::made_for_host(error, Meta { received: meta.received, mark, ..Meta::default() }), mark))
}

/// Add what `more` counted to `counts`.
pub fn add_counts(counts: &mut Vec<(RuleKey, Traffic)>, more: &[(RuleKey, Traffic)]) {
    for (key, traffic) in more {
        match counts.iter_mut().find(|(known, _)| known == key) {
            Some((_, sum)) => {
                sum.packets += traffic.packets;
                sum.bytes += traffic.bytes;
            }
            None => counts.push((*key, *traffic)),
        }
    }
}

/// The first of the rules that could decide about some packet with a peer of one prefix and leaves nothing to those
/// behind it: its place, and whether it bypasses all such packets.
type Decisive = Option<(usize, bool)>;

/// Where the peer's address alone says that a forwarded packet is bypassed. What no span covers is the engine's.
///
/// A rule that bypasses and looks at more than the peer's address decides nothing here: what it does not match falls to those
/// behind it. One that protects or discards some packets of a peer leaves all of them to the engine.
pub fn spans(rules: &[Rule]) -> Vec<Span> {
    let mut first: BTreeMap<(u128, u8), [Decisive; 2]> = BTreeMap::new();
    for (place, rule) in rules.iter().enumerate() {
        for selector in &rule.selectors {
            // What is scrubbed must come by the engine, in clear too.
            let bypasses = rule.action == Action::Bypass && rule.scrub == ScrubId::NONE;
            let pure = selector.terms().iter().all(|term| *term.field() == field::REMOTE);
            for prefix in peers(selector) {
                let entry = first.entry((prefix.first(), prefix.len())).or_default();
                for (way, decisive) in [Direction::Out, Direction::In].into_iter().zip(entry) {
                    if rule.is_for(way) && decisive.is_none() && (pure || !bypasses) {
                        *decisive = Some((place, bypasses));
                    }
                }
            }
        }
    }
    // In this order each prefix comes behind those that cover it.
    let mut covering: Vec<(Prefix, [Decisive; 2], [bool; 2])> = Vec::new();
    let mut out = Vec::new();
    for ((bits, len), own) in first {
        let prefix = Prefix::from_bits(bits, len);
        while covering.last().is_some_and(|(above, ..)| !above.covers(prefix)) {
            covering.pop();
        }
        let (inherited, passes_above) =
            covering.last().map_or(([None; 2], [false; 2]), |(_, inherited, passes)| (*inherited, *passes));
        let mut decisive = own;
        for (mine, above) in decisive.iter_mut().zip(inherited) {
            *mine = [*mine, above].into_iter().flatten().min();
        }
        let passes = decisive.map(|decisive| decisive.is_some_and(|(_, bypasses)| bypasses));
        if passes != passes_above {
            let [bypass_out, bypass_in] = passes;
            out.push(Span { peers: prefix, bypass_out, bypass_in });
        }
        covering.push((prefix, decisive, passes));
    }
    out
}

/// The peers of a selector.
fn peers(selector: &TrafficSelector) -> Vec<Prefix> {
    match selector.condition(&field::REMOTE) {
        Condition::In(ranges) => {
            ranges.list().iter().flat_map(|(first, last)| Prefix::cover(*first, *last)).collect()
        }
        _ => vec![Prefix::ANY],
    }
}

/// The first thing that is wrong with the inside interfaces or with forwarding.
pub(crate) fn fault(config: &Config, all: &[Link]) -> Option<String> {
    let gateway = config.gateway.as_ref()?;
    let is_missing = |name: &&str| !all.iter().any(|link| link.name == *name);
    let missing: Vec<&str> = gateway.inside.iter().map(String::as_str).filter(is_missing).collect();
    if !missing.is_empty() {
        return Some(format!("there is no interface {}, which [gateway] names", missing.join(", ")));
    }
    forwarding(config).err()
}

/// What the kernel forwards, and whether that is both families; or that it forwards nothing, or not what comes by a device of the
/// gateway's. IPv6 has one switch for all.
fn forwarding(config: &Config) -> Result<(&'static str, bool), String> {
    let on = |name: &str| netio::sysctl::get(name).map(|value| value != "0");
    let uplinks = crate::uplinks::present(config).unwrap_or_default();
    let inside = config.gateway.iter().flat_map(|gateway| &gateway.inside);
    for name in uplinks.iter().map(|uplink| &uplink.name).chain(inside).chain([&config.tun.name]) {
        // The TUN comes later, and what is missing is said elsewhere.
        if on("net/ipv4/ip_forward").unwrap_or(false)
            && on(&format!("net/ipv4/conf/{name}/forwarding")).is_ok_and(|on| !on)
        {
            return Err(format!(
                "what comes by {name} is not forwarded (net.ipv4.conf.{name}.forwarding is 0)"
            ));
        }
    }
    match (on("net/ipv4/ip_forward"), on("net/ipv6/conf/all/forwarding")) {
        (Ok(true), Ok(true)) => Ok(("IPv4 and IPv6 are forwarded", true)),
        (Ok(true), Ok(false)) => Ok(("IPv4 is forwarded, IPv6 is not", false)),
        (Ok(true), Err(_)) => Ok(("IPv4 is forwarded; there is no IPv6", true)),
        (Ok(false), Ok(true)) => Ok(("IPv6 is forwarded, IPv4 is not", false)),
        (Ok(false), _) => Err("this host forwards nothing (net.ipv4.ip_forward is 0)".to_owned()),
        (Err(error), _) => Err(error.to_string()),
    }
}

/// What `doctor` says of gateway mode.
pub(crate) fn checks(config: &Config) -> Vec<Check> {
    if config.gateway.is_none() {
        return Vec::new();
    }
    let graded = |name: &str, result: Result<(String, bool), String>, remedy: &str| {
        let (state, found) = match result {
            Ok((found, true)) => (CheckState::Ok, found),
            Ok((found, false)) => (CheckState::Warn, found),
            Err(found) => (CheckState::Fail, found),
        };
        let remedy = (state != CheckState::Ok).then(|| remedy.to_owned());
        Check { name: name.to_owned(), state, found, remedy }
    };
    let check = |name: &str, result: Result<String, String>, remedy: &str| {
        graded(name, result.map(|found| (found, true)), remedy)
    };
    let names = |devices: Vec<Device>| devices.into_iter().map(|d| d.name).collect::<Vec<_>>().join(", ");
    vec![
        check(
            "gateway: inside",
            insides(config).map(names).map_err(|error| error.to_string()),
            "name interfaces that exist in `inside`; `ip link` lists them",
        ),
        graded(
            "gateway: forwarding",
            forwarding(config).map(|(found, whole)| (found.to_owned(), whole)),
            "sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1, or the one that it names",
        ),
        check(
            "gateway: rp_filter",
            reverse_path(config),
            "sysctl -w net.ipv4.conf.NAME.rp_filter=2, with the name shown",
        ),
        check(
            "gateway: rules",
            first_rules(config, &Classes::Of(config::classes_of(config)), None)
                .map(|book| format!("{} at the start", book.documents().len()))
                .map_err(|error| error.to_string()),
            "correct the file; ravelin(1), REPLAY, describes its lines",
        ),
    ]
}

/// Strict filtering would drop what comes out of the TUN, whose sources are routed elsewhere.
fn reverse_path(config: &Config) -> Result<String, String> {
    let name = &config.tun.name;
    match netio::sysctl::get(&format!("net/ipv4/conf/{name}/rp_filter")) {
        Ok(value) if value == "1" => {
            Err(format!("strict on {name}: what comes out of associations is dropped"))
        }
        Ok(value) => Ok(format!("{value} on {name}")),
        Err(_) => Ok(format!("{name} will get 2")),
    }
}

#[cfg(test)]
mod tests;
