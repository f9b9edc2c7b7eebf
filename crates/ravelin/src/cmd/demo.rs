//! `ravelin demo`: the main job, shown on this machine in under half a minute, without touching its network.
//!
//! Two hosts and a wire are made of network namespaces, unmodified programs run on them, and an eavesdropper on the wire says
//! what it could read. Each check prints what was expected and what was seen.

mod checks;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use lab::rig::{Rig, RigOptions};
use lab::{CaptureOptions, Program, Running, Side, Transport};

use crate::exit::{Failure, Kind};
use report::Report;

const NAME: &str = "rvl-demo";

/// What curl fetches; no other octets on the wire look like it.
const NEEDLE: &str = "the ravelin stands before the gate";
/// The path of curl's request.
const PAGE: &str = "/letter.txt";
/// The path of a file that takes a while.
const LONG: &str = "/long.bin";
/// Octets of that file.
const LONG_SIZE: usize = 64 << 20;

/// Port of the server that curl talks to.
const PROTECTED_PORT: u16 = 8080;
/// Port of the server that wget talks to.
const CLEAR_PORT: u16 = 8081;

/// How long a program may take, on an emulated processor too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Show on this machine, in network namespaces of its own, how an unmodified program is protected.
#[derive(Debug, Args)]
pub struct Demo {
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
    /// Leave hosts, daemons and policies in place afterwards, and say how to look around.
    #[arg(long, conflicts_with = "clean")]
    keep: bool,
    /// Only remove what an earlier `--keep` or a crash left.
    #[arg(long)]
    clean: bool,
}

impl Demo {
    pub fn execute(self) -> anyhow::Result<()> {
        let binary = std::env::current_exe().context("finding this program")?;
        if self.clean {
            let cleaned = Rig::clean(NAME, &binary);
            Rig::sweep();
            return cleaned;
        }
        let options = RigOptions { name: NAME.to_owned(), binary, daemon: None, segmentation: true };
        let mut stage = Stage::build(&options)?;
        let mut report = Report::new(self.json);
        checks::run(&mut stage, &mut report)?;
        if self.keep {
            stage.rig.start(Side::Alice)?;
            stage.rig.associate(&checks::pair())?;
            if !self.json {
                println!("{}", stage.directions());
            }
            stage.keep();
        } else {
            drop(stage);
            Rig::sweep();
        }
        let failed = report.finish()?;
        if failed > 0 {
            return Err(Failure::silent(Kind::Failed));
        }
        Ok(())
    }
}

/// The hosts, the servers, and the programs' paths.
struct Stage {
    rig: Rig,
    servers: Vec<Running>,
    python: PathBuf,
    busybox: PathBuf,
    curl: PathBuf,
    wget: PathBuf,
    nc: PathBuf,
}

impl Stage {
    fn build(options: &RigOptions) -> anyhow::Result<Stage> {
        let mut rig = Rig::build(options)?;
        for side in Side::BOTH {
            // The daemons' own probes of the path are ESP too; what is counted here is to be the programs'.
            rig.configure(side, "[icmp]\nprobe = false\n");
        }
        let mut stage = Stage {
            python: executable("python3")?,
            busybox: executable("busybox")?,
            curl: executable("curl")?,
            wget: executable("wget")?,
            nc: executable("nc")?,
            rig,
            servers: Vec::new(),
        };
        stage.serve()?;
        Ok(stage)
    }

    /// Two servers on bob, neither of which knows of Ravelin.
    fn serve(&mut self) -> anyhow::Result<()> {
        let site = self.rig.folder().join("site");
        std::fs::create_dir_all(&site)?;
        std::fs::write(site.join(&PAGE[1..]), format!("{NEEDLE}\n").repeat(64))?;
        // Not zeros, which the eavesdropper could not tell from padding.
        let line = format!("{NEEDLE} ");
        let long: Vec<u8> = line.bytes().cycle().take(LONG_SIZE).collect();
        std::fs::write(site.join(&LONG[1..]), long)?;
        let port = PROTECTED_PORT.to_string();
        let python = Program::new(&self.python).args(["-u", "-m", "http.server", &port]).directory(&site);
        self.server(python, PROTECTED_PORT)?;
        let port = CLEAR_PORT.to_string();
        let busybox = Program::new(&self.busybox).args(["httpd", "-f", "-p", &port, "-h"]).arg(&site);
        self.server(busybox, CLEAR_PORT)
    }

    fn server(&mut self, program: Program, port: u16) -> anyhow::Result<()> {
        let bob = self.rig.lab.bob();
        let mut server = bob.spawn(program)?;
        bob.wait_for_listener(Transport::Tcp, port, &mut server, PATIENCE)?;
        self.servers.push(server);
        Ok(())
    }

    fn capture(&self) -> anyhow::Result<lab::Capture> {
        let watch = vec![NEEDLE.into(), format!("GET {PAGE}").into_bytes()];
        Ok(self.rig.lab.capture(CaptureOptions { watch, ..CaptureOptions::default() })?)
    }

    fn directions(&self) -> String {
        let instance = self.rig.instance(Side::Alice);
        format!(
            "Left in place. To look around:\n  \
             nsenter --net=/run/netns/{NAME}-wire tcpdump -ni alice -A\n  \
             ravelin status --instance {instance}\n  \
             ravelin sa list --instance {instance}\n\
             To remove it: ravelin demo --clean"
        )
    }

    fn keep(self) {
        let Stage { rig, servers, .. } = self;
        servers.into_iter().for_each(std::mem::forget);
        rig.keep();
    }
}

/// A program by name, with links followed: policy is about files, and so is the reader's eye.
fn executable(name: &str) -> anyhow::Result<PathBuf> {
    let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    // The distribution's own first: a shim in /usr/local may be a script.
    let found = folders[2..].iter().chain(&folders[..2]).map(|folder| PathBuf::from(folder).join(name));
    let path = found.into_iter().find(|path| path.is_file());
    let path = path.ok_or_else(|| {
        Failure::with_remedy(
            Kind::Failed,
            format!("the demonstration runs `{name}`, which is not installed"),
            "on Debian: apt-get install curl wget netcat-openbsd busybox python3",
        )
    })?;
    path.canonicalize().with_context(|| format!("following {}", path.display()))
}
