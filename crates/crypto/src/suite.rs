//! The suites by name, with the lengths that the wire and the key need.

use std::fmt;
use std::str::FromStr;

/// A suite that an association may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SuiteId {
    /// AES-128-GCM with a 16-octet ICV (RFC 4106).
    Aes128Gcm,
    /// AES-256-GCM with a 16-octet ICV (RFC 4106).
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
}

/// The figures of a suite, all in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Which suite.
    pub id: SuiteId,
    /// Its word in configuration and commands.
    pub name: &'static str,
    /// Cipher key.
    pub key_len: usize,
    /// Salt that follows the key in keying material (RFC 4106 section 8.1, RFC 7634 section 2).
    pub salt_len: usize,
    /// Explicit IV on the wire.
    pub iv_len: usize,
    /// Integrity check value on the wire.
    pub icv_len: usize,
    /// Repeating a (key, nonce) pair breaks the suite: its keys must not outlive the daemon.
    pub nonce_is_counter: bool,
}

const SUITES: [Suite; 3] = [
    Suite {
        id: SuiteId::Aes128Gcm,
        name: "aes128gcm",
        key_len: 16,
        salt_len: 4,
        iv_len: 8,
        icv_len: 16,
        nonce_is_counter: true,
    },
    Suite {
        id: SuiteId::Aes256Gcm,
        name: "aes256gcm",
        key_len: 32,
        salt_len: 4,
        iv_len: 8,
        icv_len: 16,
        nonce_is_counter: true,
    },
    Suite {
        id: SuiteId::ChaCha20Poly1305,
        name: "chacha20poly1305",
        key_len: 32,
        salt_len: 4,
        iv_len: 8,
        icv_len: 16,
        nonce_is_counter: true,
    },
];

impl SuiteId {
    /// Every suite there is.
    pub const ALL: [SuiteId; 3] = [SuiteId::Aes128Gcm, SuiteId::Aes256Gcm, SuiteId::ChaCha20Poly1305];

    /// The figures of this suite.
    pub const fn suite(self) -> &'static Suite {
        &SUITES[self as usize]
    }

    /// Octets of keying material: key and salt.
    pub const fn keymat_len(self) -> usize {
        self.suite().key_len + self.suite().salt_len
    }
}

impl fmt::Display for SuiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suite().name)
    }
}

/// No suite has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no cipher suite is called {0:?}; known: aes128gcm, aes256gcm, chacha20poly1305")]
pub struct UnknownSuite(pub String);

impl FromStr for SuiteId {
    type Err = UnknownSuite;
    fn from_str(s: &str) -> Result<Self, UnknownSuite> {
        SuiteId::ALL.into_iter().find(|id| id.suite().name == s).ok_or_else(|| UnknownSuite(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_names_round_trip() {
        for id in SuiteId::ALL {
            assert_eq!(id.suite().id, id);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert!("des".parse::<SuiteId>().is_err());
    }
}
