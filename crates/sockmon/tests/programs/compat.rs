//! System calls of 32 bits, which a program of 64 bits can make too.

use std::ffi::c_int;
use std::io;

/// `setsockopt` as programs of 32 bits make it (int 0x80): a value of so many octets, the first of which are a one.
#[cfg(target_arch = "x86_64")]
pub fn set(fd: c_int, level: c_int, name: c_int, len: usize) -> io::Result<c_int> {
    const SETSOCKOPT: u64 = 366; // of i386
    let (read, map) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: memory of our own, where 32 bits reach it; it is written within its page and given back behind the call, which changes no
    // other registers than those that are named.
    let answer = unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, read, map | libc::MAP_32BIT, -1, 0);
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        page.cast::<u32>().write(1);
        let mut answer = SETSOCKOPT;
        std::arch::asm!(
            "xchg {fd}, rbx",
            "int 0x80",
            "xchg {fd}, rbx",
            fd = inout(reg) fd as u64 => _,
            inout("rax") answer,
            in("rcx") level as u64,
            in("rdx") name as u64,
            in("rsi") page as u64,
            in("rdi") len as u64,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
        libc::munmap(page, 4096);
        answer as i32
    };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(answer) }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn set(_: c_int, _: c_int, _: c_int, _: usize) -> io::Result<c_int> {
    panic!("no calls of 32 bits are known of this processor")
}
