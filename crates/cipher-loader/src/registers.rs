//! The control of floating point, which belongs to the host: rounding and exceptions of all code behind a call.

/// The control words of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// MXCSR without the flags that every computation sets.
    vector: u32,
    /// The control word of the x87 unit.
    x87: u16,
    /// Whether instructions on rows of octets go backward, which no function may leave behind (System V ABI).
    backward: bool,
}

/// Flags of exceptions that have happened (Intel SDM volume 1, section 10.2.3).
#[cfg(target_arch = "x86_64")]
const HAPPENED: u32 = 0x3f;
/// The direction flag (Intel SDM volume 1, section 3.4.3.2).
#[cfg(target_arch = "x86_64")]
const DIRECTION: u64 = 1 << 10;

impl Control {
    /// What is another word than before, if anything is.
    pub(crate) fn changed(self, before: Control) -> Option<&'static str> {
        match (self.backward != before.backward, self.vector != before.vector, self.x87 != before.x87) {
            (true, ..) => Some("the direction flag"),
            (_, true, _) => Some("the floating point control (MXCSR)"),
            (.., true) => Some("the floating point control (x87)"),
            _ => None,
        }
    }

    /// What these words are now; the direction is then forward.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn now() -> Control {
        let (mut vector, mut x87) = (0u32, 0u16);
        let flags: u64;
        // SAFETY: the instructions store to these two places, read the flags by way of the stack, and leave the
        // direction as Rust's own code needs it.
        unsafe {
            std::arch::asm!(
                "pushfq",
                "pop {flags}",
                "cld",
                "stmxcsr [{vector}]",
                "fnstcw [{x87}]",
                flags = out(reg) flags,
                vector = in(reg) &raw mut vector,
                x87 = in(reg) &raw mut x87,
            );
        }
        Control { vector: vector & !HAPPENED, x87, backward: flags & DIRECTION != 0 }
    }

    /// What these words are now.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn now() -> Control {
        let control: u64;
        // SAFETY: reading the register changes nothing.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags))
        };
        Control { vector: control as u32, x87: 0, backward: false }
    }
}
