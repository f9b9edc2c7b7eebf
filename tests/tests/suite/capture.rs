//! `ravelin capture`: what programs say, in clear, with association, application and verdict, as tshark reads it; what ends, with
//! its reason; bounds; and nobody is held up by a reader who does not read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lab::rig::Rig;
use lab::{Program, Running, Side, Transport};
use serde_json::Value;
use tests::{
    PATIENCE, Scratch, binary, copy_of_python, one_line, program, programs, protected_rig, tcp_server,
    wait_for,
};

const PORT: u16 = 7060;

/// Sends datagrams to nobody, one every 20 ms, for so many seconds.
const DATAGRAMS: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    try:
        s.sendto(b"to nobody", (sys.argv[1], int(sys.argv[2])))
    except OSError:
        pass
    time.sleep(0.02)  # the rate
"#;

fn line(rig: &Rig, python: &Path, address: &str, port: u16, octets: usize) {
    let (answer, fault) = one_line(rig, python, address, port, octets);
    assert_eq!(answer, "same\n", "{fault}");
}

fn datagrams(rig: &Rig, python: &Path, seconds: &str) -> Running {
    let address = Side::Bob.v4().to_string();
    let sender = Program::new(python).args(["-c", DATAGRAMS, &address, "9", seconds]);
    rig.lab.alice().spawn(sender).unwrap()
}

/// A capture that runs: its file has its head.
fn capture(rig: &Rig, side: Side, file: &Path, args: &[&str]) -> Running {
    let capture = Program::new(binary()).args(["capture", "--instance"]).arg(rig.instance(side));
    let capture = rig.lab.host(side).spawn(capture.arg("-w").arg(file).args(args)).unwrap();
    wait_for("the head of the file", PATIENCE, || {
        if std::fs::metadata(file).is_ok_and(|file| file.len() > 0) { Ok(()) } else { Err(capture.output()) }
    });
    capture
}

fn interrupt(capture: Running) -> String {
    capture.signal(libc::SIGINT).unwrap();
    let done = capture.finish(PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    done.err()
}

/// Each packet of a file as tshark sees it: comment, direction, interface, source, destination port, length, checksum.
fn tshark(file: &Path) -> Vec<Vec<String>> {
    let fields = [
        "frame.comment",
        "frame.packet_flags_direction",
        "frame.interface_name",
        "_ws.col.Source",
        "tcp.dstport",
        "frame.len",
        "tcp.checksum.status",
        "tcp.len",
        "frame.time_epoch",
    ];
    let mut tshark = Command::new(program("tshark"));
    tshark.args(["-n", "-T", "fields", "-o", "tcp.check_checksum:TRUE", "-r"]).arg(file);
    tshark.env("HOME", file.parent().unwrap());
    for field in fields {
        tshark.args(["-e", field]);
    }
    let done = tshark.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(ToOwned::to_owned).collect()).collect()
}

#[test]
fn packets_are_seen_in_clear_with_association_application_and_verdict() {
    let scratch = Scratch::new("cap");
    let (app, other) = (copy_of_python(&scratch, "app"), copy_of_python(&scratch, "other"));
    let rig = protected_rig("rvl-cap", true, &[&app, &other]).unwrap();
    let _servers = [tcp_server(&rig, &app, PORT), tcp_server(&rig, &other, PORT + 1)];
    let plain = program("python3");
    let _plain = tcp_server(&rig, &plain, PORT + 2);
    let (v4, v6) = (Side::Bob.v4().to_string(), Side::Bob.v6().to_string());
    // A capture whose writer waits too long for a processor says how many packets it has lost: then once more.
    let captured = (0..8).find_map(|turn| {
        let [file, only] = ["all", "app"].map(|name| rig.folder().join(format!("{name}-{turn}.pcapng")));
        let whole = capture(&rig, Side::Alice, &file, &[]);
        let one = capture(&rig, Side::Alice, &only, &["--app", &app.display().to_string(), "-s", "60"]);
        line(&rig, &app, &v4, PORT, 50_000);
        line(&rig, &app, &v6, PORT, 3000);
        line(&rig, &other, &v4, PORT + 1, 20);
        line(&rig, &plain, &v4, PORT + 2, 20);
        let told = [interrupt(whole), interrupt(one)];
        told.iter().all(|told| told.contains(", 0 lost")).then_some((file, only))
    });
    let (file, only) = captured.expect("a capture that loses nothing");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let sas = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    let spi = |direction: &str, remote: &str| {
        let sas = sas["sas"].as_array().unwrap();
        let sa = sas.iter().find(|sa| sa["direction"] == direction && sa["remote"] == remote).unwrap();
        sa["spi"].as_str().unwrap().to_owned()
    };
    // Probes of the path between the daemons (docs/design/0029) are nobody's packets.
    let mut packets = tshark(&file);
    packets.retain(|packet| !packet[0].contains(" reason=esp_dummy "));
    assert!(packets.len() > 80, "{}", packets.len());
    let mut octets = [0u64; 2];
    for packet in &packets {
        let [comment, direction, interface, source, port, len, checksum, payload, time] = packet.as_slice()
        else {
            panic!("{packet:?}")
        };
        assert!(comment.starts_with("verdict=protected sa=0x"), "{packet:?}");
        assert_eq!(interface, "inner", "{packet:?}");
        assert_ne!(port, &(PORT + 2).to_string(), "clear traffic: {packet:?}");
        // Cut and finished as on a wire.
        assert!(len.parse::<u32>().unwrap() <= 1500 && checksum == "1", "{packet:?}");
        assert_eq!(time.split('.').nth(1).map(str::len), Some(9), "{packet:?}");
        let (peer, suite) = if source.contains(':') { (&v6, "chacha20poly1305") } else { (&v4, "aes128gcm") };
        let out = direction == "0x00000002";
        assert_eq!(out, source != peer, "{packet:?}");
        let sa = spi(if out { "out" } else { "in" }, peer);
        assert!(comment.contains(&format!(" sa={sa} seq=")), "{packet:?}");
        assert!(comment.contains(&format!(" peer={peer} suite={suite}")), "{packet:?}");
        // The associations are shared; and what the kernel answers without a socket is nobody's.
        let named = comment.contains(" app=");
        assert!(if out { named || payload == "0" } else { !named }, "{packet:?}");
        if named {
            let owner = if port == &(PORT + 1).to_string() { &other } else { &app };
            assert!(comment.contains(&format!(" app={}", owner.display())), "{packet:?}");
        }
        octets[usize::from(out)] += payload.parse().unwrap_or(0);
    }
    assert!(octets.iter().all(|octets| *octets >= 53_000), "{octets:?}");

    // One application: what came in for it is known by its flows, for the associations are not bound to it.
    let packets = tshark(&only);
    assert!(packets.iter().any(|p| p[1] == "0x00000001") && packets.iter().any(|p| p[1] == "0x00000002"));
    for packet in &packets {
        assert_ne!(packet[4], (PORT + 1).to_string(), "another application: {packet:?}");
        assert!(!packet[3].is_empty(), "{packet:?}");
    }
    let in_whole = tshark(&file).iter().filter(|p| p[4] == PORT.to_string()).count();
    let in_only = packets.iter().filter(|p| p[4] == PORT.to_string()).count();
    assert_eq!(in_only, in_whole);
}

#[test]
fn what_ends_is_shown_with_its_reason() {
    let scratch = Scratch::new("capdrop");
    let app = copy_of_python(&scratch, "app");
    let rig = protected_rig("rvl-capdrop", true, &[&app]).unwrap();
    // Bob no longer knows what alice sends on, and alice's other association goes: nothing is left for IPv4.
    let list = rig.json(Side::Bob, &["sa", "list"]).unwrap();
    let alice = Side::Alice.v4().to_string();
    let sas = list["sas"].as_array().unwrap();
    let inbound = sas.iter().find(|sa| sa["direction"] == "in" && sa["remote"] == alice.as_str()).unwrap();
    let spi = inbound["spi"].as_str().unwrap();
    rig.ravelin(Side::Bob, &["sa", "del", spi, "--direction", "in"], "").unwrap();

    let sealed = rig.folder().join("sealed.pcapng");
    let capturing = capture(&rig, Side::Bob, &sealed, &["--dropped", "-c", "5"]);
    let sending = datagrams(&rig, &app, "90");
    // It ends by itself.
    let done = capturing.finish(PATIENCE).unwrap();
    assert!(done.status.success() && done.err().contains("5 packets captured"), "{}", done.err());
    let packets = tshark(&sealed);
    assert_eq!(packets.len(), 5);
    for packet in &packets {
        let wanted = format!("verdict=dropped reason=unknown_spi sa={spi} seq=");
        assert!(packet[0].starts_with(&wanted), "{packet:?}");
        assert!(
            packet[0].contains("meaning=\"No inbound security association has this SPI.\""),
            "{packet:?}"
        );
        assert_eq!((packet[1].as_str(), packet[2].as_str()), ("0x00000001", "outer"), "{packet:?}");
    }

    // Lines for people; and on alice nothing ends yet.
    let lines = |args: &[&str]| {
        let args: Vec<&str> = ["capture", "--text"].into_iter().chain(args.iter().copied()).collect();
        rig.ravelin(Side::Alice, &args, "").unwrap()
    };
    assert_eq!(lines(&["--dropped", "--duration", "1s"]), "");
    let flowing = lines(&["--sa", spi, "-c", "3"]);
    assert_eq!(flowing.lines().count(), 3);
    assert!(
        flowing.contains(&format!("> {}:9 udp 37 octets  verdict=protected sa={spi}", Side::Bob.v4())),
        "{flowing}"
    );
    rig.ravelin(Side::Alice, &["sa", "del", spi, "--direction", "out"], "").unwrap();
    let ended = lines(&["--dropped", "-c", "2"]);
    assert_eq!(ended.lines().count(), 2);
    assert!(
        ended.lines().all(|line| line.contains(" out ") && line.contains("verdict=dropped reason=no_sa")),
        "{ended}"
    );
    assert!(ended.contains(&format!("app={}", app.display())) && ended.contains("rule="), "{ended}");
    drop(sending);
}

#[test]
fn captures_are_bounded_audited_and_go_through_pipes() {
    let scratch = Scratch::new("capmany");
    let app = copy_of_python(&scratch, "app");
    let rig = protected_rig("rvl-capmany", true, &[&app]).unwrap();
    let sending = datagrams(&rig, &app, "90");
    let instance = rig.instance(Side::Alice);
    let piped = format!(
        "{} capture --instance {instance} -w - -c 5 | {} -r - -n -T fields -e frame.comment",
        binary().display(),
        program("tshark").display()
    );
    let shell = Program::new(program("sh")).args(["-c", &piped]);
    let seen = rig.lab.alice().run_program(shell, PATIENCE).unwrap();
    assert_eq!(seen.out().matches("verdict=protected").count(), 5, "{}{}", seen.out(), seen.err());

    // Everybody who asks for text gets lines; who goes away ends his capture.
    let file = |n: usize| rig.folder().join(format!("{n}.pcapng"));
    let mut four: Vec<_> = (0..4).map(|n| capture(&rig, Side::Alice, &file(n), &[])).collect();
    let fifth = rig.command(Side::Alice, &["capture", "--text", "-c", "1"], "").unwrap();
    assert_eq!(fifth.status.code(), Some(1));
    assert!(
        fifth.err().contains("4 captures run already") && fifth.err().contains("--stop"),
        "{}",
        fifth.err()
    );
    drop(four.pop().unwrap().kill().unwrap());
    let running = || {
        let list = rig.json(Side::Alice, &["capture", "--list"]).unwrap();
        let captures = list["captures"].as_array().unwrap().clone();
        captures.into_iter().filter(|capture| capture["running"] == true).collect::<Vec<_>>()
    };
    wait_for("the end of the capture whose reader has gone", PATIENCE, || {
        let running = running();
        if running.len() == 3 { Ok(()) } else { Err(format!("{running:?}")) }
    });
    // An operator ends one; it is a whole file.
    let first = running()[0].clone();
    assert_eq!(first["uid"], 0);
    assert_eq!(first["pid"], four[0].pid());
    let id = first["id"].to_string();
    rig.ravelin(Side::Alice, &["capture", "--stop", &id], "").unwrap();
    let ended = four.remove(0).finish(PATIENCE).unwrap();
    assert!(ended.status.success() && ended.err().contains(", 0 lost"), "{}", ended.err());
    assert!(!tshark(&file(0)).is_empty());
    // A file that is there may be somebody else's, or lead elsewhere.
    let link = rig.folder().join("link.pcapng");
    std::os::unix::fs::symlink(rig.folder().join("target"), &link).unwrap();
    let size = std::fs::metadata(file(0)).unwrap().len();
    for there in [&file(0), &link] {
        let there = there.display().to_string();
        let refused = rig.command(Side::Alice, &["capture", "-w", &there, "-c", "1"], "").unwrap();
        assert_eq!(refused.status.code(), Some(2), "{}", refused.err());
        assert!(refused.err().contains("packets in clear go into a new file only"), "{}", refused.err());
    }
    assert!(!rig.folder().join("target").exists() && std::fs::metadata(file(0)).unwrap().len() == size);
    four.into_iter().for_each(|capture| drop(interrupt(capture)));
    let log = rig.daemon(Side::Alice).unwrap().output();
    assert!(log.contains("capture_started") && log.contains("uid=0"), "{log}");

    let unknown = rig.command(Side::Alice, &["capture", "--app", "nobody", "--text"], "").unwrap();
    assert!(unknown.err().contains("no block for application \"nobody\""), "{}", unknown.err());
    drop(sending);
}

#[test]
fn a_reader_who_does_not_read_loses_packets_and_holds_nobody_up() {
    const SIZE: u64 = 200 << 20;
    let python = program("python3");
    let rig = protected_rig("rvl-capslow", true, &[&python]).unwrap();
    let bob = rig.lab.bob();
    let script = ["-c", programs::BULK_SERVER, &PORT.to_string(), &SIZE.to_string()];
    let mut server = bob.spawn(Program::new(&python).args(script)).unwrap();
    bob.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE).unwrap();
    // Its reader takes nothing until it is told to.
    let (instance, folder) = (rig.instance(Side::Alice), rig.folder().display());
    let go = rig.folder().join("go");
    let piped = format!(
        "mkfifo {folder}/go; {} capture --instance {instance} -w - | (cat {folder}/go; cat > {folder}/slow.pcapng)",
        binary().display(),
    );
    let capture = rig.lab.alice().spawn(Program::new(program("sh")).args(["-c", &piped])).unwrap();
    let info = || rig.json(Side::Alice, &["capture", "--list"]).unwrap()["captures"][0].clone();
    wait_for(
        "the capture",
        PATIENCE,
        || {
            if info()["running"] == true { Ok(()) } else { Err(capture.output()) }
        },
    );
    let id = info()["id"].to_string();
    // One with an end, whose reader takes nothing at all.
    let stalled =
        format!("{} capture --instance {instance} --duration 3s -w - | sleep 600", binary().display());
    let stalled = rig.lab.alice().spawn(Program::new(program("sh")).args(["-c", &stalled])).unwrap();
    let of = |seconds: Value| {
        let list = rig.json(Side::Alice, &["capture", "--list"]).unwrap();
        let captures = list["captures"].as_array().unwrap();
        captures.iter().find(|capture| capture["request"]["seconds"] == seconds).unwrap().clone()
    };
    let address = Side::Bob.v4().to_string();
    let client = Program::new(&python).args(["-c", programs::BULK_CLIENT, &address, &PORT.to_string()]);
    let got = rig.lab.alice().run_program(client, Duration::from_secs(120)).unwrap();
    assert!(got.out().trim().ends_with(&SIZE.to_string()), "{}{}", got.out(), got.err());
    rig.ravelin(Side::Alice, &["capture", "--stop", &id], "").unwrap();
    // It ends although nobody has read yet.
    wait_for("the end of the capture", PATIENCE, || {
        let info = of(Value::Null);
        if info["running"] == false { Ok(()) } else { Err(info) }
    });
    std::fs::write(go, "").unwrap();
    drop(capture.finish(PATIENCE).unwrap());
    wait_for("the end of the one with an end", PATIENCE, || {
        let info = of(3.into());
        if info["running"] == false { Ok(()) } else { Err(info) }
    });
    drop(stalled.kill().unwrap());
    let info = of(Value::Null);
    assert!(info["lost"].as_u64() > Some(1000), "{info}");
}
