//! Writing and reading the fields of a hand-over.

use crypto::Secret;

use super::crc;
use super::error::HandOverError;
use super::form::{FOOT, HEAD};

/// A buffer that grows into a hand-over. The length in its head is filled in at the end.
pub struct Writer(Vec<u8>);

impl Writer {
    /// A writer with room for `capacity` octets. A buffer that grew beyond them would move and leave a copy of the keys
    /// behind.
    pub fn with_capacity(capacity: usize) -> Writer {
        Writer(Vec::with_capacity(capacity))
    }

    pub fn put(&mut self, octets: &[u8]) {
        debug_assert!(
            self.0.capacity() - self.0.len() >= octets.len(),
            "the estimate of the size was too low"
        );
        self.0.extend_from_slice(octets);
    }

    pub fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    pub fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// Write the length of a list. Every list here is bounded far below 2^32; the reader would refuse a longer one.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Write octets with their 16-bit length in front. They are keys and names, far shorter than 2^16 octets.
    pub fn string(&mut self, octets: &[u8]) {
        self.u16(u16::try_from(octets.len()).unwrap_or(u16::MAX));
        self.put(octets);
    }

    pub fn finish(mut self) -> Secret {
        let length = (self.0.len() + FOOT) as u64;
        if let Some(field) = self.0.get_mut(HEAD - 8..HEAD) {
            field.copy_from_slice(&length.to_be_bytes());
        }
        let crc = crc::crc64(&self.0);
        self.u64(crc);
        Secret::new(self.0)
    }
}

/// A reader of fields from the front. A field that is missing is an error that names it.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(octets: &'a [u8]) -> Reader<'a> {
        Reader(octets)
    }

    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub fn array<const N: usize>(&mut self, name: &'static str) -> Result<[u8; N], HandOverError> {
        let (value, rest) = self.0.split_first_chunk::<N>().ok_or(HandOverError::Field(name))?;
        self.0 = rest;
        Ok(*value)
    }

    pub fn u8(&mut self, name: &'static str) -> Result<u8, HandOverError> {
        self.array(name).map(u8::from_be_bytes)
    }

    pub fn u16(&mut self, name: &'static str) -> Result<u16, HandOverError> {
        self.array(name).map(u16::from_be_bytes)
    }

    pub fn u32(&mut self, name: &'static str) -> Result<u32, HandOverError> {
        self.array(name).map(u32::from_be_bytes)
    }

    pub fn u64(&mut self, name: &'static str) -> Result<u64, HandOverError> {
        self.array(name).map(u64::from_be_bytes)
    }

    pub fn flag(&mut self, name: &'static str) -> Result<bool, HandOverError> {
        match self.u8(name)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(HandOverError::Field(name)),
        }
    }

    pub fn string(&mut self, name: &'static str) -> Result<&'a [u8], HandOverError> {
        let len = self.u16(name)?.into();
        let (value, rest) = self.0.split_at_checked(len).ok_or(HandOverError::Field(name))?;
        self.0 = rest;
        Ok(value)
    }

    /// Read a list of at most `most` items. The list grows as items are read, so a false count allocates nothing.
    pub fn list<T>(
        &mut self,
        name: &'static str,
        most: usize,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<T, HandOverError>,
    ) -> Result<Vec<T>, HandOverError> {
        let count = self.u32(name)? as usize;
        if count > most {
            return Err(HandOverError::Field(name));
        }
        (0..count).map(|_| item(self)).collect()
    }
}
