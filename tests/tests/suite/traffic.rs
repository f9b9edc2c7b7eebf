//! What the kernel half counted for each application against what was on the wire (docs/design/0013): a figure that nobody
//! compares proves nothing.

use std::path::Path;

use lab::rig::Rig;
use lab::{CaptureOptions, Evidence, Program, Side};
use serde_json::Value;
use tests::verdicts::{LINE, Ports};
use tests::{PATIENCE, associate, wait_for};

const CLEAR: u16 = 7000;
const PROTECTED: u16 = 7001;
const NEVER: u16 = 7002;
const PORTS: Ports = Ports { clear: CLEAR, protected: PROTECTED, never: NEVER };

/// Datagrams of 500 octets to an echo server (address, port), one behind the other; how many came back.
const DATAGRAMS: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
peer = (sys.argv[1], int(sys.argv[2]))
good = 0
for n in range(20):
    s.sendto(bytes(500), peer)
    good += len(s.recv(1000)) == 500
print(good)
"#;

fn datagrams(rig: &Rig, app: &Path, port: u16) -> String {
    let args = ["-c", DATAGRAMS, &Side::Bob.v4().to_string(), &port.to_string()];
    let done = rig.lab.alice().run_program(Program::new(app).args(args), PATIENCE).unwrap();
    format!("{}{}", done.out(), done.err())
}

/// The application's figures, once the daemon has them.
fn figures(rig: &Rig, side: Side) -> Value {
    let list = rig.json(side, &["stats", "--per-app"]).unwrap();
    assert_eq!((&list["lost"], &list["handed_over"]["agree"]), (&0.into(), &true.into()), "{list}");
    list["applications"][0].clone()
}

/// Packets and octets from the IP header on.
fn sum(evidence: &Evidence, from: Side, port: u16) -> (u64, u64) {
    let flows = evidence.clear_packets(|flow| flow.local_port == port || flow.remote_port == port);
    let own = flows.iter().filter(|seen| seen.from == from);
    own.fold((0, 0), |(packets, octets), seen| (packets + 1, octets + length(seen.packet())))
}

/// Short frames are padded, so the header says it.
fn length(packet: &[u8]) -> u64 {
    match packet[0] >> 4 {
        4 => u64::from(u16::from_be_bytes([packet[2], packet[3]])),
        _ => u64::from(u16::from_be_bytes([packet[4], packet[5]])) + 40,
    }
}

fn amount(figures: &Value, way: &str, kind: &str) -> (u64, u64) {
    let amount = &figures[way][kind];
    (amount["packets"].as_u64().unwrap(), amount["bytes"].as_u64().unwrap())
}

#[test]
fn what_is_counted_is_what_is_on_the_wire() {
    let audit = |folder: &Path| folder.join("audit.jsonl");
    let (mut rig, app) = PORTS.rig("rvl-traffic", |folder| format!("[audit]\nfile = {:?}\n", audit(folder)));
    let audit = audit(rig.folder());
    let wire = rig.lab.capture(CaptureOptions::default()).unwrap();
    let _servers = PORTS.serve(&rig, &app);
    PORTS.run(&rig, &app, || {
        assert_eq!(datagrams(&rig, &app, NEVER).trim(), "20");
        assert_eq!(datagrams(&rig, &app, PROTECTED).trim(), "20");
    });

    // The end of the connection is still on its way when the program is gone.
    let both = [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)];
    wait_for("counts that agree with the wire", PATIENCE, || {
        let evidence = wire.evidence().unwrap();
        assert!(evidence.is_complete() && evidence.not_kept == 0);
        for (side, peer) in both {
            let own = figures(&rig, side);
            let (clear, returned) = (sum(&evidence, side, CLEAR), sum(&evidence, side, NEVER));
            let counted = amount(&own, "outbound", "clear");
            if counted != (clear.0 + returned.0, clear.1 + returned.1) {
                return Err(format!("{}: {counted:?}, on the wire {clear:?} and {returned:?}", side.name()));
            }
            if amount(&own, "outbound", "returned") != returned {
                return Err(format!("{}: returned {returned:?}: {own}", side.name()));
            }
            let (clear, returned) = (sum(&evidence, peer, CLEAR), sum(&evidence, peer, NEVER));
            let octets = amount(&own, "inbound", "clear").1;
            if octets != clear.1 + returned.1 {
                return Err(format!(
                    "{}: {octets} octets arrived, on the wire {clear:?} and {returned:?}",
                    side.name()
                ));
            }
        }
        Ok(())
    });
    let evidence = wire.finish().unwrap();
    // Large pieces, so that this was worth counting; and nothing else was in clear.
    assert!(sum(&evidence, Side::Alice, CLEAR).1 > LINE as u64);
    assert_eq!(sum(&evidence, Side::Alice, PROTECTED), (0, 0));
    let (alice, bob) = (figures(&rig, Side::Alice), figures(&rig, Side::Bob));
    for (way, figures) in [("outbound", &alice), ("inbound", &alice), ("outbound", &bob), ("inbound", &bob)] {
        assert_eq!(amount(figures, way, "encrypted"), (20, 20 * 528), "{way}: {figures}");
        assert_eq!(amount(figures, way, "authenticated"), (0, 0), "{way}: {figures}");
    }
    assert_eq!(amount(&alice, "outbound", "refused"), (1, 0), "{alice}");
    assert_eq!(amount(&bob, "inbound", "refused"), (0, 0), "{bob}");
    // Two who do not ask each other: the association carried what the kernel half handed over.
    let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    let carried: u64 =
        list["sas"].as_array().unwrap().iter().map(|sa| sa["counters"]["bytes"].as_u64().unwrap()).sum();
    assert_eq!(carried, 2 * 20 * 528, "{list}");

    // Without its association nothing of it arrives, and nothing is in clear: both are seen here.
    tests::forget_keys(&rig);
    let clear = amount(&figures(&rig, Side::Alice), "outbound", "clear");
    let lost = ["-c", "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(bytes(100), ('BOB', 7001))"]
        .map(|word| word.replace("BOB", &Side::Bob.v4().to_string()));
    rig.lab.alice().run_program(Program::new(&app).args(lost), PATIENCE).unwrap();
    let after = figures(&rig, Side::Alice);
    assert_eq!(amount(&after, "outbound", "clear"), clear);
    assert_eq!(amount(&after, "outbound", "encrypted"), (21, 20 * 528 + 128));

    // So does what is said of a flow that never was, with its counters.
    associate(&rig).unwrap();
    let to = format!("{}:443/tcp", Side::Bob.v4());
    let never =
        rig.json(Side::Alice, &["explain", "--app", &app.display().to_string(), "--to", &to]).unwrap();
    let flow = &never["sockets"][0];
    assert_eq!(
        (&flow["effect"], &flow["decision"]["line"]["line"]),
        (&"protected".into(), &8.into()),
        "{never}"
    );
    assert_eq!(flow["sa_out"]["counters"]["packets"], 0, "{never}");

    // And what was refused is explained afterwards.
    let drops = rig.json(Side::Alice, &["explain", "--drop", "all"]).unwrap();
    let refused =
        drops["drops"].as_array().unwrap().iter().find(|drop| drop["reason"] == "connect_untrusted").unwrap();
    assert_eq!(refused["flow"]["remote"], "203.0.113.9:9", "{drops}");
    let line = &refused["decision"]["line"];
    assert_eq!(
        (&line["file"], &line["line"]),
        (&rig.policy_file(Side::Alice).display().to_string().into(), &4.into()),
        "{drops}"
    );
    let id = refused["id"].to_string();
    let text = rig.ravelin(Side::Alice, &["explain", "--drop", &id], "").unwrap();
    assert!(
        text.contains("connect_untrusted: connect() to an untrusted network") && text.contains(".policy:4"),
        "{text}"
    );
    assert_eq!(after["refused_because"]["connect_untrusted"], 1, "{after}");

    let entry = wait_for("the refusal in the audit log", PATIENCE, || {
        let text = std::fs::read_to_string(&audit).unwrap_or_default();
        let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = entries.into_iter().find(|entry| entry["event"] == "connect_untrusted");
        found.ok_or(text)
    });
    assert_eq!(
        (&entry["application"], &entry["peer_port"]),
        (&app.display().to_string().into(), &9.into()),
        "{entry}"
    );
    assert!(entry["pid"].is_u64() && entry["program"] == "app", "{entry}");

    // Neither a reload nor a daemon that comes anew begins again.
    rig.reload(Side::Alice).unwrap();
    rig.kill(Side::Alice).unwrap();
    rig.start(Side::Alice).unwrap();
    // The engine's own count of what left is that of its daemon.
    let kernels = |mut figures: Value| {
        figures["left"].take();
        figures
    };
    assert_eq!(kernels(figures(&rig, Side::Alice)), kernels(after));
    // People read it too.
    let text = rig.ravelin(Side::Alice, &["stats", "--per-app"], "").unwrap();
    assert!(
        text.contains("ENCRYPTED") && text.contains(&app.display().to_string()) && text.contains("(21)"),
        "{text}"
    );
}
