//! Fragments (rules 4.7 to 4.12, 6.5 to 6.9): put together, so that nobody behind has to.

use crate::counters::Counters;
use crate::scrubber::Desk;
use crate::verdict::{Job, Stop};
use wire::ip::Headers;
use wire::reassembly::{Limits, Reassembler};
use wire::{Buf, Time};

/// What became of a fragment.
pub(crate) enum Taken {
    /// It is kept.
    Held,
    /// It was the last one missing: the buffer has the whole packet, these are its headers.
    Whole(Headers),
}

/// Packets that are not whole yet.
#[derive(Debug)]
pub(crate) struct Fragments {
    _table: Reassembler,
}

impl Fragments {
    pub fn new(limits: Limits) -> Fragments {
        Fragments { _table: Reassembler::new(limits) }
    }

    pub fn take(
        &mut self,
        _job: &mut Job<'_>,
        _desk: &mut Desk<'_>,
        _buf: &mut Buf,
        _headers: &Headers,
    ) -> Result<Taken, Stop> {
        Ok(Taken::Held)
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    pub fn expire(&mut self, _now: Time, _counters: &mut Counters) {}
}
