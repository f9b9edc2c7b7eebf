//! The sums at the end of a run, and hints about what may be wrong with its settings.

use api::ScrubSummary;
use documents::scrub_report::count;
use scrub::{Counters, Midstream, Rule};

use super::settings::Settings;

/// The sums at the end.
pub fn close(summary: &mut ScrubSummary, counters: &Counters, settings: &Settings) {
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
