//! A key stream without end, for suites of others.

use std::sync::Arc;

use crypto::custom::CustomCipher;

use crate::random::Random;
use crate::subject::{Keyed, Subject, SubjectError};

/// The key stream of a cipher under one key: packets of 4096 octets behind each other, each with a sequence number of its
/// own, as ESP would number them. A block cipher is in counter mode (RFC 3686), a combined mode encrypts zeros.
pub struct KeyStream {
    keyed: Keyed,
    salt: [u8; 4],
    next: u64,
}

impl KeyStream {
    /// Octets of a packet. [`Self::fill`] takes whole ones.
    pub const PACKET: usize = Keyed::PACKET;

    /// The key stream of the key that this seed gives. The same seed gives the same octets.
    ///
    /// # Errors
    /// [`SubjectError`]: the cipher takes no key.
    pub fn new(cipher: Arc<dyn CustomCipher>, seed: u64) -> Result<KeyStream, SubjectError> {
        let mut random = Random::for_use(seed, "stream");
        let (_, keyed) = Subject::new(cipher).random_key(&mut random, &mut 0)?;
        let mut salt = [0; 4];
        random.fill(&mut salt);
        Ok(KeyStream { keyed, salt, next: 1 })
    }

    /// The next octets of the stream. A packet that is not filled ends there: its rest is not in the stream.
    ///
    /// # Errors
    /// [`SubjectError::Unit`]: what `octets` holds has no meaning.
    pub fn fill(&mut self, octets: &mut [u8]) -> Result<(), SubjectError> {
        self.keyed.key_stream(self.salt, self.next, octets)?;
        self.next += octets.len().div_ceil(KeyStream::PACKET) as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controls::reference;

    #[test]
    fn pieces_are_the_whole() {
        let mut whole = vec![0; 6 * KeyStream::PACKET];
        KeyStream::new(reference(), 1).unwrap().fill(&mut whole).unwrap();
        let mut stream = KeyStream::new(reference(), 1).unwrap();
        for packets in [1, 2, 3] {
            let mut piece = vec![0; packets * KeyStream::PACKET];
            stream.fill(&mut piece).unwrap();
            assert_eq!(piece, whole.drain(..piece.len()).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn seeds_give_streams_of_their_own() {
        let first = |seed| {
            let mut piece = [0; KeyStream::PACKET];
            KeyStream::new(reference(), seed).unwrap().fill(&mut piece).unwrap();
            piece
        };
        assert_ne!(first(1), first(2));
    }
}
