//! The spool of `[audit.remote]`: messages that the collector is not known to have read.
//!
//! Its first line names the last message that was read, and is written anew with each confirmation; then come the messages
//! that wait, the oldest first, each behind its length (RFC 5425 section 4.3) and with its time (RFC 5424 section 6.2.3).

use std::path::Path;

use crate::tree::{ReadError, Tree};

/// The file in the folder of the spool.
const FILE: &str = "spool";
/// The begin of the file's first line; the number of the last message that was read follows.
const FIRST: &str = "ravelin-spool 1 ";
/// The octets that hold the first line, and the header of the first message up to its time.
const HEAD: u64 = 512;

/// What a spool says of its collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collector {
    /// The collector never read anything.
    Silent,
    /// The collector read everything but what is younger than this, in seconds.
    ReadBefore(u64),
}

/// What the spool in this folder says.
pub(crate) fn collector(tree: &Tree, folder: &Path) -> Result<Collector, ReadError> {
    let path = folder.join(FILE);
    let octets = match tree.head(&path, HEAD) {
        Err(error) if error.is_absent() => return Ok(Collector::Silent),
        octets => octets?,
    };
    let text = String::from_utf8_lossy(&octets);
    let other = |why: &str| ReadError::Other(path.clone(), why.to_owned());
    let (line, messages) = text.split_once('\n').ok_or_else(|| other("it has no first line"))?;
    let number = line.strip_prefix(FIRST).and_then(|rest| rest.split(' ').next());
    let number = number.and_then(|number| number.parse::<u64>().ok());
    match number {
        None => Err(other("its first line is not one of this version")),
        Some(0) => Ok(Collector::Silent),
        // The file was written with the last confirmation, and nothing since.
        Some(_) if messages.is_empty() => Ok(Collector::ReadBefore(tree.age(&path)?)),
        Some(_) => {
            let time = messages.split(' ').nth(2).and_then(seconds);
            let time = time.ok_or_else(|| other("its first message has no time"))?;
            Ok(Collector::ReadBefore(tree.since(&path, time)?))
        }
    }
}

/// The seconds since 1970 of a time as RFC 5424 has it, in UTC.
fn seconds(time: &str) -> Option<u64> {
    let (date, clock) = time.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let parts: Vec<u64> = text.split(by).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(clock.split('.').next()?, ':')?;
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years begin in March here, so that the day that some have more comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_those_of_the_calendar() {
        // `date -u -d TIME +%s` prints these.
        for (time, wanted) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:30:15.000001Z", 951_827_415),
            ("2024-12-31T23:59:59.999999Z", 1_735_689_599),
            ("2027-01-15T08:00:00.5Z", 1_800_000_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(seconds(time), Some(wanted), "{time}");
        }
        for wrong in [
            "",
            "-",
            "1969-12-31T23:59:59Z",
            "2027-13-01T00:00:00Z",
            "2027-01-15T08:00:00+01:00",
            "99999999999-1-1T1:1:1Z",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
