//! The sockets that are older than the programs, and the application of a process or a socket.

use crate::abi::{self, EndpointKey, FileReport, Identity, ListenerKey, SocketReport, TaskReport, Wire};
use crate::error::SockmonError;
use crate::model::{Adopted, SocketInfo, SocketState};
use crate::programs::Loaded;
use crate::sys;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use wire::AppId;

/// Run one iterator and read its records.
fn records<R: Wire>(
    loaded: &Loaded,
    program: &'static str,
    pid: Option<u32>,
) -> Result<Vec<R>, SockmonError> {
    let fail = || SockmonError::system(format!("run the iterator {program}"));
    let link = sys::link_iter(loaded.program(program)?, pid).map_err(fail())?;
    let bytes = sys::iterate(link.as_fd()).map_err(fail())?;
    Ok(bytes.chunks_exact(size_of::<R>()).filter_map(R::read).collect())
}

/// Give every task that has none its identity.
pub fn tasks(loaded: &Loaded) -> Result<(), SockmonError> {
    records::<u8>(loaded, "adopt_tasks", None).map(drop)
}

/// Looks at all sockets at most, while they find new ones. The second finds what was accepted or passed on during the first.
const LOOKS: usize = 8;

/// Stamp the sockets that are older than the programs or than the policy (docs/design/0002): storage through every
/// process's descriptors, then the mark of TCP in the kernel, of the rest through the process; again until nothing new is found.
/// Connections that are in no table of descriptors are their listener's, or whose they are must show before they send again.
pub fn sockets(loaded: &Loaded, netns: u64) -> Result<Adopted, SockmonError> {
    tasks(loaded)?;
    // What was noted under another policy, or of a listener that is gone, would say whose a socket is before its listener
    // does (docs/design/0002).
    loaded.maps.retain("sctp_listeners", |_: &EndpointKey| true)?;
    let mut out = Adopted::default();
    for look in 0..LOOKS {
        let is_new = look_at(loaded, netns, &mut out)?;
        records::<u8>(loaded, "adopt_unseen", None)?;
        if look > 0 && !is_new {
            break;
        }
    }
    records::<u8>(loaded, "adopt_tcp", None)?;
    loaded.maps.retain("listeners", |_: &ListenerKey| true)?;
    Ok(out)
}

/// Hold back what is left of connections whose program closed them before the programs were attached (docs/design/0002): nobody can
/// say whose they are. Those to peers that every application may send to in clear go on.
pub fn closed(loaded: &Loaded) -> Result<(), SockmonError> {
    records::<u8>(loaded, "adopt_closed", None).map(drop)
}

/// Examine every socket of every process once. Returns whether one of them was new.
fn look_at(loaded: &Loaded, netns: u64, out: &mut Adopted) -> Result<bool, SockmonError> {
    let found: Vec<SocketReport> = records(loaded, "adopt_sockets", None)?;
    let maps = &loaded.maps;
    (out.sockets, out.unmarked, out.listeners_left_out, out.unstamped) = (found.len(), 0, 0, 0);
    maps.retain("listeners", |_: &ListenerKey| true)?;
    let (stamped, homeless): (Vec<&SocketReport>, Vec<_>) =
        found.iter().filter(|s| s.app != 0).partition(|s| s.stamped != abi::UNSTAMPED);
    let ours = || stamped.iter().filter(|s| s.netns == netns);
    // Listeners of SCTP are noted in the kernel half.
    let listens = |s: &SocketReport| is_tcp(s) && SocketState::from_kernel(s.state) == SocketState::Listen;
    for socket in ours().filter(|s| listens(s)) {
        let key = ListenerKey { addr: socket.local, port: socket.local_port, zero: 0 };
        // The rest is worth doing without it.
        if let Err(error) = maps.write("listeners", &key, &u32::from(socket.app)) {
            tracing::debug!(pid = socket.pid, fd = socket.fd, %error, "no room for a listener");
            out.listeners_left_out += 1;
        }
    }
    records::<u8>(loaded, "adopt_tcp", None)?;
    for socket in homeless {
        if is_tcp(socket) && SocketState::from_kernel(socket.state) == SocketState::Unconnected {
            // Its connect and listen look for room again.
            continue;
        }
        let ended = is_tcp(socket)
            && through_process(socket, sys::abort)
                .inspect_err(|error| {
                    tracing::debug!(pid = socket.pid, fd = socket.fd, %error, "cannot end a connection");
                })
                .is_ok();
        *(if ended { &mut out.ended } else { &mut out.unstamped }) += 1;
    }
    for socket in ours() {
        let want = loaded.marks.stamp(socket.mark, AppId(socket.app), socket.required);
        // Connected and listening TCP has its mark from the iterator.
        let by_iterator =
            is_tcp(socket) && SocketState::from_kernel(socket.state) != SocketState::Unconnected;
        if socket.mark == want || by_iterator {
            continue;
        }
        match through_process(socket, |socket| sys::set_mark(socket, want)) {
            Ok(()) => out.marked += 1,
            Err(error) => {
                tracing::debug!(pid = socket.pid, fd = socket.fd, %error, "cannot mark a socket of a process");
                out.unmarked += 1;
            }
        }
    }
    Ok(stamped.iter().any(|socket| socket.stamped == abi::STAMPED_NOW))
}

fn is_tcp(report: &SocketReport) -> bool {
    i32::from(report.protocol) == libc::IPPROTO_TCP
}

fn through_process(
    report: &SocketReport,
    act: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let process = sys::pidfd_open(report.pid)?;
    let socket = sys::pidfd_getfd(process.as_fd(), report.fd)?;
    // The number may name another socket by now.
    if sys::socket_option::<u64>(socket.as_fd(), libc::SO_COOKIE)? != report.cookie {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    act(socket.as_fd())
}

/// Every IPv4 and IPv6 socket that a process holds.
pub fn list(loaded: &Loaded) -> Result<Vec<SocketInfo>, SockmonError> {
    Ok(records(loaded, "report_sockets", None)?.iter().map(SocketInfo::from_report).collect())
}

/// The kernel's numbers of files that this process has open.
pub fn identities(loaded: &Loaded, files: &[&OwnedFd]) -> Result<Vec<Option<Identity>>, SockmonError> {
    Ok(self::files(loaded, files)?.into_iter().map(|report| Some(report?.identity)).collect())
}

/// The kernel's reports about files that this process has open.
pub fn files(loaded: &Loaded, files: &[&OwnedFd]) -> Result<Vec<Option<FileReport>>, SockmonError> {
    let reports: Vec<FileReport> = records(loaded, "report_files", Some(std::process::id()))?;
    let known: HashMap<u32, FileReport> = reports.iter().map(|r| (r.fd, *r)).collect();
    let of = |file: &&OwnedFd| known.get(&u32::try_from(file.as_raw_fd()).ok()?).copied();
    Ok(files.iter().map(of).collect())
}

/// The report that says which application a process belongs to. `None` if there is no such process, or if it is one of
/// the kernel's own.
pub fn process(loaded: &Loaded, pid: u32) -> Result<Option<TaskReport>, SockmonError> {
    // The kernel refuses an iterator over a process that is not there.
    if sys::pidfd_open(pid).is_err() {
        return Ok(None);
    }
    let found: Result<Vec<TaskReport>, SockmonError> = records(loaded, "report_task", Some(pid));
    match found {
        Ok(found) => Ok(found.into_iter().find(|report| report.pid == pid)),
        Err(_) if sys::pidfd_open(pid).is_err() => Ok(None),
        Err(error) => Err(error),
    }
}
