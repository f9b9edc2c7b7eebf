//! Iterators over the options of IPv4 (RFC 791 section 3.1) and of the IPv6 headers that hold some (RFC 8200 section
//! 4.2).

use crate::WireError;
use crate::field::{array, octet, range};
use std::net::Ipv4Addr;

pub use crate::ipv4::put_header_len;

/// The type of the end-of-list option (IPv4).
const END: u8 = 0;
/// The type of the no-operation option (IPv4).
const NOP: u8 = 1;
/// The type of one octet of padding (IPv6).
const PAD1: u8 = 0;
/// The type of more octets of padding (IPv6).
const PADN: u8 = 1;

/// The type of a loose source route (RFC 791).
pub const LOOSE_SOURCE_ROUTE: u8 = 131;
/// The type of a strict source route (RFC 791).
pub const STRICT_SOURCE_ROUTE: u8 = 137;

/// The place of an option in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionPlace {
    /// The type octet of the option.
    pub kind: u8,
    /// The offset where the option starts.
    pub at: usize,
    /// Octets of the option, type and length included.
    pub len: usize,
}

/// The options of an IPv4 header of `end` octets at the start of `bytes`, up to the end of the list.
pub fn ipv4(bytes: &[u8], end: usize) -> Options<'_> {
    Options { bytes, at: crate::ipv4::HEADER_LEN, end, version: 4 }
}

/// The options of an IPv6 hop-by-hop or destination options header that is `at..end` of `bytes`.
pub fn ipv6(bytes: &[u8], at: usize, end: usize) -> Options<'_> {
    Options { bytes, at: at + 2, end, version: 6 }
}

/// Whether an IPv6 option is padding with nothing hidden in it.
pub fn is_padding(bytes: &[u8], option: OptionPlace) -> bool {
    match option.kind {
        PAD1 => true,
        PADN => {
            crate::field::range(bytes, option.at + 2, option.at + option.len).iter().all(|octet| *octet == 0)
        }
        _ => false,
    }
}

/// Whether an IPv6 option has a padding type.
pub fn is_padding_kind(option: OptionPlace) -> bool {
    matches!(option.kind, PAD1 | PADN)
}

/// Turns an IPv6 option into padding of the same length.
pub fn put_padding(bytes: &mut [u8], option: OptionPlace) {
    if option.kind == PAD1 {
        return;
    }
    crate::field::put_octet(bytes, option.at, PADN);
    if let Some(content) = bytes.get_mut(option.at + 2..option.at + option.len) {
        content.fill(0);
    }
}

/// An iterator over options. It ends behind the first that contradicts itself ([`WireError::OptionLength`]).
#[derive(Clone, Debug)]
pub struct Options<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    version: u8,
}

impl Options<'_> {
    /// Continues at `at`, where an option starts.
    pub(crate) fn skip_to(&mut self, at: usize) {
        self.at = at;
    }
}

impl Iterator for Options<'_> {
    type Item = Result<OptionPlace, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let (kind, at) = (octet(self.bytes, self.at), self.at);
        let single = if self.version == 4 { kind == END || kind == NOP } else { kind == PAD1 };
        let len = match (single, self.version) {
            (true, _) => 1,
            // The length of IPv4 counts type and length, that of IPv6 does not.
            (false, 4) if at + 1 < self.end => usize::from(octet(self.bytes, at + 1)),
            (false, 6) if at + 1 < self.end => usize::from(octet(self.bytes, at + 1)) + 2,
            (false, _) => 0,
        };
        if len == 0 || len == 1 && !single || at + len > self.end {
            self.at = self.end;
            return Some(Err(WireError::OptionLength));
        }
        self.at = if self.version == 4 && kind == END { self.end } else { at + len };
        Some(Ok(OptionPlace { kind, at, len }))
    }
}

/// The last destination of an IPv4 packet with this header: its destination address, unless a source route has more
/// addresses.
///
/// # Errors
/// [`WireError::OptionLength`] for any option that contradicts itself.
pub fn final_destination(header: &[u8]) -> Result<Ipv4Addr, WireError> {
    let mut destination = Ipv4Addr::from(array::<4>(header, 16));
    for option in ipv4(header, header.len()) {
        if let Some(last) = route_end(header, option?)? {
            destination = last;
        }
    }
    Ok(destination)
}

/// The last address of a source route that is not at its end.
pub(crate) fn route_end(header: &[u8], option: OptionPlace) -> Result<Option<Ipv4Addr>, WireError> {
    if !matches!(option.kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE) {
        return Ok(None);
    }
    let pointer = usize::from(octet(header, option.at + 2));
    // The pointer counts from one; the smallest is 4 (RFC 791).
    let whole = option.len >= 3 && (option.len - 3).is_multiple_of(4);
    if !whole || pointer < 4 || !pointer.is_multiple_of(4) {
        return Err(WireError::OptionLength);
    }
    if pointer > option.len {
        return Ok(None);
    }
    Ok(Some(Ipv4Addr::from(array::<4>(header, option.at + option.len - 4))))
}

/// The addresses of source routes between the next stop, which is the destination, and the last one. Options that
/// contradict themselves add none.
pub(crate) fn stops_between(header: &[u8]) -> Vec<Ipv4Addr> {
    let mut stops = Vec::new();
    for option in ipv4(header, header.len()).flatten() {
        if let Ok(Some(_)) = route_end(header, option) {
            let from = option.at + usize::from(octet(header, option.at + 2)) - 1;
            let between = range(header, from, option.at + option.len - 4);
            stops.extend(between.as_chunks::<4>().0.iter().map(|address| Ipv4Addr::from(*address)));
        }
    }
    stops
}

/// Whether a source route of this IPv4 header has addresses left.
///
/// # Errors
/// [`WireError::OptionLength`] for any option that contradicts itself.
pub fn is_on_the_way(header: &[u8]) -> Result<bool, WireError> {
    for option in ipv4(header, header.len()) {
        if route_end(header, option?)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(options: &[u8]) -> Vec<Result<(u8, usize), WireError>> {
        let header = [&[0; 20], options].concat();
        ipv4(&header, header.len()).map(|o| o.map(|o| (o.kind, o.len))).collect()
    }

    #[test]
    fn one_by_one() {
        assert_eq!(kinds(&[1, 148, 4, 0, 0, 0, 7, 7]), [Ok((1, 1)), Ok((148, 4)), Ok((0, 1))]);
        assert_eq!(kinds(&[148, 4, 0]), [Err(WireError::OptionLength)]);
        assert_eq!(kinds(&[148, 1, 0, 0]), [Err(WireError::OptionLength)]);
        assert_eq!(kinds(&[148, 0, 0, 0]), [Err(WireError::OptionLength)]);
        assert_eq!(
            kinds(&[1, 1, 1, 148]),
            [Ok((1, 1)), Ok((1, 1)), Ok((1, 1)), Err(WireError::OptionLength)]
        );
        // Padding of one octet, padding of two, an option that runs over the end.
        let header = [59, 0, 0, 1, 0, 5, 2, 0];
        let six: Vec<_> = ipv6(&header, 0, 8).map(|o| o.map(|o| (o.kind, o.at, o.len))).collect();
        assert_eq!(six, [Ok((0, 2, 1)), Ok((1, 3, 2)), Err(WireError::OptionLength)]);
    }

    #[test]
    fn padding_hides_nothing() {
        let mut header = [59, 1, 0, 1, 2, 7, 7, 0x3e, 3, 1, 2, 3, 1, 2, 0, 0];
        let all = |bytes: &[u8]| ipv6(bytes, 0, 16).map(Result::unwrap).collect::<Vec<_>>();
        let before = all(&header);
        assert_eq!(
            before.iter().map(|o| is_padding(&header, *o)).collect::<Vec<_>>(),
            [true, false, false, true]
        );
        before.iter().for_each(|option| put_padding(&mut header, *option));
        assert_eq!(header, [59, 1, 0, 1, 2, 0, 0, 1, 3, 0, 0, 0, 1, 2, 0, 0]);
        assert!(all(&header).iter().all(|option| is_padding(&header, *option)));
    }

    #[test]
    fn a_source_route_leads_to_its_last_address() {
        let mut header = [0; 32];
        header[16..20].copy_from_slice(&[10, 0, 0, 1]);
        header[20..32].copy_from_slice(&[131, 11, 4, 10, 0, 0, 2, 10, 0, 0, 3, 0]);
        assert_eq!(final_destination(&header), Ok(Ipv4Addr::new(10, 0, 0, 3)));
        assert_eq!(is_on_the_way(&header), Ok(true));
        header[22] = 12;
        assert_eq!(final_destination(&header), Ok(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(is_on_the_way(&header), Ok(false));
        for (at, value) in [(22, 3), (22, 5), (21, 10), (21, 2)] {
            let mut wrong = header;
            wrong[at] = value;
            assert_eq!(final_destination(&wrong), Err(WireError::OptionLength));
        }
    }
}
