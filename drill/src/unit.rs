//! One program in one address family, with what happens meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use lab::{Program, Running, Side};
use tests::try_wait_until;

use crate::case::{Case, Server, expand};
use crate::event::Event;
use crate::stage::{GROUP, Stage};

/// How long a preparation may take, and a server until it listens: long, for machines that have other work too.
const START: Duration = Duration::from_secs(180);

/// Octets of a program's output that a note quotes.
const QUOTED: usize = 300;

/// What is run at a time: one program in one family.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The entry of the program.
    pub case: Case,
    /// The address family: 4 or 6.
    pub family: u8,
}

/// The events of one run, and when they come.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The event before the servers start.
    pub before: Event,
    /// Milliseconds between the client's start and the second event.
    pub after: usize,
    /// The event while the client runs, or behind it if it was quick.
    pub meanwhile: Event,
}

/// The result of one run.
#[derive(Debug)]
pub struct Outcome {
    /// Whether the client still ran when something happened.
    pub in_flight: bool,
    /// What is wrong, if something is.
    pub failure: Option<String>,
}

impl Unit {
    /// A name for files.
    pub fn name(&self) -> String {
        format!("{}-{}", self.case.name, self.family)
    }

    /// The executables that the policy has to name; one in `${DIR}` need not be there yet. `scratch` is where folders of units are.
    ///
    /// # Errors
    /// If one is not there.
    pub fn programs(&self, scratch: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
        let lists = self.case.protect.iter().map(|pattern| match pattern.strip_prefix("${DIR}/") {
            Some(name) => Ok(vec![scratch.join(self.name()).join(name)]),
            None => expand(pattern),
        });
        Ok(lists.collect::<anyhow::Result<Vec<_>>>()?.concat().into_iter().collect())
    }

    /// Make its folder, empty: before the policy is loaded, so that a program that is built in it is known from its first instruction.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make_folder(&self, scratch: &Path) -> anyhow::Result<()> {
        let folder = scratch.join(self.name());
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))
    }

    /// Run the program with this plan. The caller ends what is left of it.
    ///
    /// # Errors
    /// If a daemon does not do as it should; what a program does wrong is in the outcome.
    pub fn run(&self, stage: &mut Stage, plan: Plan) -> anyhow::Result<Outcome> {
        stage.happen(plan.before)?;
        let folder = stage.folder.join(self.name());
        let servers = match self.set_out(stage, &folder) {
            Ok(servers) => servers,
            Err(error) => return Ok(Outcome { in_flight: false, failure: Some(format!("{error:#}")) }),
        };
        let mut client = self.start(stage, &folder, Side::Alice, &self.case.client)?;
        Stage::pause(plan.after);
        let in_flight = !client.has_ended()?;
        stage.happen(plan.meanwhile)?;
        let failure = self.judge(stage, &folder, client).err().map(|error| {
            let said = servers.iter().map(Running::output).collect::<Vec<_>>().join("\n");
            format!("{error:#} [server: {}]", quoted(&said))
        });
        Ok(Outcome { in_flight, failure })
    }

    /// Write the files, prepare, and start the servers.
    fn set_out(&self, stage: &Stage, folder: &Path) -> anyhow::Result<Vec<Running>> {
        for (name, text) in &self.case.files {
            let path = folder.join(name);
            fs::write(&path, self.filled(stage, folder, text))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        if let Some(script) = &self.case.prepare {
            let done = self.start(stage, folder, Side::Bob, script)?.finish(START)?;
            ensure!(done.status.success(), "preparing: {}", quoted(&format!("{}{}", done.out(), done.err())));
        }
        self.case.server.iter().map(|server| self.serve(stage, folder, server)).collect()
    }

    fn serve(&self, stage: &Stage, folder: &Path, server: &Server) -> anyhow::Result<Running> {
        let side = Side::from(server.on);
        let mut running = self.start(stage, folder, side, &server.run)?;
        if let Some((transport, port)) = server.listens()? {
            // A server that goes into the background ends here, and listens all the same.
            let waited = try_wait_until(&format!("a listener on {transport:?} port {port}"), START, || {
                let host = stage.rig.lab.host(side);
                Ok(host.wait_for_listener(transport, port, &mut running, Duration::from_millis(200)).is_ok())
            });
            waited.with_context(|| quoted(&running.output()))?;
        }
        if let Some(script) = &server.ready {
            let waited = try_wait_until("a server to be ready", START, || {
                Ok(self.start(stage, folder, side, script)?.finish(START)?.status.success())
            });
            waited.with_context(|| quoted(&running.output()))?;
        }
        Ok(running)
    }

    fn start(&self, stage: &Stage, folder: &Path, side: Side, script: &str) -> anyhow::Result<Running> {
        let mut program =
            Program::new("/bin/sh").args(["-eu", "-c", script]).directory(folder).in_cgroup(GROUP);
        for (name, value) in self.environment(stage, folder) {
            program = program.env(name, value);
        }
        Ok(stage.rig.lab.host(side).spawn(program)?)
    }

    fn environment(&self, stage: &Stage, folder: &Path) -> Vec<(&'static str, String)> {
        let address =
            |side: Side| if self.family == 4 { side.v4().to_string() } else { side.v6().to_string() };
        let url = |side: Side| if self.family == 4 { address(side) } else { format!("[{}]", address(side)) };
        let payload = stage.payload.display().to_string();
        vec![
            ("FAMILY", self.family.to_string()),
            ("ALICE_URL", url(Side::Alice)),
            ("BOB_URL", url(Side::Bob)),
            ("ALICE", address(Side::Alice)),
            ("BOB", address(Side::Bob)),
            ("MARK", stage.mark.clone()),
            ("PAYLOAD", payload),
            ("GOT", folder.join("got").display().to_string()),
            ("DIR", folder.display().to_string()),
            ("HOME", folder.display().to_string()),
            ("LC_ALL", "C.UTF-8".to_owned()),
        ]
    }

    /// The text with `${NAME}` replaced by what scripts know under that name.
    fn filled(&self, stage: &Stage, folder: &Path, text: &str) -> String {
        let known = self.environment(stage, folder);
        known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }

    fn judge(&self, stage: &Stage, folder: &Path, client: Running) -> anyhow::Result<()> {
        let done = client.finish(Duration::from_secs(self.case.seconds))?;
        let (out, err) = (done.out(), done.err());
        ensure!(done.status.success(), "client: {}: {}", done.status, quoted(&format!("{out}{err}")));
        let Some(says) = &self.case.says else {
            let got = fs::read(folder.join("got")).context("the client received nothing")?;
            let sent = fs::read(&stage.payload).context("reading the payload")?;
            ensure!(
                got == sent,
                "the client received {} octets that are not those sent, {}",
                got.len(),
                sent.len()
            );
            return Ok(());
        };
        let says = self.filled(stage, folder, says);
        ensure!(out.contains(&says), "the client does not say `{says}`: {}", quoted(&format!("{out}{err}")));
        Ok(())
    }
}

/// The end of what a program said, on one line.
fn quoted(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let skip = line.chars().count().saturating_sub(QUOTED);
    line.chars().skip(skip).collect()
}
