//! Flows that policy wants scrubbed, end to end (docs/scrubbed-flows.md): a peer that proved who it is sends a copy with other octets, and
//! behind the association there is one reading, also through an upgrade of the daemon.

use std::path::Path;

use lab::rig::{Rig, RigOptions};
use lab::{Program, Side};
use tests::inside::Inside;
use tests::{PATIENCE, associate, binary, copy_of_python, protect, wait_until};

const PORT: u16 = 7090;

/// Takes one connection, prints the ten octets that it gets.
const SERVER: &str = r#"
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", int(sys.argv[1])))
s.listen(4)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    got = b""
    while len(got) < 10:
        more = c.recv(10 - len(got))
        if not more:
            break
        got += more
    print("got", got.decode(), flush=True)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()
"#;

/// Opens a connection and sends segments of it past its own kernel: octets behind a hole, a copy of them that differs, and what the hole
/// wants. Between them it waits for files to appear. Arguments: own address, peer, port, two files.
const CLIENT: &str = r#"
import os, socket, struct, sys, time
own, peer, port, second, third = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
open("/proc/sys/net/ipv4/tcp_timestamps", "w").write("0")
s = socket.socket()
s.connect((peer, port))
repair, queue, number = 19, 20, 21
s.setsockopt(socket.IPPROTO_TCP, repair, 1)
s.setsockopt(socket.IPPROTO_TCP, queue, 2)
seq = s.getsockopt(socket.IPPROTO_TCP, number) & 0xffffffff
s.setsockopt(socket.IPPROTO_TCP, queue, 1)
ack = s.getsockopt(socket.IPPROTO_TCP, number) & 0xffffffff
s.setsockopt(socket.IPPROTO_TCP, repair, -1)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
def send(at, data):
    ends = socket.inet_aton(own) + socket.inet_aton(peer)
    tcp = struct.pack("!HHIIBBHHH", s.getsockname()[1], port, (seq + at) & 0xffffffff, ack, 5 << 4, 0x18, 500, 0, 0) + data
    whole = ends + struct.pack("!BBH", 0, 6, len(tcp)) + tcp + b"\0" * (len(tcp) % 2)
    sum = 0
    for n in struct.unpack("!%dH" % (len(whole) // 2), whole):
        sum += n
    while sum >> 16:
        sum = (sum & 0xffff) + (sum >> 16)
    raw.sendto(tcp[:16] + struct.pack("!H", ~sum & 0xffff) + tcp[18:], (peer, 0))
def wait(file):
    while not os.path.exists(file):
        time.sleep(0.01)
send(5, b"world")
print("first", flush=True)
wait(second)
send(5, b"WORLD")
print("second", flush=True)
wait(third)
send(0, b"hello")
print("third", flush=True)
time.sleep(60)
"#;

fn scrubbing(program: &Path, peer: Side) -> String {
    protect(program, peer).replace("encryption mandatory;", "encryption mandatory scrub standard;")
}

/// What the server's host was given of the stream, segment by segment.
fn heard(inside: &Inside) -> Vec<String> {
    let seen = inside.look();
    let data = seen.iter().filter(|packet| !packet.out).filter_map(|packet| {
        let segment = packet.tcp().filter(|segment| segment.has_port(PORT) && !segment.is_empty())?;
        Some(String::from_utf8_lossy(segment.0.payload()).into_owned())
    });
    data.collect()
}

/// One connection of which a copy differs; what bob's host was given, and what the server printed.
fn play(rig: &mut Rig, python: &Path, name: &str, between: impl FnOnce(&mut Rig)) -> Vec<String> {
    let inside = Inside::listen(rig, Side::Bob).unwrap();
    let files = ["second", "third"].map(|step| rig.folder().join(format!("{name}-{step}")));
    let addresses = [Side::Alice.v4().to_string(), Side::Bob.v4().to_string()];
    let client = Program::new(python).args(["-c", CLIENT]).args(addresses).arg(PORT.to_string()).args(&files);
    let client = rig.lab.alice().spawn(client).unwrap();
    let arrived = |count: usize| {
        wait_until("segments behind the association", PATIENCE, || heard(&inside).len() >= count);
    };
    client.wait_for_output("first", PATIENCE).unwrap();
    arrived(1);
    between(rig);
    for (file, word, count) in [(&files[0], "second", 2), (&files[1], "third", 3)] {
        std::fs::write(file, "").unwrap();
        client.wait_for_output(word, PATIENCE).unwrap();
        arrived(count);
    }
    heard(&inside)
}

#[test]
fn a_copy_from_a_peer_that_differs_is_what_the_first_was() {
    let options =
        RigOptions { name: "rvl-scrubbed".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    let client = copy_of_python(rig.folder(), "client");
    let server = copy_of_python(rig.folder(), "server");
    rig.set_policy(Side::Alice, &protect(&client, Side::Bob)).unwrap();
    rig.set_policy(Side::Bob, &scrubbing(&server, Side::Alice)).unwrap();
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let serving = Program::new(&server).args(["-c", SERVER, &PORT.to_string()]);
    let serving = rig.lab.bob().spawn(serving).unwrap();
    serving.wait_for_output("ready", PATIENCE).unwrap();

    let given = play(&mut rig, &client, "scrubbed", |_| {});
    assert_eq!(given, ["world", "world", "hello"]);
    serving.wait_for_output("got helloworld", PATIENCE).unwrap();
    let status = rig.json(Side::Bob, &["scrubbed", "status"]).unwrap();
    assert_eq!(status["profiles"][0]["profile"], "standard", "{status}");
    assert!(status["profiles"][0]["packets"].as_u64() >= Some(6), "{status}");
    let rules = rig.json(Side::Bob, &["scrubbed", "rules"]).unwrap();
    let rewritten = |rules: &serde_json::Value| {
        rules["rules"]
            .as_array()
            .unwrap()
            .iter()
            .find(|rule| rule["id"] == "Q.8")
            .map(|r| r["changed"].clone())
    };
    assert_eq!(rewritten(&rules), Some(1.into()), "{rules}");
    let told = rig.ravelin(Side::Bob, &["scrubbed", "explain", &Side::Alice.v4().to_string()], "").unwrap();
    assert!(told.contains("Q.8") && told.contains("tcp_first_wins"), "{told}");
    let flow = format!("{}:40000/tcp", Side::Alice.v4());
    let said =
        rig.ravelin(Side::Bob, &["explain", "--app", server.to_str().unwrap(), "--to", &flow], "").unwrap();
    assert!(said.contains("scrub standard"), "{said}");

    // A new daemon in between knows the octets behind the hole.
    let given = play(&mut rig, &client, "upgraded", |rig| {
        let old = rig.release(Side::Bob);
        let new = rig.launch(Side::Bob, &["--take-over"]).unwrap();
        rig.adopt(Side::Bob, new).unwrap();
        drop(old);
    });
    assert_eq!(given, ["world", "world", "hello"]);
    serving.wait_for_output("got helloworld", PATIENCE).unwrap();
    let rules = rig.json(Side::Bob, &["scrubbed", "rules"]).unwrap();
    assert_eq!(rewritten(&rules), Some(2.into()), "{rules}");

    // The control: without the word in the policy it is the copy that arrives.
    rig.set_policy(Side::Bob, &protect(&server, Side::Alice)).unwrap();
    rig.reload(Side::Bob).unwrap();
    let given = play(&mut rig, &client, "plain", |_| {});
    assert_eq!(given, ["world", "WORLD", "hello"]);
}
