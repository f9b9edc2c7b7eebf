//! The kernel's security hook of `setsockopt`, which sees the calls of 32 bits that no cgroup hook sees (docs/design/0016): whether a
//! program of ours can refuse there is tried, and not guessed from what the kernel says that it was built with.

use crate::sys;
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// The way by which a program is attached to the security hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionHook {
    /// The program runs as a security module: BPF is one of those that this kernel has started with.
    Module,
    /// The program runs in front of the kernel's call of its modules (`fmod_ret`). Where the kernel interrupts threads
    /// inside of such a program, it passes the program over for another thread on the same processor.
    Return,
}

/// A level of options that nobody has: what is tried is refused there alone.
const NOBODYS: i32 = 0x52_564d;

/// The hook that can be had here; `None` without the right to load programs, too. Tried once in the life of the process, by
/// a program that refuses one option of a level that nobody has, and is gone again at once.
pub fn option_hook() -> Option<OptionHook> {
    static FOUND: OnceLock<Option<OptionHook>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let refuses = |hook: sys::Security| {
            let program = sys::load_refusal(hook, NOBODYS)?;
            let link = sys::link_tracepoint(program.as_fd())?;
            let refused = sys::is_option_refused(NOBODYS);
            drop(link);
            refused
        };
        let tried =
            [(OptionHook::Module, sys::Security::Module), (OptionHook::Return, sys::Security::Return)];
        tried.into_iter().find_map(|(hook, kind)| match refuses(kind) {
            Ok(refused) => refused.then_some(hook),
            Err(error) => {
                tracing::debug!(?hook, %error, "no program at the security hook of setsockopt");
                None
            }
        })
    })
}
