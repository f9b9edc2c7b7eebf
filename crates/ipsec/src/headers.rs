//! Header fields at the ends of a tunnel: what the outer header takes from the inner one, and back (RFC 4301 sections
//! 5.1.2.1 and 5.1.2.2, RFC 2983, RFC 6040).

use crate::ecn;
use sadb::sa::{Counters, DontFragment, Dscp, HeaderPolicy, HopLimit};
use wire::DropReason;

/// The outer type of service for an inner one.
#[inline]
pub(crate) fn outer_tos(policy: &HeaderPolicy, inner: u8) -> u8 {
    let dscp = match &policy.dscp {
        Dscp::Copy => inner & !ecn::MASK,
        Dscp::Set(dscp) => dscp << 2,
        Dscp::Map(map) => map.get(usize::from(inner >> 2)).copied().unwrap_or_default() << 2,
    };
    dscp | if policy.ecn { ecn::encap(inner) & ecn::MASK } else { ecn::encap_compatible(inner) & ecn::MASK }
}

/// The inner type of service behind the tunnel, counted where RFC 6040 wants it known.
#[inline]
pub(crate) fn inner_tos(
    policy: &HeaderPolicy,
    counters: &mut Counters,
    inner: u8,
    outer: u8,
) -> Result<u8, DropReason> {
    match ecn::concern(inner, outer) {
        ecn::Concern::None => {}
        ecn::Concern::Unused => counters.ecn_unused += 1,
        ecn::Concern::Dangerous => counters.ecn_dangerous += 1,
    }
    let tos = ecn::decap(inner, outer)?;
    Ok(if policy.dscp_inward { outer & !ecn::MASK | tos & ecn::MASK } else { tos })
}

/// The outer time to live for an inner one.
#[inline]
pub(crate) fn outer_ttl(policy: &HeaderPolicy, inner: u8) -> u8 {
    match policy.hop_limit {
        HopLimit::Copy => inner,
        HopLimit::Set(ttl) => ttl,
    }
}

/// Whether the outer packet must not be fragmented on its way. `may_fragment`: it does not fit otherwise, and its inner
/// packet allows it. One that nobody may cut and nobody may be told about (IPv6 of 1280 octets or less) is carried all
/// the same (RFC 2473 section 7.1).
#[inline]
pub(crate) fn outer_df(policy: &HeaderPolicy, inner: bool, may_fragment: bool) -> bool {
    match policy.df {
        DontFragment::Copy => inner && !may_fragment,
        DontFragment::Set => !(inner && may_fragment),
        DontFragment::Clear => false,
    }
}
