//! Host names as networks, with a name server that changes its mind, keeps silent and lies (docs/design/0014).

use std::net::SocketAddr;
use std::path::PathBuf;

use lab::rig::{Rig, RigOptions};
use lab::{Program, Running, Side, Transport};
use serde_json::Value;
use tests::dns::{NameServer, Says};
use tests::sites::sh;
use tests::{PATIENCE, binary, copy_of_python, counted, program, programs, wait_for, wait_until};

const HOST: &str = "host.example";
const ECHO: u16 = 7050;
/// Ports of the servers that answer the daemon and that answer programs.
const OURS: u16 = 5353;
const THEIRS: u16 = 53;

/// Says a line to a server (port) at each of these addresses, and prints those that answer.
const KNOCK: &str = r#"
import socket, sys
for address in sys.argv[2:]:
    for attempt in range(2):
        try:
            with socket.create_connection((address, int(sys.argv[1])), 1.5) as s:
                s.sendall(b"knock\n")
                if s.recv(100) == b"knock\n":
                    print(address)
                    break
        except OSError:
            pass
"#;

/// Asks a name server (address) for a name as any program does, and prints how many octets it heard. With a fourth argument the
/// socket is connected.
const ASK: &str = r#"
import os, socket, sys
name = b"".join(bytes([len(label)]) + label.encode() for label in sys.argv[2].split(".")) + b"\0"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
question = os.urandom(2) + b"\x01\0\0\x01\0\0\0\0\0\0" + name + b"\0\x01\0\x01"
if len(sys.argv) > 3:
    s.connect((sys.argv[1], 53))
    s.send(question)
else:
    s.sendto(question, (sys.argv[1], 53))
print("heard", len(s.recv(1500)))
"#;

/// Listens, prints its port, and prints what comes.
const LISTEN: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 0))
print(f"port {s.getsockname()[1]}", flush=True)
while True:
    print("heard", len(s.recv(1500)), flush=True)
"#;

/// Holds a connection (address, port) and says so.
const HOLD: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
s.sendall(b"one\n")
assert s.recv(100) == b"one\n"
print("held", flush=True)
sys.stdin.read()
while True:
    try:
        s.sendall(b"more\n")
        print("alive" if s.recv(100) else "over", flush=True)
    except OSError as error:
        print(error, flush=True)
    import time
    time.sleep(0.2)
"#;

struct Scene {
    rig: Rig,
    talker: PathBuf,
    ours: NameServer,
    theirs: NameServer,
    _server: Running,
}

fn at(port: u16) -> SocketAddr {
    (Side::Bob.v4(), port).into()
}

impl Scene {
    /// Alice has a daemon with this block for a program of her own, bob has name servers, other addresses and no daemon.
    fn build(name: &str, grace: u32, block: &str) -> Scene {
        let options =
            RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
        let mut rig = Rig::build(&options).unwrap();
        let bob = rig.lab.bob();
        for n in 3..=9 {
            sh(
                bob.netns(),
                &format!("ip addr add 198.51.100.{n}/24 dev eth0; ip addr add 2001:db8:51::{n}/64 dev eth0"),
            )
            .unwrap();
        }
        let (ours, theirs) = (NameServer::start(bob, at(OURS)), NameServer::start(bob, at(THEIRS)));
        let server = Program::new(program("python3")).args(["-c", programs::TCP_SERVER, &ECHO.to_string()]);
        let mut server = bob.spawn(server).unwrap();
        bob.wait_for_listener(Transport::Tcp, ECHO, &mut server, PATIENCE).unwrap();
        let talker = copy_of_python(rig.folder(), "talker");
        rig.set_policy(Side::Alice, &format!("application \"{}\" {{ {block} }}\n", talker.display()))
            .unwrap();
        let resolver = at(OURS);
        rig.configure(
            Side::Alice,
            &format!("[names]\nresolvers = [\"{resolver}\"]\ntimeout = 2\nmin_ttl = 1\ngrace = {grace}\n"),
        );
        Scene { rig, talker, ours, theirs, _server: server }
    }

    fn start(&mut self) {
        self.rig.start(Side::Alice).unwrap();
    }

    fn talk(&self, script: &str, args: &[&str]) -> String {
        let program = Program::new(&self.talker).args(["-c", script]).args(args);
        let done = self.rig.lab.alice().run_program(program, PATIENCE).unwrap();
        done.out() + &done.err()
    }

    /// Which of these addresses the talker reaches in clear.
    fn clear(&self, last: &[&str]) -> Vec<String> {
        let all: Vec<String> = last
            .iter()
            .map(|n| {
                if let Some(n) = n.strip_prefix(':') {
                    format!("2001:db8:51::{n}")
                } else {
                    format!("198.51.100.{n}")
                }
            })
            .collect();
        let mut args = vec![ECHO.to_string()];
        args.extend(all.iter().cloned());
        let said = self.talk(KNOCK, &args.iter().map(String::as_str).collect::<Vec<_>>());
        let reached: Vec<&str> = said.lines().collect();
        all.iter()
            .zip(last)
            .filter(|(a, _)| reached.contains(&a.as_str()))
            .map(|(_, n)| (*n).to_owned())
            .collect()
    }

    fn host(&self) -> Value {
        let instance = self.rig.instance(Side::Alice);
        let list = self.rig.json(Side::Alice, &["policy", "names", "--instance", &instance]).unwrap();
        list["names"].as_array().unwrap().iter().find(|n| n["name"] == HOST).cloned().unwrap()
    }

    /// The address in the list, with what the list says of it.
    fn known(&self, address: &str) -> Option<Value> {
        let host = self.host();
        host["addresses"].as_array().unwrap().iter().find(|a| a["address"] == address).cloned()
    }

    fn wait_known(&self, address: &str, source: &str) {
        wait_for(&format!("{address} {source}"), PATIENCE, || {
            if self.known(address).is_some_and(|known| known["source"] == source) {
                Ok(())
            } else {
                Err(self.host())
            }
        });
    }

    fn wait_gone(&self, address: &str) {
        wait_for(&format!("{address} gone"), PATIENCE, || {
            if self.known(address).is_none() { Ok(()) } else { Err(self.host()) }
        });
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.rig.command(Side::Alice, &["status", "--json"], "").unwrap().out())
            .unwrap()
    }
}

const PROTECTED: &str = "network host.example protected P; network 0.0.0.0/0, ::/0 trusted;
    protection P { localport=any remoteport=any encryption mandatory; }";

#[test]
fn a_name_follows_its_answers_and_outlasts_their_failure() {
    let mut scene = Scene::build("rvl-names", 1, PROTECTED);
    scene.ours.say(HOST, Says::Alias("one.example"));
    scene.ours.say("one.example", Says::Alias("two.example"));
    scene.ours.addresses("two.example", &["198.51.100.3", "2001:db8:51::3", "127.0.0.1", "224.0.0.1"]);
    scene.start();
    scene.wait_known("198.51.100.3", "resolver");
    scene.wait_known("2001:db8:51::3", "resolver");
    assert!(scene.known("127.0.0.1").is_none() && scene.host()["refused_addresses"].as_u64() > Some(0));
    // There is no association: what is protected is not heard of.
    assert_eq!(scene.clear(&["3", ":3", "4", ":4"]), ["4", ":4"]);

    // It moves: the new address is protected, and the old one when its time is over not any more.
    scene.ours.addresses(HOST, &["198.51.100.4"]);
    scene.wait_known("198.51.100.4", "resolver");
    assert_eq!(scene.clear(&["4"]), [""; 0]);
    scene.wait_gone("198.51.100.3");
    scene.wait_gone("2001:db8:51::3");
    assert_eq!(scene.clear(&["3", ":3", "4"]), ["3", ":3"]);

    // Nobody answers, one refuses, one leads in circles, one knows no address: what was said last stays protected.
    for says in [Says::Silence, Says::Failure, Says::Alias("one.example"), Says::Addresses(Vec::new(), 1)] {
        let before = scene.host()["failures"].as_u64().unwrap();
        scene.ours.say("one.example", Says::Alias(HOST));
        scene.ours.say(HOST, says.clone());
        wait_for("a failure", PATIENCE, || {
            let failures = scene.host()["failures"].as_u64().unwrap();
            if failures > before { Ok(()) } else { Err(failures) }
        });
        scene.wait_known("198.51.100.4", "kept");
        assert_eq!(scene.clear(&["3", "4"]), ["3"], "{says:?}");
    }
    let status = scene.status();
    assert!(status["problems"].to_string().contains("its last addresses are kept"), "{status}");
    assert_eq!((&status["names"]["failing"], &status["state"]), (&1.into(), &"degraded".into()));

    // A daemon that starts without an answer knows what the one before knew.
    scene.rig.stop(Side::Alice).unwrap();
    scene.ours.say(HOST, Says::Silence);
    scene.start();
    scene.wait_known("198.51.100.4", "kept");
    assert_eq!(scene.clear(&["3", "4"]), ["3"]);

    // A liar gets what there is room for, and the daemon goes on.
    let many = (0..1000u32).map(|n| std::net::IpAddr::from((0x0a00_0000 + n).to_be_bytes())).collect();
    scene.ours.say(HOST, Says::Addresses(many, 1));
    scene.wait_known("10.0.0.1", "resolver");
    let host = scene.host();
    assert_eq!(host["addresses"].as_array().unwrap().iter().filter(|a| a["listed"] == true).count(), 64);
    assert!(host["refused_addresses"].as_u64() >= Some(930), "{}", host["refused_addresses"]);
    scene.ours.addresses(HOST, &["198.51.100.5"]);
    scene.wait_known("198.51.100.5", "resolver");
    scene.wait_gone("10.0.0.1");
    assert_eq!(scene.clear(&["4", "5"]), ["4"]);
}

#[test]
fn a_flow_keeps_the_address_that_its_name_left() {
    let block = "network host.example trusted; network 0.0.0.0/0, ::/0 untrusted;";
    let mut scene = Scene::build("rvl-nameflow", 1, block);
    scene.ours.addresses(HOST, &["198.51.100.3"]);
    scene.start();
    scene.wait_known("198.51.100.3", "resolver");
    let hold = Program::new(&scene.talker).args(["-c", HOLD, "198.51.100.3", &ECHO.to_string()]);
    let hold = scene.rig.lab.alice().spawn(hold).unwrap();
    hold.wait_for_output("alive", PATIENCE).unwrap();
    let said =
        scene.rig.ravelin(Side::Alice, &["explain", "--pid", &hold.pid().to_string(), "--json"], "").unwrap();
    assert!(
        said.contains("by name `host.example`: 198.51.100.3 is its address by the resolver's answer"),
        "{said}"
    );
    scene.ours.addresses(HOST, &["198.51.100.4"]);
    scene.wait_known("198.51.100.4", "resolver");
    // Longer than its time and the grace: asked for again and again meanwhile.
    let asked = || scene.status()["uptime_seconds"].as_u64().unwrap();
    let since = asked();
    wait_until("five seconds", PATIENCE, || asked() >= since + 5);
    let known = scene.known("198.51.100.3").expect("a flow uses it");
    assert_eq!((&known["listed"], &known["applications_with_flows"]), (&false.into(), &1.into()));
    assert_eq!(scene.clear(&["3", "4", "5"]), ["3", "4"]);
    let alive = hold.output().matches("alive").count();
    wait_until("the flow to go on", PATIENCE, || hold.output().matches("alive").count() > alive);
    drop(hold);
    scene.wait_gone("198.51.100.3");
    assert_eq!(scene.clear(&["3", "4"]), ["4"]);
}

#[test]
fn what_a_program_was_told_counts_where_it_makes_nothing_less_strict() {
    let mut scene = Scene::build("rvl-nameseen", 60, PROTECTED);
    scene.ours.addresses(HOST, &["198.51.100.3"]);
    scene.theirs.addresses(HOST, &["198.51.100.6"]);
    scene.start();
    scene.wait_known("198.51.100.3", "resolver");
    assert_eq!(scene.clear(&["3", "6", "7"]), ["6", "7"]);
    let server = Side::Bob.v4().to_string();
    assert!(scene.talk(ASK, &[&server, HOST]).contains("heard"));
    scene.wait_known("198.51.100.6", "observed");
    assert_eq!(scene.clear(&["3", "6", "7"]), ["7"]);
    // By a connected socket, and in other letters.
    scene.theirs.addresses(HOST, &["198.51.100.7"]);
    assert!(scene.talk(ASK, &[&server, "HOST.Example", "connected"]).contains("heard"));
    scene.wait_known("198.51.100.7", "observed");
    assert_eq!(scene.clear(&["3", "6", "7", "8"]), ["8"]);

    // An answer that nobody asked for is one to nobody.
    let listener = scene.rig.lab.alice().spawn(Program::new(&scene.talker).args(["-c", LISTEN])).unwrap();
    listener.wait_for_output("port", PATIENCE).unwrap();
    let output = listener.output();
    let port: u16 = output.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let before = counted(&scene.rig, Side::Alice, "kernel", "dns_unasked");
    let answer = tests::dns::response(HOST, "198.51.100.8");
    scene.theirs.udp.send_to(&answer, (Side::Alice.v4(), port)).unwrap();
    listener.wait_for_output("heard", PATIENCE).unwrap();
    assert_eq!(counted(&scene.rig, Side::Alice, "kernel", "dns_unasked"), before + 1);
    // Nor is one to a program without a policy, from a server that is not the daemon's own: bob's first address is.
    let stranger = NameServer::start(scene.rig.lab.bob(), "198.51.100.9:53".parse().unwrap());
    stranger.addresses(HOST, &["198.51.100.4"]);
    scene.theirs.addresses(HOST, &["198.51.100.9"]);
    for from in ["198.51.100.9", &server] {
        let other = Program::new(program("python3")).args(["-c", ASK, from, HOST]);
        assert!(scene.rig.lab.alice().run_program(other, PATIENCE).unwrap().out().contains("heard"));
    }
    // Behind both comes one that counts.
    scene.theirs.addresses(HOST, &["198.51.100.5"]);
    assert!(scene.talk(ASK, &[&server, HOST]).contains("heard"));
    scene.wait_known("198.51.100.5", "observed");
    scene.wait_known("198.51.100.9", "observed");
    assert!(scene.known("198.51.100.8").is_none() && scene.known("198.51.100.4").is_none());
    assert_eq!(scene.clear(&["4", "5", "8", "9"]), ["4", "8"]);
}

#[test]
fn what_a_program_was_told_lets_nothing_pass() {
    let block =
        "network host.example trusted; network 0.0.0.0/0, ::/0 untrusted; network 198.51.100.2 trusted;";
    let mut scene = Scene::build("rvl-namelie", 60, block);
    scene.ours.addresses(HOST, &["198.51.100.3"]);
    scene.theirs.addresses(HOST, &["198.51.100.6"]);
    scene.start();
    scene.wait_known("198.51.100.3", "resolver");
    let server = Side::Bob.v4().to_string();
    assert!(scene.talk(ASK, &[&server, HOST]).contains("heard"));
    scene.wait_known("198.51.100.6", "observed");
    assert_eq!(scene.clear(&["3", "6"]), ["3"]);
    assert_eq!(scene.status()["names"]["withheld"], 1);
}
