//! Whether this kernel runs programs of 32 bits. Their system calls pass no cgroup hook of setsockopt, so where no program of ours stands at
//! the security hook, a program with CAP_NET_RAW whose frames policy decides about can have them leave past every program on the
//! device (docs/design/0016).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use api::{Check, CheckState};
use rustix::fs::MemfdFlags;
use sockmon::OptionHook;

/// The shortest program of 32 bits (ELF, i386): `exit(0)`.
#[rustfmt::skip]
const PROGRAM: [u8; 93] = [
    // The file: ELF, 32 bits, least octet first; executable, i386; entry 0x08048054; program headers at 52.
    0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 3, 0, 1, 0, 0, 0, 0x54, 0x80, 0x04, 0x08, 52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    // The only segment: all of the file at 0x08048000, to be read and executed.
    1, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x80, 0x04, 0x08, 0x00, 0x80, 0x04, 0x08, 93, 0, 0, 0, 93, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0, 0,
    // mov eax, 1; xor ebx, ebx; int 0x80
    0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80,
];

/// The check; none on processors that have no such programs.
pub(super) fn calls() -> Option<Check> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let (state, found, remedy) =
        answer(&try_it(), rustix::process::geteuid().is_root(), sockmon::option_hook);
    Some(Check { name: "32-bit calls".to_owned(), state, found, remedy: remedy.map(str::to_owned) })
}

/// What is said of a host where such programs run, or not; `hook` is asked only where it matters.
fn answer(
    runs: &io::Result<bool>,
    is_root: bool,
    hook: impl FnOnce() -> Option<OptionHook>,
) -> (CheckState, String, Option<&'static str>) {
    const AS_ROOT: &str = "run `ravelin doctor` as root";
    const NO_HOOK: &str = "give no CAP_NET_RAW to programs whose traffic must be protected, or start the kernel with ia32_emulation=off";
    const RETURN: &str =
        "start the kernel with BPF among its security modules (lsm=...,bpf), or with ia32_emulation=off";
    match runs {
        Ok(false) => (CheckState::Ok, "no program of 32 bits runs here".to_owned(), None),
        Err(error) => {
            let found = format!("whether programs of 32 bits run cannot be tried: {error}");
            (CheckState::Warn, found, Some(NO_HOOK))
        }
        Ok(true) if !is_root => {
            let found = "programs of 32 bits run here; whether their calls of setsockopt can be refused was not tried: it takes root";
            (CheckState::Warn, found.to_owned(), Some(AS_ROOT))
        }
        Ok(true) => match hook() {
            Some(OptionHook::Module) => {
                let found = "programs of 32 bits run here; their calls of setsockopt are refused as those of 64 bits are, at the \
                             kernel's security hook";
                (CheckState::Ok, found.to_owned(), None)
            }
            Some(OptionHook::Return) => {
                let found = "programs of 32 bits run here; their calls of setsockopt are refused in front of the kernel's security \
                             modules, where a kernel that interrupts threads in its own code (preempt=full) can pass the look over";
                (CheckState::Warn, found.to_owned(), Some(RETURN))
            }
            None => {
                let found = "programs of 32 bits run here, and this kernel takes no program that sees their calls of setsockopt: a \
                             program with CAP_NET_RAW can send frames past its policy";
                (CheckState::Warn, found.to_owned(), Some(NO_HOOK))
            }
        },
    }
}

fn try_it() -> io::Result<bool> {
    let writer = File::from(rustix::fs::memfd_create("ravelin-doctor", MemfdFlags::CLOEXEC)?);
    (&writer).write_all(&PROGRAM)?;
    // A file that somebody has open for writing is busy.
    let program = File::open(format!("/proc/self/fd/{}", writer.as_raw_fd()))?;
    drop(writer);
    let done = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd())).stdin(Stdio::null()).status();
    match done {
        Ok(status) => Ok(status.success()),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried() {
        if !cfg!(target_arch = "x86_64") {
            assert!(calls().is_none());
            return;
        }
        let check = calls().expect("a check");
        assert!(!check.found.contains("cannot be tried"), "{}", check.found);
        // The kernel's own word, where it gives one.
        let config = std::process::Command::new("zcat").arg("/proc/config.gz").output().unwrap();
        let text = String::from_utf8_lossy(&config.stdout);
        let off = std::fs::read_to_string("/proc/cmdline").unwrap().contains("ia32_emulation");
        if text.is_empty() || off {
            println!("skipped: the kernel does not say whether it runs programs of 32 bits");
            return;
        }
        let built = text.lines().any(|line| line == "CONFIG_IA32_EMULATION=y");
        assert_eq!(check.found.starts_with("programs of 32 bits run here"), built, "{}", check.found);
        let closed = !built || sockmon::option_hook() == Some(OptionHook::Module);
        assert_eq!(check.state == CheckState::Ok, closed, "{}", check.found);
    }

    #[test]
    fn it_says_who_looks_at_their_calls() {
        let state = |runs: io::Result<bool>, is_root, hook| answer(&runs, is_root, || hook).0;
        assert_eq!(state(Ok(false), true, None), CheckState::Ok);
        assert_eq!(state(Ok(true), true, Some(OptionHook::Module)), CheckState::Ok);
        for hook in [None, Some(OptionHook::Return)] {
            let (state, found, remedy) = answer(&Ok(true), true, || hook);
            assert_eq!(state, CheckState::Warn, "{found}");
            assert!(remedy.is_some_and(|remedy| remedy.contains("ia32_emulation=off")));
        }
        // Who may load nothing hears that it was not tried, and not that nobody looks.
        let (state, found, _) = answer(&Ok(true), false, || panic!("not asked"));
        assert_eq!((state, found.contains("not tried")), (CheckState::Warn, true), "{found}");
        let (state, found, _) =
            answer(&Err(io::ErrorKind::PermissionDenied.into()), true, || panic!("not asked"));
        assert_eq!((state, found.contains("cannot be tried")), (CheckState::Warn, true), "{found}");
    }
}
