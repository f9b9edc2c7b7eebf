//! Host names in the policy (docs/design/0014): who asks for them, what is known of them, and for how long.
//!
//! What enters: the names that the policy has, answers to our own questions, answers that applications received, which sockets there
//! are. What leaves: [`policy::Names`], the addresses that count now. A name is a weak identity: whoever answers for it in the
//! DNS says which peers it means (docs/man/ravelin-policy.5.md).

pub mod answer;
mod ask;
mod book;
mod saved;

pub use ask::{Asker, ResolvedName, system_servers};
pub use book::{Book, Entry, KnownAddress, MAX_ADDRESSES, Reply};
pub use saved::{forget, read, write};
