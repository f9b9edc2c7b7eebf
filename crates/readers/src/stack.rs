//! The differences between TCP readers, and readers with the names that others gave them.

use crate::overlap::Overlap;

/// The resets that end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// A reset at exactly the next number (RFC 5961 section 3).
    Exact,
    /// A reset in the window (RFC 793).
    Window,
    /// Every reset at or behind the next number.
    Behind,
    /// Every reset there is.
    Any,
}

/// The effect of a SYN inside of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syn {
    /// The SYN has no effect: it is challenged (RFC 5961 section 4).
    Challenge,
    /// The SYN resets the connection (RFC 793).
    Reset,
    /// The flag is not looked at; data count, behind the number that it takes.
    Ignore,
    /// The stream starts again behind the SYN.
    Restart,
}

/// The treatment of the octet that the urgent pointer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgent {
    /// The octet is data (RFC 6093).
    InBand,
    /// The octet before the pointer is taken out (BSD, Linux).
    Before,
    /// The octet at the pointer is taken out (RFC 1122 section 4.2.2.4).
    At,
}

/// The FIN that ends the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fin {
    /// A FIN that comes when all before it is there.
    InOrder,
    /// The first FIN in the window, once all before it is there.
    Queued,
    /// Any FIN ends it at once.
    Any,
}

/// The way in which one reader puts a stream together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The name that others gave it.
    pub name: &'static str,
    /// The table that says whose octets win.
    pub overlap: Overlap,
    /// Whether the stream is examined only when it ends; until then octets in order can still change.
    pub late: bool,
    /// The resets that end the connection.
    pub reset: Reset,
    /// The effect of a SYN inside of a connection.
    pub syn: Syn,
    /// Whether the last of several SYNs before the end of the handshake counts.
    pub last_syn: bool,
    /// Whether data in a SYN are part of the stream.
    pub syn_data: bool,
    /// Whether segments without ACK are ignored.
    pub needs_ack: bool,
    /// Whether acknowledgments of what was never sent make a segment void.
    pub checks_ack: bool,
    /// Whether checksums are looked at.
    pub checksum: bool,
    /// Whether old timestamps make a segment void (RFC 7323 section 5).
    pub paws: bool,
    /// Whether segments with an MD5 option that nobody agreed on are void.
    pub md5: bool,
    /// The treatment of urgent data.
    pub urgent: Urgent,
    /// Whether data outside of the receiver's window are cut.
    pub window: bool,
    /// The FIN that ends the stream.
    pub fin: Fin,
    /// The number of routers between the scrubber and this reader.
    pub hops: u8,
}

/// A host as RFC 9293 describes it.
const HOST: Stack = Stack {
    name: "first",
    overlap: Overlap::FIRST,
    late: false,
    reset: Reset::Exact,
    syn: Syn::Challenge,
    last_syn: false,
    syn_data: false,
    needs_ack: true,
    checks_ack: true,
    checksum: true,
    paws: true,
    md5: true,
    urgent: Urgent::Before,
    window: true,
    fin: Fin::Queued,
    hops: 3,
};

const fn host(name: &'static str, overlap: Overlap, reset: Reset, syn: Syn, urgent: Urgent) -> Stack {
    Stack { name, overlap, reset, syn, urgent, ..HOST }
}

/// The fifteen policies by name. Beside overlaps they do what Snort 3 and Suricata say of these systems, where they do.
pub const NAMED: [Stack; 15] = [
    HOST,
    host("last", Overlap::LAST, Reset::Exact, Syn::Reset, Urgent::At),
    host("bsd", Overlap::LEFT, Reset::Window, Syn::Reset, Urgent::Before),
    host("bsd-right", Overlap::RIGHT, Reset::Window, Syn::Reset, Urgent::Before),
    host("linux", Overlap::LEFT_LONGER, Reset::Window, Syn::Challenge, Urgent::Before),
    host("old-linux", Overlap::LEFT_LATER, Reset::Window, Syn::Reset, Urgent::Before),
    host("solaris", Overlap::COVER_OR_BEHIND, Reset::Window, Syn::Reset, Urgent::Before),
    host("old-solaris", Overlap::FIRST, Reset::Window, Syn::Ignore, Urgent::Before),
    host("hpux10", Overlap::LEFT, Reset::Exact, Syn::Ignore, Urgent::Before),
    host("hpux11", Overlap::COVER_OR_BEHIND, Reset::Behind, Syn::Reset, Urgent::Before),
    host("irix", Overlap::LEFT, Reset::Exact, Syn::Reset, Urgent::Before),
    host("macos", Overlap::LEFT, Reset::Exact, Syn::Ignore, Urgent::Before),
    Stack { paws: false, ..host("windows", Overlap::LEFT, Reset::Exact, Syn::Reset, Urgent::InBand) },
    Stack { paws: false, ..host("windows2k3", Overlap::LEFT, Reset::Exact, Syn::Reset, Urgent::InBand) },
    Stack { paws: false, ..host("vista", Overlap::FIRST, Reset::Exact, Syn::Ignore, Urgent::InBand) },
];

/// Readers beside the wire, and hosts that differ in one thing, all variants of `base`.
const fn variants(base: Stack, names: [&'static str; 13]) -> [Stack; 13] {
    [
        // A passive reader that believes everything.
        Stack {
            name: names[0],
            needs_ack: false,
            checks_ack: false,
            checksum: false,
            paws: false,
            md5: false,
            window: false,
            urgent: Urgent::InBand,
            hops: 0,
            ..base
        },
        Stack { name: names[1], late: true, ..base },
        Stack { name: names[2], checksum: false, ..base },
        Stack { name: names[3], window: false, ..base },
        Stack { name: names[4], reset: Reset::Any, ..base },
        Stack { name: names[5], syn: Syn::Restart, last_syn: true, ..base },
        Stack { name: names[6], syn: Syn::Ignore, syn_data: true, ..base },
        Stack { name: names[7], paws: false, md5: false, ..base },
        Stack { name: names[8], urgent: Urgent::At, ..base },
        Stack { name: names[9], needs_ack: false, ..base },
        Stack { name: names[10], checks_ack: false, ..base },
        Stack { name: names[11], fin: Fin::Any, ..base },
        Stack { name: names[12], fin: Fin::InOrder, hops: 0, ..base },
    ]
}

/// The variants of the policy `first`.
pub const OF_FIRST: [Stack; 13] = variants(
    HOST,
    [
        "first, believes all",
        "first, late",
        "first, no checksum",
        "first, no window",
        "first, any RST",
        "first, last SYN",
        "first, data in SYN",
        "first, no PAWS, no MD5",
        "first, urgent at",
        "first, without ACK",
        "first, any ACK",
        "first, any FIN",
        "first, near, FIN in order",
    ],
);

/// The variants of the policy `last`.
pub const OF_LAST: [Stack; 13] = variants(
    NAMED[1],
    [
        "last, believes all",
        "last, late",
        "last, no checksum",
        "last, no window",
        "last, any RST",
        "last, last SYN",
        "last, data in SYN",
        "last, no PAWS, no MD5",
        "last, urgent at",
        "last, without ACK",
        "last, any ACK",
        "last, any FIN",
        "last, near, FIN in order",
    ],
);

/// All readers of streams.
pub fn all() -> Vec<Stack> {
    [&NAMED[..], &OF_FIRST, &OF_LAST].concat()
}
