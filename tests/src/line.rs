//! A scrubber in line between alice, who is outside, and bob, who is inside: the lab's wire without its bridge.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use lab::{Lab, LabOptions, Program, Running, Side};
use netio::link::Links;
use serde_json::Value;

use crate::{PATIENCE, Scratch, binary, program, try_wait_until};

/// Hosts, the gateway between them, and the process that is the line.
#[derive(Debug)]
pub struct LineRig {
    /// The hosts; the wire is the gateway, its interfaces are `alice` and `bob`.
    pub lab: Lab,
    binary: PathBuf,
    process: Option<Child>,
    /// Processes that were started: each has a log of its own.
    started: u32,
    folder: Scratch,
}

impl LineRig {
    /// Two hosts and two interfaces that nothing joins.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn build(name: &str) -> anyhow::Result<LineRig> {
        LineRig::of(name, binary())
    }

    /// Two hosts and two interfaces that nothing joins, for another `ravelin` program.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn of(name: &str, binary: PathBuf) -> anyhow::Result<LineRig> {
        let lab = Lab::build(&LabOptions { name: name.to_owned(), segmentation: true })?;
        lab.wire().run(|| part(Side::BOTH.map(Side::name)))??;
        let rig = LineRig { lab, binary, process: None, started: 0, folder: Scratch::new(name) };
        // What a run left that was killed.
        rig.ravelin(&["inline", "detach"])?;
        Ok(rig)
    }

    /// Two hosts and a line that is up.
    ///
    /// # Errors
    /// If it cannot be built or does not come up.
    pub fn with_line(name: &str, args: &[&str]) -> anyhow::Result<LineRig> {
        let mut rig = LineRig::build(name)?;
        rig.start(args)?;
        Ok(rig)
    }

    /// Start the line and wait until it is ready.
    ///
    /// # Errors
    /// With what it printed, if it does not come up.
    pub fn start(&mut self, args: &[&str]) -> anyhow::Result<()> {
        self.begin(args)?;
        let log = self.log_file();
        let ready = || Ok(std::fs::read_to_string(&log)?.contains("ready: "));
        try_wait_until("the line is ready", PATIENCE, ready)
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())
    }

    /// Start the line, without waiting for it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn begin(&mut self, args: &[&str]) -> anyhow::Result<()> {
        self.started += 1;
        let log = File::create(self.log_file())?;
        let mut command = Command::new(&self.binary);
        command.args(["inline", "run", "--outside", Side::Alice.name(), "--inside", Side::Bob.name()]);
        command.args(["--instance", self.lab.name()]).args(args);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A host's own group, so that it goes with the lab.
        self.lab.wire().prepare(&mut command, Some(self.lab.alice().cgroup()))?;
        self.process = Some(command.spawn()?);
        Ok(())
    }

    /// The process that is the line.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// What the line logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join(format!("log.{}", self.started))
    }

    /// Kill the line's process (SIGKILL) and wait for its end.
    ///
    /// # Errors
    /// If it does not end.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Start another process that takes the line over, and wait until it is ready and the old one has ended.
    ///
    /// # Errors
    /// With what it printed, if it does not come up.
    pub fn take_over(&mut self, args: &[&str]) -> anyhow::Result<()> {
        let old = self.process.take();
        self.start(&[&["--take-over"], args].concat())?;
        if let Some(mut old) = old {
            let status = old.wait()?;
            ensure!(status.success(), "the old process: {status}");
        }
        Ok(())
    }

    /// Ask it to end (SIGTERM), and wait.
    ///
    /// # Errors
    /// If it does not end well.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let pid = process.id().to_string();
        Command::new(program("kill")).arg(&pid).status()?;
        let status = process.wait()?;
        ensure!(status.success(), "{status}: {}", self.log());
        Ok(())
    }

    /// A command `ravelin ARGS` on the gateway, of whatever instance.
    ///
    /// # Errors
    /// If it cannot be made ready.
    pub fn command(&self, args: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(&self.binary);
        command.args(args);
        self.lab.wire().prepare(&mut command, Some(self.lab.alice().cgroup()))?;
        Ok(command)
    }

    /// Run `ravelin ARGS --instance NAME` on the gateway; what it printed.
    ///
    /// # Errors
    /// With what it printed, if it fails.
    pub fn ravelin(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.binary);
        command.args(args).args(["--instance", self.lab.name()]);
        self.lab.wire().prepare(&mut command, None)?;
        let done = command.output()?;
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        conform::command(args, &out);
        ensure!(done.status.success(), "{args:?}: {out}{err}");
        Ok(out.into_owned())
    }

    /// A document of `ravelin inline WORD --json`.
    ///
    /// # Errors
    /// If the line does not answer.
    pub fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        let args: Vec<&str> = ["inline"].iter().chain(args).chain(&["--json"]).copied().collect();
        Ok(serde_json::from_str(&self.ravelin(&args)?)?)
    }

    /// What is on the host of this line: its entry of `check`.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn check(&self) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.binary);
        command.args(["inline", "check", "--json"]);
        self.lab.wire().prepare(&mut command, None)?;
        let answer: Value = serde_json::from_slice(&command.output()?.stdout)?;
        let lines = answer["lines"].as_array().context("lines")?;
        let ours = lines.iter().find(|line| line["instance"] == self.lab.name());
        Ok(ours.cloned().unwrap_or(Value::Null))
    }

    /// A counter of one side: 0 outside, 1 inside.
    ///
    /// # Errors
    /// If the line does not answer.
    pub fn side(&self, side: usize, pointer: &str) -> anyhow::Result<u64> {
        let status = self.json(&["status"])?;
        status["sides"][side].pointer(pointer).and_then(Value::as_u64).context("a counter")
    }

    /// What a rule counted: dropped, changed, observed.
    ///
    /// # Errors
    /// If the line does not answer.
    pub fn rule(&self, id: &str) -> anyhow::Result<[u64; 3]> {
        let rules = self.json(&["rules"])?;
        let found = rules["rules"].as_array().and_then(|all| all.iter().find(|rule| rule["id"] == id));
        Ok(["dropped", "changed", "observed"]
            .map(|word| found.and_then(|rule| rule[word].as_u64()).unwrap_or_default()))
    }

    /// Run a script on a host to its end; what it printed.
    ///
    /// # Errors
    /// With what it printed, if it fails.
    pub fn python(&self, side: Side, script: &str, args: &[&str]) -> anyhow::Result<String> {
        let python = Program::new(program("python3")).args(["-c", script]).args(args);
        let done = self.lab.host(side).run_program(python, PATIENCE * 3)?;
        ensure!(done.status.success(), "{}{}", done.out(), done.err());
        Ok(done.out())
    }

    /// Start a script on a host and wait until it says `ready`.
    ///
    /// # Errors
    /// With what it printed, if it fails.
    pub fn serve(&self, side: Side, script: &str, args: &[&str]) -> anyhow::Result<Running> {
        let python = Program::new(program("python3")).args(["-c", script]).args(args);
        let running = self.lab.host(side).spawn(python)?;
        running.wait_for_output("ready", PATIENCE)?;
        Ok(running)
    }

    /// Whether one echo request of a host is answered.
    ///
    /// # Errors
    /// If ping is not there.
    pub fn pings(&self, side: Side, address: &str) -> anyhow::Result<bool> {
        let ping = Program::new(program("ping")).args(["-n", "-c", "1", "-W", "2", address]);
        Ok(self.lab.host(side).run_program(ping, PATIENCE)?.status.success())
    }

    /// Wait until a host's echo request is answered.
    ///
    /// # Errors
    /// If that does not come.
    pub fn wait_for_ping(&self, side: Side, address: &str) -> anyhow::Result<()> {
        try_wait_until(&format!("{address} answers"), PATIENCE, || self.pings(side, address))
            .with_context(|| self.log())
    }

    /// Run `ip ARGS` on the gateway.
    ///
    /// # Errors
    /// With what it printed, if it fails.
    pub fn ip(&self, args: &str) -> anyhow::Result<()> {
        let mut command = Command::new(program("ip"));
        command.args(args.split(' '));
        self.lab.wire().prepare(&mut command, None)?;
        let done = command.output()?;
        ensure!(done.status.success(), "ip {args}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    }
}

impl Drop for LineRig {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("the line's log:\n{}", self.log());
        }
        // Links of devices that are gone leave their pins.
        let _ = self.ravelin(&["inline", "detach"]);
    }
}

/// Take ports off the lab's bridge.
fn part(ports: [&str; 2]) -> anyhow::Result<()> {
    let mut links = Links::open()?;
    for port in ports {
        let index = links.index(port)?;
        links.set_master(index, 0)?;
    }
    Ok(())
}
