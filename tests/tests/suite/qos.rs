//! A graph of classes in the daemon's outbound path (paper 002; docs/design/0040): every packet of a class is counted at
//! each queue that it meets, both families and super-packets go through, and a broken graph stops the start.

mod exchange;
mod foreign;
mod priorities;
mod reserved;
mod units;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use lab::rig::{Rig, RigOptions};
use lab::{Eavesdropper, Program, Running, Side};
use serde_json::Value;
use tests::{PATIENCE, associate, binary, copy_of_python, one_line, tcp_server};

const TCP: u16 = 7051;
const ECHO: u16 = 7052;
/// The datagrams of a run.
pub(crate) const COUNT: u64 = 100;

/// Datagrams of a type of service to an echo server (address, port, type of service, number), one behind the other; the
/// number of those that came back.
const DATAGRAMS: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[3]))
s.settimeout(10)
peer = (sys.argv[1], int(sys.argv[2]))
good = 0
for n in range(int(sys.argv[4])):
    s.sendto(bytes(300), peer)
    good += len(s.recv(1000)) == 300
print(good)
"#;

/// A server that sends back what it gets.
const SERVER: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
s.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(data, peer)
"#;

fn policy(app: &Path, peer: Side) -> String {
    format!(
        "application \"{}\" {{\n  network {}, {} protected P;\n  protection P {{ encryption mandatory; }}\n}}\n",
        app.display(),
        peer.v4(),
        peer.v6()
    )
}

pub(crate) fn build(name: &str, configuration: &str) -> (Rig, PathBuf) {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    let app = copy_of_python(rig.folder(), "app");
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &policy(&app, peer)).unwrap();
    }
    rig.configure(Side::Alice, configuration);
    (rig, app)
}

/// What alice's graph counted outbound; see [`counts_of`].
fn counts(rig: &Rig) -> Vec<(String, String, u64, u64, u64)> {
    counts_of(rig, Side::Alice, "out")
}

/// What a graph counted in a direction, by hook and class: arrived, left, dropped. What arrived is accounted for in each.
pub(crate) fn counts_of(rig: &Rig, side: Side, direction: &str) -> Vec<(String, String, u64, u64, u64)> {
    let state = rig.json(side, &["qos", "show"]).unwrap();
    let of = state["directions"].as_array().unwrap().iter().find(|of| of["direction"] == direction);
    let of = of.unwrap_or_else(|| panic!("no direction {direction} in {state}"));
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} in {state}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |row: &Value| {
        let dropped = row["dropped"].as_object().unwrap().values().map(number).sum();
        let [arrived, left, back, waiting] =
            ["arrived", "left", "given_back", "waiting"].map(|field| number(&row[field]));
        assert_eq!(arrived, left + back + waiting + dropped, "{row}");
        (text(&row["hook"]), text(&row["class"]), arrived, left, dropped)
    };
    of["classes"].as_array().unwrap().iter().map(row).collect()
}

/// A kernel queue of a direction.
#[derive(Debug, PartialEq)]
pub(crate) struct KernelQueue {
    pub(crate) classes: String,
    pub(crate) arrived: u64,
    pub(crate) taken: u64,
    pub(crate) lost: u64,
    pub(crate) waiting: u64,
    pub(crate) limit: u64,
}

/// The kernel queues of alice's outbound direction.
fn kernel_queues(rig: &Rig) -> Vec<KernelQueue> {
    kernel_queues_of(rig, Side::Alice, 0)
}

/// The kernel queues of a direction, by its place: first the outbound one. What arrived is accounted for in each.
pub(crate) fn kernel_queues_of(rig: &Rig, side: Side, direction: usize) -> Vec<KernelQueue> {
    let state = rig.json(side, &["qos", "show"]).unwrap();
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} in {state}"));
    let queue = |row: &Value| {
        let classes: Vec<&str> =
            row["classes"].as_array().unwrap().iter().map(|class| class.as_str().unwrap()).collect();
        let [arrived, taken, lost, waiting, limit] =
            ["arrived", "taken", "lost", "waiting", "limit"].map(|field| number(&row[field]));
        assert_eq!(arrived, taken + lost + waiting, "{row}");
        KernelQueue { classes: classes.join(","), arrived, taken, lost, waiting, limit }
    };
    state["directions"][direction]["kernel_queues"].as_array().unwrap().iter().map(queue).collect()
}

/// Datagrams at once (address, port, type of service, number). Prints the number of answers if the datagrams have a type of
/// service.
const SENDS: &str = r#"
import socket, sys
v6 = ":" in sys.argv[1]
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
if v6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, int(sys.argv[3]))
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[3]))
s.settimeout(10)
s.connect((sys.argv[1], int(sys.argv[2])))
count = int(sys.argv[4])
for n in range(count):
    s.send(bytes(300))
print("sent", flush=True)
if int(sys.argv[3]):
    print(sum(len(s.recv(1000)) == 300 for n in range(count)))
"#;

/// A program that sends datagrams at once, says so, and prints how many answers came.
fn sends(app: &Path, tos: u8, count: u32) -> Program {
    sends_to(app, &Side::Bob.v4().to_string(), tos, count)
}

/// A program that sends datagrams at once to one of Bob's addresses, says so, and prints how many answers came.
pub(crate) fn sends_to(app: &Path, address: &str, tos: u8, count: u32) -> Program {
    let args = [address.to_owned(), ECHO.to_string(), tos.to_string(), count.to_string()];
    Program::new(app).args(["-c", SENDS]).args(args)
}

pub(crate) fn of(rows: &[(String, String, u64, u64, u64)], hook: &str, class: &str) -> (u64, u64, u64) {
    let row = rows.iter().find(|row| (row.0.as_str(), row.1.as_str()) == (hook, class));
    row.map_or((0, 0, 0), |row| (row.2, row.3, row.4))
}

/// Do this, and if it fails, show what the graphs of both hosts counted.
pub(crate) fn with_counts<T>(rig: &Rig, work: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        for side in Side::BOTH {
            for command in [&["qos", "show"][..], &["status"]] {
                eprintln!("{}: {}", side.name(), rig.ravelin(side, command, "").unwrap_or_default());
            }
        }
        std::panic::resume_unwind(panic)
    })
}

pub(crate) fn datagrams(rig: &Rig, app: &Path, tos: u8) {
    let args = [Side::Bob.v4().to_string(), ECHO.to_string(), tos.to_string(), COUNT.to_string()];
    let done =
        rig.lab.alice().run_program(Program::new(app).args(["-c", DATAGRAMS]).args(args), PATIENCE).unwrap();
    assert_eq!(done.out().trim(), COUNT.to_string(), "{}", done.err());
}

/// What alice's daemon answers for Prometheus.
fn metrics(rig: &Rig) -> BTreeMap<String, f64> {
    metrics_of(rig, Side::Alice)
}

/// What a daemon answers for Prometheus: the samples by their names with labels, as they stand.
pub(crate) fn metrics_of(rig: &Rig, side: Side) -> BTreeMap<String, f64> {
    let socket = format!("/run/ravelin/{}/control.sock", rig.instance(side));
    let mut stream = UnixStream::connect(&socket).unwrap_or_else(|error| panic!("{socket}: {error}"));
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{error}: {line}")))
        })
        .collect()
}

/// `qos top` and the metrics have the counts of `qos show`. Strays may come in between, so each is asked again until
/// both looks of `show` around it are alike.
fn top_and_metrics_agree_with_show(rig: &Rig) {
    let (show, top, metrics) = tests::wait_for("a second without packets", PATIENCE, || {
        let look = || (counts(rig), kernel_queues(rig));
        let before = look();
        let top = rig.json(Side::Alice, &["qos", "top", "--once"]).unwrap();
        let metrics = metrics(rig);
        if look() == before { Ok((before, top, metrics)) } else { Err("packets came".to_owned()) }
    });
    let outbound = &top["directions"][0];
    assert_eq!(
        (&top["file"], &outbound["direction"]),
        (&"preset two-classes".into(), &"out".into()),
        "{top}"
    );
    assert!(top["seconds"].as_f64().unwrap() >= 1.0, "{top}");
    let metric = |name: &str, labels: &str| {
        let name = format!("ravelin_qos_{name}{{direction=\"out\",{labels}}}");
        *metrics.get(&name).unwrap_or_else(|| panic!("no {name} in {metrics:?}"))
    };
    let (rows, queues) = show;
    assert_eq!(rows.len(), 6, "{rows:?}");
    for (hook, class, arrived, left, dropped) in &rows {
        let labels = format!("hook=\"{hook}\",class=\"{class}\"");
        assert_eq!(metric("arrived_packets_total", &labels), *arrived as f64);
        assert_eq!(metric("left_packets_total", &labels), *left as f64);
        assert_eq!(metric("backlog_packets", &labels), 0.0);
        let prefix = format!("ravelin_qos_dropped_packets_total{{direction=\"out\",{labels},reason=");
        let by_reason = metrics.iter().filter(|(name, _)| name.starts_with(&prefix));
        assert_eq!(by_reason.map(|(_, count)| count).sum::<f64>(), *dropped as f64);
        let is_here = |loss: &&Value| loss["place"] == **hook && loss["classes"][0] == **class;
        let losses = outbound["losses"].as_array().unwrap().iter().filter(is_here);
        assert_eq!(losses.map(|loss| loss["count"].as_u64().unwrap()).sum::<u64>(), *dropped, "{top}");
        // Each packet that left has a sojourn.
        assert_eq!(metric("sojourn_seconds_count", &labels), *left as f64);
        assert_eq!(metric("sojourn_seconds_bucket", &format!("{labels},le=\"+Inf\"")), *left as f64);
    }
    for (at, queue) in queues.iter().enumerate() {
        let labels = format!("queue=\"{at}\",class=\"{}\"", queue.classes);
        assert_eq!(metric("kernel_arrived_packets_total", &labels), queue.arrived as f64);
        assert_eq!(metric("kernel_lost_packets_total", &labels), queue.lost as f64);
        assert_eq!(outbound["kernel_queues"][at]["arrived"], queue.arrived, "{top}");
    }
    for class in outbound["classes"].as_array().unwrap() {
        let name = class["class"].as_str().unwrap();
        let most = rows.iter().filter(|row| row.1 == name).map(|row| row.2).max();
        assert_eq!((class["arrived"].as_u64(), &class["waiting"]), (most, &0.into()), "{class}");
        // Nothing came in the interval, so nothing had a sojourn.
        assert_eq!((&class["arrived_per_second"], class.get("p50_ns")), (&0.0.into(), None), "{class}");
    }
    // The stream had drops by then, and the interval had none.
    let losses = outbound["losses"].as_array().unwrap();
    assert!(losses.iter().all(|loss| loss["per_second"] == 0.0), "{top}");
    assert!(metric("unit_busy_seconds_total", "unit=\"inline\"") > 0.0);
    assert!(metric("served_seconds_total", "hook=\"5a\",class=\"be\"") > 0.0);
    assert_eq!(metrics["ravelin_qos_in_force"], 1.0);
    let text = rig.ravelin(Side::Alice, &["qos", "top", "--once"], "").unwrap();
    assert!(text.starts_with("graph: preset two-classes") && text.contains("KLOST/s"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let none = rig.ravelin(Side::Bob, &["qos", "top", "--once"], "").unwrap();
    assert!(none.contains("no graph of classes is in force"), "{none}");
}

#[test]
fn packets_of_each_class_go_through_the_queues_of_a_graph() {
    let (mut rig, app) = build("rvl-qos", "[qos]\npreset = \"two-classes\"\n");
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _server = tcp_server(&rig, &app, TCP);
    let _echo = echo_server(&rig, &app);
    let wire = Eavesdropper::listen(&rig.lab, &[]);

    datagrams(&rig, &app, 46 << 2);
    let rows = counts(&rig);
    for hook in ["1a", "3a", "5a"] {
        assert_eq!(of(&rows, hook, "ef"), (COUNT, COUNT, 0), "hook {hook}: {rows:?}");
    }
    // The same program without a mark is of the other class.
    let before = of(&rows, "5a", "be");
    datagrams(&rig, &app, 0);
    let rows = counts(&rig);
    assert_eq!(of(&rows, "5a", "be"), (before.0 + COUNT, before.1 + COUNT, 0), "{rows:?}");
    assert_eq!(of(&rows, "5a", "ef").0, COUNT, "{rows:?}");

    // Super-packets of a stream, in both families.
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let (same, wrong) = one_line(&rig, &app, &address, TCP, 3_000_000);
        assert_eq!(same.trim(), "same", "{address}: {wrong}");
    }
    let rows = counts(&rig);
    assert!(of(&rows, "5a", "be").1 > 4_000, "each segment counts: {rows:?}");
    wire.assert_no_clear("behind a graph", |flow| {
        [flow.local_port, flow.remote_port].iter().any(|port| [TCP, ECHO].contains(port))
    });

    // Each class came by a kernel queue of its own.
    let queues = kernel_queues(&rig);
    assert_eq!(queues.len(), 2, "{queues:?}");
    assert_eq!((queues[0].classes.as_str(), queues[0].arrived, queues[0].lost), ("ef", COUNT, 0));
    assert!(queues[1].classes == "be" && queues[1].arrived > COUNT && queues[1].lost == 0, "{queues:?}");

    let shown = rig.ravelin(Side::Alice, &["qos", "show"], "").unwrap();
    assert!(shown.starts_with("graph: preset two-classes") && shown.contains("inline"), "{shown}");
    assert!(shown.contains("KERNEL QUEUE OF"), "{shown}");
    // The daemon's own queues are no stranger's.
    let status = rig.ravelin(Side::Alice, &["status"], "").unwrap();
    assert!(!status.contains("queues of the TUN"), "{status}");
    let graph = rig.ravelin(Side::Alice, &["qos", "show", "--graph"], "").unwrap();
    assert!(graph.contains("[class.ef]") && graph.contains("[[hook]]"), "{graph}");
    // Where no graph is in force, that is said.
    let none = rig.ravelin(Side::Bob, &["qos", "show"], "").unwrap();
    assert!(none.contains("no graph of classes is in force"), "{none}");

    top_and_metrics_agree_with_show(&rig);

    // The graph of the successor begins with its own counts, and carries on.
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    datagrams(&rig, &app, 46 << 2);
    assert_eq!(of(&counts(&rig), "5a", "ef").0, COUNT);
    assert_eq!((kernel_queues(&rig)[0].arrived, kernel_queues(&rig)[0].lost), (COUNT, 0));
}

#[test]
fn a_flood_that_fills_the_kernel_queue_of_its_class_costs_no_packet_of_another() {
    let (mut rig, app) = build("rvl-qosk", "[qos]\npreset = \"two-classes\"\n");
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    // A stopped daemon reads nothing, so what is sent meanwhile waits in the kernel or is lost there.
    rig.daemon(Side::Alice).unwrap().signal(libc::SIGSTOP).unwrap();
    let flood = rig.lab.alice().run_program(sends(&app, 0, 1000), PATIENCE).unwrap();
    let urgent = rig.lab.alice().spawn(sends(&app, 46 << 2, 20)).unwrap();
    urgent.wait_for_output("sent", PATIENCE).unwrap();
    rig.daemon(Side::Alice).unwrap().signal(libc::SIGCONT).unwrap();
    assert!(flood.status.success(), "{}", flood.err());
    let answers = urgent.finish(PATIENCE).unwrap();
    assert_eq!(answers.out().lines().last(), Some("20"), "{}", answers.err());
    let queues = tests::wait_for("empty kernel queues", PATIENCE, || {
        let queues = kernel_queues(&rig);
        if queues.iter().all(|queue| queue.waiting == 0) { Ok(queues) } else { Err(format!("{queues:?}")) }
    });
    assert_eq!((queues[0].arrived, queues[0].lost, queues[0].taken), (20, 0, 20));
    let be = &queues[1];
    // Errors about answers that nobody waits for any more are of this class too.
    let others = be.arrived - 1000;
    assert!((1000 - be.limit..=1000 - be.limit + others).contains(&be.lost) && others < 50, "{queues:?}");
    let counters = rig.ravelin(Side::Alice, &["stats"], "").unwrap();
    assert!(counters.contains("beyond what the kernel queue of its class holds"), "{counters}");
}

#[test]
fn a_class_that_is_full_loses_packets_and_status_tells_the_reason() {
    // One packet waits at most, so a burst of several loses some, whatever the machine does.
    let graph = "stages = [1]\n[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 64 }\n\
                 [class.be]\nmatch = \"rest\"\npolice = { rate = \"8kbit\", burst = \"1600B\" }\n";
    let file = std::env::temp_dir().join(format!("rvl-qos-{}.toml", std::process::id()));
    std::fs::write(&file, graph).unwrap();
    let (mut rig, app) = build("rvl-qosd", &format!("[qos]\nfile = {:?}\n", file.display().to_string()));
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let script = "import socket, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  for n in range(40): s.sendto(bytes(300), (sys.argv[1], 9))\n";
    let program = Program::new(&app).args(["-c", script, &Side::Bob.v4().to_string()]);
    let done = rig.lab.alice().run_program(program, PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    tests::wait_for("drops by the policer", PATIENCE, || {
        let (arrived, _, dropped) = of(&counts(&rig), "1a", "be");
        // A second's rate is three packets; four more go at once, and the others are beyond it.
        if arrived >= 40 && dropped >= 20 {
            Ok(())
        } else {
            Err(format!("{arrived} came, {dropped} dropped"))
        }
    });
    let stats = rig.ravelin(Side::Alice, &["stats"], "").unwrap();
    assert!(stats.contains("a policer found the packet beyond the rate of its class"), "{stats}");
    std::fs::remove_file(&file).unwrap();

    // A daemon whose graph is gone, or broken, does not start; the one that runs stays.
    let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    assert!(!refused.status.success() && refused.err().contains("No such file"), "{}", refused.err());
    std::fs::write(&file, "[class.ef]\nmatch = \"everything\"\n").unwrap();
    let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    assert!(!refused.status.success() && refused.err().contains(":2:"), "{}", refused.err());
    assert!(rig.json(Side::Alice, &["qos", "show"]).unwrap()["file"].is_string());
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn figure_1_decouples_cryptography_in_both_directions() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/qos/figure-1.toml");
    let (mut rig, app) = build(
        "rvl-qos1",
        &format!("[qos]\nfile = {:?}\n", file.canonicalize().unwrap().display().to_string()),
    );
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    datagrams(&rig, &app, 0);
    for direction in ["out", "in"] {
        let counts = counts_of(&rig, Side::Alice, direction);
        // Incoming main, incoming crypto, outgoing crypto, outgoing main.
        for hook in ["1a", "3a", "4a", "2a"] {
            // Nothing is classified in front of the look-up.
            let class = if hook == "1a" { "be" } else { "every" };
            let (arrived, left, dropped) = of(&counts, hook, class);
            assert!(arrived >= COUNT && dropped == 0, "{direction} {hook}: {counts:?}");
            assert_eq!(arrived, left, "{direction} {hook}");
        }
    }
}

/// A program of Bob that answers the datagrams of [`ECHO`].
pub(crate) fn echo_server(rig: &Rig, app: &Path) -> Running {
    let program = Program::new(app).args(["-c", SERVER, &ECHO.to_string()]);
    let echo = rig.lab.bob().spawn(program).unwrap();
    echo.wait_for_output("ready", PATIENCE).unwrap();
    echo
}

/// A graph in a file, for a rig whose configuration names it.
pub(crate) struct GraphFile(std::path::PathBuf);

impl GraphFile {
    pub(crate) fn new(name: &str, text: &str) -> GraphFile {
        let folder = std::env::temp_dir().join(format!("ravelin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = GraphFile(folder.join("qos.toml"));
        std::fs::write(&file.0, text).unwrap();
        file
    }

    pub(crate) fn configuration(&self) -> String {
        format!("[qos]\nfile = {:?}\n", self.0.display().to_string())
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }

    pub(crate) fn beside(&self, name: &str, text: &str) -> String {
        let path = self.0.with_file_name(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for GraphFile {
    fn drop(&mut self) {
        let _ = self.0.parent().map(std::fs::remove_dir_all);
    }
}

/// A graph with a policed class that goes first, for calls, and one for the rest. The burst is long, since packets cost
/// more time on a busy machine.
pub(crate) const WITH_CALLS: &str = "[class.calls]\nmatch = [{ dscp = [\"EF\"] }]\npriority = true\n\
                          police = { rate = \"50%\", burst = \"50ms\" }\n\n[class.every]\nmatch = \"rest\"\n";

#[test]
fn what_arrives_goes_through_the_queues_of_a_graph_by_its_outer_mark() {
    let (mut rig, app) = build("rvl-qosi", "[qos]\npreset = \"two-classes\"\n");
    rig.configure(Side::Bob, "[qos]\npreset = \"two-classes\"\n");
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _server = tcp_server(&rig, &app, TCP);
    let _echo = echo_server(&rig, &app);
    let wire = Eavesdropper::listen(&rig.lab, &[]);

    datagrams(&rig, &app, 46 << 2);
    // Bob opened each of them in the class of its outer mark; his answers have none.
    let rows = counts_of(&rig, Side::Bob, "in");
    for hook in ["1a", "3a", "5a"] {
        assert_eq!(of(&rows, hook, "ef"), (COUNT, COUNT, 0), "hook {hook}: {rows:?}");
    }
    let rows = counts_of(&rig, Side::Alice, "in");
    assert_eq!((of(&rows, "5a", "ef").0, of(&rows, "5a", "be").1), (0, COUNT), "{rows:?}");

    // Joined datagrams of a stream, in both families and both directions.
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let (same, wrong) = one_line(&rig, &app, &address, TCP, 3_000_000);
        assert_eq!(same.trim(), "same", "{address}: {wrong}");
    }
    let rows = counts_of(&rig, Side::Bob, "in");
    assert!(of(&rows, "5a", "be").1 > 4_000, "each datagram counts: {rows:?}");
    wire.assert_no_clear("behind two graphs", |flow| {
        [flow.local_port, flow.remote_port].iter().any(|port| [TCP, ECHO].contains(port))
    });
    let shown = rig.ravelin(Side::Bob, &["qos", "show"], "").unwrap();
    assert!(shown.contains("\nin, ") && shown.contains("\nout, "), "{shown}");

    // The graph of the successor begins with its own counts, and carries on.
    rig.start_with(Side::Bob, &["--take-over"]).unwrap();
    datagrams(&rig, &app, 46 << 2);
    assert_eq!(of(&counts_of(&rig, Side::Bob, "in"), "5a", "ef").0, COUNT);
}

#[test]
fn what_is_beyond_the_rate_of_a_class_is_dropped_before_it_is_opened_and_told() {
    let file = std::env::temp_dir().join(format!("rvl-qospolice-{}.toml", std::process::id()));
    let graph = "stages = [1]\n[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 64 }\n\
                 [class.be]\nmatch = \"rest\"\n\
                 police = { rate = \"8kbit\", burst = \"1600B\" }\n";
    std::fs::write(&file, graph).unwrap();
    let (mut rig, app) = build("rvl-qospolice", "");
    rig.configure(Side::Bob, &format!("[qos]\nfile = {:?}\n", file.display().to_string()));
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let script = "import socket, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  for n in range(40): s.sendto(bytes(300), (sys.argv[1], 9))\n";
    let program = Program::new(&app).args(["-c", script, &Side::Bob.v4().to_string()]);
    let done = rig.lab.alice().run_program(program, PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    tests::wait_for("drops by the policer", PATIENCE, || {
        let (arrived, _, dropped) = of(&counts_of(&rig, Side::Bob, "in"), "1a", "be");
        if arrived >= 40 && dropped >= 20 {
            Ok(())
        } else {
            Err(format!("{arrived} came, {dropped} dropped"))
        }
    });
    let stats = rig.ravelin(Side::Bob, &["stats"], "").unwrap();
    assert!(stats.contains("a policer found the packet beyond the rate of its class"), "{stats}");
    std::fs::remove_file(&file).unwrap();
}
