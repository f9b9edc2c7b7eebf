//! The audit log as a file: what a stranger sends to a daemon is in it, and what its operator does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lab::rig::{Rig, RigOptions};
use lab::{Program, Running, Side, Transport};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tests::{PATIENCE, Scratch, binary, json_lines, program, protect, wait_for};

/// Sends datagrams to the port of ESP (address, SPI in front of each, how many).
const STRANGER: &str = r#"
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(int(sys.argv[3])):
    s.sendto(struct.pack("!II", int(sys.argv[2], 0), n + 1) + bytes(40), (sys.argv[1], 4500))
"#;

#[test]
fn strangers_and_operators_leave_a_trace() {
    let scratch = Scratch::new("audit");
    let file = scratch.join("log/audit.jsonl");
    let options =
        RigOptions { name: "rvl-audit".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    rig.configure(Side::Bob, &format!("[audit]\nfile = {:?}\nper_second = 5\n", file.to_str().unwrap()));
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("sleep"), peer)).unwrap();
    }
    rig.start(Side::Bob).unwrap();
    let stranger = Program::new(program("python3"));
    let to = Side::Bob.v4().to_string();
    let stranger = stranger.args(["-c", STRANGER, &to, "0x2345", "200"]);
    assert!(rig.lab.alice().run_program(stranger, PATIENCE).unwrap().status.success());
    rig.ravelin(Side::Bob, &["debug", "debug", "--for", "1s"], "").unwrap();

    let entries = wait_for("the entries", PATIENCE, || {
        let entries = json_lines(&file);
        let has = |event: &str| entries.iter().any(|entry| entry["event"] == event);
        if has("left_out") && has("log_filter_changed") { Ok(entries) } else { Err(format!("{entries:?}")) }
    });
    let unknown: Vec<_> = entries.iter().filter(|entry| entry["event"] == "unknown_spi").collect();
    for entry in &unknown {
        assert_eq!((&entry["spi"], &entry["direction"]), (&"0x00002345".into(), &"in".into()), "{entry}");
        assert_eq!(entry["src"], Side::Alice.v4().to_string());
        assert_eq!(entry["dst"], Side::Bob.v4().to_string());
    }
    assert_eq!(unknown[0]["sequence"], 1);
    // Every one is in it or counted.
    let left_out: u64 = entries
        .iter()
        .filter(|entry| entry["event"] == "left_out")
        .map(|entry| entry["count"].as_u64().unwrap())
        .sum();
    assert_eq!(unknown.len() as u64 + left_out, 200);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Certificates in `folder`: an authority's, and those of a collector and a gateway that it vouches for.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    let key = KeyPair::generate().unwrap();
    fs::write(folder.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for name in ["collector.example", "gate.example"] {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    for file in fs::read_dir(folder).unwrap() {
        fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// An rsyslog on Bob's host that takes lines from `gate.example` over TLS.
fn rsyslog(rig: &Rig, folder: &Path, file: &Path) -> Running {
    let (at, file) = (folder.display(), file.display());
    let config = folder.join("rsyslog.conf");
    let text = format!(
        r#"global(workDirectory="{at}" defaultNetstreamDriver="gtls" defaultNetstreamDriverCAFile="{at}/ca.pem"
    defaultNetstreamDriverCertFile="{at}/collector.example.pem"
    defaultNetstreamDriverKeyFile="{at}/collector.example.key")
module(load="imtcp" streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="x509/name"
    permittedPeer=["gate.example"])
template(name="raw" type="string" string="%rawmsg%\n")
ruleset(name="audit" queue.type="Direct") {{ action(type="omfile" file="{file}" template="raw") }}
input(type="imtcp" address="127.0.0.1" port="6514" ruleset="audit")
"#
    );
    fs::write(&config, text).unwrap();
    let (config, pid) = (config.display().to_string(), folder.join("rsyslog.pid").display().to_string());
    let program = Program::new("/usr/sbin/rsyslogd").args(["-n", "-i", &pid, "-f", &config]);
    let mut running = rig.lab.bob().spawn(program).unwrap();
    rig.lab.bob().wait_for_listener(Transport::Tcp, 6514, &mut running, PATIENCE).unwrap();
    running
}

/// A daemon whose filter and rights are in force reaches a collector, and its next run goes on with the chain.
#[test]
fn a_collector_hears_of_it_and_of_the_next_run() {
    let scratch = Scratch::new("audit-remote");
    let (folder, spool) = (scratch.join("tls"), scratch.join("spool"));
    fs::create_dir(&folder).unwrap();
    certificates(&folder);
    let options =
        RigOptions { name: "rvl-collect".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    let (at, local) = (folder.display(), scratch.join("audit.jsonl"));
    let lines = format!(
        "[audit]\nfile = {local:?}\n[audit.remote]\nserver = \"127.0.0.1\"\nname = \"collector.example\"\n\
         ca = \"{at}/ca.pem\"\ncertificate = \"{at}/gate.example.pem\"\nkey = \"{at}/gate.example.key\"\n\
         spool = {spool:?}\nheartbeat = 5\n"
    );
    rig.configure(Side::Bob, &lines);
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("sleep"), peer)).unwrap();
    }
    rig.start(Side::Bob).unwrap();
    rig.ravelin(Side::Bob, &["debug", "debug", "--for", "1s"], "").unwrap();
    // The collector comes later than the lines.
    let file = scratch.join("collector.log");
    let collector = rsyslog(&rig, &folder, &file);
    let heard = || fs::read_to_string(&file).unwrap_or_default();
    wait_for("the line at the collector", PATIENCE, || {
        let text = heard();
        if text.contains("log_filter_changed") { Ok(()) } else { Err(text) }
    });
    let status = wait_for("a confirmation", PATIENCE, || {
        // A host without associations is degraded, which is an exit status of 1.
        let text = rig.command(Side::Bob, &["status", "--json"], "").unwrap().out();
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        if status["audit_remote"]["confirmed"].is_string() { Ok(status) } else { Err(status.to_string()) }
    });
    assert_eq!(status["audit_remote"]["lost"], 0, "{status}");
    assert_eq!(status["audit_remote"]["server"], "127.0.0.1:6514");
    rig.stop(Side::Bob).unwrap();
    rig.start(Side::Bob).unwrap();
    rig.ravelin(Side::Bob, &["debug", "info"], "").unwrap();
    rig.stop(Side::Bob).unwrap();
    let text = wait_for("the end of the second run", PATIENCE, || {
        let text = heard();
        if text.matches("remote_log_stopped").count() == 2 { Ok(text) } else { Err(text) }
    });
    assert_eq!(text.matches("remote_log_started").count(), 2, "{text}");
    collector.kill().unwrap();
    let verifier = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/verify_audit.py");
    let checked = Command::new("python3").arg(verifier).arg("--from-start").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
