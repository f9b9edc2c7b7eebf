//! The filter of system calls in a trial, and what names the call or the address that ended it.
//!
//! Opening a file is on no list. The dynamic loader opens the library by its path all the same: the handler of SIGSYS
//! gives it a copy of the sealed descriptor instead, if the path is the library's, so that a constructor can open
//! nothing. Memory can be made executable only by mapping that copy.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering::SeqCst};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

use crate::checks::Memory;
use crate::sealed::Sealed;

/// The descriptors that the child may have: what it was handed may have higher numbers, what it opens not.
pub(crate) const MOST_FILES: u64 = 64;
/// The exit status behind a record of a handler.
const STATUS: c_int = 99;

/// Memory, threads that are there, and the end.
const ALWAYS: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_futex,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
];

/// What the dynamic loader does with the descriptor that it is given. The handler of its opening and the look at the
/// library's identity use the sealed descriptor, and the list of mappings is read by its own.
const LOADING: &[i64] =
    &[libc::SYS_read, libc::SYS_pread64, libc::SYS_lseek, libc::SYS_fstat, libc::SYS_close];

/// The pipe to the parent.
static ANSWER: AtomicI32 = AtomicI32::new(-1);
/// The descriptor of the sealed library.
static LIBRARY: AtomicI32 = AtomicI32::new(-1);
/// The descriptor that the dynamic loader is given.
static SLOT: AtomicI32 = AtomicI32::new(-1);
/// The path that it asks for, while it may; a C string that lives as long as the process.
static PATH: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// Memory that only a faulty function touches: contexts first, a buffer last.
static WATCHED: [[AtomicUsize; 2]; 5] = [const { [const { AtomicUsize::new(0) }; 2] }; 5];
/// The next of the places for contexts.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Calls, and what their arguments must be; without a rule anything.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Both filters, ready to be put in force.
pub(crate) struct Filter {
    loading: BpfProgram,
    running: BpfProgram,
}

impl Filter {
    /// The filters for this library, this pipe and this list of mappings. The second one leaves the list readable where
    /// `looks` says so. Handlers are in place when this returns.
    pub(crate) fn new(library: &Sealed, answer: RawFd, maps: RawFd, looks: bool) -> io::Result<Filter> {
        let library_fd = library.as_fd().as_raw_fd();
        let slot = slot().ok_or_else(|| io::Error::other("no descriptor below 64 is free"))?;
        ANSWER.store(answer, SeqCst);
        LIBRARY.store(library_fd, SeqCst);
        SLOT.store(slot, SeqCst);
        PATH.store(library.path().into_raw(), SeqCst);
        handlers()?;
        let mut running = running(answer).map_err(io::Error::other)?;
        let mut loading = running.clone();
        if looks {
            let list = condition(0, SeccompCmpOp::Eq, maps).and_then(|fd| SeccompRule::new(vec![fd]));
            running.insert(libc::SYS_pread64, vec![list.map_err(io::Error::other)?]);
        }
        add_loading(&mut loading, library_fd, slot, maps).map_err(io::Error::other)?;
        Ok(Filter { loading: program(loading)?, running: program(running)? })
    }

    /// The first filter: what loading the library needs.
    pub(crate) fn begin(&self) -> io::Result<()> {
        apply_filter_all_threads(&self.loading).map_err(io::Error::other)
    }

    /// The second filter: no files, and nothing executable any more.
    pub(crate) fn close(&self) -> io::Result<()> {
        PATH.store(ptr::null_mut(), SeqCst);
        apply_filter_all_threads(&self.running).map_err(io::Error::other)
    }
}

/// A free descriptor that the limit of files allows.
fn slot() -> Option<RawFd> {
    let most = RawFd::try_from(MOST_FILES).unwrap_or(0);
    // SAFETY: asking for the flags of a number that is no descriptor gives an error and nothing else.
    (3..most).rev().find(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } == -1)
}

fn condition(
    at: u8,
    comparison: SeccompCmpOp,
    value: c_int,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(at, SeccompCmpArgLen::Dword, comparison, u64::from(value.cast_unsigned()))
}

fn running(answer: RawFd) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    let only = |conditions| SeccompRule::new(conditions).map(|rule| vec![rule]);
    let own = std::process::id().cast_signed();
    rules.insert(libc::SYS_write, only(vec![condition(0, SeccompCmpOp::Eq, answer)?])?);
    // `abort` sends a signal to its own process.
    rules.insert(libc::SYS_tgkill, only(vec![condition(0, SeccompCmpOp::Eq, own)?])?);
    // The standard library's own check of descriptors in builds that look for mistakes.
    rules.insert(libc::SYS_fcntl, only(vec![condition(1, SeccompCmpOp::Eq, libc::F_GETFD)?])?);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
        rules.insert(call, only(vec![condition(2, SeccompCmpOp::MaskedEq(executable), 0)?])?);
    }
    Ok(rules)
}

fn add_loading(
    rules: &mut Rules,
    library: RawFd,
    slot: RawFd,
    maps: RawFd,
) -> Result<(), seccompiler::BackendError> {
    let equal = |at, value| condition(at, SeccompCmpOp::Eq, value);
    for call in LOADING {
        let of = |fd| SeccompRule::new(vec![equal(0, fd)?]);
        rules.insert(*call, vec![of(slot)?, of(library)?, of(maps)?]);
    }
    rules.insert(libc::SYS_getrandom, Vec::new());
    let code = SeccompRule::new(vec![equal(2, libc::PROT_READ | libc::PROT_EXEC)?, equal(4, slot)?])?;
    rules.entry(libc::SYS_mmap).or_default().push(code);
    let copy = SeccompRule::new(vec![equal(0, library)?, equal(1, slot)?])?;
    rules.insert(libc::SYS_dup3, vec![copy]);
    // What the second filter is put in force with.
    rules.insert(libc::SYS_prctl, vec![SeccompRule::new(vec![equal(0, libc::PR_SET_NO_NEW_PRIVS)?])?]);
    rules.insert(libc::SYS_seccomp, Vec::new());
    Ok(())
}

fn program(rules: Rules) -> io::Result<BpfProgram> {
    let processor = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, processor);
    filter.map_err(io::Error::other)?.try_into().map_err(io::Error::other)
}

/// Remember memory that only a faulty function touches.
pub(crate) fn watch(memory: Memory, (start, end): (usize, usize)) {
    let last = WATCHED.len() - 1;
    let at = match memory {
        // The guard pages around a context count as the context.
        Memory::Context => NEXT.fetch_add(1, SeqCst) % last,
        Memory::Buffer => last,
    };
    let around = if memory == Memory::Context { 4096 } else { 0 };
    if let Some([from, to]) = WATCHED.get(at) {
        from.store(start.saturating_sub(around), SeqCst);
        to.store(end.saturating_add(around), SeqCst);
    }
}

fn handlers() -> io::Result<()> {
    type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    let set = |signal, handler: Handler| {
        // SAFETY: a handler of all zeros is a valid value; its address and flags are set next. The handlers call only
        // what is safe in a handler.
        let answer = unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, ptr::null_mut())
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    set(libc::SIGSYS, on_call)?;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
        set(signal, on_fault)?;
    }
    Ok(())
}

/// A system call that no list has. The loader's opening of the library is answered, and its look at the descriptor that
/// it was given, which has a path in its arguments that no filter can read; any other call ends the process.
extern "C" fn on_call(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over both. For SIGSYS the number of the call stands behind its address
    // (sigaction(2), `si_call_addr` and `si_syscall`), 24 octets from the start on machines of 64 bits.
    let call = unsafe { info.cast::<u8>().add(24).cast::<c_int>().read() };
    let path = PATH.load(SeqCst);
    // SAFETY: the context is that of this signal.
    let registers = unsafe { Registers::of(context) };
    if i64::from(call) == libc::SYS_openat && !path.is_null() {
        // SAFETY: `path` is a C string. The caller's is one as well, or reading it ends this process, as it should.
        let same = unsafe { libc::strcmp(path, registers.argument(1) as *const c_char) } == 0;
        if same {
            // SAFETY: neither call touches memory. The copy shares its position, which the writing left at the end.
            let made = unsafe {
                libc::lseek(LIBRARY.load(SeqCst), 0, libc::SEEK_SET);
                libc::syscall(libc::SYS_dup3, LIBRARY.load(SeqCst), SLOT.load(SeqCst), libc::O_CLOEXEC)
            };
            registers.answer(if made < 0 { -i64::from(libc::EMFILE) } else { made });
            return;
        }
    }
    if i64::from(call) == libc::SYS_newfstatat && !path.is_null() {
        let (fd, to) = (registers.argument(0) as c_int, registers.argument(2));
        let known = [SLOT.load(SeqCst), LIBRARY.load(SeqCst)].contains(&fd);
        // SAFETY: the path is a C string, or reading it ends this process, as it should.
        let is_empty = unsafe { (registers.argument(1) as *const c_char).read() } == 0;
        if known && is_empty {
            // SAFETY: the kernel writes to what the loader has for it, or answers EFAULT.
            let made = unsafe { libc::syscall(libc::SYS_fstat, fd, to) };
            registers.answer(if made < 0 { -i64::from(libc::EFAULT) } else { made });
            return;
        }
    }
    let mut line = Line::new();
    line.text(b"{\"refused\":");
    line.number(call);
    line.text(b"}\n");
    line.end()
}

/// A signal that a fault raises.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel hands over the record, which has an address for these signals.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    let within = |[from, to]: &[AtomicUsize; 2]| (from.load(SeqCst)..to.load(SeqCst)).contains(&address);
    let place: &[u8] = match WATCHED.iter().position(within) {
        // The kernel tells no address where the processor has none: an unaligned vector instruction.
        None if code == SI_KERNEL && signal == libc::SIGSEGV => b"unaligned",
        None => b"elsewhere",
        Some(at) if at + 1 == WATCHED.len() => b"buffer",
        Some(_) => b"context",
    };
    let mut line = Line::new();
    line.text(b"{\"fault\":{\"signal\":");
    line.number(signal);
    line.text(b",\"place\":\"");
    line.text(place);
    line.text(b"\"}}\n");
    line.end()
}

/// The code of signals that the kernel raises without an address (siginfo.h).
const SI_KERNEL: c_int = 0x80;

/// A line that is made without any allocation.
struct Line {
    octets: [u8; 96],
    len: usize,
}

impl Line {
    fn new() -> Line {
        Line { octets: [0; 96], len: 0 }
    }

    fn text(&mut self, text: &[u8]) {
        for octet in text {
            if let Some(to) = self.octets.get_mut(self.len) {
                *to = *octet;
                self.len += 1;
            }
        }
    }

    fn number(&mut self, number: c_int) {
        let mut digits = [0; 10];
        let mut rest = number.unsigned_abs();
        let mut first = digits.len();
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            first = at;
            if rest == 0 {
                break;
            }
        }
        self.text(digits.get(first..).unwrap_or_default());
    }

    fn end(self) -> ! {
        // SAFETY: the array has so many octets, and both calls are safe in a handler.
        unsafe {
            libc::write(ANSWER.load(SeqCst), self.octets.as_ptr().cast(), self.len);
            libc::_exit(STATUS)
        }
    }
}

/// The registers of the code that made a system call.
struct Registers(*mut libc::ucontext_t);

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// # Safety
    /// The pointer is the third argument of a handler, which has not returned.
    unsafe fn of(context: *mut c_void) -> Registers {
        Registers(context.cast())
    }

    /// One of the first three arguments of the call, counted from 0.
    fn argument(&self, number: usize) -> usize {
        let register = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX].get(number).copied();
        // SAFETY: `of` was handed a context of this signal.
        let registers = unsafe { &(*self.0).uc_mcontext.gregs };
        let value = register.and_then(|register| registers.get(register as usize)).copied().unwrap_or(0);
        value.cast_unsigned() as usize
    }

    /// What the call gives.
    fn answer(&self, value: i64) {
        // SAFETY: as above; nothing else has the context.
        unsafe { (&mut (*self.0).uc_mcontext.gregs)[libc::REG_RAX as usize] = value };
    }
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    /// # Safety
    /// The pointer is the third argument of a handler, which has not returned.
    unsafe fn of(context: *mut c_void) -> Registers {
        Registers(context.cast())
    }

    /// One of the first three arguments of the call, counted from 0.
    fn argument(&self, number: usize) -> usize {
        // SAFETY: `of` was handed a context of this signal.
        unsafe { (&(*self.0).uc_mcontext.regs)[number] as usize }
    }

    /// What the call gives.
    fn answer(&self, value: i64) {
        // SAFETY: as above; nothing else has the context.
        unsafe { (&mut (*self.0).uc_mcontext.regs)[0] = value.cast_unsigned() };
    }
}
