//! Compression between selectors: an association around IPComp has selectors for the packet as it was before
//! compression.

use sadb::{InboundSa, InboundSad, Mode, SaName, Selectors};
use wire::ip::{self, Headers};
use wire::protocol;

use crate::quoted;

/// Whether the packet that an IPComp association in transport mode gave fits the selectors of the association around
/// it. A tunnel's packet is another one, of which those selectors say nothing. The packet that an ICMP error quotes was
/// not compared with them.
pub(super) fn opens_into(sa: &InboundSa, selectors: &Selectors, bytes: &[u8]) -> bool {
    let covers = |headers: Headers| {
        quoted::quoted_by(bytes, &headers).is_none() && selectors.covers(&ip::flow(bytes, &headers, false))
    };
    sa.config().mode == Mode::Transport && Headers::parse(bytes).is_ok_and(covers)
}

/// The selectors of the association that a compressed packet came out of, if they do not admit the compressed form.
/// Compression is no protection, so the selectors are meant for the packet as it was (RFC 3173 section 2: what did
/// not become shorter is sent as it is).
pub(super) fn compressed_in(
    sad: &InboundSad,
    name: SaName,
    bytes: &[u8],
    headers: &Headers,
) -> Option<Selectors> {
    if headers.protocol != protocol::IPCOMP {
        return None;
    }
    let sa = sad.get(name)?;
    let refused = sa.admits(&ip::flow(bytes, headers, false)).is_err();
    refused.then(|| sa.config().effective_selectors())
}
