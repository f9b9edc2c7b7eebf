//! Statistics over ciphers of one's own (issue 23 item 8): whether their outputs look like chance, and whether their
//! time depends on their keys.
//!
//! What enters: a cipher that is ready to make keys, and a seed. What leaves: a report ([`stats`]), or a key stream for
//! suites of others ([`KeyStream`]). Everything is computed here; clocks, files and programs are the command's.
//!
//! Passing proves nothing about strength; failing disproves it. Every report says so, and has controls that must fail:
//! without them a pass would not even say that the tests see anything.
#![forbid(unsafe_code)]

mod avalanche;
mod battery;
mod bits;
mod controls;
pub mod html;
mod key_stream;
pub mod probability;
mod random;
mod sets;
mod subject;
pub mod timing;

pub use battery::{LIMIT, Profile, SEED, STATEMENT, stats};
pub use controls::{TableAes, reference};
pub use key_stream::KeyStream;
pub use random::Random;
pub use subject::{Keyed, Subject, SubjectError};
