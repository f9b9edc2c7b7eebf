//! Exclusiveness and conflict confinement (paper 000 sections 3.1 and 3.4, research/app-policy.md section 6.5) at run time: what one
//! application's block becomes, whole or broken, changes no verdict about another's traffic, and one class of traffic none
//! about another class. What the tables say is in `policy/tests/suite/exclusiveness.rs`; here real programs ask a real kernel,
//! while the policies are loaded.

use std::collections::BTreeSet;
use std::path::PathBuf;

use lab::{Program, Running, Side};
use tests::kinds::Stage;
use tests::sites::sh;
use tests::{PATIENCE, copy_of_python, wait_for};

const VERDICTS: &str = include_str!("../../programs/verdicts.py");

/// Rounds that must have come since a load.
const ROUNDS: usize = 3;

/// In 198.51.100.0/24: .2 protected, .66 untrusted, .130 trusted. The last is in no network.
const TARGETS: [&str; 5] =
    ["198.51.100.2", "198.51.100.66", "198.51.100.130", "203.0.113.5", "2001:db8:51::2"];

/// A program that asks for verdicts all the time.
struct Asker {
    path: PathBuf,
    port: u16,
    running: Running,
}

impl Asker {
    fn start(stage: &Stage, name: &str, port: u16) -> Asker {
        let path = copy_of_python(stage.folder(), name);
        let running = Asker::spawn(stage, &path, port);
        Asker { path, port, running }
    }

    fn spawn(stage: &Stage, path: &PathBuf, port: u16) -> Running {
        let program = Program::new(path).args(["-u", "-c", VERDICTS, &port.to_string()]).args(TARGETS);
        stage.rig.lab.alice().spawn(program).unwrap()
    }

    /// Rounds until now, without their numbers.
    fn rounds(&self) -> Vec<String> {
        let output = self.running.output();
        let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let round = |line: &str| {
            line.strip_prefix("round ")
                .and_then(|line| line.split_once(' '))
                .map(|(_, answers)| answers.to_owned())
        };
        whole.lines().map(|line| round(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }

    /// Different rounds from number `from` on, when enough have come.
    fn since(&self, from: usize) -> BTreeSet<String> {
        let seen = wait_for("rounds of verdicts", PATIENCE, || {
            let rounds = self.rounds();
            // The first may have begun before.
            if rounds.len() > from + ROUNDS { Ok(rounds) } else { Err(format!("{} rounds", rounds.len())) }
        });
        seen.into_iter().skip(from).collect()
    }

    /// The answers from now on; there must be one kind only.
    fn now(&self) -> String {
        let all = self.since(self.rounds().len() + 1);
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    }

    /// The block with this body.
    fn block(&self, body: &str) -> String {
        format!("application \"{}\" {{\n{body}}}\n", self.path.display())
    }

    /// The usual body: both ports of the protected networks, one of them by an item of its own.
    fn usual(&self) -> String {
        body(&format!(
            "localport=any remoteport={} encryption mandatory;\n localport=any remoteport={} encryption mandatory;",
            self.port,
            self.port + 1
        ))
    }
}

fn body(items: &str) -> String {
    format!(
        "  network 198.51.100.0/24 protected P;\n  network 198.51.100.64/26 untrusted;\n  network 198.51.100.128/26 trusted;\n  \
         network 2001:db8:51::/64 protected P;\n  protection P {{ {items} }}\n"
    )
}

/// A host with programs that ask for verdicts, and something to send to.
fn scene(name: &str) -> Stage {
    let stage = Stage::build(name).unwrap();
    sh(
        stage.rig.lab.alice().netns(),
        "ip route add 203.0.113.0/24 dev eth0; \
         for a in 198.51.100.66 198.51.100.130 203.0.113.5; do ip neigh replace $a lladdr 02:00:00:00:00:77 dev eth0 nud permanent; done",
    )
    .unwrap();
    stage
}

/// Load a policy; whether it had no errors.
fn load(stage: &Stage, text: &str) -> bool {
    stage.rig.set_policy(Side::Alice, text).unwrap();
    let done = stage
        .rig
        .command(
            Side::Alice,
            &["policy", "reload", "--allow-missing", "--instance", &stage.rig.instance(Side::Alice)],
            "",
        )
        .unwrap();
    done.status.success()
}

/// Where packets to these ports went: (destination, port, whether in clear).
fn ways(stage: &Stage, port: u16) -> BTreeSet<(String, u16, bool)> {
    let ports = [port, port + 1];
    let mut ways: BTreeSet<_> = stage
        .wire
        .look(|wire| {
            let clear = wire.clear_packets(|flow| ports.contains(&flow.remote_port));
            clear
                .iter()
                .filter_map(|seen| seen.flow)
                .map(|flow| (flow.remote.to_string(), flow.remote_port, true))
                .collect()
        })
        .unwrap();
    for inner in stage.inside[0].look().iter().filter(|inner| inner.out) {
        let to = inner.udp().map(|(_, to, _)| to).or_else(|| inner.tcp().map(|tcp| tcp.0.dst_port()));
        if let Some(to) = to.filter(|to| ports.contains(to)) {
            ways.insert((inner.headers.dst.to_string(), to, false));
        }
    }
    ways
}

/// The protected peers refuse nothing; untrusted ones do; the rest is clear.
const USUAL: &str = "ok/ok ok/ok EPERM/EPERM EPERM/EPERM ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok";

#[test]
fn what_becomes_of_one_block_changes_no_verdict_about_another() {
    let stage = scene("rvl-x-apps");
    let (a, b) = (Asker::start(&stage, "appa", 7200), Asker::start(&stage, "appb", 7210));
    let c = Asker::start(&stage, "appc", 7220);
    let usual_b = b.block(&b.usual());
    assert!(load(&stage, &(a.block(&a.usual()) + &usual_b + &c.block(&c.usual()))));
    assert_eq!([a.now(), b.now(), c.now()], [USUAL; 3]);
    stage.forget().unwrap();
    b.now();
    let ways_before = ways(&stage, b.port);
    assert_eq!(
        ways_before.iter().filter(|way| way.2).count(),
        4,
        "the trusted and the unnamed: {ways_before:?}"
    );
    assert_eq!(ways_before.iter().filter(|way| !way.2).count(), 4, "the protected: {ways_before:?}");
    stage.forget().unwrap();
    let from = b.rounds().len();

    // Whole, and others than before: each with what it means for the application itself.
    let refused = "EPERM/EPERM ".repeat(10);
    let everything = |what: &str| a.block(&format!("  network 0.0.0.0/0 {what};\n  network ::/0 {what};\n"));
    let one_port = body(&format!("localport=any remoteport={} encryption mandatory;", a.port));
    let whole = [
        (everything("untrusted"), refused.trim()),
        (everything("trusted"), "ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok"),
        (
            a.block(&one_port),
            "ok/ok EPERM/EPERM EPERM/EPERM EPERM/EPERM ok/ok ok/ok ok/ok ok/ok ok/ok EPERM/EPERM",
        ),
        (String::new(), "ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok"),
        (a.block(&a.usual()), USUAL),
    ];
    for (number, (block, meaning)) in whole.iter().enumerate() {
        // In front of the other block and behind it.
        let text = if number % 2 == 0 { format!("{block}{usual_b}") } else { format!("{usual_b}{block}") };
        assert!(load(&stage, &text), "{block}");
        assert_eq!(&a.now(), meaning, "{block}");
        assert_eq!(b.since(from), BTreeSet::from([USUAL.to_owned()]), "behind {block}");
    }

    // Broken: it keeps its last good version, another one changes in the same load.
    let path = a.path.display();
    let broken = [
        format!("application \"{path}\" {{ network 198.51.100.0/24 protected ; }}\n"),
        format!("application \"{path}\" {{ network 198.51.100.0/24 protected Nowhere; }}\n"),
        format!("application \"{path}\" {{ network 300.1.2.3 trusted; }}\n"),
        format!(
            "application \"{path}\" {{ network 198.51.100.0/24 trusted; network 198.51.100.0/24 untrusted; }}\n"
        ),
        format!(
            "application \"{path}\" {{ protection P {{ localport=9-1 remoteport=any encryption mandatory; }} }}\n"
        ),
        format!("application \"{path}\" {{ network 0.0.0.0/0 trusted \u{1}; }}\n"),
        format!("application \"{path}\" {{ network 0.0.0.0/0 trusted;\n"),
    ];
    for (number, block) in broken.iter().enumerate() {
        let open = number % 2 == 0;
        let block_c = c.block(if open {
            "  network 0.0.0.0/0 trusted;\n  network ::/0 trusted;\n"
        } else {
            "  network 0.0.0.0/0 untrusted;\n  network ::/0 untrusted;\n"
        });
        // What has no end swallows what follows: it stands last.
        assert!(!load(&stage, &format!("{usual_b}{block_c}{block}")), "{block}");
        assert_eq!(a.now(), USUAL, "the last good version: {block}");
        assert_eq!(c.now().contains("EPERM"), !open, "what is whole comes into force: {block}");
        assert_eq!(b.since(from), BTreeSet::from([USUAL.to_owned()]), "behind {block}");
        let status = stage.rig.command(Side::Alice, &["status", "--json"], "").unwrap().out();
        assert!(status.contains("appa"), "the status names the block that is broken: {status}");
    }
    // A quote without an end hides the other block too: it stays in force.
    assert!(!load(&stage, &format!("application \"{path} {{\n{usual_b}")));
    assert_eq!([a.now(), b.now()], [USUAL; 2]);
    assert_eq!(b.since(from), BTreeSet::from([USUAL.to_owned()]));
    assert!(b.rounds().len() > from + 13 * ROUNDS);
    assert_eq!(ways(&stage, b.port), ways_before, "every packet of it went where it always goes");
    assert!(stage.wire.look(|wire| wire.is_complete() && wire.not_kept == 0).unwrap());
}

#[test]
fn one_item_decides_about_its_own_flows_only() {
    let stage = scene("rvl-x-items");
    let a = Asker::start(&stage, "appa", 7200);
    let item = |port: u16, what: &str| format!("localport=any remoteport={port} {what};");
    let items = |first: &str| body(&format!("{first} {}", item(a.port + 1, "encryption mandatory")));
    assert!(load(&stage, &a.block(&items(&item(a.port, "encryption mandatory")))));
    assert_eq!(a.now(), USUAL);
    stage.forget().unwrap();
    a.now();
    let second = |ways: BTreeSet<(String, u16, bool)>| {
        ways.into_iter().filter(|way| way.1 == a.port + 1).collect::<BTreeSet<_>>()
    };
    let before = second(ways(&stage, a.port));
    let from = a.rounds().len();
    // The first item is taken away, moved, weakened; a network beside it changes its class.
    let elsewhere = items(&item(1, "encryption mandatory"));
    let other_network = items(&item(a.port, "encryption mandatory"))
        .replace("198.51.100.64/26 untrusted", "198.51.100.64/26 trusted");
    let mutations = [
        (elsewhere, "EPERM/EPERM"),
        (items(&item(a.port, "encryption optional")), "ok/ok"),
        (items(&item(a.port, "authentication mandatory")), "ok/ok"),
        (items(""), "EPERM/EPERM"),
        (items(&item(a.port, "encryption mandatory")), "ok/ok"),
    ];
    for (body, first) in &mutations {
        assert!(load(&stage, &a.block(body)), "{body}");
        let now = a.now();
        let words: Vec<&str> = now.split(' ').collect();
        assert_eq!((words[0], words[8]), (*first, *first), "the item is in force: {body}");
    }
    let of_second = |line: &String| line.split(' ').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
    let usual = of_second(&USUAL.to_owned());
    let seen: BTreeSet<String> = a.since(from).iter().map(of_second).collect();
    assert_eq!(seen, BTreeSet::from([usual]), "the second item's flows and the other networks");
    assert_eq!(second(ways(&stage, a.port)), before);
    // Another network of the same application: the protected ones do not change.
    let from = a.rounds().len();
    assert!(load(&stage, &a.block(&other_network)));
    assert_eq!(a.now(), "ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok ok/ok");
    let protected = |line: &String| {
        line.split(' ')
            .enumerate()
            .filter(|(at, _)| ![2, 3].contains(at))
            .map(|(_, word)| word.to_owned())
            .collect::<Vec<_>>()
    };
    assert!(a.since(from).iter().all(|line| protected(line).iter().all(|word| word == "ok/ok")));
    assert_eq!(
        second(ways(&stage, a.port))
            .into_iter()
            .filter(|way| !way.0.ends_with(".66"))
            .collect::<BTreeSet<_>>(),
        before
    );
}

#[test]
fn a_daemon_does_not_begin_with_a_broken_block() {
    // Nothing to fall back on: what the block protects would be in clear, so there is no daemon, which says so.
    let stage = Stage::without_daemons("rvl-x-first").unwrap();
    stage
        .rig
        .set_policy(Side::Alice, "application \"/usr/bin/true\" { network 198.51.100.0/24 protected ; }\n")
        .unwrap();
    let done = stage.rig.launch(Side::Alice, &[]).unwrap().finish(PATIENCE).unwrap();
    assert!(!done.status.success());
    assert!(done.err().contains("it is not put in force"), "{}{}", done.out(), done.err());
    assert!(done.err().contains("RVL-P107"), "{}", done.err());
}
