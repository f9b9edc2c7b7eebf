//! `ravelin stats`: everything that is counted, in the manner of netstat.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use api::{Amount, AppTraffic, AppTrafficList, Counters, CountersSection, Line, SaInfo, SaList, Spi, path};
use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::client::Ask;
use crate::complete;
use crate::exit::{Failure, Kind};
use crate::output;

/// Show what happened to packets, by protocol: what was sealed and opened, and why packets ended, in the data path and in the
/// kernel half.
#[derive(Debug, Args)]
pub struct Stats {
    #[command(flatten)]
    ask: Ask,
    /// Lines with a zero too.
    #[arg(short, long)]
    all: bool,
    /// Only the associations with this SPI.
    #[arg(long, value_name = "SPI", add = ArgValueCandidates::new(complete::spis))]
    sa: Option<Spi>,
    /// What left and arrived of each application: clear, authenticated, encrypted, refused; beside it what the engine was asked to
    /// protect.
    #[arg(long, conflicts_with_all = ["all", "sa", "watch"])]
    per_app: bool,
    /// Show what changed, again and again after so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,
}

impl Stats {
    pub fn execute(self) -> anyhow::Result<()> {
        if self.per_app {
            let traffic: AppTrafficList = self.ask.connect.get(path::TRAFFIC)?;
            return self.ask.show(&traffic, per_app);
        }
        let before = self.look()?;
        match self.watch {
            Some(seconds) => self.watch(before, Duration::from_secs(seconds)),
            None if self.ask.json => output::json(&before),
            None => output::text(&text(&before.sections)),
        }
    }

    fn look(&self) -> anyhow::Result<Counters> {
        let Some(spi) = self.sa else {
            let all = if self.all || self.watch.is_some() { "?all=true" } else { "" };
            return self.ask.connect.get(&format!("{}{all}", path::COUNTERS));
        };
        let list: SaList = self.ask.connect.get(path::SA)?;
        let sections: Vec<_> = list.sas.iter().filter(|sa| sa.spi == spi).map(|sa| self.of(sa)).collect();
        if sections.is_empty() {
            return Err(Failure::with_remedy(
                Kind::Failed,
                format!("there is no association with SPI {spi}"),
                "`ravelin sa list` shows those there are",
            ));
        }
        Ok(Counters { sections, ..Counters::default() })
    }

    /// What one association counted.
    fn of(&self, sa: &SaInfo) -> CountersSection {
        let line =
            |word: &str, count, text: &str| Line { word: word.to_owned(), count, text: text.to_owned() };
        let mut lines = vec![
            line("packets", sa.counters.packets, "packets carried"),
            line("octets", sa.counters.bytes, "octets of inner packets carried"),
            line("sequence", sa.sequence, "is the last sequence number"),
        ];
        let drops = sa.counters.drops.iter();
        lines.extend(
            drops.map(|(reason, count)| line(reason, *count, &format!("packets ended here: {reason}"))),
        );
        lines.retain(|line| self.all || self.watch.is_some() || line.count > 0);
        CountersSection { name: format!("{} {} {}", sa.direction, sa.spi, sa.remote), lines }
    }

    fn watch(&self, mut before: Counters, every: Duration) -> anyhow::Result<()> {
        loop {
            std::thread::sleep(every);
            let now = self.look()?;
            if self.ask.json {
                output::json(&now)?;
            } else {
                output::text(&changes(&before, &now))?;
            }
            before = now;
        }
    }
}

/// Sockets of programs without a policy are counted where they asked for protection, or tried what nobody may.
fn name_of(app: &AppTraffic) -> &str {
    if app.application.is_empty() { "(no policy)" } else { &app.application }
}

/// A line for each application and direction.
fn per_app(traffic: &AppTrafficList) -> String {
    let cell = |amount: Amount| match amount.packets {
        0 => "-".to_owned(),
        packets => format!("{} ({packets})", output::octets(amount.bytes)),
    };
    let mut rows = Vec::new();
    for app in &traffic.applications {
        let name = name_of(app);
        let (sent, left, arrived) = (&app.outbound, &app.left, &app.inbound);
        let asked = Amount {
            packets: sent.authenticated.packets + sent.encrypted.packets,
            bytes: sent.authenticated.bytes + sent.encrypted.bytes,
        };
        let out = [sent.clear, left.authenticated, left.encrypted, sent.refused, asked, sent.returned];
        let arrived = [arrived.clear, arrived.authenticated, arrived.encrypted, arrived.refused];
        for (direction, cells) in [("out", &out[..]), ("in", &arrived[..])] {
            let mut row = vec![name.to_owned(), direction.to_owned()];
            row.extend(cells.iter().map(|amount| cell(*amount)));
            rows.push(row);
        }
    }
    let head = [
        "APPLICATION",
        "",
        "CLEAR",
        "AUTHENTICATED",
        "ENCRYPTED",
        "REFUSED",
        "PROTECTION ASKED FOR",
        "OF CLEAR: BY THE ENGINE",
    ];
    let mut out = if rows.is_empty() {
        "no application had traffic yet\n".to_owned()
    } else {
        output::table(&head, &rows)
    };
    for app in &traffic.applications {
        for (word, count) in &app.refused_because {
            let _ = writeln!(out, "refused {count} times: {} {word}", name_of(app));
        }
        for (word, count) in &app.would_be_refused_because {
            let _ = writeln!(out, "would be refused {count} times (observed): {} {word}", name_of(app));
        }
        let sent = &app.outbound;
        for (what, amount) in [
            ("sent, would be refused", sent.would_refuse),
            ("sent, would be authenticated", sent.would_authenticate),
            ("sent, would be encrypted", sent.would_encrypt),
            ("arrived, would be refused", app.inbound.would_refuse),
        ] {
            if amount.packets > 0 {
                let _ = writeln!(out, "in clear (observed): {} {what}: {}", name_of(app), cell(amount));
            }
        }
    }
    if traffic.events_lost > 0 {
        let _ = writeln!(out, "of {} refusals the particulars are lost", traffic.events_lost);
    }
    let handed = &traffic.handed_over;
    let _ = writeln!(
        out,
        "handed to the engine: {} packets by the kernel's count, {} by the engine's, {} found no room{}",
        handed.kernel,
        handed.engine,
        handed.dropped,
        if handed.agree { "" } else { ": THEY DO NOT AGREE" }
    );
    if traffic.lost > 0 {
        let _ = writeln!(out, "{} packets are missing here: too many applications", traffic.lost);
    }
    out
}

fn text(sections: &[CountersSection]) -> String {
    let mut out = String::new();
    for section in sections.iter().filter(|section| !section.lines.is_empty()) {
        let _ = writeln!(out, "{}:", section.name);
        for Line { count, text, .. } in &section.lines {
            let _ = writeln!(out, "    {count} {text}");
        }
    }
    if out.is_empty() { "nothing happened yet\n".to_owned() } else { out }
}

/// The lines whose number is another, with how much it is.
fn changes(before: &Counters, now: &Counters) -> String {
    let all = before
        .sections
        .iter()
        .flat_map(|s| s.lines.iter().map(move |line| ((&s.name, &line.word), line.count)));
    let before: HashMap<_, _> = all.collect();
    let mut out = String::new();
    for section in &now.sections {
        for line in &section.lines {
            let was = before.get(&(&section.name, &line.word)).copied().unwrap_or(0);
            if line.count != was {
                let change = i128::from(line.count) - i128::from(was);
                let _ = writeln!(out, "{:<10}{change:>+12} {}", section.name, line.text);
            }
        }
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(count: u64) -> Counters {
        let line = Line { word: "w".into(), count, text: "packets".into() };
        let empty = CountersSection { name: "ah".into(), lines: Vec::new() };
        Counters {
            sections: vec![CountersSection { name: "esp".into(), lines: vec![line] }, empty],
            ..Counters::default()
        }
    }

    #[test]
    fn sections_without_a_line_are_not_shown() {
        assert_eq!(text(&counters(7).sections), "esp:\n    7 packets\n");
        assert_eq!(text(&[]), "nothing happened yet\n");
    }

    #[test]
    fn only_what_changed_is_watched() {
        assert_eq!(changes(&counters(7), &counters(9)), "esp                 +2 packets\n\n");
        assert_eq!(changes(&counters(9), &counters(7)), "esp                 -2 packets\n\n");
        assert_eq!(changes(&counters(7), &counters(7)), "\n");
    }
}
