//! The frame of a hand-over: what stands in front of its body, and behind it.

/// The octets that a hand-over begins with.
pub const MAGIC: [u8; 8] = *b"RVLNHAND";
/// The version of the form.
pub const VERSION: u32 = 7;
/// The oldest version that is read. In it, associations have no class.
pub const OLDEST: u32 = 6;
/// Octets in front of the body: magic, version and length.
pub const HEAD: usize = 20;
/// Octets of the CRC at the end.
pub const FOOT: usize = 8;
