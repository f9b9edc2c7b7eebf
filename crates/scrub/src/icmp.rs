//! ICMP and ICMPv6 (rules I.1 to I.4, 6.12).

use crate::rule::Rule;
use crate::sessions::{SessionEnds, Sessions};
use crate::tcp::Connections;
use crate::verdict::{Context, Job, Side, Stop};
use wire::icmp::{self, HEADER_LEN, Icmpv4};
use wire::ip::{self, Headers};
use wire::quote::Quoted;
use wire::{Buf, Flow, Gso, checksum, ipv4, ipv6, protocol};

/// The greatest length of an error in octets: RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 c.
const LONGEST: [usize; 2] = [576, ipv6::MIN_MTU];
/// The narrowest path in octets that hosts of IPv4 believe in (Linux and BSD have this bound; RFC 1191 section 3 has
/// 68).
const LEAST_MTU: u32 = 552;

/// The kind of a message, by its version and type.
enum Kind {
    Request,
    Reply,
    Error,
    /// A message of the link (RFC 4861) from a host.
    Neighbour,
    RouterAdvertisement,
    /// A multicast listener message of the link (RFC 2710, RFC 3810).
    Listener,
    /// Rule I.3: a type that is dropped.
    Obsolete,
    Other,
}

fn kind_of(version: u8, kind: u8) -> Kind {
    match (version, kind) {
        (4, 8) | (6, 128) => Kind::Request,
        (4, 0) | (6, 129) => Kind::Reply,
        (4, 3 | 11 | 12) | (6, 1..=4) => Kind::Error,
        (6, 133 | 135 | 136) => Kind::Neighbour,
        (6, 134) => Kind::RouterAdvertisement,
        (6, 130..=132 | 143) => Kind::Listener,
        // Source quench, redirect, router advertisement and solicitation, timestamp, information, mask; the redirect of IPv6.
        (4, 4 | 5 | 9 | 10 | 13..=18) | (6, 137) => Kind::Obsolete,
        _ => Kind::Other,
    }
}

/// Clean an ICMP message. Returns the time to live that the packet is to have at least. It is the packet's own, for
/// that of a probe says how far the probe is to go.
pub(crate) fn clean(
    job: &mut Job<'_>,
    context: &Context<'_>,
    sessions: &mut Sessions,
    connections: &Connections,
    buf: &mut Buf,
    headers: &mut Headers,
    gso: &Gso,
) -> Result<u8, Stop> {
    // The other family's ICMP is rule 6.13's.
    if !ip::is_icmp(headers) {
        return Ok(headers.ttl);
    }
    let Ok(view) = Icmpv4::new_checked(headers.upper(buf.as_slice())) else {
        job.refuse(Rule::IcmpEcho)?;
        return Ok(headers.ttl);
    };
    let (kind, code, identifier) = (view.kind(), view.code(), view.identifier());
    if !gso.needs_checksum && checksum::verify_transport(buf.as_slice(), headers) == Some(false) {
        job.refuse(Rule::IcmpEcho)?;
    }
    let hops = |wanted: u8| headers.ttl == wanted && code == 0;
    let from_outside = context.arrival.from == Side::Outside;
    let unspecified = headers.src.is_unspecified();
    match kind_of(headers.version, kind) {
        // Without an address a host solicits and reports, and nothing else (rule 6.13).
        Kind::Request | Kind::Reply | Kind::Error if unspecified => job.refuse(Rule::V6Address)?,
        Kind::Request | Kind::Reply => echo(job, context, sessions, buf, headers, (kind, code, identifier))?,
        Kind::Error => error(job, context, sessions, connections, buf, headers, gso)?,
        Kind::Neighbour if !hops(255) => job.refuse(Rule::V6Neighbour)?,
        Kind::RouterAdvertisement if !hops(255) || from_outside && !job.config.outside_routers => {
            job.refuse(Rule::V6Neighbour)?;
        }
        Kind::Listener if !hops(1) => job.refuse(Rule::V6Neighbour)?,
        Kind::Neighbour | Kind::RouterAdvertisement | Kind::Listener => {}
        Kind::Obsolete => {
            // Of the link as neighbour discovery is: redirects, and routers that are asked for and answer (RFC 1256).
            let of_link = matches!((headers.version, kind), (4, 5 | 9 | 10)) || kind == 137 && hops(255);
            job.refuse_unless(job.config.any_host && of_link, Rule::IcmpMtu)?;
        }
        Kind::Other => job.refuse(Rule::IcmpType)?,
    }
    Ok(headers.ttl)
}

/// Rule I.1: echo requests and replies.
fn echo(
    job: &mut Job<'_>,
    context: &Context<'_>,
    sessions: &mut Sessions,
    buf: &mut Buf,
    headers: &Headers,
    (kind, code, identifier): (u8, u8, u16),
) -> Result<(), Stop> {
    let from = context.arrival.from;
    if headers.dst.is_multicast() {
        job.refuse(Rule::IcmpEcho)?;
    }
    let asked = matches!(kind_of(headers.version, kind), Kind::Request);
    let talk = if asked {
        SessionEnds::echo(from, headers.protocol, headers.src, headers.dst, identifier)
    } else {
        SessionEnds::echo(from.other(), headers.protocol, headers.dst, headers.src, identifier)
    };
    let talk = talk.in_realm(context.arrival.realm);
    if !asked && !sessions.knows(context.now, &talk) {
        job.refuse_unless(job.config.may_miss, Rule::IcmpEcho)?;
    }
    if code != 0
        && job.acts(Rule::IcmpEcho)
        && let Some(message) = buf.as_mut_slice().get_mut(headers.header_len..)
    {
        icmp::edit_code(message, 0);
    }
    if asked {
        sessions.note(context.now, &talk, from, headers.ttl);
    }
    Ok(())
}

/// Whether the standards have this code. A message with any other code is not read alike by everybody.
fn is_code(version: u8, kind: u8, code: u8) -> bool {
    let last = match (version, kind) {
        (4, 3) => 15,
        (4, 11) | (6, 3) => 1,
        (4, 12) => 2,
        (6, 1) => 8,
        (6, 2) => 0,
        // RFC 8883 section 5.1 has the last ones.
        (6, 4) => 10,
        _ => 0,
    };
    code <= last
}

/// Rules I.2 and I.3: an error must be about a packet that went in the other direction not long ago.
fn error(
    job: &mut Job<'_>,
    context: &Context<'_>,
    sessions: &Sessions,
    connections: &Connections,
    buf: &mut Buf,
    headers: &mut Headers,
    gso: &Gso,
) -> Result<(), Stop> {
    let Ok(view) = Icmpv4::new_checked(headers.upper(buf.as_slice())) else { return Ok(()) };
    let (kind, code, rest) = (view.kind(), view.code(), view.rest());
    let quoted = Quoted::read(headers.version, view.payload());
    let quote_len = view.payload().len();
    if !is_code(headers.version, kind, code) {
        job.refuse(Rule::IcmpType)?;
    }
    let Some(quoted) = quoted else { return job.refuse(Rule::IcmpQuote) };
    if quoted.src != headers.dst || !is_live(context, sessions, connections, &quoted) {
        let honest = job.config.may_miss && quoted.src == headers.dst;
        job.refuse_unless(honest && may_be_unseen(context, connections, &quoted), Rule::IcmpQuote)?;
    }
    let too_big = matches!((headers.version, kind, code), (4, 3, 4) | (6, 2, _));
    let (mut wanted, mut keep) = (rest, quote_len);
    let plain = plain_rest(headers.version, kind, code, rest);
    let shorter = kept(headers, kind, rest, quote_len, &quoted);
    if (plain != rest || shorter < quote_len) && job.acts(Rule::IcmpQuote) {
        (wanted, keep) = (plain, shorter);
    }
    let hidden = hide_quoting(job, context, buf, headers, &quoted, keep);
    keep = hidden.unwrap_or(keep);
    if too_big {
        let mtu = path_mtu(job, headers.version, plain, &quoted)?;
        wanted = wanted & !plain | mtu;
    }
    let shifted = restore_numbers(job, context, connections, buf, headers, &quoted);
    if wanted != rest || keep < quote_len || hidden.is_some() || shifted {
        rewrite(buf, headers, gso, wanted, keep).ok_or(Stop::Drop(Rule::IcmpQuote))?;
    }
    Ok(())
}

/// Rule Q.4: give the quoted packet the numbers that its sender knows. Returns whether it had others.
fn restore_numbers(
    job: &mut Job<'_>,
    context: &Context<'_>,
    connections: &Connections,
    buf: &mut Buf,
    headers: &Headers,
    quoted: &Quoted,
) -> bool {
    let Some(flow) = flow_of(quoted) else { return false };
    let (seq, ack) = connections.shifts(context.arrival.from.other(), &flow, context.arrival.realm);
    let quote = buf.as_mut_slice().get_mut(headers.header_len + HEADER_LEN..headers.total_len);
    let changed = (seq, ack) != (0, 0) && quote.is_some_and(|quote| quoted.renumber(quote, seq, ack));
    if changed {
        job.met.acted.insert(Rule::IsnModulation);
    }
    changed
}

/// The flow of a quoted segment, as its sender sees it.
fn flow_of(quoted: &Quoted) -> Option<Flow> {
    let (local_port, remote_port) = quoted.ports.filter(|_| quoted.protocol == protocol::TCP)?;
    Some(Flow {
        opaque: false,
        local: quoted.src,
        remote: quoted.dst,
        local_port,
        remote_port,
        protocol: protocol::TCP,
    })
}

/// Rule 4.4: the length of a quotation by a host inside, and the identification in it, tell its stack. The receiver
/// needs only the header and eight octets (RFC 792). Returns the number of octets that are quoted then, if the rule
/// acts; the checksum of the error is still to be computed.
fn hide_quoting(
    job: &mut Job<'_>,
    context: &Context<'_>,
    buf: &mut Buf,
    headers: &Headers,
    quoted: &Quoted,
    keep: usize,
) -> Option<usize> {
    if headers.version != 4 || context.arrival.from != Side::Inside || !job.watches(Rule::V4Id) {
        return None;
    }
    let least = keep.min(quoted.header_len + 8);
    let at = headers.header_len + HEADER_LEN;
    let named = buf.as_slice().get(at + 4..at + 6)? != [0, 0];
    if least == keep && !named || !job.acts(Rule::V4Id) {
        return None;
    }
    ipv4::edit_id(buf.as_mut_slice().get_mut(at..)?, 0);
    Some(least)
}

/// Whether the quoted packet was sent from the side that the error goes to.
fn is_live(context: &Context<'_>, sessions: &Sessions, connections: &Connections, quoted: &Quoted) -> bool {
    let (sender, realm) = (context.arrival.from.other(), context.arrival.realm);
    let knows = |talk: SessionEnds| sessions.knows(context.now, &talk.in_realm(realm));
    let Quoted { src, dst, protocol, ports, seq, echo, .. } = *quoted;
    match (protocol, ports, seq, echo) {
        (protocol::TCP, Some(_), Some(seq), _) => {
            flow_of(quoted).is_some_and(|flow| connections.has_under_way(sender, &flow, realm, seq))
        }
        // Nothing says which of its flows it was.
        (protocol::TCP, ..) | (protocol::UDP | protocol::SCTP, None, ..) => false,
        (protocol::UDP | protocol::SCTP, Some((src_port, dst_port)), ..) => {
            knows(SessionEnds::of(sender, protocol, (src, src_port), (dst, dst_port)))
        }
        (protocol::ICMP | protocol::ICMPV6, _, _, Some((kind, identifier))) => {
            let version = if src.is_ipv4() { 4 } else { 6 };
            let talk = match kind_of(version, kind) {
                Kind::Request => SessionEnds::echo(sender, protocol, src, dst, identifier),
                Kind::Reply => SessionEnds::echo(sender.other(), protocol, dst, src, identifier),
                _ => return false,
            };
            knows(talk)
        }
        (protocol::ICMP | protocol::ICMPV6, ..) => false,
        _ => knows(SessionEnds::of(sender, protocol, (src, 0), (dst, 0))),
    }
}

/// Whether the quoted packet may be of a flow that passed unseen. A known connection must not be ended by an error that
/// does not fit it.
fn may_be_unseen(context: &Context<'_>, connections: &Connections, quoted: &Quoted) -> bool {
    match quoted.protocol {
        protocol::TCP => flow_of(quoted).is_some_and(|flow| {
            !connections.knows(context.arrival.from.other(), &flow, context.arrival.realm)
        }),
        protocol::UDP | protocol::SCTP => quoted.ports.is_some(),
        _ => true,
    }
}

/// The second half of the header without its unused parts. The length of RFC 4884 counts as unused, since extensions
/// are cut.
fn plain_rest(version: u8, kind: u8, code: u8, rest: u32) -> u32 {
    match (version, kind, code) {
        (4, 3, 4) => rest & 0xffff,
        (4, 12, _) => rest & 0xff00_0000,
        (6, 2 | 4, _) => rest,
        _ => 0,
    }
}

/// Rule I.3: a path is never narrower than any link, and the quoted packet did not fit.
fn path_mtu(job: &mut Job<'_>, version: u8, mtu: u32, quoted: &Quoted) -> Result<u32, Stop> {
    let believed = if version == 4 { mtu.max(LEAST_MTU) } else { mtu };
    if believed as usize >= quoted.total_len || version == 6 && (believed as usize) < ipv6::MIN_MTU {
        job.refuse(Rule::IcmpMtu)?;
        return Ok(mtu);
    }
    Ok(if believed != mtu && job.acts(Rule::IcmpMtu) { believed } else { mtu })
}

/// The number of octets of the quotation that go on. It ends with the quoted packet, without what RFC 4884 puts behind
/// the quotation, and is no longer than an error may be.
fn kept(headers: &Headers, kind: u8, rest: u32, quote_len: usize, quoted: &Quoted) -> usize {
    let [_, length, ..] = rest.to_be_bytes();
    let [length6, ..] = rest.to_be_bytes();
    let extended = match (headers.version, kind) {
        (4, _) => usize::from(length) * 4,
        (6, 1 | 3) => usize::from(length6) * 8,
        _ => 0,
    };
    let least = quoted.header_len + 8;
    let longest = LONGEST[usize::from(headers.version == 6)].saturating_sub(headers.header_len + HEADER_LEN);
    let whole = if extended > 0 { quote_len.min(extended.max(least)) } else { quote_len };
    whole.min(longest).min(quoted.total_len.max(least))
}

fn rewrite(buf: &mut Buf, headers: &mut Headers, gso: &Gso, rest: u32, keep: usize) -> Option<()> {
    let total = headers.header_len + HEADER_LEN + keep;
    buf.truncate(total);
    icmp::put_rest(buf.as_mut_slice().get_mut(headers.header_len..)?, rest);
    ip::put_total_len(buf.as_mut_slice(), headers, total).ok()?;
    if gso.needs_checksum {
        checksum::put_pseudo(buf.as_mut_slice(), headers).ok()
    } else {
        checksum::complete_transport(buf.as_mut_slice(), headers).ok()
    }
}
