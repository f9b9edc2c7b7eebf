//! `ravelin boot` (docs/design/0016): the last policy is in force before the network is up and before a daemon runs.

use lab::{Program, Side};
use tests::kinds::{Over, PORT, Stage};
use tests::sites::sh;
use tests::{PATIENCE, wait_until};

/// Sends a datagram to bob, whatever becomes of it; a frame of the same (arguments: address, port).
const SENDER: &str = r#"
import socket, sys
to = (sys.argv[1], int(sys.argv[2]))
kind = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
for _ in range(3):
    s = socket.socket(kind, socket.SOCK_DGRAM)
    try:
        s.sendto(b"who hears this", to)
        print("sent")
    except OSError as error:
        print(error.errno)
"#;

/// What the calls answered, on alice.
fn sends(stage: &Stage, python: &std::path::Path, over: Over) -> Vec<String> {
    let (to, port) = (over.address(Side::Bob).to_string(), PORT.to_string());
    let program = Program::new(python).args(["-c", SENDER, &to, &port]);
    let done = stage.rig.lab.alice().run_program(program, PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    done.out().lines().map(str::to_owned).collect()
}

/// Datagrams to bob in clear.
fn clear(stage: &Stage) -> usize {
    let is_ours = |flow: &wire::Flow| flow.protocol == 17 && flow.remote_port == PORT;
    stage
        .wire
        .look(|wire| {
            assert!(wire.is_complete());
            wire.all_clear().iter().filter(|seen| seen.flow.as_ref().is_some_and(is_ours)).count()
        })
        .unwrap()
}

#[test]
fn the_last_policy_holds_before_a_daemon_runs() {
    let mut stage = Stage::without_daemons("rvl-boot").unwrap();
    let (app, plain) = (stage.app.clone(), stage.plain.clone());
    let over = Over::V4;
    // The control: in clear as long as nobody says otherwise.
    assert_eq!(sends(&stage, &app, over), ["sent"; 3]);
    wait_until("the control", PATIENCE, || clear(&stage) >= 3);

    // A day with a daemon, then power goes: nothing of it is left but files.
    stage.rig.start(Side::Alice).unwrap();
    stage.rig.stop(Side::Alice).unwrap();
    stage.rig.ravelin(Side::Alice, &["detach", "--yes"], "").unwrap();
    // Meanwhile somebody broke the policy; the network is down.
    let policy = std::fs::read_to_string(stage.rig.policy_file(Side::Alice)).unwrap();
    stage.rig.set_policy(Side::Alice, &policy.replace("protected P", "protected")).unwrap();
    sh(stage.rig.lab.alice().netns(), "ip link set eth0 down").unwrap();
    let booted = stage.rig.boot(Side::Alice).unwrap();
    assert!(booted.status.success(), "{}{}", booted.out(), booted.err());
    assert!(
        booted.out().contains(".policy.last, applications: 1, guarded devices: eth0"),
        "{}",
        booted.out()
    );
    let up = format!("ip link set eth0 up; ip -6 addr replace {}/64 dev eth0 nodad", Side::Alice.v6());
    sh(stage.rig.lab.alice().netns(), &up).unwrap();
    stage.forget().unwrap();
    for over in Over::BOTH {
        sends(&stage, &app, over);
    }
    assert_eq!(sends(&stage, &plain, over), ["sent"; 3]);
    // What the other program sends is seen, so what the protected one sends would be.
    wait_until("the other program", PATIENCE, || clear(&stage) >= 3);
    assert_eq!(clear(&stage), 3, "only the other program's");

    // Again: nothing changes. A daemon with the broken policy starts with what was in force, and says so.
    let again = stage.rig.boot(Side::Alice).unwrap();
    assert!(again.status.success() && again.out().contains("already"), "{}{}", again.out(), again.err());
    stage.rig.start(Side::Alice).unwrap();
    let said = stage.rig.command(Side::Alice, &["status"], "").unwrap();
    assert!(said.out().contains(".policy.last") && !said.status.success(), "{}", said.out());
    stage.forget().unwrap();
    sends(&stage, &app, over);
    assert_eq!(sends(&stage, &plain, over), ["sent"; 3]);
    wait_until("the other program", PATIENCE, || clear(&stage) >= 3);
    assert_eq!(clear(&stage), 3);

    // A daemon comes with the policy mended: protected traffic flows.
    stage.rig.stop(Side::Alice).unwrap();
    stage.rig.set_policy(Side::Alice, &policy).unwrap();
    stage.start_daemons().unwrap();
    stage.serve(&app, PORT).unwrap();
    stage.forget().unwrap();
    for over in Over::BOTH {
        stage.run("udp_unconnected", over).unwrap();
    }
    assert_eq!(stage.complaint(|_| false).unwrap(), None);
}

#[test]
fn a_boot_that_fails_leaves_the_host_as_it_was() {
    let stage = Stage::without_daemons("rvl-boot-fail").unwrap();
    stage.rig.set_policy(Side::Alice, "application {").unwrap();
    let booted = stage.rig.boot(Side::Alice).unwrap();
    assert_eq!(booted.status.code(), Some(2), "{}", booted.err());
    assert!(booted.err().contains("P1"), "{}", booted.err());
    let links = sh(stage.rig.lab.alice().netns(), "ip -br link").unwrap();
    assert!(!links.contains("rvl0"), "{links}");
    let pins = format!("/sys/fs/bpf/ravelin/{}", stage.rig.instance(Side::Alice));
    assert!(!std::path::Path::new(&pins).exists());
    let app = stage.app.clone();
    assert_eq!(sends(&stage, &app, Over::V4), ["sent"; 3]);
}
