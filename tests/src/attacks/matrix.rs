//! All cases, all readers, before and after; and the table of it.

use super::cases::Want;
use super::readers::{self, READERS, Reader, Readings};
use super::reading::{Accord, Reading};
use super::stage::{Inside, Setting, Stage};
use super::{Case, Linux, Small, all};
use crate::Scratch;
use netio::pcap::{LinkType, Writer};
use scrub::{Rule, Rules};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use wire::Time;

/// Nobody's Ethernet addresses: the capture is of IP, and its readers want frames.
const STATIONS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// One case of the matrix, with what every reader read.
#[derive(Debug)]
pub struct Line {
    /// The case's number in the catalogue.
    pub name: &'static str,
    /// What the attacker does.
    pub text: &'static str,
    /// What Linux must read behind the scrubber.
    pub want: Want,
    /// What each reader read without the scrubber and with it.
    pub readings: [BTreeMap<Reader, Reading>; 2],
    /// The rules that acted.
    pub acted: Rules,
}

/// The matrix of all cases.
#[derive(Debug)]
pub struct Table(pub Vec<Line>);

/// Play all cases, without the scrubber and with it.
///
/// # Errors
/// If the lab cannot be built.
pub fn play(name: &str) -> anyhow::Result<Table> {
    let cases = all();
    let scratch = Scratch::new(name);
    let mut lines: Vec<_> = cases.iter().map(Line::of).collect();
    for (index, scrubbed) in [false, true].into_iter().enumerate() {
        let mut readings: BTreeMap<Reader, Readings> = BTreeMap::new();
        let mut wire = Vec::new();
        // A host of its own each time: nothing is left of the other run.
        let mut linux = Linux::build(name)?;
        for (number, case) in cases.iter().enumerate() {
            let (reading, packets, acted) = perform(case, number, scrubbed, &mut linux);
            wire.extend(packets);
            readings.entry(Reader::Linux).or_default().insert(number, reading);
            lines[number].acted = acted;
            let (reading, ..) = perform(case, number, scrubbed, &mut Small::build());
            readings.entry(Reader::Smoltcp).or_default().insert(number, reading);
        }
        drop(linux);
        let capture = scratch.join(if scrubbed { "after.pcap" } else { "before.pcap" });
        save(&capture, &wire)?;
        readings.extend(readers::read(&capture, &scratch));
        for (number, line) in lines.iter_mut().enumerate() {
            for reader in READERS {
                let reading = readings[&reader].get(&number).cloned().unwrap_or_default();
                if reader.cannot(line.name, cases[number].datagrams()).is_none() {
                    line.readings[index].insert(reader, reading);
                }
            }
        }
    }
    Ok(Table(lines))
}

fn perform(
    case: &Case,
    number: usize,
    scrubbed: bool,
    inside: &mut dyn Inside,
) -> (Reading, Vec<(Time, Vec<u8>)>, Rules) {
    let mut setting = Setting::standard(scrubbed);
    (case.setting)(&mut setting);
    let mut stage = Stage::new(setting, inside, number);
    (case.script)(&mut stage);
    let (wire, acted) = (std::mem::take(&mut stage.wire), stage.acted);
    (stage.finish(), wire, acted)
}

fn save(path: &Path, wire: &[(Time, Vec<u8>)]) -> anyhow::Result<()> {
    let mut writer = Writer::create_with(path, LinkType::Ethernet)?;
    for (time, packet) in wire {
        let six = packet.first().is_some_and(|first| first >> 4 == 6);
        let kind: [u8; 2] = if six { [0x86, 0xdd] } else { [8, 0] };
        let frame = [&STATIONS[..], &kind, packet].concat();
        let at = Duration::from_secs(1_600_000_000) + time.since(Time::from_secs(0));
        writer.write(at, &frame, u32::try_from(frame.len())?)?;
    }
    writer.finish()?;
    Ok(())
}

impl Line {
    fn of(case: &Case) -> Line {
        let want = case.want.clone();
        Line { name: case.name, text: case.text, want, readings: Default::default(), acted: Rules::NONE }
    }

    /// The worst accord between any two readers of the case, before (0) or after (1).
    pub fn accord(&self, phase: usize) -> Accord {
        let all = self.readings[phase].iter().filter(|(reader, _)| self.comparable(**reader));
        let all: Vec<_> = all.map(|(_, reading)| reading).collect();
        let pairs = all.iter().flat_map(|one| all.iter().map(move |other| one.accord(other)));
        pairs.max().unwrap_or(Accord::Same)
    }

    /// A performance of its own: where the octets that pass depend on the stack's window, it has a string of its own.
    pub fn comparable(&self, reader: Reader) -> bool {
        reader != Reader::Smoltcp || !matches!(self.want, Want::Octets(_))
    }

    /// One letter for each reading, in the order of readers; `.` nothing, `-` cannot,
    /// `*` something else to read.
    fn letters(&self, phase: usize) -> Vec<char> {
        let mut kinds: Vec<&Reading> = Vec::new();
        let letter = |reader: &Reader| {
            let Some(reading) = self.readings[phase].get(reader) else { return '-' };
            if reading.is_empty() {
                return '.';
            }
            if !self.comparable(*reader) {
                return '*';
            }
            let at = kinds.iter().position(|known| *known == reading).unwrap_or_else(|| {
                kinds.push(reading);
                kinds.len() - 1
            });
            char::from(b'a' + at as u8)
        };
        READERS.iter().map(letter).collect()
    }
}

impl Table {
    /// Cases in which, before (0) or after (1), the readers went together in this way.
    pub fn count(&self, phase: usize, accord: Accord) -> usize {
        self.0.iter().filter(|line| line.accord(phase) == accord).count()
    }

    /// The matrix as a Markdown table for docs/papers/003.md.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let names: Vec<_> = READERS.iter().map(|reader| reader.name()).collect();
        let _ = writeln!(out, "| case | what | before: {} | | after | rules |", names.join(", "));
        out.push_str("|---|---|---|---|---|---|\n");
        for line in &self.0 {
            let cells = |phase| line.letters(phase).iter().map(char::to_string).collect::<Vec<_>>().join(" ");
            let verdict = match line.accord(0) {
                Accord::Same => "same",
                Accord::Prefix => "some end earlier",
                Accord::Contradiction => "**contradict**",
            };
            let rules: Vec<_> = line.acted.iter().map(Rule::id).collect();
            let (name, text, rules) = (line.name, line.text, rules.join(" "));
            let _ =
                writeln!(out, "| {name} | {text} | `{}` | {verdict} | `{}` | {rules} |", cells(0), cells(1));
        }
        out
    }
}
