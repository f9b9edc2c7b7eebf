//! The octets behind a packet.

use crate::rule::Rule;
use crate::verdict::Job;
use wire::Buf;
use wire::ip::Headers;

/// Rules 4.2 and 6.1: cut what lies behind the packet.
pub(super) fn cut_rest(job: &mut Job<'_>, buf: &mut Buf, headers: &Headers, rule: Rule) {
    if buf.len() > headers.total_len && job.acts(rule) {
        buf.truncate(headers.total_len);
    }
}
