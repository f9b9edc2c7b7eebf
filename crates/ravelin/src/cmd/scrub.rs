//! `ravelin scrub`: a capture through the transport scrubber, without root or daemon.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use api::{ScrubEnd, ScrubExplained, ScrubRule, ScrubSummary, ScrubVerdict};
use clap::{Args, ValueEnum};
use config::scrub_text;
use offline::scrub::{self, Files, ScrubError, ScrubRun, Settings};

use crate::exit::{Failure, Kind};
use crate::output;

/// Scrub a capture: what its packets leave open to interpretation is settled, link headers and everything that is not IP stay.
///
/// The output has the input's form (pcap or pcapng), interfaces and times. Needs neither root nor a daemon. ravelin-scrub(7) has the rules.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ravelin scrub in.pcap out.pcap                            what was changed, by rule
  ravelin scrub in.pcapng out.pcapng --profile observe      what would have been changed
  ravelin scrub in.pcap out.pcap --json --inside 192.0.2.0/24 --midstream pick-up
  ravelin scrub in.pcap /dev/null --explain 17              why packet 17 went as it did
  ravelin scrub --rules                                     the rules")]
pub struct Scrub {
    /// The capture (pcap or pcapng; `-`: standard input).
    #[arg(value_name = "IN", required_unless_present = "rules")]
    input: Option<PathBuf>,
    /// Where it goes (`-`: standard output; the report is on standard error then).
    #[arg(value_name = "OUT", required_unless_present = "rules")]
    output: Option<PathBuf>,
    /// Modes of all rules.
    #[arg(long, value_enum, default_value_t = Profile::Standard)]
    profile: Profile,
    /// The mode of one rule, as in Q.8=observe or tcp_first_wins=off. May be repeated.
    #[arg(long = "rule", value_name = "RULE=MODE")]
    rule: Vec<String>,
    /// A network that is inside. May be repeated [default: the receiver of the first packet between two hosts is inside].
    #[arg(long, value_name = "PREFIX", value_parser = scrub_text::prefix)]
    inside: Vec<scrub::Prefix>,
    /// The side whose data are recorded, so that no copy can differ [default: both; with --inside: inside].
    #[arg(long, value_enum)]
    protect: Option<Protect>,
    /// Octets that the next link carries [default: 1500].
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(1280..))]
    mtu: Option<u16>,
    /// Largest TCP segment that a SYN may offer.
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(88..))]
    mss: Option<u16>,
    /// Least time to live and hop limit.
    #[arg(long, value_name = "HOPS")]
    ttl: Option<u8>,
    /// What becomes of connections whose start is not in the capture.
    #[arg(long, value_enum, default_value_t = Midstream::Drop)]
    midstream: Midstream,
    /// What becomes of urgent data.
    #[arg(long, value_enum, default_value_t = Urgent::InBand)]
    urgent: Urgent,
    /// Two networks between whose hosts ESP, AH and IKE may pass, as in 192.0.2.0/24=198.51.100.7 (rule V.1). May be repeated.
    #[arg(long, value_name = "PREFIX=PREFIX", value_parser = scrub_text::pair)]
    sanctioned: Vec<(scrub::Prefix, scrub::Prefix)>,
    /// The capture was made on a sending host, whose card computes checksums: those that are not computed yet are not wrong.
    #[arg(long)]
    offload: bool,
    /// Let packets pass, unscrubbed, of which the capture did not keep all [default: they are dropped].
    #[arg(long)]
    keep_truncated: bool,
    /// Drop frames that hold no IP packet [default: they pass].
    #[arg(long)]
    ip_only: bool,
    /// Print one JSON object for each frame that a rule met, then one with the sums.
    #[arg(long)]
    json: bool,
    /// With --json: an object for every frame.
    #[arg(long, requires = "json", conflicts_with = "explain")]
    all: bool,
    /// Explain what became of the frame with this number, instead of the report.
    #[arg(long, value_name = "NUMBER")]
    explain: Option<u64>,
    /// Leave the report out.
    #[arg(long, short, conflicts_with_all = ["json", "explain"])]
    quiet: bool,
    /// List the rules and their modes in each profile.
    #[arg(long, conflicts_with_all = ["input", "output", "all", "explain", "quiet"])]
    rules: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Profile {
    Observe,
    Minimal,
    Standard,
    Strict,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Protect {
    Inside,
    Both,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Midstream {
    Drop,
    PickUp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Urgent {
    InBand,
    Drop,
}

impl Profile {
    /// The profile of the scrubber that this argument names.
    pub fn of_scrubber(self) -> scrub::Profile {
        match self {
            Profile::Observe => scrub::Profile::Observe,
            Profile::Minimal => scrub::Profile::Minimal,
            Profile::Standard => scrub::Profile::Standard,
            Profile::Strict => scrub::Profile::Strict,
        }
    }
}

impl Scrub {
    pub fn execute(self) -> anyhow::Result<()> {
        let (Some(input), Some(output)) = (self.input.clone(), self.output.clone()) else {
            return self.list();
        };
        let settings = self.settings().map_err(Failure::bad_input)?;
        let mut report: BufWriter<Box<dyn Write>> = BufWriter::new(if output == Path::new("-") {
            Box::new(io::stderr().lock())
        } else {
            Box::new(io::stdout().lock())
        });
        if output == Path::new("-") {
            output::take();
        }
        let mut explained = false;
        let summary = scrub::run(&Files { input, output }, settings, &mut |done| {
            if let Some(number) = self.explain {
                explained |= done.line.index == number;
                return if done.line.index == number { self.explain(done, &mut report) } else { Ok(()) };
            }
            if self.json && (self.all || is_of_interest(done)) {
                output::line_to(&mut report, done.line)?;
            }
            Ok(())
        });
        let summary = summary.map_err(|error| match error {
            ScrubError::BadInput(text) => Failure::bad_input(text),
            ScrubError::Netio(error) => Failure::bad_input(error.to_string()),
            ScrubError::Line(error) => error.into(),
            other => Failure::of(Kind::Failed, other.to_string()),
        })?;
        let broken = summary.broken.clone();
        let packets = summary.packets;
        if self.explain.is_none() && self.json {
            output::take();
            output::line_to(&mut report, &ScrubEnd { summary })?;
        } else if self.explain.is_none() && !self.quiet {
            report.write_all(text(&summary).as_bytes())?;
        }
        report.flush()?;
        if let Some(number) = self.explain.filter(|_| !explained) {
            return Err(Failure::bad_input(format!("there is no frame {number}: the capture has {packets}")));
        }
        broken.map_or(Ok(()), |why| Err(Failure::bad_input(why)))
    }

    fn settings(&self) -> Result<Settings, String> {
        let mut settings = Settings::new(self.profile.of_scrubber());
        for rule in &self.rule {
            settings.set_rule(rule)?;
        }
        settings.inside.clone_from(&self.inside);
        let config = &mut settings.config;
        config.protect = match self.protect {
            Some(Protect::Inside) => scrub::Protect::Inside,
            None if !self.inside.is_empty() => scrub::Protect::Inside,
            Some(Protect::Both) | None => scrub::Protect::Both,
        };
        if let Some(mtu) = self.mtu {
            config.mtu = [usize::from(mtu); 2];
        }
        config.sanctioned.clone_from(&self.sanctioned);
        config.max_segment = self.mss;
        config.least_ttl = self.ttl.unwrap_or(0);
        config.midstream = match self.midstream {
            Midstream::Drop => scrub::Midstream::Drop,
            Midstream::PickUp => scrub::Midstream::PickUp,
        };
        config.urgent = match self.urgent {
            Urgent::InBand => scrub::Urgent::InBand,
            Urgent::Drop => scrub::Urgent::Drop,
        };
        settings.offload = self.offload;
        settings.keep_truncated = self.keep_truncated;
        settings.ip_only = self.ip_only;
        Ok(settings)
    }

    fn list(&self) -> anyhow::Result<()> {
        let list = scrub::rules();
        if self.json {
            return output::json(&list);
        }
        let row = |rule: ScrubRule| {
            let ScrubRule { id, name, minimal, standard, strict, text, .. } = rule;
            vec![id, name, minimal, standard, strict, text]
        };
        let rows: Vec<_> = list.rules.into_iter().map(row).collect();
        output::text(&output::table(
            &["rule", "name", "minimal", "standard", "strict", "what it does"],
            &rows,
        ))
    }

    fn explain(&self, done: &ScrubRun<'_>, report: &mut dyn Write) -> io::Result<()> {
        let explained = scrub::explain(done);
        if self.json {
            return output::line_to(report, &explained);
        }
        report.write_all(explanation(&explained).as_bytes())
    }
}

/// Whether the report names this packet: a rule met it, or it was not examined.
fn is_of_interest(done: &ScrubRun<'_>) -> bool {
    let line = done.line;
    line.verdict != ScrubVerdict::Forward || !line.acted.is_empty() || !line.would.is_empty()
}

fn text(summary: &ScrubSummary) -> String {
    let ScrubSummary { packets, written, forwarded, changed, dropped, held, emitted, not_ip, .. } = summary;
    let mut out = format!(
        "{packets} frames read, {written} written: {forwarded} packets went on, {changed} of them changed; {dropped} dropped, {held} \
         fragments put together, {emitted} of the scrubber's own, {not_ip} without IP\n"
    );
    for (count, what) in [
        (summary.unscrubbed_ip, "unscrubbed_ip"),
        (summary.truncated_by_capture, "truncated_by_capture"),
        (summary.ip_version, "ip_version"),
    ] {
        if count > 0 {
            out.push_str(&format!("{count} {what}\n"));
        }
    }
    if !summary.rules.is_empty() {
        out.push('\n');
        out.push_str(&rule_table(&summary.rules));
    }
    for hint in &summary.hints {
        out.push_str(&format!("\nhint: {hint}\n"));
    }
    out
}

/// A table of what each rule did to packets.
pub fn rule_table(rules: &[api::ScrubRuleCount]) -> String {
    let row = |rule: &api::ScrubRuleCount| {
        let mut cells = vec![rule.id.clone(), rule.name.clone()];
        cells.extend([rule.dropped, rule.changed, rule.observed].map(|number| number.to_string()));
        cells.push(rule.text.clone());
        cells
    };
    let rows: Vec<_> = rules.iter().map(row).collect();
    output::table(&["rule", "name", "dropped", "changed", "observed", "what it does"], &rows)
}

/// The text that explains a packet and the rules that it met, for people.
pub fn explanation(explained: &ScrubExplained) -> String {
    let ScrubExplained { line, decoded, came, went, rules, see } = explained;
    let mut out = format!("frame {} at {:.6}: {}", line.index, line.time, line.verdict.name());
    if let Some(rule) = &line.rule {
        out.push_str(&format!(" by rule {rule}"));
    }
    if let Some(reason) = line.reason {
        out.push_str(&format!(" ({})", reason.name()));
    }
    if let Some(from) = &line.from {
        out.push_str(&format!(", from {from}"));
    }
    out.push_str(&format!("\n{decoded}\n"));
    for rule in rules {
        let did = if line.would.contains(&rule.id) { "would have acted" } else { "acted" };
        out.push_str(&format!("rule {} {} {did}: {}\n", rule.id, rule.name, rule.text));
    }
    for change in &line.changes {
        let fields = change.fields.join(", ");
        let more = if change.cut { " ..." } else { "" };
        out.push_str(&format!(
            "at {} ({fields}): {} -> {}{more}\n",
            change.offset, change.before, change.after
        ));
    }
    for (what, octets) in
        [("as it came", came)].into_iter().chain(went.iter().map(|octets| ("as it went", octets)))
    {
        if !octets.is_empty() {
            out.push_str(&format!("{what}:\n{}", dump(octets)));
        }
    }
    out.push_str(&format!("see {see}\n"));
    out
}

/// Hexadecimal digits in lines of sixteen octets.
fn dump(hex: &str) -> String {
    let digits: Vec<char> = hex.chars().collect();
    let mut out = String::new();
    for (number, row) in digits.chunks(32).enumerate() {
        let octets: Vec<String> = row.chunks(2).map(|pair| pair.iter().collect()).collect();
        out.push_str(&format!("  {:04x}  {}\n", number * 16, octets.join(" ")));
    }
    out
}
