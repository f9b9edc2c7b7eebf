//! `ravelin replay`: what goes out protected comes back as it was, and every packet has a verdict.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use netio::pcap::{Frame, LinkType, Reader, Writer};
use serde_json::Value;
use wire::ipv4::{self, Ipv4Repr};

const POLICY: &str = "application curl {\n  network 192.0.2.2 protected P;\n  network 192.0.2.3 untrusted;\n  network 0.0.0.0/0 \
                      trusted;\n  protection P { localport=any remoteport=80 encryption mandatory; }\n}\n";
const KEY: &str = "000102030405060708090a0b0c0d0e0f10111213";

struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Scene {
        let path = std::env::temp_dir().join(format!("ravelin-replay-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let scene = Scene(path);
        scene.write("policy", POLICY);
        scene.write("ravelin.toml", "policy = \"policy\"\n");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn capture(&self, name: &str, packets: &[Vec<u8>]) {
        let mut writer = Writer::create(&self.path(name)).unwrap();
        for (index, packet) in packets.iter().enumerate() {
            let time = Duration::from_millis(1000 + index as u64);
            writer.write(time, packet, u32::try_from(packet.len()).unwrap()).unwrap();
        }
        writer.finish().unwrap();
    }

    fn packets(&self, name: &str) -> Vec<Frame> {
        let mut reader = Reader::open(&self.path(name)).unwrap();
        std::iter::from_fn(|| reader.next_frame().unwrap()).collect()
    }

    fn replay(&self, input: &str, output: &str, extra: &[&str]) -> Output {
        let path = |name: &str| self.path(name).display().to_string();
        let (config, input, output) = (path("ravelin.toml"), path(input), path(output));
        let mut command = Command::new(env!("CARGO_BIN_EXE_ravelin"));
        command.args(["replay", "--config", &config, "--in", &input, "--out", &output]);
        command.current_dir(&self.0).args(extra).output().unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An association's line in a keys file, as this end has it.
fn sa(direction: &str, local: &str, remote: &str, key: &str) -> String {
    format!(
        "{{\"direction\":\"{direction}\",\"spi\":\"0x1000\",\"local\":\"{local}\",\"remote\":\"{remote}\",\
         \"mode\":\"transport\",\"suite\":\"aes128gcm\",\"keymat\":\"{key}\"}}\n"
    )
}

/// A TCP segment of 192.0.2.1.
fn tcp(to: &str, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; 20];
    segment[0..2].copy_from_slice(&40000u16.to_be_bytes());
    segment[2..4].copy_from_slice(&port.to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = 0x18;
    segment.extend_from_slice(payload);
    let mut packet = vec![0; 20];
    let repr = Ipv4Repr {
        src: "192.0.2.1".parse().unwrap(),
        dst: to.parse().unwrap(),
        protocol: 6,
        ttl: 64,
        tos: 0,
        id: 7,
        df: true,
        payload_len: segment.len(),
    };
    ipv4::emit(&mut packet, &repr).unwrap();
    packet.extend_from_slice(&segment);
    let headers = wire::ip::Headers::parse(&packet).unwrap();
    wire::checksum::complete_transport(&mut packet, &headers).unwrap();
    packet
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn out_and_back_in_gives_the_same_packets() {
    let scene = Scene::new("round-trip");
    let originals: Vec<Vec<u8>> =
        (0..5).map(|n| tcp("192.0.2.2", 80, &vec![n; 100 * usize::from(n)])).collect();
    scene.capture("clear.pcap", &originals);
    scene.write("alice.keys", &format!("# alice\n\n{}", sa("out", "192.0.2.1", "192.0.2.2", KEY)));
    scene.write("bob.keys", &sa("in", "192.0.2.2", "192.0.2.1", KEY));

    let sealed = scene.replay("clear.pcap", "esp.pcap", &["--keys", "alice.keys", "--app", "curl", "--json"]);
    assert!(sealed.status.success(), "{sealed:?}");
    let report = lines(&sealed);
    for (index, line) in report[..5].iter().enumerate() {
        assert_eq!((&line["api"], &line["index"]), (&1.into(), &(index + 1).into()));
        assert_eq!((&line["direction"], &line["verdict"]), (&"outbound".into(), &"protect".into()), "{line}");
        assert_eq!((&line["spi"], &line["sequence"]), (&"0x00001000".into(), &(index + 1).into()), "{line}");
        assert_eq!((&line["application"], &line["rule"]["line"]), (&"curl".into(), &5.into()), "{line}");
    }
    assert_eq!(report[5]["summary"]["written"], 5);
    let outer = scene.packets("esp.pcap");
    assert!(outer.iter().all(|frame| frame.link == LinkType::Raw && frame.data[9] == 17), "UDP 4500");
    assert!(outer.iter().all(|f| originals.iter().all(|o| !f.data.windows(20).any(|w| w == &o[20..40]))));

    let opened = scene.replay("esp.pcap", "back.pcap", &["--keys", "bob.keys", "--json"]);
    assert!(opened.status.success(), "{opened:?}");
    assert!(lines(&opened)[..5].iter().all(|l| l["direction"] == "inbound" && l["verdict"] == "deliver"));
    for (back, original) in scene.packets("back.pcap").iter().zip(&originals) {
        // Transport mode makes the header anew; everything behind it must be what it was.
        assert_eq!(back.data[20..], original[20..]);
        assert_eq!(back.data[12..20], original[12..20]);
    }
    // The same input gives the same output.
    let first = std::fs::read(scene.path("esp.pcap")).unwrap();
    scene.replay("clear.pcap", "esp2.pcap", &["--keys", "alice.keys", "--app", "curl"]);
    assert_eq!(first, std::fs::read(scene.path("esp2.pcap")).unwrap());
}

#[test]
fn every_verdict_has_its_reason_and_its_line() {
    let scene = Scene::new("verdicts");
    scene.capture(
        "in.pcap",
        &[
            tcp("192.0.2.2", 80, b"protected, but no association"),
            tcp("192.0.2.2", 81, b"no item"),
            tcp("192.0.2.3", 80, b"untrusted"),
            tcp("198.51.100.1", 80, b"trusted"),
            vec![0x45, 0],
            tcp("192.0.2.2", 80, b"x")[..25].to_vec(),
        ],
    );
    let report = lines(&scene.replay("in.pcap", "out.pcap", &["--app", "curl", "--json"]));
    let seen: Vec<(String, Option<String>, Option<u64>)> = report[..6]
        .iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().map(ToOwned::to_owned);
            (text("verdict").unwrap(), text("reason"), line["rule"]["line"].as_u64())
        })
        .collect();
    let row =
        |verdict: &str, reason: Option<&str>, line| (verdict.to_owned(), reason.map(ToOwned::to_owned), line);
    assert_eq!(
        seen,
        [
            row("drop", Some("no_sa"), Some(5)),
            row("drop", Some("policy_discard"), Some(2)),
            row("drop", Some("policy_discard"), Some(3)),
            row("bypass", None, Some(4)),
            row("drop", Some("truncated"), None),
            row("drop", Some("truncated"), None),
        ]
    );
    assert_eq!(report[6]["summary"], serde_json::json!({ "packets": 6, "written": 1, "dropped": 5 }));
    // Without an application no block speaks, so everything that can be read is bypassed.
    let report = lines(&scene.replay("in.pcap", "out.pcap", &["--json"]));
    assert!(report[..4].iter().all(|line| line["verdict"] == "bypass"), "{report:?}");
}

#[test]
fn replayed_forged_and_unknown_packets_are_dropped_by_name() {
    let scene = Scene::new("attacks");
    scene.capture("clear.pcap", &[tcp("192.0.2.2", 80, b"one"), tcp("192.0.2.2", 80, b"two")]);
    scene.write("alice.keys", &sa("out", "192.0.2.1", "192.0.2.2", KEY));
    scene.write("bob.keys", &sa("in", "192.0.2.2", "192.0.2.1", KEY));
    assert!(
        scene.replay("clear.pcap", "esp.pcap", &["--keys", "alice.keys", "--app", "curl"]).status.success()
    );
    let outer: Vec<Vec<u8>> = scene.packets("esp.pcap").into_iter().map(|frame| frame.data).collect();
    let mut forged = outer[1].clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut unknown = outer[1].clone();
    unknown[28] ^= 0xff;
    scene.capture("attack.pcap", &[outer[0].clone(), outer[0].clone(), forged, unknown, outer[1].clone()]);
    let report = lines(&scene.replay("attack.pcap", "out.pcap", &["--keys", "bob.keys", "--json"]));
    let seen: Vec<&str> = report[..5].iter().map(|l| l["reason"].as_str().unwrap_or("delivered")).collect();
    assert_eq!(seen, ["delivered", "replayed", "auth_failed", "unknown_spi", "delivered"]);
}

#[test]
fn bad_keys_files_are_named_by_line_and_never_shown() {
    let scene = Scene::new("keys");
    scene.capture("in.pcap", &[]);
    let good = sa("out", "192.0.2.1", "192.0.2.2", KEY);
    for (text, line) in [
        (format!("{good}{good}"), 2),
        (format!("\n{}", good.replace("aes128gcm", "aes256gcm")), 2),
        (good.replace("\"mode\"", "\"mood\""), 1),
        (good.replace("0x1000", "auto"), 1),
        (format!("{good}{KEY}\n"), 2),
    ] {
        scene.write("keys", &text);
        let answer = scene.replay("in.pcap", "out.pcap", &["--keys", "keys"]);
        let error = String::from_utf8(answer.stderr).unwrap();
        assert_eq!(answer.status.code(), Some(2), "{text}");
        assert!(error.contains(&format!("keys:{line}: ")), "{error}");
        assert!(!error.contains(&KEY[..16]), "{error}");
    }
}

#[test]
fn bad_input_has_status_2() {
    let scene = Scene::new("bad-input");
    scene.write("in.pcap", "this is no capture file at all");
    assert_eq!(scene.replay("in.pcap", "out.pcap", &[]).status.code(), Some(2));
    assert_eq!(scene.replay("nowhere.pcap", "out.pcap", &[]).status.code(), Some(2));
    scene.capture("in.pcap", &[]);
    assert_eq!(scene.replay("in.pcap", "out.pcap", &["--app", "wget"]).status.code(), Some(2));
    assert_eq!(scene.replay("in.pcap", "out.pcap", &["--keys", "nowhere"]).status.code(), Some(2));
    scene.write("policy", "application {");
    assert_eq!(scene.replay("in.pcap", "out.pcap", &[]).status.code(), Some(2));
}

#[test]
fn a_capture_and_a_file_of_associations_are_enough() {
    let scene = Scene::new("alone");
    let original = tcp("192.0.2.2", 80, &[7; 50]);
    scene.capture("clear.pcap", &[original.clone(), tcp("192.0.2.3", 80, b"elsewhere")]);
    scene.write(
        "json.sa",
        &(sa("out", "192.0.2.1", "192.0.2.2", KEY) + &sa("in", "192.0.2.2", "192.0.2.1", KEY)),
    );
    scene.write(
        "setkey.sa",
        &format!("flush;\nadd 192.0.2.1 192.0.2.2 esp-udp 0x1000 -E aes-gcm-16 0x{KEY};\n"),
    );
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ravelin"));
        command.arg("replay").args(args).current_dir(&scene.0).output().unwrap()
    };
    let mut outer = Vec::new();
    for file in ["json.sa", "setkey.sa"] {
        let sealed = run(&["--in", "clear.pcap", "--sa", file, "--out", "esp.pcap", "--json", "--hex"]);
        assert!(sealed.status.success(), "{sealed:?}");
        let report = lines(&sealed);
        assert_eq!((&report[0]["verdict"], &report[1]["verdict"]), (&"protect".into(), &"bypass".into()));
        let hex: String =
            scene.packets("esp.pcap")[0].data.iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(report[0]["packets"], serde_json::json!([hex]));
        outer.push(hex);
        let opened = run(&["--in", "esp.pcap", "--sa", file, "--json", "--hex"]);
        let back = lines(&opened)[0]["packets"][0].as_str().unwrap().to_owned();
        let want: String = original[20..].iter().map(|octet| format!("{octet:02x}")).collect();
        assert!(back.ends_with(&want), "{opened:?}");
    }
    // Both languages say the same, so the same input gives the same output.
    assert_eq!(outer[0], outer[1]);
    let plain = run(&["--in", "clear.pcap", "--sa", "json.sa"]);
    assert!(
        String::from_utf8_lossy(&plain.stdout).contains("2 packets read, 2 written, 0 dropped"),
        "{plain:?}"
    );
    assert_eq!(run(&["--in", "clear.pcap", "--sa", "json.sa", "--app", "curl"]).status.code(), Some(2));
    assert_eq!(run(&["--in", "clear.pcap", "--hex"]).status.code(), Some(2));
}

#[test]
fn legacy_suites_are_taken_where_the_configuration_allows_them() {
    let scene = Scene::new("legacy");
    scene.capture("clear.pcap", &[tcp("192.0.2.2", 80, b"as in the paper")]);
    // 24 octets of 3DES, 20 of HMAC-SHA1.
    let key: String = (0..44).map(|octet| format!("{octet:02x}")).collect();
    scene.write("alice.keys", &sa("out", "192.0.2.1", "192.0.2.2", &key).replace("aes128gcm", "3des-sha1"));
    let replay = || scene.replay("clear.pcap", "esp.pcap", &["--keys", "alice.keys", "--app", "curl"]);
    let refused = replay();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("legacy"), "{error}");
    scene.write("ravelin.toml", "policy = \"policy\"\n[crypto]\nlegacy = true\n");
    let sealed = replay();
    assert!(sealed.status.success(), "{sealed:?}");
    assert_eq!(scene.packets("esp.pcap").len(), 1);
}

#[test]
fn captures_of_other_links_and_no_captures_are_named() {
    let scene = Scene::new("links");
    // PPP (147 is for private use), one frame of four octets.
    let word = |number: u32| number.to_ne_bytes();
    let version = [2u16, 4].map(u16::to_ne_bytes).concat();
    let header = [&word(0xa1b2_c3d4)[..], &version, &[0; 8], &word(65535), &word(147)].concat();
    let frame = [1, 0, 4, 4].map(word).concat();
    std::fs::write(scene.path("ppp.pcap"), [&header[..], &frame, &[1, 2, 3, 4]].concat()).unwrap();
    let output = scene.replay("ppp.pcap", "out.pcapng", &["--json"]);
    assert!(output.status.success());
    let lines = lines(&output);
    assert_eq!((&lines[0]["verdict"], &lines[0]["reason"]), (&"skip".into(), &"link_type_147".into()));
    assert_eq!(lines[1]["summary"]["unread"], 1);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("ravelin: frames of a link type that is not read were skipped: 1"), "{told}");
    scene.write("short.pcap", "abc");
    let output = scene.replay("short.pcap", "out.pcapng", &[]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("is not a capture file (it has fewer than four octets)"), "{told}");
}

#[test]
fn the_capture_that_is_read_is_not_written_over() {
    let scene = Scene::new("same-file");
    scene.capture("in.pcap", &[tcp("192.0.2.2", 80, b"x")]);
    std::fs::hard_link(scene.path("in.pcap"), scene.path("link.pcap")).unwrap();
    std::os::unix::fs::symlink("in.pcap", scene.path("symlink.pcap")).unwrap();
    let before = std::fs::read(scene.path("in.pcap")).unwrap();
    for output in ["in.pcap", "link.pcap", "symlink.pcap"] {
        let refused = scene.replay("in.pcap", output, &[]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--out"), "{refused:?}");
        assert_eq!(std::fs::read(scene.path("in.pcap")).unwrap(), before);
    }
    assert!(scene.replay("in.pcap", "out.pcap", &[]).status.success());
    assert!(scene.replay("in.pcap", "out.pcap", &[]).status.success(), "another file may be there");
}

#[test]
fn the_commands_of_the_manual_work_in_an_empty_directory() {
    let scene = Scene::new("manual");
    let folder = scene.path("empty");
    std::fs::create_dir(&folder).unwrap();
    let manual = include_str!("../../../../docs/replay.md");
    let commands = manual.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_ravelin"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let done =
        Command::new("sh").args(["-ec", commands]).current_dir(&folder).env("PATH", path).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    for word in [" outbound protect ", " inbound deliver ", "\"verdict\":\"deliver\"", "\"packets\":[\"4500"]
    {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    let read = |name: &str| {
        let mut reader = Reader::open(&folder.join(name)).unwrap();
        let frame = reader.next_frame().unwrap().unwrap();
        assert!(reader.next_frame().unwrap().is_none());
        (frame.time, frame.data)
    };
    assert_eq!(read("back.pcap"), read("clear.pcap"));
    assert_eq!(read("clear.pcap").0, Duration::from_secs(1));
    assert!(read("clear.pcap").1.ends_with(b"ravelin"));
}

#[test]
fn a_fragment_that_waited_in_vain_has_a_second_line() {
    let scene = Scene::new("held");
    let mut fragment = tcp("192.0.2.2", 80, &[1; 44]);
    // More follow, and never come.
    (fragment[6], fragment[10], fragment[11]) = (0x20, 0, 0);
    ipv4::Ipv4::new_checked(&mut fragment[..]).unwrap().fill_checksum();
    scene.capture("in.pcap", &[fragment, tcp("192.0.2.3", 80, b"x")]);
    let output = Command::new(env!("CARGO_BIN_EXE_ravelin"))
        .args(["replay", "--in", "in.pcap", "--json"])
        .current_dir(&scene.0)
        .output()
        .unwrap();
    let report = lines(&output);
    let seen: Vec<_> = report[..3].iter().map(|l| (l["index"].as_u64(), l["verdict"].as_str())).collect();
    assert_eq!(seen, [(Some(1), Some("hold")), (Some(2), Some("bypass")), (Some(1), Some("drop"))]);
    assert!(report[2]["reason"].as_str().unwrap().starts_with("fragment_"), "{report:?}");
    assert_eq!(report[3]["summary"], serde_json::json!({ "packets": 2, "written": 1, "dropped": 1 }));
}
