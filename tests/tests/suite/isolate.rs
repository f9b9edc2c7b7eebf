//! One program floods in clear, another is protected: the flood is held to its limit on the wire, and the other one loses nothing; and a
//! source that floods a program in clear is held, while another is heard (docs/design/0020; paper 000 section 5 leaves isolation of
//! resources to the future).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::rig::{Pair, Rig, RigOptions};
use lab::{CaptureOptions, Program, Running, Side};
use serde_json::Value;
use tests::{PATIENCE, binary, copy_of_python, program, programs, wait_for};

/// The port that the flood goes to, optional and without an association.
const FLOOD: u16 = 9000;
/// The port at which the protected program talks.
const STEADY: u16 = 7001;
const RATE: u64 = 200;
const BURST: u64 = 50;

/// Datagrams to (address, port), from an address of its own if one is given, as fast as they go, until SIGTERM; then how many there were.
const SENDER: &str = r#"
import signal, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if len(sys.argv) > 3:
    s.bind((sys.argv[3], 0))
s.connect((sys.argv[1], int(sys.argv[2])))
going = True
def stop(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, stop)
data, sent = bytes(100), 0
while going:
    s.send(data)
    sent += 1
    if sent == 1000:
        print("flooding", flush=True)
print("sent", sent, flush=True)
"#;

/// Takes what comes to a port and reads nothing, so that nobody is told that it is closed.
const SINK: &str = r#"
import signal, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
signal.pause()
"#;

/// Echoes of datagrams by (address, port), one behind the other; how many of 300 (or as many as are asked for) came back at the first try.
const ECHOES: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.connect((sys.argv[1], int(sys.argv[2])))
good = 0
for n in range(int(sys.argv[3]) if len(sys.argv) > 3 else 300):
    s.send(b"%d" % n)
    try:
        good += s.recv(100) == b"%d" % n
    except OSError:
        break
print(good)
"#;

struct Stage {
    rig: Rig,
    flood: PathBuf,
    steady: PathBuf,
}

/// What a flood came to.
struct Flood {
    /// Datagrams that the program sent.
    sent: u64,
    /// Echoes of the protected program beside it, of 300.
    echoes: u64,
    took: Duration,
}

impl Stage {
    fn build(name: &str) -> Stage {
        let options =
            RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: false };
        let mut rig = Rig::build(&options).unwrap();
        let [flood, steady] = ["flood", "steady"].map(|name| copy_of_python(rig.folder(), name));
        let protects = tests::protect(&steady, Side::Alice);
        rig.set_policy(Side::Bob, &protects).unwrap();
        rig.set_policy(Side::Alice, &policy(&flood, &steady, &limit())).unwrap();
        for side in Side::BOTH {
            rig.start(side).unwrap();
        }
        // For the protected program's flows alone.
        let ports = |which: &str| vec![which.to_owned(), STEADY.to_string()];
        let pair = Pair { alice: ports("--remote-ports"), bob: ports("--local-ports"), ..Pair::default() };
        rig.associate(&pair).unwrap();
        Stage { rig, flood, steady }
    }

    fn servers(&self) -> [Running; 2] {
        let start = |python: &Path, script: &str, port: u16| {
            let server = Program::new(python).args(["-c", script, &port.to_string()]);
            let server = self.rig.lab.bob().spawn(server).unwrap();
            server.wait_for_output("ready", PATIENCE).unwrap();
            server
        };
        [start(&program("python3"), SINK, FLOOD), start(&self.steady, programs::UDP_ECHO, STEADY)]
    }

    /// The protected program talks while the other one floods.
    fn flood(&self) -> Flood {
        let address = Side::Bob.v4().to_string();
        let args = ["-u", "-c", SENDER, &address, &FLOOD.to_string()];
        let begin = Instant::now();
        let flood = self.rig.lab.alice().spawn(Program::new(&self.flood).args(args)).unwrap();
        flood.wait_for_output("flooding", PATIENCE).unwrap();
        let args = ["-c", ECHOES, &address, &STEADY.to_string()];
        let steady = Program::new(&self.steady).args(args);
        let steady = self.rig.lab.alice().run_program(steady, 2 * PATIENCE).unwrap();
        flood.signal(libc::SIGTERM).unwrap();
        let flood = flood.finish(PATIENCE).unwrap().out();
        let sent = flood.lines().find_map(|line| line.strip_prefix("sent ")?.parse().ok());
        Flood {
            sent: sent.unwrap_or_else(|| panic!("{flood}")),
            echoes: steady
                .out()
                .trim()
                .parse()
                .unwrap_or_else(|_| panic!("{}{}", steady.out(), steady.err())),
            took: begin.elapsed(),
        }
    }

    /// The flooding program's figures.
    fn figures(&self) -> Value {
        let list = self.rig.json(Side::Alice, &["stats", "--per-app"]).unwrap();
        let own = |app: &&Value| app["application"].as_str().is_some_and(|name| name.ends_with("/flood"));
        list["applications"].as_array().unwrap().iter().find(own).cloned().unwrap_or(Value::Null)
    }
}

fn limit() -> String {
    format!("  limit clear {RATE} packets/s burst {BURST};\n")
}

/// Packets to bob: `flood` optional, held to `limit`; `steady` protected.
fn policy(flood: &Path, steady: &Path, limit: &str) -> String {
    format!(
        "application \"{}\" {{\n  network {} protected P;\n{limit}  protection P {{ localport=any remoteport=any encryption \
         optional; }}\n}}\n{}",
        flood.display(),
        Side::Bob.v4(),
        tests::protect(steady, Side::Bob)
    )
}

fn packets(figures: &Value, kind: &str) -> u64 {
    figures["outbound"][kind]["packets"].as_u64().unwrap_or(0)
}

#[test]
fn a_flood_in_clear_is_held_to_its_limit_and_costs_the_protected_nothing() {
    let stage = Stage::build("rvl-isolate");
    let _servers = stage.servers();
    let wire = stage.rig.lab.capture(CaptureOptions { keep: 8 << 20, watch: Vec::new() }).unwrap();
    let held = stage.flood();
    assert_eq!(held.echoes, 300, "the protected program lost packets");
    // The bucket was full, and earned as long as this took by a clock that began before it and ended behind it.
    let allowed = |took: Duration| BURST + RATE * (took.as_secs() + 1);
    let most = allowed(held.took);
    assert!(held.sent > most, "{} datagrams in {:?} are no flood", held.sent, held.took);
    wait_for("every datagram left or was refused", PATIENCE, || {
        let figures = stage.figures();
        let (left, refused) = (packets(&figures, "returned"), packets(&figures, "refused"));
        let on_wire =
            wire.look(|seen| seen.clear_packets(|flow| flow.remote_port == FLOOD).len() as u64).unwrap();
        let agree = left == on_wire && left + refused == held.sent;
        if agree {
            Ok(())
        } else {
            Err(format!("{left} left, {on_wire} on the wire, {refused} refused: {}", held.sent))
        }
    });
    let evidence = wire.finish().unwrap();
    assert!(evidence.is_complete() && evidence.not_kept == 0);
    let left = evidence.clear_packets(|flow| flow.remote_port == FLOOD).len() as u64;
    assert!((BURST..=most).contains(&left), "{left} of {} in {:?}", held.sent, held.took);
    let told = stage.rig.ravelin(Side::Alice, &["explain", "--drop", "last"], "").unwrap();
    assert!(told.contains("egress_limited") && told.contains("limit clear"), "{told}");

    // Without it the same program sends more: it was the limit that held it.
    stage.rig.set_policy(Side::Alice, &policy(&stage.flood, &stage.steady, "")).unwrap();
    let plan = stage.rig.command(
        Side::Alice,
        &["policy", "plan", "--json", "--instance", &stage.rig.instance(Side::Alice)],
        "",
    );
    let plan = plan.unwrap().out();
    let plan: Value = serde_json::from_str(&plan).unwrap_or_else(|error| panic!("{error}: {plan}"));
    let limits = &plan["applications"][0]["limits"];
    let statement = limit().trim().replace(&format!("burst {BURST}"), &format!("burst {BURST} packets"));
    assert_eq!(
        (&limits["before"][0], limits["after"].as_array().map(Vec::len)),
        (&statement.into(), Some(0)),
        "{plan}"
    );
    stage.rig.reload(Side::Alice).unwrap();
    let before = packets(&stage.figures(), "returned");
    let free = stage.flood();
    wait_for("more than the limit leaves", PATIENCE, || {
        let left = packets(&stage.figures(), "returned") - before;
        if left > allowed(free.took) { Ok(()) } else { Err(format!("{left} of {}", free.sent)) }
    });

    // An association in, none out: protection is expected of the engine, and what comes back all the same is held there.
    stage.rig.set_policy(Side::Alice, &policy(&stage.flood, &stage.steady, &limit())).unwrap();
    stage.rig.reload(Side::Alice).unwrap();
    let (alice, bob) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let args = ["sa", "add", "--direction", "in", "--spi", "auto", "--local", &alice, "--remote", &bob];
    let how = ["--mode", "transport", "--suite", "aes128gcm", "--remote-ports", &FLOOD.to_string()];
    stage.rig.ravelin(Side::Alice, &[&args[..], &how[..]].concat(), &"5a".repeat(20)).unwrap();
    let was = stage.figures();
    let begin = Instant::now();
    stage.flood();
    let is = stage.figures();
    let grown = |kind| packets(&is, kind) - packets(&was, kind);
    let most = allowed(begin.elapsed());
    assert!(grown("returned") <= most, "{} in {:?}", grown("returned"), begin.elapsed());
    assert!(grown("refused") > 0 && grown("encrypted") > most, "{was} {is}");
}

/// Paper 000's own threat: an application whose protection is optional must take clear packets, forged ones too.
#[test]
fn a_source_that_floods_in_clear_is_held_and_an_honest_one_beside_it_loses_nothing() {
    const FLOODER: &str = "198.51.100.77";
    let options =
        RigOptions { name: "rvl-accept".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let server = copy_of_python(rig.folder(), "server");
    let policy = |limit: &str| {
        format!(
            "application \"{}\" {{\n  network 198.51.100.0/24 protected P;\n{limit}  protection P {{ localport=any remoteport=any \
             encryption optional; }}\n}}\n",
            server.display(),
        )
    };
    let limit = format!("  limit accept {RATE} packets/s burst {BURST};\n");
    rig.set_policy(Side::Alice, &policy(&limit)).unwrap();
    rig.start(Side::Alice).unwrap();
    let address = ["addr", "add", &format!("{FLOODER}/24"), "dev", "eth0"].map(str::to_owned);
    rig.lab.bob().run_program(Program::new(program("ip")).args(address), PATIENCE).unwrap();
    let echo = Program::new(&server).args(["-c", programs::UDP_ECHO, &STEADY.to_string()]);
    let echo = rig.lab.alice().spawn(echo).unwrap();
    echo.wait_for_output("ready", PATIENCE).unwrap();

    let figures = |rig: &Rig| {
        let list = rig.json(Side::Alice, &["stats", "--per-app"]).unwrap();
        let own = |app: &&Value| app["application"].as_str().is_some_and(|name| name.ends_with("/server"));
        let all = list["applications"].as_array().unwrap().iter().find(own).cloned().unwrap_or(Value::Null);
        ["clear", "refused"].map(|kind| all["inbound"][kind]["packets"].as_u64().unwrap_or(0))
    };
    // What was sent by the flood, what the honest one got back, and what the application took in the meantime.
    let flood = |rig: &Rig| {
        let (begin, before) = (Instant::now(), figures(rig));
        let (to, port) = (Side::Alice.v4().to_string(), STEADY.to_string());
        let args = ["-u", "-c", SENDER, &to, &port, FLOODER];
        let flood = rig.lab.bob().spawn(Program::new(program("python3")).args(args)).unwrap();
        flood.wait_for_output("flooding", PATIENCE).unwrap();
        // Within the burst of its own: however slow or fast it goes, it may.
        let args = ["-c", ECHOES, &to, &port, "40"];
        let honest = Program::new(program("python3")).args(args);
        let honest = rig.lab.bob().run_program(honest, 2 * PATIENCE).unwrap();
        flood.signal(libc::SIGTERM).unwrap();
        let out = flood.finish(PATIENCE).unwrap().out();
        let sent: u64 =
            out.lines().find_map(|line| line.strip_prefix("sent ")?.parse().ok()).expect("a count");
        let [taken, refused] = wait_for("every datagram was judged", PATIENCE, || {
            let after = figures(rig);
            let grown = [after[0] - before[0], after[1] - before[1]];
            if grown[0] + grown[1] >= sent { Ok(grown) } else { Err(format!("{grown:?} of {sent}")) }
        });
        (sent, honest.out().trim().to_owned(), taken, refused, begin.elapsed())
    };
    let (sent, honest, taken, refused, took) = flood(&rig);
    assert_eq!(honest, "40", "the honest source lost datagrams");
    let most = 40 + BURST + RATE * (took.as_secs() + 1);
    assert!(sent > 2 * most, "{sent} datagrams in {took:?} are no flood");
    assert!(taken <= most && refused > 0, "{taken} taken and {refused} refused of {sent} in {took:?}");
    let told = rig.ravelin(Side::Alice, &["explain", "--drop", "last"], "").unwrap();
    assert!(
        told.contains("ingress_limited") && told.contains("limit accept") && told.contains(FLOODER),
        "{told}"
    );

    // Without it the application hears more: it was the limit that held the flood.
    rig.set_policy(Side::Alice, &policy("")).unwrap();
    let plan = ["policy", "plan", "--json", "--instance", &rig.instance(Side::Alice)];
    let plan = rig.command(Side::Alice, &plan, "").unwrap().out();
    let plan: Value = serde_json::from_str(&plan).unwrap_or_else(|error| panic!("{error}: {plan}"));
    let limits = &plan["applications"][0]["limits"];
    let statement = limit.trim().replace(&format!("burst {BURST}"), &format!("burst {BURST} packets"));
    assert_eq!(
        (&limits["before"][0], limits["after"].as_array().map(Vec::len)),
        (&statement.into(), Some(0))
    );
    rig.reload(Side::Alice).unwrap();
    let (sent, _, taken, refused, took) = flood(&rig);
    assert!(refused == 0 && taken >= sent, "{taken} taken and {refused} refused of {sent} in {took:?}");
}
