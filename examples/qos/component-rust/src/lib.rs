//! A component for Ravelin that drops packets at random before a rate is reached: none below `low`, then more and more
//! up to the share `most` at `high`, and that share beyond. A packet that can be told of congestion is marked instead.
//!
//! Parameters: `low=KBIT high=KBIT most=PERCENT`, in any order; `most` is 10 unless it is written. The rate is that of
//! the octets that come, averaged over about 100 ms, so the losses of a flood are spread in time and over flows, before
//! a queue behind it is full.

use std::ffi::{c_char, c_void};

/// Nanoseconds in which the average forgets half of what it knew, about.
const AVERAGE_NS: u64 = 100_000_000;
/// The whole of a share.
const WHOLE: u64 = 1 << 32;

// The records of include/ravelin-qos.h, in its order.

/// The record `struct ravelin_qos_call` of the C header.
#[repr(C)]
pub struct Call {
    now_ns: u64,
    random: u64,
}

/// The record `struct ravelin_qos_meta` of the C header.
#[repr(C)]
pub struct Meta {
    arrived_ns: u64,
    cost_ns: u64,
    packets: u32,
    octets: u32,
    association: u32,
    spi: u32,
    mark: u32,
    user: u32,
    flow: u32,
    key: u32,
    app: u16,
    suite: u16,
    peer: u16,
    units: u16,
    class_id: u8,
    colour: u8,
    dscp_outer: u8,
    dscp_inner: u8,
    ecn: u8,
    header: u8,
    direction: u8,
    index: u8,
}

/// The record `struct ravelin_qos_verdict` of the C header.
#[repr(C)]
pub struct Verdict {
    action: u32,
    value: u32,
    changes: u32,
    colour: u8,
    dscp: u8,
    reserved: u16,
}

/// The record `struct ravelin_qos_settings` of the C header.
#[repr(C)]
pub struct Settings {
    parameters: *const c_char,
    parameters_len: usize,
    secret: u64,
    ports: u32,
    reserved: u32,
}

/// The record `struct ravelin_qos_component` of the C header.
#[repr(C)]
pub struct Component {
    abi_major: u32,
    abi_minor: u32,
    struct_size: u32,
    kind: u32,
    name: *const c_char,
    version: *const c_char,
    create: unsafe extern "C" fn(*const Settings, *mut *mut c_void, *mut c_char, usize) -> i32,
    destroy: unsafe extern "C" fn(*mut c_void),
    run: unsafe extern "C" fn(*mut c_void, *const Call, *const Meta, *mut Verdict, usize) -> i32,
}

// SAFETY: the pointers lead to constant text.
unsafe impl Sync for Component {}

const OK: i32 = 0;
const PASS: u32 = 0;
const MARK: u32 = 1;
const DROP: u32 = 2;
const EARLY_DROP: u32 = 2;

/// What an instance knows.
#[derive(Debug, PartialEq)]
struct Gentle {
    /// Octets a second below which nothing is dropped.
    low: u64,
    /// Octets a second from which on the whole share is.
    high: u64,
    /// The share at `high`, of [`WHOLE`].
    most: u64,
    /// Octets a second, averaged.
    rate: u64,
    before_ns: u64,
    octets: u64,
}

impl Gentle {
    fn read(text: &str) -> Result<Gentle, String> {
        let (mut low, mut high, mut most) = (None, None, 10);
        for word in text.split_ascii_whitespace() {
            let (name, value) =
                word.split_once('=').ok_or_else(|| format!("{word:.40} is no setting: write name=value"))?;
            let value: u64 = value.parse().map_err(|_| format!("{name:.40} is no whole number"))?;
            match name {
                "low" => low = Some(value),
                "high" => high = Some(value),
                "most" if value <= 100 => most = value,
                "most" => return Err("most is a number of percent, 0 to 100".to_owned()),
                other => return Err(format!("{other:.40} is none of low, high, most")),
            }
        }
        let (Some(low), Some(high)) = (low, high) else {
            return Err("write low=KBIT and high=KBIT".to_owned());
        };
        if low >= high || high > 1_000_000_000 {
            return Err("low is below high, and high at most 1000000000".to_owned());
        }
        let octets = |kbit: u64| kbit * 125;
        let most = WHOLE * most / 100;
        Ok(Gentle { low: octets(low), high: octets(high), most, rate: 0, before_ns: 0, octets: 0 })
    }

    /// Count what has come, and average it once a millisecond.
    fn count(&mut self, now_ns: u64, octets: u64) {
        self.octets = self.octets.saturating_add(octets);
        let passed = now_ns.saturating_sub(self.before_ns);
        if passed < 1_000_000 {
            return;
        }
        let now = u128::from(self.octets) * 1_000_000_000 / u128::from(passed);
        let weight = u128::from(passed.min(AVERAGE_NS));
        let all = u128::from(AVERAGE_NS);
        let mean = (u128::from(self.rate) * (all - weight) + now * weight) / all;
        self.rate = u64::try_from(mean).unwrap_or(u64::MAX);
        (self.before_ns, self.octets) = (now_ns, 0);
    }

    /// The share of packets that is dropped now.
    fn share(&self) -> u64 {
        let above = self.rate.saturating_sub(self.low).min(self.high - self.low);
        let share = u128::from(self.most) * u128::from(above) / u128::from(self.high - self.low);
        u64::try_from(share).unwrap_or(WHOLE)
    }

    fn judge(&mut self, call: &Call, random: u64, meta: &Meta) -> Verdict {
        self.count(call.now_ns, u64::from(meta.octets));
        let (action, value) = match random >> 32 < self.share() {
            false => (PASS, 0),
            true if meta.ecn != 0 => (MARK, 0),
            true => (DROP, EARLY_DROP),
        };
        Verdict { action, value, changes: 0, colour: 0, dscp: 0, reserved: 0 }
    }
}

unsafe extern "C" fn create(
    settings: *const Settings,
    instance: *mut *mut c_void,
    why: *mut c_char,
    why_len: usize,
) -> i32 {
    // SAFETY: Ravelin hands over settings whose parameters have so many octets.
    let text = unsafe {
        let Settings { parameters, parameters_len, .. } = &*settings;
        std::slice::from_raw_parts(parameters.cast::<u8>(), *parameters_len)
    };
    let made = std::str::from_utf8(text).map_err(|_| "no UTF-8".to_owned()).and_then(Gentle::read);
    match made {
        Ok(gentle) => {
            // SAFETY: the place of the instance is Ravelin's, and can be written.
            unsafe { *instance = Box::into_raw(Box::new(gentle)).cast() };
            OK
        }
        Err(reason) => {
            let octets = &reason.as_bytes()[..reason.len().min(why_len.saturating_sub(1))];
            // SAFETY: so many octets can be written there, with the NUL behind them.
            unsafe {
                std::ptr::copy_nonoverlapping(octets.as_ptr(), why.cast(), octets.len());
                *why.add(octets.len()) = 0;
            }
            1
        }
    }
}

unsafe extern "C" fn destroy(instance: *mut c_void) {
    // SAFETY: `create` made it, and Ravelin does not use it again.
    drop(unsafe { Box::from_raw(instance.cast::<Gentle>()) });
}

unsafe extern "C" fn run(
    instance: *mut c_void,
    call: *const Call,
    metas: *const Meta,
    verdicts: *mut Verdict,
    count: usize,
) -> i32 {
    // SAFETY: `create` made the instance, and nobody else uses it now. Both arrays have `count` records.
    let (gentle, call, metas) = unsafe {
        (&mut *instance.cast::<Gentle>(), &*call, std::slice::from_raw_parts(metas, count))
    };
    let mut random = call.random;
    for (at, meta) in metas.iter().enumerate() {
        let verdict = gentle.judge(call, random, meta);
        // SAFETY: `at` is below `count`.
        unsafe { verdicts.add(at).write(verdict) };
        // The next number of SplitMix64 (Steele, Lea and Flood 2014).
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        random = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random ^= random >> 27;
    }
    OK
}

static GENTLE: Component = Component {
    abi_major: 1,
    abi_minor: 0,
    struct_size: size_of::<Component>() as u32,
    kind: 1,
    name: c"gentle".as_ptr(),
    version: c"1.0".as_ptr(),
    create,
    destroy,
    run,
};

/// The one function that a library exports.
#[unsafe(no_mangle)]
pub extern "C" fn ravelin_qos_v1() -> *const Component {
    &raw const GENTLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_dropped_below_the_rate_and_the_share_beyond_it() {
        let mut gentle = Gentle::read("low=8000 high=16000 most=50").unwrap();
        let mut offer = |mbit: u64, now_ns: u64| {
            gentle.count(now_ns, mbit * 125);
            gentle.share()
        };
        // A packet each millisecond.
        assert!((0..1000).all(|ms| offer(7, ms * 1_000_000) == 0));
        for ms in 1000..2000 {
            offer(32, ms * 1_000_000);
        }
        assert_eq!(offer(32, 2_000_000_000), WHOLE / 2);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, why) in [
            ("", "write low=KBIT and high=KBIT"),
            ("low=2 high=1", "low is below high, and high at most 1000000000"),
            ("low=x", "low is no whole number"),
            ("burst=1", "burst is none of low, high, most"),
        ] {
            assert_eq!(Gentle::read(text), Err(why.to_owned()));
        }
    }
}
