//! The path MTU of associations follows the world: an uplink's MTU that becomes smaller or larger, another uplink, under transfers that
//! must not stop (docs/pmtu.md).

use std::os::fd::AsFd;
use std::path::PathBuf;

use lab::rig::{Pair, Rig, RigOptions};
use lab::{Program, Running, Side};
use netio::link::{End, Links};
use netio::netns::Netns;
use serde_json::Value;
use tests::exchange::{CLIENT, PATIENCE_SECONDS, SERVER};
use tests::sites::{self, Sites, sh};
use tests::{PATIENCE, binary, monitor, program, protect, wait_for, wait_until};

const PORT: u16 = 7060;

pub(crate) fn address(side: Side, v6: bool) -> String {
    if v6 { side.v6().to_string() } else { side.v4().to_string() }
}

/// Two hosts on one wire, and a second pair of devices (`eth1`) that nothing goes by yet.
fn build(name: &str) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    second_uplink(&rig);
    rig.guard(&["eth0", "eth1"]);
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        let policy = protect(&program("python3"), peer) + &protect(&program("ping"), peer);
        rig.set_policy(side, &policy).unwrap();
    }
    rig.start_both().unwrap();
    associate(&rig);
    rig
}

fn associate(rig: &Rig) {
    for v6 in [false, true] {
        rig.associate(&Pair { v6, mode: if v6 { "tunnel" } else { "transport" }, ..Pair::default() })
            .unwrap();
    }
}

fn second_uplink(rig: &Rig) {
    let (alice, bob) = (rig.lab.alice().netns(), rig.lab.bob().netns());
    Links::open()
        .unwrap()
        .add_veth(
            End { name: "eth1", namespace: Some(alice.as_fd()) },
            End { name: "eth1", namespace: Some(bob.as_fd()) },
        )
        .unwrap();
    for side in Side::BOTH {
        // The host's addresses are valid there too, so that the peer is found on either link.
        let script = format!(
            "ip link set eth1 mtu 1300 up; ip addr add {}/32 dev eth1; ip -6 addr add {}/128 dev eth1 nodad",
            side.v4(),
            side.v6()
        );
        sh(rig.lab.host(side).netns(), &script).unwrap();
    }
}

/// Have packets to the peer leave by this device from now on, on both hosts.
fn go_by(rig: &Rig, device: &str) {
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        let script = format!(
            "ip route replace {}/32 dev {device} src {}; ip -6 route replace {}/128 dev {device} src {}",
            peer.v4(),
            side.v4(),
            peer.v6(),
            side.v6()
        );
        sh(rig.lab.host(side).netns(), &script).unwrap();
    }
}

/// The MTU of a host's `eth0`, and of the wire's port to it.
fn set_mtu(rig: &Rig, side: Side, mtu: u16) {
    set_port(rig.lab.wire(), side, mtu);
    sh(rig.lab.host(side).netns(), &format!("ip link set eth0 mtu {mtu}")).unwrap();
}

fn set_port(wire: &Netns, side: Side, mtu: u16) {
    sh(wire, &format!("ip link set {} mtu {mtu}", side.name())).unwrap();
}

/// The path MTUs of a host's outbound associations.
pub(crate) fn path_mtus(rig: &Rig, side: Side) -> Vec<u64> {
    let list = rig.json(side, &["sa", "list"]).unwrap();
    let all = list["sas"].as_array().unwrap().iter();
    all.filter(|sa| sa["direction"] == "out").map(|sa| sa["path_mtu"].as_u64().unwrap()).collect()
}

pub(crate) fn wait_for_mtu(rig: &Rig, side: Side, mtu: u64) {
    wait_for(&format!("{}'s associations have {mtu}", side.name()), PATIENCE, || {
        let found = path_mtus(rig, side);
        if !found.is_empty() && found.iter().all(|found| *found == mtu) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    });
}

/// Transfers that go on until [`Transfers::end`].
pub(crate) struct Transfers {
    clients: Vec<(String, Running)>,
    stop: PathBuf,
    _server: Running,
}

/// How far a client has come.
fn progress(client: &Running) -> u64 {
    let output = client.output();
    let last = output.lines().rev().find_map(|line| line.strip_prefix("at ")?.parse().ok());
    last.unwrap_or(0)
}

impl Transfers {
    /// Start transfers from alice to a server of bob's, TCP and UDP, both families; `sizes`: octets there and back.
    pub(crate) fn begin(rig: &Rig, name: &str, sizes: &[(&str, u32, u32)]) -> Transfers {
        let server = Program::new(program("python3")).args(["-c", SERVER, &PORT.to_string()]);
        let server = rig.lab.bob().spawn(server).unwrap();
        server.wait_for_output("ready", PATIENCE).unwrap();
        let stop = rig.folder().join(format!("stop-{name}"));
        let mut clients = Vec::new();
        for v6 in [false, true] {
            for (kind, up, down) in sizes {
                let (to, port, patience) =
                    (address(Side::Bob, v6), PORT.to_string(), PATIENCE_SECONDS.to_string());
                let client = Program::new(program("python3"))
                    .args(["-c", CLIENT, kind, &to, &port, &up.to_string(), &down.to_string(), &patience])
                    .arg(&stop);
                let what = format!("{kind} IPv{} {up} there {down} back", if v6 { 6 } else { 4 });
                clients.push((what, rig.lab.alice().spawn(client).unwrap()));
            }
        }
        let mut begun = Transfers { clients, stop, _server: server };
        begun.go_on("at first");
        begun
    }

    /// Each of them comes further than it was.
    pub(crate) fn go_on(&mut self, after: &str) {
        for (what, client) in &mut self.clients {
            let before = progress(client);
            wait_until(&format!("{what} goes on {after}"), PATIENCE * 2, || {
                assert!(!client.has_ended().unwrap(), "{what} {after}: {}", client.output());
                progress(client) > before + 1
            });
        }
    }

    /// Let them end; how long each had to wait at most is printed, and nothing is asked of it.
    pub(crate) fn end(self, bench: &str) {
        std::fs::write(&self.stop, "").unwrap();
        for (what, client) in self.clients {
            let done = client.finish(PATIENCE * 2).unwrap();
            assert!(done.status.success(), "{what}: {}{}", done.out(), done.err());
            let last = done.out().lines().last().unwrap_or_default().to_owned();
            assert!(last.starts_with("whole"), "{what}: {last}");
            eprintln!("bench: {bench}: {what}: {last}");
        }
        std::fs::remove_file(&self.stop).unwrap();
    }
}

/// What arrives of pings of so many octets.
fn ping(rig: &Rig, v6: bool, octets: u32) -> String {
    let to = address(Side::Bob, v6);
    let args =
        [if v6 { "-6" } else { "-4" }, "-c", "2", "-i", "0.2", "-W", "5", "-s", &octets.to_string(), &to];
    let done = rig.lab.alice().run_program(Program::new(program("ping")).args(args), PATIENCE).unwrap();
    done.out()
}

#[test]
fn the_mtu_of_an_uplink_changes_and_no_transfer_stops() {
    let rig = build("rvl-path-h");
    let events = monitor(&rig, Side::Alice);
    for side in Side::BOTH {
        wait_for_mtu(&rig, side, 1500);
    }
    // Larger: what the old size did not take is not lost, not even the first one.
    for side in Side::BOTH {
        set_mtu(&rig, side, 9000);
    }
    for side in Side::BOTH {
        wait_for_mtu(&rig, side, 9000);
    }
    for v6 in [false, true] {
        let said = ping(&rig, v6, 8000);
        assert!(said.contains("2 packets transmitted, 2 received"), "{said}");
    }
    let mut transfers = Transfers::begin(&rig, "h", &[("tcp", 300_000, 1000), ("udp", 8000, 1000)]);
    // Smaller, and larger again, on alice's side alone: she sends all that is long.
    for mtu in [1280, 1500, 1300, 9000] {
        sh(rig.lab.alice().netns(), &format!("ip link set eth0 mtu {mtu}")).unwrap();
        wait_for_mtu(&rig, Side::Alice, mtu);
        transfers.go_on(&format!("at {mtu}"));
    }
    // Another uplink, and back.
    go_by(&rig, "eth1");
    for side in Side::BOTH {
        wait_for_mtu(&rig, side, 1300);
    }
    transfers.go_on("by eth1");
    go_by(&rig, "eth0");
    wait_for_mtu(&rig, Side::Alice, 9000);
    transfers.go_on("by eth0 again");
    transfers.end("uplink MTU 9000, 1280, 1500, 1300, 9000, eth1 (1300), eth0, host");
    let told = events.output();
    let lines: Vec<Value> = told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let by_route = |mtu: u64| {
        lines.iter().any(|line| line["event"] == "pmtu" && line["cause"] == "route" && line["mtu"] == mtu)
    };
    assert!(by_route(1280) && by_route(9000) && by_route(1300), "{told}");
    let status = rig.json(Side::Alice, &["status"]).unwrap();
    assert_eq!(status["state"], "ok", "{status}");
}

#[test]
fn a_download_over_the_narrower_of_two_uplinks_gets_through() {
    let rig = build("rvl-path-2");
    go_by(&rig, "eth1");
    // Fresh ones begin with what their own route takes; those of the first uplink are gone.
    tests::forget_keys(&rig);
    associate(&rig);
    for side in Side::BOTH {
        assert_eq!(path_mtus(&rig, side), [1300, 1300]);
    }
    let mut transfers = Transfers::begin(&rig, "2", &[("tcp", 1000, 300_000), ("udp", 1000, 8000)]);
    transfers.go_on("by eth1");
    transfers.end("downloads over the narrower uplink");
}

#[test]
fn what_the_operator_allows_is_never_exceeded() {
    let options =
        RigOptions { name: "rvl-path-o".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("python3"), peer)).unwrap();
    }
    rig.start_both().unwrap();
    let extra: Vec<String> = ["--path-mtu", "1400"].map(str::to_owned).into();
    rig.associate(&Pair { alice: extra, ..Pair::default() }).unwrap();
    assert_eq!(path_mtus(&rig, Side::Alice), [1400]);
    assert_eq!(path_mtus(&rig, Side::Bob), [1500]);
    set_mtu(&rig, Side::Alice, 1350);
    wait_for_mtu(&rig, Side::Alice, 1350);
    set_mtu(&rig, Side::Alice, 9000);
    wait_for_mtu(&rig, Side::Alice, 1400);
    // A metric of the route says less than the device.
    set_mtu(&rig, Side::Bob, 9000);
    wait_for_mtu(&rig, Side::Bob, 9000);
    sh(rig.lab.bob().netns(), &format!("ip route replace {}/32 dev eth0 mtu 1450", Side::Alice.v4()))
        .unwrap();
    wait_for_mtu(&rig, Side::Bob, 1450);
    // A successor of the daemon asks again.
    rig.release(Side::Bob).unwrap().leave();
    rig.start_with(Side::Bob, &["--take-over"]).unwrap();
    assert_eq!(path_mtus(&rig, Side::Bob), [1450]);
    sh(rig.lab.bob().netns(), &format!("ip route del {}/32", Side::Alice.v4())).unwrap();
    wait_for_mtu(&rig, Side::Bob, 9000);
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
fn the_mtu_of_a_gateways_uplink_changes_and_no_transfer_behind_it_stops() {
    let sites = Sites::build("rvl-path-g", 1500, rules, "").unwrap();
    let (alice, bob) = (sites.host(Side::Alice), sites.host(Side::Bob));
    let (_server, _) = sites::serve(bob, SERVER, &[&PORT.to_string()]).unwrap();
    let stop = sites.rig.folder().join("stop-g");
    let stop_at = stop.display().to_string();
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
    let gateway = sites.rig.lab.host(Side::Alice).netns();
    for mtu in [1280, 1500, 1300, 1500] {
        sh(gateway, &format!("ip link set eth0 mtu {mtu}")).unwrap();
        wait_for_mtu(&sites.rig, Side::Alice, mtu);
        for (what, client) in &mut clients {
            // One line may have been on its way before the change.
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
        eprintln!("bench: uplink MTU 1280, 1500, 1300, 1500, gateway: {what}: {last}");
    }
}
