//! The checks in the order in which they are shown.

use std::time::Duration;

use lab::rig::Pair;
use lab::{Evidence, Finished, Program, Running, Side};
use serde_json::Value;

use super::report::Report;
use super::{CLEAR_PORT, LONG, LONG_SIZE, NEEDLE, PAGE, PATIENCE, PROTECTED_PORT, Stage};

/// How long the eavesdropper listens after the daemon was killed: several retransmissions of curl's server and of curl.
const AFTERMATH: Duration = Duration::from_secs(3);

/// How the hosts are associated.
pub fn pair() -> Pair {
    Pair::default()
}

pub fn run(stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    without_policy(stage, report)?;
    protect(stage, report)?;
    protected(stage, report)?;
    clear_by_policy(stage, report)?;
    refused(stage, report)?;
    explained(stage, report)?;
    killed(stage, report)
}

fn without_policy(stage: &Stage, report: &mut Report) -> anyhow::Result<()> {
    report.part("1. Two hosts, an unmodified curl, an unmodified web server, no policy");
    let capture = stage.capture()?;
    let answer = stage.fetch()?;
    let wire = capture.finish()?;
    report.check("curl fetches the page", "the page", got(&answer), answer.out().contains(NEEDLE));
    let readable =
        wire.contains_bytes(format!("GET {PAGE}").as_bytes()) && wire.contains_bytes(NEEDLE.as_bytes());
    report.check(
        "the eavesdropper reads request and page",
        "both readable",
        if readable { "both readable" } else { "not both" },
        readable && wire.clear > 0,
    );
    Ok(())
}

fn protect(stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    report.part("2. A policy on each host, a daemon on each host, keys by hand");
    let (alice, bob) = stage.policies();
    report.show(&alice);
    stage.rig.set_policy(Side::Alice, &alice)?;
    stage.rig.set_policy(Side::Bob, &bob)?;
    stage.rig.start_both()?;
    stage.rig.associate(&pair())?;
    let sas = stage.rig.json(Side::Alice, &["sa", "list"])?;
    let count = sas["sas"].as_array().map_or(0, Vec::len);
    report.check(
        "both daemons run and hold keys",
        "2 associations",
        format!("{count} associations"),
        count == 2,
    );
    Ok(())
}

fn protected(stage: &Stage, report: &mut Report) -> anyhow::Result<()> {
    report.part("3. The same curl, the same server");
    let capture = stage.capture()?;
    let answer = stage.fetch()?;
    let wire = capture.finish()?;
    let same = answer.out() == format!("{NEEDLE}\n").repeat(64);
    report.check("curl fetches the page, octet for octet", "identical", got(&answer), same);
    report.check(
        "the wire shows ESP only",
        "ESP packets, no clear packet",
        format!("{} ESP, {} clear", wire.esp, wire.clear),
        wire.esp > 0 && wire.clear == 0 && wire.is_complete(),
    );
    let leaked = wire.contains_bytes(NEEDLE.as_bytes()) || wire.contains_bytes(PAGE.as_bytes());
    report.check(
        "no octet of request or page is readable",
        "nothing readable",
        if leaked { "readable" } else { "nothing readable" },
        !leaked,
    );
    Ok(())
}

fn clear_by_policy(stage: &Stage, report: &mut Report) -> anyhow::Result<()> {
    report.part("4. Another program on the same host, to the same peer: policy leaves wget in clear");
    let capture = stage.capture()?;
    let url = format!("http://{}:{CLEAR_PORT}{PAGE}", Side::Bob.v4());
    let wget = Program::new(&stage.wget).args(["-q", "-O", "-", &url]);
    let answer = stage.rig.lab.alice().run_program(wget, PATIENCE)?;
    let wire = capture.finish()?;
    report.check("wget fetches the page", "the page", got(&answer), answer.out().contains(NEEDLE));
    report.check(
        "its packets are clear, as the policy says",
        "clear packets, no ESP",
        format!("{} clear, {} ESP", wire.clear, wire.esp),
        wire.clear > 0 && wire.esp == 0,
    );
    Ok(())
}

fn refused(stage: &Stage, report: &mut Report) -> anyhow::Result<()> {
    report.part("5. A third program: policy refuses nc this peer");
    let capture = stage.capture()?;
    let (bob, port) = (Side::Bob.v4().to_string(), CLEAR_PORT.to_string());
    let nc = Program::new(&stage.nc).args(["-v", "-w", "2", &bob, &port]);
    let answer = stage.rig.lab.alice().run_program(nc, PATIENCE)?;
    let wire = capture.finish()?;
    let said = answer.err().trim().to_owned();
    report.check(
        "connect() fails with EPERM",
        "Operation not permitted",
        said.clone(),
        !answer.status.success() && said.contains("Operation not permitted"),
    );
    report.check(
        "nothing of it reaches the wire",
        "no packet",
        format!("{} clear, {} ESP", wire.clear, wire.esp),
        wire.clear == 0 && wire.esp == 0,
    );
    Ok(())
}

/// Why for each of the three: live for those that run, from the policy for the one that may not.
fn explained(stage: &Stage, report: &mut Report) -> anyhow::Result<()> {
    report.part("6. Why: `ravelin explain`");
    let curl = stage.slow_curl()?;
    let why = stage.why(&curl)?;
    report.check(
        "curl",
        "protect, alice.policy:3",
        why.text,
        why.verdict == "protect" && why.line == Some(3),
    );
    curl.kill()?;

    let file = stage.rig.policy_file(Side::Alice);
    let file = file.to_string_lossy();
    for (name, path, verdict, line) in [("wget", &stage.wget, "bypass", 6), ("nc", &stage.nc, "discard", 9)] {
        let to = format!("{}:{CLEAR_PORT}/tcp", Side::Bob.v4());
        let app = path.to_string_lossy();
        let document =
            stage.rig.json(Side::Alice, &["policy", "explain", &file, "--app", &app, "--to", &to])?;
        let why = Explanation::from(&document);
        let expected = format!("{verdict}, alice.policy:{line}");
        report.check(name, expected, why.text, why.verdict == verdict && why.line == Some(line));
    }
    Ok(())
}

fn killed(stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    report.part("7. The daemon dies in the middle of a transfer (SIGKILL)");
    let capture = stage.capture()?;
    let curl = stage.slow_curl()?;
    let moving = capture.wait_for(PATIENCE, |wire| (wire.esp > 200).then_some(()))?;
    stage.rig.kill(Side::Alice)?;
    let before = capture.look(|wire| wire.esp)?;
    // And a program that starts now.
    let late = stage.fetch_within(AFTERMATH)?;
    let wire = capture.finish()?;
    curl.kill()?;
    report.check(
        "the transfer was on its way, protected",
        "ESP packets",
        format!("{before} ESP packets"),
        moving.is_some(),
    );
    report.check(
        "a curl started now gets nothing",
        "no page",
        got(&late),
        !late.status.success() && late.stdout.is_empty(),
    );
    report.check(
        "not one clear packet appears",
        "0 clear",
        clear(&wire),
        wire.clear == 0 && wire.is_complete() && !wire.contains_bytes(NEEDLE.as_bytes()),
    );
    Ok(())
}

impl Stage {
    /// Four lines protect curl; the others are for the other two programs.
    fn policies(&self) -> (String, String) {
        let (alice, bob) = (Side::Alice.v4(), Side::Bob.v4());
        let [curl, wget, nc, python] =
            [&self.curl, &self.wget, &self.nc, &self.python].map(|p| p.display().to_string());
        let protected = |program: &str, peer| {
            format!(
                "application {program} {{\n  network {peer} protected P;\n  protection P {{ localport=any remoteport=any \
                 encryption mandatory; }}\n}}\n"
            )
        };
        let other =
            |program: &str, class: &str| format!("application {program} {{\n  network {bob} {class};\n}}\n");
        (
            protected(&curl, bob) + &other(&wget, "trusted") + &other(&nc, "untrusted"),
            protected(&python, alice),
        )
    }

    fn fetch(&self) -> anyhow::Result<Finished> {
        self.fetch_within(PATIENCE)
    }

    fn fetch_within(&self, limit: Duration) -> anyhow::Result<Finished> {
        let url = format!("http://{}:{PROTECTED_PORT}{PAGE}", Side::Bob.v4());
        let seconds = limit.as_secs().to_string();
        let curl = Program::new(&self.curl).args(["-sS", "--max-time", &seconds, &url]);
        Ok(self.rig.lab.alice().run_program(curl, limit + PATIENCE)?)
    }

    /// A curl that is busy for a while.
    fn slow_curl(&self) -> anyhow::Result<Running> {
        let url = format!("http://{}:{PROTECTED_PORT}{LONG}", Side::Bob.v4());
        let rate = (LONG_SIZE / 16).to_string();
        let curl = Program::new(&self.curl).args(["-sS", "-o", "/dev/null", "--limit-rate", &rate, &url]);
        Ok(self.rig.lab.alice().spawn(curl)?)
    }

    /// What the daemon says of a running program's connection.
    fn why(&self, program: &Running) -> anyhow::Result<Explanation> {
        let pid = program.pid().to_string();
        let deadline = netio::clock::monotonic() + PATIENCE;
        loop {
            let document = self.rig.json(Side::Alice, &["explain", "--pid", &pid])?;
            let sockets = document["sockets"].as_array();
            if let Some(socket) = sockets.and_then(|all| all.iter().find(|s| !s["decision"].is_null())) {
                return Ok(Explanation::from(socket));
            }
            anyhow::ensure!(netio::clock::monotonic() < deadline, "no flow of process {pid}: {document}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A verdict and the line behind it.
struct Explanation {
    verdict: String,
    line: Option<u64>,
    text: String,
}

impl From<&Value> for Explanation {
    fn from(document: &Value) -> Explanation {
        let decision = &document["decision"];
        let verdict = decision["verdict"].as_str().unwrap_or("none").to_owned();
        let line = decision["line"]["line"].as_u64();
        let text = match line {
            Some(line) => format!("{verdict}, alice.policy:{line}"),
            None => verdict.clone(),
        };
        Explanation { verdict, line, text }
    }
}

fn got(answer: &Finished) -> String {
    match answer.status.code() {
        Some(0) => format!("{} octets", answer.stdout.len()),
        code => format!("exit {}, {}", code.unwrap_or(-1), answer.err().trim()),
    }
}

fn clear(wire: &Evidence) -> String {
    let first = wire.all_clear().first().map(|seen| format!(" (first: {seen})")).unwrap_or_default();
    format!("{} clear{first}", wire.clear)
}
