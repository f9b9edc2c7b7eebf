//! What a process with a control socket has beside its subject: answers over HTTP, errors of requests, sockets and
//! locks, signals, the log, rights that it gives up, and channels to its data threads and to its successor.
//!
//! What enters: requests on a Unix socket, signals. What leaves: documents of the `api` room, or a refusal in the one form
//! that all of them have. The daemon and the scrubber in line stand on it; which requests there are, and what is done for
//! them, is theirs.
//!
//! | module | is |
//! |---|---|
//! | [`answer`] | a document or a refusal, as HTTP has it |
//! | [`extract`] | query and body of a request |
//! | [`asker`] | who asks, as the kernel says, and the target of audit lines |
//! | [`channel`] | commands to a thread that owns its state |
//! | [`debug`] | the log and its filter |
//! | [`handover`] | descriptors and sealed memory for the next process |
//! | [`privileges`], [`harden`] | what the process may do, and that it leaves no core |
//! | [`signals`], [`notify`] | what wakes it, and what systemd hears |
//! | [`socket`] | the lock of an instance, and its sockets |
#![forbid(unsafe_code)]

pub mod answer;
pub mod asker;
pub mod channel;
pub mod debug;
pub mod extract;
pub mod handover;
pub mod harden;
pub mod notify;
pub mod privileges;
pub mod signals;
pub mod socket;
