//! The ESP trailer: padding 1, 2, 3 and so on, pad length, next header (RFC 4303 sections 2.4 to 2.6).

use sadb::sa::{Shape, Tfc};
use wire::DropReason;

/// Pad length and next header.
pub(crate) const TRAILER: usize = 2;
/// Most padding that any suite asks for: the AES block, less one.
pub(crate) const MAX_PAD: usize = 15;

/// The longest padding there is.
const PADDING: [u8; 255] = {
    let mut octets = [0; 255];
    let mut at = 0;
    while at < octets.len() {
        octets[at] = at as u8 + 1;
        at += 1;
    }
    octets
};

/// Next header of a packet without content (RFC 4303 section 2.6).
pub(crate) const DUMMY: u8 = 59;

/// Padding for `payload` octets where payload and trailer together must be a multiple of `align`.
pub(crate) const fn length(payload: usize, align: usize) -> usize {
    // A mask: `align` is 4, 8 or 16.
    (payload + TRAILER).wrapping_neg() & (align - 1)
}

/// Padding for `payload` octets: up to whole blocks of the cipher if padding and trailer find that much `room` behind
/// the payload, otherwise as little as the suite allows.
#[inline]
pub(crate) fn within(payload: usize, shape: Shape, room: usize) -> usize {
    let whole = length(payload, shape.whole.into());
    if whole + TRAILER <= room { whole } else { length(payload, shape.align.into()) }
}

/// Octets that hide the length of a payload (RFC 4303 section 2.7), of which `room` more would still fit, trailer
/// included.
pub(crate) fn hiding(tfc: Tfc, payload: usize, room: usize, align: usize) -> usize {
    // What padding and trailer leave of the room: `payload + most` is the longest payload that fits.
    let most = ((payload + room) & !(align - 1)).saturating_sub(TRAILER).saturating_sub(payload);
    match tfc {
        Tfc::None | Tfc::Multiple(0) => 0,
        Tfc::Multiple(step) => (payload.next_multiple_of(step.into()) - payload).min(most),
        Tfc::Full => most,
    }
}

/// Fill `trailer`, which is [`length`] + [`TRAILER`] octets.
pub(crate) fn write(trailer: &mut [u8], next_header: u8) {
    let Some((padding, [pad_length, next])) = trailer.split_last_chunk_mut::<TRAILER>() else { return };
    *pad_length = padding.len() as u8;
    *next = next_header;
    if let Some(octets) = PADDING.get(..padding.len()) {
        padding.copy_from_slice(octets);
    }
}

/// What the trailer of a decrypted payload says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Octets of payload in front of the padding.
    pub payload: usize,
    /// The IP protocol number of the payload.
    pub next_header: u8,
}

/// Read and check the trailer. Only after the ICV was right: an error here is the peer's fault, not the path's.
pub(crate) fn read(plain: &[u8]) -> Result<Trailer, DropReason> {
    let (rest, &[pad_length, next_header]) =
        plain.split_last_chunk::<TRAILER>().ok_or(DropReason::EspTooShort)?;
    let payload = rest.len().checked_sub(usize::from(pad_length)).ok_or(DropReason::EspPadLength)?;
    let padding = rest.get(payload..).ok_or(DropReason::EspPadding)?;
    // RFC 4303 section 2.4 asks the receiver to inspect it.
    if PADDING.get(..padding.len()).is_none_or(|octets| padding != octets) {
        return Err(DropReason::EspPadding);
    }
    Ok(Trailer { payload, next_header })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_residue_aligns_and_reads_back() {
        for align in [4, 8, 16] {
            for payload in 0..64 {
                assert!(length(payload, align) < align);
                let mut plain = vec![0xee; payload + length(payload, align) + TRAILER];
                assert_eq!(plain.len() % align, 0);
                write(&mut plain[payload..], 6);
                assert_eq!(read(&plain), Ok(Trailer { payload, next_header: 6 }));
            }
        }
    }

    #[test]
    fn wrong_padding_has_a_name() {
        assert_eq!(read(&[]), Err(DropReason::EspTooShort));
        assert_eq!(read(&[4]), Err(DropReason::EspTooShort));
        assert_eq!(read(&[0, 4]), Ok(Trailer { payload: 0, next_header: 4 }));
        assert_eq!(read(&[1, 4]), Err(DropReason::EspPadLength), "longer than the packet");
        assert_eq!(read(&[1, 1, 4]), Ok(Trailer { payload: 0, next_header: 4 }));
        assert_eq!(read(&[0, 1, 4]), Err(DropReason::EspPadding));
        assert_eq!(read(&[1, 3, 2, 4]), Err(DropReason::EspPadding));
    }

    #[test]
    fn the_longest_padding_is_read() {
        let mut plain: Vec<u8> = (1..=255).collect();
        plain.extend([255, 41]);
        assert_eq!(read(&plain), Ok(Trailer { payload: 0, next_header: 41 }));
        plain[200] = 0;
        assert_eq!(read(&plain), Err(DropReason::EspPadding));
    }
}
