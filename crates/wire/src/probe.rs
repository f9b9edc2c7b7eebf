//! Path probes and their answers (docs/design/0029). A probe is the content of a dummy packet of ESP (RFC 4303 section
//! 2.6), by which one end asks the other whether packets of this length arrive.
//!
//! ```text
//! octets  0..8   MAGIC
//!         8      version, 1
//!         9      1: probe, 2: answer
//!        10..12  zero
//!        12..20  token: the answer repeats the probe's
//!        20..24  probe: the SPI to answer by; answer: zero
//! ```
//!
//! The octets behind are filler. A receiver that does not know the format drops the packet as the dummy that it is.

/// The first octets of a dummy that is a probe or an answer. They are random, so that other dummies do not begin with
/// them by chance.
const MAGIC: [u8; 8] = [0xd1, 0x5f, 0x0e, 0x93, 0x6a, 0xb8, 0x24, 0xc7];
const VERSION: u8 = 1;

/// Octets of a message without filler.
pub const LEN: usize = 24;

/// A message of the path probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The question whether this packet arrived.
    Probe {
        /// The token that the answer repeats.
        token: u64,
        /// The SPI of the association that the answer is to come by, the sender's inbound one.
        answer_by: u32,
    },
    /// The answer that the probe arrived.
    Answer {
        /// The token of the probe.
        token: u64,
    },
}

impl Message {
    /// Reads the message at the beginning of a dummy packet's content, if there is one.
    pub fn parse(content: &[u8]) -> Option<Message> {
        let (magic, rest) = content.split_first_chunk::<8>()?;
        let (&[version, kind, zero, zeros], rest) = rest.split_first_chunk::<4>()?;
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let (spi, _) = rest.split_first_chunk::<4>()?;
        if *magic != MAGIC || version != VERSION || (zero, zeros) != (0, 0) {
            return None;
        }
        let token = u64::from_be_bytes(*token);
        match (kind, u32::from_be_bytes(*spi)) {
            (1, answer_by) => Some(Message::Probe { token, answer_by }),
            (2, 0) => Some(Message::Answer { token }),
            _ => None,
        }
    }

    /// The message as octets.
    pub fn octets(&self) -> [u8; LEN] {
        let (kind, token, spi) = match *self {
            Message::Probe { token, answer_by } => (1, token, answer_by),
            Message::Answer { token } => (2, token, 0),
        };
        let mut octets = [0; LEN];
        let parts: [&[u8]; 4] = [&MAGIC, &[VERSION, kind, 0, 0], &token.to_be_bytes(), &spi.to_be_bytes()];
        let all = parts.iter().flat_map(|part| part.iter());
        octets.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is_a_message() {
        for message in [
            Message::Probe { token: 0x0102_0304_0506_0708, answer_by: 0x1001 },
            Message::Answer { token: u64::MAX },
        ] {
            let octets = message.octets();
            assert_eq!(Message::parse(&octets), Some(message));
            let long = [&octets[..], &[7; 100]].concat();
            assert_eq!(Message::parse(&long), Some(message), "filler is behind it");
            for len in 0..LEN {
                assert_eq!(Message::parse(&octets[..len]), None);
            }
            for at in 0..12 {
                let mut other = octets;
                other[at] ^= 0x80;
                assert_eq!(Message::parse(&other), None, "octet {at}");
            }
        }
        let mut answer = Message::Answer { token: 1 }.octets();
        answer[23] = 1;
        assert_eq!(Message::parse(&answer), None);
        assert_eq!(Message::parse(&[0; 1500]), None);
    }
}
