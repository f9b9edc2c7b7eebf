//! A program that is only watched, end to end (docs/design/0018): in clear on the wire, told as what it would be, loudly; and a policy
//! written from what was seen.

use std::path::Path;

use lab::rig::{Rig, RigOptions};
use lab::{CaptureOptions, Program, Running, Side};
use serde_json::Value;
use tests::{PATIENCE, associate, binary, copy_of_python, wait_for};

/// Watched: would be encrypted.
const WATCHED: u16 = 7201;

const DATAGRAMS: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
for n in range(10):
    s.sendto(bytes(500), (sys.argv[1], int(sys.argv[2])))
    assert len(s.recv(1000)) == 500
r = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    r.connect(('203.0.113.9', 9))
except PermissionError:
    print('refused')
except OSError:
    pass  # there is no route to it
print('done')
"#;

fn block(app: &Path, peer: Side, observe: &str) -> String {
    format!(
        "application \"{}\" {{\n  {observe}\n  network {} protected P;\n  network 203.0.113.0/24 untrusted;\n  protection P {{\n    \
         localport=any remoteport=any encryption mandatory;\n  }}\n}}\n",
        app.display(),
        peer.v4(),
    )
}

fn echo(rig: &Rig, app: &Path) -> Running {
    let server = Program::new(app).args(["-c", tests::programs::UDP_ECHO, &WATCHED.to_string()]);
    let server = rig.lab.bob().spawn(server).unwrap();
    server.wait_for_output("ready", PATIENCE).unwrap();
    server
}

fn talk(rig: &Rig, app: &Path) -> String {
    let args = ["-c", DATAGRAMS, &Side::Bob.v4().to_string(), &WATCHED.to_string()];
    let done = rig.lab.alice().run_program(Program::new(app).args(args), PATIENCE).unwrap();
    format!("{}{}", done.out(), done.err())
}

/// Octets in clear to or from the watched port.
fn in_clear(rig: &Rig, work: impl FnOnce()) -> u64 {
    let wire = rig.lab.capture(CaptureOptions::default()).unwrap();
    work();
    let evidence = wire.finish().unwrap();
    assert!(evidence.is_complete() && evidence.not_kept == 0);
    let seen = evidence.clear_packets(|flow| flow.local_port == WATCHED || flow.remote_port == WATCHED);
    seen.iter().map(|seen| u64::from(u16::from_be_bytes([seen.packet()[2], seen.packet()[3]]))).sum()
}

fn status(rig: &Rig) -> Value {
    // Degraded is exit status 1.
    let out = rig.command(Side::Alice, &["status", "--json"], "").unwrap().out();
    serde_json::from_str(&out).unwrap()
}

#[test]
fn what_is_watched_is_in_clear_is_said_loudly_and_becomes_a_policy() {
    let options =
        RigOptions { name: "rvl-observe".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let (app, server) = (copy_of_python(rig.folder(), "app"), copy_of_python(rig.folder(), "server"));
    rig.configure(Side::Alice, "[flows]\nidle = 3600\n");
    rig.set_policy(Side::Alice, &block(&app, Side::Bob, "observe;")).unwrap();
    rig.set_policy(Side::Bob, "application unused { network 192.0.2.0/24 trusted; }\n").unwrap();
    rig.start(Side::Alice).unwrap();
    rig.start(Side::Bob).unwrap();
    let _server = echo(&rig, &server);

    let mut said = String::new();
    let clear = in_clear(&rig, || said = talk(&rig, &app));
    assert_eq!((said.trim(), clear), ("done", 2 * 10 * 528), "in clear, and nothing was refused");
    let stats = rig.json(Side::Alice, &["stats", "--per-app"]).unwrap();
    let own = &stats["applications"][0];
    assert_eq!(own["outbound"]["clear"]["bytes"], 10 * 528, "{own}");
    assert_eq!(own["outbound"]["would_encrypt"]["bytes"], 10 * 528, "{own}");
    assert_eq!(own["inbound"]["would_refuse"]["bytes"], 10 * 528, "{own}");
    assert_eq!(own["would_be_refused_because"]["connect_untrusted"], 1, "{own}");

    // Loudly.
    let status = status(&rig);
    let problem = &status["problems"][0];
    assert_eq!((&status["state"], &problem["code"]), (&"degraded".into(), &"observed".into()), "{status}");
    assert!(
        problem["message"].as_str().unwrap().contains("is observed: nothing of it is protected"),
        "{problem}"
    );
    let config = rig.config_file(Side::Alice).display().to_string();
    let doctor = Program::new(binary()).args(["doctor", "--config", &config]);
    let doctor = rig.lab.alice().run_program(doctor, PATIENCE).unwrap().out();
    assert!(doctor.contains("is observed: nothing of it is protected"), "{doctor}");
    let to = format!("{}:{WATCHED}/udp", Side::Bob.v4());
    let text =
        rig.ravelin(Side::Alice, &["explain", "--app", &app.display().to_string(), "--to", &to], "").unwrap();
    assert!(text.contains("would be protected, encryption mandatory (observed)"), "{text}");
    // By its bare name it could be another file, of which "no block names it" would be true.
    let name = app.file_name().unwrap().to_str().unwrap();
    let bare =
        rig.ravelin(Side::Alice, &["explain", "--app", name, "--to", &to], "").unwrap_err().to_string();
    assert!(bare.contains(&format!("ask with --app {}", app.display())), "{bare}");
    let drops = wait_for("the call that would have been refused", PATIENCE, || {
        let drops = rig.json(Side::Alice, &["explain", "--drop", "all"]).unwrap();
        if drops["drops"][0]["observed"] == true { Ok(drops) } else { Err(drops.to_string()) }
    });
    assert_eq!(drops["drops"][0]["reason"], "connect_untrusted", "{drops}");

    // The policy that is written from it, put in force on both sides, protects what was seen.
    let written = rig
        .ravelin(
            Side::Alice,
            &["policy", "suggest", "--from-observed", "--instance", &rig.instance(Side::Alice)],
            "",
        )
        .unwrap();
    assert!(written.contains(&app.display().to_string()) && written.contains("encryption"), "{written}");
    rig.set_policy(Side::Alice, &written).unwrap();
    rig.reload(Side::Alice).unwrap();
    rig.set_policy(Side::Bob, &block(&server, Side::Alice, "")).unwrap();
    rig.reload(Side::Bob).unwrap();
    associate(&rig).unwrap();
    let mut said = String::new();
    let clear = in_clear(&rig, || said = talk(&rig, &app));
    assert_eq!((said.trim(), clear), ("refused\ndone", 0), "{written}");
    let stats = rig.json(Side::Alice, &["stats", "--per-app"]).unwrap();
    assert_eq!(stats["applications"][0]["outbound"]["encrypted"]["bytes"], 10 * 528, "{stats}\n{written}");
}
