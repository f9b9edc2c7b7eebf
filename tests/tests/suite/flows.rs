//! Flows as the kernel half counts them, one by one, against what was on the wire; and their log (docs/design/0018).

use std::path::Path;

use lab::rig::Rig;
use lab::{CaptureOptions, Evidence, Program, Side};
use serde_json::Value;
use tests::verdicts::{LINE, Ports};
use tests::{PATIENCE, binary, json_lines, wait_for};

const CLEAR: u16 = 7100;
const PROTECTED: u16 = 7101;
const NEVER: u16 = 7102;
const PORTS: Ports = Ports { clear: CLEAR, protected: PROTECTED, never: NEVER };

/// Datagrams of 500 octets to an echo server (address, port); then echo requests (ICMP) of 40 octets to the other address.
const DATAGRAMS: &str = r#"
import socket, struct, sys
for port in sys.argv[2:4]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    for n in range(10):
        s.sendto(bytes(500), (sys.argv[1], int(port)))
        assert len(s.recv(1000)) == 500
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)
s.settimeout(10)
for n in range(3):
    s.sendto(struct.pack('!BBHHH', 128, 0, 0, 7, n) + bytes(32), (sys.argv[4], 0))
    while s.recv(1000)[0] != 129:
        pass
print('done')
"#;

/// Octets from the IP header on, of one direction.
fn sum(evidence: &Evidence, from: Side, protocol: u8, port: u16) -> u64 {
    let flows = evidence.clear_packets(|flow| {
        flow.protocol == protocol && (protocol == 58 || flow.local_port == port || flow.remote_port == port)
    });
    let own = flows.iter().filter(|seen| seen.from == from);
    // Neighbour discovery is nobody's.
    own.filter(|seen| protocol != 58 || matches!(seen.packet()[40], 128 | 129))
        .map(|seen| length(seen.packet()))
        .sum()
}

/// Short frames are padded, so the header says it.
fn length(packet: &[u8]) -> u64 {
    match packet[0] >> 4 {
        4 => u64::from(u16::from_be_bytes([packet[2], packet[3]])),
        _ => u64::from(u16::from_be_bytes([packet[4], packet[5]])) + 40,
    }
}

/// The flows of the answer, those that have ended behind those that go on.
fn flows(rig: &Rig, side: Side) -> (Value, Vec<Value>) {
    let all = rig.json(side, &["flows", "--ended"]).unwrap();
    let mut out = all["live"].as_array().unwrap().clone();
    out.extend(all["ended"].as_array().unwrap().iter().cloned());
    (all, out)
}

/// The only flow of this protocol and port of the peer's.
fn only(flows: &[Value], protocol: u8, port: u16) -> Result<&Value, String> {
    let ends = format!(":{port}");
    let mut found = flows
        .iter()
        .filter(|flow| flow["protocol"] == protocol && flow["remote"].as_str().unwrap().ends_with(&ends));
    match (found.next(), found.next()) {
        (Some(flow), None) => Ok(flow),
        (first, second) => Err(format!("{protocol} {port}: {first:?} {second:?}")),
    }
}

fn octets(flow: &Value, way: &str, kind: &str) -> u64 {
    flow[way][kind]["bytes"].as_u64().unwrap()
}

#[test]
fn each_flow_is_what_is_on_the_wire_and_its_end_is_written() {
    let log = |folder: &Path| folder.join("flows.jsonl");
    let (mut rig, app) =
        PORTS.rig("rvl-flows", |folder| format!("[flows]\nlog = {:?}\nidle = 3600\n", log(folder)));
    let log = log(rig.folder());
    let wire = rig.lab.capture(CaptureOptions::default()).unwrap();
    let _servers = PORTS.serve(&rig, &app);
    PORTS.run(&rig, &app, || {
        let (v4, v6) = (Side::Bob.v4().to_string(), Side::Bob.v6().to_string());
        let args = ["-c", DATAGRAMS, &v4, &PROTECTED.to_string(), &NEVER.to_string(), &v6];
        let done = rig.lab.alice().run_program(Program::new(&app).args(args), PATIENCE).unwrap();
        assert_eq!(done.out().trim(), "done", "{}", done.err());
    });

    // The end of the connection is still on its way when the program is gone.
    wait_for("flows that agree with the wire", PATIENCE, || {
        let evidence = wire.evidence().unwrap();
        assert!(evidence.is_complete() && evidence.not_kept == 0);
        let (_, all) = flows(&rig, Side::Alice);
        for (protocol, port) in [(6, CLEAR), (17, NEVER), (58, 0)] {
            let flow = only(&all, protocol, port)?;
            for (way, from) in [("outbound", Side::Alice), ("inbound", Side::Bob)] {
                let (counted, seen) = (octets(flow, way, "clear"), sum(&evidence, from, protocol, port));
                if counted != seen || seen == 0 {
                    return Err(format!("{way} {counted}, on the wire {seen}: {flow}"));
                }
            }
        }
        Ok(())
    });
    let evidence = wire.finish().unwrap();
    // Large pieces, so that this was worth counting.
    assert!(sum(&evidence, Side::Alice, 6, CLEAR) > LINE as u64);
    let (answer, all) = flows(&rig, Side::Alice);
    assert_eq!((&answer["table"]["lost"], &answer["table"]["unwritten"]), (&0.into(), &0.into()));
    let protected = only(&all, 17, PROTECTED).unwrap();
    for way in ["outbound", "inbound"] {
        assert_eq!(octets(protected, way, "encrypted"), 10 * 528, "{protected}");
        assert_eq!(octets(protected, way, "clear"), 0, "{protected}");
    }
    let app = app.display().to_string();
    assert_eq!(
        (&protected["application"], &protected["begun"], &protected["verdict"]),
        (&app.clone().into(), &"here".into(), &"protect".into()),
        "{protected}"
    );
    // Of a process that is gone nobody may have seen the path.
    assert!(protected["program"].as_str().unwrap().ends_with("app"), "{protected}");
    assert_eq!(protected["line"]["line"], 8, "{protected}");
    assert_eq!(octets(only(&all, 17, NEVER).unwrap(), "outbound", "returned"), 10 * 528);

    // The connection has ended by its own word, the call that was refused at once.
    wait_for("the ends of what has ended", PATIENCE, || {
        let log = json_lines(&log);
        let ends: Vec<_> = log.iter().map(|line| (line["protocol"].as_u64(), line["end"].as_str())).collect();
        let both = [(Some(6), Some("closed")), (Some(6), Some("refused"))];
        if both.iter().all(|end| ends.contains(end)) { Ok(()) } else { Err(format!("{ends:?}")) }
    });
    let written = json_lines(&log);
    let closed = written.iter().find(|line| line["end"] == "closed").unwrap();
    assert_eq!(octets(closed, "outbound", "clear"), sum(&evidence, Side::Alice, 6, CLEAR));
    assert_eq!((&closed["event"], &closed["application"]), (&"flow".into(), &app.into()), "{closed}");
    let refused = written.iter().find(|line| line["end"] == "refused").unwrap();
    assert_eq!(
        (&refused["remote"], &refused["line"]["line"]),
        (&"203.0.113.9:9".into(), &4.into()),
        "{refused}"
    );
    // A peer that nobody asked about is left out.
    let peer = rig.json(Side::Alice, &["flows", "--peer", "203.0.113.0/24", "--ended"]).unwrap();
    assert_eq!((peer["live"].as_array().unwrap().len(), peer["ended"].as_array().unwrap().len()), (0, 1));

    // A daemon that is killed takes no flow with it: the next one writes the ends of those that it finds.
    assert!(json_lines(&log).iter().all(|line| line["end"] != "idle"));
    rig.kill(Side::Alice).unwrap();
    rig.configure(Side::Alice, &format!("[flows]\nlog = {log:?}\nidle = 2\n"));
    rig.start(Side::Alice).unwrap();
    wait_for("the silent ones", PATIENCE, || {
        let log = json_lines(&log);
        let idle: Vec<_> = log.iter().filter(|line| line["end"] == "idle").cloned().collect();
        let of = |protocol, port| only(&idle, protocol, port).cloned();
        Ok::<_, String>((of(17, PROTECTED)?, of(17, NEVER)?, of(58, 0)?))
    });
    let (_, all) = flows(&rig, Side::Alice);
    let protected = only(&all, 17, PROTECTED).unwrap();
    assert_eq!(octets(protected, "outbound", "encrypted"), 10 * 528);
    // People read it too.
    let text = rig.ravelin(Side::Alice, &["flows", "--ended"], "").unwrap();
    assert!(text.contains(":7101") && text.contains("idle") && text.contains("flows in the table"), "{text}");
    let config = rig.config_file(Side::Alice).display().to_string();
    let doctor = Program::new(binary()).args(["doctor", "--config", &config]);
    let text = rig.lab.alice().run_program(doctor, PATIENCE).unwrap().out();
    assert!(text.contains("0 packets found no room"), "{text}");
    let text = rig.ravelin(Side::Bob, &["flows"], "").unwrap_err().to_string();
    assert!(text.contains("flows are not counted"), "{text}");
}
