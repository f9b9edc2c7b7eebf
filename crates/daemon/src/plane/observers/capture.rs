//! Live captures ([`crate::capture`]), the control plane's side. The *desk* knows who captures what; a thread for each capture makes a
//! capture file or lines of what its taps copied, with names, and the control API sends those.

mod captures;
mod names;
mod text;
mod writer;

pub use captures::{Captures, start};
