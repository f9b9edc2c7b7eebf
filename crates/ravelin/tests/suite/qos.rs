//! `ravelin qos`: graphs of classes checked, printed, planned and simulated, without root and without a daemon.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use netio::pcap::Writer;
use serde_json::Value;
use wire::ipv4::{self, Ipv4Repr};
use wire::udp::{self, UdpRepr};

use crate::kit::{Folder, err, out, run};

const PRESETS: [&str; 5] = ["fifo", "two-classes", "voice", "fair", "edge"];
const EF: u8 = 46;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Run a command of which only success is expected, with JSON; its document.
fn planned(args: &[&str]) -> Value {
    let output = run(&[&["qos"], args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
    document(&output)
}

#[test]
fn every_preset_is_listed_and_sound() {
    let listed = run(&["qos", "presets"]);
    assert_eq!(listed.status.code(), Some(0));
    let text = out(&listed);
    let names: Vec<&str> = text.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, PRESETS);
    let presets = planned(&["presets"]);
    for (row, name) in presets["presets"].as_array().unwrap().iter().zip(PRESETS) {
        assert_eq!(row["name"], name);
        assert!(row["purpose"].as_str().is_some_and(|purpose| purpose.len() > 20), "{row}");
        assert!(row["classes"].as_array().is_some_and(|classes| !classes.is_empty()), "{row}");
        let check = run(&["qos", "check", "--preset", name]);
        assert_eq!((check.status.code(), err(&check)), (Some(0), String::new()));
        assert!(out(&check).starts_with(&format!("preset {name}: ")), "{}", out(&check));
        assert!(out(&check).ends_with("0 errors\n"), "{}", out(&check));
    }
    let voice = out(&run(&["qos", "check", "--preset", "voice"]));
    assert_eq!(voice, "preset voice: 4 classes (control, ef, af4, rest), 0 errors\n");
    let wrong = run(&["qos", "check", "--preset", "vioce"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("voice"), "{}", err(&wrong));
    assert_eq!(run(&["qos", "check"]).status.code(), Some(2));
    assert_eq!(run(&["qos", "check", "a.toml", "--preset", "fifo"]).status.code(), Some(2));
}

#[test]
fn every_example_is_sound() {
    let folder = root().join("examples/qos");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        let check = run(&["qos", "check", file.to_str().unwrap()]);
        assert_eq!(check.status.code(), Some(0), "{}: {}", file.display(), err(&check));
    }
}

/// The lines of the list of broken graphs that are about one of them: each fault with its remedy.
fn listed(name: &str) -> Vec<(String, String)> {
    let list = std::fs::read_to_string(root().join("crates/qos/tests/data/broken.txt")).unwrap();
    let lines: Vec<&str> = list.lines().collect();
    let start = format!("{name}:");
    let faults = lines.windows(2).filter(|pair| pair[0].starts_with(&start));
    let remedy = |line: &str| line.strip_prefix("  help: ").unwrap().to_owned();
    faults.map(|pair| (pair[0][start.len()..].to_owned(), remedy(pair[1]))).collect()
}

#[test]
fn a_broken_graph_is_refused_with_places_texts_and_remedies() {
    for name in [
        "aqm-is-a-discipline.toml",
        "burst-below-a-packet.toml",
        "child-nowhere.toml",
        "cycle-of-excess.toml",
        "syntax-bracket.toml",
        "delay-of-a-sliced-unit.toml",
    ] {
        let file = root().join("crates/qos/tests/data/broken").join(name);
        let path = file.to_str().unwrap();
        let expected = listed(name);
        assert!(!expected.is_empty(), "{name}");
        let check = run(&["qos", "check", path]);
        assert_eq!(check.status.code(), Some(2), "{name}");
        let text = err(&check);
        let mut from = 0;
        for (fault, remedy) in &expected {
            // LINE:COLUMN: CODE: MESSAGE
            let parts: Vec<&str> = fault.splitn(4, ':').collect();
            let [line, column, code, message] = parts[..] else { panic!("{fault}") };
            let first = format!("{path}:{line}:{column}: error[{}]:{message}\n", code.trim());
            let place = text[from..].find(&first).unwrap_or_else(|| panic!("{first} is not in {text}"));
            from += place + first.len();
            assert!(text[from..].contains(&format!("= help: {remedy}\n")), "{remedy} is not in {text}");
        }
        assert_eq!(text.matches(": error[").count(), expected.len(), "{text}");
        let json = run(&["qos", "check", path, "--json"]);
        assert_eq!((json.status.code(), err(&json)), (Some(2), String::new()));
        let findings = document(&json)["findings"].as_array().unwrap().clone();
        let shown: Vec<(String, String)> = findings
            .iter()
            .map(|finding| {
                let word = |name: &str| finding[name].as_str().unwrap().to_owned();
                let at = &finding["at"];
                assert_eq!(at["file"], path);
                let fault = format!("{}:{}: {}: {}", at["line"], at["column"], word("code"), word("message"));
                (fault, word("remedy"))
            })
            .collect();
        assert_eq!(shown, expected, "{name}");
        // Whatever needs a sound graph says the same and does nothing.
        let plan = run(&["qos", "plan", path]);
        assert_eq!((plan.status.code(), out(&plan)), (Some(2), String::new()));
        assert!(err(&plan).contains(&expected[0].1), "{}", err(&plan));
    }
}

#[test]
fn what_is_no_graph_is_refused() {
    let folder = Folder::new("qos-none");
    let missing = folder.0.join("none.toml");
    let check = run(&["qos", "check", missing.to_str().unwrap()]);
    assert_eq!(check.status.code(), Some(2));
    assert!(err(&check).contains("none.toml: No such file"), "{}", err(&check));
    let check = run(&["qos", "check", folder.0.to_str().unwrap()]);
    assert_eq!(check.status.code(), Some(2));
    assert!(err(&check).contains("no regular file"), "{}", err(&check));
    // No packet shows the user of this host that sent it: such a graph is refused here, not when it is put in force.
    let text = "preset = \"fifo\"\n[class.web]\nmatch = [{ uid = [1000] }]\n";
    let check = run(&["qos", "check", &folder.file("users.toml", text)]);
    assert_eq!(check.status.code(), Some(2));
    assert!(err(&check).contains("users.toml:3:12: error[RVL-Q102]"), "{}", err(&check));
}

#[test]
fn a_configuration_says_how_many_kernel_queues_there_are() {
    let folder = Folder::new("qos-config");
    let text =
        "preset = \"fifo\"\n[kernel.every]\nclasses = [\"every\"]\nqueues = 5\nlimit = { packets = 64 }\n";
    let graph = folder.file("graph.toml", text);
    let config = folder.file("ravelin.toml", "policy = \"p\"\n[qos]\npreset = \"fifo\"\n");
    let check = run(&["qos", "check", &graph, "--config", &config]);
    assert_eq!(check.status.code(), Some(2));
    assert!(err(&check).contains("RVL-Q901"), "{}", err(&check));
    let config = folder.file("ravelin.toml", "policy = \"p\"\n[qos]\npreset = \"fifo\"\nkernel_queues = 5\n");
    let check = run(&["qos", "check", &graph, "--config", &config]);
    assert_eq!(check.status.code(), Some(0), "{}", err(&check));
    // What is wrong with a file that is named is never passed over.
    let config = folder.file("ravelin.toml", "policy = \"p\"\nlog = \"ifno\"\n");
    let check = run(&["qos", "check", &graph, "--config", &config]);
    assert_eq!(check.status.code(), Some(2));
    assert!(err(&check).contains("ravelin.toml:2:7: error: no log level"), "{}", err(&check));
}

#[test]
fn a_broken_graph_of_the_configuration_ends_the_start_and_fails_the_doctor() {
    let folder = Folder::new("qos-start");
    folder.file("qos.toml", "preset = \"voice\"\n[class.ef]\nmatch = [{ dscp = [\"FE\"] }]\n");
    folder.file("main.policy", "default { network 0.0.0.0/0, ::/0 trusted; }\n");
    let config = folder.file("ravelin.toml", "policy = \"main.policy\"\n[qos]\nfile = \"qos.toml\"\n");
    let start = run(&["run", "--config", &config]);
    assert_eq!(start.status.code(), Some(2), "{}", err(&start));
    let text = err(&start);
    assert!(text.contains("qos.toml:3:20: error[RVL-Q201]: there is no DSCP \"FE\""), "{text}");
    assert!(text.contains("= help: "), "{text}");
    let doctor = document(&run(&["doctor", "--config", &config, "--json"]));
    let checks = doctor["checks"].as_array().unwrap();
    let graph = |checks: &[Value]| checks.iter().find(|check| check["name"] == "graph of classes").cloned();
    let found = graph(checks).unwrap();
    assert_eq!(found["state"], "fail");
    assert!(found["found"].as_str().unwrap().contains("qos.toml:3:20: RVL-Q201"), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("ravelin qos check"), "{found}");
    let config = folder.file("sound.toml", "policy = \"main.policy\"\n[qos]\npreset = \"voice\"\n");
    let doctor = document(&run(&["doctor", "--config", &config, "--json"]));
    let found = graph(doctor["checks"].as_array().unwrap()).unwrap();
    assert_eq!(
        (&found["state"], &found["found"]),
        (&"ok".into(), &"preset voice, classes: control, ef, af4, rest".into())
    );
}

#[test]
fn a_preset_is_printed_in_full_and_reads_back_as_it_was() {
    let folder = Folder::new("qos-show");
    for name in PRESETS {
        let shown = run(&["qos", "show", "--graph", "--preset", name]);
        assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
        let text = out(&shown);
        assert!(text.contains("[[hook]]\nat = \"1a\"") && text.contains("[unit.inline]"), "{text}");
        let file = folder.file("full.toml", &text);
        assert_eq!(run(&["qos", "check", &file]).status.code(), Some(0), "{name}");
        assert_eq!(out(&run(&["qos", "show", "--graph", &file])), text, "{name}");
        assert_eq!(planned(&["show", "--graph", "--preset", name])["graph"], text);
    }
    assert_eq!(run(&["qos", "show", "--preset", "voice"]).status.code(), Some(2));
}

/// A row of a plan: a class in a direction.
fn delay<'p>(plan: &'p Value, class: &str, direction: &str) -> &'p Value {
    let rows = plan["classes"].as_array().unwrap();
    rows.iter().find(|row| row["class"] == class && row["direction"] == direction).unwrap()
}

#[test]
fn a_plan_has_each_class_of_voice_with_its_terms_and_says_what_is_assumed() {
    let plan = planned(&["plan", "--preset", "voice"]);
    for class in ["control", "ef", "af4"] {
        for direction in ["out", "in"] {
            let row = delay(&plan, class, direction);
            let terms = row["terms"].as_object().unwrap();
            let term = |name: &str| terms[name].as_u64().unwrap();
            let others = [
                "kernel_queue_ns",
                "wake_up_ns",
                "committed_work_ns",
                "other_classes_ns",
                "io_ns",
                "other_direction_ns",
            ]
            .map(term)
            .iter()
            .sum::<u64>();
            assert_eq!(term("error_term_ns"), others, "{row}");
            assert_eq!(row["delay_ns"], others + term("own_burst_ns"), "{row}");
        }
    }
    // FQ-CoDel serves flows by turns, so the rest has no bound.
    let rest = delay(&plan, "rest", "out");
    assert_eq!(rest["delay_ns"], Value::Null);
    assert_eq!(rest["no_bound"], "its packets do not leave in the order of arrival");
    assert_eq!(plan["costs"]["suites_from"], "nothing");
    assert_eq!(plan["costs"]["path_is_assumed"], true);
    let notes = plan["notes"].to_string();
    assert!(notes.contains("assumed, not measured") && notes.contains("counts as nothing"), "{notes}");
    assert!(plan["memory_octets"].as_u64().unwrap() > 0);
    assert!(plan["replay_windows"][1]["packets"].as_u64().unwrap() > 1, "{plan}");
    let able = plan["capabilities"].as_array().unwrap();
    assert!(
        able.len() > 20 && able.iter().all(|row| row["units"] == serde_json::json!(["inline"])),
        "{able:?}"
    );
    let text = out(&run(&["qos", "plan", "--preset", "voice"]));
    for class in ["control", "ef", "af4", "rest"] {
        for direction in ["out", "in"] {
            let is_row = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.len() > 5 && words.starts_with(&[class, direction])
            };
            assert!(text.lines().any(is_row), "{class} {direction}: {text}");
        }
    }
    for part in ["assumed", "rest out: no bound: ", "memory of full queues: ", "replay window", "every suite"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_plan_says_what_a_unit_holds_that_answers_later_and_who_overtakes_it() {
    let worker = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/qos/worker.toml");
    let notes = planned(&["plan", worker])["notes"].to_string();
    assert!(notes.contains("holds at most 256 packets or bursts"), "{notes}");
    assert!(notes.contains("the outbound replay window"), "{notes}");
    let notes = planned(&["plan", "--preset", "voice"])["notes"].to_string();
    assert!(!notes.contains("answers later"), "{notes}");
}

#[test]
fn costs_of_a_file_make_delays_longer_and_a_broken_file_is_refused() {
    let folder = Folder::new("qos-cost");
    let costs = folder.file(
        "costs.toml",
        "[[cost]]\nsuite = \"3des-md5\"\ndirection = \"out\"\nbase_ns = 1000\nps_per_octet = 156_000\n",
    );
    let cheap = planned(&["plan", "--preset", "voice"]);
    let dear = planned(&["plan", "--preset", "voice", "--cost", &costs]);
    let others =
        |plan: &Value, direction| delay(plan, "control", direction)["terms"]["other_classes_ns"].clone();
    // One packet of another class has begun: its reading and sending, and 1,500 octets of 156 ns.
    assert_eq!((others(&cheap, "out"), others(&dear, "out")), (2_800.into(), 237_800.into()));
    assert_eq!(others(&dear, "in"), others(&cheap, "in"));
    assert_eq!(dear["costs"]["suites_from"], "file");
    assert!(!dear["notes"].to_string().contains("counts as nothing"), "{}", dear["notes"]);
    assert!(dear["notes"].to_string().contains("assumed, not measured"), "{}", dear["notes"]);
    let broken = folder.file("costs.toml", "[[cost]]\nsuite = \"3des-dm5\"\nbase_ns = 1\nps_per_octet = 1\n");
    let plan = run(&["qos", "plan", "--preset", "voice", "--cost", &broken]);
    assert_eq!(plan.status.code(), Some(2));
    assert!(err(&plan).contains("costs.toml:2:9: error: "), "{}", err(&plan));
}

#[test]
fn nothing_is_promised_where_a_sliced_unit_shares_its_thread() {
    let folder = Folder::new("qos-sliced");
    let text = "preset = \"voice\"\n[unit.inline]\nkind = \"inline\"\nreserved = [\"ef\", \"control\"]\n\
                [unit.slow]\nkind = \"sliced\"\nstep = \"10us\"\n";
    let file = folder.file("sliced.toml", text);
    let plan = planned(&["plan", &file]);
    for row in plan["classes"].as_array().unwrap() {
        assert_eq!((&row["delay_ns"], &row["terms"]), (&Value::Null, &Value::Null), "{row}");
        assert_eq!(row["no_bound"], "sliced unit beside another one");
    }
    for window in plan["replay_windows"].as_array().unwrap() {
        assert_eq!(window["packets"], Value::Null);
        assert_eq!(window["no_bound"], "sliced unit beside another one");
    }
    let text = out(&run(&["qos", "plan", &file]));
    assert!(
        text.contains("ef out: no bound: sliced unit beside another one")
            && text.contains("no bound is proved"),
        "{text}"
    );
}

#[test]
fn a_replay_window_that_no_association_can_have_is_told_with_its_class_and_what_to_change() {
    let folder = Folder::new("qos-window");
    let text = |limit: &str| {
        format!("preset = \"voice\"\n[class.rest]\nmatch = \"rest\"\nlimit = {{ packets = {limit} }}\n")
    };
    let file = folder.file("long.toml", &text("100000, time = \"10s\""));
    let window = planned(&["plan", &file])["replay_windows"][0].clone();
    assert!(window["packets"].as_u64().unwrap() > 65_536 && window["class"] == "rest", "{window}");
    let advice = window["too_large"].as_str().unwrap();
    assert!(advice.starts_with("no association can have more than 65536: let packets of `rest`"), "{advice}");
    let shown = out(&run(&["qos", "plan", &file]));
    assert!(shown.contains(&format!("packets (they pass one of `rest`)\n  {advice}\n")), "{shown}");
    let window = planned(&["plan", "--preset", "fifo"])["replay_windows"][0].clone();
    assert_eq!((&window["packets"], window.get("too_large")), (&1.into(), None), "{window}");
}

#[test]
fn the_example_of_a_sliced_unit_has_a_bound_with_its_terms() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/qos/sliced.toml");
    let plan = planned(&["plan", example]);
    let rows = plan["classes"].as_array().unwrap();
    let ef: Vec<_> = rows.iter().filter(|row| row["class"] == "ef").collect();
    assert_eq!(ef.len(), 2);
    for row in ef {
        let terms = row["terms"].as_object().unwrap();
        assert!(row["delay_ns"].as_u64() > terms["committed_work_ns"].as_u64(), "{row}");
    }
}

/// A datagram of 192.0.2.1 with a DSCP.
fn datagram(dscp: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN + udp::HEADER_LEN];
    let (src, dst) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let payload_len = udp::HEADER_LEN + payload.len();
    let repr = Ipv4Repr { src, dst, protocol: 17, ttl: 64, tos: dscp << 2, id: 7, df: true, payload_len };
    ipv4::emit(&mut packet, &repr).unwrap();
    let repr = UdpRepr { src_port: 40_000, dst_port: port, payload_len: payload.len() };
    udp::emit(&mut packet[ipv4::HEADER_LEN..], &repr).unwrap();
    packet.extend_from_slice(payload);
    packet
}

/// A capture of a flood with a call in it: a packet of 1,000 octets every 10 us, and one of the call every 5 ms.
fn flood(folder: &Folder) -> String {
    let path = folder.0.join("flood.pcap");
    let mut writer = Writer::create(&path).unwrap();
    for n in 0..2_000_u64 {
        let packet =
            if n % 500 == 250 { datagram(EF, 5_060, &[0; 160]) } else { datagram(0, 9_000, &[0; 972]) };
        let time = Duration::from_secs(1_000_000) + Duration::from_micros(10 * n);
        writer.write(time, &packet, u32::try_from(packet.len()).unwrap()).unwrap();
    }
    writer.write(Duration::from_secs(1_000_001), b"no packet", 9).unwrap();
    writer.finish().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_simulation_tells_class_wait_and_verdict_of_each_packet_and_is_the_same_twice() {
    let folder = Folder::new("qos-simulate");
    let capture = flood(&folder);
    let costs =
        folder.file("costs.toml", "[[cost]]\nsuite = \"3des-md5\"\nbase_ns = 1000\nps_per_octet = 100_000\n");
    let simulate = |preset: &str, more: &[&str]| {
        let output =
            run(&[&["qos", "simulate", "--preset", preset, &capture, "--cost", &costs], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        output
    };
    let first = simulate("voice", &["--json"]);
    assert_eq!(first.stdout, simulate("voice", &["--json"]).stdout);
    assert_eq!(simulate("voice", &[]).stdout, simulate("voice", &[]).stdout);
    let lines: Vec<Value> = out(&first).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2_002);
    let of = |class: &str| lines.iter().filter(|line| line["class"] == class).cloned().collect::<Vec<_>>();
    let calls = of("ef");
    assert_eq!(calls.len(), 4);
    for call in &calls {
        assert_eq!((&call["verdict"], &call["direction"]), (&"pass".into(), &"out".into()));
        // What is committed, 200 us, one packet that has begun, and its own.
        assert!(call["wait_ns"].as_u64().unwrap() < 450_000, "{call}");
    }
    assert_eq!((&calls[0]["index"], &calls[0]["time"]), (&251.into(), &1_000_000.002_5.into()));
    // A packet of the flood costs 100 us and comes every 10 us.
    let rest = of("rest");
    let dropped = rest.iter().filter(|line| line["verdict"] == "drop").count();
    assert!(rest.len() == 1_996 && dropped > 1_000, "{dropped}");
    assert!(rest.iter().all(|line| (line["verdict"] == "drop") == line["reason"].is_string()));
    assert_eq!((&lines[2_000]["verdict"], &lines[2_000]["reason"]), (&"skip".into(), &"no_ip".into()));
    let sums = &lines[2_001]["summary"];
    assert_eq!((&sums["packets"], &sums["skipped"]), (&2_001.into(), &1.into()));
    assert_eq!(sums["dropped"], dropped);
    assert_eq!(sums["costs_are_assumed"], false);
    // Without classes the call waits behind the flood, or is lost in it.
    let plain = simulate("fifo", &["--json"]);
    let plain: Vec<Value> = out(&plain).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let unharmed = calls.iter().filter(|call| {
        let line = &plain[usize::try_from(call["index"].as_u64().unwrap()).unwrap() - 1];
        line["verdict"] == "pass" && line["wait_ns"].as_u64().unwrap() < 450_000
    });
    assert_eq!(unharmed.count(), 0);
    let quiet = out(&simulate("voice", &["--quiet"]));
    assert!(quiet.lines().count() <= 5 && quiet.contains("2001 frames read"), "{quiet}");
}

#[test]
fn a_capture_that_cannot_be_read_is_refused_and_a_graph_may_stand_in_front_of_it() {
    let folder = Folder::new("qos-capture");
    let capture = flood(&folder);
    let graph = folder.file("graph.toml", "preset = \"fair\"\n");
    let sums = run(&["qos", "simulate", &graph, &capture, "--quiet", "--json"]);
    assert_eq!(sums.status.code(), Some(0), "{}", err(&sums));
    assert_eq!(document(&sums)["summary"]["costs_are_assumed"], true);
    let inbound = run(&["qos", "simulate", &graph, &capture, "--quiet", "--json", "--local", "192.0.2.2"]);
    assert_eq!(document(&inbound)["summary"]["classes"][0]["direction"], "in");
    let broken = run(&["qos", "simulate", &graph, &graph]);
    assert_eq!(broken.status.code(), Some(2), "{}", err(&broken));
    let suite = run(&["qos", "simulate", &graph, &capture, "--suite", "3des-dm5"]);
    assert_eq!(suite.status.code(), Some(2), "{}", err(&suite));
}
