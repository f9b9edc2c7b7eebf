//! Classes of outer packets that arrive (docs/design/0042): each has a socket of its own, so a flood of one class that fills
//! its socket costs no packet of another.

use lab::rig::{Pair, Rig};
use lab::{Program, Side};
use tests::{PATIENCE, associate};

use crate::qos::{
    COUNT, GraphFile, KernelQueue, WITH_CALLS, build, counts_of, datagrams, echo_server, kernel_queues_of,
    metrics_of, of, sends_to,
};

/// Where a direction stands among those of `qos show`.
const INBOUND: usize = 1;

const TWO_CLASSES: &str = "[qos]\npreset = \"two-classes\"\n";

pub fn queues(rig: &Rig) -> Vec<KernelQueue> {
    kernel_queues_of(rig, Side::Bob, INBOUND)
}

/// The number of Bob's UDP sockets of port 4500, of each family.
fn sockets(rig: &Rig) -> [usize; 2] {
    ["udp", "udp6"].map(|family| {
        let program = Program::new("cat").arg(format!("/proc/self/net/{family}"));
        let table = rig.lab.bob().run_program(program, PATIENCE).unwrap().out();
        table
            .lines()
            .filter(|line| line.split_whitespace().nth(1).is_some_and(|own| own.ends_with(":1194")))
            .count()
    })
}

/// Alice floods Bob's stopped daemon at one address, then sends 20 expedited packets to another, to which Bob's echo server
/// answers. Returns Bob's queues behind that, and whether every expedited packet was answered.
pub fn flooded_anyhow(
    rig: &Rig,
    app: &std::path::Path,
    flood: &str,
    (urgent, tos): (&str, u8),
) -> (Vec<KernelQueue>, bool) {
    // A stopped daemon reads nothing, so what arrives meanwhile waits in its sockets or is lost there.
    rig.daemon(Side::Bob).unwrap().signal(libc::SIGSTOP).unwrap();
    for _ in 0..6 {
        let done = rig.lab.alice().run_program(sends_to(app, flood, 0, 400), PATIENCE).unwrap();
        assert!(done.status.success(), "{}", done.err());
    }
    // The sender waits for answers, if it marks its packets.
    let program = sends_to(app, urgent, tos.max(1), 20);
    let urgent = rig.lab.alice().spawn(program).unwrap();
    urgent.wait_for_output("sent", PATIENCE).unwrap();
    // Everything has left Alice before Bob reads again.
    tests::wait_for("an idle sender", PATIENCE, || {
        let sent = || rig.json(Side::Alice, &["status"]).unwrap()["outbound"]["protected"].as_u64();
        let before = sent();
        std::thread::sleep(std::time::Duration::from_millis(100));
        if sent() == before { Ok(()) } else { Err("packets leave".to_owned()) }
    });
    rig.daemon(Side::Bob).unwrap().signal(libc::SIGCONT).unwrap();
    let done = urgent.finish(PATIENCE).unwrap();
    let is_whole = done.out().lines().last() == Some("20");
    (queues(rig), is_whole)
}

/// Flood as [`flooded_anyhow`] does, where no expedited packet may be lost. Returns Bob's queues behind that.
pub fn flooded(rig: &Rig, app: &std::path::Path, flood: &str, urgent: (&str, u8)) -> Vec<KernelQueue> {
    let (queues, is_whole) = flooded_anyhow(rig, app, flood, urgent);
    assert!(is_whole, "an expedited packet was lost: {queues:?}");
    queues
}

#[test]
fn in_one_socket_for_all_classes_the_same_flood_costs_expedited_packets() {
    let (mut rig, app) = build("rvl-qosn", "");
    rig.configure(Side::Bob, &format!("{TWO_CLASSES}kernel_queues = 1\n"));
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    let address = Side::Bob.v4().to_string();
    let (queues, is_whole) = flooded_anyhow(&rig, &app, &address, (&address, 46 << 2));
    assert_eq!((queues[0].classes.as_str(), queues.len()), ("ef,be", 2));
    assert!(!is_whole, "nothing was lost, so the tests here show nothing: {queues:?}");
}

#[test]
fn a_flood_that_fills_the_socket_of_its_class_costs_no_packet_of_another() {
    let (mut rig, app) = build("rvl-qoss", "");
    rig.configure(Side::Bob, TWO_CLASSES);
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    // Two sockets of classes at most are used of four, one is for what names no association, and one fragments.
    assert_eq!(sockets(&rig), [6, 6]);
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let before = queues(&rig);
        let after = flooded(&rig, &app, &address, (&address, 46 << 2));
        let classes: Vec<&str> = after.iter().map(|queue| queue.classes.as_str()).collect();
        assert_eq!(classes, ["ef", "be", ""], "{after:?}");
        assert_eq!((after[0].arrived - before[0].arrived, after[0].lost), (20, 0), "{after:?}");
        assert!(after[1].lost > before[1].lost && after[1].limit == 256, "{after:?}");
        assert_eq!(after[2].arrived, 0, "{after:?}");
    }
    // What the sockets took went through the graph, each of them.
    let rows = counts_of(&rig, Side::Bob, "in");
    assert_eq!(of(&rows, "1a", "ef").0, 40, "{rows:?}");
    let taken = queues(&rig)[1].taken;
    assert!(of(&rows, "1a", "be").0 <= taken, "{rows:?}, {taken} taken");
    let shown = rig.ravelin(Side::Bob, &["qos", "show"], "").unwrap();
    assert!(shown.contains("no association"), "{shown}");
    let stats = rig.ravelin(Side::Bob, &["stats"], "").unwrap();
    assert!(stats.contains("beyond what the socket of its class holds"), "{stats}");
    let metrics = metrics_of(&rig, Side::Bob);
    let lost = "ravelin_qos_kernel_lost_packets_total{direction=\"in\",queue=\"1\",class=\"be\"}";
    assert_eq!(metrics[lost], queues(&rig)[1].lost as f64);
}

#[test]
fn a_flood_of_bare_packets_that_fills_the_socket_of_its_class_costs_no_packet_of_another() {
    let (mut rig, app) = build("rvl-qosb", "");
    rig.configure(Side::Bob, TWO_CLASSES);
    rig.start_both().unwrap();
    for v6 in [false, true] {
        let args = || ["--encapsulation", "none"].map(str::to_owned).to_vec();
        let (mode, suite) = if v6 { ("tunnel", "chacha20poly1305") } else { ("transport", "aes128gcm") };
        rig.associate(&Pair { v6, mode, suite, alice: args(), bob: args() }).unwrap();
    }
    let _echo = echo_server(&rig, &app);
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let before = queues(&rig);
        let after = flooded(&rig, &app, &address, (&address, 46 << 2));
        assert_eq!((after[0].arrived - before[0].arrived, after[0].lost), (20, 0), "{after:?}");
        assert!(after[1].lost > before[1].lost && after[2].arrived == 0, "{after:?}");
    }
    // The successor opens its sockets anew, and splits as before.
    rig.start_with(Side::Bob, &["--take-over"]).unwrap();
    datagrams(&rig, &app, 46 << 2);
    let rows = queues(&rig);
    assert_eq!((rows[0].arrived, rows[0].lost), (COUNT, 0), "{rows:?}");
    // A class that a graph takes away gives its socket back, and everything still arrives.
    let file = GraphFile::new("rvl-qosb", "[class.every]\nmatch = \"rest\"\n");
    let every = file.beside("every.toml", &file.text());
    rig.ravelin(Side::Bob, &["qos", "apply", &every], "").unwrap();
    datagrams(&rig, &app, 46 << 2);
    let rows = queues(&rig);
    assert_eq!((rows[0].classes.as_str(), rows[0].arrived), ("every", 2 * COUNT), "{rows:?}");
}

#[test]
fn the_association_alone_says_the_class_where_the_outer_header_says_nothing() {
    let (mut rig, app) = build("rvl-qosa", "");
    rig.configure(Side::Bob, TWO_CLASSES);
    rig.start_both().unwrap();
    rig.associate(&Pair::default()).unwrap();
    let of_class = ["--class", "ef"].map(str::to_owned).to_vec();
    rig.associate(&Pair { v6: true, mode: "tunnel", bob: of_class, ..Pair::default() }).unwrap();
    let _echo = echo_server(&rig, &app);
    // Neither is marked.
    let (flood, urgent) = (Side::Bob.v4().to_string(), Side::Bob.v6().to_string());
    let after = flooded(&rig, &app, &flood, (&urgent, 0));
    assert_eq!((after[0].arrived, after[0].lost, after[2].arrived), (20, 0, 0), "{after:?}");
    assert!(after[1].lost > 0, "{after:?}");
    // One that is gone is a stranger's.
    let list = rig.json(Side::Bob, &["sa", "list"]).unwrap();
    let inbound =
        list["sas"].as_array().unwrap().iter().find(|sa| {
            sa["direction"] == "in" && sa["local"].as_str().is_some_and(|local| local.contains(':'))
        });
    let spi = inbound.unwrap()["spi"].as_str().unwrap().to_owned();
    rig.ravelin(Side::Bob, &["sa", "del", &spi, "--direction", "in"], "").unwrap();
    let done = rig.lab.alice().run_program(sends_to(&app, &urgent, 0, 30), PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    tests::wait_for("packets of strangers", PATIENCE, || {
        let queues = queues(&rig);
        if queues[2].taken == 30 && queues[0].arrived == 20 { Ok(()) } else { Err(format!("{queues:?}")) }
    });
}

#[test]
fn sockets_of_classes_go_over_to_a_successor_and_get_other_classes() {
    let file = GraphFile::new("rvl-qost", "[class.every]\nmatch = \"rest\"\n");
    let (mut rig, app) = build("rvl-qost", "");
    rig.configure(Side::Bob, &file.configuration());
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    let arrived = |rig: &Rig| -> Vec<(String, u64)> {
        queues(rig).into_iter().map(|queue| (queue.classes, queue.arrived)).collect()
    };
    let row = |class: &str, arrived: u64| (class.to_owned(), arrived);
    datagrams(&rig, &app, 46 << 2);
    assert_eq!(arrived(&rig), [row("every", COUNT), row("", 0)]);
    // Another graph gives the same sockets other classes; what they counted goes on.
    let calls = file.beside("calls.toml", WITH_CALLS);
    rig.ravelin(Side::Bob, &["qos", "apply", &calls], "").unwrap();
    datagrams(&rig, &app, 46 << 2);
    assert_eq!(arrived(&rig), [row("calls", 2 * COUNT), row("every", 0), row("", 0)]);
    // The successor goes on with them and counts anew; associations keep their classes.
    rig.start_with(Side::Bob, &["--take-over"]).unwrap();
    assert_eq!(sockets(&rig), [6, 6]);
    datagrams(&rig, &app, 46 << 2);
    datagrams(&rig, &app, 0);
    assert_eq!(arrived(&rig), [row("calls", COUNT), row("every", COUNT), row("", 0)]);
    // Without a graph there is one socket again, and with one there are several.
    for (configuration, expected) in [("", 2), (file.configuration().as_str(), 6)] {
        rig.configure(Side::Bob, configuration);
        rig.start_with(Side::Bob, &["--take-over"]).unwrap();
        assert_eq!(sockets(&rig), [expected; 2]);
        datagrams(&rig, &app, 46 << 2);
    }
    assert_eq!(arrived(&rig)[0], row("calls", COUNT));
}
