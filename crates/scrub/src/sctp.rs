//! SCTP (rule S.1).

use crate::verdict::{Job, Stop};
use wire::Buf;
use wire::ip::Headers;

pub(crate) fn clean(_job: &mut Job<'_>, _buf: &mut Buf, _headers: &mut Headers) -> Result<(), Stop> {
    Ok(())
}
