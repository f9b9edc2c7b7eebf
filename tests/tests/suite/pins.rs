//! A program that policy names by the digest of its file, from the operator's side: it works, it is tampered with, it is replaced, the
//! policy follows (docs/design/0012).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use lab::rig::{Rig, RigOptions};
use lab::{Program, Running, Side};
use serde_json::Value;
use tests::{
    PATIENCE, associate, binary, copy_of_python, json_lines, one_line, protect, tcp_server, wait_for,
    wait_until,
};

const PORT: u16 = 7000;

/// Sends a datagram (address): `sent`, or the error's name.
const SEND: &str = r#"
import errno, socket, sys
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (sys.argv[1], 9))
    print("sent")
except OSError as error:
    print(errno.errorcode.get(error.errno, error))
"#;

/// Sends a datagram (address) for each signal SIGUSR1, once it has said `ready`: `sent`, or the error's name.
///
/// The signal is blocked and waited for. A handler could run between the word and its end of line, which are two
/// writes, or between the last look at signals and the sleep.
const SEND_OFTEN: &str = r#"
import errno, signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
while True:
    signal.sigwait([signal.SIGUSR1])
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (sys.argv[1], 9))
        print("sent", flush=True)
    except OSError as error:
        print(errno.errorcode.get(error.errno, error), flush=True)
"#;

struct Stage {
    rig: Rig,
    app: PathBuf,
    audit: PathBuf,
}

impl Stage {
    /// What `ravelin policy digest` prints for a file: path and digest.
    fn digest(&self, path: &Path) -> String {
        self.plain(&["policy", "digest", path.to_str().unwrap()]).trim().to_owned()
    }

    /// The program with these digests, as printed.
    fn text(&self, digests: &[&str]) -> String {
        let path = self.app.display().to_string();
        let list: String = digests
            .iter()
            .map(|text| format!(" sha256 {}", text.rsplit_once(' ').expect("PATH sha256 HEX").1))
            .collect();
        let text = protect(&self.app, Side::Bob);
        text.replacen(&format!("\"{path}\""), &format!("\"{path}\"{list}"), 1)
    }

    /// Make that alice's policy.
    fn policy(&self, digests: &[&str]) {
        self.rig.set_policy(Side::Alice, &self.text(digests)).unwrap();
    }

    /// What `ravelin policy plan` says of a text: the document, and what people read.
    fn plan(&self, text: &str) -> (Value, String) {
        let file = self.rig.folder().join("candidate.policy");
        fs::write(&file, text).unwrap();
        let (file, instance) = (file.display().to_string(), self.rig.instance(Side::Alice));
        let args = ["policy", "plan", &file, "--instance", &instance];
        let run = |args: &[&str]| self.rig.command(Side::Alice, args, "").unwrap().out();
        let document = run(&[&args[..], &["--json"]].concat());
        (serde_json::from_str(&document).unwrap(), run(&args))
    }

    fn status(&self) -> Value {
        let done = self.rig.command(Side::Alice, &["status", "--json"], "").unwrap();
        serde_json::from_str(&done.out()).unwrap()
    }

    /// Wait until the daemon says so of the file.
    fn wait_for_state(&self, want: &str) {
        wait_for(want, PATIENCE, || {
            let pins = &self.status()["policy"]["pins"];
            if pins[0]["state"] == want { Ok(()) } else { Err(pins.to_string()) }
        });
    }

    fn send(&self) -> String {
        let args = ["-c", SEND, &Side::Bob.v4().to_string()];
        let done = self.rig.lab.alice().run_program(Program::new(&self.app).args(args), PATIENCE).unwrap();
        done.out().trim().to_owned()
    }

    fn has_audited(&self, event: &str) -> bool {
        json_lines(&self.audit).iter().any(|entry| entry["event"] == event)
    }

    /// A command that asks no daemon by itself.
    fn plain(&self, args: &[&str]) -> String {
        let done = self.rig.lab.alice().run_program(Program::new(binary()).args(args), PATIENCE).unwrap();
        done.out() + &done.err()
    }

    fn ask(&self, args: &[&str]) -> String {
        let done = self.rig.command(Side::Alice, args, "").unwrap();
        done.out() + &done.err()
    }
}

/// What a program that sends often says to one more signal.
fn again(program: &Running, said: &mut usize) -> String {
    program.signal(libc::SIGUSR1).unwrap();
    *said += 1;
    wait_for("an answer", PATIENCE, || {
        let out = program.output();
        let answers: Vec<&str> = out.lines().filter(|line| matches!(*line, "sent" | "EPERM")).collect();
        answers.get(*said - 1).map(|line| (*line).to_owned()).ok_or(out.clone())
    })
}

#[test]
fn a_program_is_what_its_digest_says_or_is_refused() {
    let options =
        RigOptions { name: "rvl-pins".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let (app, audit) = (copy_of_python(rig.folder(), "app"), rig.folder().join("audit.jsonl"));
    rig.configure(Side::Alice, &format!("[audit]\nfile = {:?}\n", audit.to_str().unwrap()));
    rig.set_policy(Side::Bob, &protect(&app, Side::Alice)).unwrap();
    let mut stage = Stage { rig, app, audit };
    let first = stage.digest(&stage.app);
    stage.policy(&[&first]);
    for side in Side::BOTH {
        stage.rig.start(side).unwrap();
    }
    associate(&stage.rig).unwrap();
    let server = tcp_server(&stage.rig, &stage.app, PORT);
    stage.wait_for_state("verified");
    let (same, wrong) = one_line(&stage.rig, &stage.app, &Side::Bob.v4().to_string(), PORT, 1000);
    assert_eq!(same.trim(), "same", "{wrong}");
    assert_eq!(stage.send(), "sent");
    server.signal(libc::SIGTERM).unwrap();
    drop(server);

    // A plan says what digests would make of the files, as far as that is known, and changes nothing.
    let path = stage.app.display().to_string();
    let (same, _) = stage.plan(&stage.text(&[&first]));
    assert_eq!((&same["changes"], &same["pins"][0]["state"]), (&false.into(), &"verified".into()), "{same}");
    let other = format!("{path} sha256 {}", "0".repeat(64));
    let (plan, words) = stage.plan(&stage.text(&[&other]));
    assert_eq!((&plan["changes"], &plan["pins"][0]["state"]), (&true.into(), &"differs".into()), "{plan}");
    let digest = first.rsplit_once(' ').unwrap().1;
    assert!(words.contains(&format!("pinned {path}: digest differs: the file has {digest}")), "{words}");
    let (plan, words) = stage.plan(&format!("application /usr/bin/true sha256 {digest} {{ }}\n"));
    assert_eq!(plan["pins"][0]["state"], "unverified", "{plan}");
    let later = "pinned /usr/bin/true: not verified yet: it is hashed when the policy is loaded";
    assert!(words.contains(later), "{words}");
    assert_eq!(stage.send(), "sent");

    // Tampered with in place: refused, and everybody who should know does.
    fs::OpenOptions::new().append(true).open(&stage.app).unwrap().write_all(b"!").unwrap();
    assert_eq!(stage.send(), "EPERM");
    stage.wait_for_state("differs");
    assert_eq!(stage.send(), "EPERM");
    let second = stage.digest(&stage.app);
    let found = second.rsplit_once(' ').unwrap().1.to_owned();
    let status = stage.status();
    let problems = status["problems"].as_array().unwrap();
    let problem = problems.iter().find(|p| p["code"] == "digest").expect("a problem");
    assert!(problem["message"].as_str().unwrap().contains(&found), "{problem}");
    assert!(problem["remedy"].as_str().unwrap().contains("ravelin policy digest"), "{problem}");
    wait_until("the audit log", PATIENCE, || {
        ["digest_verified", "digest_differs", "executables_unverified"].iter().all(|e| stage.has_audited(e))
    });
    let config = stage.rig.config_file(Side::Alice);
    let doctor = stage.plain(&["doctor", "--config", config.to_str().unwrap()]);
    assert!(doctor.contains("digests") && doctor.contains(&found), "{doctor}");
    let program = stage.app.to_str().unwrap();
    let explained = stage.ask(&["explain", "--app", program, "--to", "192.0.2.1:443/tcp"]);
    assert!(explained.contains(&format!("pinned {program}: digest differs")), "{explained}");
    let file = stage.rig.policy_file(Side::Alice);
    let checked = stage.plain(&["policy", "check", file.to_str().unwrap()]);
    assert!(checked.contains("digest differs") && checked.contains(&found), "{checked}");

    // It was meant: both digests, and a process that runs meanwhile.
    stage.policy(&[&first, &second]);
    stage.rig.reload(Side::Alice).unwrap();
    stage.wait_for_state("verified");
    assert_eq!(stage.send(), "sent");
    let args = ["-u", "-c", SEND_OFTEN, &Side::Bob.v4().to_string()];
    let running = stage.rig.lab.alice().spawn(Program::new(&stage.app).args(args)).unwrap();
    running.wait_for_output("ready", PATIENCE).unwrap();
    let mut said = 0;
    assert_eq!(again(&running, &mut said), "sent");
    let pid = running.pid().to_string();
    let explained = stage.ask(&["explain", "--pid", &pid]);
    assert!(explained.contains("digest verified"), "{explained}");

    // An upgrade brings a third file: refused, but for the process of the file before.
    let aside = copy_of_python(stage.rig.folder(), "aside");
    fs::OpenOptions::new().append(true).open(&aside).unwrap().write_all(b"third").unwrap();
    let third = stage.digest(&aside);
    fs::rename(&aside, &stage.app).unwrap();
    assert_eq!(stage.send(), "EPERM");
    assert_eq!(again(&running, &mut said), "sent");
    stage.wait_for_state("differs");

    // Another daemon knows as much; a policy that wants the third alone is about the process too.
    stage.rig.kill(Side::Alice).unwrap();
    assert_eq!(again(&running, &mut said), "sent");
    assert_eq!(stage.send(), "EPERM");
    stage.rig.start(Side::Alice).unwrap();
    assert_eq!(again(&running, &mut said), "sent");
    stage.policy(&[&third]);
    stage.rig.reload(Side::Alice).unwrap();
    stage.wait_for_state("verified");
    assert_eq!(stage.send(), "sent");
    assert_eq!(again(&running, &mut said), "EPERM");
    let explained = stage.ask(&["explain", "--pid", &pid]);
    assert!(explained.contains("refused every peer"), "{explained}");
}
