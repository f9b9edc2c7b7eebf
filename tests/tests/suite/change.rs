//! A gateway whose surroundings change: its devices, the daemon that runs it, the rules that are handed over.

use lab::Side;
use serde_json::Value;
use tests::sites::{Sites, WORLD, host, network, python, sh};
use tests::{PATIENCE, wait_for, wait_until};

/// Something of every network is protected, so that the engine looks at all between the sites; the rest is clear.
fn rules(side: Side) -> String {
    let peer = if side == Side::Alice { Side::Bob } else { Side::Alice };
    let protect = [false, true].map(|v6| {
        format!(
            "{{\"rule\":{{\"direction\":\"both\",\"selectors\":[\"local {} remote {} proto tcp remote-port 80\"],\
             \"action\":\"protect\"}}}}\n",
            network(side, v6),
            network(peer, v6)
        )
    });
    protect.concat() + "{\"rule\":{\"direction\":\"both\",\"selectors\":[\"any\"],\"action\":\"bypass\"}}\n"
}

/// The document of a daemon that may be degraded.
fn status(sites: &Sites, side: Side) -> Value {
    serde_json::from_str(&sites.rig.command(side, &["status", "--json"], "").unwrap().out()).unwrap()
}

/// Wait for a problem that says this.
fn problem(sites: &Sites, text: &str) {
    wait_for(text, PATIENCE, || {
        let problems = status(sites, Side::Alice)["problems"].to_string();
        if problems.contains(text) { Ok(()) } else { Err(problems) }
    });
}

fn take_over(sites: &mut Sites) -> String {
    let old = sites.rig.release(Side::Alice).unwrap();
    sites.rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    old.finish(PATIENCE).unwrap();
    sites.rig.daemon(Side::Alice).unwrap().output()
}

fn rule_count(sites: &Sites) -> usize {
    sites.rig.json(Side::Alice, &["spd", "list"]).unwrap()["rules"].as_array().unwrap().len()
}

/// Sends what must not be fragmented until the kernel knows better; prints the path MTU that it learned.
const PATH_MTU: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(0, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
s.connect((sys.argv[1], 7001))
for attempt in range(100):
    try:
        s.send(bytes(1500 - 28))
    except OSError:
        break
    time.sleep(0.1)
print(s.getsockopt(0, 14))  # IP_MTU
"#;

#[test]
fn answers_to_what_is_too_big_name_the_mtu_that_the_device_has_now() {
    let sites = Sites::build("rvl-gwmtu", 1500, rules, "").unwrap();
    let gateway = sites.rig.lab.alice().netns();
    sh(gateway, "ip link set eth0 mtu 1300").unwrap();
    // News of devices are read once a second; answers of before name no less than the sender has sent.
    // IPv6 datagrams are cut in their stead: nobody says of them whether they may be.
    let learned = python(sites.host(Side::Alice), PATH_MTU, &[host(Side::Bob, false)], PATIENCE).unwrap();
    assert_eq!(learned.trim(), "1300");
}

#[test]
fn a_take_over_pauses_nothing_that_is_clear_by_address_and_keeps_the_rules() {
    let mut sites = Sites::build("rvl-gwtake", 1500, rules, "").unwrap();
    let rules_file = sites.rig.folder().join("alice.rules");
    sites
        .rig
        .ravelin(
            Side::Alice,
            &["spd", "add", "--name", "more", "--selector", "proto gre", "--action", "discard"],
            "",
        )
        .unwrap();
    let pinging = {
        let netns = netio::netns::Netns::open("/run/netns/rvl-gwtake-host-alice").unwrap();
        std::thread::spawn(move || sh(&netns, &format!("ping -c 400 -i 0.02 -W 1 {}", WORLD[0])).unwrap())
    };
    wait_until("answers", PATIENCE, || {
        let told = sh(sites.host(Side::Alice), "nstat -asz IcmpInEchoReps").unwrap();
        told.split_whitespace().filter_map(|word| word.parse::<u32>().ok()).next() > Some(20)
    });
    let log = take_over(&mut sites);
    assert!(log.contains("not put in force: it says other rules"), "{log}");
    let answers = pinging.join().unwrap();
    assert!(answers.contains("400 received"), "{answers}");
    // Not one of them was the new engine's.
    assert_eq!(status(&sites, Side::Alice)["outbound"]["clear"], 0);
    assert_eq!(rule_count(&sites), 4);

    // From a gateway without rules the file counts.
    sites.rig.ravelin(Side::Alice, &["spd", "flush"], "").unwrap();
    let log = take_over(&mut sites);
    assert!(!log.contains("not put in force"), "{log}");
    assert_eq!(rule_count(&sites), 3);

    // From one that was no gateway, too; and what is wrong with it is found before anything is taken.
    sites.rig.configure(Side::Alice, "");
    take_over(&mut sites);
    sites.rig.configure(
        Side::Alice,
        &format!(
            "[gateway]\ninside = [\"lan0\"]\ndefault = \"bypass\"\nrules = \"{}\"\n",
            rules_file.display()
        ),
    );
    std::fs::write(&rules_file, "nonsense\n").unwrap();
    let refused = sites.rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    assert!(!refused.status.success() && refused.err().contains("alice.rules:1"), "{}", refused.err());
    let one = "{\"rule\":{\"direction\":\"both\",\"selectors\":[\"remote 203.0.113.0/24\"],\"action\":\"discard\"}}\n";
    std::fs::write(&rules_file, one).unwrap();
    take_over(&mut sites);
    assert_eq!(rule_count(&sites), 1);
    let got = sh(sites.host(Side::Alice), &format!("ping -c 2 -i 0.2 -W 1 {} || true", WORLD[0])).unwrap();
    assert!(got.contains("0 received"), "{got}");
}

#[test]
fn status_says_why_a_gateway_forwards_nothing() {
    let sites = Sites::build("rvl-gwwrong", 1500, rules, "").unwrap();
    let gateway = sites.rig.lab.alice().netns();
    assert_eq!(status(&sites, Side::Alice)["state"], "ok");
    sh(gateway, "sysctl -qw net.ipv4.conf.lan0.forwarding=0").unwrap();
    problem(&sites, "net.ipv4.conf.lan0.forwarding is 0");
    sh(gateway, "sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0").unwrap();
    problem(&sites, "net.ipv4.ip_forward is 0");
    sh(gateway, "ip link del lan0").unwrap();
    problem(&sites, "there is no interface lan0");
}
