//! Access to fields of untrusted bytes. Reading outside the bytes gives zero, and writing there does nothing: the views
//! check lengths once, and even a wrong check could not panic.

#[inline]
pub(crate) fn octet(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

/// The bytes from `at` to the end.
#[inline]
pub(crate) fn tail(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or(&[])
}

/// The bytes from `at` to the end, to edit.
#[inline]
pub(crate) fn tail_mut(bytes: &mut [u8], at: usize) -> &mut [u8] {
    bytes.get_mut(at..).unwrap_or(&mut [])
}

/// The bytes `from..to`, or none if that range is not inside.
#[inline]
pub(crate) fn range(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    bytes.get(from..to).unwrap_or(&[])
}

#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = value;
    }
}

#[inline]
pub(crate) fn put_octet(bytes: &mut [u8], at: usize, value: u8) {
    put(bytes, at, [value]);
}

#[inline]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, value.to_be_bytes());
}

#[inline]
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, value.to_be_bytes());
}
