//! The sizes in which calls are cut, and copies for ciphers that cannot work in place.

/// The number of packets whose records are handed to a library at once.
pub(super) const LANES: usize = 16;
/// The number of octets that are copied at once.
pub(super) const COPY: usize = 2048;
/// The number of octets up to which a small copy is enough: host CBC asks for a block of each packet at a time.
const SHORT: usize = 256;

/// Call with each piece of the octets as destination and a copy of it as source; the pieces have [`COPY`] octets or what
/// is left. What a packet leaves on the stack is not wiped, as everywhere.
pub(super) fn copied(data: &mut [u8], call: impl FnMut(&mut [u8], &[u8])) {
    if data.len() <= SHORT { pieces::<SHORT>(data, call) } else { pieces::<COPY>(data, call) }
}

fn pieces<const N: usize>(data: &mut [u8], mut call: impl FnMut(&mut [u8], &[u8])) {
    let mut copy = [0; N];
    for data in data.chunks_mut(N) {
        let from = copy.get_mut(..data.len()).unwrap_or_default();
        from.copy_from_slice(data);
        call(data, from);
    }
}
