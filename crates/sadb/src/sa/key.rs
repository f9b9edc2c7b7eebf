//! The key of an association, ready for use, and the lengths that it puts on the wire.

use std::sync::Arc;

use crypto::{Authenticator, Cipher, Registry, Secret, SuiteId, Transform};

use super::config::SaConfig;
use super::options::{Padding, SaProtocol};
use crate::SadError;

/// The block size of AES, in octets.
const AES_BLOCK: u8 = 16;

/// The key of an association, ready for use. A clone shares it, so that work with it may go to another thread and
/// outlive the association.
///
/// A key stays in the box in which its unit made it. Moved into the memory of the `Arc`, its octets would be copied, and
/// the copy in the box would be given back without being wiped.
#[derive(Clone)]
pub enum Key {
    /// A key of ESP.
    Esp(Arc<Box<dyn Transform>>),
    /// A key of AH.
    Ah(Arc<Box<dyn Authenticator>>),
    /// An association without a key: IPComp or IP in IP.
    None,
}

impl Key {
    /// Whether this is the key of the same association, and not one with the same octets.
    pub fn is_shared_with(&self, other: &Key) -> bool {
        match (self, other) {
            (Key::Esp(one), Key::Esp(other)) => Arc::ptr_eq(one, other),
            (Key::Ah(one), Key::Ah(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The key of a configuration whose lengths were checked.
    pub(super) fn new(config: &SaConfig, registry: &Registry) -> Result<Key, SadError> {
        let keymat: &Secret = &config.keymat;
        Ok(match config.options.protocol {
            SaProtocol::Esp => {
                let extended = config.options.extended_sequence;
                Key::Esp(Arc::new(registry.transform(config.suite, keymat, extended)?))
            }
            SaProtocol::Ah => Key::Ah(Arc::new(registry.authenticator(config.suite.integrity(), keymat)?)),
            SaProtocol::IpComp | SaProtocol::IpIp => Key::None,
        })
    }
}

/// The lengths that a suite puts on the wire, in octets. They are small, so that they lie beside the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The length of the explicit IV, in octets.
    pub iv: u8,
    /// The length of the ICV, in octets.
    pub icv: u8,
    /// Payload and trailer together are a multiple of this: the cipher's block, and four at least (RFC 4303 section
    /// 2.4).
    pub align: u8,
    /// Payload and trailer are padded to a multiple of this where the path has room for it; it is a multiple of
    /// `align`. AES-GCM computes whole blocks, and an incomplete last one takes its fastest units more time than a
    /// whole one (docs/design/0008-cost-of-a-packet.md).
    pub whole: u8,
}

impl Shape {
    /// The lengths of this suite.
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

    /// The lengths for an association that pads like this.
    pub const fn padded(self, padding: Padding) -> Shape {
        match padding {
            Padding::Least => Shape { whole: self.align, ..self },
            Padding::Blocks => self,
        }
    }
}
