//! UDP (rules U.1, U.2).

use crate::scrubber::Desk;
use crate::sessions::Sessions;
use crate::verdict::{Job, Stop};
use wire::ip::Headers;
use wire::{Buf, Gso};

/// The highest time to live of the flow.
pub(crate) fn clean(
    _job: &mut Job<'_>,
    _desk: &mut Desk<'_>,
    _sessions: &mut Sessions,
    _buf: &mut Buf,
    headers: &mut Headers,
    _gso: &Gso,
) -> Result<u8, Stop> {
    Ok(headers.ttl)
}
