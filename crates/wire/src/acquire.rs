//! The name of a request for an association.

/// The number of a held packet's request for a security association (RFC 4301 section 4.4.1, paper 000 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AcquireId(pub u32);
