//! Two lab hosts, alice and bob, each with a daemon of this very program: `ravelin demo` and the tests stand on it.
//!
//! What enters: policies, programs to run. What leaves: their output and what the wire showed. Daemons are started, asked and
//! ended as an operator does it, through the command line. Dropping the rig ends them and takes their kernel half down;
//! building one of the same name first removes what a crash left.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::{Finished, Lab, LabOptions, Program, Running, Side};
use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// How long a daemon may take to start, and a command to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A function that hears the arguments and the standard output of a command.
pub type Listener = fn(arguments: &[&str], printed: &str);

/// The function that hears of every command that a rig runs.
static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Have every rig of this process tell what its commands print; tests compare it with schemas. The first one stays.
pub fn tell(listener: Listener) {
    let _ = LISTENER.set(listener);
}

/// What a rig is made of.
#[derive(Clone, Debug)]
pub struct RigOptions {
    /// Names the lab and the daemons' instances; at most 20 letters, digits and dashes.
    pub name: String,
    /// The path of the `ravelin` program.
    pub binary: PathBuf,
    /// What runs as `PROGRAM run --config FILE` in its place; none: the `ravelin` program.
    pub daemon: Option<PathBuf>,
    /// Whether the hosts' devices cut super-packets.
    pub segmentation: bool,
}

/// Security associations between the two hosts, one each way.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Over IPv6 instead of IPv4.
    pub v6: bool,
    /// The word for `--mode`: `transport` or `tunnel`.
    pub mode: &'static str,
    /// The name of the suite for `--suite`.
    pub suite: &'static str,
    /// Further arguments of `ravelin sa add` for both directions on alice's side.
    pub alice: Vec<String>,
    /// Further arguments of `ravelin sa add` for both directions on bob's side.
    pub bob: Vec<String>,
}

impl Default for Pair {
    fn default() -> Pair {
        Pair { v6: false, mode: "transport", suite: "aes128gcm", alice: Vec::new(), bob: Vec::new() }
    }
}

/// Two hosts with a daemon each.
pub struct Rig {
    /// The hosts and the wire.
    pub lab: Lab,
    folder: PathBuf,
    binary: PathBuf,
    daemon: PathBuf,
    name: String,
    daemons: [Option<Running>; 2],
    /// What a host's configuration says beside what every rig's says.
    more: [String; 2],
    /// The uplinks of a host's daemon.
    uplinks: [String; 2],
    /// The control group that a daemon watches in place of the host's.
    watched: [Option<PathBuf>; 2],
}

impl Rig {
    /// Remove what an earlier rig of this name left, then build the hosts; no daemon runs yet.
    ///
    /// # Errors
    /// Without root, or where the kernel refuses a part.
    pub fn build(options: &RigOptions) -> anyhow::Result<Rig> {
        let RigOptions { name, binary, daemon, segmentation } = options;
        Rig::clean(name, binary)?;
        let folder = folder(name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let lab = Lab::build(&LabOptions { name: name.clone(), segmentation: *segmentation })?;
        let daemon = daemon.as_ref().unwrap_or(binary).clone();
        let (binary, name) = (binary.clone(), name.clone());
        let (more, watched) = Default::default();
        let uplinks = ["\"eth0\"".to_owned(), "\"eth0\"".to_owned()];
        Ok(Rig { lab, folder, binary, daemon, name, more, uplinks, watched, daemons: [None, None] })
    }

    /// Remove everything that a rig of this name made or left: daemons, kernel half, hosts, files.
    ///
    /// # Errors
    /// If something of it cannot be removed.
    pub fn clean(name: &str, binary: &Path) -> anyhow::Result<()> {
        Lab::clean(name)?;
        for side in Side::BOTH {
            detach(binary, &instance(name, side))?;
        }
        match fs::remove_dir_all(folder(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", folder(name).display()))
            }
            _ => Ok(()),
        }
    }

    /// Remove the folder that rigs and daemons have theirs in, unless one of them is still in it.
    pub fn sweep() {
        let _ = fs::remove_dir(RUN);
    }

    /// A folder for files of the rig; goes with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A host's policy file.
    pub fn policy_file(&self, side: Side) -> PathBuf {
        self.folder.join(format!("{}.policy", side.name()))
    }

    /// A host's configuration file.
    pub fn config_file(&self, side: Side) -> PathBuf {
        self.folder.join(format!("{}.toml", side.name()))
    }

    /// The name of a host's daemon.
    pub fn instance(&self, side: Side) -> String {
        instance(&self.name, side)
    }

    /// Write a host's policy; a running daemon sees it at [`Rig::reload`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set_policy(&self, side: Side, text: &str) -> anyhow::Result<()> {
        fs::write(self.policy_file(side), text).context("writing a policy")
    }

    /// Lines (TOML) behind those that the rig writes into a host's configuration, from the next start on.
    pub fn configure(&mut self, side: Side, lines: &str) {
        self.more[side as usize] = lines.to_owned();
    }

    /// Have both daemons look after these uplinks instead of `eth0`, from the next start on.
    pub fn guard(&mut self, uplinks: &[&str]) {
        let quoted: Vec<String> = uplinks.iter().map(|name| format!("{name:?}")).collect();
        self.uplinks = [quoted.join(", "), quoted.join(", ")];
    }

    /// Have a host's daemon watch this control group instead of the host's own, from the next start on.
    pub fn watch(&mut self, side: Side, cgroup: PathBuf) {
        self.watched[side as usize] = Some(cgroup);
    }

    /// Start a host's daemon with the policy written before; returns when it answers.
    ///
    /// # Errors
    /// With everything it printed, if it does not start.
    pub fn start(&mut self, side: Side) -> anyhow::Result<()> {
        self.start_with(side, &[])
    }

    /// Start both daemons at once; returns when both answer.
    ///
    /// # Errors
    /// With everything that one printed, if it does not start.
    pub fn start_both(&mut self) -> anyhow::Result<()> {
        let launched = [self.launch(Side::Alice, &[])?, self.launch(Side::Bob, &[])?];
        for (side, daemon) in Side::BOTH.into_iter().zip(launched) {
            self.adopt(side, daemon).with_context(|| format!("starting {}'s daemon", side.name()))?;
        }
        Ok(())
    }

    /// Start a host's daemon as [`Rig::start`] does, with further arguments for `ravelin run`.
    ///
    /// # Errors
    /// As [`Rig::start`].
    pub fn start_with(&mut self, side: Side, args: &[&str]) -> anyhow::Result<()> {
        let daemon = self.launch(side, args)?;
        self.adopt(side, daemon)
    }

    /// Start a daemon without waiting for it.
    ///
    /// # Errors
    /// If the program cannot be run.
    pub fn launch(&self, side: Side, args: &[&str]) -> anyhow::Result<Running> {
        let config = self.write_config(side)?;
        let run = Program::new(&self.daemon).arg("run").arg("--config").arg(&config).args(args);
        Ok(self.lab.host(side).spawn(run)?)
    }

    /// What a host does at its boot (`ravelin boot`); what that printed, if it went well or not.
    ///
    /// # Errors
    /// If the program cannot be run.
    pub fn boot(&self, side: Side) -> anyhow::Result<Finished> {
        let config = self.write_config(side)?;
        let boot = Program::new(&self.binary).args(["boot", "--config"]).arg(&config);
        Ok(self.lab.host(side).run_program(boot, PATIENCE)?)
    }

    fn write_config(&self, side: Side) -> anyhow::Result<PathBuf> {
        let config = self.config_file(side);
        let own = self.lab.host(side).cgroup().path();
        let cgroup = self.watched[side as usize].as_deref().unwrap_or(own);
        let text = format!(
            "instance = \"{}\"\npolicy = \"{}\"\nuplinks = [{}]\ncgroup = \"{}\"\n{}\n",
            self.instance(side),
            self.policy_file(side).display(),
            self.uplinks[side as usize],
            cgroup.display(),
            self.more[side as usize],
        );
        fs::write(&config, text).context("writing a configuration")?;
        Ok(config)
    }

    /// Wait until a launched daemon answers; it is this host's daemon from now on.
    ///
    /// # Errors
    /// With everything it printed, if it ends instead.
    pub fn adopt(&mut self, side: Side, mut daemon: Running) -> anyhow::Result<()> {
        let deadline = netio::clock::monotonic() + PATIENCE;
        let pid = u64::from(daemon.pid());
        loop {
            if daemon.has_ended()? {
                bail!("{}'s daemon ended: {}", side.name(), daemon.output());
            }
            // A degraded daemon answers too, with an exit status of 1.
            if let Ok(answer) = self.command(side, &["status", "--json"], "")
                && let Ok(status) = serde_json::from_str::<Value>(&answer.out())
                && status["pid"].as_u64() == Some(pid)
            {
                break;
            }
            ensure!(
                netio::clock::monotonic() < deadline,
                "{}'s daemon does not answer: {}",
                side.name(),
                daemon.output()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        self.daemons[side as usize] = Some(daemon);
        Ok(())
    }

    /// The running daemon of a host.
    ///
    /// # Errors
    /// If it has none.
    pub fn daemon(&self, side: Side) -> anyhow::Result<&Running> {
        self.daemons[side as usize].as_ref().with_context(|| format!("{} has no daemon", side.name()))
    }

    /// Take a host's daemon away from the rig, still running.
    pub fn release(&mut self, side: Side) -> Option<Running> {
        self.daemons[side as usize].take()
    }

    /// SIGKILL for a host's daemon.
    ///
    /// # Errors
    /// If it has none, or it cannot be killed.
    pub fn kill(&mut self, side: Side) -> anyhow::Result<Finished> {
        let daemon = self.release(side).with_context(|| format!("{} has no daemon", side.name()))?;
        Ok(daemon.kill()?)
    }

    /// SIGTERM for a host's daemon; what it printed.
    ///
    /// # Errors
    /// If it has none, or does not end.
    pub fn stop(&mut self, side: Side) -> anyhow::Result<Finished> {
        let daemon = self.release(side).with_context(|| format!("{} has no daemon", side.name()))?;
        daemon.signal(libc::SIGTERM)?;
        Ok(daemon.finish(PATIENCE)?)
    }

    /// Run a `ravelin` command for a host's daemon. `--instance` is added for commands that talk to it.
    ///
    /// # Errors
    /// If it cannot be run or does not end; its own failure is in the status.
    pub fn command(&self, side: Side, args: &[&str], input: &str) -> anyhow::Result<Finished> {
        let mut program = Program::new(&self.binary).args(args);
        if args.first() != Some(&"policy") {
            program = program.arg("--instance").arg(self.instance(side));
        }
        let finished = self.lab.host(side).run_program(program.input(input), PATIENCE)?;
        if let Some(tell) = LISTENER.get() {
            tell(args, &finished.out());
        }
        Ok(finished)
    }

    /// Run a `ravelin` command as [`Rig::command`] does; a failure is an error. The answer is its standard output.
    ///
    /// # Errors
    /// With what the command printed.
    pub fn ravelin(&self, side: Side, args: &[&str], input: &str) -> anyhow::Result<String> {
        let finished = self.command(side, args, input)?;
        ensure!(
            finished.status.success(),
            "`ravelin {}` on {}: {} {}{}",
            args.join(" "),
            side.name(),
            finished.status,
            finished.out(),
            finished.err()
        );
        Ok(finished.out())
    }

    /// A read command's document.
    ///
    /// # Errors
    /// As [`Rig::ravelin`], or if it printed no JSON.
    pub fn json(&self, side: Side, args: &[&str]) -> anyhow::Result<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let text = self.ravelin(side, &args, "")?;
        serde_json::from_str(&text)
            .with_context(|| format!("`ravelin {}` printed no JSON: {text}", args.join(" ")))
    }

    /// Give both hosts fresh keys for one association each way.
    ///
    /// # Errors
    /// If a daemon refuses.
    pub fn associate(&self, pair: &Pair) -> anyhow::Result<()> {
        self.one_way(pair, Side::Alice, Side::Bob)?;
        self.one_way(pair, Side::Bob, Side::Alice)
    }

    /// The receiver first, so that nothing is sent that it could not open.
    fn one_way(&self, pair: &Pair, from: Side, to: Side) -> anyhow::Result<()> {
        let mut key = [0; 64];
        netio::random::fill(&mut key)?;
        let octets = &key[..keymat_len(pair.suite)];
        let hex = octets.iter().fold(String::new(), |mut hex, octet| {
            let _ = write!(hex, "{octet:02x}");
            hex
        });
        let address = |side: Side| if pair.v6 { side.v6().to_string() } else { side.v4().to_string() };
        let add = |side: Side, peer: Side, direction: &str, spi: &str| {
            let (local, remote) = (address(side), address(peer));
            let mut args =
                vec!["sa", "add", "--json", "--direction", direction, "--spi", spi, "--local", &local];
            args.extend(["--remote", &remote, "--mode", pair.mode, "--suite", pair.suite]);
            let extra = if side == Side::Alice { &pair.alice } else { &pair.bob };
            args.extend(extra.iter().map(String::as_str));
            let text = self.ravelin(side, &args, &hex)?;
            anyhow::Ok(serde_json::from_str::<Value>(&text)?)
        };
        let added = add(to, from, "in", "auto")?;
        let spi = added["sa"]["spi"].as_str().context("`sa add` says no SPI")?.to_owned();
        add(from, to, "out", &spi).map(drop)
    }

    /// Have a daemon read its policy again.
    ///
    /// # Errors
    /// If it refuses the policy.
    pub fn reload(&self, side: Side) -> anyhow::Result<String> {
        let args = ["policy", "reload", "--allow-missing", "--instance", &self.instance(side)];
        self.ravelin(side, &args, "")
    }

    /// Leave everything running when this value goes; [`Rig::clean`] removes it.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for side in Side::BOTH {
            drop(self.release(side));
            let _ = detach(&self.binary, &self.instance(side));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn instance(name: &str, side: Side) -> String {
    format!("{name}-{}", side.name())
}

/// Octets of keying material for the suites that rigs use.
fn keymat_len(suite: &str) -> usize {
    match suite {
        "aes128gcm" => 20,
        "3des-md5" => 40,
        "sha256" => 32,
        "aes128cbc-sha256" => 48,
        _ => 36,
    }
}

const RUN: &str = "/run/ravelin";

fn folder(name: &str) -> PathBuf {
    // Only root can write there, so nobody can put a link in its place.
    Path::new(RUN).join(format!("lab-{name}"))
}

fn detach(binary: &Path, instance: &str) -> anyhow::Result<()> {
    let output =
        std::process::Command::new(binary).args(["detach", "--yes", "--instance", instance]).output();
    let output = output.with_context(|| format!("running {}", binary.display()))?;
    ensure!(
        output.status.success(),
        "taking down what {instance} left: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
