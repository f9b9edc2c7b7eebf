//! Octet counting (RFC 5425 section 4.3): a decimal length, a space, and so many octets of a message. The spool has the
//! same form, so that what is sent is what is on the disk.

use crate::message::{ELEMENT, LONGEST, Mark};

/// The digits of the longest length.
const DIGITS: usize = 4;

/// What is at the begin of some octets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// A message, and how many octets it has with its length.
    Whole(&'a [u8], usize),
    /// The begin of one, or nothing.
    Part,
    /// No frame of this sender.
    Bad,
}

/// A message behind its length.
pub(crate) fn framed(message: &str) -> String {
    format!("{} {message}", message.len())
}

/// The first frame of `octets`.
pub(crate) fn first(octets: &[u8]) -> Frame<'_> {
    let digits = octets.iter().take_while(|octet| octet.is_ascii_digit()).count();
    let length = octets.get(..digits).unwrap_or_default();
    if digits > DIGITS || length.first() == Some(&b'0') {
        return Frame::Bad;
    }
    let Some(behind) = octets.get(digits..).and_then(|rest| rest.split_first()) else { return Frame::Part };
    let length = length.iter().fold(0, |sum, digit| 10 * sum + usize::from(digit - b'0'));
    match behind {
        (b' ', rest) if (1..=LONGEST).contains(&length) => match rest.get(..length) {
            Some(message) => Frame::Whole(message, digits + 1 + length),
            None => Frame::Part,
        },
        _ => Frame::Bad,
    }
}

/// The octets of the whole frames that `octets` begin with, and the place of the last one, counted from `before`.
pub(crate) fn whole(octets: &[u8], before: Mark) -> (usize, Mark) {
    let (mut end, mut mark) = (0, before);
    while let Some(Frame::Whole(message, len)) = octets.get(end..).map(first) {
        (end, mark) = (end + len, mark.then(message));
    }
    (end, mark)
}

/// Whether a message says that it follows this one, and is of this sender's making: text without control characters,
/// which octets that a crash left unwritten are not.
pub(crate) fn follows(message: &[u8], before: Mark) -> bool {
    if !std::str::from_utf8(message).is_ok_and(|text| !text.chars().any(char::is_control)) {
        return false;
    }
    let Some(next) = before.seq.checked_add(1) else { return false };
    let prev = crate::message::hex(&before.hash);
    let expected = format!("[{ELEMENT} seq=\"{next}\" prev=\"{prev}\"] ");
    let data = message.splitn(7, |octet| *octet == b' ').nth(6);
    data.is_some_and(|data| data.starts_with(expected.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_that_no_sender_writes_are_refused() {
        for bad in ["0 ", "012 a", "8001 a", "12345", "a", " 1", "3,abc"] {
            assert_eq!(first(bad.as_bytes()), Frame::Bad, "{bad}");
        }
        for part in ["", "3", "3 ", "3 ab", "8000 a"] {
            assert_eq!(first(part.as_bytes()), Frame::Part, "{part}");
        }
        assert_eq!(first(b"3 abc4 d"), Frame::Whole(b"abc", 5));
    }

    proptest! {
        #[test]
        fn any_octets_are_read(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
            let (end, _) = whole(&octets, Mark::BEGIN);
            prop_assert!(end <= octets.len());
            let _ = follows(&octets, Mark::BEGIN);
        }

        #[test]
        fn frames_come_back(messages in proptest::collection::vec("[ -~]{1,40}", 1..9), cut in 0_usize..400) {
            let all: String = messages.iter().map(|message| framed(message)).collect();
            let mark = messages.iter().fold(Mark::BEGIN, |mark, message| mark.then(message.as_bytes()));
            prop_assert_eq!(whole(all.as_bytes(), Mark::BEGIN), (all.len(), mark));
            let part = &all.as_bytes()[..cut.min(all.len())];
            prop_assert!(whole(part, Mark::BEGIN).0 <= part.len());
        }
    }
}
