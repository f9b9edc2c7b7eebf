//! Fragments (rules 4.8 to 4.12, 6.7 to 6.9). They are put together, so that nobody behind has to.

use crate::config::Config;
use crate::counters::Counters;
use crate::rule::{Mode, Rule};
use crate::verdict::{Context, Job, Stop};
use wire::ip::Headers;
use wire::reassembly::{Limits, Reassembled, Reassembler};
use wire::{Buf, DropReason, Pool, Time, ip, protocol, tcp};

/// The divisor for the share of one source: it may use one part in so many of what a family may (rule 4.11).
const SHARES: usize = 4;
/// The buffers of whole packets: their octets, octets in front, and free ones that are kept.
const BUFFERS: (usize, usize, usize) = (4096, 64, 4);

/// The result of taking in a fragment.
pub(crate) enum FragmentResult {
    /// The fragment is kept.
    Held,
    /// The fragment was the last one missing. The buffer has the whole packet, whose headers nobody has cleaned yet.
    Whole,
    /// Nobody puts fragments together, so the fragment goes on as it is.
    Loose,
    /// The fragment goes on as it is. If it was the last one missing, this would be its packet.
    Seen(Option<Buf>),
}

/// The packets that are not whole yet. Half of the room is IPv4's and half IPv6's, so that a flood of one leaves the
/// other alone.
#[derive(Debug)]
pub(crate) struct Fragments {
    v4: Reassembler,
    v6: Reassembler,
    pool: Pool,
}

impl Fragments {
    pub fn new(limits: Limits) -> Fragments {
        let datagrams = limits.datagrams.div_ceil(2);
        let half = Limits { datagrams, memory: limits.memory / 2, ..limits };
        let table = || Reassembler::sharing(half, SHARES);
        let (capacity, headroom, keep) = BUFFERS;
        Fragments { v4: table(), v6: table(), pool: Pool::new(capacity, headroom, keep) }
    }

    pub fn take(
        &mut self,
        job: &mut Job<'_>,
        context: &Context<'_>,
        buf: &mut Buf,
        headers: &Headers,
    ) -> Result<FragmentResult, Stop> {
        if is_tiny(buf, headers) {
            job.refuse(Rule::V4TinyFragment)?;
        }
        let (table, rule) = match headers.version {
            4 => (&mut self.v4, Rule::V4Reassemble),
            _ => (&mut self.v6, Rule::V6FragmentLength),
        };
        if !job.watches(rule) {
            return Ok(FragmentResult::Loose);
        }
        let reassembly_context = context.arrival.link << 1 | context.arrival.from as u32;
        match table.push(context.now, reassembly_context, buf.as_slice(), headers, &mut self.pool) {
            Reassembled::Incomplete if job.is_on(rule) => Ok(FragmentResult::Held),
            Reassembled::Incomplete => {
                job.acts(rule);
                Ok(FragmentResult::Seen(None))
            }
            Reassembled::Complete(whole) if job.acts(rule) => {
                *buf = whole;
                Ok(FragmentResult::Whole)
            }
            Reassembled::Complete(whole) => Ok(FragmentResult::Seen(Some(whole))),
            // Without its place among the others there is nothing to do with it, whatever the rule's mode.
            Reassembled::Rejected(reason) => Err(job.unreadable(rule_of(reason, buf, headers))),
        }
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        [&self.v4, &self.v6].into_iter().filter_map(Reassembler::deadline).min()
    }

    /// Give up packets whose time is over, and count all that were given up.
    pub fn expire(&mut self, now: Time, config: &Config, counters: &mut Counters) {
        let families = [
            (&mut self.v4, Rule::V4Reassemble, Rule::V4Overlap),
            (&mut self.v6, Rule::V6FragmentLength, Rule::V6Overlap),
        ];
        for (table, held_by, contradicted) in families {
            table.expire(now);
            let lost = table.take_lost();
            // What was only looked at has gone on.
            if config.mode(held_by) == Mode::On {
                counters.lost(Rule::V4FragmentLimit, lost.limit + lost.timeout);
                counters.lost(contradicted, lost.refused);
            }
        }
    }
}

/// Rule 4.12: whether this is a first fragment without the whole transport header, or another one that starts inside a
/// TCP header, about whose flags readers then differ. (RFC 1858, RFC 3128; for IPv6 RFC 7112, which the reassembly
/// knows.)
fn is_tiny(buf: &Buf, headers: &Headers) -> bool {
    let Some(fragment) = headers.fragment.filter(|_| headers.version == 4) else { return false };
    if fragment.offset == 0 {
        return !ip::upper_complete(buf.as_slice(), headers);
    }
    headers.protocol == protocol::TCP && fragment.offset < tcp::HEADER_LEN
}

/// The rule by which a fragment is dropped. Two readers take pieces that disagree about congestion differently (one
/// drops the packet, one marks it), so such pieces count like those that disagree about octets: 4.10 and 6.8.
fn rule_of(reason: DropReason, buf: &Buf, headers: &Headers) -> Rule {
    let v4 = headers.version == 4;
    let first = headers.fragment.is_some_and(|fragment| fragment.offset == 0);
    match reason {
        DropReason::FragmentEmpty | DropReason::FragmentAlignment | DropReason::FragmentTooLong if v4 => {
            Rule::V4FragmentLength
        }
        DropReason::FragmentLimit | DropReason::FragmentTimeout => Rule::V4FragmentLimit,
        DropReason::FragmentEmpty | DropReason::FragmentAlignment | DropReason::FragmentTooLong => {
            Rule::V6FragmentLength
        }
        DropReason::FragmentHeader if v4 => Rule::V4TinyFragment,
        // Either it holds too little, or it names another next header than the others.
        DropReason::FragmentHeader if first && !ip::upper_complete(buf.as_slice(), headers) => {
            Rule::V6FirstFragment
        }
        DropReason::FragmentHeader => Rule::V6FragmentLength,
        // Overlap, end, ECN, and whatever comes behind them.
        _ if v4 => Rule::V4Overlap,
        _ => Rule::V6Overlap,
    }
}
