//! The paper's translation against the compiled one: random policies, random traces of what sockets do, and every
//! packet that one of them can really send or receive then.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use policy::{AppTable, compile, parse};
use proptest::prelude::*;
use sadb::per_socket::{Call, PacketDirection};
use sadb::spd::Spd;
use sadb::{EntryLimits, PerSocket, SocketEvent};
use wire::{AppId, Flow, Time, protocol};

const NAMES: [&str; 3] = ["one", "two", "three"];
const NETWORKS: [&str; 10] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.1.2.3",
    "10.128.0.0/9",
    "0.0.0.0/0",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "::/0",
    "10.0.0.5-10.0.0.9",
];
const PEERS: [&str; 7] =
    ["10.0.0.6", "10.1.2.3", "10.1.2.4", "10.200.0.1", "192.0.2.1", "2001:db8::7", "2001:db8:1::7"];
const OWN: [&str; 4] = ["0.0.0.0", "::", "10.1.0.1", "2001:db8::1"];
const PORTS: [&str; 6] = ["any", "21", "22", "20-21", "1000-2000", "1500"];
const NUMBERS: [u16; 5] = [20, 21, 22, 1500, 1999];

fn limits() -> EntryLimits {
    EntryLimits { time_wait: Duration::ZERO, drain: Duration::ZERO, ..EntryLimits::default() }
}

fn body() -> impl Strategy<Value = String> {
    let class = prop::sample::select(vec!["trusted", "untrusted", "protected A", "protected B"]);
    let networks = prop::sample::subsequence(NETWORKS.to_vec(), 0..6);
    let item = (
        prop::sample::select(PORTS.to_vec()),
        prop::sample::select(PORTS.to_vec()),
        prop::sample::select(vec!["", "", "protocol=tcp ", "protocol=udp ", "protocol=sctp "]),
        prop::sample::select(vec![
            "encryption mandatory",
            "encryption optional",
            "encryption require suite aes128gcm",
            "authentication mandatory",
            "authentication prefer while-negotiating drop",
            "authentication accept-only",
            "never",
        ]),
    );
    let item = item.prop_map(|(l, r, p, demand)| format!("{p}localport={l} remoteport={r} {demand};\n"));
    let items = || prop::collection::vec(item.clone(), 1..5).prop_map(|items| items.concat());
    (networks, prop::collection::vec(class, 6), items(), items()).prop_map(|(networks, classes, a, b)| {
        let lines = networks.iter().zip(classes).map(|(n, c)| format!("network {n} {c};\n"));
        format!("{}protection A {{ {a} }}\nprotection B {{ {b} }}\n", lines.collect::<String>())
    })
}

fn spd(bodies: &[String]) -> Spd {
    let blocks = NAMES.iter().zip(bodies).map(|(name, body)| format!("application {name} {{\n{body}}}\n"));
    let parsed = parse("random", &blocks.collect::<String>());
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    compile(&parsed, &mut AppTable::new(), 1).spd
}

#[derive(Clone, Copy, Debug)]
struct Step {
    kind: u8,
    socket: u64,
    app: u16,
    own: usize,
    peer: usize,
    local_port: usize,
    remote_port: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u8..10, 1u64..7, 1u16..4, 0..OWN.len(), 0..PEERS.len(), 0..NUMBERS.len(), 0..NUMBERS.len());
    let step = step.prop_map(|(kind, socket, app, own, peer, local_port, remote_port)| Step {
        kind,
        socket,
        app,
        own,
        peer,
        local_port,
        remote_port,
    });
    prop::collection::vec(step, 1..40)
}

/// A socket as the kernel would have it.
#[derive(Clone, Debug)]
struct Socket {
    app: AppId,
    protocol: u8,
    own: IpAddr,
    port: u16,
    /// Listens, or waits for datagrams.
    waits: bool,
    /// Its flows, and until when it may send there without another call.
    flows: BTreeMap<(IpAddr, IpAddr, u16), Option<Time>>,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Whether a socket with this address can talk to the peer.
fn can_reach(own: IpAddr, peer: IpAddr) -> bool {
    own == ip("::") || own.is_ipv4() == peer.is_ipv4()
}

/// The address that packets to the peer have then.
fn source(own: IpAddr, peer: IpAddr) -> IpAddr {
    match (own.is_unspecified(), peer) {
        (true, IpAddr::V4(_)) => ip("10.1.0.1"),
        (true, IpAddr::V6(_)) => ip("2001:db8::1"),
        (false, _) => own,
    }
}

#[derive(Default)]
struct World {
    sockets: BTreeMap<u64, Socket>,
    events: Vec<SocketEvent>,
    now: Time,
    next: u64,
}

impl World {
    fn event(&mut self, socket: u64, app: AppId, call: Call, flow: Flow) {
        self.events.push(SocketEvent { socket, app, call, flow, now: self.now });
    }

    /// What the step makes sockets do; what a kernel would refuse is left out.
    fn step(&mut self, step: Step) {
        self.now = self.now + Duration::from_secs(7);
        let (own, peer) = (ip(OWN[step.own]), ip(PEERS[step.peer]));
        let (local_port, remote_port) = (NUMBERS[step.local_port], NUMBERS[step.remote_port]);
        let app = AppId(step.app);
        let is_tcp = step.kind < 5;
        let number = if is_tcp { protocol::TCP } else { protocol::UDP };
        let nobody =
            Flow { opaque: false, local: own, remote: own, local_port, remote_port: 0, protocol: number };
        let fresh =
            Socket { app, protocol: number, own, port: local_port, waits: false, flows: BTreeMap::new() };
        match step.kind {
            0 | 1 if !self.sockets.contains_key(&step.socket) => {
                self.sockets.insert(step.socket, Socket { waits: true, ..fresh });
                self.event(step.socket, app, Call::Listen, nobody);
            }
            2 if !self.sockets.contains_key(&step.socket) && can_reach(own, peer) => {
                let local = source(own, peer);
                let flows = BTreeMap::from([((local, peer, remote_port), None)]);
                self.sockets.insert(step.socket, Socket { own: local, flows, ..fresh });
                let flow = Flow { local, remote: peer, remote_port, ..nobody };
                self.event(step.socket, app, Call::Connect, flow);
            }
            3 => {
                let Some(listener) = self.sockets.get(&step.socket).cloned() else { return };
                if !listener.waits || listener.protocol != number || !can_reach(listener.own, peer) {
                    return;
                }
                let local = source(listener.own, peer);
                self.next += 1;
                let child = 1000 + self.next;
                let flows = BTreeMap::from([((local, peer, remote_port), None)]);
                self.sockets.insert(child, Socket { own: local, waits: false, flows, ..listener.clone() });
                let flow = Flow {
                    opaque: false,
                    local,
                    remote: peer,
                    local_port: listener.port,
                    remote_port,
                    protocol: number,
                };
                self.event(child, listener.app, Call::Accept, flow);
            }
            4 | 9 => {
                // Of those there are, the one that the step points at.
                let at = (step.socket as usize * 7 + step.peer) % self.sockets.len().max(1);
                let Some((&socket, known)) = self.sockets.iter().nth(at) else { return };
                let app = known.app;
                self.sockets.remove(&socket);
                let call = if step.own == 0 { Call::TimeWait } else { Call::Close };
                self.event(socket, app, call, nobody);
            }
            5 | 6 => {
                let known = self.sockets.entry(step.socket).or_insert(fresh).clone();
                if known.protocol == number {
                    self.sockets.entry(step.socket).and_modify(|socket| socket.waits = true);
                    let flow = Flow { local: known.own, local_port: known.port, ..nobody };
                    self.event(step.socket, known.app, Call::RecvFrom, flow);
                }
            }
            7 | 8 => {
                let known = self.sockets.entry(step.socket).or_insert(fresh).clone();
                if known.protocol != number || !can_reach(known.own, peer) {
                    return;
                }
                let local = source(known.own, peer);
                // "Fetched from the socket descriptor": it may say "any". Or from the packet.
                let told = if step.kind == 7 { known.own } else { local };
                let until = self.now + limits().ttl;
                let key = (local, peer, remote_port);
                self.sockets.entry(step.socket).and_modify(|socket| {
                    socket.flows.insert(key, Some(until));
                });
                let flow = Flow {
                    opaque: false,
                    local: told,
                    remote: peer,
                    local_port: known.port,
                    remote_port,
                    protocol: number,
                };
                self.event(step.socket, known.app, Call::SendTo, flow);
            }
            _ => {}
        }
    }

    /// Every packet that can come or go now: its way, application, sending socket, flow.
    fn packets(&self) -> Vec<(PacketDirection, AppId, Option<u64>, Flow)> {
        let mut out = Vec::new();
        for (&cookie, socket) in &self.sockets {
            let flow = |local, remote, remote_port| Flow {
                opaque: false,
                local,
                remote,
                local_port: socket.port,
                remote_port,
                protocol: socket.protocol,
            };
            for (&(local, remote, port), until) in &socket.flows {
                if until.is_none_or(|until| until > self.now) {
                    out.push((PacketDirection::Out, socket.app, Some(cookie), flow(local, remote, port)));
                }
                if socket.protocol == protocol::TCP {
                    out.push((PacketDirection::In, socket.app, None, flow(local, remote, port)));
                }
            }
            if !socket.waits {
                continue;
            }
            for peer in PEERS.map(ip).into_iter().filter(|peer| can_reach(socket.own, *peer)) {
                for port in NUMBERS.into_iter().chain([0, u16::MAX]) {
                    let flow = flow(source(socket.own, peer), peer, port);
                    out.push((PacketDirection::In, socket.app, None, flow));
                    if socket.protocol == protocol::TCP {
                        // A SYN-ACK has the cookie of the connection that it may become.
                        out.push((PacketDirection::Out, socket.app, Some(99_999), flow));
                    }
                }
            }
        }
        out
    }
}

fn fed(spd: &Arc<Spd>, events: &[SocketEvent], of: impl Fn(&SocketEvent) -> bool) -> PerSocket {
    let mut table = PerSocket::new(Arc::clone(spd), limits());
    for event in events.iter().filter(|event| of(event)) {
        table.apply(event);
    }
    table
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Both translations, the same verdict with the same rules behind it, for every packet that can be.
    #[test]
    fn both_translations_agree(bodies in prop::collection::vec(body(), 3), steps in steps()) {
        let spd = Arc::new(spd(&bodies));
        let mut table = PerSocket::new(Arc::clone(&spd), limits());
        let mut world = World::default();
        for step in steps {
            let from = world.events.len();
            world.step(step);
            for event in &world.events[from..] {
                table.apply(event);
            }
            table.expire(world.now);
            prop_assert_eq!(table.list().count(), table.len());
            let mut asked = table.clone();
            for (way, app, socket, flow) in world.packets() {
                let want = spd.decide(app, &flow);
                let got = asked.decide(way, app, socket, &flow, world.now);
                prop_assert_eq!(got, Some(want), "{:?} {:?} {}", way, app, flow);
                if way == PacketDirection::In {
                    let mut accepted = Vec::new();
                    asked.arrivals(&flow, world.now, |app, decision| accepted.push((app, decision)));
                    prop_assert!(accepted.contains(&(app, want)), "{:?} {}", app, flow);
                }
            }
        }
        let left: Vec<u64> = world.sockets.keys().copied().collect();
        table.retain(world.now, world.now, |_| false);
        table.expire(world.now);
        prop_assert!(table.is_empty() && table.sockets() == 0 && table.list().next().is_none(), "{:?}", left);
    }

    /// No entry answers otherwise than the policy, whatever is asked, and none is for another application's packets.
    #[test]
    fn no_entry_says_anything_else(bodies in prop::collection::vec(body(), 3), steps in steps()) {
        let spd = Arc::new(spd(&bodies));
        let mut world = World::default();
        steps.into_iter().for_each(|step| world.step(step));
        let mut table = fed(&spd, &world.events, |_| true);
        for app in (1..4).map(AppId) {
            let ends = OWN.iter().flat_map(|own| PEERS.map(|peer| (ip(own), ip(peer))));
            for (own, peer) in ends.filter(|(own, peer)| can_reach(*own, *peer)) {
                for (local_port, remote_port) in NUMBERS.iter().flat_map(|l| NUMBERS.map(|r| (*l, r))) {
                    for (way, number) in [(PacketDirection::In, 6), (PacketDirection::Out, 6), (PacketDirection::In, 17), (PacketDirection::Out, 17)] {
                        let flow = Flow { opaque: false,
                            local: source(own, peer),
                            remote: peer,
                            local_port,
                            remote_port,
                            protocol: number,
                        };
                        if let Some(got) = table.decide(way, app, None, &flow, world.now) {
                            prop_assert_eq!(got, spd.decide(app, &flow));
                        }
                    }
                }
            }
        }
    }

    /// Exclusiveness (paper 000 section 3.4), level 1: what other applications do, and what their policies say, changes
    /// nothing. Level 2: nor do other sockets of the same application change what a socket's own flows get.
    #[test]
    fn others_change_nothing(
        bodies in prop::collection::vec(body(), 3),
        others in prop::collection::vec(body(), 3),
        steps in steps(),
    ) {
        let both = Arc::new(spd(&bodies));
        let mut world = World::default();
        steps.into_iter().for_each(|step| world.step(step));
        let mut all = fed(&both, &world.events, |_| true);
        for (at, app) in (1..4).map(AppId).enumerate() {
            let mut mixed = others.clone();
            mixed[at] = bodies[at].clone();
            let alone = Arc::new(spd(&mixed));
            let mut table = fed(&alone, &world.events, |event| event.app == app);
            for (way, _, socket, flow) in world.packets().into_iter().filter(|packet| packet.1 == app) {
                let action = |d: Option<sadb::spd::Decision>| d.map(|d| (d.action, d.why));
                let (a, b) = (
                    all.decide(way, app, socket, &flow, world.now),
                    table.decide(way, app, socket, &flow, world.now),
                );
                prop_assert_eq!(action(a), action(b), "{:?} {:?} {}", app, way, flow);
                if let Some(socket) = socket.filter(|socket| *socket != 99_999) {
                    let own = fed(&both, &world.events, |event| event.socket == socket)
                        .decide(way, app, Some(socket), &flow, world.now);
                    prop_assert_eq!(own, a, "socket {} alone: {}", socket, flow);
                }
            }
        }
    }

    /// A new policy: every entry is what the new one says, as if the sockets had made their calls under it.
    #[test]
    fn a_new_policy_translates_everything_again(
        old in prop::collection::vec(body(), 3),
        new in prop::collection::vec(body(), 3),
        steps in steps(),
    ) {
        let (old, new) = (Arc::new(spd(&old)), Arc::new(spd(&new)));
        let mut world = World::default();
        steps.into_iter().for_each(|step| world.step(step));
        let mut table = fed(&old, &world.events, |_| true);
        table.set_policy(Arc::clone(&new));
        prop_assert_eq!(table.list().count(), table.len());
        for (way, app, socket, flow) in world.packets() {
            let got = table.decide(way, app, socket, &flow, world.now);
            prop_assert_eq!(got, Some(new.decide(app, &flow)), "{:?} {:?} {}", way, app, flow);
        }
        table.set_policy(Arc::new(Spd::new(9)));
        prop_assert!(table.is_empty() && table.sockets() == 0);
    }

    /// However small, a table never answers wrongly, never grows beyond its limits, and is empty in the end.
    #[test]
    fn a_full_table_refuses(
        bodies in prop::collection::vec(body(), 3),
        steps in steps(),
        sockets in 1usize..5,
        entries in 1usize..12,
        destinations in 1usize..3,
    ) {
        let spd = Arc::new(spd(&bodies));
        let small = EntryLimits { sockets, entries, each_app: entries, destinations, ..EntryLimits::default() };
        let mut table = PerSocket::new(Arc::clone(&spd), small);
        let mut world = World::default();
        for step in steps {
            let from = world.events.len();
            world.step(step);
            for event in &world.events[from..] {
                table.apply(event);
                prop_assert!(table.len() <= entries && table.sockets() <= sockets);
                prop_assert_eq!(table.list().count(), table.len());
            }
            table.expire(world.now);
            for (way, app, socket, flow) in world.packets() {
                if let Some(got) = table.decide(way, app, socket, &flow, world.now) {
                    prop_assert_eq!(got, spd.decide(app, &flow));
                }
            }
        }
        table.retain(world.now, world.now, |_| false);
        table.expire(world.now + small.time_wait);
        prop_assert!(table.is_empty() && table.sockets() == 0);
    }
}
