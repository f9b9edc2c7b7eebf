//! What is said of a scrubbed capture: lines, sums, the table of rules, and one packet explained.

use api::{ScrubExplained, ScrubFlow, ScrubLine, ScrubRule, ScrubRuleCount, ScrubRuleList, ScrubVerdict};
use scrub::{Config, Counters, Outcome, Profile, Rule, RuleCounters, Side, Verdict};
use wire::ip::Headers;
use wire::protocol;
use wire::tcp::{Flags, Tcp};

use crate::text::hex;

/// What became of one frame: its line, its packet as it came and as it went.
#[derive(Debug)]
pub struct ScrubRun<'d> {
    /// The line about this frame.
    pub line: &'d ScrubLine,
    /// Octets from the IP header on; empty for what is no IP, and for packets of the scrubber's own.
    pub came: &'d [u8],
    /// Packets that went, from the IP header on.
    pub went: &'d [Vec<u8>],
}

/// A line that only says where, when (seconds) and what.
pub fn bare(index: u64, time: f64, verdict: ScrubVerdict) -> ScrubLine {
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
pub fn line(index: u64, time: f64, packet: &[u8], verdict: &Verdict, from: Side) -> ScrubLine {
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
pub fn flow(packet: &[u8]) -> Option<ScrubFlow> {
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

/// What a rule did, if it did anything.
pub fn count(rule: Rule, of: RuleCounters) -> Option<ScrubRuleCount> {
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
pub fn counts(all: &[Counters]) -> Vec<ScrubRuleCount> {
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
pub fn explain(done: &ScrubRun<'_>) -> ScrubExplained {
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
