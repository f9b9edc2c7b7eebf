//! Rules that name users, in host mode: programs without a policy, of two users, to one peer.

use lab::rig::{Pair, Rig, RigOptions};
use lab::{CaptureOptions, Evidence, Program, Running, Side, Transport};
use tests::{PATIENCE, binary, program, programs, protect};

/// Served by user 65534 of bob's, who has rules too.
const OWN: u16 = 7040;
/// Served by root, whom no rule names.
const OPEN: u16 = 7041;

/// Sends three datagrams (address, port) and prints how many were answered.
const KNOCK: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)
heard = 0
for n in range(3):
    try:
        s.sendto(b"knock", (sys.argv[1], int(sys.argv[2])))
        heard += s.recv(100) == b"knock"
    except OSError:
        pass
print("heard", heard, "of 3")
"#;

/// An unmodified program of this user.
fn by(user: u32, script: &str, args: &[&str]) -> Program {
    let user = user.to_string();
    let python = program("python3");
    Program::new(program("setpriv"))
        .args(["--reuid", &user, "--regid", &user, "--clear-groups", python.to_str().unwrap(), "-c", script])
        .args(args)
}

/// The program, whether it managed or not; what it printed.
fn talk(rig: &Rig, user: u32, script: &str, port: u16) -> String {
    let peer = Side::Bob.v4().to_string();
    let done =
        rig.lab.alice().run_program(by(user, script, &[&peer, &port.to_string()]), PATIENCE * 3).unwrap();
    format!("{} {}", done.out(), done.err())
}

fn serve(rig: &Rig, user: u32, port: u16) -> [Running; 2] {
    [(programs::TCP_SERVER, Transport::Tcp), (programs::UDP_ECHO, Transport::Udp)].map(
        |(script, transport)| {
            let server = by(user, script, &[&port.to_string()]);
            let mut server = rig.lab.bob().spawn(server).unwrap();
            rig.lab.bob().wait_for_listener(transport, port, &mut server, PATIENCE).unwrap();
            server
        },
    )
}

fn add(rig: &Rig, side: Side, name: &str, selector: &str, action: &str) {
    let args =
        ["spd", "add", "--name", name, "--direction", "out", "--selector", selector, "--action", action];
    rig.ravelin(side, &args, "").unwrap();
}

/// Packets that a rule decided about.
fn decided(rig: &Rig, side: Side, name: &str) -> u64 {
    let list = rig.json(side, &["spd", "list"]).unwrap();
    let rule = list["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == name).cloned();
    rule.unwrap()["outbound"]["packets"].as_u64().unwrap()
}

fn capture(rig: &Rig, during: impl FnOnce()) -> Evidence {
    let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    during();
    capture.finish().unwrap()
}

#[test]
fn each_user_has_what_the_rules_say_on_the_same_way() {
    let options =
        RigOptions { name: "rvl-users".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        // Of a program that nobody runs here.
        rig.set_policy(side, &protect(&program("sleep"), peer)).unwrap();
    }
    rig.start_both().unwrap();
    rig.associate(&Pair::default()).unwrap();
    let _own = serve(&rig, 65534, OWN);
    let _open = serve(&rig, 0, OPEN);

    // No rule: everybody is clear.
    let wire = capture(&rig, || {
        assert!(talk(&rig, 65534, KNOCK, OWN).contains("heard 3 of 3"));
    });
    assert!(wire.clear >= 6, "{}", wire.clear);

    for side in Side::BOTH {
        add(&rig, side, "own", "uid 65534", "protect");
    }
    add(&rig, Side::Alice, "none", "uid 1000-1009", "discard");
    let wire = capture(&rig, || {
        // One is encrypted, from the first packet on to the last, answers and what follows a connection included.
        for (script, want) in [(programs::UDP_CLIENT, "echoed 18 of 18"), (programs::TCP_CLIENT, "done")] {
            let said = talk(&rig, 65534, script, OWN);
            assert!(said.contains(want), "{said}");
        }
        // The other is refused, to the same peer and port.
        for (user, port) in [(1000, OWN), (1009, OPEN)] {
            let said = talk(&rig, user, KNOCK, port);
            assert!(said.contains("heard 0 of 3"), "{said}");
        }
    });
    assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
    assert!(wire.esp > 50, "{}", wire.esp);
    assert!(decided(&rig, Side::Alice, "own") > 20 && decided(&rig, Side::Bob, "own") > 20);
    let refused = decided(&rig, Side::Alice, "none");
    assert!(refused >= 6, "{refused}");

    // A user whom no rule names is not touched.
    let wire = capture(&rig, || {
        assert!(talk(&rig, 1010, KNOCK, OPEN).contains("heard 3 of 3"));
    });
    assert!(wire.clear >= 6, "{}", wire.clear);
    assert_eq!(decided(&rig, Side::Alice, "none"), refused);

    // Bypassed: through the engine, and clear.
    rig.ravelin(Side::Alice, &["spd", "del", "none"], "").unwrap();
    add(&rig, Side::Alice, "pass", "uid 1000-1009", "bypass");
    let wire = capture(&rig, || {
        for (script, want) in [(programs::UDP_CLIENT, "echoed 18 of 18"), (programs::TCP_CLIENT, "done")] {
            let said = talk(&rig, 1000, script, OPEN);
            assert!(said.contains(want), "{said}");
        }
    });
    assert!(wire.clear >= 6, "{}", wire.clear);
    assert!(decided(&rig, Side::Alice, "pass") > 20);

    // What a rule could never see is refused.
    let args = ["spd", "add", "--selector", "uid 1000", "--action", "discard"];
    let done = rig.command(Side::Alice, &args, "").unwrap();
    assert!(!done.status.success() && done.err().contains("--direction out"), "{}", done.err());

    // Without rules users are nobody's matter again; with a dead daemon those of rules do not leave.
    rig.ravelin(Side::Alice, &["spd", "flush"], "").unwrap();
    assert!(talk(&rig, 1000, KNOCK, OPEN).contains("heard 3 of 3"));
    add(&rig, Side::Alice, "own", "uid 65534", "protect");
    rig.kill(Side::Alice).unwrap();
    let wire = capture(&rig, || {
        assert!(talk(&rig, 65534, KNOCK, OPEN).contains("heard 0 of 3"));
    });
    assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
}
