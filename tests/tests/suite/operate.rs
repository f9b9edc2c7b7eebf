//! Changing policy as an operator does it: see what would change, put it on trial, keep it or have it taken back, whatever
//! happens to the daemon meanwhile (docs/design/0013).

use std::path::{Path, PathBuf};

use lab::rig::{Rig, RigOptions};
use lab::{Program, Running, Side};
use serde_json::Value;
use tests::{PATIENCE, associate, binary, copy_of_python, protect, tcp_server, wait_until};

const PORT: u16 = 7000;

/// A connection (address, port) that says `ready`, then sends a line and reads it back, 20 times a second; SIGUSR1: how often that
/// went well, SIGTERM: the end.
const CLIENT: &str = r#"
import signal, socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
s.settimeout(15)
f = s.makefile("rb")
lines = 0
signal.signal(signal.SIGUSR1, lambda *_: print("lines", lines, flush=True))
print("ready", flush=True)
while True:
    s.sendall(b"line\n")
    if f.readline() != b"line\n":
        print("broken", flush=True)
        break
    lines += 1
    time.sleep(0.05)
"#;

/// Whether a connection can be made (address, port): `connected`, or the error's name.
const CONNECT: &str = r#"
import errno, socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 10).close()
    print("connected")
except OSError as error:
    print(errno.errorcode.get(error.errno, error))
"#;

struct Stage {
    rig: Rig,
    app: PathBuf,
}

impl Stage {
    /// Two hosts whose copy of Python is protected from each other, and a server on bob.
    fn build(name: &str) -> (Stage, Running) {
        let options =
            RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: false };
        let mut rig = Rig::build(&options).unwrap();
        let app = copy_of_python(rig.folder(), "app");
        for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            rig.set_policy(side, &protect(&app, peer)).unwrap();
        }
        rig.start_both().unwrap();
        associate(&rig).unwrap();
        let server = tcp_server(&rig, &app, PORT);
        (Stage { rig, app }, server)
    }

    fn client(&self) -> Running {
        let args = ["-u", "-c", CLIENT, &Side::Bob.v4().to_string(), &PORT.to_string()];
        let client = self.rig.lab.alice().spawn(Program::new(&self.app).args(args)).unwrap();
        client.wait_for_output("ready", PATIENCE).unwrap();
        client
    }

    fn connect(&self) -> String {
        let args = ["-c", CONNECT, &Side::Bob.v4().to_string(), &PORT.to_string()];
        let done = self.rig.lab.alice().run_program(Program::new(&self.app).args(args), PATIENCE).unwrap();
        done.out().trim().to_owned()
    }

    /// `ravelin policy ...` on alice: exit status, standard output, standard error.
    fn policy(&self, args: &[&str]) -> (i32, String, String) {
        let instance = self.rig.instance(Side::Alice);
        let args: Vec<&str> =
            ["policy"].iter().chain(args).chain(&["--instance", &instance]).copied().collect();
        let done = self.rig.command(Side::Alice, &args, "").unwrap();
        (done.status.code().unwrap(), done.out(), done.err())
    }

    fn document(&self, args: &[&str]) -> (i32, Value) {
        let args: Vec<&str> = args.iter().chain(&["--json"]).copied().collect();
        let (status, out, err) = self.policy(&args);
        (status, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.rig.command(Side::Alice, &["status", "--json"], "").unwrap().out())
            .unwrap()
    }

    fn generation(&self) -> u64 {
        self.status()["policy"]["generation"].as_u64().unwrap()
    }

    fn is_waiting(&self) -> bool {
        self.status()["policy"]["waiting"].is_object()
    }

    /// A file beside the policy with this text.
    fn file(&self, text: &str) -> String {
        let path = self.rig.folder().join("other.policy");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn policy_file(&self) -> PathBuf {
        self.rig.policy_file(Side::Alice)
    }

    /// A policy that refuses what the first one protects.
    fn refusing(&self) -> String {
        format!("application \"{}\" {{\n  network {} untrusted;\n}}\n", self.app.display(), Side::Bob.v4())
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// So many lines more went well.
fn goes_on(client: &Running) {
    let count = || {
        client.signal(libc::SIGUSR1).unwrap();
        let output = client.output();
        output
            .lines()
            .filter_map(|line| line.strip_prefix("lines ")?.parse::<u64>().ok())
            .next_back()
            .unwrap_or(0)
    };
    wait_until("a first answer", PATIENCE, || count() > 0);
    let before = count();
    wait_until("the connection goes on", PATIENCE, || count() > before + 5);
}

#[test]
fn a_plan_names_what_would_change_and_changes_nothing() {
    let (stage, _server) = Stage::build("rvl-plan");
    let client = stage.client();
    let now = text(&stage.policy_file());
    let generation = stage.generation();

    // The same meaning in another text.
    let (first, second) = (Side::Bob.v4(), Side::Bob.v6());
    let same = format!(
        "application \"{}\" {{\n  network {second}, {first} protected Q;\n  protection Q {{ localport=any remoteport=0-99 encryption \
         mandatory; localport=any remoteport=any encryption require; }}\n}}\n",
        stage.app.display()
    );
    let (status, plan) = stage.document(&["plan", &stage.file(&same)]);
    assert_eq!((status, &plan["changes"], &plan["unchanged"]), (0, &false.into(), &1.into()), "{plan}");

    let weaker =
        now.replace("mandatory", "optional") + "application other { network 192.0.2.0/24 untrusted; }\n";
    let file = stage.file(&weaker);
    let (status, plan) = stage.document(&["plan", &file]);
    assert_eq!(status, 4, "{plan}");
    let applications = plan["applications"].as_array().unwrap();
    assert_eq!(applications.len(), 2, "{plan}");
    assert_eq!(
        (&applications[0]["change"], &applications[1]["change"]),
        (&"changed".into(), &"added".into())
    );
    let flow = &applications[0]["peers"][0]["flows"][0];
    assert_eq!(flow["before"]["verdict"], "encryption mandatory", "{plan}");
    assert_eq!(flow["after"]["verdict"], "encryption optional", "{plan}");
    assert_eq!(flow["after"]["line"]["file"], file, "{plan}");
    let own: Vec<&Value> =
        plan["sockets"].as_array().unwrap().iter().filter(|s| s["pid"] == client.pid()).collect();
    assert_eq!(own.len(), 1, "{plan}");
    assert_eq!(own[0]["flow"]["remote"], format!("{first}:{PORT}"));
    assert_eq!(own[0]["before"]["line"]["file"], stage.policy_file().display().to_string());
    assert_eq!(
        (&own[0]["before"]["line"]["line"], &own[0]["after"]["line"]["line"]),
        (&4.into(), &4.into()),
        "{plan}"
    );
    let (_, out, _) = stage.policy(&["plan", &file]);
    assert!(out.contains("encryption mandatory (") && out.contains(" -> encryption optional ("), "{out}");

    // Without the block everything would be clear.
    let (status, plan) =
        stage.document(&["plan", &stage.file("application other { network 192.0.2.0/24 untrusted; }\n")]);
    assert_eq!((status, &plan["applications"][0]["change"]), (4, &"removed".into()), "{plan}");
    let own = plan["sockets"].as_array().unwrap().iter().find(|s| s["pid"] == client.pid()).unwrap();
    assert_eq!(own["after"]["verdict"], "clear", "{plan}");

    let (status, out, _) = stage.policy(&["plan", &stage.file("application x { network ; }\n")]);
    assert_eq!(status, 2, "{out}");
    assert_eq!((stage.generation(), text(&stage.policy_file())), (generation, now));
    goes_on(&client);
}

#[test]
fn a_policy_that_nobody_confirms_is_taken_back() {
    let (stage, _server) = Stage::build("rvl-trial");
    let now = text(&stage.policy_file());
    assert_eq!(stage.connect(), "connected");
    let file = stage.file(&stage.refusing());
    let (status, answer) = stage.document(&["apply", &file, "--confirm-within", "3s"]);
    assert_eq!(status, 0, "{answer}");
    assert!(answer["waiting"]["seconds_left"].as_u64().unwrap() <= 3, "{answer}");
    assert!(stage.is_waiting());
    assert_eq!(stage.connect(), "EPERM");
    // The policy file has it when it is confirmed, and nothing comes on top of it.
    assert_eq!(text(&stage.policy_file()), now);
    let (status, _, err) = stage.policy(&["reload"]);
    assert!(status == 1 && err.contains("on trial"), "{err}");
    wait_until("taken back", PATIENCE, || !stage.is_waiting());
    assert_eq!(stage.connect(), "connected");
    assert_eq!(text(&stage.policy_file()), now);
    let (status, _, err) = stage.policy(&["confirm"]);
    assert!(status == 1 && err.contains("no policy waits"), "{err}");

    // Confirmed, it stays, and can be taken back by hand.
    let (status, _, err) = stage.policy(&["apply", &file, "--confirm-within", "1h"]);
    assert_eq!(status, 0, "{err}");
    let (status, answer) = stage.document(&["confirm"]);
    assert_eq!(
        (status, &answer["installed"]),
        (0, &stage.policy_file().display().to_string().into()),
        "{answer}"
    );
    assert_eq!(
        (text(&stage.policy_file()), text(&beside(&stage.policy_file(), ".previous"))),
        (stage.refusing(), now.clone())
    );
    assert_eq!(stage.connect(), "EPERM");
    let (status, _, err) = stage.policy(&["rollback"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(stage.connect(), "connected");
    assert_eq!(
        (text(&stage.policy_file()), text(&beside(&stage.policy_file(), ".rejected"))),
        (now.clone(), stage.refusing())
    );
    assert_eq!(stage.policy(&["rollback"]).0, 1);

    // What has errors changes nothing, and neither does a trial of what is in force.
    let (status, _, err) = stage.policy(&["apply", &stage.file("application x { network ; }\n")]);
    assert!(status == 2 && err.contains("errors"), "{status} {err}");
    assert_eq!(stage.policy(&["apply", &stage.file(&now), "--confirm-within", "9s"]).0, 1);
    assert_eq!((text(&stage.policy_file()), stage.connect().as_str()), (now, "connected"));
}

#[test]
fn an_edited_policy_file_on_trial_gets_its_text_back() {
    let (stage, _server) = Stage::build("rvl-edited");
    let now = text(&stage.policy_file());
    stage.rig.set_policy(Side::Alice, &stage.refusing()).unwrap();
    let (status, _, err) = stage.policy(&["apply", "--confirm-within", "2s"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(stage.connect(), "EPERM");
    wait_until("taken back", PATIENCE, || !stage.is_waiting());
    assert_eq!(stage.connect(), "connected");
    // Neither text is lost.
    assert_eq!(
        (text(&stage.policy_file()), text(&beside(&stage.policy_file(), ".rejected"))),
        (now, stage.refusing())
    );
}

#[test]
fn a_trial_outlives_the_daemon_that_began_it() {
    let (mut stage, _server) = Stage::build("rvl-outlive");
    let now = text(&stage.policy_file());
    let file = stage.file(&stage.refusing());
    let apply = |stage: &Stage, within: &str| {
        let (status, _, err) = stage.policy(&["apply", &file, "--confirm-within", within]);
        assert_eq!(status, 0, "{err}");
    };
    // A crash, and the next daemon goes on with what is on trial. Then somebody confirms it.
    apply(&stage, "1h");
    stage.rig.kill(Side::Alice).unwrap();
    stage.rig.start(Side::Alice).unwrap();
    assert!(stage.is_waiting());
    assert_eq!(stage.connect(), "EPERM");
    assert_eq!(text(&stage.policy_file()), now);
    assert_eq!(stage.policy(&["rollback"]).0, 0);
    assert_eq!((stage.is_waiting(), text(&stage.policy_file())), (false, now.clone()));

    // A crash, and nobody there when the time is over.
    apply(&stage, "1s");
    stage.rig.kill(Side::Alice).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    stage.rig.start(Side::Alice).unwrap();
    assert!(!stage.is_waiting());
    associate_anew(&stage);
    assert_eq!(stage.connect(), "connected");

    // A hand-over, and the new daemon goes on with it; so do connections.
    let client = stage.client();
    let strict = now.clone() + "application other { network 192.0.2.0/24 untrusted; }\n";
    let file = stage.file(&strict);
    assert_eq!(stage.policy(&["apply", &file, "--allow-missing", "--confirm-within", "1h"]).0, 0);
    let old = stage.rig.release(Side::Alice).unwrap();
    stage.rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    old.finish(PATIENCE).unwrap();
    let policy = &stage.status()["policy"];
    assert!(policy["waiting"].is_object() && policy["applications"] == 2, "{policy}");
    goes_on(&client);
    assert_eq!(text(&stage.policy_file()), now);
    assert_eq!(stage.policy(&["confirm"]).0, 0);
    assert_eq!((stage.is_waiting(), text(&stage.policy_file())), (false, strict));
    goes_on(&client);
}

fn associate_anew(stage: &Stage) {
    tests::forget_keys(&stage.rig);
    associate(&stage.rig).unwrap();
}

#[test]
fn a_reload_leaves_alone_what_it_does_not_change() {
    let (stage, _server) = Stage::build("rvl-alone");
    let others: String = (0..20)
        .map(|n| format!("application \"/usr/bin/other{n}\" {{ network 192.0.2.{n} untrusted; }}\n"))
        .collect();
    let now = text(&stage.policy_file()) + &others;
    stage.rig.set_policy(Side::Alice, &now).unwrap();
    stage.rig.reload(Side::Alice).unwrap();
    let client = stage.client();
    goes_on(&client);
    let sas = || {
        let list = stage.rig.json(Side::Alice, &["sa", "list"]).unwrap();
        let all = list["sas"].as_array().unwrap().clone();
        all.iter()
            .map(|sa| (sa["spi"].to_string(), sa["counters"]["packets"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let before = sas();
    stage.rig.set_policy(Side::Alice, &now.replace("192.0.2.7 ", "192.0.2.77 ")).unwrap();
    let (status, answer) = stage.document(&["reload", "--allow-missing"]);
    assert_eq!((status, &answer["changed"]), (0, &serde_json::json!(["/usr/bin/other7"])), "{answer}");
    goes_on(&client);
    for ((spi, packets), (spi_then, packets_then)) in sas().iter().zip(&before) {
        assert!(spi == spi_then && packets >= packets_then, "{spi} {packets} {packets_then}");
    }
    // Another text of the same meaning changes nothing at all.
    stage
        .rig
        .set_policy(Side::Alice, &format!("# moved down\n{}", now.replace("192.0.2.7 ", "192.0.2.77 ")))
        .unwrap();
    let (_, answer) = stage.document(&["reload", "--allow-missing"]);
    assert_eq!(answer["changed"], Value::Null, "{answer}");
}

#[test]
fn a_program_that_this_host_does_not_have_is_said_everywhere_and_refused_unless_it_is_meant() {
    let (stage, _server) = Stage::build("rvl-typo");
    let now = text(&stage.policy_file());
    // The two last letters of the copy's name have changed places.
    let typo = stage.app.with_file_name("apq");
    let wrong = now.replace(&stage.app.display().to_string(), &typo.display().to_string());
    assert_ne!(wrong, now);
    let file = stage.file(&wrong);
    let is_told = |missing: &Value| {
        let one = &missing[0];
        assert_eq!((&one["code"], &one["program"]), (&"RVL-P414".into(), &typo.display().to_string().into()));
        let remedy = one["remedy"].as_str().unwrap();
        assert!(
            remedy.contains("did you mean") && remedy.contains(&*stage.app.display().to_string()),
            "{one}"
        );
    };
    let (status, plan) = stage.document(&["plan", &file]);
    assert_eq!(status, 4, "{plan}");
    is_told(&plan["missing"]);
    let (status, _, err) = stage.policy(&["apply", &file]);
    assert!(status == 1 && err.contains("RVL-P414") && err.contains("--allow-missing"), "{status} {err}");
    assert_eq!((text(&stage.policy_file()), stage.connect().as_str()), (now.clone(), "connected"));
    stage.rig.set_policy(Side::Alice, &wrong).unwrap();
    let (status, _, err) = stage.policy(&["reload"]);
    assert!(status == 1 && err.contains("did you mean") && err.contains("--allow-missing"), "{status} {err}");
    let state = stage.status();
    assert_eq!(state["policy"]["missing"], Value::Null, "{state}");

    // A program that is installed later.
    let (status, answer) = stage.document(&["reload", "--allow-missing"]);
    assert_eq!(status, 0, "{answer}");
    is_told(&answer["missing"]);
    is_told(&stage.status()["policy"]["missing"]);
    let said = stage.rig.command(Side::Alice, &["status"], "").unwrap().out();
    assert!(said.contains("RVL-P414") && said.contains("did you mean"), "{said}");
    let config = stage.rig.config_file(Side::Alice).display().to_string();
    let doctor = Program::new(binary()).args(["doctor", "--config", &config]);
    let doctor = stage.rig.lab.alice().run_program(doctor, PATIENCE).unwrap();
    assert!(doctor.out().contains("RVL-P414"), "{}", doctor.out());
    std::fs::copy(&stage.app, &typo).unwrap();
    wait_until("the program is there", PATIENCE, || stage.status()["policy"]["missing"].is_null());
    let (status, _, err) = stage.policy(&["reload"]);
    assert_eq!(status, 0, "{err}");
}
