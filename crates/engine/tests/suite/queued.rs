//! The outbound half with a graph: who leaves first, under which number, and what becomes of those who do not leave.

use std::sync::Arc;

use crate::faulty::{Fault, Plan};
use crate::support;

use crypto::SuiteId;
use engine::{OutboundGraph, Outcome};
use qos::Direction;
use qos::graph::description::HookPoint;
use qos::graph::{House, check, compile, preset};
use qos::node::Wake;
use sadb::spd::Spd;
use sadb::{Mode, OutboundSa, SaConfig, Spi};
use support::*;
use wire::{DropReason, Packet, Time, stage};

/// Expedited forwarding and best effort, expedited first.
pub const TWO: &str = r#"
discipline = "strict"
stages = [1, 3, 5]
guard = "100%"

[class.ef]
match = [{ dscp = ["EF"] }]
priority = true
limit = { packets = 1000 }
unpoliced = true

[class.be]
match = "rest"
limit = { packets = 600 }
"#;

/// The suites of the tests, by the numbers that the graphs here have for them.
fn house() -> House {
    House { known_suites: suites().iter().map(ToString::to_string).collect(), ..House::default() }
}

/// The suites of the tests: those of the fast path, one that is sealed and opened in steps, and that of AH.
pub fn suites() -> Vec<SuiteId> {
    SUITES.into_iter().chain([stepped(), crate::auth::sha256()]).collect()
}

/// A suite of a cipher and a MAC, each of which works in steps.
pub fn stepped() -> SuiteId {
    "aes256cbc-sha256".parse().unwrap()
}

/// A graph of this text for the outbound half.
pub fn graph(text: &str) -> Box<OutboundGraph> {
    let house = house();
    let description = check(text, &house).unwrap_or_else(|faults| panic!("{faults:#?}"));
    of(&description, &house)
}

fn of(description: &qos::graph::Description, house: &House) -> Box<OutboundGraph> {
    let compiled =
        compile(description, house, Direction::Outbound, 7).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let suites = suites().into_iter().zip(0..).collect();
    Box::new(OutboundGraph::new(compiled, suites, 11).unwrap())
}

/// One queue for all, which is never full.
pub fn one_queue() -> Box<OutboundGraph> {
    graph("[class.every]\nmatch = \"rest\"\nlimit = { packets = 1000000 }\n")
}

/// The same with these units.
pub fn one_queue_and(units: &str) -> Box<OutboundGraph> {
    graph(&format!("[class.every]\nmatch = \"rest\"\nlimit = {{ packets = 1000000 }}\n{units}"))
}

/// A unit that answers later.
pub const WORKER: &str = "[unit.thread]\nkind = \"worker\"\n";

/// A unit that works at once, in short turns.
pub const INLINE: &str =
    "[unit.inline]\nkind = \"inline\"\nlow = \"2us\"\nhigh = \"4us\"\nmost_committed = \"4us\"\n";

/// A unit that works in steps.
pub const SLICED: &str = "[unit.slow]\nkind = \"sliced\"\nstep = \"100ns\"\n";

/// Look up and take turns until nothing waits.
pub fn work(sender: &mut Sender, now: Time, out: &mut Vec<Outcome>) {
    let Sender { engine, pool } = sender;
    for _ in 0..100_000 {
        engine.look_up(now, 64, pool, out);
        let any = engine.turn(now, pool, out);
        // A unit that answers later answers at once here.
        while let Some(mut work) = engine.take_work() {
            work.compute();
            work.set_spent(work.expected());
            engine.answer(now, work, pool, out);
        }
        let mut wake = engine.settle(now);
        while engine.step(now, pool, out) {
            wake = engine.settle(now);
        }
        if !any && !matches!(wake, Wake::At(time) if time <= now) {
            return;
        }
    }
    panic!("it never ends");
}

pub fn sender(spd: Spd, configs: &[SaConfig], text: &str) -> Sender {
    let mut sender = Sender::new(spd, configs);
    sender.engine = sender.engine.gathering();
    set(&mut sender, Some(graph(text)));
    sender
}

pub fn set(sender: &mut Sender, graph: Option<Box<OutboundGraph>>) -> Vec<Outcome> {
    let mut out = Vec::new();
    sender.engine.set_graph(NOW, graph, &mut sender.pool, &mut out);
    out
}

pub fn receive(sender: &mut Sender, packet: Packet<stage::Inner>) -> Vec<Outcome> {
    let mut out = Vec::new();
    sender.engine.receive(NOW, packet, &mut sender.pool, &mut out);
    out
}

/// One round of look-ups and one turn.
pub fn turn(sender: &mut Sender) -> Vec<Outcome> {
    let mut out = Vec::new();
    sender.engine.look_up(NOW, 1000, &mut sender.pool, &mut out);
    sender.engine.turn(NOW, &mut sender.pool, &mut out);
    sender.engine.settle(NOW);
    out
}

pub const EF: u8 = 46 << 2;

pub fn datagram(tos: u8, len: usize) -> Packet<stage::Inner> {
    let (alice, bob) = hosts(false);
    stamped(APP, &udp_packet((alice, 40000), (bob, 53), tos, true, &vec![tos; len]))
}

/// The ESP packets that left, with their type of service and sequence number, in their order.
pub fn left(outcomes: &[Outcome]) -> Vec<(u8, u64)> {
    let mut all = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Send(packet) => {
                let tos = wire::ip::Headers::parse(packet.bytes()).unwrap().tos;
                all.push((tos, packet.meta.sequence));
            }
            Outcome::Burst(burst) => {
                all.extend((0..burst.count() as u64).map(|at| (burst.header.tos, burst.meta.sequence + at)));
            }
            _ => {}
        }
    }
    all
}

pub fn reasons(outcomes: &[Outcome]) -> Vec<DropReason> {
    let reason = |outcome: &Outcome| match outcome {
        Outcome::Drop(dropped) => Some(dropped.reason),
        _ => None,
    };
    outcomes.iter().filter_map(reason).collect()
}

pub fn gcm() -> SaConfig {
    outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false)
}

#[test]
fn an_expedited_packet_leaves_before_those_that_wait_and_takes_its_number_late() {
    let mut alice = sender(mandatory(), &[gcm()], TWO);
    for _ in 0..500 {
        assert!(receive(&mut alice, datagram(0, 1000)).is_empty());
    }
    // The first turn begins with what there is.
    let first = left(&turn(&mut alice));
    assert!(!first.is_empty() && first.len() < 500, "{}", first.len());
    receive(&mut alice, datagram(EF, 100));
    let second = left(&turn(&mut alice));
    let next = first.last().unwrap().1 + 1;
    assert_eq!(second[0], (EF, next), "it is first, and no number was set aside for the others");
    let mut out = Vec::new();
    work(&mut alice, NOW, &mut out);
    let all: Vec<_> = [first, second, left(&out)].concat();
    assert_eq!(all.len(), 501);
    assert!(
        all.iter().zip(1..).all(|((_, sequence), at)| *sequence == at),
        "numbers follow one another as packets leave"
    );
    assert!(alice.engine.graph().unwrap().graph().conserved());
}

#[test]
fn packets_of_two_classes_are_in_no_burst_together() {
    let mut alice = sender(mandatory(), &[gcm()], TWO);
    for n in 0..40 {
        receive(&mut alice, datagram(if n % 2 == 0 { EF } else { 0 }, 400));
    }
    let mut out = Vec::new();
    work(&mut alice, NOW, &mut out);
    let tos: Vec<u8> = left(&out).iter().map(|(tos, _)| *tos).collect();
    assert_eq!(tos, [[EF; 20], [0; 20]].concat());
}

/// The type of service and the name of the class of each piece that left, in their order.
fn classes(sender: &Sender, outcomes: &[Outcome]) -> Vec<(u8, String)> {
    let graph = sender.engine.graph().unwrap().graph();
    let mut all = Vec::new();
    for outcome in outcomes {
        let (tos, class, count) = match outcome {
            Outcome::Send(packet) => {
                let tos = wire::ip::Headers::parse(packet.bytes()).unwrap().tos;
                (tos, packet.meta.aggregate, 1)
            }
            Outcome::Burst(burst) => (burst.header.tos, burst.meta.aggregate, burst.count()),
            _ => continue,
        };
        let name = graph.aggregates().name(class).unwrap_or_default();
        all.extend(std::iter::repeat_n((tos, name.to_owned()), count));
    }
    all
}

/// Datagrams of both classes, and a stream, with what was done to them before their turn; the classes with which they left.
fn classes_that_left(
    text: &str,
    configs: &[SaConfig],
    before: impl FnOnce(&mut Sender),
) -> Vec<(u8, String)> {
    let mut alice = sender(mandatory(), configs, text);
    for n in 0..40 {
        receive(&mut alice, datagram(if n % 2 == 0 { EF } else { 0 }, 400));
    }
    receive(&mut alice, tcp_super(false, 5, 1000, 8_000).0);
    let mut out = Vec::new();
    alice.engine.look_up(NOW, 1000, &mut alice.pool, &mut out);
    before(&mut alice);
    work(&mut alice, NOW, &mut out);
    assert_eq!(reasons(&out), []);
    classes(&alice, &out)
}

#[test]
fn what_leaves_has_the_class_in_which_it_waited_whatever_way_it_goes() {
    let transport = SaConfig { mode: Mode::Transport, ..gcm() };
    let nothing = |_: &mut Sender| ();
    // Decided again: the class is not that of the policy, which names none.
    let anew = |alice: &mut Sender| alice.engine.set_policy(Arc::new(mandatory()));
    let worker = format!("{TWO}\n{WORKER}");
    let ways = [
        classes_that_left(TWO, &[gcm()], nothing),
        classes_that_left(TWO, &[transport], nothing),
        classes_that_left(TWO, &[gcm()], anew),
        classes_that_left(&worker, &[gcm()], nothing),
    ];
    for (at, left) in ways.into_iter().enumerate() {
        let count = |tos, class: &str| left.iter().filter(|one| **one == (tos, class.to_owned())).count();
        // The stream has eight segments.
        assert_eq!((count(EF, "ef"), count(0, "be"), left.len()), (20, 28, 48), "way {at}: {left:?}");
    }
}

#[test]
fn what_a_policer_behind_cryptography_gives_another_class_leaves_in_that() {
    let text = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\n[class.be]\nmatch = \"rest\"\n\
                [unit.inline]\nkind = \"inline\"\n\
                [[hook]]\nat = \"1a\"\nchain = [{ kind = \"classify\", by = \"rules\" }]\n\
                [[hook]]\nat = \"2a\"\nchain = [{ kind = \"police\", class = \"ef\", rate = \"8kbit\", \
                burst = \"1600B\", excess = \"be\" }]\n";
    let mut alice = sender(mandatory(), &[gcm()], text);
    let mut out = Vec::new();
    for _ in 0..10 {
        receive(&mut alice, datagram(EF, 1000));
        work(&mut alice, NOW, &mut out);
    }
    let left = classes(&alice, &out);
    let of = |class: &str| left.iter().filter(|(tos, name)| (*tos, name.as_str()) == (EF, class)).count();
    assert_eq!((of("ef"), of("be")), (1, 9), "{left:?}");
}

#[test]
fn a_class_that_is_full_loses_its_own_packets_alone() {
    let mut alice = sender(mandatory(), &[gcm()], TWO);
    let mut out = Vec::new();
    for n in 0..1200 {
        out.extend(receive(&mut alice, datagram(0, 100)));
        if n % 100 == 0 {
            out.extend(receive(&mut alice, datagram(EF, 100)));
        }
    }
    assert_eq!(reasons(&out), vec![DropReason::QueueFull; 600]);
    let Some(Outcome::Drop(dropped)) = out.first() else { panic!("{out:?}") };
    assert_eq!(dropped.flow.map(|flow| flow.remote_port), Some(53), "the drop tells whose packet it was");
    work(&mut alice, NOW, &mut out);
    let sent = left(&out);
    assert_eq!(sent.iter().filter(|(tos, _)| *tos == EF).count(), 12);
    assert_eq!(sent.len(), 612);
    assert_eq!(alice.engine.stats().drops_for(DropReason::QueueFull), 600);
    // The limit counts what has left no more.
    for _ in 0..600 {
        assert_eq!(reasons(&receive(&mut alice, datagram(0, 100))), []);
    }
}

#[test]
fn packets_that_find_no_place_are_counted_and_an_exchange_keeps_the_count() {
    let mut alice = Sender::new(mandatory(), &[gcm()]);
    set(&mut alice, Some(one_queue()));
    let mut out = Vec::new();
    while reasons(&out).is_empty() {
        out.extend(receive(&mut alice, datagram(0, 100)));
    }
    // Places are left for what is finished, and for nothing else.
    let (waiting, room) = alice.engine.graph().unwrap().waiting();
    assert!(waiting < room, "{waiting} of {room}");
    for _ in 0..4 {
        out.extend(receive(&mut alice, datagram(0, 100)));
    }
    assert_eq!(reasons(&out), [DropReason::QueueFull; 5]);
    assert_eq!(alice.engine.graph().unwrap().no_place(), 5);
    set(&mut alice, Some(one_queue()));
    assert_eq!(alice.engine.graph().unwrap().no_place(), 5);
}

#[test]
fn a_super_packet_is_cut_where_the_turn_ends_and_an_expedited_packet_gets_in_between() {
    let mut alice = Sender::new(mandatory(), &[gcm()]);
    alice.engine = alice.engine.gathering();
    set(&mut alice, Some(short_turns(TWO)));
    let mut bob = Receiver::new(&[gcm()]);
    let (stream, payload) = tcp_super(false, 5, 1000, 40_000);
    receive(&mut alice, stream);
    let mut out = turn(&mut alice);
    let begun = left(&out).len();
    assert!((1..40).contains(&begun), "{begun} segments in a turn");
    receive(&mut alice, datagram(EF, 100));
    let then = turn(&mut alice);
    assert_eq!(left(&then)[0], (EF, begun as u64 + 1));
    out.extend(then);
    work(&mut alice, NOW, &mut out);
    assert_eq!(left(&out).len(), 41);
    // Each segment once, in order, and right.
    let mut received = Vec::new();
    for (bytes, _) in crate::bursts::delivered(out, &mut alice, &mut bob) {
        let headers = wire::ip::Headers::parse(&bytes).unwrap();
        if headers.protocol == wire::protocol::TCP {
            assert_eq!(wire::checksum::verify_transport(&bytes, &headers), Some(true));
            received.extend_from_slice(&headers.upper(&bytes)[20..]);
        }
    }
    assert_eq!(received, payload);
    assert!(alice.engine.graph().unwrap().graph().conserved());
}

#[test]
fn what_waits_is_decided_again_when_policy_or_associations_change() {
    for change in 0..3 {
        let mut alice = sender(mandatory(), &[gcm()], TWO);
        for _ in 0..3 {
            receive(&mut alice, datagram(0, 1000));
        }
        let mut out = Vec::new();
        // Decided, and not given their turn.
        alice.engine.look_up(NOW, 10, &mut alice.pool, &mut out);
        let want = match change {
            0 => {
                alice.engine.remove_sa(Spi(SPI), gcm().endpoints.remote).unwrap();
                vec![DropReason::NoSa; 3]
            }
            1 => {
                alice.engine.set_policy(Arc::new(Spd::new(9)));
                Vec::new()
            }
            _ => {
                let mut other = gcm();
                (other.spi, other.keymat) = (Spi(SPI + 1), keymat(other.suite, 9));
                let other = OutboundSa::new(other, &crypto_std::registry().unwrap()).unwrap();
                alice.engine.remove_sa(Spi(SPI), gcm().endpoints.remote).unwrap();
                alice.engine.add_sa(other).unwrap();
                Vec::new()
            }
        };
        work(&mut alice, NOW, &mut out);
        assert_eq!(reasons(&out), want, "change {change}");
        let clear = out.iter().filter(|outcome| matches!(outcome, Outcome::Clear(_))).count();
        assert_eq!((left(&out).len(), clear), [(0, 0), (0, 3), (3, 0)][change], "change {change}");
        assert!(alice.engine.graph().unwrap().graph().conserved());
    }
}

#[test]
fn a_suite_without_a_unit_is_refused_by_name() {
    let text = format!("{TWO}\n[unit.gcm]\nkind = \"inline\"\nsuites = [\"aes256gcm\"]\n");
    let mut alice = sender(mandatory(), &[gcm()], &text);
    receive(&mut alice, datagram(0, 100));
    let mut out = Vec::new();
    work(&mut alice, NOW, &mut out);
    assert_eq!(reasons(&out), [DropReason::NoUnit]);
    assert_eq!(left(&out), []);
}

#[test]
fn a_unit_that_fails_loses_what_it_was_given_and_each_loss_counts_once() {
    let plan = Plan::new(Fault::Spill, 3);
    let registry = plan.registry();
    let mut engine = engine::Outbound::new(Arc::new(mandatory()), 0x5eed).gathering();
    engine.add_sa(OutboundSa::new(gcm(), &registry).unwrap()).unwrap();
    let mut alice = Sender { engine, pool: pool() };
    set(&mut alice, Some(graph(TWO)));
    for _ in 0..60 {
        receive(&mut alice, datagram(0, 500));
    }
    let mut out = Vec::new();
    work(&mut alice, NOW, &mut out);
    let sent = left(&out).len() as u64;
    assert_eq!(sent + alice.engine.stats().drops_for(DropReason::UnitFailed), 60);
    assert!(sent < 60);
    assert!(alice.engine.graph().unwrap().graph().conserved());
}

#[test]
fn an_exchange_keeps_packets_by_queue_and_leaving_the_graph_sends_them() {
    let mut alice = sender(mandatory(), &[gcm()], TWO);
    for n in 0..100 {
        receive(&mut alice, datagram(if n % 10 == 0 { EF } else { 0 }, 200));
    }
    let mut out = Vec::new();
    alice.engine.look_up(NOW, 50, &mut alice.pool, &mut out);
    out.extend(set(&mut alice, Some(of(&preset("voice").unwrap(), &house()))));
    out.extend(turn(&mut alice));
    out.extend(set(&mut alice, Some(graph(TWO))));
    assert!(alice.engine.graph().unwrap().graph().conserved());
    out.extend(set(&mut alice, None));
    assert!(alice.engine.graph().is_none());
    assert_eq!(reasons(&out), []);
    let sent = left(&out);
    assert_eq!(sent.len(), 100);
    assert!(sent.iter().zip(1..).all(|((_, sequence), at)| *sequence == at));
    // And without a graph packets go at once.
    let mut out = Vec::new();
    alice.engine.handle(NOW, datagram(0, 10), &mut alice.pool, &mut out);
    alice.engine.flush(&mut alice.pool, &mut out);
    assert_eq!(left(&out).len(), 1);
}

#[test]
fn an_answer_to_a_packet_that_is_too_long_does_not_wait() {
    let mut alice = sender(mandatory(), &[gcm()], TWO);
    for _ in 0..200 {
        receive(&mut alice, datagram(0, 1000));
    }
    receive(&mut alice, datagram(0, 1500));
    let mut out = Vec::new();
    alice.engine.look_up(NOW, 1000, &mut alice.pool, &mut out);
    assert!(
        out.iter().any(|outcome| matches!(outcome, Outcome::Reply(..))),
        "it is told before anything is sent"
    );
    assert_eq!(left(&out), []);
    assert_eq!(reasons(&out), [DropReason::TooBig]);
}

#[test]
fn a_rule_about_the_association_or_its_far_end_gives_the_class_behind_the_look_up() {
    let far = gcm().endpoints.remote;
    let spi = gcm().spi.0;
    for rule in
        [format!("peer = [\"{far}\"]"), format!("spi = [{spi}]"), "header = [\"esp-in-udp\"]".to_owned()]
    {
        let text = format!("[class.far]\nmatch = [{{ {rule} }}]\n[class.rest]\nmatch = \"rest\"\n");
        let mut sender = sender(mandatory(), &[gcm()], &text);
        for _ in 0..3 {
            receive(&mut sender, datagram(0, 100));
            assert_eq!(left(&turn(&mut sender)).len(), 1, "{rule}");
        }
        let graph = sender.engine.graph().unwrap().graph();
        let of = |name| graph.counts().of(HookPoint::In5a, graph.aggregates().find(name).unwrap()).come;
        assert_eq!((of("far"), of("rest")), (3, 0), "{rule}");
        assert!(graph.conserved(), "{rule}");
    }
    // Another far end is of the other class.
    let text = "[class.far]\nmatch = [{ peer = [\"203.0.113.250\"] }]\n[class.rest]\nmatch = \"rest\"\n";
    let mut sender = sender(mandatory(), &[gcm()], text);
    receive(&mut sender, datagram(0, 100));
    assert_eq!(left(&turn(&mut sender)).len(), 1);
    let graph = sender.engine.graph().unwrap().graph();
    assert_eq!(graph.counts().of(HookPoint::In5a, graph.aggregates().find("far").unwrap()).come, 0);
}

#[test]
fn a_rule_about_the_inner_flow_gives_the_class_of_packets_that_leave() {
    let (alice, bob) = hosts(false);
    // Each rule with what it matches of a datagram, a datagram to another port, and one of no ports.
    for (rule, expected) in [
        (format!("source = [\"{alice}\"]"), [true, true, true]),
        ("source = [\"203.0.113.0/25\"]".to_owned(), [false; 3]),
        (format!("destination = [\"{bob}/32\", \"2001:db8::/32\"]"), [true, true, true]),
        ("destination = [\"203.0.113.250\"]".to_owned(), [false; 3]),
        ("protocol = [\"udp\"]".to_owned(), [true, true, false]),
        ("protocol = [\"icmp\", \"tcp\"]".to_owned(), [false, false, true]),
        ("port = [53, \"5000-5999\"]".to_owned(), [true, false, false]),
        ("port = [\"0-65535\"]".to_owned(), [true, true, false]),
        ("source_port = [40000]".to_owned(), [true, true, false]),
        (format!("source = [\"{alice}\"], port = [80], protocol = [\"udp\"]"), [false, true, false]),
    ] {
        let text = format!("[class.flow]\nmatch = [{{ {rule} }}]\n[class.rest]\nmatch = \"rest\"\n");
        let mut sender = sender(mandatory(), &[gcm()], &text);
        let to = |port| udp_packet((alice, 40000), (bob, port), 0, true, &[1; 100]);
        let mut ping = to(53);
        ping[9] = wire::protocol::ICMP;
        // An echo request.
        ping[20..24].copy_from_slice(&[8, 0, 0, 0]);
        let sum = wire::checksum::ip_checksum(&ping[20..]);
        ping[22..24].copy_from_slice(&sum.to_be_bytes());
        wire::ipv4::Ipv4::new_checked(&mut ping[..]).unwrap().fill_checksum();
        let mut before = 0;
        for (packet, expected) in [to(53), to(80), ping].into_iter().zip(expected) {
            receive(&mut sender, stamped(APP, &packet));
            assert_eq!(left(&turn(&mut sender)).len(), 1, "{rule}");
            let graph = sender.engine.graph().unwrap().graph();
            let come = graph.counts().of(HookPoint::In5a, graph.aggregates().find("flow").unwrap()).come;
            assert_eq!(come - before == 1, expected, "{rule}");
            before = come;
        }
    }
}

#[test]
fn a_turn_that_took_long_closes_no_queue_that_is_empty() {
    let mut alice = sender(mandatory(), &[gcm()], TWO);
    let text = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 64, time = \"2ms\" }\n\
                [class.be]\nmatch = \"rest\"\nlimit = { packets = 256, time = \"20ms\" }\n";
    set(&mut alice, Some(graph(text)));
    for round in 1..20u64 {
        receive(&mut alice, datagram(0, 100));
        let mut out = Vec::new();
        alice.engine.look_up(NOW, 10, &mut alice.pool, &mut out);
        alice.engine.turn(NOW, &mut alice.pool, &mut out);
        // The thread was not run for ten seconds.
        alice.engine.settle(Time(NOW.0 + round * 10_000_000_000));
        let graph = alice.engine.graph().unwrap().graph();
        for class in ["ef", "be"].map(|name| graph.aggregates().find(name).unwrap()) {
            assert!(alice.engine.room(&[class]) > 0, "round {round}: {class:?}");
        }
    }
}

#[test]
fn an_inbound_graph_is_refused() {
    let house = house();
    let description = preset("fifo").unwrap();
    let compiled = compile(&description, &house, Direction::Inbound, 7).unwrap();
    let error = OutboundGraph::new(compiled, Vec::new(), 1).err().unwrap();
    assert_eq!(error, engine::GraphError::Direction);
}

/// A graph whose turns are short: a packet costs 1 us, and 4 us are committed at most.
fn short_turns(more: &str) -> Box<OutboundGraph> {
    let text = format!(
        "{more}\n[unit.inline]\nkind = \"inline\"\nlow = \"2us\"\nhigh = \"4us\"\nmost_committed = \"4us\"\n"
    );
    let mut house = house();
    let line = qos::graph::house::Line { base_ns: 1000, ps_per_octet: 0 };
    let cost =
        |direction| qos::graph::house::SuiteCost { suite: SuiteId::AES_128_GCM.to_string(), direction, line };
    house.costs = vec![cost(Direction::Outbound), cost(Direction::Inbound)];
    let description = check(&text, &house).unwrap_or_else(|faults| panic!("{faults:#?}"));
    of(&description, &house)
}

#[test]
fn congestion_that_a_queue_marks_stands_in_the_header_of_the_packet() {
    let text = "[class.every]\nmatch = \"rest\"\nlimit = { packets = 1000 }\n\
                aqm = { kind = \"codel\", target = \"5ms\", interval = \"100ms\", ecn = true }\n";
    let mut alice = Sender::new(mandatory(), &[gcm()]);
    alice.engine = alice.engine.gathering();
    set(&mut alice, Some(short_turns(text)));
    let mut bob = Receiver::new(&[gcm()]);
    for _ in 0..200 {
        // ECT(0).
        receive(&mut alice, datagram(2, 100));
    }
    let mut out = Vec::new();
    for round in 0..60 {
        let now = NOW + std::time::Duration::from_millis(50 * round);
        alice.engine.look_up(now, 1000, &mut alice.pool, &mut out);
        alice.engine.turn(now, &mut alice.pool, &mut out);
        alice.engine.settle(now);
    }
    assert_eq!(reasons(&out), [], "what can be told is not dropped");
    let got = crate::bursts::delivered(out, &mut alice, &mut bob);
    let headers = got.iter().map(|(bytes, _)| (bytes, wire::ip::Headers::parse(bytes).unwrap()));
    assert!(headers.clone().all(|(bytes, headers)| wire::ip::checksum_ok(bytes, &headers)));
    let marked = headers.filter(|(_, headers)| headers.tos & 3 == 3).count();
    assert!((1..got.len()).contains(&marked), "{marked} of {}", got.len());
}

#[test]
fn a_wrong_checksum_ends_in_front_of_the_queues() {
    let mut alice = sender(mandatory(), &[gcm()], TWO);
    let mut packet = datagram(0, 100);
    packet.bytes_mut()[10] ^= 1;
    assert_eq!(reasons(&receive(&mut alice, packet)), [DropReason::BadChecksum]);
}

#[test]
fn a_limit_in_front_counts_each_piece_once_whatever_becomes_of_the_packet() {
    let text = "[class.every]\nmatch = \"rest\"\n\n[[hook]]\nat = \"1a\"\n\
                chain = [{ kind = \"classify\" }, { kind = \"limit\", class = \"every\", most = 50 }]\n";
    let mut alice = Sender::new(mandatory(), &[gcm()]);
    alice.engine = alice.engine.gathering();
    set(&mut alice, Some(short_turns(text)));
    let mut out = Vec::new();
    for round in 0..40 {
        // Begun, and then ended or sent in the middle.
        receive(&mut alice, tcp_super(false, round, 1000, 40_000).0);
        out.extend(turn(&mut alice));
        if round % 3 == 0 {
            alice.engine.set_policy(Arc::new(mandatory()));
        }
        work(&mut alice, NOW, &mut out);
    }
    assert_eq!(reasons(&out), []);
    assert_eq!(left(&out).len(), 40 * 40);
    // Nothing is under way any more, so as much as ever finds room.
    let kept = (0..60).filter(|_| receive(&mut alice, datagram(0, 100)).is_empty()).count();
    assert_eq!(kept, 50);
}

#[test]
fn a_path_that_changes_between_turns_loses_and_repeats_nothing_of_a_stream() {
    for (first, then) in [(1500, 1300), (1300, 1500)] {
        let mut config = gcm();
        config.path_mtu = first;
        let mut alice = Sender::new(mandatory(), &[config.clone()]);
        alice.engine = alice.engine.gathering();
        set(&mut alice, Some(short_turns("[class.every]\nmatch = \"rest\"\n")));
        let mut bob = Receiver::new(&[config.clone()]);
        let (stream, payload) = tcp_super(false, 5, 9000, 40_000);
        receive(&mut alice, stream);
        let mut out = turn(&mut alice);
        assert!((1..20).contains(&left(&out).len()));
        let ends = (config.endpoints.local, config.endpoints.remote);
        alice.engine.follow_routes(&[(ends, then)].into());
        work(&mut alice, NOW, &mut out);
        let mut received = Vec::new();
        for (bytes, _) in crate::bursts::delivered(out, &mut alice, &mut bob) {
            let headers = wire::ip::Headers::parse(&bytes).unwrap();
            assert_eq!(wire::checksum::verify_transport(&bytes, &headers), Some(true));
            received.extend_from_slice(&headers.upper(&bytes)[20..]);
        }
        assert!(received == payload, "{first} to {then}: {} octets", received.len());
        assert!(alice.engine.graph().unwrap().graph().conserved());
    }
}
