//! The frames that go through the engine together.

use netio::pcap::Frame;
use wire::OuterHeader;

/// Frames that wait for the end of their batch.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) frames: Vec<(u64, Frame)>,
    /// Where all of them go; inbound, what is around all of them and how long each is.
    pub(super) way: Option<Common>,
    /// Datagrams and packets that went through the engine together with others.
    pub(super) together: u64,
}

/// What the frames of a batch have in common.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Common {
    Out,
    In {
        header: OuterHeader,
        stride: usize,
        /// A shorter one has come: it is the last.
        closed: bool,
    },
}
