//! Another graph takes the place of the one in force while packets go on (docs/design/0040): on trial, over a take-over,
//! taken back and confirmed; nothing of a stream is lost, and a graph that lacks what somebody names is refused.

use std::path::{Path, PathBuf};

use lab::rig::Rig;
use lab::{Program, Running, Side};
use tests::{PATIENCE, associate, copy_of_python};

use super::{
    COUNT, ECHO, GraphFile, SENDS, WITH_CALLS, build, counts, counts_of, datagrams, echo_server,
    kernel_queues, of, policy,
};

/// A stream of datagrams to an echo server, one behind the other, until a file is there; the number of those that came back.
const STREAM: &str = r#"
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], int(sys.argv[2])))
s.settimeout(10)
good = 0
print("begun", flush=True)
while not os.path.exists(sys.argv[3]):
    s.send(bytes(200))
    try:
        good += len(s.recv(1000)) == 200
    except TimeoutError:
        sys.exit(f"nothing came for number {good} within 10 s")
print(good)
"#;

const PLAIN: &str = "[class.every]\nmatch = \"rest\"\n";

fn classes_in_force(rig: &Rig) -> String {
    let graph = rig.ravelin(Side::Alice, &["qos", "show", "--graph"], "").unwrap();
    let classes = graph.lines().filter_map(|line| line.strip_prefix("[class.")?.strip_suffix(']'));
    classes.collect::<Vec<_>>().join(",")
}

/// A stream of datagrams, which ends when the file is there.
pub(super) fn begin_stream(rig: &Rig, app: &Path, end: PathBuf) -> (Running, PathBuf) {
    let _ = std::fs::remove_file(&end);
    let args = [Side::Bob.v4().to_string(), ECHO.to_string(), end.display().to_string()];
    let stream = rig.lab.alice().spawn(Program::new(app).args(["-c", STREAM]).args(args)).unwrap();
    stream.wait_for_output("begun", PATIENCE).unwrap();
    (stream, end)
}

/// End a stream, of which nothing may be lost.
pub(super) fn end_stream(rig: &Rig, (stream, end): (Running, PathBuf)) {
    std::fs::write(end, "").unwrap();
    let done = stream.finish(PATIENCE).unwrap();
    assert!(
        done.status.success(),
        "a datagram of the stream was lost: {}{}\n{}\n{}",
        done.out(),
        done.err(),
        rig.json(Side::Alice, &["qos", "show"]).unwrap(),
        rig.json(Side::Alice, &["status"]).unwrap()
    );
    assert!(done.out().lines().last().unwrap().parse::<u64>().unwrap() > 100);
}

#[test]
fn a_class_is_added_while_packets_go_on_and_taken_back_unless_it_is_confirmed() {
    let file = GraphFile::new("rvl-qosx", PLAIN);
    let (mut rig, app) = build("rvl-qosx", &file.configuration());
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    datagrams(&rig, &app, 46 << 2);
    assert_eq!(of(&counts(&rig), "5a", "every").1, COUNT);

    // A stream goes on over every exchange, and nothing of it is lost.
    let stream = begin_stream(&rig, &app, file.0.with_file_name("end"));
    let calls = file.beside("calls.toml", WITH_CALLS);
    for _ in 0..10 {
        rig.ravelin(Side::Alice, &["qos", "apply", &calls, "--confirm-within", "60s"], "").unwrap();
        assert_eq!(classes_in_force(&rig), "calls,every");
        rig.ravelin(Side::Alice, &["qos", "rollback"], "").unwrap();
        assert_eq!(classes_in_force(&rig), "every");
    }
    assert_eq!(file.text(), PLAIN, "a trial leaves the file alone");

    // On trial, over a take-over, and back by itself.
    let applied = rig.ravelin(Side::Alice, &["qos", "apply", &calls, "--confirm-within", "10m"], "").unwrap();
    assert!(applied.contains("taken back in"), "{applied}");
    datagrams(&rig, &app, 46 << 2);
    let rows = counts(&rig);
    assert_eq!(of(&rows, "5a", "calls").1, COUNT, "{rows:?}, {:?}", kernel_queues(&rig));
    let queues = kernel_queues(&rig);
    assert!(queues[0].classes == "calls" && queues[0].arrived >= COUNT, "{queues:?}");
    rig.ravelin(Side::Alice, &["qos", "rollback"], "").unwrap();
    end_stream(&rig, stream);
    rig.ravelin(Side::Alice, &["qos", "apply", &calls, "--confirm-within", "5s"], "").unwrap();
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    tests::wait_for("the graph before", PATIENCE, || match classes_in_force(&rig) {
        classes if classes == "every" => Ok(()),
        classes => Err(classes),
    });
    let refused = rig.command(Side::Alice, &["qos", "confirm"], "").unwrap();
    assert!(refused.err().contains("no graph waits for a confirmation"), "{}", refused.err());

    // Confirmed, it is in the file, with what was there beside it; and a rule may name its class.
    let stream = begin_stream(&rig, &app, file.0.with_file_name("end"));
    rig.ravelin(Side::Alice, &["qos", "apply", &calls, "--confirm-within", "60s"], "").unwrap();
    let confirmed = rig.ravelin(Side::Alice, &["qos", "confirm"], "").unwrap();
    assert!(confirmed.contains("has its text"), "{confirmed}");
    assert_eq!(file.text(), WITH_CALLS);
    let policy =
        policy(&app, Side::Bob).replace("encryption mandatory;", "encryption mandatory class calls;");
    rig.set_policy(Side::Alice, &policy).unwrap();
    rig.reload(Side::Alice).unwrap();
    datagrams(&rig, &app, 0);
    assert!(of(&counts(&rig), "5a", "calls").1 >= COUNT);
    // A graph without that class is refused, and says who names it.
    let refused = rig.command(Side::Alice, &["qos", "rollback"], "").unwrap();
    let why = refused.err();
    assert!(!refused.status.success() && why.contains("names the class `calls`"), "{why}");
    assert!(why.contains("the policy of"), "{why}");
    assert_eq!(classes_in_force(&rig), "calls,every");
    // A rule of the graph that names an application is of the one that has the name, also when the policy has it later.
    let text = WITH_CALLS
        .replace("match = [{ dscp = [\"EF\"] }]", "match = [{ application = [\"app\", \"late\"] }]");
    let by_name = file.beside("by-name.toml", &text);
    let applied = rig.ravelin(Side::Alice, &["qos", "apply", &by_name], "").unwrap();
    assert!(applied.contains("the policy has no application `late`"), "{applied}");
    // Without a trial too there is a way back, and forth.
    rig.ravelin(Side::Alice, &["qos", "rollback"], "").unwrap();
    assert_eq!(file.text(), WITH_CALLS);
    rig.ravelin(Side::Alice, &["qos", "apply", &by_name], "").unwrap();
    rig.set_policy(Side::Alice, &policy.replace(" class calls", "")).unwrap();
    rig.reload(Side::Alice).unwrap();
    let (before, queued) = (of(&counts(&rig), "5a", "calls").1, kernel_queues(&rig)[0].arrived);
    datagrams(&rig, &app, 0);
    let rows = counts(&rig);
    assert!(of(&rows, "5a", "calls").1 >= before + COUNT, "{before} {rows:?}");
    let queues = kernel_queues(&rig);
    assert!(queues[0].arrived >= queued + COUNT, "the kernel queue of the class: {queued} {queues:?}");
    let late = copy_of_python(rig.folder(), "late");
    let both = format!("{}{}", policy.replace(" class calls", ""), self::policy(&late, Side::Bob));
    rig.set_policy(Side::Alice, &both).unwrap();
    rig.reload(Side::Alice).unwrap();
    let (before, queued) = (of(&counts(&rig), "5a", "calls").1, kernel_queues(&rig)[0].arrived);
    let args = [Side::Bob.v4().to_string(), ECHO.to_string(), "0".to_owned(), "30".to_owned()];
    let program = Program::new(&late).args(["-c", SENDS]).args(args);
    let done = rig.lab.alice().run_program(program, PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    tests::wait_for("packets of the class of a later application", PATIENCE, || {
        let (now, arrived) = (of(&counts(&rig), "5a", "calls").1, kernel_queues(&rig)[0].arrived);
        if now >= before + 30 && arrived >= queued + 30 { Ok(()) } else { Err(format!("{now}, {arrived}")) }
    });
    // A broken one too, with its place; nothing changes.
    let broken = file.beside("broken.toml", "[class.calls]\nmatch = \"everything\"\n");
    let refused = rig.command(Side::Alice, &["qos", "apply", &broken], "").unwrap();
    assert!(
        refused.status.code() == Some(2) && refused.err().contains("broken.toml:2:"),
        "{}",
        refused.err()
    );

    end_stream(&rig, stream);
    let shown = rig.json(Side::Alice, &["qos", "show"]).unwrap();
    assert!(shown["waiting"].is_null(), "{shown}");

    // An exchange is one of both directions: what arrives is of the new class too.
    let renamed = file.beside("renamed.toml", "[class.others]\nmatch = \"rest\"\n");
    rig.ravelin(Side::Alice, &["qos", "apply", &renamed], "").unwrap();
    assert_eq!(of(&counts_of(&rig, Side::Alice, "in"), "5a", "others").0, 0);
    datagrams(&rig, &app, 0);
    assert!(of(&counts_of(&rig, Side::Alice, "in"), "5a", "others").1 >= COUNT);
}
