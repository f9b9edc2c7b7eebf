//! Debian's packages: what is missing is installed, and none of it starts on this host.
//!
//! A package with a service starts it, and enables it for the next boot. While packages are installed, `/usr/sbin/policy-rc.d` forbids
//! the first (it is made for that and removed, unless the host has one); units and start scripts that came with them are masked or
//! disabled. A package that would remove another one is not installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Why packages cannot be had, by name.
pub type Missing = BTreeMap<String, String>;

/// Install what is missing of these.
///
/// # Errors
/// If the host cannot be kept from starting what is installed; that a package is missing is in the answer.
pub fn install(wanted: &BTreeSet<&str>) -> anyhow::Result<Missing> {
    if !Path::new("/usr/bin/dpkg-query").exists() {
        println!("not a Debian system; a program that is not there under Debian's name is skipped");
        return Ok(Missing::new());
    }
    let before = installed()?;
    let missing: Vec<&str> = wanted.iter().copied().filter(|name| !before.contains(*name)).collect();
    if missing.is_empty() {
        return Ok(Missing::new());
    }
    println!("installing {}", missing.join(" "));
    let _closed = Closed::new()?;
    // Lists that are old may do.
    let _ = apt(&["update"]);
    let all = apt(&[&["install"][..], &missing].concat());
    let mut reasons = Missing::new();
    if all.is_err() {
        // One of them spoils it for all.
        for name in &missing {
            if let Err(error) = apt(&["install", name]) {
                reasons.insert((*name).to_owned(), format!("{error:#}"));
            }
        }
    }
    let after = installed()?;
    keep_quiet(after.difference(&before))?;
    Ok(reasons)
}

fn installed() -> anyhow::Result<BTreeSet<String>> {
    let list = Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status} ${Package}\n"]).output();
    let list = list.context("asking dpkg-query")?;
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_prefix("installed ")).map(str::to_owned).collect())
}

fn apt(words: &[&str]) -> anyhow::Result<()> {
    let done = Command::new("apt-get")
        .args(["-y", "-q", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", "--no-remove"])
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("running apt-get")?;
    let text = String::from_utf8_lossy(&done.stderr);
    let why = text.lines().find(|line| line.starts_with("E: ")).unwrap_or("apt-get failed");
    ensure!(done.status.success(), "{}", why.trim_start_matches("E: "));
    Ok(())
}

/// Units and start scripts of these packages are not to run, now or after a boot.
fn keep_quiet<'a>(packages: impl Iterator<Item = &'a String>) -> anyhow::Result<()> {
    let mut units = BTreeSet::new();
    let mut scripts = BTreeSet::new();
    for package in packages {
        let list = Command::new("dpkg-query").args(["-L", package]).output().context("asking dpkg-query")?;
        for line in String::from_utf8_lossy(&list.stdout).lines() {
            let Some((folder, name)) = line.rsplit_once('/') else { continue };
            let starts = [".service", ".socket", ".timer", ".path"].iter().any(|end| name.ends_with(end));
            // An instance of a template is enabled by somebody, the template itself is nothing that runs.
            if folder.ends_with("/systemd/system") && starts && !name.contains('@') {
                units.insert(name.to_owned());
            } else if folder == "/etc/init.d" {
                scripts.insert(name.to_owned());
            }
        }
    }
    if Path::new("/usr/sbin/update-rc.d").exists() {
        for script in &scripts {
            run("update-rc.d", &[script, "disable"])?;
        }
    }
    if !units.is_empty() {
        if Path::new("/usr/bin/systemctl").exists() || Path::new("/bin/systemctl").exists() {
            let words: Vec<&str> =
                ["mask", "--quiet"].into_iter().chain(units.iter().map(String::as_str)).collect();
            run("systemctl", &words)?;
        }
        println!("masked {}", units.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}

fn run(program: &str, words: &[&str]) -> anyhow::Result<()> {
    let done = Command::new(program).args(words).output();
    let done = done.with_context(|| format!("running {program}"))?;
    let text = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{program} {}: {}", words.join(" "), text.trim());
    Ok(())
}

/// A ban on starting services: as long as it lives, installing starts nothing.
struct Closed {
    made: bool,
}

impl Closed {
    fn new() -> anyhow::Result<Closed> {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY);
        match file {
            Ok(mut file) => {
                let closed = Closed { made: true };
                file.write_all(b"#!/bin/sh\nexit 101\n").with_context(|| format!("writing {POLICY}"))?;
                Ok(closed)
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // The host's own: if it lets services start, they would.
                let asked = Command::new(POLICY).args(["a-service-of-the-drill", "start"]).status();
                let asked = asked.with_context(|| format!("asking {POLICY}"))?;
                ensure!(
                    asked.code() == Some(101),
                    "{POLICY} of this host lets packages start services; install them yourself, or let it exit with 101"
                );
                Ok(Closed { made: false })
            }
            Err(error) => Err(error).with_context(|| format!("making {POLICY}")),
        }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if self.made {
            let _ = fs::remove_file(POLICY);
        }
    }
}
