//! What the measurements of the papers share: hosts whose transform is exchanged while they run, and plots.

pub mod plot;
pub mod transform;

pub use transform::{Bed, TRANSFORMS, Transform};
