//! Tests of how many connections there may be: closed ones take no place of live ones, and no source outside takes all.

use crate::kit::{FIN, SYN, SYN_ACK, Seg, World, client, server};
use scrub::{Arrival, Config, Outcome, Profile, Scrubber, Side, State};
use std::time::Duration;
use wire::{Buf, Gso, Time, checksum};

/// The segments of a whole connection: opened, data both ways, closed.
fn steps() -> [Seg; 8] {
    [
        client(-1, b"").flags(SYN),
        server(-1, b"").flags(SYN_ACK),
        client(0, b""),
        client(0, b"question"),
        server(0, b"answer").ack(8),
        client(8, b"").ack(6).flags(FIN),
        server(6, b"").ack(9).flags(FIN),
        client(9, b"").ack(7),
    ]
}

/// Play a whole connection between a client's port and the port of a service.
fn talk(world: &mut World, ports: (u16, u16)) -> Result<(), String> {
    let of = |seg: Seg| seg.with(|s| s.ports = if s.ports.0 == 80 { (ports.1, ports.0) } else { ports });
    for step in steps() {
        let out = world.pass(&of(step.clone()));
        if out.outcome != Outcome::Forward || !out.acted.is_empty() {
            return Err(format!("{ports:?}: {step:?} became {:?} by {:?}", out.outcome, out.acted));
        }
    }
    Ok(())
}

/// The bounds of a line are not met at 20,000 distinct connections a second, both divided by 256, for six minutes:
/// three times as long as closed ones are remembered.
#[test]
fn twenty_thousand_distinct_connections_a_second_are_not_refused() {
    let mut config = Config::new(Profile::Standard);
    let usual = config.flows;
    config.flows.established = usual.established / 256;
    config.flows.established_per_source = usual.established_per_source / 256;
    config.flows.closed = usual.closed / 256;
    config.flows.half_open = usual.half_open / 256;
    config.flows.half_open_per_source = usual.half_open_per_source / 256;
    let rate = 20_000 / 256 + 1;
    let mut world = World::new(config);
    let mut ports = (1024_u16..=65_535).flat_map(|client| [80, 443].map(|server| (client, server)));
    let mut most = 0;
    for _second in 0..360 {
        for _ in 0..rate {
            let ends = ports.next().expect("distinct ends");
            talk(&mut world, ends)
                .unwrap_or_else(|why| panic!("{why}, with {:?}", world.scrubber.connections().len()));
        }
        world.wait(Duration::from_secs(1));
        most = most.max(world.scrubber.connections().closed());
    }
    assert!(most > usual.established / 256, "{most}: more are remembered than may live");
    // Of each that is remembered a late segment finds its connection, and says nothing new.
    let connections = world.scrubber.connections();
    assert_eq!(
        connections.iter().filter(|(_, _, state)| *state == State::Closed).count(),
        connections.closed()
    );
    let last = (0..).zip((1024_u16..=65_535).flat_map(|c| [80, 443].map(|s| (c, s)))).nth(360 * rate - 1);
    let (_, ports) = last.expect("the last ends");
    let late = |seg: Seg| seg.with(|s| s.ports = ports);
    world.pass(&late(client(8, b"").ack(6).flags(FIN))).passed_with(&["Q.9"]);
    world.pass(&late(client(0, b"QUESTION").ack(0))).passed_with(&["Q.9"]).carries(8, b"");
    world.pass(&late(client(3, b"").flags(SYN))).dropped_by("Q.13");
    world.wait(Duration::from_secs(200));
    assert_eq!(world.scrubber.connections().len(), 0, "and all are forgotten");
}

/// The bounds of a line hold at full size and for an hour: `make soak-capacity`. Packets are made from templates, their
/// checksums left to the card.
#[test]
#[ignore = "an hour of simulated time, about a quarter of an hour of work: make soak-capacity"]
fn an_hour_of_twenty_thousand_distinct_connections_a_second() {
    const RATE: u32 = 20_000;
    let steps = steps().map(|step| (step.from, step.packet([99, 4999])));
    let mut scrubber = Scrubber::new(Config::new(Profile::Standard), [7; 16]);
    let (mut refused, mut most) = (0_u64, 0);
    for second in 0..3600_u32 {
        for at in 0..RATE {
            let number = second * RATE + at;
            // Eleven bits of ports, the rest are clients: no source has more than its share.
            let client = (10 << 24 | number >> 11).to_be_bytes();
            let port = (2048 + (number & 0x7ff) as u16).to_be_bytes();
            let now = Time(u64::from(second) * 1_000_000_000 + u64::from(at) * 50_000);
            for (from, template) in &steps {
                let mut bytes = template.clone();
                let (address, place) = if *from == Side::Outside { (12, 20) } else { (16, 22) };
                bytes[address..address + 4].copy_from_slice(&client);
                bytes[place..place + 2].copy_from_slice(&port);
                bytes[10..12].fill(0);
                let sum = checksum::ip_checksum(&bytes[..20]);
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
                let mut gso =
                    Gso { needs_checksum: true, checksum_start: 20, checksum_offset: 16, ..Gso::default() };
                let arrival = Arrival { from: *from, link: 0, realm: 0 };
                let verdict = scrubber.process(now, arrival, &mut Buf::from_slice(&bytes, 0, 8), &mut gso);
                refused += u64::from(verdict.outcome != Outcome::Forward || verdict.met.is_incident());
            }
            if scrubber.poll_timeout().is_some_and(|due| due <= now) {
                scrubber.expire(now);
                while scrubber.poll_emitted().is_some() {}
            }
        }
        most = most.max(scrubber.connections().len());
        assert_eq!(refused, 0, "in second {second}, with {} connections", scrubber.connections().len());
    }
    assert!(most > 2_000_000, "{most}: two minutes of closed ones are known");
}

#[test]
fn closed_connections_have_a_bound_of_their_own() {
    let mut config = Config::new(Profile::Standard);
    (config.flows.established, config.flows.closed) = (4, 8);
    let mut world = World::new(config);
    for port in 1..=8 {
        talk(&mut world, (port, 80)).expect("there is room");
    }
    assert_eq!(world.scrubber.connections().closed(), 8);
    assert!(talk(&mut world, (9, 80)).is_err_and(|why| why.contains("Idle") || why.contains("Q.16")));
    world.wait(Duration::from_secs(130));
    talk(&mut world, (9, 80)).expect("the others are forgotten");
}

#[test]
fn a_source_outside_has_a_share_of_the_established_ones() {
    let mut config = Config::new(Profile::Standard);
    config.flows.established_per_source = 5;
    let mut world = World::new(config);
    let open = |world: &mut World, port: u16| {
        let there = |seg: Seg| seg.with(|s| s.ports.0 = port);
        let back = |seg: Seg| seg.with(|s| s.ports.1 = port);
        let first = world.pass(&there(client(-1, b"").flags(SYN)));
        if first.outcome == Outcome::Forward {
            world.pass(&back(server(-1, b"").flags(SYN_ACK))).unchanged();
            world.pass(&there(client(0, b""))).unchanged();
        }
        first
    };
    for port in 1..=5 {
        open(&mut world, port).unchanged();
    }
    open(&mut world, 6).dropped_by("Q.16");
    // Hosts inside are trusted to use what they open.
    for port in 100..110 {
        let seg = server(-1, b"").flags(SYN).with(|s| s.ports = (port, 80));
        world.pass(&seg).unchanged();
    }
    // One that ends makes room.
    world.pass(&client(0, b"").with(|s| s.ports.0 = 3).flags(FIN)).unchanged();
    world.pass(&server(0, b"").with(|s| s.ports.1 = 3).ack(1).flags(FIN)).unchanged();
    world.pass(&client(1, b"").with(|s| s.ports.0 = 3).ack(1)).unchanged();
    open(&mut world, 6).unchanged();
    open(&mut world, 7).dropped_by("Q.16");
}
