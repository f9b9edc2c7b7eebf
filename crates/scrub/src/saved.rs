//! The state of a scrubber as octets: for its successor on the same machine (all of it), or for a standby (what has
//! changed).
//!
//! Records follow each other in the form of `postcard`. Integers are short where they are small, times are ages,
//! sequence numbers are distances, so nothing depends on the clock of the writer. A magic number and a version stand in
//! front, a count behind, so octets that are cut off anywhere are refused. The states of several scrubbers may stand
//! one behind the other.
//!
//! The state does not hold fragments under way (their senders see a loss), the counters of identifications, and how
//! many answers may be sent.

use crate::sessions::SessionRecord;
use crate::tcp::ConnectionRecord;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The octets that a state begins with.
pub(crate) const MAGIC: [u8; 8] = *b"RVLSCRUB";
/// The version of the form.
pub(crate) const VERSION: u16 = 3;

/// One record of a scrubber's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record(pub(crate) RecordKind);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RecordKind {
    Connection(Box<ConnectionRecord>),
    /// The news that a connection is forgotten.
    Gone {
        outside: SocketAddr,
        inside: SocketAddr,
        realm: u32,
    },
    Session(SessionRecord),
    /// The counts of a rule: its number, and dropped, changed, observed.
    Rule(String, [u64; 3]),
    /// The counts of packets: all, forwarded, held; by side.
    Packets([[u64; 2]; 3]),
    /// The end of a state, with the number of its records.
    End(u64),
}

impl Record {
    /// The hosts that the record is about, outside and inside. An owner of several scrubbers knows by them whose record
    /// it is. `None`: it may be anybody's.
    pub fn hosts(&self) -> Option<(IpAddr, IpAddr)> {
        match &self.0 {
            RecordKind::Connection(record) => Some(record.hosts()),
            RecordKind::Gone { outside, inside, .. } => Some((outside.ip(), inside.ip())),
            RecordKind::Session(record) => Some(record.hosts()),
            RecordKind::Rule(..) | RecordKind::Packets(_) | RecordKind::End(_) => None,
        }
    }

    /// Write the octets of the record behind those in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        // Only a writer that is full can fail, and a vector is none.
        let _ = postcard::to_extend(self, Sink(out));
    }

    /// Read the record that octets start with, and return it with those behind it.
    ///
    /// # Errors
    /// [`SavedError::Damaged`] if there is no record.
    pub fn read(octets: &[u8]) -> Result<(Record, &[u8]), SavedError> {
        postcard::take_from_bytes(octets).map_err(|_| SavedError::Damaged("a record"))
    }
}

/// The reason why octets are no scrubber's state. Nothing of them is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedError {
    /// The octets do not begin like a state.
    NotOurs,
    /// The state was saved by another version.
    Version(u16),
    /// Octets are missing, or contradict each other in this place.
    Damaged(&'static str),
}

impl std::fmt::Display for SavedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SavedError::NotOurs => f.write_str("this is not the state of a scrubber"),
            SavedError::Version(got) => {
                write!(f, "the state of a scrubber is in version {got}, this one understands {VERSION}")
            }
            SavedError::Damaged(what) => write!(f, "the state of a scrubber is damaged ({what})"),
        }
    }
}

impl std::error::Error for SavedError {}

/// The result of a restoration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreCounts {
    /// The number of connections that go on.
    pub connections: u64,
    /// The number of sessions that go on.
    pub sessions: u64,
    /// The number of connections and sessions for which there was no room.
    pub lost: u64,
}

/// Saved octets that were read from end to end.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'s>(&'s [u8]);

impl<'s> Saved<'s> {
    /// Check `octets`, which [`crate::Scrubber::save`] wrote once or several times.
    ///
    /// # Errors
    /// [`SavedError`] with the reason.
    pub fn check(octets: &'s [u8]) -> Result<Saved<'s>, SavedError> {
        let mut rest = octets;
        let mut due = None;
        while !rest.is_empty() || due.is_some() {
            let Some(records) = due else {
                rest = head(rest)?;
                due = Some(0_u64);
                continue;
            };
            let (record, behind) = Record::read(rest)?;
            rest = behind;
            due = match record.0 {
                RecordKind::End(count) if count == records => None,
                RecordKind::End(_) => return Err(SavedError::Damaged("the number of records")),
                RecordKind::Connection(connection) => {
                    connection.check().map_err(SavedError::Damaged)?;
                    Some(records + 1)
                }
                _ => Some(records + 1),
            };
        }
        Ok(Saved(octets))
    }

    /// All records of the state, in order.
    pub fn records(&self) -> impl Iterator<Item = Record> + use<'s> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            rest = head(rest).unwrap_or(rest);
            let (record, behind) = Record::read(rest).ok()?;
            rest = behind;
            Some(record)
        })
    }
}

fn head(octets: &[u8]) -> Result<&[u8], SavedError> {
    let (magic, rest) = octets.split_first_chunk::<8>().ok_or(SavedError::NotOurs)?;
    if *magic != MAGIC {
        return Err(SavedError::NotOurs);
    }
    let (version, rest) = rest.split_first_chunk::<2>().ok_or(SavedError::Damaged("the version"))?;
    let version = u16::from_be_bytes(*version);
    if version == VERSION { Ok(rest) } else { Err(SavedError::Version(version)) }
}

struct Sink<'s>(&'s mut Vec<u8>);

impl Extend<u8> for Sink<'_> {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, octets: T) {
        self.0.extend(octets);
    }
}
