//! A flow is promised a rate of a class (docs/design/0044): its packets within the rate outlive a flood of the class that it
//! had, and requests that cannot be kept are refused with a reason.

use lab::rig::Rig;
use lab::{Program, Side};
use tests::{PATIENCE, associate};

use super::{DATAGRAMS, ECHO, GraphFile, build, counts, echo_server, kernel_queues, of};

/// A graph with a class for reservations alone, and an uplink.
const CALLS_ALONE: &str = "stages = [1]\ndiscipline = \"strict\"\nguard = \"100%\"\n\
                      [class.calls]\nmatch = \"named\"\npriority = true\nunpoliced = true\nlimit = { packets = 64 }\n\
                      [class.every]\nmatch = \"rest\"\nlimit = { packets = 100 }\n\
                      [uplink.eth0]\nrate = \"100Mbit\"\noverhead = 38\n";

/// Datagrams to a port that nobody listens at, and between each sixteen of them one to an echo server (address, port,
/// number of those); the number of answers.
const BESIDE_A_FLOOD: &str = r#"
import socket, sys
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
call = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
call.settimeout(10)
call.connect((sys.argv[1], int(sys.argv[2])))
count = int(sys.argv[3])
for n in range(count):
    for _ in range(16):
        flood.sendto(bytes(300), (sys.argv[1], 9))
    call.send(bytes(300))
print("sent", flush=True)
print(sum(len(call.recv(1000)) == 300 for n in range(count)))
"#;

/// The one reservation of alice: packets within its rate, and beyond it.
fn reserved(rig: &Rig) -> Option<(u64, u64)> {
    let list = rig.json(Side::Alice, &["qos", "reserve", "list"]).unwrap();
    let of = list["reservations"].as_array().unwrap().first()?;
    Some((of["packets_within"].as_u64().unwrap(), of["packets_beyond"].as_u64().unwrap()))
}

#[test]
fn a_reserved_flow_keeps_its_rate_beside_a_flood_of_its_old_class_until_it_is_not_refreshed() {
    const CALLS: u64 = 20;
    let file = GraphFile::new("rvl-qosr", CALLS_ALONE);
    let (mut rig, app) = build("rvl-qosr", &file.configuration());
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    let (bob, echo) = (Side::Bob.v4().to_string(), ECHO.to_string());
    // An octet a second, so that the burst is what counts: twenty packets of 328 octets and not one more.
    let add = |rig: &Rig, ttl: &str| {
        let args = [
            "qos", "reserve", "add", "--class", "calls", "--rate", "8bit", "--burst", "6800B", "--to", &bob,
            "--port", &echo, "--holder", "pbx", "--ttl", ttl,
        ];
        rig.ravelin(Side::Alice, &args, "").unwrap()
    };
    let said = add(&rig, "10m");
    assert!(said.starts_with(&format!("reservation 1: calls, 8bit to {bob} udp port {echo}")), "{said}");
    assert!(said.contains("uplink") && said.contains("unit inline"), "{said}");

    // A stopped daemon reads nothing, so what is sent meanwhile waits in the kernel queue of its class, or is lost there.
    rig.daemon(Side::Alice).unwrap().signal(libc::SIGSTOP).unwrap();
    let args = [bob.clone(), echo.clone(), CALLS.to_string()];
    let program = Program::new(&app).args(["-c", BESIDE_A_FLOOD]).args(args);
    let both = rig.lab.alice().spawn(program).unwrap();
    both.wait_for_output("sent", PATIENCE).unwrap();
    rig.daemon(Side::Alice).unwrap().signal(libc::SIGCONT).unwrap();
    let answers = both.finish(PATIENCE).unwrap();
    assert_eq!(answers.out().lines().last(), Some("20"), "{}", answers.err());
    let rows = counts(&rig);
    assert_eq!(of(&rows, "1a", "calls"), (CALLS, CALLS, 0), "{rows:?}");
    let queues = kernel_queues(&rig);
    assert_eq!(
        (queues[0].classes.as_str(), queues[0].arrived, queues[0].lost),
        ("calls", CALLS, 0),
        "{queues:?}"
    );
    assert!(queues[1].lost >= 16 * CALLS - queues[1].limit, "the flood is dropped: {queues:?}");
    assert_eq!(reserved(&rig), Some((CALLS, 0)));

    // Beyond the rate a packet is in its old class, and goes through where nothing floods.
    let args = [bob.clone(), echo.clone(), "0".to_owned(), "5".to_owned()];
    let done =
        rig.lab.alice().run_program(Program::new(&app).args(["-c", DATAGRAMS]).args(args), PATIENCE).unwrap();
    assert_eq!(done.out().trim(), "5", "{}", done.err());
    assert_eq!((reserved(&rig), of(&counts(&rig), "1a", "calls").0), (Some((CALLS, 5)), CALLS));

    // Bad input has status 2 and says why; another holder's is not to be removed.
    let refused = |args: &[&str], text: &str| {
        let done = rig.command(Side::Alice, &[&["qos", "reserve"], args].concat(), "").unwrap();
        assert!(done.status.code() == Some(2) && done.err().contains(text), "{args:?}: {}", done.err());
    };
    refused(&["remove", "1", "--holder", "other"], "held by pbx");
    let to = ["--burst", "3kB", "--to", "192.0.2.1", "--holder", "pbx"];
    refused(&[&["add", "--class", "none", "--rate", "8kbit"], &to[..]].concat(), "no class \"none\"");
    refused(&[&["add", "--class", "calls", "--rate", "0kbit"], &to[..]].concat(), "rate 0");
    refused(
        &[&["add", "--class", "calls", "--rate", "1kbit", "--ttl", "2h"], &to[..]].concat(),
        "1 to 3600 seconds",
    );
    // It is too much for the uplink, and on a busy machine for the unit before that.
    let much = [&["qos", "reserve", "add", "--class", "calls", "--rate", "90Mbit"], &to[..]].concat();
    let done = rig.command(Side::Alice, &much, "").unwrap();
    assert!(done.status.code() == Some(1) && done.err().contains(" a second left"), "{}", done.err());

    // With its time it is gone, and the flow is as any other.
    add(&rig, "1s");
    tests::wait_for("the end of the reservation", PATIENCE, || match reserved(&rig) {
        None => Ok(()),
        Some(counts) => Err(format!("{counts:?}")),
    });
    let before = of(&counts(&rig), "1a", "calls").0;
    let args = [bob, echo, "0".to_owned(), "5".to_owned()];
    let done =
        rig.lab.alice().run_program(Program::new(&app).args(["-c", DATAGRAMS]).args(args), PATIENCE).unwrap();
    assert_eq!(done.out().trim(), "5", "{}", done.err());
    assert_eq!(of(&counts(&rig), "1a", "calls").0, before);
}
