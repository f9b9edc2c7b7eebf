//! Ciphers of one's own: what a packet under one counts as for items that name its suite and for items that do not.
//! Needs root.

use crate::common;

use common::packets::udp;
use common::*;
use sadb::spd::{AppPolicy, Class, Level, PortRange, Spd};
use sockmon::AppTraffic;
use wire::Services;

const PROOF: u32 = 0x8000_0000;
/// The level and number of the state option, and its length in octets.
const STATE: &str = "5396044 2 40";

/// What an association gives, in the order of its number.
const GIVEN: [Services; 4] = [Services::NONE, Services::AUTHENTICATED, Services::CUSTOM, Services::ENCRYPTED];

/// A port, the demand of its item, and whether the item takes what is authenticated, what is under a cipher of one's
/// own, and what is under a standard one.
const PORTS: [(u16, Services, Level, [bool; 3]); 5] = [
    (7001, Services::AUTHENTICATED, Level::Mandatory, [true, true, true]),
    (7002, Services::ENCRYPTED, Level::Mandatory, [false, false, true]),
    (7003, Services::ENCRYPTED.named(), Level::Mandatory, [false, true, true]),
    (7004, Services::AUTHENTICATED.named(), Level::Mandatory, [true, true, true]),
    (7005, Services::ENCRYPTED.named(), Level::Optional, [false, true, true]),
];

fn mark(services: Services) -> u32 {
    PROOF | u32::from(services.bits()) << 24
}

/// Each port has its item at either end; port 7006 says `never`.
fn table() -> Spd {
    let at = |(port, services, level, _): (u16, Services, Level, [bool; 3])| {
        let one = PortRange::one(port);
        [item(one, PortRange::ANY, services, level), item(PortRange::ANY, one, services, level)]
    };
    let mut items: Vec<_> = PORTS.into_iter().flat_map(at).collect();
    items.push(item(PortRange::one(7006), PortRange::ANY, Services::NONE, Level::AcceptOnly));
    let networks =
        vec![network("10.99.0.0/24", Class::Protected(0)), network("10.99.0.128/26", Class::Trusted)];
    let mut spd = Spd::new(1);
    spd.insert(STRICT, AppPolicy::new(networks, vec![items]));
    spd
}

fn world(name: &str) -> World {
    let mut world = World::new(name);
    world.attach();
    world.load(&table(), &[]);
    world
}

/// A field of the socket's state: 2 required, 3 demanded, 6 in force.
fn state(program: &mut program::Program, port: u16, field: usize) -> u32 {
    let answer = program.ask(&format!("get p{port} {STATE}"));
    answer.split(' ').nth(field).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// Send a datagram from Bob with this proof, and look whether the socket of the port is given it.
fn is_taken(world: &mut World, receiver: &mut program::Program, port: u16, services: Services) -> bool {
    let before = world.counter("ingress_services");
    world.inject(mark(services), &udp((BOB, 5000), (ALICE, port), b"payload"));
    let wait = 5000;
    // What is refused is counted at once: nobody waits for it.
    for _ in 0..wait {
        if world.counter("ingress_services") > before {
            assert_eq!(receiver.ask(&format!("recv p{port} 40")), "ETIMEDOUT");
            return false;
        }
        if receiver.ask(&format!("recv p{port} 1")) == "7" {
            return true;
        }
    }
    panic!("port {port}: neither taken nor refused");
}

#[test]
fn a_cipher_of_ones_own_is_encryption_where_its_suite_is_named() {
    let mut world = world("custom");
    let mut program = world.start("strict");
    let (mut authenticated, mut encrypted, mut refused) = (0, 0, 0);
    for (port, need, level, taken) in PORTS {
        program.run(&[&format!("open p{port} udp4"), &format!("bind p{port} 10.99.0.1:{port}")]);
        for (services, taken) in GIVEN.into_iter().zip([false].into_iter().chain(taken)) {
            let case = format!("port {port}, {need:?} {level:?}, {services:?}");
            assert_eq!(is_taken(&mut world, &mut program, port, services), taken, "{case}");
            assert_eq!(services.satisfies(need), taken, "{case}: user space says the same");
            if !taken {
                refused += 1;
                continue;
            }
            let counted = services.counted_for(need);
            assert_eq!(state(&mut program, port, 6), u32::from(counted.bits()), "{case}");
            *if counted.encrypts() { &mut encrypted } else { &mut authenticated } += 1;
        }
    }
    // An item that says `never` takes what comes protected, and names no suite.
    program.run(&["open p7006 udp4", "bind p7006 10.99.0.1:7006"]);
    assert!(is_taken(&mut world, &mut program, 7006, Services::CUSTOM));
    authenticated += 1;
    let sums = world.traffic(STRICT);
    let packets = (sums.in_authenticated.packets, sums.in_encrypted.packets, sums.in_refused.packets);
    assert_eq!(packets, (authenticated, encrypted, refused));
}

/// The kernel takes such a datagram before `proof` is asked: the device judges it.
#[test]
fn the_device_judges_so_what_an_encapsulation_takes() {
    let mut world = World::new("customencap");
    world.attach_without("proof");
    world.load(&table(), &[]);
    let mut program = world.start("strict");
    for (port, need, level, taken) in PORTS {
        program.run(&[&format!("open p{port} udp4"), &format!("bind p{port} 10.99.0.1:{port}")]);
        program.run(&[&format!("encapsulate p{port}")]);
        for (services, taken) in GIVEN.into_iter().zip([false].into_iter().chain(taken)) {
            let case = format!("port {port}, {need:?} {level:?}, {services:?}");
            assert_eq!(is_taken(&mut world, &mut program, port, services), taken, "{case}");
        }
    }
}

#[test]
fn what_a_socket_asks_for_is_met_by_it_only_where_the_item_names_the_suite() {
    let mut world = world("customasked");
    let mut program = world.start("strict");
    let mut unnamed = world.start("unnamed");
    for (port, _, _, _) in PORTS {
        let open = [format!("open p{port} udp4"), format!("bind p{port} 10.99.0.1:{port}")];
        program.run(&[&open[0], &open[1], &format!("require p{port} 3")]);
    }
    unnamed.run(&["open p7007 udp4", "bind p7007 10.99.0.1:7007", "require p7007 3"]);
    for (port, taken) in [(7001, false), (7002, false), (7003, true), (7004, true), (7005, true)] {
        assert!(!is_taken(&mut world, &mut program, port, Services::AUTHENTICATED), "{port}");
        assert_eq!(is_taken(&mut world, &mut program, port, Services::CUSTOM), taken, "{port}");
        assert!(is_taken(&mut world, &mut program, port, Services::ENCRYPTED), "{port}");
    }
    assert!(!is_taken(&mut world, &mut unnamed, 7007, Services::CUSTOM));
    assert!(is_taken(&mut world, &mut unnamed, 7007, Services::ENCRYPTED));
}

#[test]
fn programs_see_services_and_no_names_of_suites() {
    let mut world = world("customseen");
    let mut program = world.start("strict");
    for (port, need, level, _) in PORTS {
        program.run(&[&format!("open p{port} udp4"), &format!("connect p{port} 10.99.0.2:{port}")]);
        assert_eq!(state(&mut program, port, 3), u32::from(need.unnamed().bits()), "{port}");
        if level == Level::Mandatory {
            // The floor of a request is what policy demands, without the name.
            let enough = if need.encrypts() { "3" } else { "1" };
            let less = if need.encrypts() { "1" } else { "0" };
            assert_eq!(program.ask(&format!("require p{port} {less}")), "EPERM", "{port}");
            program.run(&[&format!("require p{port} {enough}")]);
            assert_eq!(state(&mut program, port, 2), u32::from(need.unnamed().bits()), "{port}");
        }
    }
    assert_eq!(program.ask("require p7003 4"), "EINVAL", "the bit is no program's");
    assert_eq!(program.ask("require p7003 7"), "EINVAL");
    // Nor does it come into a mark, where the bit above the services is somebody else's.
    for (port, need, _, _) in PORTS {
        program.run(&[&format!("send p{port} 5")]);
        let seen = world.seen_within(SOON).unwrap();
        let asked = if port == 7005 { 0 } else { u32::from(need.unnamed().bits()) };
        assert_eq!(seen.mark >> 24, asked, "{port}: {:#x}", seen.mark);
    }
    let sums = world.traffic(STRICT);
    assert_eq!(
        sums,
        AppTraffic {
            out_encrypted: sums.out_encrypted,
            out_authenticated: sums.out_authenticated,
            reasons: sums.reasons.clone(),
            ..AppTraffic::default()
        }
    );
    assert_eq!(sums.reasons.iter().collect::<Vec<_>>(), [(&"sockopt_weaker", &4)]);
    assert_eq!((sums.out_encrypted.packets, sums.out_authenticated.packets), (3, 2), "{sums:?}");
}

#[test]
fn the_default_block_is_told_without_a_name() {
    let mut world = world("customdefault");
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4"]);
    let everybody =
        policy::Selector { executables: policy::Executables::Any, from: None, group: None, users: None };
    let subjects = policy::Subjects::new(vec![(everybody, WEAK)]);
    let any = |services| vec![vec![item(PortRange::ANY, PortRange::ANY, services, Level::Mandatory)]];
    for (services, want) in [(Services::ENCRYPTED.named(), "3"), (Services::AUTHENTICATED.named(), "1")] {
        let networks = ["0.0.0.0/0", "::/0"].map(|prefix| network(prefix, Class::Protected(0)));
        let mut spd = table();
        spd.insert(WEAK, AppPolicy::new(networks.into(), any(services)));
        world.sockmon().load_policy(&spd, &subjects, &[]).unwrap();
        let told = unnamed.ask("get s 5396044 3 32");
        assert_eq!(told.split(' ').nth(2), Some(want), "{told}");
    }
}
