//! Cutting a packet into fragments (RFC 791 section 3.2, RFC 8200 section 4.5).
//!
//! A whole packet enters that must pass in clear and is too long for a link. Only one that [`crate::reassembly`] joined
//! can be so. Its fragments leave one at a time, in a buffer of the caller.

use crate::field::{octet, put_octet, put16, put32, range};
use crate::ip::Headers;
use crate::ipv4::{self, Ipv4};
use crate::ipv6::FRAGMENT_LEN;
use crate::{Buf, WireError, ipv6, protocol};

/// The unit of fragment offsets in octets.
const UNIT: usize = 8;
const MORE_V4: u16 = 0x2000;
const OPTION_END: u8 = 0;
const OPTION_NOTHING: u8 = 1;
/// The bit of an option's type that says that every fragment has the option.
const OPTION_COPIED: u8 = 0x80;

/// The fragments of one packet, in order.
#[derive(Clone, Debug)]
pub struct FragmentIter<'a> {
    /// The headers that every fragment starts with, except for lengths.
    head: &'a [u8],
    payload: &'a [u8],
    headers: Headers,
    id: u32,
    /// Payload octets of each fragment except the last.
    size: usize,
    next: Option<usize>,
}

/// Cuts `packet` into fragments of at most `max_len` octets that share `id` (its low 16 bits in IPv4).
///
/// # Errors
/// [`WireError::Truncated`] if `packet` is shorter than its headers say. [`WireError::TooBig`] if not even eight octets
/// fit behind the headers, the first fragment cannot hold all headers (RFC 7112), or `packet` is a fragment itself.
pub fn fragments<'a>(
    packet: &'a [u8],
    headers: &Headers,
    id: u32,
    max_len: usize,
) -> Result<FragmentIter<'a>, WireError> {
    let packet = packet.get(..headers.total_len).ok_or(WireError::Truncated)?;
    let (mut headers, chain_len) = (*headers, headers.header_len);
    if headers.version == 6 && headers.has_options && headers.fragment.is_none() {
        // Every fragment has hop-by-hop options and routing header; the other extension headers are part of what is cut.
        let front = ipv6::front(packet)?;
        (headers.header_len, headers.protocol_at, headers.protocol) =
            (front.len, front.named_at, front.next_header);
    }
    let (head, payload) = packet.split_at_checked(headers.header_len).ok_or(WireError::Truncated)?;
    let before = head.len() + if headers.version == 6 { FRAGMENT_LEN } else { 0 };
    let size = max_len.saturating_sub(before) / UNIT * UNIT;
    // The first fragment has all headers (RFC 7112).
    if size == 0 || headers.fragment.is_some() || size < chain_len - head.len() {
        return Err(WireError::TooBig);
    }
    Ok(FragmentIter { head, payload, headers, id, size, next: Some(0) })
}

impl FragmentIter<'_> {
    /// Appends the next fragment to what `out` holds. `None` if there was none left. An error ([`WireError::NoRoom`] if
    /// `out` has too little room) ends the iteration.
    pub fn next_into(&mut self, out: &mut Buf) -> Option<Result<(), WireError>> {
        let from = self.next?;
        let to = (from + self.size).min(self.payload.len());
        self.next = (to < self.payload.len()).then_some(to);
        let result = self.write(from, to, out);
        if result.is_err() {
            self.next = None;
        }
        Some(result)
    }

    fn write(&self, from: usize, to: usize, out: &mut Buf) -> Result<(), WireError> {
        let (more, data) = (to < self.payload.len(), range(self.payload, from, to));
        let between = if self.headers.version == 6 { FRAGMENT_LEN } else { 0 };
        let bytes = out.push_back(self.head.len() + between + data.len()).ok_or(WireError::NoRoom)?;
        let len = u16::try_from(bytes.len()).map_err(|_| WireError::TooLong)?;
        let offset = u16::try_from(from).map_err(|_| WireError::TooLong)?;
        let (head, rest) = bytes.split_at_mut_checked(self.head.len()).ok_or(WireError::NoRoom)?;
        let (fragment, body) = rest.split_at_mut_checked(between).ok_or(WireError::NoRoom)?;
        head.copy_from_slice(self.head);
        body.copy_from_slice(data);
        if self.headers.version == 6 {
            put_octet(head, self.headers.protocol_at, protocol::FRAGMENT);
            put16(head, 4, len.saturating_sub(ipv6::HEADER_LEN as u16));
            put_octet(fragment, 0, self.headers.protocol);
            put_octet(fragment, 1, 0);
            put16(fragment, 2, offset | u16::from(more));
            put32(fragment, 4, self.id);
            return Ok(());
        }
        if from > 0 {
            blank_options(head);
        }
        put16(head, 2, len);
        put16(head, 4, self.id as u16);
        let flags = if more { MORE_V4 } else { 0 };
        put16(head, 6, flags | (offset / UNIT as u16));
        Ipv4::new_checked(bytes)?.fill_checksum();
        Ok(())
    }
}

/// Overwrites options that are for the first fragment only with no-operation options.
fn blank_options(head: &mut [u8]) {
    let mut at = ipv4::HEADER_LEN;
    while at < head.len() {
        let len = match octet(head, at) {
            OPTION_END => return,
            OPTION_NOTHING => 1,
            kind => {
                let len = usize::from(octet(head, at + 1)).max(2);
                if kind & OPTION_COPIED == 0 {
                    (at..at + len).for_each(|at| put_octet(head, at, OPTION_NOTHING));
                }
                len
            }
        };
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv4::Ipv4Repr;
    use crate::ipv6::Ipv6Repr;
    use crate::reassembly::{Reassembled, Reassembler};
    use crate::{Pool, Time};

    fn packet(v6: bool, payload_len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..payload_len + if v6 { 40 } else { 20 }).map(|i| (i * 5) as u8).collect();
        if v6 {
            let [src, dst] = ["2001:db8::1", "2001:db8::2"].map(|a| a.parse().unwrap());
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: 99,
                hop_limit: 9,
                traffic_class: 0,
                flow_label: 5,
                payload_len,
            };
            ipv6::emit(&mut bytes, &repr).unwrap();
        } else {
            let [src, dst] = ["192.0.2.1", "192.0.2.2"].map(|a| a.parse().unwrap());
            let repr = Ipv4Repr { src, dst, protocol: 99, ttl: 9, tos: 0, id: 7, df: false, payload_len };
            ipv4::emit(&mut bytes, &repr).unwrap();
        }
        bytes
    }

    #[test]
    fn what_is_cut_can_be_joined() {
        for v6 in [false, true] {
            for len in [8, 1000, 1240, 1260, 1261, 4000, 60_000] {
                let whole = packet(v6, len);
                let headers = Headers::parse(&whole).unwrap();
                let mut pieces = fragments(&whole, &headers, 0xabcd_0007, 1280).unwrap();
                let (mut table, mut pool) = (Reassembler::default(), Pool::new(70_000, 64, 4));
                let mut joined = None;
                loop {
                    let mut piece = pool.take();
                    let Some(result) = pieces.next_into(&mut piece) else { break };
                    result.unwrap();
                    assert!(piece.len() <= 1280 && joined.is_none());
                    let headers = Headers::parse(piece.as_slice()).unwrap();
                    assert!(crate::ip::checksum_ok(piece.as_slice(), &headers));
                    let Some(fragment) = headers.fragment else {
                        joined = Some(piece);
                        continue;
                    };
                    assert_eq!(fragment.id, if v6 { 0xabcd_0007 } else { 7 });
                    match table.push(Time(0), 0, piece.as_slice(), &headers, &mut pool) {
                        Reassembled::Complete(whole) => joined = Some(whole),
                        Reassembled::Incomplete => {}
                        Reassembled::Rejected(reason) => panic!("{reason}"),
                    }
                }
                assert_eq!(joined.unwrap().as_slice(), whole, "IPv6 {v6}, {len}");
            }
        }
    }

    #[test]
    fn options_for_the_first_fragment_stay_there() {
        let mut whole = packet(false, 2012);
        // Record route (7, for the first), nothing, security (130, for all), end.
        whole[0] = 0x48;
        whole[20..32].copy_from_slice(&[7, 3, 4, 1, 130, 4, 0xaa, 0xbb, 0, 0, 0, 0]);
        let headers = Headers::parse(&whole).unwrap();
        let mut pieces = fragments(&whole, &headers, 1, 1000).unwrap();
        let mut options = Vec::new();
        loop {
            let mut piece = Buf::with_capacity(2000, 0);
            let Some(result) = pieces.next_into(&mut piece) else { break };
            result.unwrap();
            options.push(Ipv4::new_checked(piece.as_slice()).unwrap().options().to_vec());
        }
        assert_eq!(options[0], [7, 3, 4, 1, 130, 4, 0xaa, 0xbb, 0, 0, 0, 0]);
        assert_eq!(options[1..], [[1, 1, 1, 1, 130, 4, 0xaa, 0xbb, 0, 0, 0, 0]; 2].map(Vec::from));
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let whole = packet(false, 100);
        let headers = Headers::parse(&whole).unwrap();
        assert_eq!(fragments(&whole, &headers, 1, 27).unwrap_err(), WireError::TooBig);
        assert_eq!(fragments(&whole[..99], &headers, 1, 1280).unwrap_err(), WireError::Truncated);
        let mut small = Buf::with_capacity(40, 0);
        let mut pieces = fragments(&whole, &headers, 1, 60).unwrap();
        assert_eq!(pieces.next_into(&mut small), Some(Err(WireError::NoRoom)));
        assert_eq!(pieces.next_into(&mut small), None);
    }
}
