//! The checks of what the kernel must offer, for `ravelin doctor`. Each point is tried and not guessed.

use crate::error::SockmonError;
use crate::model::Check;
use crate::programs::{Hook, OBJECT, PROGRAMS, fit, is_offered};
use crate::sys::{self, Tcx};
use libbpf_rs::ObjectBuilder;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The mount point of the cgroup v2 hierarchy, from `/proc/self/mountinfo`.
pub fn cgroup_root() -> Result<PathBuf, SockmonError> {
    let text = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(SockmonError::system("read /proc/self/mountinfo"))?;
    text.lines()
        .find_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            (kind.split(' ').next()? == "cgroup2").then(|| mount.split(' ').nth(4).map(PathBuf::from))?
        })
        .ok_or(SockmonError::NoCgroup)
}

fn check(name: &'static str, remedy: &str, result: Result<String, String>) -> Check {
    match result {
        Ok(detail) => Check { name, ok: true, detail, remedy: String::new() },
        Err(detail) => Check { name, ok: false, detail, remedy: remedy.into() },
    }
}

/// Try what [`crate::Sockmon::attach`] needs, but for the programs. Changes nothing but mounting bpffs, which it would do too.
pub fn probe() -> Vec<Check> {
    vec![
        check(
            "btf",
            "use a kernel with CONFIG_DEBUG_INFO_BTF",
            Path::new("/sys/kernel/btf/vmlinux")
                .exists()
                .then(|| "/sys/kernel/btf/vmlinux".to_owned())
                .ok_or_else(|| "no /sys/kernel/btf/vmlinux".to_owned()),
        ),
        check(
            "cgroup2",
            "mount it: mount -t cgroup2 none /sys/fs/cgroup",
            cgroup_root().map(|path| path.display().to_string()).map_err(|e| e.to_string()),
        ),
        check(
            "bpffs",
            "mount it: mount -t bpf bpf /sys/fs/bpf",
            sys::ensure_bpffs().map(|()| sys::BPFFS.to_owned()).map_err(|e| e.to_string()),
        ),
        check(
            "membarrier",
            "use a kernel with CONFIG_MEMBARRIER",
            sys::wait_for_readers()
                .map(|()| "grace periods can be waited for".to_owned())
                .map_err(|e| e.to_string()),
        ),
    ]
}

/// Load every program, kind by kind, on maps of its own. It takes the kernel as long as [`crate::Sockmon::attach`]: seconds.
pub fn probe_programs() -> Vec<Check> {
    let mut checks: Vec<Check> = KINDS.iter().copied().map(programs).collect();
    checks.push(check("tcx-attach", "use a kernel with tcx (6.6)", try_tcx()));
    checks
}

/// The programs that one check loads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgramKind {
    Identity,
    Cgroup,
    Tcx,
    TunFilter,
    Sockets,
    Iterators,
}

const KINDS: [ProgramKind; 6] = [
    ProgramKind::Identity,
    ProgramKind::Cgroup,
    ProgramKind::Tcx,
    ProgramKind::TunFilter,
    ProgramKind::Sockets,
    ProgramKind::Iterators,
];

impl ProgramKind {
    /// The check that loads the programs of this hook. A new hook does not compile until it has one.
    fn of(hook: Hook) -> ProgramKind {
        match hook {
            Hook::Tracepoint | Hook::Security => ProgramKind::Identity,
            Hook::Cgroup(_) | Hook::PerSocket(_) => ProgramKind::Cgroup,
            Hook::Uplink(_) | Hook::Inside(_) | Hook::Other(_) | Hook::Loopback(_) | Hook::Tun(_) => {
                ProgramKind::Tcx
            }
            Hook::TunQueue => ProgramKind::TunFilter,
            Hook::Sockets => ProgramKind::Sockets,
            Hook::Iterator => ProgramKind::Iterators,
        }
    }

    /// The name of the check, and the remedy.
    fn name_and_remedy(self) -> (&'static str, &'static str) {
        match self {
            ProgramKind::Identity => ("bpf-identity", "use a kernel with tp_btf and task storage (5.11)"),
            ProgramKind::Cgroup => (
                "bpf-cgroup",
                "use a kernel with CONFIG_CGROUP_BPF whose cgroup programs reach task storage or the calling task (6.10)",
            ),
            ProgramKind::Tcx => ("bpf-tcx", "use a kernel with tcx (6.6)"),
            ProgramKind::TunFilter => ("bpf-tun", "use a kernel with filters on TUN devices (4.16)"),
            ProgramKind::Sockets => {
                ("bpf-sockets", "use a kernel whose programs choose among sockets of one port (4.19)")
            }
            ProgramKind::Iterators => {
                ("bpf-iterators", "use a kernel with task, task_file and tcp iterators (6.1)")
            }
        }
    }
}

/// Load the programs of one kind on maps of their own.
fn programs(kind: ProgramKind) -> Check {
    let (name, remedy) = kind.name_and_remedy();
    let of_kind = PROGRAMS.iter().filter(|p| ProgramKind::of(p.hook) == kind && is_offered(p.name));
    let wanted: Vec<&str> = of_kind.map(|p| p.name).collect();
    let result = ObjectBuilder::default().open_memory(OBJECT).and_then(|mut object| {
        fit(&mut object, &[])?;
        for mut program in object.progs_mut() {
            let load = wanted.iter().any(|name| OsStr::new(name) == program.name());
            program.set_autoload(load);
        }
        object.load()
    });
    check(name, remedy, result.map(|_| wanted.join(", ")).map_err(|e| format!("{e:#}")))
}

/// Attach to `lo` for a moment, at a place where the program lets everything through.
fn try_tcx() -> Result<String, String> {
    let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(|e| format!("{e:#}"))?;
    for mut program in object.progs_mut() {
        let load = program.name() == OsStr::new("lo_ingress");
        program.set_autoload(load);
    }
    let object = object.load().map_err(|e| format!("{e:#}"))?;
    let program = object.progs().find(|p| p.name() == OsStr::new("lo_ingress")).ok_or("no such program")?;
    let link = sys::link_tcx(program.as_fd(), 1, Tcx::Ingress).map_err(|e| e.to_string())?;
    sys::link_info(link.as_fd())
        .map(|_| "attached to lo and taken off again".to_owned())
        .map_err(|e| e.to_string())
}
