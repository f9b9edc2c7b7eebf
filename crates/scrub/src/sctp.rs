//! The rule for SCTP (rule S.1): a packet is its chunks, one behind the other to its end.

use crate::rule::Rule;
use crate::verdict::{Job, Stop};
use wire::Buf;
use wire::ip::Headers;
use wire::sctp::{Chunk, INIT, INIT_ACK, SHUTDOWN_COMPLETE, Sctp};

/// The smallest window in octets with which an association may open (RFC 9260 section 3.3.2).
const MIN_WINDOW: u32 = 1500;

pub(crate) fn clean(job: &mut Job<'_>, buf: &Buf, headers: &Headers) -> Result<(u16, u16), Stop> {
    match Sctp::new_checked(headers.upper(buf.as_slice())) {
        Ok(view) => {
            if !is_right(&view) {
                job.refuse(Rule::SctpChunks)?;
            }
            Ok((view.src_port(), view.dst_port()))
        }
        Err(_) => job.refuse(Rule::SctpChunks).map(|()| (0, 0)),
    }
}

fn is_right(view: &Sctp<'_>) -> bool {
    let (mut count, mut opens, mut alone) = (0, false, false);
    for chunk in view.chunks() {
        let Ok(chunk) = chunk else { return false };
        count += 1;
        opens |= chunk.kind == INIT;
        // RFC 9260 section 3: these share a packet with no other chunk.
        alone |= matches!(chunk.kind, INIT | INIT_ACK | SHUTDOWN_COMPLETE);
        if matches!(chunk.kind, INIT | INIT_ACK) && !opens_well(view, chunk) {
            return false;
        }
    }
    let ports = view.src_port() != 0 && view.dst_port() != 0;
    // Section 8.5.1: an INIT has no tag, everything else has one.
    count > 0 && ports && (count == 1 || !alone) && (view.tag() == 0) == opens
}

fn opens_well(view: &Sctp<'_>, chunk: Chunk) -> bool {
    view.init(chunk).is_some_and(|init| {
        init.tag != 0 && init.window >= MIN_WINDOW && init.outbound != 0 && init.inbound != 0
    })
}
