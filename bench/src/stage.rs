//! Two lab hosts with a daemon each, on which a program is protected from the other host.

use crate::product;
use anyhow::{Context, ensure};
use lab::rig::{Pair, Rig, RigOptions};
use lab::{Finished, Side};
use std::path::{Path, PathBuf};

/// How the hosts are made.
pub struct Stage<'a> {
    /// The last part of the lab's name, behind `rvl-bench-`.
    pub name: &'a str,
    /// What runs as `PROGRAM run`; none: the `ravelin` program.
    pub daemon: Option<PathBuf>,
    /// Further arguments of the daemons.
    pub args: &'a [&'a str],
    /// The path of the protected program.
    pub program: &'a Path,
    /// More networks of the program on alice, as the policy language has them.
    pub networks: &'a str,
}

impl Stage<'_> {
    /// Build it: hosts, policies, daemons, and a tunnel by AES-128-GCM over IPv4.
    ///
    /// # Errors
    /// Without root, or where something does not come up; nothing is left then.
    pub fn build(&self) -> anyhow::Result<Rig> {
        self.build_with(&Pair { mode: "tunnel", ..Pair::default() })
    }

    /// Build the hosts like [`Stage::build`], with a tunnel of another kind.
    ///
    /// # Errors
    /// As [`Stage::build`].
    pub fn build_with(&self, pair: &Pair) -> anyhow::Result<Rig> {
        let options = RigOptions {
            name: format!("rvl-bench-{}", self.name),
            binary: product::ravelin()?,
            daemon: self.daemon.clone(),
            segmentation: true,
        };
        let mut rig = Rig::build(&options)?;
        for (side, peer, networks) in [(Side::Alice, Side::Bob, self.networks), (Side::Bob, Side::Alice, "")]
        {
            rig.set_policy(side, &policy(self.program, peer, networks))?;
            rig.start_with(side, self.args).with_context(|| format!("starting {}'s daemon", side.name()))?;
        }
        rig.associate(pair)?;
        Ok(rig)
    }
}

fn policy(program: &Path, peer: Side, networks: &str) -> String {
    format!(
        "application \"{}\" {{\n  network {} protected P;\n  {networks}\n  \
         protection P {{ localport=any remoteport=any encryption mandatory; }}\n}}\n",
        program.display(),
        peer.v4(),
    )
}

/// A program by name, with its links followed, as policy must name it.
///
/// # Errors
/// If it is not installed.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let path = found.with_context(|| format!("{name} is not installed; `make deps` installs it"))?;
    Ok(path.canonicalize()?)
}

/// What a program printed, if it succeeded.
///
/// # Errors
/// With everything it printed, if it did not.
pub fn succeeded(what: &str, finished: &Finished) -> anyhow::Result<String> {
    ensure!(finished.status.success(), "{what}: {}: {}{}", finished.status, finished.out(), finished.err());
    Ok(finished.out())
}
