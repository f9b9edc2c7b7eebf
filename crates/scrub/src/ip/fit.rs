//! Packets that do not fit the next link (rules 4.6, 4.9, 6.9): the sender is told, or the packet is cut in one way.

use super::numbers::Numbers;
use crate::rule::Rule;
use crate::verdict::{Context, Job, Outcome, Stop};
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::tcp::{self, Tcp};
use wire::{Buf, Gso, GsoKind, Time, checksum, fragment, icmp, udp};

/// The numbers of "too big" answers that may be sent at once, and in a second. A sender needs one, and more only when
/// it does not listen.
const BURST: u64 = 64;
const PER_SECOND: u64 = 64;
/// The number of octets in front of a fragment for what a device puts there.
const HEADROOM: usize = 64;

/// The account of the answers that may be sent now (RFC 4443 section 2.4 f).
#[derive(Debug)]
pub(crate) struct Answers {
    /// The saved time in nanoseconds; each answer costs some of it.
    saved: u64,
    last: Time,
}

impl Answers {
    const COST: u64 = 1_000_000_000 / PER_SECOND;

    pub fn new() -> Answers {
        Answers { saved: BURST * Answers::COST, last: Time::default() }
    }

    fn take(&mut self, now: Time) -> bool {
        let passed = u64::try_from(now.since(self.last).as_nanos()).unwrap_or(u64::MAX);
        self.saved = self.saved.saturating_add(passed).min(BURST * Answers::COST);
        self.last = self.last.max(now);
        let due = self.saved >= Answers::COST;
        if due {
            self.saved -= Answers::COST;
        }
        due
    }
}

/// The length in octets of the longest packet that this one becomes on the link.
fn longest(buf: &Buf, headers: &Headers, gso: &Gso) -> usize {
    let upper = headers.upper(buf.as_slice());
    let transport = match gso.kind {
        GsoKind::None => return headers.total_len,
        GsoKind::Tcp => Tcp::new_checked(upper).map_or(tcp::HEADER_LEN, |view| view.header_len()),
        GsoKind::Udp => udp::HEADER_LEN,
    };
    headers.total_len.min(headers.header_len + transport + usize::from(gso.size))
}

fn mtu(job: &Job<'_>, context: &Context<'_>) -> usize {
    job.config.mtu.get(context.arrival.from.other().index()).copied().unwrap_or(usize::MAX)
}

/// Rule 4.6, for both families: a packet that came whole, may not be cut and does not fit is answered, before anything
/// remembers it.
pub(crate) fn answer(
    job: &mut Job<'_>,
    context: &mut Context<'_>,
    answers: &mut Answers,
    buf: &Buf,
    headers: &Headers,
    gso: &Gso,
) -> Result<(), Stop> {
    let mtu = mtu(job, context);
    if !headers.dont_fragment || longest(buf, headers, gso) <= mtu {
        return Ok(());
    }
    let answered = job.refuse(Rule::V4DontFragment);
    if matches!(answered, Err(Stop::Drop(_)))
        && answers.take(context.now)
        && let Some(error) = icmp::too_big(buf.as_slice(), headers, mtu, None)
    {
        context.emit(context.arrival.from, error, Rule::V4DontFragment);
    }
    answered
}

/// Rules 4.9, 6.9: a packet that does not fit the next link is cut, in order and without overlap. `joined` says that it
/// came in fragments, and so may be cut again in IPv6, too. A super-packet whose pieces fit goes on whole; one whose
/// pieces do not fit goes on with smaller pieces.
pub(crate) fn fit(
    job: &mut Job<'_>,
    context: &mut Context<'_>,
    numbers: &mut Numbers,
    buf: &mut Buf,
    headers: &Headers,
    gso: &mut Gso,
    joined: bool,
) -> Result<Outcome, Stop> {
    let mtu = mtu(job, context);
    let longest = longest(buf, headers, gso);
    let may_be_cut = (joined || !headers.dont_fragment) && headers.fragment.is_none();
    // The kernel cuts what it is given of UDP.
    if longest <= mtu || !may_be_cut || gso.kind == GsoKind::Udp {
        return Ok(Outcome::Forward);
    }
    let rule = if headers.version == 4 { Rule::V4Reassemble } else { Rule::V6FragmentLength };
    if !job.acts(rule) {
        return Ok(Outcome::Forward);
    }
    if gso.kind == GsoKind::Tcp {
        let smaller = usize::from(gso.size).saturating_sub(longest - mtu).max(8);
        gso.size = u16::try_from(smaller).unwrap_or(gso.size);
        return Ok(Outcome::Forward);
    }
    cut(job, context, numbers, buf, headers, gso, rule).ok_or(Stop::Drop(rule))
}

/// Cut a packet into fragments, which are emitted. `None`: the next link is too narrow for any fragment.
fn cut(
    job: &Job<'_>,
    context: &mut Context<'_>,
    numbers: &mut Numbers,
    buf: &mut Buf,
    headers: &Headers,
    gso: &Gso,
    rule: Rule,
) -> Option<Outcome> {
    let mtu = mtu(job, context);
    if gso.needs_checksum {
        let (start, offset) = (usize::from(gso.checksum_start), usize::from(gso.checksum_offset));
        checksum::complete_partial(buf.as_mut_slice(), start, offset).ok()?;
    }
    let packet = buf.as_slice();
    // Where rule 4.4 is on, the packet has its number already.
    let id = match Ipv4::new_checked(packet) {
        Ok(view) if job.is_on(Rule::V4Id) => u32::from(view.id()),
        _ => numbers.take(headers, 1),
    };
    let mut pieces = fragment::fragments(packet, headers, id, mtu).ok()?;
    loop {
        let mut piece = Buf::with_capacity(HEADROOM + mtu, HEADROOM);
        match pieces.next_into(&mut piece) {
            Some(Ok(())) => context.emit(context.arrival.from.other(), piece, rule),
            Some(Err(_)) => return None,
            None => return Some(Outcome::Fragmented),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn answers_are_bounded() {
        let mut answers = Answers::new();
        let now = Time::from_secs(5);
        assert_eq!((0..200).filter(|_| answers.take(now)).count() as u64, BURST);
        assert_eq!((0..200).filter(|_| answers.take(now + Duration::from_millis(500))).count(), 32);
        // Time that goes back gives nothing.
        assert!(!answers.take(Time::from_secs(1)) && !answers.take(now + Duration::from_millis(500)));
    }
}
