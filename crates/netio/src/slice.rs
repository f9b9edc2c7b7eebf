//! The time slice that the scheduler gives the calling thread (sched_setattr(2); EEVDF, Linux 6.12).

use std::io;
use std::mem::size_of;
use std::time::Duration;

/// Ask for slices of this length, if the thread is of the usual policy. It keeps its part of the processor, in shorter
/// pieces, and is run before threads with longer slices once there is something for it to do. Kernels before 6.12 accept
/// this without effect.
///
/// # Errors
/// If the kernel refuses.
pub fn set(slice: Duration) -> io::Result<()> {
    // SAFETY: all zeroes are valid for a struct of integers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes `size` octets at most, which is what the struct has; 0 is the calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.size = size;
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the kernel reads the struct, whose size it has, and keeps nothing of it.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_set_twice_and_the_rest_stays() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        set(Duration::from_micros(100)).unwrap();
        set(Duration::from_millis(3)).unwrap();
        assert_eq!(nice(), before);
    }
}
