//! Routers that drop what is too long for them and say nothing: found by probing, and said until it is (docs/pmtu.md,
//! docs/design/0029).

use lab::rig::{Pair, Rig, RigOptions};
use lab::{Program, Side};
use serde_json::Value;
use tests::exchange::{CLIENT, PATIENCE_SECONDS, SERVER};
use tests::sites::{self, Sites};
use tests::{PATIENCE, binary, counted, monitor, program, protect, router, wait_for, wait_until};

use crate::paths::{Transfers, path_mtus};

const PORT: u16 = 7060;

fn build(name: &str) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    router::build(&rig.lab).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("python3"), peer)).unwrap();
    }
    rig.start_both().unwrap();
    for v6 in [false, true] {
        rig.associate(&Pair { v6, mode: if v6 { "tunnel" } else { "transport" }, ..Pair::default() })
            .unwrap();
    }
    rig
}

/// The path MTUs are all in this range.
fn wait_for_range(rig: &Rig, least: u64, most: u64) {
    wait_for(&format!("{least} to {most}"), PATIENCE * 3, || {
        let found = path_mtus(rig, Side::Alice);
        let all = found.iter().all(|mtu| (least..=most).contains(mtu));
        if all && !found.is_empty() { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

/// The path MTUs that probes gave, as the monitor has told them.
fn probed(told: &str) -> Vec<u64> {
    let lines = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = lines.filter(|line| line["event"] == "pmtu" && line["cause"] == "probe");
    ours.map(|line| line["mtu"].as_u64().unwrap()).collect()
}

#[test]
fn long_packets_that_vanish_are_found_and_no_transfer_ends() {
    let rig = build("rvl-hole-h");
    let events = monitor(&rig, Side::Alice);
    router::tell(&rig.lab, false).unwrap();
    let mut transfers = Transfers::begin(&rig, "hole", &[("tcp", 300_000, 1000), ("udp", 8000, 1000)]);
    for mtu in [1400, 1290] {
        router::narrow(&rig.lab, mtu).unwrap();
        wait_for_range(&rig, u64::from(mtu) - 16, mtu.into());
        transfers.go_on(&format!("at {mtu}"));
    }
    router::narrow(&rig.lab, 1500).unwrap();
    wait_for_range(&rig, 1500, 1500);
    transfers.go_on("at 1500 again");
    transfers.end("black holes at 1400 and 1290, and none again, host");
    assert_eq!(counted(&rig, Side::Alice, "outbound", "icmp_taken"), 0, "nobody said a word");
    let found = probed(&events.output());
    assert!(found.contains(&1280) && found.contains(&1500), "{found:?}");
    assert!(counted(&rig, Side::Bob, "inbound", "esp_dummy") > 0);
    let status = rig.json(Side::Alice, &["status"]).unwrap();
    assert_eq!(status["state"], "ok", "{status}");
}

#[test]
fn what_no_path_mtu_passes_is_degraded_until_it_passes() {
    let rig = build("rvl-hole-d");
    let server = Program::new(program("python3")).args(["-c", SERVER, &PORT.to_string()]);
    let server = rig.lab.bob().spawn(server).unwrap();
    server.wait_for_output("ready", PATIENCE).unwrap();
    let stop = rig.folder().join("stop");
    let client = |patience: u32| {
        let (to, port, patience) = (Side::Bob.v4().to_string(), PORT.to_string(), patience.to_string());
        let program = Program::new(program("python3"));
        program.args(["-c", CLIENT, "tcp", &to, &port, "300000", "1000", &patience]).arg(&stop)
    };
    // Longer than the kernel waits until it tries again.
    let client = rig.lab.alice().spawn(client(PATIENCE_SECONDS * 20)).unwrap();
    client.wait_for_output("at 2", PATIENCE).unwrap();
    let status = || -> Value {
        serde_json::from_str(&rig.command(Side::Alice, &["status", "--json"], "").unwrap().out()).unwrap()
    };
    let problem = || -> Option<Value> {
        let problems = status()["problems"].as_array()?.clone();
        problems.into_iter().find(|problem| problem["code"] == "long_packets")
    };
    assert_eq!(problem(), None);
    // Less than any host of IPv4 has to take.
    router::tell(&rig.lab, false).unwrap();
    let to_bob = format!("route replace {} dev bob mtu lock 500", Side::Bob.v4());
    router::run(&rig.lab, "ip", &to_bob.split(' ').collect::<Vec<_>>(), "").unwrap();
    wait_until("it is said", PATIENCE * 3, || problem().is_some_and(|one| !one["application"].is_null()));
    let said = problem().unwrap();
    assert_eq!(status()["state"], "degraded");
    assert_eq!(said["application"], program("python3").display().to_string(), "{said}");
    assert_eq!(said["peer"], Side::Bob.v4().to_string(), "{said}");
    assert!(said["since_unix_seconds"].as_u64().unwrap() > 1_000_000_000, "{said}");
    let remedy = said["remedy"].as_str().unwrap();
    assert!(remedy.contains("icmp/3/4") && remedy.contains("ravelin sa list"), "{said}");
    assert!(said["message"].as_str().unwrap().contains("576"), "{said}");
    let config = rig.config_file(Side::Alice).display().to_string();
    let doctor = Program::new(binary()).args(["doctor", "--config", &config]);
    let doctor = rig.lab.alice().run_program(doctor, PATIENCE).unwrap();
    assert!(doctor.out().contains("no long packets"), "{}{}", doctor.out(), doctor.err());

    router::narrow(&rig.lab, 1500).unwrap();
    wait_until("it is no longer said", PATIENCE * 3, || problem().is_none());
    assert_eq!(status()["state"], "ok");
    wait_for_range(&rig, 1500, 1500);
    std::fs::write(&stop, "").unwrap();
    let done = client.finish(PATIENCE * 6).unwrap();
    assert!(done.out().contains("whole"), "{}{}", done.out(), done.err());
}

/// Everything between the sites is protected.
fn rules(side: Side) -> String {
    let peer = if side == Side::Alice { Side::Bob } else { Side::Alice };
    let selectors = [false, true]
        .map(|v6| format!("\"local {} remote {}\"", sites::network(side, v6), sites::network(peer, v6)))
        .join(",");
    format!("{{\"rule\":{{\"direction\":\"both\",\"selectors\":[{selectors}],\"action\":\"protect\"}}}}\n")
}

#[test]
fn a_gateway_finds_them_for_the_hosts_behind_it() {
    let sites = Sites::build("rvl-hole-g", 1500, rules, "").unwrap();
    let (alice, bob) = (sites.host(Side::Alice), sites.host(Side::Bob));
    let (_server, _) = sites::serve(bob, SERVER, &[&PORT.to_string()]).unwrap();
    let stop = sites.rig.folder().join("stop");
    let stop_at = stop.display().to_string();
    router::tell(&sites.rig.lab, false).unwrap();
    let mut clients = Vec::new();
    for v6 in [false, true] {
        for (kind, up, down) in [("tcp", "300000", "1000"), ("udp", "8000", "1000")] {
            let (to, port, patience) =
                (sites::host(Side::Bob, v6), PORT.to_string(), PATIENCE_SECONDS.to_string());
            let args = [kind, to, &port, up, down, &patience, &stop_at];
            let (client, _) = sites::serve(alice, CLIENT, &args).unwrap();
            clients.push((format!("{kind} IPv6 {v6}"), client));
        }
    }
    for (mtu, least) in [(1400, 1384), (1500, 1500)] {
        router::narrow(&sites.rig.lab, mtu).unwrap();
        wait_for_range(&sites.rig, least, mtu.into());
        for (what, client) in &mut clients {
            for _ in 0..3 {
                let line = client.line().unwrap_or_else(|error| panic!("{what} at {mtu}: {error:#}"));
                assert!(line.starts_with("at "), "{what} at {mtu}: {line}");
            }
        }
    }
    std::fs::write(&stop, "").unwrap();
    for (what, mut client) in clients {
        let last = loop {
            let line = client.line().unwrap_or_else(|error| panic!("{what}: {error:#}"));
            if !line.starts_with("at ") {
                break line;
            }
        };
        assert!(last.starts_with("whole"), "{what}: {last}");
        eprintln!("bench: black hole at 1400, and none again, gateway: {what}: {last}");
    }
}
