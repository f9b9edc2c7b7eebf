//! The filter of system calls of a daemon that is up (docs/design/0027). What is not on a list is refused (EPERM), so that whoever asked
//! for it says what did not work; what only an intruder asks for ends the process, which the kernel's log tells (type 1326), and what
//! must be protected stays refused.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

/// Memory, threads and what the C library does for them.
const THREADS: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_prctl,
    libc::SYS_capget,
    libc::SYS_capset,
];

/// Who and where this process is, time and chance.
const ABOUT: &[i64] = &[
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getcwd,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrlimit,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
];

/// Files: policy, logs, captures, /proc, control groups, pins.
const FILES: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_umask,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_memfd_create,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_ioctl,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
];

/// Waiting, and sockets that are there.
const SOCKETS: &[i64] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
];

/// The kernel half, and sockets of processes that were there before it.
const KERNEL: &[i64] = &[libc::SYS_bpf, libc::SYS_pidfd_open, libc::SYS_pidfd_getfd];

/// What the C library asks for by older names, where the processor's table has them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_arch_prctl,
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_epoll_wait,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Kinds of sockets that a running daemon makes.
const FAMILIES: &[libc::c_int] =
    &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET];

/// What no part of a running daemon ever asks for: whoever does has taken it over.
const ENDS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
];

/// Namespaces that `clone` makes (sched.h). A user namespace gives whoever makes one every capability in it.
const NEW_NAMESPACES: u64 = 0x7e02_0000;

/// From here on the process ends where it asks for what only an intruder asks for.
pub(super) fn begin() -> io::Result<()> {
    let rules = ENDS.iter().map(|call| (*call, Vec::new())).collect();
    add(rules, SeccompAction::Allow, SeccompAction::KillProcess)
}

/// Close what is on no list, in all threads.
pub(super) fn close() -> io::Result<()> {
    // The flags of `clone3` are in memory, where no filter can look. The C library then takes `clone`.
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    add(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), SeccompAction::Allow, unknown)?;
    // Last: it does not have the call that adds a filter.
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    add(allowed().map_err(io::Error::other)?, refused, SeccompAction::Allow)
}

/// Calls, and what their arguments must be; without a rule anything.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn allowed() -> Result<Rules, seccompiler::BackendError> {
    let plain = [THREADS, ABOUT, FILES, SOCKETS, KERNEL, OLDER].into_iter().flatten();
    let mut rules: Rules = plain.map(|call| (*call, Vec::new())).collect();
    let where_argument = |at, comparison, value| {
        let condition = SeccompCondition::new(at, SeccompCmpArgLen::Dword, comparison, value)?;
        SeccompRule::new(vec![condition])
    };
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let families = FAMILIES.iter().map(|family| u64::from(family.cast_unsigned()));
        let of = families.map(|family| where_argument(0, SeccompCmpOp::Eq, family));
        rules.insert(call, of.collect::<Result<_, _>>()?);
    }
    rules.insert(libc::SYS_clone, vec![where_argument(0, SeccompCmpOp::MaskedEq(NEW_NAMESPACES), 0)?]);
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![where_argument(2, SeccompCmpOp::MaskedEq(executable), 0)?]);
    }
    Ok(rules)
}

/// One more filter in all threads: what the rules match, and everything else.
fn add(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> io::Result<()> {
    let processor = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, processor).map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    apply_filter_all_threads(&program).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, ExitStatus, Stdio};

    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    /// What a process of its own is to try: a filter never comes off.
    const TRY: &str = "RAVELIN_TEST_FILTER";

    fn tried(what: &str) -> ExitStatus {
        let own = std::env::current_exe().unwrap();
        let test = ["--ignored", "--exact", "privileges::filter::tests::what_a_process_tries"];
        // What it prints would be taken for this test's.
        let (out, err) = (Stdio::null(), Stdio::null());
        Command::new(own).args(test).env(TRY, what).stdout(out).stderr(err).status().unwrap()
    }

    #[test]
    #[ignore = "the test below runs it, in a process of its own"]
    fn what_a_process_tries() {
        let what = std::env::var(TRY).expect("what to try");
        rustix::thread::set_no_new_privs(true).unwrap();
        begin().unwrap();
        if what == "exec at a start" {
            panic!("{}", Command::new("/bin/true").exec());
        }
        // Root may do both of these without the filter.
        let algorithms = AddressFamily::from_raw(libc::AF_ALG.try_into().unwrap());
        close().unwrap();
        if what == "exec" {
            panic!("{}", Command::new("/bin/true").exec());
        }
        assert_eq!(rustix::process::chroot("/"), Err(Errno::PERM));
        assert_eq!(socket(algorithms, SocketType::SEQPACKET, None).err(), Some(Errno::PERM));
        assert!(socket(AddressFamily::INET, SocketType::DGRAM, None).is_ok());
        assert_eq!(std::thread::spawn(|| std::fs::read("/proc/self/status").is_ok()).join().ok(), Some(true));
    }

    #[test]
    fn what_is_on_no_list_is_refused_and_whoever_executes_something_ends() {
        assert!(tried("calls").success());
        for what in ["exec at a start", "exec"] {
            assert_eq!(tried(what).signal(), Some(libc::SIGSYS), "{what}");
        }
    }
}
