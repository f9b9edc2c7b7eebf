//! One message: the text of RFC 5424 with its place in the chain.
//!
//! ```text
//! <PRI>1 TIME HOST APP-NAME PROCID MSGID [ravelin@32473 seq="N" prev="HEX"] TEXT
//! ```
//!
//! `seq` counts from 1. `prev` is the SHA-256, in lower-case hexadecimal, of the whole message before it as it was
//! sent, from its `<` to its last octet and without the octet count of RFC 5425; 64 zeros in the first message. The
//! number 32473 is the one that RFC 5612 leaves to examples. A text is UTF-8 without a byte order mark (the MSG-ANY
//! of RFC 5424 section 6.4).

use std::fmt::Write;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::clock;

/// The octets that a message has at most, without the octet count in front of it. RFC 5425 section 4.3.1 wants
/// receivers to take 8192; rsyslog takes 8096 unless told otherwise, and makes two messages of a longer one.
pub const LONGEST: usize = 8000;

/// Facility 10 of RFC 5424 section 6.2.1: security and authorisation messages.
const FACILITY: u8 = 10;

/// The id of the structured data element.
pub(crate) const ELEMENT: &str = "ravelin@32473";

/// The severity of a message (RFC 5424 section 6.2.1), as far as an audit log has use for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something was lost or failed.
    Error = 3,
    /// A packet or an operation was refused.
    Warning = 4,
    /// Somebody did what leaves a trace.
    Notice = 5,
    /// The sender is there.
    Informational = 6,
}

/// A place in the chain: the number of a message, and its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) seq: u64,
    pub(crate) hash: [u8; 32],
}

impl Mark {
    /// The place before the first message.
    pub(crate) const BEGIN: Mark = Mark { seq: 0, hash: [0; 32] };

    /// The place of a message that follows this one.
    pub(crate) fn then(self, message: &[u8]) -> Mark {
        Mark { seq: self.seq.saturating_add(1), hash: Sha256::digest(message).into() }
    }
}

/// Octets in lower-case hexadecimal.
pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(2 * octets.len()), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// What every message of a sender has in common.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    host: String,
    app_name: String,
    process: u32,
}

/// What a caller wants told.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) severity: Severity,
    pub(crate) id: String,
    /// The begin of the text, as far as any message has room for it.
    text: String,
    /// The octets that the whole text has.
    whole: usize,
}

impl Entry {
    /// An entry of this moment, bounded in length.
    pub(crate) fn now(severity: Severity, id: &str, text: &str) -> Entry {
        let mut text = clean(text);
        let whole = text.len();
        text.truncate(boundary(&text, LONGEST));
        Entry { at: clock::wall(), severity, id: name(id, 32), text, whole }
    }
}

impl Sender {
    pub(crate) fn new(app_name: &str) -> Sender {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Sender { host: name(host.trim(), 255), app_name: name(app_name, 48), process: std::process::id() }
    }

    /// The message that follows `before`, of [`LONGEST`] octets at most.
    pub(crate) fn message(&self, entry: &Entry, before: Mark) -> String {
        let Sender { host, app_name, process } = self;
        let (seq, prev) = (before.seq.saturating_add(1), hex(&before.hash));
        let (priority, time) = (FACILITY * 8 + entry.severity as u8, clock::stamp(entry.at));
        let mut message = format!(
            "<{priority}>1 {time} {host} {app_name} {process} {} [{ELEMENT} seq=\"{seq}\" prev=\"{prev}\"] ",
            entry.id
        );
        message.push_str(&cut(&entry.text, entry.whole, LONGEST.saturating_sub(message.len())));
        message
    }
}

/// A field of the header: printable ASCII without spaces, of this many octets at most, `-` if nothing is left.
fn name(given: &str, most: usize) -> String {
    let kept: String = given.chars().filter(char::is_ascii_graphic).take(most).collect();
    if kept.is_empty() { "-".to_owned() } else { kept }
}

/// A text without control characters, so that no file of lines shows one message as two. A tab or the end of a line
/// becomes a space, any other one U+FFFD.
fn clean(text: &str) -> String {
    let clean = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        '\u{2028}' | '\u{2029}' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(clean).collect()
}

/// The begin of a text of `whole` octets, `most` octets at most. One that was longer ends with a mark that says how
/// many octets are missing.
fn cut(text: &str, whole: usize, most: usize) -> String {
    if whole <= most {
        return text.to_owned();
    }
    // The mark is counted with the longest number that it can have.
    let room = most.saturating_sub("...[cut 18446744073709551615 octets]".len());
    let kept = text.get(..boundary(text, room)).unwrap_or_default();
    format!("{kept}...[cut {} octets]", whole - kept.len())
}

/// The last place in a text, at `most` or before, where no character is cut.
fn boundary(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(text: &str) -> Entry {
        Entry {
            at: Duration::from_micros(1_700_000_000_123_456),
            ..Entry::now(Severity::Notice, "action", text)
        }
    }

    #[test]
    fn a_message_is_that_of_the_standard() {
        let sender = Sender { host: "gate".to_owned(), app_name: "ravelin".to_owned(), process: 7 };
        let first = sender.message(&entry(r#"{"event":"x"}"#), Mark::BEGIN);
        let zeros = "0".repeat(64);
        let header = "<85>1 2023-11-14T22:13:20.123456Z gate ravelin 7 action";
        assert_eq!(first, format!("{header} [ravelin@32473 seq=\"1\" prev=\"{zeros}\"] {{\"event\":\"x\"}}"));
        // What `sha256sum` says of these octets is what the next message carries.
        let mark = Mark::BEGIN.then(b"abc");
        assert_eq!(hex(&mark.hash), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let second = sender.message(&entry("y"), mark);
        assert!(second.contains("seq=\"2\" prev=\"ba7816bf8f01cfea"), "{second}");
    }

    #[test]
    fn names_are_printable_and_never_empty() {
        assert_eq!(name("a b\n\"é", 32), "ab\"");
        assert_eq!(name(" \n", 32), "-");
        assert_eq!(name("abcdef", 3), "abc");
    }

    proptest! {
        #[test]
        fn no_text_makes_a_second_line_or_a_message_that_is_too_long(text in any::<String>(), times in 1_usize..3000) {
            let text = text.repeat(times);
            let sender = Sender { host: "h".repeat(255), app_name: "a".repeat(48), process: u32::MAX };
            let last = Mark { seq: u64::MAX - 1, hash: [255; 32] };
            let message = sender.message(&entry(&text), last);
            prop_assert!(message.len() <= LONGEST);
            prop_assert!(!message.chars().any(char::is_control));
            let cleaned = clean(&text);
            if cleaned.len() > LONGEST {
                let (kept, mark) = message.rsplit_once("...[cut ").unwrap();
                let kept = kept.split_once("] ").unwrap().1;
                let missing: usize = mark.strip_suffix(" octets]").unwrap().parse().unwrap();
                prop_assert!(cleaned.starts_with(kept));
                prop_assert_eq!(kept.len() + missing, cleaned.len());
                prop_assert!(message.len() > LONGEST - 40);
            }
        }

        #[test]
        fn what_fits_is_whole(text in "[ -~]{0,4000}") {
            let message = Sender::new("ravelin").message(&entry(&text), Mark::BEGIN);
            prop_assert!(message.ends_with(&text));
        }
    }
}
