//! Classes of outer packets that arrive as frames (docs/design/0042): each has a packet socket or an AF_XDP socket of its own,
//! so a flood of one class that fills its socket costs no packet of another.

use lab::Side;
use lab::rig::{Pair, Rig};
use tests::{PATIENCE, associate};

use crate::qos::{COUNT, GraphFile, WITH_CALLS, build, counts_of, datagrams, echo_server, of, sends_to};
use crate::qos_sockets::{flooded, flooded_anyhow, queues};

/// The preset with two classes, for a daemon that takes outer packets as such frames.
fn two_classes(outer: &str, more: &str) -> String {
    format!("[io]\nouter = \"{outer}\"\n\n[qos]\npreset = \"two-classes\"\n{more}")
}

/// Alice and Bob, who takes outer packets as such frames.
fn begin(name: &str, outer: &str, more: &str) -> (Rig, std::path::PathBuf) {
    let (mut rig, app) = build(name, "");
    rig.configure(Side::Bob, &two_classes(outer, more));
    rig.start_both().unwrap();
    (rig, app)
}

/// Nothing is lost of expedited packets, to both of Bob's addresses, while the socket of the rest is flooded.
fn floods(rig: &Rig, app: &std::path::Path) {
    let _echo = echo_server(rig, app);
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let before = queues(rig);
        let after = flooded(rig, app, &address, (&address, 46 << 2));
        let classes: Vec<&str> = after.iter().map(|queue| queue.classes.as_str()).collect();
        assert_eq!(classes, ["ef", "be", ""], "{after:?}");
        assert_eq!((after[0].arrived - before[0].arrived, after[0].lost), (20, 0), "{after:?}");
        assert!(after[1].lost > before[1].lost && after[1].limit == 256, "{after:?}");
        assert_eq!(after[2].arrived, 0, "{after:?}");
        for queue in &after {
            let counted = queue.taken + queue.lost;
            assert!(counted <= queue.arrived && queue.arrived - counted <= queue.limit, "{queue:?}");
        }
    }
    // What the sockets took went through the graph, each of them.
    let rows = counts_of(rig, Side::Bob, "in");
    assert_eq!(of(&rows, "1a", "ef").0, 40, "{rows:?}");
    assert!(of(&rows, "1a", "be").0 <= queues(rig)[1].taken, "{rows:?}");
    let stats = rig.ravelin(Side::Bob, &["stats"], "").unwrap();
    assert!(stats.contains("beyond what the socket of its class holds"), "{stats}");
}

fn in_one_socket(name: &str, outer: &str) {
    let (rig, app) = begin(name, outer, "kernel_queues = 1\n");
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    let address = Side::Bob.v4().to_string();
    let (queues, is_whole) = flooded_anyhow(&rig, &app, &address, (&address, 46 << 2));
    assert_eq!((queues[0].classes.as_str(), queues.len()), ("ef,be", 2));
    assert!(!is_whole, "nothing was lost, so the tests here show nothing: {queues:?}");
}

#[test]
fn in_one_packet_socket_for_all_classes_the_same_flood_costs_expedited_packets() {
    in_one_socket("rvl-qosfn", "af_packet");
}

#[test]
fn in_one_af_xdp_socket_for_all_classes_the_same_flood_costs_expedited_packets() {
    in_one_socket("rvl-qosxn", "af_xdp");
}

#[test]
fn a_flood_that_fills_the_packet_socket_of_its_class_costs_no_packet_of_another() {
    let (rig, app) = begin("rvl-qosfs", "af_packet", "");
    associate(&rig).unwrap();
    floods(&rig, &app);
}

#[test]
fn a_flood_that_fills_the_af_xdp_socket_of_its_class_costs_no_packet_of_another() {
    let (rig, app) = begin("rvl-qosxs", "af_xdp", "");
    associate(&rig).unwrap();
    floods(&rig, &app);
}

/// Bare packets, then a hand-over, and another graph.
fn bare(name: &str, outer: &str) {
    let (mut rig, app) = begin(name, outer, "");
    for v6 in [false, true] {
        let args = || ["--encapsulation", "none"].map(str::to_owned).to_vec();
        let (mode, suite) = if v6 { ("tunnel", "chacha20poly1305") } else { ("transport", "aes128gcm") };
        rig.associate(&Pair { v6, mode, suite, alice: args(), bob: args() }).unwrap();
    }
    floods(&rig, &app);
    let _echo = echo_server(&rig, &app);
    // The successor opens its sockets anew, splits as before, and counts anew.
    rig.start_with(Side::Bob, &["--take-over"]).unwrap();
    datagrams(&rig, &app, 46 << 2);
    let rows = queues(&rig);
    assert_eq!((rows[0].arrived, rows[0].lost), (COUNT, 0), "{rows:?}");
    // Another graph gives the same sockets other classes.
    let file = GraphFile::new(name, "[class.every]\nmatch = \"rest\"\n");
    let every = file.beside("every.toml", &file.text());
    rig.ravelin(Side::Bob, &["qos", "apply", &every], "").unwrap();
    datagrams(&rig, &app, 46 << 2);
    let rows = queues(&rig);
    assert_eq!((rows[0].classes.as_str(), rows[0].arrived), ("every", 2 * COUNT), "{rows:?}");
    let calls = file.beside("calls.toml", WITH_CALLS);
    rig.ravelin(Side::Bob, &["qos", "apply", &calls], "").unwrap();
    datagrams(&rig, &app, 46 << 2);
    datagrams(&rig, &app, 0);
    let rows = queues(&rig);
    let arrived: Vec<_> = rows.iter().map(|row| (row.classes.as_str(), row.arrived)).collect();
    assert_eq!(arrived, [("calls", 3 * COUNT), ("every", COUNT), ("", 0)]);
    // Without a graph there is one socket again.
    rig.configure(Side::Bob, &format!("[io]\nouter = \"{outer}\"\n"));
    rig.start_with(Side::Bob, &["--take-over"]).unwrap();
    datagrams(&rig, &app, 46 << 2);
}

#[test]
fn a_flood_of_bare_packets_that_fills_the_packet_socket_of_its_class_costs_no_packet_of_another() {
    bare("rvl-qosfb", "af_packet");
}

#[test]
fn a_flood_of_bare_packets_that_fills_the_af_xdp_socket_of_its_class_costs_no_packet_of_another() {
    bare("rvl-qosxb", "af_xdp");
}

#[test]
fn in_frames_the_association_alone_says_the_class_where_the_outer_header_says_nothing() {
    for (name, outer) in [("rvl-qosfa", "af_packet"), ("rvl-qosxa", "af_xdp")] {
        let (rig, app) = begin(name, outer, "");
        rig.associate(&Pair::default()).unwrap();
        let of_class = ["--class", "ef"].map(str::to_owned).to_vec();
        rig.associate(&Pair { v6: true, mode: "tunnel", bob: of_class, ..Pair::default() }).unwrap();
        let _echo = echo_server(&rig, &app);
        // Neither is marked.
        let (flood, urgent) = (Side::Bob.v4().to_string(), Side::Bob.v6().to_string());
        let after = flooded(&rig, &app, &flood, (&urgent, 0));
        assert_eq!((after[0].arrived, after[0].lost, after[2].arrived), (20, 0, 0), "{outer}: {after:?}");
        assert!(after[1].lost > 0, "{outer}: {after:?}");
        // One that is gone is a stranger's.
        let list = rig.json(Side::Bob, &["sa", "list"]).unwrap();
        let inbound = list["sas"].as_array().unwrap().iter().find(|sa| {
            sa["direction"] == "in" && sa["local"].as_str().is_some_and(|local| local.contains(':'))
        });
        let spi = inbound.unwrap()["spi"].as_str().unwrap().to_owned();
        rig.ravelin(Side::Bob, &["sa", "del", &spi, "--direction", "in"], "").unwrap();
        let done = rig.lab.alice().run_program(sends_to(&app, &urgent, 0, 30), PATIENCE).unwrap();
        assert!(done.status.success(), "{}", done.err());
        tests::wait_for("packets of strangers", PATIENCE, || {
            let queues = queues(&rig);
            if queues[2].taken == 30 && queues[0].arrived == 20 {
                Ok(())
            } else {
                Err(format!("{outer}: {queues:?}"))
            }
        });
    }
}
