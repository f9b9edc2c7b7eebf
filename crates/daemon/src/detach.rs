//! Taking an instance off the host: pins, TUN, cgroup, settings, files. The only thing that opens a closed host again.

use std::fs;
use std::path::Path;

use netio::cgroup::Cgroup;
use netio::link::Links;

use crate::host::Record;
use crate::state;
use control::socket::{self, SocketError};

/// Why an instance was not, or not wholly, taken off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetachError {
    /// A daemon of the instance runs.
    #[error("{0}; stop it first, or run it with --detach-on-exit")]
    Running(SocketError),
    /// Whether a daemon runs cannot be told.
    #[error("the lock of the instance: {0}")]
    Lock(SocketError),
    /// The files of the instance cannot be removed.
    #[error("{0}")]
    File(#[from] std::io::Error),
}

/// The outcome of taking an instance off the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detached {
    /// What was removed, one line each.
    pub removed: Vec<String>,
    /// What was left, and why.
    pub left: Vec<String>,
    /// Whether doing it again may remove what was left: the instance's files stay for that.
    pub again: bool,
}

fn of_lock(error: SocketError) -> DetachError {
    match error {
        SocketError::Taken { .. } => DetachError::Running(error),
        other => DetachError::Lock(other),
    }
}

/// Whether this process may take an instance off the host, which is root's to do.
pub fn may_detach() -> bool {
    rustix::process::geteuid().is_root()
}

/// Take an instance off the host. Nothing there: nothing done.
///
/// # Errors
/// [`DetachError`].
pub fn detach(instance: &str) -> Result<Detached, DetachError> {
    let run_dir = state::find(instance);
    let exists = run_dir.exists();
    let lock = if exists { Some(socket::lock(&run_dir).map_err(of_lock)?) } else { None };
    let done = take_down(instance, &run_dir);
    if exists && !done.again {
        state::remove(instance, &run_dir)?;
    }
    drop(lock);
    Ok(done)
}

/// Take an instance off the host as [`detach`] does, for a daemon that holds its own lock and is about to end. The
/// instance's files stay. A step that fails does not keep the steps after it from being done.
pub(crate) fn take_down(instance: &str, run_dir: &Path) -> Detached {
    let mut done = Detached::default();
    // The programs first: a TUN that goes before them would turn "refused" into "unroutable", not into a leak.
    match sockmon::detach(instance) {
        Ok(pins) if pins.links + pins.maps > 0 => done.removed.push(format!(
            "{} links and {} maps under /sys/fs/bpf/ravelin/{instance}",
            pins.links, pins.maps
        )),
        Ok(_) => {}
        Err(error) => done.keep(format!("{error}; {}", error.remedy())),
    }
    if let Err(error) = crate::trial::abandon(run_dir) {
        done.keep(format!("a policy on trial, which is in the policy file still: {error}"));
    }
    match Record::read(run_dir) {
        Ok(Some(record)) => done.take_back(&record, &Record::of_others(run_dir)),
        Ok(None) => {}
        // Nothing that a second try could read either.
        Err(error) => done.left.push(format!(
            "the TUN, the cgroup of the daemon and changed kernel settings: the record of them, {}, is damaged ({error}); \
             `ip tuntap list` and `ls -d /sys/fs/cgroup/ravelin-*` show what there is, `ip link del NAME` and `rmdir` remove it",
            run_dir.join("host.json").display()
        )),
    }
    done
}

impl Detached {
    /// Something is left that may go the next time.
    fn keep(&mut self, why: String) {
        self.left.push(why);
        self.again = true;
    }

    /// Undo what is written down. What is written down of the `others` stays.
    fn take_back(&mut self, record: &Record, others: &[(String, Record)]) {
        let delete = || {
            record.restore_settings();
            delete_tun(record, others)
        };
        // A daemon that takes itself down is there already, and may not enter any namespace.
        let here = netio::netns::cookie().is_ok_and(|cookie| cookie == record.netns);
        let deleted = match here {
            true => Some(delete()),
            false => record.find_netns().map(|netns| netns.run(delete).and_then(|deleted| deleted)),
        };
        match deleted {
            Some(Ok(Some(left))) => self.left.push(left),
            Some(Ok(None)) => {
                self.removed.push(format!("the TUN {} and changes of kernel settings", record.tun))
            }
            Some(Err(error)) => self.keep(error.to_string()),
            None => self
                .removed
                .push(format!("(the network namespace with the TUN {} is gone already)", record.tun)),
        }
        if record.cgroup.exists() {
            match remove_cgroup(&record.cgroup) {
                Ok(()) => self.removed.push(format!("the cgroup {}", record.cgroup.display())),
                Err(error) => self.keep(error.to_string()),
            }
        }
        let _ = fs::remove_file(&record.control_socket);
    }
}

/// Delete the TUN, in the namespace of the calling thread; why it is left, if it is.
fn delete_tun(record: &Record, others: &[(String, Record)]) -> netio::Result<Option<String>> {
    let mut links = Links::open()?;
    let Some(link) = links.list()?.into_iter().find(|link| link.name == record.tun) else { return Ok(None) };
    match record.keeps_tun(link.index, others) {
        None => links.delete(link.index).map(|()| None),
        left => Ok(left),
    }
}

fn remove_cgroup(path: &Path) -> netio::Result<()> {
    let cgroup = Cgroup::open(path)?;
    // A daemon that takes itself down sits in it.
    if let Some(parent) = path.parent()
        && cgroup.processes()?.contains(&std::process::id())
    {
        Cgroup::open(parent)?.enter()?;
    }
    cgroup.remove()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_the_instances_alone_stays() {
        let folder = std::env::temp_dir().join(format!("ravelin-detach-tun-{}", std::process::id()));
        let other = folder.join("other");
        let own = folder.join("own");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&other).unwrap();
        let record = |tun_index| Record { tun: "rvl7".to_owned(), netns: 5, tun_index, ..Record::default() };
        record(3).write(&own).unwrap();
        let keeps = |own_index, index| record(own_index).keeps_tun(index, &Record::of_others(&own));
        assert_eq!(keeps(3, 3), None);
        assert_eq!(keeps(0, 3), None);
        assert!(keeps(3, 4).unwrap().contains("its index is 4, not 3"));
        // The other one has another device of that name, or one somewhere else.
        record(9).write(&other).unwrap();
        assert_eq!(keeps(3, 3), None);
        Record { netns: 6, ..record(3) }.write(&other).unwrap();
        assert_eq!(keeps(3, 3), None);
        for index in [0, 3] {
            record(index).write(&other).unwrap();
            assert_eq!(keeps(3, 3).unwrap(), "the TUN rvl7: instance other has it, too");
        }
        Record::note_tun(&own, 8).unwrap();
        assert_eq!(Record::read(&own).unwrap().unwrap(), record(8));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_damaged_record_stops_nothing_and_is_told() {
        let folder = std::env::temp_dir().join(format!("ravelin-detach-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("host.json"), "{").unwrap();
        let done = take_down(&format!("nobody-{}", std::process::id()), &folder);
        assert_eq!((done.removed.len(), done.left.len(), done.again), (0, 1, false), "{done:?}");
        assert!(done.left[0].contains("host.json") && done.left[0].contains("ip link del"), "{done:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
