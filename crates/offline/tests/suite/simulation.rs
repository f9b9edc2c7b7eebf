//! A capture through a graph of classes: what a packet is taken for, and what the sums are.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::{QosDirection, QosPacket, QosSimulation, QosVerdict};
use config::LoadedGraph;
use netio::pcap::Writer;
use offline::replay::HalfChoice;
use offline::simulation::{SimulationOptions, run};
use qos::Direction;
use qos::graph::House;
use qos::graph::house::{Line, SuiteCost};
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};

const GRAPH: &str = "
    [class.ike]
    match = [{ header = [\"ike\"] }]
    [class.keepalive]
    match = [{ header = [\"keepalive\"] }]
    [class.in-udp]
    match = [{ header = [\"esp-in-udp\"], spi = 0x1000 }]
    [class.esp]
    match = [{ header = [\"esp\"], spi = 0x2000 }, { header = [\"ah\"], spi = 0x3000 }]
    [class.errors]
    match = [{ header = [\"icmp-error\"] }]
    [class.marked]
    match = [{ dscp = [\"AF41\"], header = [\"clear\"] }]
    [class.rest]
    match = \"rest\"
";

struct Capture(PathBuf);

impl Capture {
    fn new(name: &str, packets: &[Vec<u8>]) -> Capture {
        let path = std::env::temp_dir().join(format!("offline-simulation-{}-{name}", std::process::id()));
        let mut writer = Writer::create(&path).unwrap();
        for (index, packet) in packets.iter().enumerate() {
            let time = Duration::from_millis(index as u64);
            writer.write(time, packet, u32::try_from(packet.len()).unwrap()).unwrap();
        }
        writer.finish().unwrap();
        Capture(path)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An IPv4 packet of a protocol, from 192.0.2.1 to 192.0.2.2.
fn v4(protocol: u8, tos: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    let (src, dst) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let repr = Ipv4Repr { src, dst, protocol, ttl: 64, tos, id: 1, df: true, payload_len: payload.len() };
    ipv4::emit(&mut packet, &repr).unwrap();
    packet.extend_from_slice(payload);
    packet
}

/// An IPv6 packet of a protocol.
fn v6(next_header: u8, traffic_class: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN];
    let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let (hop_limit, flow_label) = (64, 0);
    let repr =
        Ipv6Repr { src, dst, next_header, hop_limit, traffic_class, flow_label, payload_len: payload.len() };
    ipv6::emit(&mut packet, &repr).unwrap();
    packet.extend_from_slice(payload);
    packet
}

/// A datagram from a port to a port.
fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap();
    let mut datagram = [from, to, length, 0].map(u16::to_be_bytes).concat();
    datagram.extend_from_slice(payload);
    datagram
}

fn simulate(capture: &Capture, house: &House, options: SimulationOptions) -> (Vec<QosPacket>, QosSimulation) {
    let graph = LoadedGraph::check("test", GRAPH.to_owned(), house).unwrap_or_else(|error| panic!("{error}"));
    let options = SimulationOptions { input: capture.0.clone(), ..options };
    let mut lines = Vec::new();
    let sums = run(&graph, house, &options, &mut |line| {
        lines.push(line.clone());
        Ok(())
    });
    (lines, sums.unwrap())
}

#[test]
fn each_packet_is_taken_for_what_it_is() {
    let esp = [&0x2000_u32.to_be_bytes()[..], &[0; 40]].concat();
    let in_udp = [&0x1000_u32.to_be_bytes()[..], &[0; 40]].concat();
    let ah = [&[6, 4, 0, 0][..], &0x3000_u32.to_be_bytes(), &[0; 40]].concat();
    let unreachable = [&[3, 1, 0, 0, 0, 0, 0, 0][..], &[0; 28]].concat();
    let packets = [
        (v4(17, 0, &udp(500, 500, &[1; 40])), "ike", QosDirection::Out),
        (v4(17, 0, &udp(4500, 4500, &[0, 0, 0, 0, 1, 2, 3, 4])), "ike", QosDirection::Out),
        (v4(17, 0, &udp(4500, 4500, &[0xff])), "keepalive", QosDirection::Out),
        (v4(17, 0, &udp(4500, 9, &in_udp)), "in-udp", QosDirection::In),
        (v6(17, 0, &udp(9, 4500, &in_udp)), "in-udp", QosDirection::In),
        (v4(50, 0, &esp), "esp", QosDirection::In),
        (v4(51, 0, &ah), "esp", QosDirection::In),
        (v4(1, 0, &unreachable), "errors", QosDirection::Out),
        (v4(1, 0, &[8, 0, 0, 0, 0, 1, 0, 1]), "rest", QosDirection::Out),
        (v4(17, 34 << 2, &udp(9, 9, &[0; 9])), "marked", QosDirection::Out),
        (v6(17, 34 << 2, &udp(9, 9, &[0; 9])), "marked", QosDirection::Out),
        (v4(17, 36 << 2, &udp(9, 9, &[0; 9])), "rest", QosDirection::Out),
    ];
    let mut bytes: Vec<Vec<u8>> = packets.iter().map(|(bytes, ..)| bytes.clone()).collect();
    bytes.push(vec![0x45, 0, 0]);
    let capture = Capture::new("kinds", &bytes);
    let (lines, sums) = simulate(&capture, &House::default(), SimulationOptions::default());
    for (line, (_, class, direction)) in lines.iter().zip(&packets) {
        let told = (line.class.as_deref(), line.direction, line.verdict);
        assert_eq!(told, (Some(*class), Some(*direction), QosVerdict::Pass), "{line:?}");
        // Receiving and sending alone, as no cost of a suite is known.
        assert!(line.wait_ns.is_some_and(|wait| (2_500..2_600).contains(&wait)), "{line:?}");
    }
    let last = lines.last().unwrap();
    assert_eq!(
        (last.verdict, last.reason.as_deref(), last.class.as_deref()),
        (QosVerdict::Skip, Some("no_ip"), None)
    );
    assert_eq!((sums.packets, sums.passed, sums.dropped, sums.skipped), (13, 12, 0, 1));
    assert!(sums.costs_are_assumed);
    // An address of the gateway, or a direction, decides before what is in the packet.
    let local: IpAddr = "192.0.2.2".parse().unwrap();
    let here = SimulationOptions { local: vec![local], ..SimulationOptions::default() };
    let (lines, _) = simulate(&capture, &House::default(), here);
    assert_eq!(lines[0].direction, Some(QosDirection::In));
    assert_eq!(lines[10].direction, Some(QosDirection::Out));
    let out = SimulationOptions { way: HalfChoice::Out, ..SimulationOptions::default() };
    let (lines, _) = simulate(&capture, &House::default(), out);
    assert!(lines[..12].iter().all(|line| line.direction == Some(QosDirection::Out)));
}

#[test]
fn a_packet_costs_what_its_suite_and_direction_cost() {
    let cost = |suite: &str, direction, base_ns| SuiteCost {
        suite: suite.to_owned(),
        direction,
        line: Line { base_ns, ps_per_octet: 0 },
    };
    let house = House {
        costs: vec![
            cost("fast", Direction::Outbound, 1_000),
            cost("slow", Direction::Outbound, 50_000),
            cost("slow", Direction::Inbound, 70_000),
        ],
        ..House::default()
    };
    let capture = Capture::new("costs", &[v4(17, 0, &udp(9, 9, &[0; 9]))]);
    let wait = |suite: Option<&str>, way| {
        let suite = suite.map(str::to_owned);
        let (lines, sums) =
            simulate(&capture, &house, SimulationOptions { way, suite, ..SimulationOptions::default() });
        assert!(!sums.costs_are_assumed);
        lines[0].wait_ns.unwrap() / 1_000
    };
    // 2.5 us are for receiving and sending; a suite without a cost of its own costs as the costliest.
    assert_eq!(wait(None, HalfChoice::Out), 52);
    assert_eq!(wait(Some("fast"), HalfChoice::Out), 3);
    assert_eq!(wait(Some("fast"), HalfChoice::In), 72);
    assert_eq!(wait(Some("slow"), HalfChoice::In), 72);
}
