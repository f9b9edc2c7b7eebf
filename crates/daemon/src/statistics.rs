//! Everything that is counted, in the manner of netstat: by protocol and database, each number with what it is a number of.

use std::collections::BTreeMap;

use api::{CountersSection, Line};
use crypto::WorkerCounts;
use engine::Traffic;
use sadb::sa::SaProtocol;
use wire::DropReason;

use crate::datapath::{InboundHalf, OutboundHalf};
use crate::json_log::LogCounts;
use crate::kernel_counters;

/// The protocols that associations have, in the order in which they are shown.
const PROTOCOLS: [SaProtocol; 4] = [SaProtocol::Esp, SaProtocol::Ah, SaProtocol::IpComp, SaProtocol::IpIp];

/// What one data thread counted.
#[derive(Clone, Debug, Default)]
pub struct Half {
    /// Packets taken from the device or the sockets.
    received: u64,
    protected: Traffic,
    clear: Traffic,
    replies: Traffic,
    /// Packets that wait for an association.
    held: u64,
    /// Every reason for which packets ended, and how many did. Engine and device may both have met one.
    pub drops: BTreeMap<DropReason, u64>,
    /// What the associations that there are carried, by protocol, and how many there are.
    carried: [(u64, Traffic); 4],
}

impl Half {
    /// The figures of the outbound thread.
    pub fn outbound(half: &OutboundHalf) -> Half {
        let sas = half.engine.sad().list().map(|(_, sa)| (sa.config().options.protocol, &sa.counters));
        Half { held: half.engine.held() as u64, ..Half::new(half.engine.stats(), &half.losses, sas) }
    }

    /// The figures of the inbound thread.
    pub fn inbound(half: &InboundHalf) -> Half {
        let sas = half.engine.sad().list().map(|sa| (sa.config().options.protocol, &sa.counters));
        Half::new(half.engine.stats(), &half.losses, sas)
    }

    fn new<'a>(
        tally: &engine::Stats,
        losses: &crate::datapath::DeviceStats,
        sas: impl Iterator<Item = (SaProtocol, &'a sadb::Counters)>,
    ) -> Half {
        let mut half = Half {
            received: losses.received,
            protected: tally.protected,
            clear: tally.clear,
            replies: tally.replies,
            ..Half::default()
        };
        for (reason, count) in tally.drops().chain(losses.drops()) {
            *half.drops.entry(reason).or_default() += count;
        }
        for (protocol, counters) in sas {
            let at = PROTOCOLS.iter().position(|other| *other == protocol);
            if let Some((count, traffic)) = at.and_then(|at| half.carried.get_mut(at)) {
                *count += 1;
                traffic.packets += counters.packets;
                traffic.bytes += counters.bytes;
            }
        }
        half
    }

    fn sas(&self) -> u64 {
        self.carried.iter().map(|(count, _)| count).sum()
    }
}

/// What there is to show.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// The figures of the outbound thread.
    pub outbound: &'a Half,
    /// The figures of the inbound thread.
    pub inbound: &'a Half,
    /// Datagrams that found the UDP socket full, or had a wrong checksum.
    pub overrun: u64,
    /// Rules of the SPD.
    pub rules: u64,
    /// Applications of the policy.
    pub applications: u64,
    /// SPIs promised to key managers.
    pub promised: u64,
    /// The counts of the audit log.
    pub audit: LogCounts,
    /// The counts of the flow log.
    pub flows: LogCounts,
    /// What the kernel half counted.
    pub kernel: &'a [(&'static str, u64)],
    /// The counts of workers of ciphers of one's own, by cipher.
    pub workers: &'a [(&'static str, WorkerCounts)],
}

/// All counters in sections, zeros included.
pub fn sections(figures: &Figures<'_>) -> Vec<CountersSection> {
    let Figures { outbound, inbound, overrun, rules, applications, promised, audit, flows, kernel, workers } =
        *figures;
    let mut book = Book::default();
    book.line("ip", "out.received", outbound.received, "packets from programs, by way of the TUN");
    book.line("ip", "out.protected", outbound.protected.packets, "packets left under protection");
    book.line(
        "ip",
        "out.protected_octets",
        outbound.protected.bytes,
        "octets of these before they were sealed",
    );
    book.line("ip", "out.clear", outbound.clear.packets, "packets left in clear, as policy says");
    book.line("ip", "in.received", inbound.received, "packets from the wire");
    book.line(
        "ip",
        "in.delivered",
        inbound.protected.packets,
        "packets came out of associations for this host",
    );
    book.line("ip", "in.delivered_octets", inbound.protected.bytes, "octets of these after they were opened");
    book.line(
        "ip",
        "in.clear",
        inbound.clear.packets,
        "packets came out of bare IP in IP for this host, in clear",
    );
    for (at, protocol) in PROTOCOLS.iter().enumerate() {
        for (way, half, verb) in [("out", outbound, "sealed"), ("in", inbound, "opened")] {
            let (sas, traffic) = half.carried.get(at).copied().unwrap_or_default();
            let name = protocol.name();
            book.line(name, &format!("{way}.sas"), sas, &format!("{way}bound associations"));
            let text = format!("packets that these have {verb}");
            book.line(name, &format!("{way}.packets"), traffic.packets, &text);
            book.line(
                name,
                &format!("{way}.octets"),
                traffic.bytes,
                &format!("octets that these have {verb}"),
            );
        }
    }
    book.section("integrity");
    book.line(
        "udp",
        "in.socket_overrun",
        overrun,
        "datagrams ended in the kernel: the socket's queue was full, or their checksum wrong",
    );
    book.line("spd", "applications", applications, "applications with a policy");
    book.line("spd", "rules", rules, "rules");
    book.line("sad", "out.sas", outbound.sas(), "outbound associations");
    book.line("sad", "in.sas", inbound.sas(), "inbound associations");
    for (section, log, counts) in [("audit", "audit log", audit), ("flows", "flow log", flows)] {
        book.line(section, "written", counts.written, &format!("entries in the {log}"));
        book.line(section, "failed", counts.failed, "entries that the disk did not take");
        book.line(section, "lost", counts.lost, "entries that came faster than the disk takes them");
    }
    book.line("sad", "promised", promised, "SPIs promised to key managers");
    book.line("hold", "out.held", outbound.held, "packets wait for an association");
    book.line("size", "out.told", outbound.replies.packets, "packets were answered with what fits");
    for (way, half) in [("out", outbound), ("in", inbound)] {
        for reason in DropReason::ALL {
            let count = half.drops.get(reason).copied().unwrap_or(0);
            let text = format!("{way}bound packets: {}", sentence(reason.text()));
            book.line(reason.section(), &format!("{way}.{}", reason.name()), count, &text);
        }
    }
    for (cipher, counts) in workers {
        let WorkerCounts { restarts, ahead, called, late, failed } = *counts;
        for (word, count, text) in [
            ("restarts", restarts, "workers were started behind the first one"),
            ("ahead", ahead, "packets whose key stream was there before they came"),
            ("called", called, "packets for which a data thread waited"),
            ("late", late, "times the worker was late, caught up and was not restarted"),
            ("failed", failed, "batches of packets failed and were dropped (unit_failed)"),
        ] {
            book.line("ciphers", &format!("{cipher}.{word}"), count, text);
        }
    }
    for (word, count) in kernel {
        let text = kernel_counters::text(word).map_or_else(|| (*word).to_owned(), sentence);
        book.line("kernel", word, *count, &text);
    }
    book.sections
}

/// Behind a number and a colon, a sentence has no capital and no full stop.
fn sentence(text: &str) -> String {
    let text = text.strip_suffix('.').unwrap_or(text);
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        // An abbreviation stays one.
        (Some(first), Some(second)) if !second.is_uppercase() => first.to_lowercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

#[derive(Default)]
struct Book {
    sections: Vec<CountersSection>,
}

impl Book {
    /// The section of this name, in the order of first use.
    fn section(&mut self, name: &str) -> &mut CountersSection {
        let at = self.sections.iter().position(|section| section.name == name).unwrap_or_else(|| {
            self.sections.push(CountersSection { name: name.to_owned(), lines: Vec::new() });
            self.sections.len() - 1
        });
        &mut self.sections[at]
    }

    fn line(&mut self, section: &str, word: &str, count: u64, text: &str) {
        let line = Line { word: word.to_owned(), count, text: text.to_owned() };
        self.section(section).lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_is_shown_once_each_way_and_somebody_said_where() {
        let mut half = Half::default();
        half.drops.insert(DropReason::NoSa, 7);
        let (rules, applications, promised) = (1, 2, 3);
        let kernel = [("tun_no_proof", 5)];
        let figures = Figures {
            outbound: &half,
            inbound: &Half::default(),
            overrun: 4,
            rules,
            applications,
            promised,
            audit: LogCounts::default(),
            flows: LogCounts::default(),
            kernel: &kernel,
            workers: &[],
        };
        let sections = sections(&figures);
        let words: Vec<_> = sections
            .iter()
            .flat_map(|section| {
                section.lines.iter().map(move |line| (section.name.clone(), line.word.clone()))
            })
            .collect();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
        for reason in DropReason::ALL {
            for way in ["in", "out"] {
                let word = format!("{way}.{}", reason.name());
                assert_eq!(words.iter().filter(|(_, w)| *w == word).count(), 1, "{word}");
            }
            assert!(sections.iter().any(|section| section.name == reason.section()), "{reason}");
        }
        let sad = sections.iter().find(|section| section.name == "sad").unwrap();
        let line = sad.lines.iter().find(|line| line.word == "out.no_sa").unwrap();
        assert_eq!(line.count, 7);
        assert!(line.text.starts_with("outbound packets: the policy demands"), "{}", line.text);
        assert_eq!(
            sections.last().unwrap().lines[0].text,
            "a packet came out of the TUN without proof of protection"
        );
    }

    #[test]
    fn a_sentence_behind_a_number_starts_small() {
        assert_eq!(sentence("The ICV is wrong."), "the ICV is wrong");
        assert_eq!(sentence("IP options."), "IP options");
        assert_eq!(sentence("A packet."), "a packet");
    }
}
