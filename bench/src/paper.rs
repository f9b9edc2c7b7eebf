//! What the measurements of the papers share: hosts whose transform is exchanged while they run, files to fetch, and plots.

pub mod between;
pub mod cpu_limit;
pub mod dots;
pub mod files;
pub mod plot;
pub mod transform;

pub use transform::{Bed, BedOptions, Member, TRANSFORMS, Transform, transform};
