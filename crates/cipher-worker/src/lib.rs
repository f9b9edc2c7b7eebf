//! Ciphers of one's own in processes of their own (issue 23 item 6, docs/design/0037, docs/cipher-worker.md).
//!
//! What enters: a library that was examined and tried ([`cipher_loader::Examined`]). What leaves: an [`Isolated`], which
//! is a [`crypto::custom::CustomCipher`] like the library itself, so that the host's modes make the same packets of it.
//!
//! | module | is |
//! |---|---|
//! | [`layout`] | the places of everything in the two shared memories |
//! | `memory` | the memories, and the only ways to touch them |
//! | `link`, `core`, `batch`, `ahead` | the host's half: lanes, batches, key stream that is there ahead |
//! | `keys` | the keys, as `crypto::custom` wants them |
//! | `supervisor` | the thread that starts a worker again |
//! | `spawner` | the process that starts workers |
//! | `serve` | the worker's half |
//!
//! A worker that ends, hangs or lies makes packets of its cipher fail with [`crypto::UnitFailed`]. It cannot reach
//! anything else, and nothing that it writes is believed.

mod ahead;
mod batch;
mod core;
mod futex;
mod isolated;
mod keys;
pub mod layout;
mod link;
mod locked;
mod memory;
mod message;
mod report;
mod serve;
mod spawner;
mod supervisor;

pub use isolated::{Isolated, Settings, WorkerError};
pub use memory::{Memory, Outside};
pub use report::{Event, Failure, Report, State};
pub use serve::serve;
pub use spawner::child_main;
