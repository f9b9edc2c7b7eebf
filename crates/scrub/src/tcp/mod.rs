//! TCP: headers, options, and what a connection may still say (rules T, O, Q).

use crate::config::Config;
use crate::scrubber::Desk;
use crate::verdict::{Job, Side, Stop};
use wire::ip::Headers;
use wire::{Buf, Flow, Gso, Time};

/// All connections.
#[derive(Debug)]
pub struct Connections {}

impl Connections {
    pub(crate) fn new(_config: &Config, _seed: [u8; 16]) -> Connections {
        Connections {}
    }

    /// One segment. The highest time to live of its connection from that side.
    pub(crate) fn segment(
        &mut self,
        _job: &mut Job<'_>,
        _desk: &mut Desk<'_>,
        _buf: &mut Buf,
        headers: &mut Headers,
        _gso: &Gso,
    ) -> Result<u8, Stop> {
        Ok(headers.ttl)
    }

    /// Whether a connection had `seq` under way from the side `sender` (RFC 5927 section 4.1); `flow` as the sender sees it.
    pub(crate) fn has_under_way(&self, _sender: Side, _flow: &Flow, _seq: u32) -> bool {
        false
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        None
    }

    pub(crate) fn expire(&mut self, _config: &Config, _desk: &mut Desk<'_>) {}
}
