//! An instance of a component, and the calls into it.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::time::Instant;

use qos::behaviour::foreign::{Answer, Call, Detached, Instance, PacketView, Times};
use rustix::time::{ClockId, clock_gettime};

use crate::abi::{Functions, OK, Settings};
use crate::timer::{Timer, TooSlow, Took};

/// The octets that a library has for the reason why it refuses parameters.
const LONGEST_REASON: usize = 256;

/// The instance of a component.
pub(crate) struct Attached {
    functions: Functions,
    instance: *mut c_void,
    timer: Timer,
    /// Whether the code of the component must not run again.
    abandoned: bool,
}

// SAFETY: the header demands of a library that an instance can be used by any thread, one at a time. The pointer has no
// other owner, and `&mut self` is needed for every call.
unsafe impl Send for Attached {}

impl Attached {
    /// Have the library make an instance.
    ///
    /// # Errors
    /// The reason why the library refuses, in one line.
    pub(crate) fn new(
        functions: Functions,
        parameters: &str,
        ports: u32,
        secret: u64,
        budget_ns: u64,
    ) -> Result<Attached, String> {
        let text = CString::new(parameters).map_err(|_| "the text has a NUL in it".to_owned())?;
        let settings = Settings {
            parameters: text.as_ptr(),
            parameters_len: text.as_bytes().len(),
            secret,
            ports,
            reserved: 0,
        };
        let mut instance = ptr::null_mut();
        let mut why = [0_u8; LONGEST_REASON];
        // SAFETY: the function is code of the library, and has this type by the header. The settings, the place of the
        // instance and the octets of the reason live until it returns, and their lengths are right.
        let answer = unsafe {
            (functions.create)(
                &raw const settings,
                &raw mut instance,
                why.as_mut_ptr().cast::<c_char>(),
                why.len(),
            )
        };
        if answer != OK {
            return Err(reason(answer, &why));
        }
        Ok(Attached { functions, instance, timer: Timer::new(budget_ns), abandoned: false })
    }
}

/// The reason that a library wrote, in one line.
fn reason(answer: i32, why: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(why).map(CStr::to_string_lossy).unwrap_or_default();
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.trim().is_empty() {
        format!("it answered {answer} and no reason")
    } else {
        text.trim().to_owned()
    }
}

/// The processor time of this thread, in nanoseconds.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

impl Instance for Attached {
    fn judge(&mut self, call: &Call, seen: &[PacketView], answers: &mut [Answer]) -> Result<(), Detached> {
        let count = seen.len().min(answers.len());
        if self.abandoned || count == 0 {
            return Err(Detached::Failed(-1));
        }
        let before = self.timer.is_watched().then(processor_ns);
        let start = Instant::now();
        // SAFETY: the function is code of the library, and has this type by the header. The instance is its own, which
        // nobody else uses now; both arrays have `count` records in the header's layout, and live until it returns.
        let answer = unsafe {
            (self.functions.run)(
                self.instance,
                ptr::from_ref(call),
                seen.as_ptr(),
                answers.as_mut_ptr(),
                count,
            )
        };
        let clock_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let processor_ns = before.map(|before| processor_ns().saturating_sub(before));
        let took = self.timer.note(Took { packets: count as u64, clock_ns, processor_ns });
        if answer != OK {
            return Err(Detached::Failed(answer));
        }
        took.map_err(|TooSlow { calls, budget_ns, took_ns }| Detached::Slow { calls, budget_ns, took_ns })
    }

    fn times(&self) -> Times {
        Times { over_budget: self.timer.over(), longest_ns: self.timer.longest_ns() }
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.abandoned {
            // SAFETY: the function is code of the library, and has this type by the header. The instance is not used
            // again.
            unsafe { (self.functions.destroy)(self.instance) }
        }
    }
}
