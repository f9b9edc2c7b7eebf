//! What is read of an inner packet before it is enclosed.

/// What the headers of the inner packet say to the outer ones.
pub(crate) struct Inner {
    /// The protocol number of what is enclosed, for the next header field.
    pub next_header: u8,
    /// The type of service octet: DSCP and ECN.
    pub tos: u8,
    /// Time to live of IPv4, hop limit of IPv6.
    pub ttl: u8,
    /// Whether the packet forbids fragmentation.
    pub df: bool,
    /// Offset at which what is enclosed starts: octets in front of it are kept or go.
    pub body: usize,
    /// Octets of the packet's own headers that become the outer ones: `body` in transport mode, otherwise none.
    pub kept: usize,
    /// Offset in the kept headers of the octet that names what follows.
    pub named_at: usize,
    /// Identification or flow label, where the outer header takes it over.
    pub label: u32,
}
