//! What can be wrong with bytes.

use crate::DropReason;

/// Why bytes are not what they should be. Every case has its [`DropReason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireError {
    /// Shorter than a header, or than a length field says.
    Truncated,
    /// The first nibble is neither 4 nor 6, or not the one of this view.
    Version,
    /// A header length that cannot be.
    HeaderLength,
    /// A total or payload length smaller than the headers it covers.
    TotalLength,
    /// An IPv6 extension header where RFC 8200 section 4.1 has none (hop-by-hop not first).
    ExtensionOrder,
    /// A second fragment header.
    FragmentTwice,
    /// More extension headers than [`crate::ipv6::MAX_EXTENSIONS`].
    TooManyExtensions,
    /// An IPv6 jumbogram (RFC 2675), refused.
    Jumbogram,
    /// An IPv4-mapped address in an IPv6 header, which must not be on a wire (RFC 4942 section 2.2): here it
    /// would be taken for the IPv4 address.
    MappedAddress,
    /// An option runs over the end of its header or has an impossible length.
    OptionLength,
    /// A routing header of a type whose arrival cannot be predicted.
    RoutingType,
    /// Not a record of ours.
    Record,
    /// Segmentation or checksum fields that contradict the packet.
    Gso,
    /// A segment that may not be cut further is longer than allowed.
    TooBig,
    /// Does not fit the length field of an IP header.
    TooLong,
    /// The buffer to write to is too small: the caller's fault, not the packet's.
    NoRoom,
}

impl From<WireError> for DropReason {
    fn from(error: WireError) -> DropReason {
        match error {
            WireError::Truncated => DropReason::Truncated,
            WireError::Version => DropReason::BadVersion,
            WireError::HeaderLength => DropReason::HeaderLength,
            WireError::TotalLength => DropReason::TotalLength,
            WireError::ExtensionOrder | WireError::FragmentTwice => DropReason::ExtensionOrder,
            WireError::Jumbogram => DropReason::Jumbogram,
            WireError::MappedAddress => DropReason::MappedAddress,
            WireError::OptionLength => DropReason::BadOption,
            WireError::RoutingType => DropReason::RoutingHeader,
            WireError::TooManyExtensions => DropReason::TooManyExtensions,
            WireError::Record => DropReason::BadRecord,
            WireError::Gso => DropReason::GsoInvalid,
            WireError::TooBig => DropReason::TooBig,
            WireError::TooLong | WireError::NoRoom => DropReason::TooLong,
        }
    }
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WireError::Truncated => "shorter than its headers say",
            WireError::Version => "IP version is neither 4 nor 6",
            WireError::HeaderLength => "impossible header length",
            WireError::TotalLength => "length field smaller than the headers",
            WireError::ExtensionOrder => "extension header out of place",
            WireError::FragmentTwice => "two fragment headers",
            WireError::TooManyExtensions => "too many extension headers",
            WireError::Jumbogram => "jumbogram",
            WireError::MappedAddress => "IPv4-mapped address on the wire",
            WireError::OptionLength => "impossible option length",
            WireError::RoutingType => "routing header of a type that cannot be predicted",
            WireError::Record => "not a record",
            WireError::Gso => "segmentation fields contradict the packet",
            WireError::TooBig => "longer than allowed",
            WireError::TooLong => "longer than an IP length field can say",
            WireError::NoRoom => "buffer too small",
        })
    }
}

impl std::error::Error for WireError {}
