//! Capture files: pcap (both byte orders, micro- and nanoseconds) and pcapng read, pcap written with nanoseconds and link type
//! RAW, pcapng with comments ([`NgWriter`]), and
//! a file written again as it is but for its packets ([`Rewriter`]). What enters and leaves is a [`Frame`]; [`Frame::ip`] finds the IP packet in it. A file that cannot be read is
//! an error that names the place; a frame without an IP packet is not.

mod link_type;
mod ng;
mod read;
mod rewrite;
mod write;

pub use link_type::LinkType;
pub use ng::{Interface, NgWriter, Note, Statistics};
pub use read::Reader;
pub use rewrite::Rewriter;
pub use write::Writer;

use std::time::Duration;
use wire::Time;

/// A frame of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The time when the frame was captured, since 1970.
    pub time: Duration,
    /// The link type, which says what the first octets are.
    pub link: LinkType,
    /// The octets of the frame, as far as they were kept.
    pub data: Vec<u8>,
    /// The length of the frame on the wire, in octets.
    pub original_len: u32,
}

impl Frame {
    /// The IP packet that the frame carries, with whatever padding is behind it; `None` if there is no IP in it, or if
    /// its link type is not known here.
    pub fn ip(&self) -> Option<&[u8]> {
        self.link.ip(&self.data)
    }

    /// The IP packet that the link header announces, even if the packet's first octet contradicts it; otherwise the
    /// same as [`Frame::ip`].
    pub fn said_ip(&self) -> Option<&[u8]> {
        match self.link {
            LinkType::Raw => Some(&self.data),
            link => self.data.get(link.ip_at(&self.data)?.0..),
        }
    }

    /// The capture's own clock, for the pure rooms.
    pub fn clock(&self) -> Time {
        Time(u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether the capture kept the whole frame.
    pub fn is_whole(&self) -> bool {
        self.data.len() >= self.original_len as usize
    }
}
