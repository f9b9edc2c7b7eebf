//! What keeps keys in this process: no core dump, no ptrace, no swap (docs/design/0003 item 1).

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Close the process against looks from outside. What fails is said in the log: the daemon works without it.
pub fn harden() {
    // Also makes /proc/PID/mem and ptrace root's alone.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "the process could not be made undumpable: keys may end up in a core dump");
    }
    if let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }) {
        tracing::warn!(%error, "core dumps could not be switched off");
    }
    // Without a limit, no thread needs CAP_IPC_LOCK later.
    if let Err(error) = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None }) {
        tracing::debug!(%error, "the limit of locked memory stays; CAP_IPC_LOCK is kept for it");
    }
    // On fault: packet buffers are locked as they are touched, not all at once.
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT) {
        tracing::warn!(%error, "memory is not locked and keys may be swapped out; raise RLIMIT_MEMLOCK");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_hardened_process_is_not_dumpable() {
        super::harden();
        assert_eq!(
            rustix::process::dumpable_behavior().unwrap(),
            rustix::process::DumpableBehavior::NotDumpable
        );
        assert_eq!(rustix::process::getrlimit(rustix::process::Resource::Core).current, Some(0));
    }
}
