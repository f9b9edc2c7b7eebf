//! The table of fields: what a selector may look at, and its place in the key.

use std::fmt;

/// The number of words in a key: one cache line.
pub const WORDS: usize = 8;
/// The number of bits in a key.
pub const KEY_BITS: u16 = WORDS as u16 * 64;

pub(crate) type Words = [u64; WORDS];

/// The way in which the values of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// IP addresses, prefixes and ranges: `192.0.2.0/24`, `192.0.2.1-192.0.2.9`.
    Address,
    /// Decimal numbers and ranges, or a value under a mask.
    Number,
    /// Protocol names or numbers.
    Protocol,
    /// Port numbers and ranges. The field has an alias for those who think of outgoing packets.
    Port,
    /// An ICMP type with or without code: `type 3 code 0-5`.
    IcmpTypeCode,
    /// A type of Mobility Header: `type 5`.
    MobilityType,
    /// A number under a mask: `0x1/0xff`.
    Mark,
}

/// One field: its word, its place in the key, its form. Two fields are the same if they stand at the same place.
#[derive(Clone, Copy)]
pub struct Field {
    name: &'static str,
    /// The first bit, counted from the most significant bit of the first word.
    at: u16,
    /// The number of bits of the value.
    width: u8,
    /// Whether one more bit in front of the value says that there is one.
    optional: bool,
    form: Form,
}

impl Field {
    /// A field that every packet has.
    ///
    /// # Panics
    /// The place must be inside the key and must not cross a word (a field of 128 bits takes two whole words). For a
    /// constant, a wrong place is an error of compilation.
    pub const fn always(name: &'static str, at: u16, width: u8, form: Form) -> Field {
        Field::checked(Field { name, at, width, optional: false, form })
    }

    /// A field that a packet may lack, so that OPAQUE is a condition on it. It takes one bit more than `width`.
    ///
    /// # Panics
    /// The conditions of [`Field::always`] hold.
    pub const fn optional(name: &'static str, at: u16, width: u8, form: Form) -> Field {
        Field::checked(Field { name, at, width, optional: true, form })
    }

    const fn checked(field: Field) -> Field {
        let bits = field.width as u16 + field.optional as u16;
        assert!(field.width > 0 && field.at + bits <= KEY_BITS, "a field lies inside the key");
        let whole_words = bits == 128 && field.at.is_multiple_of(64);
        assert!(whole_words || field.at % 64 + bits <= 64, "a field does not cross a word");
        field
    }

    /// The word for the field in texts.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The form in which values are written.
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Whether a packet may lack the field.
    pub const fn is_optional(&self) -> bool {
        self.optional
    }

    /// The number of bits of a value.
    pub const fn width(&self) -> u8 {
        self.width
    }

    /// The first bit of the key after this field.
    pub const fn end(&self) -> u16 {
        self.at + self.width as u16 + self.optional as u16
    }

    /// The greatest value that the field can have.
    pub const fn max(&self) -> u128 {
        u128::MAX >> (128 - self.width as u32)
    }

    /// Whether this is one of the fields that RFC 4301 calls "port": ports, ICMP type and code, MH type.
    pub const fn is_upper(&self) -> bool {
        matches!(self.form, Form::Port | Form::IcmpTypeCode | Form::MobilityType)
    }

    const fn word(&self) -> usize {
        self.at as usize / 64
    }

    /// The place of the lowest bit of a value of at most 64 bits in its word.
    const fn shift(&self) -> u32 {
        64 - self.end().wrapping_sub(self.word() as u16 * 64) as u32
    }

    /// Add `value` to key bits where this field is still zero.
    #[inline]
    pub(crate) const fn put(&self, words: &mut Words, value: u128) {
        let word = self.word();
        if self.width == 128 {
            words[word] = (value >> 64) as u64;
            words[word + 1] = value as u64;
        } else {
            let available = (self.optional as u64) << self.width;
            words[word] |= ((value & self.max()) as u64 | available) << self.shift();
        }
    }

    /// Set the bits of this field to zero (not available).
    #[inline]
    pub(crate) const fn clear(&self, words: &mut Words) {
        let mut all = [0; WORDS];
        self.put(&mut all, self.max());
        let mut i = 0;
        while i < WORDS {
            words[i] &= !all[i];
            i += 1;
        }
    }

    #[inline]
    pub(crate) const fn read(&self, words: &Words) -> Option<u128> {
        let word = self.word();
        if self.width == 128 {
            return Some((words[word] as u128) << 64 | words[word + 1] as u128);
        }
        let bits = words[word] >> self.shift();
        if self.optional && bits >> self.width & 1 == 0 {
            return None;
        }
        Some(bits as u128 & self.max())
    }

    /// Set the bits of the availability flag in a mask; the value bits of a condition follow with [`Field::put`].
    pub(crate) const fn put_flag(&self, words: &mut Words) {
        if self.optional {
            words[self.word()] |= 1 << (self.width as u32 + self.shift());
        }
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Field) -> bool {
        self.at == other.at
    }
}

impl Eq for Field {}

impl std::hash::Hash for Field {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

impl PartialOrd for Field {
    fn partial_cmp(&self, other: &Field) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Field {
    fn cmp(&self, other: &Field) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The peer's address, in the common space of both families.
pub static REMOTE: Field = Field::always("remote", 0, 128, Form::Address);
/// The address of this side.
pub static LOCAL: Field = Field::always("local", 128, 128, Form::Address);
/// The protocol after IP and its extension headers. It is not available where a fragment hides it (OPAQUE, IPv6 only in
/// the RFC).
pub static PROTOCOL: Field = Field::optional("proto", 256, 8, Form::Protocol);
/// The port of the peer.
pub static REMOTE_PORT: Field = Field::optional("remote-port", 265, 16, Form::Port);
/// The port of this side.
pub static LOCAL_PORT: Field = Field::optional("local-port", 282, 16, Form::Port);
/// The ICMP type times 256, plus the code.
pub static ICMP: Field = Field::optional("icmp-type", 299, 16, Form::IcmpTypeCode);
/// The type of the Mobility Header (RFC 6275 section 6.1.1).
pub static MOBILITY: Field = Field::optional("mh-type", 320, 8, Form::MobilityType);
/// The number of the application; it is not available for [`wire::AppId::NONE`].
pub static APP: Field = Field::optional("app", 329, 16, Form::Number);
/// The user that owns the socket.
pub static UID: Field = Field::optional("uid", 346, 32, Form::Number);
/// The mark of the packet, as the kernel holds it.
pub static MARK: Field = Field::always("mark", 384, 32, Form::Mark);
/// The index of the interface that the packet came by or leaves by.
pub static INTERFACE: Field = Field::optional("dev", 416, 31, Form::Number);
/// The differentiated services code point.
pub static DSCP: Field = Field::always("dscp", 448, 6, Form::Number);

/// The first bit of the key that no standard field uses; 58 are left.
pub const FIRST_FREE_BIT: u16 = 454;

/// Every standard field, in the order in which texts name them.
pub static STANDARD: [&Field; 12] = [
    &LOCAL,
    &REMOTE,
    &PROTOCOL,
    &LOCAL_PORT,
    &REMOTE_PORT,
    &ICMP,
    &MOBILITY,
    &APP,
    &UID,
    &DSCP,
    &MARK,
    &INTERFACE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_fields_share_a_bit() {
        let mut sorted = STANDARD;
        sorted.sort();
        for pair in sorted.windows(2) {
            assert!(pair[0].end() <= pair[1].at, "{:?} runs into {:?}", pair[0], pair[1]);
        }
        assert_eq!(sorted[11].end(), FIRST_FREE_BIT);
    }
}
