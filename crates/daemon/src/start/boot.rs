//! Before the network is up: the kernel half and the TUN with the last policy, and no daemon yet (docs/design/0016). What must be
//! protected is refused until one runs; it takes over what this leaves, as it does after one that died.

use crypto::Registry;
use std::path::{Path, PathBuf};

use netio::cgroup::Cgroup;
use sockmon::Sockmon;

use super::{
    Before, First, RunError, RunOptions, become_the_daemon, explained, filter_queue, fit, left_out,
    note_host, note_tun, open_tun, take_back, translation, unified,
};
use crate::classes::ClassCatalogue;
use crate::keys::Keys;
use crate::surveyed::Surveyed;
use crate::uplinks::{self, Uplink, UplinkError};
use crate::{doctor, host, last_policy, plane, state};
use config::Config;
use control::{harden, privileges};

/// What [`boot`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Booted {
    /// The kernel half was there already, with the policy of a daemon: nothing was changed.
    Already,
    /// A policy is in force.
    Policy {
        /// Its text is from here.
        file: PathBuf,
        /// Applications that have one.
        applications: usize,
        /// Devices that are guarded; on every other one what must be protected is refused.
        uplinks: Vec<String>,
    },
}

/// Put the last policy in force: that of the last daemon, if it left one, else the policy file.
///
/// # Errors
/// [`RunError`]; the host is then as it was.
pub fn boot(config: &Config) -> Result<Booted, RunError> {
    harden::harden();
    privileges::begin().map_err(|source| RunError::System { doing: "giving up privileges", source })?;
    fit(doctor::quick_checks(None))?;
    let run_dir = state::make(&config.instance, false)?;
    let classes = ClassCatalogue::new(config::classes_of(config));
    let (lock, _) = become_the_daemon(config, &run_dir, RunOptions::default(), &Registry::new(), &classes)?;
    let before = Before::look(config, &run_dir)?;
    if before.pins {
        return Ok(Booted::Already);
    }
    let done = put_in_force(config, &run_dir, before);
    if done.is_err() {
        take_back(&config.instance, &run_dir, before);
    }
    drop(lock);
    done.map_err(explained)
}

fn put_in_force(config: &Config, run_dir: &Path, before: Before) -> Result<Booted, RunError> {
    let (file, First { mut store, candidate, .. }) = last(config, run_dir)?;
    let uplinks = guarded(config)?;
    // The book of used keys begins with the instance: a daemon that finds a record and no book takes it for lost.
    // No packet is protected before there is a daemon, so the book needs no suite yet.
    Keys::open(Registry::new(), run_dir, before.record)?;
    let parent = unified(config)?;
    let exempt = Cgroup::create(&parent, &format!("ravelin-{}", config.instance))?;
    note_host(config, run_dir, &exempt)?;
    let (tun, _) = open_tun(config, None, &uplinks)?;
    note_tun(run_dir, &tun);
    host::apply_settings()?;
    let known: Vec<u32> = uplinks.iter().map(|uplink| uplink.index).collect();
    let surveyed = Surveyed::look(config, &known)?;
    let mut monitor = Sockmon::attach(&sockmon::Options {
        others: surveyed.others,
        locals: surveyed.locals,
        uplinks: uplinks.iter().map(|uplink| uplink.index).collect(),
        omit: left_out(),
        marks: config.marks,
        per_socket: translation::again(config.translation),
        no_requests: !config.socket_requests,
        ..sockmon::Options::new(&config.instance, parent, exempt.path().to_owned(), tun.index())
    })?;
    filter_queue(&tun, &monitor, false)?;
    // The numbers before the kernel hears of them.
    store.commit_numbers(&candidate).map_err(|error| RunError::Policy(error.to_string()))?;
    plane::load_kernel(&mut monitor, &candidate, u64::MAX)?;
    Ok(Booted::Policy {
        file,
        applications: candidate.compiled.applications.len(),
        uplinks: uplinks.into_iter().map(|uplink| uplink.name).collect(),
    })
}

/// The last policy in force; without one, or if it cannot be read any more, that of the file.
fn last(config: &Config, run_dir: &Path) -> Result<(PathBuf, First), RunError> {
    let kept = last_policy::path(&config.policy);
    let suites = &config.crypto.ciphers.suites;
    let classes = ClassCatalogue::new(config::classes_of(config));
    if kept.exists() {
        match First::read(&kept, suites, &classes, run_dir, false) {
            Ok(first) => return Ok((kept, first)),
            Err(error) => tracing::warn!("the policy of the last daemon: {error}; going on with the file"),
        }
    }
    Ok((config.policy.clone(), First::read(&config.policy, suites, &classes, run_dir, false)?))
}

/// The devices that are there already.
fn guarded(config: &Config) -> Result<Vec<Uplink>, RunError> {
    match uplinks::present(config) {
        Ok(uplinks) => Ok(uplinks),
        Err(UplinkError::None | UplinkError::Missing(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
