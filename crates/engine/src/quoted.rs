//! ICMP errors inside an association (RFC 4301 sections 6.1.2 and 6.2). The host that gets one acts on the packet that
//! it quotes, so the association must carry that packet in the other direction.

use crate::icmp::IcmpKind;
use sadb::InboundSa;
use wire::icmp::{self, Icmpv4, Icmpv6};
use wire::ip::Headers;
use wire::quote::Quoted;
use wire::{DropReason, Flow, protocol};

/// The choice of the errors inside associations that are compared with the packets that they quote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotedCheck {
    /// Every error is compared.
    #[default]
    Always,
    /// Only errors are compared whose own header the association does not carry; any other is a packet like all (the
    /// RFC's convention).
    Unmatched,
    /// No error is compared: its own header alone decides.
    Never,
}

/// The policy for ICMP errors inside associations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerIcmp {
    /// The kinds of errors that pass; any other error, and redirects, end with [`DropReason::IcmpRefused`].
    pub accept: Vec<IcmpKind>,
    /// The choice of the errors that are compared with the packets that they quote.
    pub check: QuotedCheck,
}

impl Default for InnerIcmp {
    /// The default policy: unreachable, too big, time exceeded and parameter problem pass. Redirects and source quench
    /// (RFC 6633) do not pass.
    fn default() -> InnerIcmp {
        let of = |version, kinds: &[u8]| {
            let each = |kind: &u8| IcmpKind { version, kind: *kind, code: None };
            kinds.iter().map(each).collect::<Vec<_>>()
        };
        InnerIcmp { accept: [of(4, &[3, 11, 12]), of(6, &[1, 2, 3, 4])].concat(), check: QuotedCheck::Always }
    }
}

/// Check that the association may carry this packet, which came out of it.
#[inline]
pub(crate) fn admits(
    policy: &InnerIcmp,
    sa: &InboundSa,
    bytes: &[u8],
    headers: &Headers,
    flow: &Flow,
) -> Result<(), DropReason> {
    let admitted = sa.admits(flow);
    match headers.protocol {
        protocol::ICMP | protocol::ICMPV6 => admits_icmp(policy, sa, bytes, headers, admitted),
        _ => admitted,
    }
}

/// The packet that an ICMP error quotes; `None`: this is no error. An inner `None` means that it quotes no IP header of
/// its version.
pub(crate) fn quoted_by(bytes: &[u8], headers: &Headers) -> Option<Option<Quoted>> {
    let upper = headers.upper(bytes);
    let (is_error, ..) = read(headers, upper)?;
    is_error.then(|| Quoted::read(headers.version, upper.get(icmp::HEADER_LEN..).unwrap_or_default()))
}

/// Whether it is an error, its type and its code; `None` if it is no ICMP of its IP version, or too short for any.
fn read(headers: &Headers, upper: &[u8]) -> Option<(bool, u8, u8)> {
    match (headers.version, headers.protocol) {
        (4, protocol::ICMP) => {
            let view = Icmpv4::new_checked(upper).ok()?;
            Some((view.is_error(), view.kind(), view.code()))
        }
        (6, protocol::ICMPV6) => {
            let view = Icmpv6::new_checked(upper).ok()?;
            Some((view.is_error(), view.kind(), view.code()))
        }
        _ => None,
    }
}

#[cold]
fn admits_icmp(
    policy: &InnerIcmp,
    sa: &InboundSa,
    bytes: &[u8],
    headers: &Headers,
    admitted: Result<(), DropReason>,
) -> Result<(), DropReason> {
    let upper = headers.upper(bytes);
    // Too short for an error, or the other version's ICMP: the selectors decide, and the host refuses it.
    let Some((true, kind, code)) = read(headers, upper) else { return admitted };
    if !IcmpKind::lists(&policy.accept, headers.version, kind, code) {
        return Err(DropReason::IcmpRefused);
    }
    let quoted = || {
        // As its sender saw it, which is this side: local is local.
        let flow = quoted_by(bytes, headers).flatten().and_then(|quoted| quoted.flow());
        // An error is for who sent the packet.
        let carries =
            |flow: &Flow| flow.local == headers.dst && sa.config().effective_selectors().covers(flow);
        if flow.as_ref().is_some_and(carries) { Ok(()) } else { Err(DropReason::IcmpQuoted) }
    };
    match (policy.check, admitted) {
        (QuotedCheck::Never, admitted) | (QuotedCheck::Unmatched, admitted @ Ok(())) => admitted,
        (QuotedCheck::Always, _) | (QuotedCheck::Unmatched, Err(_)) => quoted(),
    }
}
