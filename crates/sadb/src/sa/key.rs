//! The key of an association, ready for use, and the lengths that it puts on the wire.

use crypto::{Authenticator, Cipher, Registry, Secret, SuiteId, Transform};

use super::config::SaConfig;
use super::options::{Padding, SaProtocol};
use crate::SadError;

/// Octets of a block of AES.
const AES_BLOCK: u8 = 16;

/// A key, ready for use.
pub enum Key {
    /// Of ESP.
    Esp(Box<dyn Transform>),
    /// Of AH.
    Ah(Box<dyn Authenticator>),
    /// The association has none.
    None,
}

impl Key {
    /// The key of a configuration whose lengths were checked.
    pub(super) fn new(config: &SaConfig, registry: &Registry) -> Result<Key, SadError> {
        let keymat: &Secret = &config.keymat;
        Ok(match config.options.protocol {
            SaProtocol::Esp => {
                Key::Esp(registry.transform(config.suite, keymat, config.options.extended_sequence)?)
            }
            SaProtocol::Ah => Key::Ah(registry.authenticator(config.suite.integrity(), keymat)?),
            SaProtocol::IpComp | SaProtocol::IpIp => Key::None,
        })
    }
}

/// Octets that the suite puts on the wire. Small, so that it lies beside the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The explicit IV.
    pub iv: u8,
    /// The ICV.
    pub icv: u8,
    /// What payload and trailer together are a multiple of: the cipher's block, and four at least (RFC 4303 section 2.4).
    pub align: u8,
    /// What they are padded to where the path has room for it: a multiple of `align`. AES-GCM computes whole blocks, and a
    /// last one that is not whole costs its fastest units more than one that is (docs/design/0008-cost-of-a-packet.md).
    pub whole: u8,
}

impl Shape {
    /// Of this suite.
    pub const fn of(suite: SuiteId) -> Shape {
        let block = suite.block_len() as u8;
        let align = if block < 4 { 4 } else { block };
        let gcm = matches!(suite.cipher(), Cipher::Aes128Gcm16 | Cipher::Aes192Gcm16 | Cipher::Aes256Gcm16);
        Shape {
            iv: suite.iv_len() as u8,
            icv: suite.icv_len() as u8,
            align,
            whole: if gcm { AES_BLOCK } else { align },
        }
    }

    /// Of an association that pads like this.
    pub const fn padded(self, padding: Padding) -> Shape {
        match padding {
            Padding::Least => Shape { whole: self.align, ..self },
            Padding::Blocks => self,
        }
    }
}
