//! `ravelin replay`: a capture through the engine, without root or daemon.

use std::fs::File;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use api::{ReplayEnd, ReplayLine, ReplaySummary};
use clap::{Args, ValueEnum};
use offline::replay::{self, EngineOptions, ReplayError, ReplayOptions};

use crate::exit::{Failure, Kind};
use crate::output;

/// Push a capture through the engine: what is for a --local address inbound, what is from one outbound, of the rest ESP and AH
/// inbound and everything else outbound; report every verdict.
///
/// Needs neither root nor a daemon. Never put a capture made with a live association's key on a network: its sequence
/// numbers were used already.
#[derive(Debug, Args)]
pub struct Replay {
    /// The capture (pcap or pcapng; Ethernet with or without VLAN tags, raw IP, Linux cooked).
    #[arg(long = "in", value_name = "FILE")]
    input: PathBuf,
    /// Where the packets go that the engine made (pcap, link type RAW) [default: nowhere].
    #[arg(long = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Associations with their keys, and rules: JSON lines, or the language of setkey(8) (`-`: standard input).
    #[arg(long, visible_alias = "keys", value_name = "FILE")]
    sa: Option<PathBuf>,
    /// Configuration file whose policy decides [default: no policy; rules decide, or else the associations' selectors].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The application that packets of programs belong to [default: none].
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Which half of the engine packets go through; `in`: what is in clear is compared with the rules for inbound packets.
    #[arg(long, value_enum, default_value_t = HalfChoice::Auto)]
    direction: HalfChoice,
    /// An address of this host: says which way packets go, and which way the associations of a setkey file do, which otherwise
    /// speaks for both hosts. May be repeated.
    #[arg(long, value_name = "ADDRESS")]
    local: Vec<IpAddr>,
    /// Print one JSON object per packet, then one with the sums.
    #[arg(long)]
    json: bool,
    /// Allow DES, 3DES and HMAC-MD5, to repeat old measurements (RFC 8221 says not to use them).
    #[arg(long)]
    legacy: bool,
    /// With --json: the packets that the engine made, in hexadecimal.
    #[arg(long, requires = "json")]
    hex: bool,
    /// Send packets through the gathering, burst and fast paths that the daemon uses. Verdicts and packets are the same.
    #[arg(long)]
    gather: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HalfChoice {
    In,
    Out,
    Auto,
}

impl Replay {
    pub fn execute(self) -> anyhow::Result<()> {
        let config = self.config.as_deref().map(super::run::load).transpose()?;
        let options = ReplayOptions {
            input: self.input,
            output: self.output,
            legacy: self.legacy,
            engine: EngineOptions {
                app: self.app,
                way: match self.direction {
                    HalfChoice::In => replay::HalfChoice::In,
                    HalfChoice::Out => replay::HalfChoice::Out,
                    HalfChoice::Auto => replay::HalfChoice::Auto,
                },
                local: self.local,
                hex: self.hex,
                gather: self.gather,
            },
        };
        let mut file = self.sa.as_deref().map(open).transpose()?;
        let file = file.as_mut().map(|(name, source)| (name.as_str(), source.as_mut() as &mut dyn Read));
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let summary = replay::run(config.as_ref(), &options, file, &mut |line| {
            if self.json { output::line_to(&mut out, line) } else { writeln!(out, "{}", text(line)) }
        });
        let summary = summary.map_err(|error| match error {
            ReplayError::BadInput(text) => Failure::bad_input(text),
            // A capture that cannot be read is an input like the others.
            ReplayError::Netio(error) => Failure::bad_input(error.to_string()),
            ReplayError::Line(error) => error.into(),
            other => Failure::of(Kind::Failed, other.to_string()),
        })?;
        if self.json {
            output::take();
            output::line_to(&mut out, &ReplayEnd { summary })?;
        } else {
            let ReplaySummary { packets, written, dropped, .. } = summary;
            writeln!(out, "{packets} packets read, {written} written, {dropped} dropped")?;
        }
        out.flush()?;
        if summary.unread > 0 {
            let remedy = "capture on Ethernet, a tunnel or `any`";
            eprintln!(
                "ravelin: frames of a link type that is not read were skipped: {}; {remedy}",
                summary.unread
            );
        }
        Ok(())
    }
}

fn open(path: &Path) -> anyhow::Result<(String, Box<dyn Read>)> {
    if path == Path::new("-") {
        return Ok(("<stdin>".to_owned(), Box::new(std::io::stdin())));
    }
    let file =
        File::open(path).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))?;
    Ok((path.display().to_string(), Box::new(file)))
}

fn text(line: &ReplayLine) -> String {
    let mut out = format!("{} {:.6} {} {}", line.index, line.time, line.direction, line.verdict);
    if let Some(reason) = &line.reason {
        out.push_str(&format!(" ({reason})"));
    }
    if let (Some(source), Some(destination)) = (line.source, line.destination) {
        out.push_str(&format!(" {source} -> {destination}"));
    }
    if let Some(application) = &line.application {
        out.push_str(&format!(" {application}"));
    }
    if let (Some(spi), Some(sequence)) = (line.spi, line.sequence) {
        out.push_str(&format!(" {spi} #{sequence}"));
    }
    if let Some(rule) = &line.rule {
        out.push_str(&format!(" [{rule}]"));
    }
    if let Some(rule) = &line.spd_rule {
        out.push_str(&format!(" [rule {rule}]"));
    }
    if line.written != 1 {
        out.push_str(&format!(" {} written", line.written));
    }
    out
}
