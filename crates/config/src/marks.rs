//! The `mark_mask` of the configuration: which bits of socket and packet marks are ours.

use wire::Marks;

use super::read::{Reader, Value};

impl Reader<'_> {
    pub(super) fn marks(&mut self, value: Option<&Value<'_>>) -> Marks {
        let why = "a mask of 32 bits, as 0x003fffff";
        let number = value.and_then(|value| self.integer(value, "mark_mask", 0..=0xffff_ffff, why));
        let (Some(value), Some(mask)) = (value, number.and_then(|n| u32::try_from(n).ok())) else {
            return Marks::default();
        };
        Marks::new(mask).unwrap_or_else(|error| {
            let remedy = "give it 10 to 22 bits that no other program uses, all but the highest six of them side by side";
            self.fault(value.span(), format!("`mark_mask`: {error}"), remedy);
            Marks::default()
        })
    }
}
