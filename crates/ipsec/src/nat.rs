//! Transport checksums of packets that came through a NAT (RFC 3948 section 3.1.2).

use sadb::sa::NatChecksum;
use wire::checksum;
use wire::ip::Headers;

/// Repair the checksum of a packet that transport mode has brought out of UDP, if a NAT on the way has made it wrong.
#[inline]
pub(crate) fn repair(nat: &mut NatChecksum, packet: &mut [u8]) {
    if !nat.is_right() {
        repair_slowly(nat, packet);
    }
}

#[cold]
fn repair_slowly(nat: &mut NatChecksum, packet: &mut [u8]) {
    // What is no packet ends in the next stage.
    let Ok(headers) = Headers::parse(packet) else { return };
    // Of one without a checksum there is nothing to learn.
    let Some(error) = checksum::transport_error(packet, &headers) else { return };
    if let Some(error) = nat.correction(error) {
        checksum::adjust_transport(packet, &headers, error);
    }
}
