//! What this process may do (docs/design/0027): capabilities, no-new-privileges. Each thread has its own sets, which it hands to the
//! threads that it starts, so that the order is: [`begin`] while there is one thread, [`settle`] when the daemon is up, and each
//! thread that needs less gives it up itself, as its first act.
//!
//! What enters: nothing. What leaves: a thread with fewer rights; none of them ever comes back.

mod filter;

use rustix::io;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// What the control plane of a running daemon needs: each one has a test in tests/tests/suite/privileges.rs that fails without it.
pub const RUNNING: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// What the process of a line in line needs while it runs (docs/design/0024): guards attached again, and packet sockets on an interface
/// that came back.
const RUNNING_LINE: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);

/// What a start needs beside that, and gives up at its end: raw and packet sockets; a BPF file system to be mounted, and the programs of
/// others that are in the way to be named; a port below 1024; folders that a stranger made under /run or bpffs before, which are taken
/// from him.
const STARTING: CapabilitySet = RUNNING
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::DAC_OVERRIDE);

/// The first act of a process that has the kernel half or packets of others, while it has one thread: it keeps what a start needs, gets no
/// more by whatever it executes, and ends when it is made to execute anything.
///
/// # Errors
/// If the kernel refuses to take rights away.
pub fn begin() -> std::io::Result<()> {
    bound()?;
    keep(STARTING)?;
    filter::begin()
}

/// The first act of a thread that is older than [`begin`] and needs no right at all.
pub fn begin_without_any() {
    if let Err(error) = bound() {
        tracing::warn!(%error, "a thread may get rights by what it executes");
    }
    give_up_all();
}

/// No right is ever added to those of the calling thread.
fn bound() -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        // A kernel that does not know one has nobody with it. Without CAP_SETPCAP the set stays: no-new-privileges holds all the same.
        if capability_is_in_bounding_set(capability).unwrap_or(false)
            && let Err(error) = remove_capability_from_bounding_set(capability)
        {
            tracing::debug!(%error, "the bounding set stays as it is");
            break;
        }
    }
    Ok(())
}

/// The daemon is up: the calling thread keeps what it needs from here on, and every thread that there is or will be has system calls
/// of the lists in [`filter`] alone.
///
/// # Errors
/// If the kernel refuses.
pub fn settle() -> std::io::Result<()> {
    keep(without_those_of_a_test(RUNNING))?;
    filter::close()
}

/// The scrubber in line is up: its process keeps what it needs from here on, with the lists of [`settle`].
///
/// # Errors
/// If the kernel refuses.
pub fn settle_line() -> std::io::Result<()> {
    keep(without_those_of_a_test(RUNNING_LINE))?;
    filter::close()
}

/// The calling thread needs no capability at all.
pub fn give_up_all() {
    give_up("all", CapabilitySet::empty());
}

/// The calling thread opens files whoever's they are, and needs no other capability.
pub fn keep_reading() {
    give_up("all but one", CapabilitySet::DAC_READ_SEARCH);
}

/// The calling thread sends by raw sockets, with marks beside its packets, and needs no other capability.
pub fn keep_sending() {
    give_up("all but one", CapabilitySet::NET_RAW);
}

fn give_up(what: &str, but: CapabilitySet) {
    if let Err(error) = keep(but) {
        tracing::warn!(%error, "a thread cannot give up {what} of its capabilities");
    }
}

/// Keep these of what the calling thread has.
fn keep(wanted: CapabilitySet) -> io::Result<()> {
    // Where all memory of the process is locked, that of each thread is too: without a right to it there is none to be had.
    let locks = match getrlimit(Resource::Memlock).current {
        None => CapabilitySet::empty(),
        Some(_) => CapabilitySet::IPC_LOCK,
    };
    let kept = capabilities(None)?.permitted & (wanted | locks);
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )
}

/// Capabilities that a test takes away, to see what fails without them; in debug builds alone.
fn without_those_of_a_test(wanted: CapabilitySet) -> CapabilitySet {
    let given = if cfg!(debug_assertions) { std::env::var("RAVELIN_TEST_WITHOUT").ok() } else { None };
    let Some(given) = given else { return wanted };
    tracing::warn!("taken away for a test: {given}");
    given
        .split(',')
        .filter_map(|name| CapabilitySet::from_name(name.trim_start_matches("CAP_")))
        .fold(wanted, |left, one| left - one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_up_what_it_does_not_need_and_the_next_one_has_no_more() {
        std::thread::spawn(|| {
            keep_reading();
            let left = capabilities(None).unwrap();
            assert!((CapabilitySet::DAC_READ_SEARCH | CapabilitySet::IPC_LOCK).contains(left.permitted));
            assert_eq!(left.effective, left.permitted);
            std::thread::spawn(|| {
                give_up_all();
                keep_reading();
                assert!(CapabilitySet::IPC_LOCK.contains(capabilities(None).unwrap().permitted));
            })
            .join()
            .unwrap();
        })
        .join()
        .unwrap();
    }
}
