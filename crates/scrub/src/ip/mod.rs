//! IPv4 and IPv6 headers (rules 4.1 to 4.7, 4.13 to 4.17, 6.1 to 6.4, 6.10, 6.11, 6.13).

use crate::rule::Rule;
use crate::scrubber::Desk;
use crate::verdict::{Job, Outcome, Stop};
use wire::ip::Headers;
use wire::{Buf, Gso};

/// Identifications of packets that the scrubber numbers (rule 4.4) and of fragments that it cuts.
#[derive(Debug)]
pub(crate) struct Numbers {}

impl Numbers {
    pub fn new(_seed: [u8; 16]) -> Numbers {
        Numbers {}
    }
}

/// Check and clean the headers of a packet, whole or fragment; what lies behind the packet in `buf` is cut.
pub(crate) fn clean(job: &mut Job<'_>, _desk: &mut Desk<'_>, buf: &mut Buf) -> Result<Headers, Stop> {
    Headers::parse(buf.as_slice()).map_err(|_| job.unreadable(Rule::V4Header))
}

/// Rules 4.14 and 6.2: at least `flow`, the highest of the packet's flow, and the configured floor.
pub(crate) fn raise_ttl(_job: &mut Job<'_>, _buf: &mut Buf, _headers: &Headers, _flow: u8) {}

/// What comes last: identification, header checksum.
pub(crate) fn finish(_job: &mut Job<'_>, _numbers: &mut Numbers, _buf: &mut Buf, _headers: &Headers) {}

/// Rules 4.6, 4.9, 6.9: what does not fit the next link is cut into fragments, or its sender is told. A super-packet whose pieces fit
/// goes on whole.
pub(crate) fn fit(
    _job: &mut Job<'_>,
    _desk: &mut Desk<'_>,
    _numbers: &mut Numbers,
    _buf: &mut Buf,
    _headers: &Headers,
    _gso: &Gso,
) -> Result<Outcome, Stop> {
    Ok(Outcome::Forward)
}
