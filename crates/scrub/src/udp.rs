//! The rules for UDP (rules U.1, U.2).

use crate::rule::Rule;
use crate::sessions::{SessionEnds, Sessions};
use crate::verdict::{Context, Job, Side, Stop};
use wire::ip::{self, Headers};
use wire::udp::Udp;
use wire::{Buf, Gso, GsoKind, checksum};

/// The ports of services outside the ports below 1024 whose answers are far longer than their questions (US-CERT
/// TA14-017A): SSDP, WS-Discovery, multicast DNS, CoAP, memcached.
const REFLECTORS: [u16; 5] = [1900, 3702, 5353, 5683, 11211];
/// The source and destination ports of DHCP from a client to a server, and back (RFC 2131 section 4.1).
const DHCP: [(u16, u16); 2] = [(68, 67), (67, 68)];
/// The first port that hosts take for their questions; the ports below are those of services.
const FIRST_USER_PORT: u16 = 1024;

/// Clean one UDP datagram. Returns the highest time to live of the flow.
pub(crate) fn clean(
    job: &mut Job<'_>,
    context: &Context<'_>,
    sessions: &mut Sessions,
    buf: &mut Buf,
    headers: &mut Headers,
    gso: &Gso,
) -> Result<u8, Stop> {
    let (len, ports, unsummed) = match Udp::new_checked(headers.upper(buf.as_slice())) {
        Ok(view) => (view.len(), (view.src_port(), view.dst_port()), view.checksum() == 0),
        Err(_) => {
            job.refuse(Rule::UdpLength)?;
            return Ok(headers.ttl);
        }
    };
    let end = headers.header_len + len;
    if headers.total_len > end && gso.kind == GsoKind::None && job.acts(Rule::UdpLength) {
        buf.truncate(end);
        ip::put_total_len(buf.as_mut_slice(), headers, end).map_err(|_| Stop::Drop(Rule::UdpLength))?;
    }
    // What the kernel left half done is not there to be verified.
    if !gso.needs_checksum {
        check_sum(job, buf, headers, unsummed)?;
    }
    if ports.0 == 0 || ports.1 == 0 {
        job.refuse(Rule::UdpFlow)?;
    }
    if job.config.one_link && crate::ip::asks_its_link(headers) {
        // A host that has no address yet says nothing else, and is told nothing else.
        if !DHCP.contains(&ports) {
            job.refuse_unless(job.config.any_host, Rule::V4Address)?;
        }
        return Ok(headers.ttl);
    }
    check_flow(job, context, sessions, headers, ports)
}

/// Rule U.1: check the checksum. Over IPv6 only tunnels may leave it out (RFC 6935), which nobody here can tell from
/// others. Over IPv4 everybody may, and it is put there, so that all behind know the datagram when they see it.
fn check_sum(job: &mut Job<'_>, buf: &mut Buf, headers: &Headers, unsummed: bool) -> Result<(), Stop> {
    if !unsummed {
        let right = checksum::verify_transport(buf.as_slice(), headers) != Some(false);
        return if right { Ok(()) } else { job.refuse(Rule::UdpLength) };
    }
    if headers.version == 6 {
        return job.refuse(Rule::UdpLength);
    }
    if job.acts(Rule::UdpLength) {
        checksum::complete_transport(buf.as_mut_slice(), headers).map_err(|_| Stop::Drop(Rule::UdpLength))?;
    }
    Ok(())
}

/// Rule U.2: check the flow of a datagram. The scrubber is no firewall: a question from outside to any port passes, and
/// opens a session like one from inside. Only a datagram that has the form of an answer and answers nothing is dropped:
/// one from outside, from the port of a service (below 1024, or a known reflector) to one that hosts take for questions
/// (1024 and above). So floods of reflected answers end here, while servers that talk to each other from port to port
/// (DNS, NTP, IKE at 500) and peers on high ports go on. Datagrams that come back from the side they went to are a
/// loop, or have a forged sender.
fn check_flow(
    job: &mut Job<'_>,
    context: &Context<'_>,
    sessions: &mut Sessions,
    headers: &Headers,
    (src_port, dst_port): (u16, u16),
) -> Result<u8, Stop> {
    let (from, now) = (context.arrival.from, context.now);
    let talk = SessionEnds::of(from, headers.protocol, (headers.src, src_port), (headers.dst, dst_port))
        .in_realm(context.arrival.realm);
    if !sessions.knows(now, &talk) {
        let service = src_port < FIRST_USER_PORT || REFLECTORS.contains(&src_port);
        let answer = service && dst_port >= FIRST_USER_PORT && !headers.dst.is_multicast();
        if sessions.knows(now, &talk.turned()) {
            job.refuse(Rule::UdpFlow)?;
        } else if from == Side::Outside && answer {
            // The question may have passed unseen.
            job.refuse_unless(job.config.may_miss, Rule::UdpFlow)?;
        }
    }
    Ok(sessions.note(now, &talk, from, headers.ttl))
}
