//! A load of policy under traffic (research/app-policy.md section 6.5): no verdict mixes two generations, no permitted packet is lost,
//! nothing of a mandatory flow is in clear. `make soak-reload` does it a thousand times.
//!
//! Two versions of a policy take turns. Both permit and protect the same flows and refuse the same, but what is first in
//! the one is last in the other: applications, networks, protections, so that a network of one version with a
//! protection of the other would permit what both refuse, or refuse what both permit.

use std::collections::HashMap;
use std::time::Duration;

use lab::{Program, Running, Side};
use tests::kinds::{Over, PORT, Stage};
use tests::sites::sh;
use tests::{PATIENCE, counted, wait_until};

const TRAFFIC: &str = include_str!("../../programs/reloads.py");

/// Reloads of each host, unless `RAVELIN_RELOADS` says another number.
const RELOADS: u64 = 50;

/// Refused in both versions: only port 1 is covered there.
const FORBIDDEN: [&str; 2] = ["198.51.100.3", "2001:db8:51::3"];

fn versions(stage: &Stage) -> [String; 2] {
    let network = |prefix: &str, what: &str| format!("  network {prefix} protected {what};\n");
    let mut networks = vec![network("198.51.100.0/24", "Open"), network("2001:db8:51::/64", "Open")];
    networks.extend(FORBIDDEN.map(|address| network(address, "Closed")));
    let mut protections = [
        "  protection Open { localport=any remoteport=any encryption mandatory; }\n",
        "  protection Closed { localport=any remoteport=1 encryption mandatory; }\n",
    ];
    // Others, which refuse what this one permits.
    let mut blocks: Vec<String> = (0..20)
        .map(|n| {
            format!(
                "application \"/usr/bin/other{n}\" {{\n  network 198.51.100.0/24 untrusted;\n  \
                 network 2001:db8:51::/64 protected Q;\n  \
                 protection Q {{ localport=any remoteport=1 encryption mandatory; }}\n}}\n"
            )
        })
        .collect();
    let app = |networks: &[String], protections: &[&str]| {
        format!(
            "application \"{}\" {{\n{}{}}}\n",
            stage.app.display(),
            networks.concat(),
            protections.concat()
        )
    };
    let first = app(&networks, &protections) + &blocks.concat();
    networks.reverse();
    protections.reverse();
    blocks.reverse();
    // One application comes and goes.
    blocks.pop();
    [first, blocks.concat() + &app(&networks, &protections)]
}

fn traffic(stage: &Stage, over: Over) -> Running {
    let forbidden = FORBIDDEN[over as usize];
    let peer = over.address(Side::Bob).to_string();
    let program = Program::new(&stage.app).args(["-u", "-c", TRAFFIC, &peer, &PORT.to_string(), forbidden]);
    let running = stage.rig.lab.alice().spawn(program).unwrap();
    running.wait_for_output("ready", PATIENCE).unwrap();
    running
}

#[test]
fn nothing_is_lost_mixed_or_clear_while_policies_are_loaded() {
    let reloads = std::env::var("RAVELIN_RELOADS").map_or(RELOADS, |text| text.parse().unwrap());
    let mut stage = Stage::build("rvl-reload").unwrap();
    stage.inside.clear();
    for side in Side::BOTH {
        // The TUN's own queue is a latency budget of 64 packets: a busy machine would lose some, whoever loads what.
        sh(stage.rig.lab.host(side).netns(), "ip link set dev rvl0 txqueuelen 10000").unwrap();
    }
    let versions = versions(&stage);
    stage.rig.set_policy(Side::Alice, &versions[0]).unwrap();
    stage.rig.reload(Side::Alice).unwrap();
    stage.forget().unwrap();
    let running = Over::BOTH.map(|over| traffic(&stage, over));
    for round in 0..reloads {
        for side in Side::BOTH {
            stage.rig.set_policy(side, &versions[(round as usize + 1) % 2]).unwrap();
            let generation = stage.rig.reload(side).unwrap();
            assert!(!generation.is_empty());
        }
        if round % 10 == 0 {
            // The capture is bounded: judged so far, and forgotten.
            assert_eq!(stage.complaint(|_| false).unwrap(), None, "round {round}");
            stage.forget().unwrap();
            let before = stage.wire.look(|wire| wire.esp).unwrap();
            wait_until("traffic", PATIENCE, || stage.wire.look(|wire| wire.esp).unwrap() > before + 100);
        }
    }
    for (over, running) in Over::BOTH.into_iter().zip(running) {
        running.signal(libc::SIGUSR1).unwrap();
        let done = running.finish(Duration::from_secs(40)).unwrap();
        let out = done.out();
        let line = out
            .lines()
            .find_map(|line| line.strip_prefix("score "))
            .unwrap_or_else(|| panic!("{out}{}", done.err()));
        let words: Vec<&str> = line.split(' ').collect();
        let score: HashMap<&str, u64> =
            words.chunks(2).map(|pair| (pair[0], pair[1].parse().unwrap())).collect();
        println!("{over}, {reloads} reloads of each host: {line}");
        assert_eq!(score["sent"], score["answered"], "{over}: permitted packets were lost: {out}");
        assert_eq!(
            (score["refused"], score["failed"]),
            (0, 0),
            "{over}: what both versions permit was refused: {out}"
        );
        assert_eq!(score["passed"], 0, "{over}: what both versions refuse passed: {out}");
        assert!(
            score["sent"] > reloads && score["connected"] > reloads && score["forbidden"] > reloads,
            "{out}"
        );
    }
    assert_eq!(stage.complaint(|_| false).unwrap(), None);
    for side in Side::BOTH {
        // Nor was anything refused on its way in or out that came of a mixture.
        for reason in ["ingress_no_item", "ingress_untrusted", "egress_untrusted", "ingress_no_proof"] {
            assert_eq!(counted(&stage.rig, side, "kernel", reason), 0, "{}: {reason}", side.name());
        }
    }
}
