//! Bursts do what packets one by one do: the same packets, drops, counters and numbers, whatever is mixed.

use crate::support;
use crate::{behind, inbound_queued, queued};

use crypto::SuiteId;
use engine::{Delivery, Dropped, Outcome, REMEMBERED};
use proptest::prelude::*;
use sadb::sa::{Counters, LifeState, Limits, OutboundState};
use sadb::spd::Level;
use sadb::{InboundSa, Mode, OutboundSa, ReplayState, SaConfig, Selectors, Spi};
use support::*;
use wire::burst::MAX_DATAGRAMS;
use wire::ip::Headers;
use wire::tcp::Flags;
use wire::{
    AppId, Buf, Burst, DropReason, Gso, GsoKind, Meta, OuterHeader, Packet, Pool, Prefix, Services, esp,
    protocol, stage,
};

/// The things that the host may hand over.
#[derive(Clone, Debug)]
enum Handed {
    /// A datagram of `len` octets with this type of service; `half` says that its checksum is left to us.
    Datagram { len: usize, tos: u8, half: bool },
    /// A datagram that is too long to be copied into a burst, of a flow that the cache knows from the second one on.
    Long { len: usize, tos: u8 },
    /// A datagram whose sender lets it be fragmented.
    Divisible { len: usize },
    /// A TCP segment that may be longer than the tunnel carries, or a super-packet if there is a size.
    Stream { len: usize, size: u16 },
    /// A run of datagrams.
    Run { len: usize, size: u16 },
    /// A datagram for the association that is bound to another application.
    Other { len: usize },
    /// A packet of an application without an association.
    Nobody,
    /// A packet without a stamp.
    Unstamped,
    /// The reading of the device ends here.
    Pause,
}

fn handed() -> impl Strategy<Value = Handed> {
    prop_oneof![
        4 => (0..1600_usize, prop_oneof![Just(0_u8), any::<u8>()], any::<bool>())
            .prop_map(|(len, tos, half)| Handed::Datagram { len, tos, half }),
        3 => (1..80_usize).prop_map(|len| Handed::Datagram { len: len % 3 * 100, tos: 0, half: false }),
        3 => (1900..9000_usize, prop_oneof![Just(0_u8), any::<u8>()]).prop_map(|(len, tos)| Handed::Long { len, tos }),
        1 => (1200..5000_usize).prop_map(|len| Handed::Divisible { len }),
        4 => (0..60_000_usize, prop_oneof![Just(0_u16), 1..1500_u16, 500..9000_u16])
            .prop_map(|(len, size)| Handed::Stream { len: len.min(usize::from(size) * 90 + 3000), size }),
        2 => (1..20_000_usize, 100..1500_u16).prop_map(|(len, size)| Handed::Run { len, size }),
        2 => (1..200_usize).prop_map(|len| Handed::Other { len }),
        1 => Just(Handed::Nobody),
        1 => Just(Handed::Unstamped),
        2 => Just(Handed::Pause),
    ]
}

const OTHER: AppId = AppId(8);
const NOBODY: AppId = AppId(9);

/// The packet as the device hands it over; `None` stands for a pause.
fn packet(handed: &Handed, v6: bool) -> Option<Packet<stage::Inner>> {
    let (alice, bob) = hosts(v6);
    let datagram = |app, len: usize, tos, df| {
        let payload: Vec<u8> = (0..len).map(|i| (i * 5) as u8).collect();
        stamped(app, &udp_packet((alice, 40000), (bob, 53), tos, df, &payload))
    };
    Some(match *handed {
        Handed::Datagram { len, tos, half } => {
            let mut packet = datagram(APP, len, tos, true);
            if half {
                packet.meta.gso = half_checksum(packet.bytes_mut(), 6);
            }
            packet
        }
        Handed::Long { len, tos } => datagram(APP, len, tos, true),
        Handed::Divisible { len } => datagram(APP, len, 0, false),
        Handed::Stream { len, size: 0 } => {
            let payload: Vec<u8> = (0..len).map(|i| (i * 3) as u8).collect();
            let flags = Flags(Flags::ACK.0 | Flags::PSH.0);
            stamped(APP, &tcp_packet((alice, 40000), (bob, 443), 9, flags, true, &payload))
        }
        Handed::Stream { len, size } => tcp_super(v6, 77, size, len).0,
        Handed::Run { len, size } => {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut bytes = udp_packet((alice, 40000), (bob, 53), 0, true, &payload);
            let gso = half_checksum(&mut bytes, 6);
            let mut packet = stamped(APP, &bytes);
            packet.meta.gso = Gso { kind: GsoKind::Udp, size, ..gso };
            packet
        }
        Handed::Other { len } => datagram(OTHER, len, 0, true),
        Handed::Nobody => datagram(NOBODY, 10, 0, true),
        Handed::Unstamped => from_host(&alice_to_bob(v6, 0, 10)),
        Handed::Pause => return None,
    })
}

/// An association of Alice's, with its state.
#[derive(Clone, Debug)]
struct Association {
    mode: Mode,
    suite: SuiteId,
    v6: bool,
    extended: bool,
    path_mtu: u16,
    /// The number of sequence numbers that are left.
    left: Option<u64>,
    hard: Limits,
}

fn association() -> impl Strategy<Value = Association> {
    let limits = prop_oneof![
        3 => Just(Limits::default()),
        1 => (1..60_u64).prop_map(|packets| Limits { packets, ..Limits::default() }),
        1 => (1..40_000_u64).prop_map(|bytes| Limits { bytes, ..Limits::default() }),
    ];
    let left = prop_oneof![3 => Just(None), 1 => (0..80_u64).prop_map(Some)];
    let way = (
        prop::sample::select(&MODES[..]),
        prop::sample::select(queued::suites()),
        any::<bool>(),
        any::<bool>(),
    );
    (way, prop::sample::select(&[1280_u16, 1500, 9000][..]), left, limits).prop_map(
        |((mode, suite, v6, extended), path_mtu, left, hard)| Association {
            mode,
            suite,
            v6,
            extended,
            path_mtu,
            left,
            hard,
        },
    )
}

impl Association {
    fn config(&self) -> SaConfig {
        let mut config = outbound_config(self.mode, self.suite, self.v6);
        config.path_mtu = self.path_mtu;
        config.options.extended_sequence = self.extended;
        config.options.lifetime.hard = self.hard;
        config.selectors.app = Some(APP);
        config
    }

    fn other(&self) -> SaConfig {
        let mut config = outbound_config(Mode::Tunnel, SuiteId::CHACHA20_POLY1305, self.v6);
        config.keymat = keymat(config.suite, 9);
        config.spi = Spi(SPI + 1);
        config.selectors = Selectors { app: Some(OTHER), ..Selectors::ANY };
        config
    }

    fn sender(&self) -> Sender {
        let registry = crypto_std::registry().unwrap();
        let mut spd = mandatory();
        for app in [OTHER, NOBODY] {
            spd.insert(app, policy_of());
        }
        let mut sender = Sender::new(spd, &[self.other()]);
        let last = if self.extended { u64::MAX - 1 } else { u64::from(u32::MAX) };
        let state = OutboundState {
            config: self.config(),
            next_sequence: self.left.map_or(1, |left| last - left + 1),
            packets: 0,
            bytes: 0,
            last_used: NOW,
            added: NOW,
            first_used: None,
            life: LifeState::Mature,
        };
        sender.engine.add_sa(OutboundSa::import(state, &registry).unwrap()).unwrap();
        sender
    }

    fn receiver(&self) -> Receiver {
        Receiver::new(&[self.config(), self.other()])
    }
}

fn policy_of() -> sadb::spd::AppPolicy {
    use sadb::spd::{AppPolicy, Class, Item, Network, PortRange, RuleId};
    let item = Item::new(PortRange::ANY, PortRange::ANY, Services::ENCRYPTED, Level::Mandatory, RuleId(2));
    AppPolicy::new(
        vec![Network { prefix: Prefix::ANY, class: Class::Protected(0), rule: RuleId(1) }],
        vec![vec![item]],
    )
}

/// A datagram on the wire: its headers, and ESP.
type SentDatagram = (OuterHeader, Vec<u8>);

/// The results that came out of a sender.
#[derive(Debug, Default, PartialEq)]
struct Came {
    sent: Vec<SentDatagram>,
    dropped: Vec<Dropped>,
    replies: Vec<(Vec<u8>, u32)>,
}

fn take(outcomes: Vec<Outcome>, pool: &mut Pool, came: &mut Came, bursts: &mut Vec<usize>) {
    for outcome in outcomes {
        match outcome {
            Outcome::Send(packet) => {
                let headers = Headers::parse(packet.bytes()).unwrap();
                assert_eq!(headers.protocol, protocol::UDP);
                let header = OuterHeader {
                    src: headers.src,
                    dst: headers.dst,
                    src_port: 4500,
                    dst_port: 4500,
                    tos: headers.tos,
                    ttl: headers.ttl,
                    may_fragment: packet.meta.may_fragment,
                };
                let esp = headers.upper(packet.bytes())[8..].to_vec();
                assert_eq!(packet.meta.sequence as u32, u32::from_be_bytes(esp[4..8].try_into().unwrap()));
                came.sent.push((header, esp));
                pool.put(packet.into_buf());
            }
            Outcome::Burst(burst) => {
                bursts.push(burst.count());
                for (index, datagram) in burst.datagrams().enumerate() {
                    let sequence = burst.meta.sequence + index as u64;
                    assert_eq!(sequence as u32, u32::from_be_bytes(datagram[4..8].try_into().unwrap()));
                    came.sent.push((burst.header, datagram.to_vec()));
                }
                pool.put(burst.into_buf());
            }
            Outcome::Drop(dropped) => came.dropped.push(dropped),
            Outcome::Reply(packet, mark) => came.replies.push((packet.bytes().to_vec(), mark)),
            other => panic!("{other:?}"),
        }
    }
}

/// What these outcomes send, as a receiver delivers it.
pub fn delivered(outcomes: Vec<Outcome>, alice: &mut Sender, bob: &mut Receiver) -> Vec<(Vec<u8>, u32)> {
    let mut came = Came::default();
    take(outcomes, &mut alice.pool, &mut came, &mut Vec::new());
    receive_singly(bob, &came.sent)
}

/// What these outcomes send, as packets with their outer headers.
pub fn packets(outcomes: Vec<Outcome>, alice: &mut Sender) -> Vec<Vec<u8>> {
    let mut came = Came::default();
    take(outcomes, &mut alice.pool, &mut came, &mut Vec::new());
    let whole = |(header, bytes): &SentDatagram| {
        let mut buf = Buf::from_slice(bytes, 64, 0);
        header.push(&mut buf).unwrap();
        buf.as_slice().to_vec()
    };
    came.sent.iter().map(whole).collect()
}

/// Hand packets over to a sender. Bursts leave at each pause.
fn send(sender: &mut Sender, all: &[Handed], v6: bool) -> (Came, Vec<usize>) {
    let (mut came, mut bursts) = (Came::default(), Vec::new());
    for handed in all.iter().chain([&Handed::Pause]) {
        let mut outcomes = Vec::new();
        match packet(handed, v6) {
            Some(packet) => sender.engine.handle(NOW, packet, &mut sender.pool, &mut outcomes),
            None => sender.engine.flush(&mut sender.pool, &mut outcomes),
        }
        take(outcomes, &mut sender.pool, &mut came, &mut bursts);
    }
    (came, bursts)
}

/// The units of graphs: one that works at once, one that answers later, one that works in steps.
const UNITS: &[&str] = &[queued::INLINE, queued::WORKER, queued::SLICED];

/// Hand packets over to a sender in which they wait in a graph of one queue. Turns are taken at each pause.
fn send_queued(sender: &mut Sender, all: &[Handed], v6: bool) -> Came {
    let (mut came, mut bursts) = (Came::default(), Vec::new());
    for handed in all.iter().chain([&Handed::Pause]) {
        let mut outcomes = Vec::new();
        match packet(handed, v6) {
            Some(packet) => sender.engine.receive(NOW, packet, &mut sender.pool, &mut outcomes),
            None => queued::work(sender, NOW, &mut outcomes),
        }
        take(outcomes, &mut sender.pool, &mut came, &mut bursts);
    }
    assert!(sender.engine.graph().unwrap().graph().conserved());
    assert_eq!(sender.engine.graph().unwrap().waiting().0, 0);
    came
}

fn tallies(sender: &Sender) -> impl PartialEq + std::fmt::Debug + use<> {
    let tally = sender.engine.stats();
    let sas: Vec<_> = sender
        .engine
        .sad()
        .list()
        .map(|(_, sa)| (sa.spi(), sa.next_sequence(), sa.counters.clone(), sa.life.state()))
        .collect();
    (tally.protected, tally.replies, tally.clear, tally.drops().collect::<Vec<_>>(), sas)
}

/// Datagrams as UDP_GRO joins them: alike in headers and length, the last perhaps shorter.
fn join(datagrams: &[SentDatagram]) -> Vec<(OuterHeader, usize, Vec<u8>)> {
    let mut bursts: Vec<(OuterHeader, usize, Vec<u8>)> = Vec::new();
    for (header, bytes) in datagrams {
        if let Some((first, stride, joined)) = bursts.last_mut()
            && first == header
            && !bytes.is_empty()
            && !joined.is_empty()
            && bytes.len() <= *stride
            && joined.len() % *stride == 0
            && joined.len() / *stride < MAX_DATAGRAMS
            && joined.len() + bytes.len() <= 65_000
        {
            joined.extend(bytes);
        } else {
            bursts.push((*header, bytes.len().max(1), bytes.clone()));
        }
    }
    bursts
}

/// The things that may happen to a datagram on its way.
#[derive(Clone, Debug)]
enum Mishap {
    None,
    Lost,
    /// The datagram comes a second time, this many places later.
    Again(usize),
    /// One bit of the datagram is changed.
    Bit(usize),
    Short(usize),
    Stranger,
    Congestion,
    WrongPeer,
    Keepalive,
    Ike,
    Empty,
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        12 => Just(Mishap::None),
        1 => Just(Mishap::Lost),
        2 => (0..70_usize).prop_map(Mishap::Again),
        2 => any::<usize>().prop_map(Mishap::Bit),
        1 => (0..40_usize).prop_map(Mishap::Short),
        1 => Just(Mishap::Stranger),
        1 => Just(Mishap::Congestion),
        1 => Just(Mishap::WrongPeer),
        1 => Just(Mishap::Keepalive),
        1 => Just(Mishap::Ike),
        1 => Just(Mishap::Empty),
    ]
}

fn mangle(sent: &[SentDatagram], mishaps: &[Mishap]) -> Vec<SentDatagram> {
    let mut out: Vec<(usize, SentDatagram)> = Vec::new();
    for (at, (header, bytes)) in sent.iter().enumerate() {
        let (mut header, mut bytes) = (*header, bytes.clone());
        header.may_fragment = false;
        let at = at * 1000;
        match mishaps.get(at / 1000 % mishaps.len().max(1)).unwrap_or(&Mishap::None) {
            Mishap::None => {}
            Mishap::Lost => continue,
            Mishap::Again(later) => out.push((at + later * 1000 + 1, (header, bytes.clone()))),
            Mishap::Bit(bit) => {
                let bit = bit % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Mishap::Short(len) => bytes.truncate(*len),
            Mishap::Stranger => bytes[..4].copy_from_slice(&[9, 8, 7, 6]),
            Mishap::Congestion => header.tos |= 3,
            Mishap::WrongPeer => header.src = header.dst,
            Mishap::Keepalive => out.push((at + 1, (header, vec![0xff]))),
            Mishap::Ike => out.push((at + 1, (header, vec![0; bytes.len()]))),
            Mishap::Empty => out.push((at + 1, (header, Vec::new()))),
        }
        out.push((at, (header, bytes)));
    }
    out.sort_by_key(|(at, _)| *at);
    out.into_iter().map(|(_, sent)| sent).collect()
}

type ReceivedPackets = Vec<(Vec<u8>, u32)>;

fn receive_singly(bob: &mut Receiver, all: &[SentDatagram]) -> ReceivedPackets {
    let mut got = Vec::new();
    for (header, bytes) in all {
        let mut buf = Buf::from_slice(bytes, 64, 0);
        header.push(&mut buf).unwrap();
        let mut out = Vec::new();
        let meta = Meta { tos: header.tos, ..Meta::default() };
        bob.engine.handle(NOW, Packet::raw(buf, meta), &mut bob.pool, &mut out);
        for outcome in out {
            if let engine::InboundOutcome::Deliver(packet, mark) = outcome {
                got.push((packet.bytes().to_vec(), mark));
            }
        }
    }
    got
}

fn receive_bursts(bob: &mut Receiver, all: &[SentDatagram]) -> ReceivedPackets {
    let mut delivery = Delivery::new();
    for (header, stride, bytes) in join(all) {
        let mut buf = bob.pool.take();
        buf.push_back(bytes.len()).unwrap().copy_from_slice(&bytes);
        let burst = Burst::raw(buf, header, stride, NOW).unwrap();
        bob.engine.handle_burst(NOW, burst, &mut bob.pool, &mut delivery);
    }
    let got: ReceivedPackets = delivery.packets().map(|(bytes, mark)| (bytes.to_vec(), mark)).collect();
    let mut in_trains: ReceivedPackets = Vec::new();
    delivery
        .coalesced(|train| in_trains.extend(train.packets().iter().map(|one| (one.to_vec(), train.mark))));
    let sorted = |mut all: ReceivedPackets| {
        all.sort();
        all
    };
    assert_eq!(sorted(in_trains), sorted(got.clone()), "every packet is in one train");
    delivery.clear(&mut bob.pool);
    assert!(delivery.is_empty());
    got
}

type State =
    (engine::Traffic, Vec<(DropReason, u64)>, Vec<Dropped>, Vec<(Spi, Counters, ReplayState, LifeState)>);

fn state(bob: &Receiver) -> State {
    let tally = bob.engine.stats();
    let mut sas: Vec<_> = bob
        .engine
        .sad()
        .list()
        .map(|sa: &InboundSa| (sa.spi(), sa.counters.clone(), sa.replay.export(), sa.life.state()))
        .collect();
    sas.sort_by_key(|(spi, ..)| *spi);
    let last: Vec<Dropped> = tally.last_drops().copied().collect();
    (tally.protected, tally.drops().collect::<Vec<_>>(), last, sas)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bursts_are_packets_one_by_one(
        association in association(),
        all in prop::collection::vec(handed(), 1..40),
        mishaps in prop::collection::vec(mishap(), 1..90),
    ) {
        let v6 = association.v6;
        let mut one = association.sender();
        let mut many = association.sender();
        many.engine = many.engine.gathering();
        let (singly, _) = send(&mut one, &all, v6);
        let (gathered, bursts) = send(&mut many, &all, v6);
        prop_assert_eq!(&singly.sent.len(), &gathered.sent.len());
        for (one, many) in singly.sent.iter().zip(&gathered.sent) {
            prop_assert_eq!(one, many);
        }
        prop_assert_eq!(&singly.dropped, &gathered.dropped);
        prop_assert_eq!(&singly.replies, &gathered.replies);
        prop_assert_eq!(tallies(&one), tallies(&many));
        prop_assert!(bursts.iter().all(|count| (1..=MAX_DATAGRAMS).contains(count)));

        let arrived = mangle(&gathered.sent, &mishaps);
        let (mut one, mut many) = (association.receiver(), association.receiver());
        prop_assert!(receive_singly(&mut one, &arrived) == receive_bursts(&mut many, &arrived));
        let (one, many) = (state(&one), state(&many));
        prop_assert_eq!(&one.1, &many.1);
        prop_assert!(one == many);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_graph_of_one_queue_does_what_no_graph_does(
        association in association(),
        all in prop::collection::vec(handed(), 1..40),
        every_hook in any::<bool>(),
        units in prop::sample::select(UNITS),
    ) {
        let v6 = association.v6;
        let (mut without, mut with) = (association.sender(), association.sender());
        without.engine = without.engine.gathering();
        with.engine = with.engine.gathering();
        let mut out = Vec::new();
        let graph = match every_hook {
            true => behind::every_hook_and(units).0,
            false => queued::one_queue_and(units),
        };
        with.engine.set_graph(NOW, Some(graph), &mut with.pool, &mut out);
        let (plain, _) = send(&mut without, &all, v6);
        let queued = send_queued(&mut with, &all, v6);
        prop_assert_eq!(&plain.sent.len(), &queued.sent.len());
        for (plain, queued) in plain.sent.iter().zip(&queued.sent) {
            prop_assert_eq!(plain, queued);
        }
        prop_assert_eq!(sorted(&plain.dropped), sorted(&queued.dropped));
        prop_assert_eq!(&plain.replies, &queued.replies);
        prop_assert_eq!(tallies(&without), tallies(&with));
    }
}

/// Receive datagrams that wait in a graph of one queue. Turns are taken after every `pace` bursts or packets.
fn receive_queued(bob: &mut Receiver, all: &[SentDatagram], singly: bool, pace: usize) -> ReceivedPackets {
    let (mut delivery, mut out) = (Delivery::new(), Vec::new());
    let count = if singly { 1 } else { usize::MAX };
    let bursts = if singly { all.chunks(count).flat_map(join).collect() } else { join(all) };
    for (at, (header, stride, bytes)) in bursts.into_iter().enumerate() {
        let Receiver { engine, pool } = &mut *bob;
        if singly {
            let mut buf = Buf::from_slice(&bytes, 64, 0);
            header.push(&mut buf).unwrap();
            let meta = Meta { tos: header.tos, ..Meta::default() };
            engine.receive(NOW, Packet::raw(buf, meta), pool, &mut out, &mut delivery);
        } else {
            let mut buf = pool.take();
            buf.push_back(bytes.len()).unwrap().copy_from_slice(&bytes);
            let burst = Burst::raw(buf, header, stride, NOW).unwrap();
            engine.receive_burst(NOW, burst, pool, &mut out, &mut delivery);
        }
        if at % pace == 0 {
            inbound_queued::work(bob, NOW, &mut delivery);
        }
    }
    inbound_queued::work(bob, NOW, &mut delivery);
    assert!(out.is_empty());
    let graph = bob.engine.graph().unwrap();
    assert!(graph.graph().conserved());
    assert_eq!(graph.waiting().0, 0);
    let got = delivery.packets().map(|(bytes, mark)| (bytes.to_vec(), mark)).collect();
    delivery.clear(&mut bob.pool);
    got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_inbound_graph_of_one_queue_does_what_no_graph_does(
        association in association(),
        all in prop::collection::vec(handed(), 1..40),
        mishaps in prop::collection::vec(mishap(), 1..90),
        singly in any::<bool>(),
        pace in 1..20_usize,
        every_hook in any::<bool>(),
        units in prop::sample::select(UNITS),
    ) {
        let mut alice = association.sender();
        alice.engine = alice.engine.gathering();
        let (came, _) = send(&mut alice, &all, association.v6);
        let arrived = mangle(&came.sent, &mishaps);
        let (mut without, mut with) = (association.receiver(), association.receiver());
        let graph = match every_hook {
            true => behind::every_hook_and(units).1,
            false => inbound_queued::with(inbound_queued::EVERY, units),
        };
        inbound_queued::set(&mut with, Some(graph));
        let plain = if singly { receive_singly(&mut without, &arrived) } else { receive_bursts(&mut without, &arrived) };
        let queued = receive_queued(&mut with, &arrived, singly, pace);
        prop_assert!(plain == queued, "{} and {} packets", plain.len(), queued.len());
        let (without, with) = (state(&without), state(&with));
        prop_assert_eq!(without.0, with.0);
        prop_assert_eq!(&without.1, &with.1);
        prop_assert_eq!(remembered(&without.2), remembered(&with.2));
        prop_assert_eq!(&without.3, &with.3);
    }
}

/// Drops without regard to their order: some are known before a packet waits, and some when its turn comes.
fn sorted(drops: &[Dropped]) -> Vec<String> {
    let mut all: Vec<String> = drops.iter().map(|dropped| format!("{dropped:?}")).collect();
    all.sort();
    all
}

/// Drops that are remembered, without regard to their order. A kind that has more of them than are remembered counts
/// by its number alone: which of them are the latest depends on the order.
fn remembered(drops: &[Dropped]) -> Vec<String> {
    let of_kind = |one: &Dropped| {
        drops.iter().filter(|other| (other.app, other.reason) == (one.app, one.reason)).count()
    };
    let (full, kept): (Vec<Dropped>, Vec<Dropped>) = drops.iter().partition(|one| of_kind(one) >= REMEMBERED);
    let full = full.iter().map(|one| format!("{:?} of {:?}", one.reason, one.app));
    let mut all: Vec<String> = full.chain(sorted(&kept)).collect();
    all.sort();
    all
}

/// Everything that is sent as a packet of its own, octet by octet, with its metadata.
fn alone(sender: &mut Sender, all: &[Handed]) -> Vec<(Vec<u8>, String)> {
    let mut sent = Vec::new();
    for packet in all.iter().filter_map(|handed| packet(handed, false)) {
        let mut outcomes = Vec::new();
        sender.engine.handle(NOW, packet, &mut sender.pool, &mut outcomes);
        for outcome in outcomes {
            if let Outcome::Send(packet) = outcome {
                sent.push((packet.bytes().to_vec(), format!("{:?}", packet.meta)));
            }
        }
    }
    sent
}

proptest! {
    #[test]
    fn what_is_sealed_where_it_lies_is_the_same_octets(
        hard in prop_oneof![3 => Just(Limits::default()), 1 => (1..20_u64).prop_map(|packets| Limits { packets, ..Limits::default() })],
        left in prop_oneof![3 => Just(None), 1 => (0..20_u64).prop_map(Some)],
        all in prop::collection::vec((1900..9000_usize, 0..3_u8).prop_map(|(len, tos)| Handed::Long { len, tos }), 2..30),
    ) {
        let association = Association { path_mtu: 9000, left, hard, ..tunnel() };
        let (mut one, mut many) = (association.sender(), gathering(&association));
        let (singly, gathered) = (alone(&mut one, &all), alone(&mut many, &all));
        // Those that a burst could take are in one.
        let singly: Vec<_> = singly.into_iter().filter(|(bytes, _)| bytes.len() > 2400).collect();
        let gathered: Vec<_> = gathered.into_iter().filter(|(bytes, _)| bytes.len() > 2400).collect();
        prop_assert_eq!(singly, gathered);
    }
}

fn tunnel() -> Association {
    Association {
        mode: Mode::Tunnel,
        suite: SuiteId::AES_128_GCM,
        v6: false,
        extended: false,
        path_mtu: 1500,
        left: None,
        hard: Limits::default(),
    }
}

fn gathering(association: &Association) -> Sender {
    let mut sender = association.sender();
    sender.engine = sender.engine.gathering();
    sender
}

#[test]
fn super_packets_of_the_tunnels_size_fill_bursts_to_the_brim() {
    let mut alice = gathering(&tunnel());
    // Inner MTU 1438 - 40 octets of headers: 40 segments of 1398 to a super-packet.
    let piece = Handed::Stream { len: 1398 * 40, size: 1398 };
    let (came, bursts) = send(&mut alice, &[piece.clone(), piece.clone(), piece], false);
    assert_eq!(came.sent.len(), 120);
    let stride = came.sent[0].1.len();
    let most = (wire::burst::MAX_LEN_V4 / stride).min(MAX_DATAGRAMS);
    assert_eq!(bursts, [most, most, 120 - 2 * most]);
}

#[test]
fn one_packet_waits_for_no_other() {
    let mut alice = gathering(&tunnel());
    let (came, bursts) = send(&mut alice, &[Handed::Datagram { len: 100, tos: 0, half: false }], false);
    assert_eq!((came.sent.len(), bursts), (1, vec![1]));
    let (mut out, pool) = (Vec::new(), &mut alice.pool);
    alice.engine.flush(pool, &mut out);
    assert!(out.is_empty(), "nothing is left");
}

#[test]
fn a_burst_whose_association_goes_ends_with_it() {
    let mut alice = gathering(&tunnel());
    let mut out = Vec::new();
    for _ in 0..3 {
        let packet = stamped(APP, &alice_to_bob(false, 0, 100));
        alice.engine.handle(NOW, packet, &mut alice.pool, &mut out);
    }
    assert!(out.is_empty());
    alice.engine.remove_sa(Spi(SPI), hosts(false).1).unwrap();
    alice.engine.flush(&mut alice.pool, &mut out);
    // The first is reported for all of them.
    let [Outcome::Drop(dropped)] = out[..] else { panic!("{out:?}") };
    assert_eq!((dropped.reason, dropped.app, dropped.spi, dropped.sequence), (DropReason::NoSa, APP, SPI, 1));
    assert_eq!(alice.engine.stats().drops_for(DropReason::NoSa), 3);
    assert_eq!(alice.engine.stats().protected.packets, 0);
}

#[test]
fn a_burst_is_opened_where_it_lies_in_both_modes_and_families() {
    for (mode, v6) in
        [Mode::Tunnel, Mode::Transport].into_iter().flat_map(|mode| [(mode, false), (mode, true)])
    {
        let association = Association { mode, v6, ..tunnel() };
        let mut sender = gathering(&association);
        let (came, bursts) = send(&mut sender, &[Handed::Stream { len: 40_000, size: 1000 }], v6);
        assert_eq!((bursts.len(), came.sent.len()), (1, 40), "{mode} {v6}");
        let mut bob = Receiver::new(&[association.config()]);
        assert_eq!(receive_bursts(&mut bob, &came.sent).len(), 40, "{mode} {v6}");
        // The one that was received, and one with room in front of each datagram. A packet that leaves its burst takes
        // one of its own.
        assert!(bob.pool.allocated() <= 2, "{mode} {v6}: {} buffers", bob.pool.allocated());
    }
}

#[test]
fn inner_fragments_of_a_burst_are_joined() {
    let association = tunnel();
    let (alice, bob) = hosts(false);
    let payload: Vec<u8> = (0..3000).map(|i| (i * 7) as u8).collect();
    let whole = udp_packet((alice, 40000), (bob, 53), 0, false, &payload);
    // Sealed by hand: our own engine sends no fragments.
    let registry = crypto_std::registry().unwrap();
    let mut sa = OutboundSa::new(association.config(), &registry).unwrap();
    let mut pool = pool();
    let mut sealed = Vec::new();
    for piece in fragment(&whole, 5, 1000) {
        let Ok(outer) = ipsec::encap(&mut sa, scheduled_out(&piece), &mut pool) else { panic!("not sealed") };
        let headers = Headers::parse(outer.bytes()).unwrap();
        let header = OuterHeader {
            src: alice,
            dst: bob,
            src_port: 4500,
            dst_port: 4500,
            tos: 0,
            ttl: 64,
            may_fragment: false,
        };
        sealed.push((header, headers.upper(outer.bytes())[8..].to_vec()));
    }
    assert_eq!(join(&sealed).len(), 1, "they travel as one burst");
    let (mut one, mut many) = (association.receiver(), association.receiver());
    let got = receive_bursts(&mut many, &sealed);
    assert_eq!(got, receive_singly(&mut one, &sealed));
    assert_eq!(state(&one), state(&many));
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].0[20..], whole[20..]);
}

#[test]
fn a_forgery_that_uses_a_number_again_is_a_replay_within_a_burst_too() {
    let association = tunnel();
    let (came, _) =
        send(&mut association.sender(), &vec![Handed::Datagram { len: 64, tos: 0, half: false }; 4], false);
    let mut sent = came.sent;
    let (header, mut forged) = sent[1].clone();
    forged[20] ^= 1;
    sent.insert(2, (header, forged.clone()));
    sent.push((header, forged));
    let mut bob = association.receiver();
    assert_eq!(receive_bursts(&mut bob, &sent).len(), 4);
    assert_eq!(bob.engine.stats().drops_for(DropReason::Replayed), 2);
    assert_eq!(bob.engine.stats().drops_for(DropReason::AuthFailed), 0);
    let spi = esp::Esp::new_checked(&sent[0].1[..]).unwrap().spi();
    assert_eq!(bob.engine.sad().get(Spi(spi)).unwrap().counters.drops_for(DropReason::Replayed), 2);
}

#[test]
fn a_wrong_inner_checksum_stays_wrong() {
    let association = tunnel();
    let (from, to) = hosts(false);
    let segment =
        |i: u32| tcp_packet((from, 40000), (to, 443), 9 + i * 500, Flags::ACK, true, &[i as u8; 500]);
    let mut segments: Vec<_> = (0..5).map(segment).collect();
    segments[2][300] ^= 1;
    let mut alice = gathering(&association);
    let (mut came, mut out) = (Came::default(), Vec::new());
    for segment in &segments {
        alice.engine.handle(NOW, stamped(APP, segment), &mut alice.pool, &mut out);
    }
    alice.engine.flush(&mut alice.pool, &mut out);
    take(out, &mut alice.pool, &mut came, &mut Vec::new());
    let mut bob = association.receiver();
    let mut delivery = Delivery::new();
    for (header, stride, bytes) in join(&came.sent) {
        let burst = Burst::raw(Buf::from_slice(&bytes, 64, 0), header, stride, NOW).unwrap();
        bob.engine.handle_burst(NOW, burst, &mut bob.pool, &mut delivery);
    }
    let mut trains = Vec::new();
    delivery
        .coalesced(|train| trains.push(train.packets().iter().map(|one| one.to_vec()).collect::<Vec<_>>()));
    // The one that somebody changed before the tunnel took it in goes as it came, for the host to refuse it (RFC 3948
    // 3.1.2).
    assert_eq!(trains, [&segments[..2], &segments[2..3], &segments[3..]]);
}
