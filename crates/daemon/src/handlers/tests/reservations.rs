//! Reservations over the API: admitted, refused with a reason, refreshed, removed, and what another graph makes of them.

use engine::{Delivery, Inbound, Outbound};
use sockmon::{ReservedClass, ReservedName};
use wire::{Pool, Time};

use super::*;
use crate::graph_store::GraphStore;
use crate::graphs::{GraphMaker, PreparedGraph, Surroundings};
use crate::plane::GraphInForce;
use crate::reservations::Booking;

const PATH: &str = api::path::QOS_RESERVATIONS;

/// Two classes, and an uplink of 80 Mbit/s, of which 60 can be reserved.
const GRAPH: &str = "preset = \"two-classes\"\n[uplink.eth0]\nrate = \"80Mbit\"\noverhead = 38\n";

/// The graph that a configuration names, which both halves run from now on.
pub(super) fn graph(config: &Config, outbound: &mut Outbound, inbound: &mut Inbound) -> Option<GraphInForce> {
    let registry = crypto_std::registry().unwrap();
    let folder = config.control_socket.parent().unwrap().to_owned();
    let mut store = GraphStore::open(config, &folder).unwrap()?;
    let maker = GraphMaker::new(config, &registry, Default::default());
    let text = store.configured().unwrap();
    let prepared = maker.make(&text, &Default::default(), Surroundings::default()).unwrap();
    store.adopt(text);
    let PreparedGraph { loaded, outbound: out, inbound: back, notes, .. } = prepared;
    outbound.set_graph(Time(0), Some(out), &mut pool(), &mut Vec::new());
    inbound.set_graph(Time(0), Some(back), &mut pool(), &mut Vec::new(), &mut Delivery::new());
    let booking = Booking::new(&loaded, [7; 16]);
    Some(GraphInForce {
        loaded,
        store,
        maker,
        queues: None,
        sockets: None,
        notes,
        booking,
        detached: Vec::new(),
    })
}

fn pool() -> Pool {
    Pool::new(2048, 128, 4)
}

fn daemon(name: &str) -> Daemon {
    let folder = Folder::new(name);
    let plane = plane(folder.config_with_graph(GRAPH), None);
    Daemon::over(folder, plane)
}

/// A call of this holder to a port.
fn call(holder: &str, port: u16) -> Value {
    json!({
        "class": "ef", "rate_bits_per_second": 2_000_000, "burst_octets": 3000, "packet_octets": 1000,
        "flow": { "destination": "192.0.2.9", "protocol": 17, "destination_port": port, "dscp": 0 },
        "holder": holder, "seconds_to_live": 60,
    })
}

fn with(mut request: Value, field: &str, value: Value) -> Value {
    request[field] = value;
    request
}

/// What is left of the uplink, as the document has it.
fn left(document: &Value) -> (u64, u64) {
    let of = document["resources"].as_array().unwrap().iter().find(|of| of["kind"] == "uplink").unwrap();
    assert_eq!((&of["name"], &of["reservable"]), (&json!("eth0"), &json!(7_500_000)), "{of}");
    (of["reserved"].as_u64().unwrap(), of["free"].as_u64().unwrap())
}

#[test]
fn a_reservation_is_made_refreshed_changed_and_removed() {
    let daemon = daemon("reserve");
    let (status, made) = daemon.ask("POST", PATH, &call("pbx", 5004).to_string());
    assert_eq!(status, 200, "{made}");
    let of = &made["reservation"];
    // 250,000 octets a second are 250 packets, with 121 octets of outer headers and 38 of the link each.
    assert_eq!(of["takes"]["uplink_octets_per_second"], 250_000 + 250 * 159);
    assert!(of["takes"]["unit_ns_per_second"].as_u64().unwrap() >= 250 * 1_500, "{of}");
    assert_eq!(
        (&of["takes"]["unit"], &of["holder"], &of["class"]),
        (&json!("inline"), &json!("pbx"), &json!("ef"))
    );
    assert!((59..=60).contains(&of["seconds_left"].as_u64().unwrap()), "{of}");
    assert_eq!(left(&made), (289_750, 7_210_250));
    // The same once more is a refresh, and takes nothing more.
    let (_, again) = daemon.ask("POST", PATH, &call("pbx", 5004).to_string());
    assert_eq!((&again["reservation"]["id"], left(&again)), (&of["id"], (289_750, 7_210_250)));
    let refresh = format!("{PATH}/{}/refresh", of["id"]);
    assert_eq!(daemon.ask("POST", &refresh, r#"{"holder":"pbx"}"#).0, 200);
    // Another rate takes its place.
    let half = with(call("pbx", 5004), "rate_bits_per_second", json!(1_000_000));
    let (_, changed) = daemon.ask("POST", PATH, &half.to_string());
    assert_eq!(left(&changed), (144_875, 7_355_125));
    let (_, list) = daemon.ask("GET", PATH, "");
    assert_eq!((list["reservations"].as_array().unwrap().len(), left(&list)), (1, (144_875, 7_355_125)));
    assert_eq!(
        list["reservations"][0]["flow"],
        json!({ "destination": "192.0.2.9", "protocol": 17, "destination_port": 5004, "dscp": 0 })
    );
    let (_, state) = daemon.ask("GET", api::path::QOS, "");
    assert_eq!((&state["reservations"], left(&state)), (&json!(1), (144_875, 7_355_125)));
    let id = changed["reservation"]["id"].clone();
    let (status, removed) = daemon.ask("DELETE", &format!("{PATH}/{id}?holder=pbx"), "");
    assert_eq!((status, left(&removed)), (200, (0, 7_500_000)), "{removed}");
    assert_eq!(daemon.ask("DELETE", &format!("{PATH}/{id}?holder=pbx"), "").0, 404);
}

#[test]
fn what_cannot_be_promised_is_refused_with_a_reason() {
    let daemon = daemon("refused");
    let flow = |flow: Value| with(call("pbx", 5004), "flow", flow);
    let rows = [
        (with(call("pbx", 1), "rate_bits_per_second", json!(0)), "rate 0"),
        (with(call("pbx", 1), "burst_octets", json!(1499)), "does not hold one packet; give at least 1500"),
        (with(call("pbx", 1), "packet_octets", json!(0)), "1 to 65535 octets"),
        (with(call("pbx", 1), "class", json!("eff")), "no class \"eff\""),
        (with(call("pbx", 1), "class", json!("be")), "nothing else is known of"),
        (with(call("pbx", 1), "uplink", json!("eth1")), "no uplink \"eth1\""),
        (with(call("pbx", 1), "unit", json!("two")), "no unit \"two\""),
        (with(call("pbx", 1), "seconds_to_live", json!(3601)), "1 to 3600 seconds"),
        (with(call("pbx", 1), "seconds_to_live", json!(0)), "1 to 3600 seconds"),
        (with(call("pbx", 1), "holder", json!("")), "name of a holder"),
        (with(call("pbx", 1), "holder", json!("a b")), "name of a holder"),
        (with(call("pbx", 1), "colour", json!("red")), "colour"),
        (flow(json!({ "destination": "192.0.2.9", "protocol": 50 })), "its SPI, which is missing"),
        (flow(json!({ "destination": "192.0.2.9", "protocol": 17, "spi": "0x1000" })), "not of protocol 17"),
        (flow(json!({ "destination": "192.0.2.9", "protocol": 50, "spi": "0xff" })), "RFC 4303 section 2.1"),
        (
            flow(json!({ "destination": "192.0.2.9", "protocol": 50, "spi": "0x1000", "virtual_port": 0 })),
            "not zero",
        ),
        (
            flow(json!({ "destination": "192.0.2.9", "protocol": 50, "spi": "0x1000", "dscp": 1 })),
            "leave them out",
        ),
        (flow(json!({ "destination": "192.0.2.9", "protocol": 17, "virtual_port": 9 })), "goes with an SPI"),
        (flow(json!({ "destination": "192.0.2.9", "protocol": 17, "dscp": 64 })), "0 to 63, not 64"),
    ];
    for (request, text) in rows {
        let (status, refused) = daemon.ask("POST", PATH, &request.to_string());
        assert_eq!(status, 400, "{request}: {refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(text), "{text}: {refused}");
    }
    // What does not fit is refused with the figures: of 7,500,000 octets a second 60 Mbit/s take all and more.
    let much = with(call("pbx", 1), "rate_bits_per_second", json!(60_000_000));
    let (status, refused) = daemon.ask("POST", PATH, &much.to_string());
    let text = refused["error"]["message"].as_str().unwrap();
    assert_eq!(
        (status, text),
        (409, "the uplink `eth0` has 7500000 octets a second left, and 8692500 were asked for")
    );
    assert_eq!(left(&daemon.ask("GET", PATH, "").1), (0, 7_500_000));
    // Another holder neither takes nor changes it.
    let id = daemon.ask("POST", PATH, &call("pbx", 5004).to_string()).1["reservation"]["id"].clone();
    let refresh = format!("{PATH}/{id}/refresh");
    for (method, path, body, code) in [
        ("POST", PATH, call("other", 5004).to_string(), 400),
        ("POST", refresh.as_str(), r#"{"holder":"other"}"#.to_owned(), 400),
        ("DELETE", &format!("{PATH}/{id}?holder=other"), String::new(), 400),
        ("DELETE", &format!("{PATH}/{id}"), String::new(), 400),
        ("DELETE", &format!("{PATH}/x?holder=pbx"), String::new(), 400),
        ("POST", &format!("{PATH}/99/refresh"), r#"{"holder":"pbx"}"#.to_owned(), 404),
    ] {
        let (status, refused) = daemon.ask(method, path, &body);
        assert_eq!(status, code, "{method} {path}: {refused}");
    }
    assert_eq!(daemon.ask("GET", PATH, "").1["reservations"].as_array().unwrap().len(), 1);
    // A second session of one SPI would have the same packets.
    let spi = |port: u16| {
        flow(json!({ "destination": "192.0.2.9", "protocol": 50, "spi": "0x1000", "virtual_port": port }))
    };
    assert_eq!(daemon.ask("POST", PATH, &spi(11).to_string()).0, 200);
    let (status, refused) = daemon.ask("POST", PATH, &spi(12).to_string());
    assert!(
        status == 400 && refused["error"]["message"].as_str().unwrap().contains("virtual port 11"),
        "{refused}"
    );
}

#[test]
fn what_is_not_refreshed_is_gone() {
    let daemon = daemon("expire");
    let short = with(call("pbx", 5004), "seconds_to_live", json!(1));
    assert_eq!(daemon.ask("POST", PATH, &short.to_string()).0, 200);
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let (_, list) = daemon.ask("GET", PATH, "");
        if list["reservations"].as_array().unwrap().is_empty() {
            assert_eq!(left(&list), (0, 7_500_000));
            break;
        }
        assert!(std::time::Instant::now() < patience, "{list}");
        std::thread::yield_now();
    }
}

#[test]
fn a_graph_that_would_end_reservations_is_refused_unless_it_is_told_to() {
    let daemon = daemon("exchange");
    assert_eq!(daemon.ask("POST", PATH, &call("pbx", 5004).to_string()).0, 200);
    let apply = |text: &str, end: bool| {
        let request = json!({ "text": text, "end_reservations": end });
        daemon.ask("POST", api::path::QOS_APPLY, &request.to_string())
    };
    let fifo = "preset = \"fifo\"\n[uplink.eth0]\nrate = \"80Mbit\"\noverhead = 38\n";
    let slow = GRAPH.replace("80Mbit", "2Mbit");
    for text in [fifo, "preset = \"two-classes\"\n", &slow] {
        let (status, refused) = apply(text, false);
        assert_eq!(status, 409, "{text}: {refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.ends_with("reservations that are held: 1 of pbx"), "{message}");
    }
    assert_eq!(daemon.ask("GET", PATH, "").1["reservations"].as_array().unwrap().len(), 1);
    // One that has all of it keeps the reservation, whatever else it changes.
    let (status, applied) = apply(&GRAPH.replace("80Mbit", "800Mbit"), false);
    assert_eq!((status, applied.get("ended_reservations")), (200, None), "{applied}");
    let (status, applied) = apply(fifo, true);
    let ended = applied["ended_reservations"][0].as_str().unwrap();
    assert!(status == 200 && ended.starts_with("reservation 1 of pbx: 2000000 bit/s"), "{applied}");
    let (_, list) = daemon.ask("GET", PATH, "");
    assert_eq!((list["reservations"].as_array().unwrap().len(), left(&list)), (0, (0, 7_500_000)));
}

#[test]
fn the_kernel_half_hears_of_flows_by_ports_and_a_refusal_of_it_leaves_nothing() {
    let kernel_half = Recorder::default();
    let folder = Folder::new("reserve-kernel");
    let plane = plane_over(kernel_half.clone(), folder.config_with_graph(GRAPH), None);
    let daemon = Daemon::over(folder, plane);
    let name = ReservedName {
        destination: "192.0.2.9".parse().unwrap(),
        protocol: 17,
        source_port: 0,
        destination_port: 5004,
        dscp: Some(0),
    };
    let class = ReservedClass { class: wire::AggregateId(2), rate: 250_000, burst: 3000, least: 1000 };
    let (_, made) = daemon.ask("POST", PATH, &call("pbx", 5004).to_string());
    assert_eq!(kernel_half.take_calls(), [Call::SetReserved(name, Some(class))]);
    // A refresh changes nothing there.
    daemon.ask("POST", PATH, &call("pbx", 5004).to_string());
    assert_eq!(kernel_half.take_calls(), []);
    let id = &made["reservation"]["id"];
    assert_eq!(daemon.ask("DELETE", &format!("{PATH}/{id}?holder=pbx"), "").0, 200);
    assert_eq!(kernel_half.take_calls(), [Call::SetReserved(name, None)]);
    // What shows an SPI alone is sealed already, or arrives.
    let spi = json!({ "destination": "192.0.2.9", "protocol": 50, "spi": "0x1000" });
    assert_eq!(daemon.ask("POST", PATH, &with(call("pbx", 0), "flow", spi).to_string()).0, 200);
    assert_eq!(kernel_half.take_calls(), []);
    kernel_half.fail(&["set_reserved"]);
    let (status, refused) = daemon.ask("POST", PATH, &call("pbx", 5004).to_string());
    assert_eq!((status, &refused["error"]["code"]), (500, &json!("failed")), "{refused}");
    assert_eq!(daemon.ask("GET", PATH, "").1["reservations"].as_array().unwrap().len(), 1);
}

#[test]
fn without_a_graph_nothing_can_be_reserved() {
    let daemon = Daemon::start("reserve-none");
    let (status, refused) = daemon.ask("POST", PATH, &call("pbx", 5004).to_string());
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("conflict")), "{refused}");
    assert_eq!(daemon.ask("GET", PATH, "").0, 409);
}

#[test]
fn a_graph_without_an_uplink_takes_no_reservation() {
    let folder = Folder::new("reserve-uplink");
    let plane = plane(folder.config_with_graph("preset = \"two-classes\"\n"), None);
    let daemon = Daemon::over(folder, plane);
    let (status, refused) = daemon.ask("POST", PATH, &call("pbx", 5004).to_string());
    assert!(
        status == 400 && refused["error"]["message"].as_str().unwrap().contains("describes no uplink"),
        "{refused}"
    );
}
