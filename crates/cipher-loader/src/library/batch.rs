//! The sizes in which calls are cut.

/// The number of octets that are copied at once for a cipher that cannot work in place.
pub(super) const COPY: usize = 2048;
/// The number of packets whose records are handed to a library at once.
pub(super) const LANES: usize = 16;
