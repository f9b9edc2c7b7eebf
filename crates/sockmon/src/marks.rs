//! The layout of marks in the form that the kernel half takes (docs/design/0016); it has the same in `mark.h`.

use crate::abi;
use wire::Marks;

/// The record that tells the kernel half where the fields of marks lie.
pub fn layout(marks: Marks) -> abi::Layouts {
    let apps = marks.app_mask();
    abi::Layouts {
        ours: marks.ours(),
        standard: u8::from(marks == Marks::default()),
        app_shift: apps.trailing_zeros() as u8,
        app_bits: apps.count_ones() as u8,
        flags: marks.flags(),
        zero: [0; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::mark;
    use wire::AppId;

    #[test]
    fn the_default_is_where_the_fields_are_defined() {
        let marks = Marks::default();
        assert_eq!(Marks::new(marks.mask()), Ok(marks));
        assert_eq!(marks.mask(), mark::OURS | mark::FORWARDED | mark::ARRIVED);
        assert_eq!(marks.mask(), 0x8307_ffff);
        assert_eq!(marks.flags(), [16, 17, 18, 24, 25, 31]);
        assert_eq!(marks.ours(), mark::OURS);
        assert_eq!(marks.last_app(), 65_534);
        let all = mark::STAMPED | mark::AUTHENTICATED | mark::ENCRYPTED | 7;
        assert_eq!(marks.stamp(0x40_0000, AppId(7), 3), 0x40_0000 | all);
    }
}
