//! The socket API end to end (docs/socket-api.md): two daemons whose policies leave a program's traffic clear, and the
//! program, or who starts it, asks for protection on the socket itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use lab::rig::{Rig, RigOptions};
use lab::{Capture, CaptureOptions, Evidence, Program, Running, Side, Transport};
use tests::sites::sh;
use tests::{PATIENCE, associate, binary, program, programs, protect, ssh, wait_until};

const PORT: u16 = 7030;
const SSH: u16 = 7022;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Two hosts with daemons. The policies name one program each, which is not what the tests run unless they say so.
fn build(name: &str, alice: &Path, bob: &Path) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    rig.set_policy(Side::Alice, &protect(alice, Side::Bob)).unwrap();
    rig.set_policy(Side::Bob, &protect(bob, Side::Alice)).unwrap();
    rig.start_both().unwrap();
    rig
}

/// `examples/require.c`, built as its first line says.
fn require_c(rig: &Rig) -> PathBuf {
    let out = rig.folder().join("require");
    let status = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-D_DEFAULT_SOURCE", "-I"])
        .arg(root().join("include"))
        .arg(root().join("examples/require.c"))
        .arg("-o")
        .arg(&out)
        .status();
    assert!(status.unwrap().success());
    out
}

fn require_py(args: &[&str]) -> Program {
    Program::new(program("python3")).arg(root().join("examples/require.py")).args(args)
}

fn serve(rig: &Rig, server: Program) -> Running {
    let server = rig.lab.bob().spawn(server).unwrap();
    server.wait_for_output("ready", PATIENCE).unwrap();
    server
}

fn watch(rig: &Rig) -> Capture {
    rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap()
}

/// Clear packets of these ports.
fn clear(wire: &Evidence, ports: &[u16]) -> usize {
    wire.clear_packets(|flow| [flow.local_port, flow.remote_port].iter().any(|port| ports.contains(port)))
        .len()
}

#[test]
fn a_program_that_asks_is_protected_where_policy_leaves_it_clear() {
    let rig = build("rvl-require", Path::new("/bin/true"), Path::new("/bin/true"));
    let require = require_c(&rig);
    let port = PORT.to_string();
    let connect = |address: String| {
        rig.lab.alice().run_program(Program::new(&require).args([address, port.clone()]), PATIENCE).unwrap()
    };
    // The control: the same hosts, a server and a client that ask for nothing, in clear.
    let plain_port = (PORT + 1).to_string();
    let plain_server = Program::new(program("python3")).args(["-c", programs::TCP_SERVER, &plain_port]);
    let _plain = serve(&rig, plain_server);
    let capture = watch(&rig);
    let client = Program::new(program("python3")).args(["-c", programs::TCP_CLIENT]);
    let client = client.args([Side::Bob.v4().to_string(), plain_port]);
    let plain = rig.lab.alice().run_program(client, PATIENCE).unwrap();
    assert!(plain.out().ends_with("done\n"), "{} {}", plain.out(), plain.err());
    // The server asks too: a listener, which hands it on.
    let _server = serve(&rig, require_py(&["serve", &port]));
    // No association and no key manager: no connection, and nothing in clear.
    let alone = connect(Side::Bob.v4().to_string());
    assert!(
        !alone.status.success() && alone.err().starts_with("connect: "),
        "{}{}",
        alone.out(),
        alone.err()
    );
    assert!(rig.json(Side::Alice, &["counters"]).unwrap().to_string().contains("no_sa"));
    let wire = capture.finish().unwrap();
    assert_eq!((clear(&wire, &[PORT]), wire.esp), (0, 0));
    assert!(clear(&wire, &[PORT + 1]) > 20, "the control was clear");

    associate(&rig).unwrap();
    let capture = watch(&rig);
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let answered = connect(address);
        assert!(answered.status.success(), "{}", answered.err());
        let line = answered.out();
        assert!(line.starts_with("hello: required 3, in force 3, "), "{line}");
        // The SYN-ACK, and the answer with or without an acknowledgement of its own.
        let proven: u32 =
            line.split("in force 3, ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((2..=4).contains(&proven), "{line}");
    }
    let wire = capture.finish().unwrap();
    assert_eq!(clear(&wire, &[PORT]), 0, "not even the SYN");
    assert!(wire.esp > 10, "{}", wire.esp);

    // What a host gives by default; and a client that asks for nothing is not answered by a server that does.
    let told = rig.lab.alice().run_program(require_py(&["defaults"]), PATIENCE).unwrap();
    assert!(told.out().contains("'supported': 3, 'without_policy': 0, 'active': 1"), "{}", told.out());
    let refused = "import socket, sys\nsocket.create_connection((sys.argv[1], int(sys.argv[2])), 1)";
    let refused = Program::new(program("python3")).args(["-c", refused, &Side::Bob.v4().to_string(), &port]);
    let refused = rig.lab.alice().run_program(refused, PATIENCE).unwrap();
    assert!(refused.err().contains("timed out"), "{}", refused.err());
}

#[test]
fn the_first_packet_after_a_request_waits_for_the_key_manager() {
    let rig = build("rvl-reqhold", Path::new("/bin/true"), Path::new("/bin/true"));
    std::fs::write(rig.folder().join("secret"), "a secret that both hosts share").unwrap();
    let managers = Side::BOTH.map(|side| {
        let manager = Program::new(program("python3"))
            .arg(root().join("examples/keymanager.py"))
            .arg("--control")
            .arg(format!("/run/ravelin/{}/control.sock", rig.instance(side)))
            .arg("--psk-file")
            .arg(rig.folder().join("secret"))
            .args(["--listen", &side.v4().to_string()]);
        let manager = rig.lab.host(side).spawn(manager).unwrap();
        manager.wait_for_output("ready", PATIENCE).unwrap();
        manager
    });
    let _server = serve(&rig, require_py(&["serve", &PORT.to_string()]));
    let capture = watch(&rig);
    let client = require_py(&["connect", &Side::Bob.v4().to_string(), &PORT.to_string()]);
    let answered = rig.lab.alice().run_program(client, PATIENCE).unwrap();
    assert!(answered.out().starts_with("hello {"), "{} {}", answered.err(), managers[0].output());
    assert!(answered.out().contains("'required': 3"), "{}", answered.out());
    let wire = capture.finish().unwrap();
    assert_eq!(clear(&wire, &[PORT]), 0);
    assert!(wire.esp > 4, "{}", wire.esp);
}

/// Asks for less than policy gives, on a connection that policy encrypts.
const ASK_LESS: &str = r#"
import socket, struct, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 8)
for services in (0, 1, 3):
    try:
        s.setsockopt(0x52564C, 1, struct.pack("=I", services))
        print(services, "ok")
    except OSError as error:
        print(services, error.errno)
fields = struct.unpack("=8IQ", s.getsockopt(0x52564C, 2, 40))
print("required", fields[2], "demanded", fields[3], "class", fields[4], "application", fields[1] > 0)
"#;

#[test]
fn less_than_policy_is_refused() {
    let rig_name = "rvl-reqless";
    let app = std::env::temp_dir().join(format!("{rig_name}-app"));
    std::fs::copy(program("python3"), &app).unwrap();
    let rig = build(rig_name, &app, &app);
    associate(&rig).unwrap();
    let server = Program::new(&app).args(["-c", programs::TCP_SERVER, &PORT.to_string()]);
    let _server = serve(&rig, server);
    let client = Program::new(&app).args(["-c", ASK_LESS, &Side::Bob.v4().to_string(), &PORT.to_string()]);
    let asked = rig.lab.alice().run_program(client, PATIENCE).unwrap();
    let want = format!(
        "0 {eperm}\n1 {eperm}\n3 ok\nrequired 3 demanded 3 class 3 application True\n",
        eperm = libc::EPERM
    );
    assert_eq!(asked.out(), want, "{}", asked.err());
    std::fs::remove_file(&app).unwrap();
}

/// What inetd does, and one line more: asks on the listening socket, then runs a program for each connection.
const LAUNCHER: &str = r#"
import socket, struct, subprocess, sys
s = socket.create_server(("", int(sys.argv[1])))
s.setsockopt(0x52564C, 1, struct.pack("=I", 2))
print("ready", flush=True)
while True:
    c, _ = s.accept()
    subprocess.Popen(sys.argv[2:], stdin=c, stdout=c).wait()
    c.close()
"#;

#[test]
fn an_unmodified_sshd_under_the_option_and_without_it() {
    let client = program("ssh");
    // Alice's policy names ssh; bob's names nothing that matters here.
    let rig = build("rvl-reqssh", &client, Path::new("/bin/true"));
    associate(&rig).unwrap();
    let (key, config) = ssh::files(rig.folder());
    let sshd = program("sshd");
    let launcher = Program::new(program("python3")).args(["-c", LAUNCHER, &SSH.to_string()]);
    let launcher = launcher.arg(&sshd).args(["-i", "-e", "-f"]).arg(&config);
    let launcher = serve(&rig, launcher);
    let capture = watch(&rig);
    let session = rig.lab.alice().run_program(ssh::session(&client, &key, SSH), PATIENCE).unwrap();
    let log = launcher.output();
    assert!(session.status.success(), "{} {log}", session.err());
    assert!(session.out().starts_with("through\n300000\n") && session.out().len() > 300_000, "{log}");
    let wire = capture.finish().unwrap();
    assert_eq!(clear(&wire, &[SSH]), 0);
    assert!(wire.esp > 40, "{}", wire.esp);
    assert!(!log.contains("setsockopt"), "{log}");
    // The programs have ended; the kernel may still end their connection, with ESP.
    let open = format!("ss -HOtn exclude time-wait exclude listening sport = :{SSH} or dport = :{SSH}");
    wait_until("the end of the first session", PATIENCE, || {
        Side::BOTH.iter().all(|&side| sh(rig.lab.host(side).netns(), &open).unwrap().is_empty())
    });

    // The same sshd without the option, for a client without policy: in clear, and none of its many options refused.
    let other = rig.folder().join("other-ssh");
    std::fs::copy(&client, &other).unwrap();
    let plain = Program::new(&sshd).args(["-D", "-e", "-p", &(SSH + 1).to_string(), "-f"]).arg(&config);
    let mut plain = rig.lab.bob().spawn(plain).unwrap();
    rig.lab.bob().wait_for_listener(Transport::Tcp, SSH + 1, &mut plain, PATIENCE).unwrap();
    let capture = watch(&rig);
    let session = rig.lab.alice().run_program(ssh::session(&other, &key, SSH + 1), PATIENCE).unwrap();
    // The last that it says of a session.
    plain.wait_for_output("Disconnected from ", PATIENCE).unwrap();
    let log = plain.output();
    assert!(session.status.success(), "{} {log}", session.err());
    assert!(session.out().starts_with("through\n300000\n"), "{log}");
    assert!(!session.err().contains("setsockopt") && !log.contains("setsockopt"), "{} {log}", session.err());
    let wire = capture.finish().unwrap();
    assert!(clear(&wire, &[SSH + 1]) > 40);
    // The session itself is 300,000 octets and more. The end of the first one may still be told, and paths are probed.
    let sealed: Vec<String> =
        wire.esp_packets().iter().map(|seen| format!("{:?} {seen}", seen.time)).collect();
    assert!(wire.esp_octets < 30_000, "{} octets: {sealed:#?}", wire.esp_octets);
}
