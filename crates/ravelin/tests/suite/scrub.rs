//! `ravelin scrub` as a user has it: report, explanation, rules, mistakes; and what other readers say of its output.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use netio::pcap::{LinkType, Writer};
use serde_json::Value;

/// A folder of its own, gone at the end.
struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Scene {
        let path = std::env::temp_dir().join(format!("ravelin-scrub-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scene(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// A capture of one UDP datagram, one whose header checksum is wrong, and an ARP frame.
    fn capture(&self, name: &str) -> Vec<u8> {
        let mut good = vec![2; 12];
        good.extend([8, 0, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
        good.extend([0x9c, 0x40, 0x0f, 0xa0, 0, 12, 0, 0, b'd', b'a', b't', b'a']);
        let headers = wire::ip::Headers::parse(&good[14..]).unwrap();
        wire::checksum::complete_transport(&mut good[14..], &headers).unwrap();
        let sum = wire::checksum::ip_checksum(&good[14..34]);
        good[24..26].copy_from_slice(&sum.to_be_bytes());
        let mut bad = good.clone();
        bad[14] = 0x44;
        let mut arp = vec![0xff; 12];
        arp.extend([8, 6, 0, 1]);
        let path = self.0.join(name);
        let mut writer = Writer::create_with(&path, LinkType::Ethernet).unwrap();
        for (second, frame) in (1..).zip([good, bad, arp]) {
            writer.write(Duration::from_secs(second), &frame, frame.len() as u32).unwrap();
        }
        writer.finish().unwrap();
        std::fs::read(path).unwrap()
    }

    fn scrub(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ravelin"));
        command.arg("scrub").args(arguments).current_dir(&self.0).output().unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn the_report_says_what_was_dropped_by_which_rule() {
    let scene = Scene::new("report");
    scene.capture("in.pcap");
    let done = scene.scrub(&["in.pcap", "out.pcap"]);
    let printed = text(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    for word in ["3 frames read, 2 written", "4.1", "ipv4_header", "hint: 1 frames hold no IP"] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    let done = scene.scrub(&["in.pcap", "out.pcap", "--json", "--all"]);
    let lines: Vec<Value> =
        text(&done.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line["api"] == 1));
    let verdicts: Vec<_> = lines[..3].iter().map(|line| line["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["forward", "drop", "pass"]);
    assert_eq!((&lines[1]["rule"], &lines[2]["reason"]), (&"4.1".into(), &"not_ip".into()));
    assert_eq!(lines[3]["summary"]["dropped"], 1);
    let done = scene.scrub(&["in.pcap", "out.pcap", "--json"]);
    assert_eq!(text(&done.stdout).lines().count(), 3, "a packet that no rule met has no line");
    assert!(scene.scrub(&["in.pcap", "out.pcap", "--quiet"]).stdout.is_empty());
}

#[test]
fn one_frame_is_explained() {
    let scene = Scene::new("explain");
    scene.capture("in.pcap");
    let done = scene.scrub(&["in.pcap", "/dev/null", "--explain", "2"]);
    let printed = text(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    for word in [
        "frame 2 at 2.000000: drop by rule 4.1",
        "rule 4.1 ipv4_header acted:",
        "as it came:",
        "see ravelin-scrub(7)",
    ] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    let done = scene.scrub(&["in.pcap", "/dev/null", "--explain", "1", "--json"]);
    let line: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&line["verdict"], &line["came"]), (&"forward".into(), &line["went"][0]));
    assert!(line["decoded"].as_str().unwrap().contains("192.0.2.1 -> 198.51.100.2"), "{line}");
    let done = scene.scrub(&["in.pcap", "/dev/null", "--explain", "9"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("there is no frame 9"), "{done:?}");
}

#[test]
fn mistakes_are_explained_and_the_input_is_never_written() {
    let scene = Scene::new("mistakes");
    let before = scene.capture("in.pcap");
    std::os::unix::fs::symlink("in.pcap", scene.path("link.pcap")).unwrap();
    std::fs::write(scene.path("garbage"), "this is no capture at all").unwrap();
    std::fs::write(scene.path("kept"), "something").unwrap();
    for (arguments, says) in [
        (&["in.pcap", "in.pcap"][..], "is the capture that is read"),
        (&["in.pcap", "link.pcap"], "is the capture that is read"),
        (&["garbage", "kept"], "garbage is not a capture file"),
        (&["nowhere", "kept"], "nowhere"),
        (&["in.pcap", "kept", "--rule", "T.1=off"], "cannot be off"),
        (&["in.pcap", "kept", "--rule", "ipv4_headr=on"], "did you mean ipv4_header?"),
        (&["in.pcap", "kept", "--inside", "192.0.2.0/40"], "0 to 32"),
        (&["in.pcap", "kept", "--mtu", "100"], "--mtu"),
    ] {
        let done = scene.scrub(arguments);
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        assert!(text(&done.stderr).contains(says), "{says}: {done:?}");
        assert_eq!(std::fs::read(scene.path("in.pcap")).unwrap(), before);
        assert_eq!(std::fs::read(scene.path("kept")).unwrap(), b"something", "{arguments:?}");
    }
}

#[test]
fn a_file_that_breaks_off_is_an_error_behind_a_whole_output() {
    let scene = Scene::new("broken");
    let whole = scene.capture("in.pcap");
    std::fs::write(scene.path("cut.pcap"), &whole[..whole.len() - 5]).unwrap();
    let done = scene.scrub(&["cut.pcap", "out.pcap", "--json"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("behind frame 2"), "{done:?}");
    let last: Value = serde_json::from_str(text(&done.stdout).lines().last().unwrap()).unwrap();
    assert_eq!((&last["summary"]["packets"], last["summary"]["broken"].is_string()), (&2.into(), true));
}

#[test]
fn standard_input_and_output_and_another_reader() {
    let scene = Scene::new("pipe");
    scene.capture("in.pcap");
    let binary = env!("CARGO_BIN_EXE_ravelin");
    let pipe = format!("{binary} scrub - - < in.pcap > out.pcap 2> report");
    assert!(Command::new("sh").args(["-c", &pipe]).current_dir(&scene.0).status().unwrap().success());
    assert!(std::fs::read_to_string(scene.path("report")).unwrap().contains("3 frames read, 2 written"));
    let Ok(tshark) = Command::new("tshark")
        .args(["-r", &scene.path("out.pcap"), "-T", "fields", "-e", "frame.protocols"])
        .output()
    else {
        println!("skipped: tshark is not there");
        return;
    };
    assert!(tshark.status.success() && text(&tshark.stdout).contains("eth:ethertype:ip:udp"), "{tshark:?}");
    let capinfos = Command::new("capinfos").args(["-c", "-E", &scene.path("out.pcap")]).output().unwrap();
    assert!(capinfos.status.success() && capinfos.stderr.is_empty(), "{capinfos:?}");
}

#[test]
fn the_rules_are_listed() {
    let scene = Scene::new("rules");
    let done = scene.scrub(&["--rules"]);
    assert!(done.status.success() && text(&done.stdout).contains("tcp_first_wins"), "{done:?}");
    let done = scene.scrub(&["--rules", "--json"]);
    let list: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(list["rules"].as_array().unwrap().iter().any(|rule| rule["id"] == "Q.8"), "{list}");
}
