//! Telling keys apart without keeping them.

/// A keyed one-way function: equal octets give equal fingerprints, and without the key of the function a fingerprint
/// tells nothing about the octets (HMAC-SHA256 and its like, RFC 2104).
pub trait Fingerprint: Send + Sync {
    /// The fingerprint of some octets.
    fn of(&self, octets: &[u8]) -> [u8; 32];
}
