//! The control of floating point, which belongs to the host: rounding and exceptions of all code behind a call.

/// The control words of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    /// MXCSR without the flags that every computation sets.
    vector: u32,
    /// The control word of the x87 unit.
    x87: u16,
}

/// Flags of exceptions that have happened (Intel SDM volume 1, section 10.2.3).
#[cfg(target_arch = "x86_64")]
const HAPPENED: u32 = 0x3f;

impl Control {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn now() -> Control {
        let (mut vector, mut x87) = (0u32, 0u16);
        // SAFETY: both instructions store to these two places and change nothing else.
        unsafe {
            std::arch::asm!(
                "stmxcsr [{}]",
                "fnstcw [{}]",
                in(reg) &raw mut vector,
                in(reg) &raw mut x87,
                options(nostack, preserves_flags),
            );
        }
        Control { vector: vector & !HAPPENED, x87 }
    }

    #[cfg(target_arch = "aarch64")]
    pub(super) fn now() -> Control {
        let control: u64;
        // SAFETY: reading the register changes nothing.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags))
        };
        Control { vector: control as u32, x87: 0 }
    }
}
