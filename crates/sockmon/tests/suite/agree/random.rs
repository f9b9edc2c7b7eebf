//! Random policies of everything that has an effect on a flow, and flows at the edges of what they say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use policy::ast::{AddressRange, Block, Item};
use sadb::Selectors;
use sadb::spd::PortRange;
use wire::{AppId, Flow, Prefix, addr};

/// xorshift64*: the same pairs for the same seed.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound.max(1) as u128) >> 64) as usize
    }

    pub fn pick<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.below(list.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The statements of one block.
#[derive(Clone, Debug)]
pub struct Parts {
    pub networks: Vec<String>,
    /// The statements of protections P0, P1 and so on.
    pub protections: Vec<Vec<String>>,
}

impl Parts {
    /// One protection of several, called P0 now, without the networks that name others.
    pub fn only(&self, kept: usize) -> Parts {
        let name = format!("protected P{kept};");
        let stays = |network: &&String| !network.contains("protected P") || network.ends_with(&name);
        let networks =
            self.networks.iter().filter(stays).map(|network| network.replace(&name, "protected P0;"));
        Parts { networks: networks.collect(), protections: vec![self.protections[kept].clone()] }
    }

    /// The block's text, a statement a line.
    pub fn text(&self, name: &str) -> String {
        let mut out = format!("application {name} {{\n");
        for network in &self.networks {
            out.push_str(&format!("  {network}\n"));
        }
        for (index, items) in self.protections.iter().enumerate() {
            out.push_str(&format!("  protection P{index} {{\n"));
            out.extend(items.iter().map(|item| format!("    {item}\n")));
            out.push_str("  }\n");
        }
        out + "}\n"
    }
}

/// A sound block and what the policy room makes of it.
pub fn block(random: &mut Random) -> (Parts, Block) {
    loop {
        let protections: Vec<Vec<String>> =
            (0..=random.below(3)).map(|_| (0..=random.below(5)).map(|_| item(random)).collect()).collect();
        let networks = (0..random.below(8)).map(|_| {
            let kind = match random.below(6) {
                0 => "trusted".to_string(),
                1 => "untrusted".to_string(),
                n => format!("protected P{}", n % protections.len()),
            };
            let observed = if random.one_in(6) { "observe " } else { "" };
            format!("network {} {observed}{kind};", range(random))
        });
        let networks = networks.collect();
        let parts = Parts { networks, protections };
        // Two settings of one network are an error; such a block is thrown again.
        let mut parsed = policy::parse("random", &parts.text("a"));
        if let Some(block) = parsed.blocks.pop() {
            return (parts, Block::clone(&block));
        }
    }
}

fn v4(random: &mut Random) -> Ipv4Addr {
    let net = *random.pick(&[[192, 0, 2], [198, 51, 100], [203, 0, 113]]);
    Ipv4Addr::new(net[0], net[1], net[2], *random.pick(&[0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 254, 255]))
}

fn v6(random: &mut Random) -> Ipv6Addr {
    let [a, b] = [*random.pick(&[0, 1, 0x8000, 0xffff]), *random.pick(&[0, 1, 2, 3, 0x7f, 0xff, 0xffff])];
    Ipv6Addr::new(0x2001, 0xdb8, *random.pick(&[0, 0, 1]), 0, 0, 0, a, b)
}

fn range(random: &mut Random) -> String {
    match random.below(12) {
        0 => v4(random).to_string(),
        1..=3 => format!("{}/{}", v4(random), 20 + random.below(13)),
        4 => {
            let (a, b) = (v4(random), v4(random));
            format!("{}-{}", a.min(b), a.max(b))
        }
        5 => v6(random).to_string(),
        6 | 7 => format!("{}/{}", v6(random), 29 + random.below(100)),
        8 => {
            let (a, b) = (v6(random), v6(random));
            format!("{}-{}", a.min(b), a.max(b))
        }
        9 => format!("::ffff:{}/{}", v4(random), 96 + random.below(33)),
        _ => random
            .pick(&["0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "::/0", "::/1", "::/80", "::/96", "8000::/1"])
            .to_string(),
    }
}

const EDGES: [u16; 8] = [0, 1, 22, 443, 1023, 1024, 65534, 65535];

fn ports(random: &mut Random) -> String {
    let one = |random: &mut Random| match random.below(6) {
        0 | 1 => "any".to_string(),
        2 | 3 => random.pick(&EDGES).to_string(),
        4 => random.pick(&["ssh", "https", "imaps", "domain", "0-1023", "1024-65535"]).to_string(),
        _ => {
            let (a, b) = (*random.pick(&EDGES), *random.pick(&EDGES));
            format!("{}-{}", a.min(b), a.max(b))
        }
    };
    if random.one_in(4) { format!("{},{}", one(random), one(random)) } else { one(random) }
}

fn item(random: &mut Random) -> String {
    let mut words = Vec::new();
    let bare = random.one_in(5);
    if bare {
        words.push(format!("protocol={}", random.pick(&["icmp", "58", "47", "89", "any", "1"])));
    } else {
        if random.one_in(2) {
            words
                .push(format!("protocol={}", random.pick(&["tcp", "udp", "sctp", "17", "136", "33", "any"])));
        }
        if !random.one_in(3) {
            words.push(format!("localport={}", ports(random)));
        }
        if !random.one_in(3) {
            words.push(format!("remoteport={}", ports(random)));
        }
    }
    let service = *random.pick(&["encryption", "authentication"]);
    let suite = random.pick(&["", "", " suite aes128gcm16", " suite chacha20poly1305"]);
    words.push(match random.below(8) {
        0 => "never".into(),
        1 => format!("{service} accept-only{suite}"),
        2 => format!("{service} require{suite} while-negotiating drop"),
        3 => format!("{service} prefer{suite} on-failure drop"),
        4 | 5 => format!("{service} optional"),
        _ => format!("{service} mandatory{suite}"),
    });
    words.join(" ") + ";"
}

/// A flow for which the block's opinion may be about to change.
pub fn flow(random: &mut Random, block: &Block) -> Flow {
    let ranges: Vec<&AddressRange> = block.networks.iter().map(|n| &n.range).collect();
    let bits = match random.below(8) {
        0 => addr::to_bits(v4(random).into()),
        1 => addr::to_bits(v6(random).into()),
        _ if ranges.is_empty() => addr::to_bits(v4(random).into()),
        _ => {
            let (first, last) = ends(ranges[random.below(ranges.len())]);
            let at = *random.pick(&[first, last, first + (last - first) / 2]);
            *random.pick(&[at, at, at.wrapping_sub(1), at.wrapping_add(1)])
        }
    };
    let items: Vec<&Item> = block.protections.iter().flat_map(|p| &p.items).collect();
    let item = *random.pick(&items);
    let remote = addr::from_bits(bits);
    let protocol = match item.protocol {
        Some(1) if !random.one_in(4) => *random.pick(&[1, 58]),
        Some(number) if !random.one_in(4) => number,
        _ => *random.pick(&[6, 6, 17, 17, 1, 58, 132, 136, 33, 47, 89]),
    };
    let mut port = |list: &[sadb::spd::PortRange]| match list {
        [] => *random.pick(&EDGES),
        list => {
            let range = random.pick(list);
            let at = *random.pick(&[range.first, range.last]);
            *random.pick(&[at, at, at.wrapping_add(1), at.wrapping_sub(1)])
        }
    };
    let (local_port, remote_port) = (port(&item.local), port(&item.remote));
    let local: IpAddr = if remote.is_ipv4() {
        Ipv4Addr::new(192, 0, 2, 200).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9).into()
    };
    let mut flow = Flow { opaque: false, local, remote, local_port, remote_port, protocol };
    if !has_ports(protocol) {
        // Of ICMP type and code stand there.
        let icmp = matches!(protocol, 1 | 58) && random.one_in(2);
        (flow.local_port, flow.remote_port) = (if icmp { 8 << 8 } else { 0 }, 0);
    }
    // As a socket of both families has it.
    if remote.is_ipv4() && random.one_in(4) {
        (flow.local, flow.remote) = (as_mapped(flow.local), as_mapped(flow.remote));
    }
    flow
}

/// Selectors of an association around a flow, some of them so near to it that they do not cover it.
pub fn selectors(random: &mut Random, app: AppId, flow: &Flow) -> Selectors {
    let around = |random: &mut Random, addr: IpAddr| {
        let bits = addr::to_bits(addr) ^ u128::from(random.one_in(6));
        let len = *random.pick(&[128, 128, 127, 120, 112, 64, 0]);
        // One family: a prefix of both would cover the other one too.
        Prefix::from_bits(bits, if addr::from_bits(bits).is_ipv4() { len.max(96) } else { len.max(1) })
    };
    let ports = |random: &mut Random, port: u16| match random.below(5) {
        0 | 1 => PortRange::ANY,
        2 => PortRange::one(port),
        3 => PortRange { first: port.saturating_add(1), last: u16::MAX },
        _ => PortRange { first: port.saturating_sub(3), last: port },
    };
    Selectors {
        local: if random.one_in(2) { Prefix::ANY } else { around(random, flow.local) },
        remote: around(random, flow.remote),
        protocol: *random.pick(&[None, Some(flow.protocol), Some(flow.protocol), Some(6)]),
        app: *random.pick(&[None, None, Some(app), Some(AppId(app.0 + 1))]),
        local_ports: ports(random, flow.local_port),
        remote_ports: ports(random, flow.remote_port),
    }
}

pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

fn as_mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        v6 => v6,
    }
}

/// The first and the last address, in the common space.
fn ends(range: &AddressRange) -> (u128, u128) {
    match range {
        AddressRange::Single(one) => (addr::to_bits(*one), addr::to_bits(*one)),
        AddressRange::Range(a, b) => (addr::to_bits(*a), addr::to_bits(*b)),
        AddressRange::Prefix(a, len) => Prefix::new(*a, *len).map_or((0, 0), |p| (p.first(), p.last())),
        AddressRange::Host(_) => (0, 0),
    }
}
