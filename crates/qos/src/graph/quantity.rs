//! Times, rates, octets and shares as people write them: `5ms`, `20Mbit`, `64kB`, `80%`.
//!
//! Each value is printed in the largest unit that divides it, so that reading what was printed gives the same value.

/// A unit of a quantity: how it is written, and what it counts for.
type Unit = (&'static str, u64);

const TIMES: &[Unit] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const RATES: &[Unit] = &[("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
const OCTETS: &[Unit] =
    &[("GiB", 1 << 30), ("MB", 1_000_000), ("MiB", 1 << 20), ("kB", 1_000), ("KiB", 1 << 10), ("B", 1)];
const SHARES: &[Unit] = &[("%", 10_000)];

/// The whole, in parts per million: the measure of shares.
pub const WHOLE: u64 = 1_000_000;

/// Nanoseconds, from text such as `5ms`.
pub fn time(text: &str) -> Option<u64> {
    parse(text, TIMES)
}

/// Bits a second, from text such as `20Mbit`.
pub fn rate(text: &str) -> Option<u64> {
    parse(text, RATES)
}

/// Octets, from text such as `64kB`.
pub fn octets(text: &str) -> Option<u64> {
    parse(text, OCTETS)
}

/// Parts per million, from text such as `12.5%`.
pub fn share(text: &str) -> Option<u64> {
    parse(text, SHARES)
}

/// A time in nanoseconds as text.
pub fn show_time(ns: u64) -> String {
    show(ns, TIMES)
}

/// Nanoseconds as text of three digits or so, rounded up.
pub fn show_about(ns: u64) -> String {
    let (name, scale) = TIMES.iter().find(|(_, scale)| ns >= *scale).copied().unwrap_or(("ns", 1));
    let hundredths = if scale == 1 { ns.saturating_mul(100) } else { ns.div_ceil(scale / 100) };
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    let text = if rest == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{rest:02}").trim_end_matches('0').to_owned()
    };
    text + name
}

/// Bits a second as text.
pub fn show_rate(bits: u64) -> String {
    show(bits, RATES)
}

/// A number of octets as text.
pub fn show_octets(octets: u64) -> String {
    show(octets, OCTETS)
}

/// Parts per million as text.
pub fn show_share(parts: u64) -> String {
    let (whole, rest) = (parts / 10_000, parts % 10_000);
    if rest == 0 {
        return format!("{whole}%");
    }
    format!("{whole}.{rest:04}").trim_end_matches('0').to_owned() + "%"
}

/// A number with up to four decimals and one of the units. The result must be whole.
fn parse(text: &str, units: &[Unit]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, scale) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    let number = number.replace('_', "");
    let (whole, decimals) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || decimals.len() > 4 || (number.contains('.') && decimals.is_empty()) {
        return None;
    }
    let power = 10_u64.pow(u32::try_from(decimals.len()).ok()?);
    let fraction: u64 = if decimals.is_empty() { 0 } else { decimals.parse().ok()? };
    let fraction = fraction.checked_mul(*scale)?;
    if !fraction.is_multiple_of(power) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(*scale)?.checked_add(fraction / power)
}

fn show(value: u64, units: &[Unit]) -> String {
    let fits = |(_, scale): &&Unit| value != 0 && value.is_multiple_of(*scale);
    let best = units.iter().filter(fits).max_by_key(|(_, scale)| *scale);
    match best.or(units.last()) {
        Some((name, scale)) => format!("{}{name}", value / scale),
        None => value.to_string(),
    }
}
