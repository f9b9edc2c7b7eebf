//! ICMP and ICMPv6 (rules I.1 to I.4, 6.12).

use crate::scrubber::Desk;
use crate::sessions::Sessions;
use crate::tcp::Connections;
use crate::verdict::{Job, Stop};
use wire::Buf;
use wire::ip::Headers;

/// The highest time to live of the flow.
pub(crate) fn clean(
    _job: &mut Job<'_>,
    _desk: &mut Desk<'_>,
    _sessions: &mut Sessions,
    _connections: &Connections,
    _buf: &mut Buf,
    headers: &mut Headers,
) -> Result<u8, Stop> {
    Ok(headers.ttl)
}
