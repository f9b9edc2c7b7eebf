//! The type of service octet across a tunnel: DSCP and ECN copied out, ECN combined on the way in.
//!
//! RFC 6040 sections 4.1 (normal mode) and 4.2 (figure 4), RFC 4301 sections 5.1.2.1 and 8.2, RFC 2983 (the
//! inner DSCP stays as it was: the uniform model would let the path rewrite what the sender asked for).

use wire::DropReason;

/// The ECN field of the octet.
pub const MASK: u8 = 0b11;
const NOT_ECT: u8 = 0b00;
const ECT_1: u8 = 0b01;
const ECT_0: u8 = 0b10;
const CE: u8 = 0b11;

/// The outer octet for an inner one: DSCP and ECN as they are (RFC 6040 figure 3, normal mode).
pub const fn encap(inner: u8) -> u8 {
    inner
}

/// The outer octet in compatibility mode, for a peer that would lose what the path marks: no ECN (RFC 6040 figure 3).
pub const fn encap_compatible(inner: u8) -> u8 {
    inner & !MASK
}

/// What figure 4 of RFC 6040 remarks on a combination of inner and outer field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// The figure remarks nothing on the combination.
    None,
    /// The figure says "(!)": the combination is unused today, perhaps dangerous.
    Unused,
    /// The figure says "(!!!)": the combination is unused today, always perhaps dangerous.
    Dangerous,
}

/// What the receiver should log of this combination (RFC 6040 section 4.2).
pub const fn concern(inner: u8, outer: u8) -> Concern {
    match (inner & MASK, outer & MASK) {
        (NOT_ECT, NOT_ECT) => Concern::None,
        (NOT_ECT, _) | (CE, ECT_1) => Concern::Dangerous,
        (ECT_1, ECT_0) => Concern::Unused,
        _ => Concern::None,
    }
}

/// The inner octet after decapsulation: DSCP of the inner header, ECN by RFC 6040 figure 4.
///
/// # Errors
/// [`DropReason::EcnCongestion`] where congestion was met and the inner transport cannot be told.
pub const fn decap(inner: u8, outer: u8) -> Result<u8, DropReason> {
    let ecn = match (inner & MASK, outer & MASK) {
        (NOT_ECT, CE) => return Err(DropReason::EcnCongestion),
        (NOT_ECT, _) => NOT_ECT,
        (_, CE) | (CE, _) => CE,
        (_, ECT_1) => ECT_1,
        (inner, _) => inner,
    };
    Ok(inner & !MASK | ecn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_4_of_rfc_6040() {
        let drop = Err(DropReason::EcnCongestion);
        // Rows: arriving inner header. Columns: arriving outer header, Not-ECT, ECT(0), ECT(1), CE.
        let table = [
            (NOT_ECT, [Ok(NOT_ECT), Ok(NOT_ECT), Ok(NOT_ECT), drop]),
            (ECT_0, [Ok(ECT_0), Ok(ECT_0), Ok(ECT_1), Ok(CE)]),
            (ECT_1, [Ok(ECT_1), Ok(ECT_1), Ok(ECT_1), Ok(CE)]),
            (CE, [Ok(CE), Ok(CE), Ok(CE), Ok(CE)]),
        ];
        for (inner, row) in table {
            for (outer, want) in [NOT_ECT, ECT_0, ECT_1, CE].into_iter().zip(row) {
                assert_eq!(decap(inner, outer), want, "inner {inner:02b} outer {outer:02b}");
                // The DSCP of the inner header survives whatever the path did to the outer one.
                let dscp = 0b1011_1000;
                assert_eq!(decap(dscp | inner, 0b0010_0000 | outer), want.map(|ecn| dscp | ecn));
            }
        }
    }

    #[test]
    fn the_marks_of_figure_4() {
        use Concern::{Dangerous, None, Unused};
        let table = [
            (NOT_ECT, [None, Dangerous, Dangerous, Dangerous]),
            (ECT_0, [None, None, None, None]),
            (ECT_1, [None, Unused, None, None]),
            (CE, [None, None, Dangerous, None]),
        ];
        for (inner, row) in table {
            for (outer, want) in [NOT_ECT, ECT_0, ECT_1, CE].into_iter().zip(row) {
                assert_eq!(concern(0xb8 | inner, 0x20 | outer), want, "inner {inner:02b} outer {outer:02b}");
            }
        }
    }

    #[test]
    fn compatibility_mode_shows_no_ecn() {
        for tos in 0..=u8::MAX {
            assert_eq!(encap_compatible(tos), tos & 0xfc);
        }
    }

    #[test]
    fn a_tunnel_without_congestion_changes_nothing() {
        for tos in 0..=u8::MAX {
            assert_eq!(decap(tos, encap(tos)), Ok(tos));
        }
    }
}
