//! ICMP (RFC 792) and ICMPv6 (RFC 4443), and the errors that Ravelin sends: "too big" (RFC 1191, RFC 8201) and
//! "unreachable".

mod error;

pub use error::{Unreachable, too_big, unreachable};

use crate::field::{be16, be32, octet, put16, put32, tail};
use crate::{WireError, checksum};

/// Octets of the header that every message here has.
pub const HEADER_LEN: usize = 8;

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name<B> {
                bytes: B,
            }

            impl<B: AsRef<[u8]>> $name<B> {
                /// Makes a view of at least a header.
                pub fn new_checked(bytes: B) -> Result<Self, WireError> {
                    if bytes.as_ref().len() < HEADER_LEN {
                        return Err(WireError::Truncated);
                    }
                    Ok($name { bytes })
                }

                fn octets(&self) -> &[u8] {
                    self.bytes.as_ref()
                }

                /// The ICMP type of the message.
                pub fn kind(&self) -> u8 {
                    octet(self.octets(), 0)
                }

                /// The ICMP code of the message.
                pub fn code(&self) -> u8 {
                    octet(self.octets(), 1)
                }

                /// The checksum field of the message.
                pub fn checksum(&self) -> u16 {
                    be16(self.octets(), 2)
                }

                /// The second half of the header, whose meaning depends on the type.
                pub fn rest(&self) -> u32 {
                    be32(self.octets(), 4)
                }

                /// The identifier of an echo, which it has in place of ports.
                pub fn identifier(&self) -> u16 {
                    be16(self.octets(), 4)
                }

                /// The octets behind the header: in an error, the quoted packet.
                pub fn payload(&self) -> &[u8] {
                    tail(self.octets(), HEADER_LEN)
                }
            }
        )*
    };
}

views! {
    /// A view of an ICMPv4 message.
    Icmpv4
    /// A view of an ICMPv6 message.
    Icmpv6
}

impl<B: AsRef<[u8]>> Icmpv4<B> {
    /// Whether this is an error, which must not cause another one (RFC 1122 section 3.2.2).
    pub fn is_error(&self) -> bool {
        is_error_v4(self.kind())
    }

    /// The next hop's MTU of "fragmentation needed" (RFC 1191 section 4).
    pub fn mtu(&self) -> Option<usize> {
        (self.kind() == 3 && self.code() == 4).then(|| usize::from(be16(self.octets(), 6)))
    }
}

impl<B: AsRef<[u8]>> Icmpv6<B> {
    /// Whether this is an error or a redirect, which must not cause another one (RFC 4443 section 2.4 e).
    pub fn is_error(&self) -> bool {
        is_error_v6(self.kind())
    }

    /// The MTU field of "packet too big".
    pub fn mtu(&self) -> Option<usize> {
        (self.kind() == 2).then(|| be32(self.octets(), 4) as usize)
    }
}

/// Sets the code of a message of either kind, and adjusts its checksum (RFC 1624).
pub fn edit_code(message: &mut [u8], code: u8) {
    let (old, check) = (be16(message, 0), be16(message, 2));
    let new = u16::from_be_bytes([octet(message, 0), code]);
    put16(message, 0, new);
    put16(message, 2, !checksum::fold(u32::from(!check) + u32::from(!old) + u32::from(new)));
}

/// Sets the second half of the header. The caller adjusts the checksum.
pub fn put_rest(message: &mut [u8], rest: u32) {
    put32(message, 4, rest);
}

fn is_error_v4(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

fn is_error_v6(kind: u8) -> bool {
    kind < 128 || kind == 137
}
