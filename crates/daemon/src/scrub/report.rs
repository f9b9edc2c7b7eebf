//! What is said of a scrubbed capture: lines, sums, the table of rules, and one packet explained.

use api::{
    ScrubExplained, ScrubFlow, ScrubLine, ScrubRule, ScrubRuleCount, ScrubRuleList, ScrubSummary,
    ScrubVerdict,
};
use scrub::{Config, Counters, Midstream, Outcome, Profile, Rule, RuleCounters, Side, Verdict};
use wire::ip::Headers;
use wire::protocol;
use wire::tcp::{Flags, Tcp};

use super::{Done, Settings};
use crate::text::hex;

/// A line that only says where, when (seconds) and what.
pub(crate) fn bare(index: u64, time: f64, verdict: ScrubVerdict) -> ScrubLine {
    ScrubLine {
        index,
        time,
        verdict,
        rule: None,
        reason: None,
        acted: Vec::new(),
        would: Vec::new(),
        from: None,
        flow: None,
        written: 0,
        reassembled: false,
        changes: Vec::new(),
        more_changes: 0,
    }
}

/// The line of a packet that the scrubber has judged.
pub(crate) fn line(index: u64, time: f64, packet: &[u8], verdict: &Verdict, from: Side) -> ScrubLine {
    let word = match verdict.outcome {
        Outcome::Forward => ScrubVerdict::Forward,
        Outcome::Drop(_) => ScrubVerdict::Drop,
        Outcome::Hold => ScrubVerdict::Hold,
        Outcome::Fragmented => ScrubVerdict::Fragmented,
    };
    let ids = |rules: scrub::Rules| rules.iter().map(|rule| rule.id().to_owned()).collect();
    let mut line = bare(index, time, word);
    if let Outcome::Drop(rule) = verdict.outcome {
        line.rule = Some(rule.id().to_owned());
    }
    line.acted = ids(verdict.met.acted);
    line.would = ids(verdict.met.would);
    line.from = Some(from.name().to_owned());
    line.flow = flow(packet);
    line
}

/// Between whom a packet travels; `None` if that cannot be read.
pub(crate) fn flow(packet: &[u8]) -> Option<ScrubFlow> {
    let headers = Headers::parse(packet).ok()?;
    let ports = matches!(headers.protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
        && headers.fragment.is_none_or(|fragment| fragment.offset == 0);
    let port = |at: usize| {
        let octets = packet.get(headers.header_len + at..)?.first_chunk()?;
        ports.then(|| u16::from_be_bytes(*octets))
    };
    Some(ScrubFlow {
        protocol: match headers.protocol {
            protocol::TCP => "tcp".to_owned(),
            protocol::UDP => "udp".to_owned(),
            protocol::ICMP => "icmp".to_owned(),
            protocol::ICMPV6 => "icmpv6".to_owned(),
            protocol::SCTP => "sctp".to_owned(),
            protocol::ESP => "esp".to_owned(),
            protocol::AH => "ah".to_owned(),
            number => number.to_string(),
        },
        source: headers.src,
        source_port: port(0),
        destination: headers.dst,
        destination_port: port(2),
    })
}

/// The sums at the end.
pub(super) fn close(summary: &mut ScrubSummary, counters: &Counters, settings: &Settings) {
    summary.rules.extend(Rule::ALL.iter().filter_map(|rule| count(*rule, counters.of(*rule))));
    let met = |rule: Rule| counters.of(rule).dropped + counters.of(rule).observed;
    let mut hint = |text: String| summary.hints.push(text);
    let strays = met(Rule::Midstream) + met(Rule::Handshake);
    if strays > 0 && settings.config.midstream == Midstream::Drop {
        hint(format!(
            "{strays} segments are of connections whose start is not in the capture: --midstream pick-up takes them as they are found"
        ));
    }
    let sums = [Rule::TcpChecksum, Rule::UdpLength, Rule::V4Checksum, Rule::V4Header, Rule::V6Length];
    let sums: u64 = sums.into_iter().map(met).sum();
    if sums > 0 && !settings.offload {
        hint(format!(
            "{sums} packets have wrong checksums or lengths, {} of them as a network card leaves them to fill in: if the capture was \
             made on the host that sent them, say --offload",
            summary.unfinished
        ));
    }
    let over = counters.of(Rule::Acknowledgment).observed;
    if over > 0 && settings.config.may_miss && !settings.config.is_observing() {
        hint(format!(
            "{over} acknowledgments are of data that are not in the capture, or ended here: they are believed, and what they are \
             about is missing in the output"
        ));
    }
    let long = met(Rule::V4DontFragment);
    if long > 0 {
        hint(format!(
            "{long} packets may not be fragmented and are longer than {} octets: --mtu says what the next link carries",
            settings.config.mtu[1]
        ));
    }
    let cut = summary.truncated_by_capture - summary.cut_passed;
    if cut > 0 && !settings.keep_truncated {
        hint(format!(
            "{cut} packets are cut off in the capture and cannot be judged: capture with `tcpdump -s 0`, or let them pass unscrubbed with \
             --keep-truncated"
        ));
    }
    if summary.unscrubbed_ip > 0 {
        let became = if settings.ip_only || settings.drop_unread { "ended" } else { "passed unscrubbed" };
        hint(format!(
            "{} frames may hold IP packets behind headers that are not read here, and {became}: the profile strict and --ip-only drop such",
            summary.unscrubbed_ip
        ));
    }
    if summary.not_ip > 0 && !settings.ip_only {
        hint(format!(
            "{} frames hold no IP packet and passed unscrubbed: --ip-only drops such",
            summary.not_ip
        ));
    }
}

/// What a rule did, if it did anything.
pub(crate) fn count(rule: Rule, of: RuleCounters) -> Option<ScrubRuleCount> {
    (of.dropped + of.changed + of.observed > 0).then(|| ScrubRuleCount {
        id: rule.id().to_owned(),
        name: rule.name().to_owned(),
        dropped: of.dropped,
        changed: of.changed,
        observed: of.observed,
        text: rule.text().to_owned(),
    })
}

/// What several scrubbers' rules did together: those that did anything.
pub(crate) fn counts(all: &[Counters]) -> Vec<ScrubRuleCount> {
    let of = |rule: Rule| {
        all.iter().map(|counters| counters.of(rule)).fold(RuleCounters::default(), |sum, one| RuleCounters {
            dropped: sum.dropped + one.dropped,
            changed: sum.changed + one.changed,
            observed: sum.observed + one.observed,
        })
    };
    Rule::ALL.iter().filter_map(|rule| count(*rule, of(*rule))).collect()
}

/// The list of every rule, with its mode in each profile.
pub fn rules() -> ScrubRuleList {
    ScrubRuleList { rules: Rule::ALL.iter().map(|rule| described(*rule)).collect() }
}

fn described(rule: Rule) -> ScrubRule {
    let mode = |profile| Config::new(profile).mode(rule).name().to_owned();
    ScrubRule {
        id: rule.id().to_owned(),
        name: rule.name().to_owned(),
        minimal: mode(Profile::Minimal),
        standard: mode(Profile::Standard),
        strict: mode(Profile::Strict),
        structural: rule.is_structural(),
        text: rule.text().to_owned(),
    }
}

/// One frame, with everything that can be said of it.
pub fn explain(done: &Done<'_>) -> ScrubExplained {
    let line = done.line.clone();
    let mut words: Vec<&str> = line.rule.iter().map(String::as_str).collect();
    for word in line.acted.iter().chain(&line.would) {
        if !words.contains(&word.as_str()) {
            words.push(word);
        }
    }
    ScrubExplained {
        decoded: decoded(if done.came.is_empty() {
            done.went.first().map_or(&[], Vec::as_slice)
        } else {
            done.came
        }),
        came: hex(done.came),
        went: done.went.iter().map(|packet| hex(packet)).collect(),
        rules: words.into_iter().filter_map(Rule::find).map(described).collect(),
        see: "ravelin-scrub(7)".to_owned(),
        line,
    }
}

/// A packet in one line.
fn decoded(packet: &[u8]) -> String {
    let headers = match Headers::parse(packet) {
        Ok(headers) => headers,
        Err(_) if packet.is_empty() => return "no IP packet".to_owned(),
        Err(why) => return format!("{} octets that are no IP packet: {why}", packet.len()),
    };
    let mut out = format!(
        "IPv{} {} -> {} ttl {} length {}",
        headers.version, headers.src, headers.dst, headers.ttl, headers.total_len
    );
    if let Some(fragment) = headers.fragment {
        let more = if fragment.more { ", more follow" } else { ", the last" };
        out.push_str(&format!(" fragment at {}{more}", fragment.offset));
        if fragment.offset > 0 {
            return out;
        }
    }
    let rest = packet.get(headers.header_len..headers.total_len).unwrap_or_default();
    let Some(flow) = flow(packet) else { return out };
    out.push_str(&format!(", {}", flow.protocol));
    if let (Some(from), Some(to)) = (flow.source_port, flow.destination_port) {
        out.push_str(&format!(" {from} -> {to}"));
    }
    match (headers.protocol, Tcp::new_checked(rest)) {
        (protocol::TCP, Ok(tcp)) => {
            out.push_str(&format!(
                " [{}] seq {} ack {} window {} options {} data {}",
                flags(tcp.flags()),
                tcp.seq(),
                tcp.ack(),
                tcp.window(),
                tcp.header_len() - 20,
                tcp.payload().len()
            ));
            if tcp.urgent() > 0 {
                out.push_str(&format!(" urgent {}", tcp.urgent()));
            }
        }
        (protocol::ICMP | protocol::ICMPV6, _) => {
            if let [kind, code, ..] = rest {
                out.push_str(&format!(" type {kind} code {code}"));
            }
        }
        _ => {}
    }
    out
}

fn flags(flags: Flags) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set = NAMES.iter().enumerate().filter(|(bit, _)| flags.0 >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}
