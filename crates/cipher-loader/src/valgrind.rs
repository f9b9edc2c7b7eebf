//! Words to valgrind's memcheck, if this process runs under it: which octets count as never written. Where it does not,
//! they do nothing.
//!
//! Memcheck tells of every branch and of every address that depends on octets that nobody wrote. A key that is marked so
//! makes it tell of what depends on the key (Langley 2010, "Checking that functions are constant time with Valgrind").
//! The request is a sequence of instructions without effect that valgrind knows ("The Client Request mechanism" of its
//! manual); only that of x86-64 is here.

/// Asks whether valgrind is there.
const RUNNING: usize = 0x1001;
/// Asks for the number of errors so far.
const COUNT_ERRORS: usize = 0x1201;
/// The first request of memcheck: `M` and `C` in the upper octets.
const MEMCHECK: usize = 0x4d43_0000;
/// Octets that nobody wrote.
const MAKE_UNDEFINED: usize = MEMCHECK + 1;
/// Octets that somebody wrote.
const MAKE_DEFINED: usize = MEMCHECK + 2;

/// Whether this process runs under valgrind, of which this code knows the requests.
pub fn is_running() -> bool {
    request([RUNNING, 0, 0, 0, 0, 0]) != 0
}

/// Have octets count as never written. They stay what they are.
pub fn mark_undefined(octets: &[u8]) {
    request([MAKE_UNDEFINED, octets.as_ptr().expose_provenance(), octets.len(), 0, 0, 0]);
}

/// Have octets count as written.
pub fn mark_defined(octets: &[u8]) {
    request([MAKE_DEFINED, octets.as_ptr().expose_provenance(), octets.len(), 0, 0, 0]);
}

/// The number of errors that valgrind has told of so far; each counts as often as it happened.
pub fn errors() -> usize {
    request([COUNT_ERRORS, 0, 0, 0, 0, 0])
}

/// What valgrind answers, 0 without it.
#[cfg(target_arch = "x86_64")]
fn request(words: [usize; 6]) -> usize {
    let mut answer = 0usize;
    // SAFETY: without valgrind the rotations by 128 bits in all and the exchange of a register with itself leave every
    // register as it was but the flags, which an `asm!` block may change. With valgrind `rdx` alone is written, and the
    // six words that `rax` points to are read; they live until the block ends.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") words.as_ptr(),
            inout("rdx") answer,
            out("rdi") _,
            options(nostack),
        );
    }
    answer
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_words: [usize; 6]) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_valgrind_nothing_changes() {
        let octets = [1, 2, 3];
        mark_undefined(&octets);
        assert_eq!((octets, errors(), is_running()), ([1, 2, 3], 0, false));
        mark_defined(&octets);
    }
}
