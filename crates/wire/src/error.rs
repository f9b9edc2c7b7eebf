//! The errors of parsing and writing bytes.

use crate::DropReason;

/// The reason why bytes are not what they should be. Every case has its [`DropReason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireError {
    /// The bytes are shorter than a header, or than a length field says.
    Truncated,
    /// The first nibble is neither 4 nor 6, or not the one of this view.
    Version,
    /// A header length is impossible.
    HeaderLength,
    /// A total or payload length is smaller than the headers it covers.
    TotalLength,
    /// An IPv6 extension header stands where RFC 8200 section 4.1 has none (hop-by-hop not first).
    ExtensionOrder,
    /// There is a second fragment header.
    FragmentTwice,
    /// There are more extension headers than [`crate::ipv6::MAX_EXTENSIONS`].
    TooManyExtensions,
    /// The packet is an IPv6 jumbogram (RFC 2675), which is refused.
    Jumbogram,
    /// An IPv6 header has an IPv4-mapped address, which must not be on a wire (RFC 4942 section 2.2). It would be taken
    /// here for the IPv4 address.
    MappedAddress,
    /// An option runs over the end of its header or has an impossible length.
    OptionLength,
    /// The routing header is of a type whose arrival cannot be predicted.
    RoutingType,
    /// The bytes are not a record of ours.
    Record,
    /// The segmentation or checksum fields contradict the packet.
    Gso,
    /// A segment that may not be cut further is longer than allowed.
    TooBig,
    /// The length does not fit the length field of an IP header.
    TooLong,
    /// The buffer to write to is too small. That is the caller's fault, not the packet's.
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
