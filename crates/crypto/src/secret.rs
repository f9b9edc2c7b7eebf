//! Octets that are wiped when dropped, never printed, and compared in constant time.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A key or keying material.
#[derive(Clone)]
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// Take octets into custody. The caller's copy, if any, stays the caller's to wipe.
    pub fn new(octets: Vec<u8>) -> Secret {
        // A boxed slice has no spare capacity that a later growth could leave behind unwiped.
        let octets = Zeroizing::new(octets);
        Secret(Zeroizing::new(octets.as_slice().into()))
    }

    /// The secret octets themselves. Do not copy them anywhere that is not wiped.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Length of the secret, in octets.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no octets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} octets)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn debug_shows_no_octet() {
        assert_eq!(format!("{:?}", Secret::new(vec![0xab; 20])), "Secret(20 octets)");
    }
}
