//! Audit lines to a collector on another machine: syslog messages (RFC 5424) over TLS (RFC 5425), both sides
//! authenticated by certificates.
//!
//! What enters: a severity, a message id and a text, into a bounded queue for which no caller waits. What leaves: one
//! TLS connection to one collector, and a folder with a spool. One thread does the work.
//!
//! - **The chain.** Each message has a sequence number and the SHA-256 of the whole message before it, so that a reader
//!   of the collector's file sees a message that is missing, was removed or was changed. The chain goes on over
//!   restarts. It has no key: whoever can rewrite the whole file at the collector can compute it anew, and only the
//!   number and hash that the sender shows ([`State`]) tell.
//! - **The spool.** Each message is on the disk, and synchronised, before it is sent, and stays there until the
//!   collector is known to have read it. A full spool keeps the oldest messages and counts the newest, because an
//!   attacker who causes a flood of messages must not push out those about how the attack began. A message of its own
//!   (`gap`) says how many were left out, once there is room again.
//! - **The confirmation.** Syslog has no acknowledgement. The sender therefore ends the connection in good order from
//!   time to time (TLS `close_notify`, then the end of the TCP stream) and takes the end of the other direction,
//!   without a reset, as the proof that the collector's program has read everything: a kernel whose program leaves
//!   octets unread answers with a reset. What a broken connection leaves in doubt is sent again, so that a collector
//!   may have a message twice, octet by octet the same.
//! - **Silence.** A `heartbeat` message is sent at a fixed interval.
#![forbid(unsafe_code)]

mod clock;
mod error;
mod frames;
mod handle;
mod link;
mod message;
mod settings;
mod spool;
mod tls;
mod worker;

pub use error::RemoteLogError;
pub use handle::{Handle, RemoteLog, State};
pub use message::{LONGEST, Severity};
pub use settings::Settings;
