//! A graph of classes in the daemon's outbound path (paper 002; docs/design/0040): every packet of a class is counted at
//! each queue that it meets, both families and super-packets go through, and a broken graph stops the start.

use std::path::Path;

use lab::rig::{Rig, RigOptions};
use lab::{Eavesdropper, Program, Side};
use serde_json::Value;
use tests::{PATIENCE, associate, binary, copy_of_python, one_line, tcp_server};

const TCP: u16 = 7051;
const ECHO: u16 = 7052;
/// The datagrams of a run.
const COUNT: u64 = 100;

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
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[1])))
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

fn build(name: &str, configuration: &str) -> (Rig, std::path::PathBuf) {
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
fn counts_of(rig: &Rig, side: Side, direction: &str) -> Vec<(String, String, u64, u64, u64)> {
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

fn of(rows: &[(String, String, u64, u64, u64)], hook: &str, class: &str) -> (u64, u64, u64) {
    let row = rows.iter().find(|row| (row.0.as_str(), row.1.as_str()) == (hook, class));
    row.map_or((0, 0, 0), |row| (row.2, row.3, row.4))
}

fn datagrams(rig: &Rig, app: &Path, tos: u8) {
    let args = [Side::Bob.v4().to_string(), ECHO.to_string(), tos.to_string(), COUNT.to_string()];
    let done =
        rig.lab.alice().run_program(Program::new(app).args(["-c", DATAGRAMS]).args(args), PATIENCE).unwrap();
    assert_eq!(done.out().trim(), COUNT.to_string(), "{}", done.err());
}

#[test]
fn packets_of_each_class_go_through_the_queues_of_a_graph() {
    let (mut rig, app) = build("rvl-qos", "[qos]\npreset = \"two-classes\"\n");
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _server = tcp_server(&rig, &app, TCP);
    let echo = Program::new(&app).args(["-c", SERVER, &ECHO.to_string()]);
    let echo = rig.lab.bob().spawn(echo).unwrap();
    echo.wait_for_output("ready", PATIENCE).unwrap();
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

    let shown = rig.ravelin(Side::Alice, &["qos", "show"], "").unwrap();
    assert!(shown.starts_with("graph: preset two-classes") && shown.contains("inline"), "{shown}");
    let graph = rig.ravelin(Side::Alice, &["qos", "show", "--graph"], "").unwrap();
    assert!(graph.contains("[class.ef]") && graph.contains("[[hook]]"), "{graph}");
    // Where no graph is in force, that is said.
    let none = rig.ravelin(Side::Bob, &["qos", "show"], "").unwrap();
    assert!(none.contains("no graph of classes is in force"), "{none}");

    // The graph of the successor begins with its own counts, and carries on.
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    datagrams(&rig, &app, 46 << 2);
    assert_eq!(of(&counts(&rig), "5a", "ef").0, COUNT);
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
    // Nor does one whose graph is sound, but has what the engine does not carry out: that is told before the hand-over.
    let behind = "[class.every]\nmatch = \"rest\"\n\n[[hook]]\nat = \"2a\"\n\
                  chain = [{ kind = \"limit\", class = \"every\", most = 50 }]\n\n\
                  [unit.inline]\nkind = \"inline\"\n";
    std::fs::write(&file, behind).unwrap();
    let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    let why = "components at hook 2a are not carried out yet";
    assert!(!refused.status.success() && refused.err().contains(why), "{}", refused.err());
    assert!(refused.err().contains(":5:"), "the line of the hook: {}", refused.err());
    assert!(rig.json(Side::Alice, &["qos", "show"]).unwrap()["file"].is_string());
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn what_arrives_goes_through_the_queues_of_a_graph_by_its_outer_mark() {
    let (mut rig, app) = build("rvl-qosi", "[qos]\npreset = \"two-classes\"\n");
    rig.configure(Side::Bob, "[qos]\npreset = \"two-classes\"\n");
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _server = tcp_server(&rig, &app, TCP);
    let echo = Program::new(&app).args(["-c", SERVER, &ECHO.to_string()]);
    let echo = rig.lab.bob().spawn(echo).unwrap();
    echo.wait_for_output("ready", PATIENCE).unwrap();
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
    let file = std::env::temp_dir().join(format!("rvl-qosp-{}.toml", std::process::id()));
    let graph = "stages = [1]\n[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 64 }\n\
                 [class.be]\nmatch = \"rest\"\n\
                 police = { rate = \"8kbit\", burst = \"1600B\" }\n";
    std::fs::write(&file, graph).unwrap();
    let (mut rig, app) = build("rvl-qosp", "");
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
