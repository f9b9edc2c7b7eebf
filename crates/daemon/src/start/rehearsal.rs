//! What a daemon that takes over tries before the one that works is asked to end: everything that the start needs of
//! the host and that two daemons can have at once. What fails here leaves the running daemon as it is; what fails
//! behind it ends both, since the old daemon has wiped its keys by then (docs/design/0003, item 7).
//!
//! Sockets are opened and closed again: kept open, they would collect a second copy of what the running daemon
//! receives. What the kernel half has is read, and the policy is planned beside it as far as nothing is written. What
//! cannot be tried: the programs of the kernel half in the place of the running ones (that the kernel takes them was
//! tried), the queue of an AF_XDP socket, which has one owner, and files of the instance that are written for the new
//! daemon.

use std::path::Path;

use netio::cgroup::Cgroup;
use netio::clear::ClearSender;

use super::error::RunError;
use super::parts::{open_errors, open_raw, raw_sender, read_record, unified};
use crate::datapath;
use crate::gateway;
use crate::host::Record;
use crate::policy_store::{self, Candidate};
use crate::surveyed::Surveyed;
use crate::uplinks::Uplink;
use config::Config;
use control::socket;

/// Try what the start needs; `candidate` is the policy that it would put in force.
///
/// # Errors
/// What it cannot have.
pub(super) fn rehearse(
    config: &Config,
    run_dir: &Path,
    uplinks: &[Uplink],
    candidate: &mut Candidate,
) -> Result<(), RunError> {
    let record = read_record(run_dir)?;
    if let Some(record) = &record {
        same_namespace(record, netio::netns::cookie()?)?;
    }
    unified(config)?;
    // Without a daemon the hand-over says so.
    let runs = socket::is_locked(run_dir);
    fit_the_kernel_half(config, candidate, runs)?;
    // The running daemon's group, which is this one's afterwards: the kernel half lets no other program open some of
    // the sockets.
    match record {
        Some(record) if record.cgroup.exists() => Cgroup::open(&record.cgroup)?.enter()?,
        Some(record) if runs => {
            return Err(out_of_sight(&format!("its control group {}", record.cgroup.display())));
        }
        _ => {}
    }
    let insides = gateway::insides(config)?;
    let known: Vec<u32> =
        uplinks.iter().map(|uplink| uplink.index).chain(insides.iter().map(|inside| inside.index)).collect();
    Surveyed::look(config, &known)?;
    drop((ClearSender::open()?, open_raw(config)?, open_errors()?, raw_sender()?));
    Ok(datapath::frames::rehearse(config, uplinks)?)
}

/// The kernel half, the TUN and the sockets of an instance are in one network namespace, and so is who takes it over.
fn same_namespace(record: &Record, own: u64) -> Result<(), RunError> {
    if record.netns == own {
        return Ok(());
    }
    Err(RunError::Unfit(format!(
        "the instance is in another network namespace (cookie {}) than this process (cookie {own}); run it there, or take \
         the instance off the host with `ravelin detach` first (traffic is unprotected until the daemon runs)",
        record.netns
    )))
}

/// A daemon that runs has pins and a control group, so who does not see them looks at other mounts than it does.
fn out_of_sight(what: &str) -> RunError {
    RunError::Unfit(format!(
        "a daemon runs, and {what} cannot be seen from here; run the new daemon in the mount and cgroup namespaces of the \
         running one. If somebody has just removed the pins, try again: the daemon makes them anew within five seconds"
    ))
}

/// The marks are where the running daemon's are, and the policy has room in the tables beside the one in force. `runs`:
/// there is a daemon.
fn fit_the_kernel_half(config: &Config, candidate: &mut Candidate, runs: bool) -> Result<(), RunError> {
    let kernel = match sockmon::Rehearsal::of(&config.instance, config.marks)? {
        Some(kernel) => kernel,
        None if runs => return Err(out_of_sight("its kernel half (the pins under /sys/fs/bpf/ravelin)")),
        None => return Ok(()),
    };
    candidate.follow(&kernel.moved(&candidate.compiled.subjects)?);
    let compiled = &candidate.compiled;
    Ok(kernel.fits(&compiled.spd, &compiled.subjects, &policy_store::orders(candidate))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_of_another_network_namespace_is_not_taken_over() {
        let record = Record { netns: 7, ..Record::default() };
        assert!(same_namespace(&record, 7).is_ok());
        let refused = same_namespace(&record, 8).unwrap_err().to_string();
        assert!(refused.contains("another network namespace (cookie 7)"), "{refused}");
    }
}
