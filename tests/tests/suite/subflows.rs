//! MPTCP: whose a connection is holds for all its subflows, also for those on which a worker of the kernel sends first
//! (docs/design/0028). Needs root.

use netio::lab::{CaptureOptions, Program, Running, Side};
use ravelin::rig::{Rig, RigOptions};
use tests::sites::sh;
use tests::{PATIENCE, binary, copy_of_python, program};

const PORT: u16 = 7300;
const SECRET: &[u8] = b"SECRET of the protected program";

/// Listens for MPTCP at an address and port, and starts a program with the connection as its standard input.
const ACTIVATOR: &str = r#"
import socket, subprocess, sys, time
address, port, *command = sys.argv[1:]
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((address, int(port)))
listener.listen()
print("listens", flush=True)
connection, _ = listener.accept()
time.sleep(1)
subprocess.run(command, stdin=connection)
"#;

/// Reads a question, answers with a secret for some seconds, and says what else it has read.
const SERVICE: &str = r#"
import socket, sys
s = socket.socket(fileno=0)
s.settimeout(8)
print("asked", s.recv(50), flush=True)
s.send(sys.argv[1].encode() * 20)
try:
    print("read", s.recv(50), flush=True)
except OSError as error:
    print("nothing", error, flush=True)
"#;

/// Connects, asks, and says `got` and what comes back; then says something else.
const CLIENT: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.settimeout(10)
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"hello")
try:
    print("got", s.recv(60), flush=True)
except OSError as error:
    print("nothing", error, flush=True)
s.send(b"in clear")
"#;

fn question(rig: &Rig, service: &std::path::Path, second: &str) -> (String, Running) {
    let python = program("python3");
    let address = Side::Alice.v4().to_string();
    let (port, word) = (PORT.to_string(), String::from_utf8(SECRET.to_vec()).unwrap());
    let service = service.display().to_string();
    let args = ["-c", ACTIVATOR, &address, &port, &service, "-c", SERVICE, &word];
    let activator = rig.lab.alice().spawn(Program::new(&python).args(args)).unwrap();
    activator.wait_for_output("listens", PATIENCE).unwrap();
    let add = format!("ip mptcp endpoint flush; ip mptcp endpoint add {second} dev eth0 subflow");
    sh(rig.lab.bob().netns(), &add).unwrap();
    let client = Program::new(&python).args(["-c", CLIENT, &address, &port]);
    let done = rig.lab.bob().run_program(client, PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    (done.out(), activator)
}

#[test]
fn what_a_worker_of_the_kernel_sends_first_on_a_subflow_is_no_way_out() {
    let options =
        RigOptions { name: "rvl-subflows".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let service = copy_of_python(rig.folder(), "service");
    let network = "network 198.51.100.0/24";
    let policy =
        |class: &str| format!("application {:?} {{ {network} {class} }}\n", service.display().to_string());
    let second = "198.51.100.77";
    sh(rig.lab.bob().netns(), &format!("ip addr add {second}/24 dev eth0")).unwrap();
    for side in Side::BOTH {
        sh(rig.lab.host(side).netns(), "ip mptcp limits set subflow 2 add_addr_accepted 2").unwrap();
    }
    rig.set_policy(Side::Alice, &policy("trusted;")).unwrap();
    rig.start(Side::Alice).unwrap();
    // The control: where it may leave in clear, it does, and can be seen.
    let wire = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: vec![SECRET.to_vec()] }).unwrap();
    let (client, activator) = question(&rig, &service, second);
    assert!(client.contains("got") && client.contains("SECRET"), "{client}");
    activator.wait_for_output("read", PATIENCE).unwrap();
    assert!(wire.finish().unwrap().contains_bytes(SECRET));
    drop(activator);
    rig.set_policy(Side::Alice, &policy("protected P; protection P { encryption mandatory; }")).unwrap();
    rig.reload(Side::Alice).unwrap();
    let wire = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: vec![SECRET.to_vec()] }).unwrap();
    let (client, activator) = question(&rig, &service, second);
    assert!(client.contains("nothing"), "{client}");
    activator.wait_for_output("nothing", PATIENCE).unwrap();
    assert!(activator.output().contains("asked b'hello'"), "{}", activator.output());
    assert!(!wire.finish().unwrap().contains_bytes(SECRET));
}
