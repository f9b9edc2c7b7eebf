//! The bits of socket and packet marks that are ours, and where the fields lie in them (docs/design/0016). The kernel
//! half has the same in `mark.h`.

use core::fmt;

use crate::AppId;

/// The mask of docs/design/0002: six flags, and sixteen bits for the application's number.
const STANDARD: u32 = 0x8307_ffff;

/// Bits for flags: the highest of the mask.
pub const FLAGS: usize = 6;
/// Bits for the application's number: the others.
const APP_BITS: std::ops::RangeInclusive<u32> = 4..=16;

/// The bits that are ours. The default is that of docs/design/0002.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    mask: u32,
}

/// Why a mask cannot be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskError {
    mask: u32,
    bits: u32,
}

impl fmt::Display for MaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MaskError { mask, bits } = self;
        let (apps, least, most) = (bits.saturating_sub(FLAGS as u32), APP_BITS.start(), APP_BITS.end());
        write!(
            f,
            "{mask:#010x} has {bits} bits, the lower {apps} of which must be {least} to {most}, in one piece: six flags \
             lie above the application's number"
        )
    }
}

impl core::error::Error for MaskError {}

impl Default for Marks {
    fn default() -> Marks {
        Marks { mask: STANDARD }
    }
}

impl Marks {
    /// Marks whose fields are in these bits: the six highest are flags, the others, in one piece, the application's number.
    ///
    /// # Errors
    /// If they are too few, too many, or the lower ones not in one piece.
    pub fn new(mask: u32) -> Result<Marks, MaskError> {
        let marks = Marks { mask };
        let apps = marks.app_mask();
        let in_one_piece = apps != 0 && (apps >> apps.trailing_zeros()).wrapping_add(1).is_power_of_two();
        if in_one_piece && APP_BITS.contains(&apps.count_ones()) && mask.count_ones() as usize > FLAGS {
            Ok(marks)
        } else {
            Err(MaskError { mask, bits: mask.count_ones() })
        }
    }

    /// All bits of it.
    pub fn mask(self) -> u32 {
        self.mask
    }

    /// The bit numbers of the flags, lowest first.
    pub fn flags(self) -> [u8; FLAGS] {
        let mut rest = self.mask;
        let mut out = [0; FLAGS];
        for flag in out.iter_mut().rev() {
            let highest = 31u32.saturating_sub(rest.leading_zeros());
            rest &= !(1 << highest);
            *flag = highest as u8;
        }
        out
    }

    /// The bits that hold the application's number.
    pub fn app_mask(self) -> u32 {
        self.flags().iter().fold(self.mask, |mask, flag| mask & !(1 << flag))
    }

    /// The highest number that an application can have: the last one that fits means refusal.
    pub fn last_app(self) -> u16 {
        let all = (1u32 << self.app_mask().count_ones()) - 1;
        u16::try_from(all - 1).unwrap_or(u16::MAX - 1)
    }

    /// The bits that a socket's mark may have from us: not those of packets on their way through a gateway.
    pub fn ours(self) -> u32 {
        let [_, forwarded, arrived, ..] = self.flags();
        self.mask & !(1 << forwarded | 1 << arrived)
    }

    /// The mark of an application's sockets, which leaves the bits of others as they are in `other`. `required`: bit 0
    /// asks for authentication, bit 1 for encryption.
    pub fn stamp(self, other: u32, app: AppId, required: u8) -> u32 {
        let [stamped, _, _, authenticated, encrypted, _] = self.flags();
        let apps = self.app_mask();
        let asked = u32::from(required & 1) << authenticated | u32::from(required >> 1 & 1) << encrypted;
        other & !self.ours() | 1 << stamped | u32::from(app.0) << apps.trailing_zeros() & apps | asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_other_masks_are_apart_and_inside() {
        for mask in [0x003f_ffff, 0x0000_ffff, 0xffc0_0000, 0x0fff_0000, 0xfc00_00f0] {
            let marks = Marks::new(mask).unwrap();
            let stamped = marks.stamp(!mask, AppId(marks.last_app()), 3);
            assert_eq!(stamped & !mask, !mask, "{mask:#x}: bits of others");
            assert_eq!(stamped & marks.app_mask(), marks.app_mask() & (marks.app_mask() << 1), "{mask:#x}");
            assert_eq!((stamped & mask & !marks.app_mask()).count_ones(), 3, "{mask:#x}");
            assert_eq!(marks.app_mask().count_ones() as usize + FLAGS, mask.count_ones() as usize);
            assert_eq!(marks.stamp(stamped, AppId::NONE, 0) & marks.ours() & marks.app_mask(), 0);
        }
        for mask in [0, 0x3f, 0x1ff, 0x00ff_ffff, u32::MAX, 0xfc00_0505, 0xfc00_00f1] {
            let error = Marks::new(mask).unwrap_err().to_string();
            assert!(error.contains("one piece"), "{mask:#x}: {error}");
        }
    }
}
