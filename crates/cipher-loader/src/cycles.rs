//! The time stamp counter of the processor: its ticks are cycles at a constant rate, which need not be the rate at which
//! the processor runs at that moment.

/// The ticks of the time stamp counter; `None` on a processor without one.
#[cfg(target_arch = "x86_64")]
pub fn now() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction. It reads a counter and nothing else. Where the kernel forbids it
    // (prctl PR_SET_TSC, which no code here uses), the process ends.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

/// The ticks of the time stamp counter; `None` on a processor without one.
#[cfg(not(target_arch = "x86_64"))]
pub fn now() -> Option<u64> {
    None
}
