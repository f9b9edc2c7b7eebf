//! `ravelin capture`: packets in clear, as they go into protection and come out of it.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use api::{CaptureForm, CaptureInfo, CaptureList, CaptureRequest, CaptureStopped, Spi, path};
use clap::Args;
use clap_complete::ArgValueCandidates;

use super::debug::seconds;
use super::sa::export;
use crate::client::Ask;
use crate::complete;
use crate::output;

/// Capture packets in clear, both ways, each with its association, its application and what became of it.
///
/// On a terminal a line for each packet; into a pipe or a file a pcapng capture with the same in the comments of its packets:
/// ravelin capture -w - | tshark -r -
#[derive(Debug, Args)]
pub struct Capture {
    #[command(flatten)]
    ask: Ask,
    /// Only this application's packets.
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::applications))]
    app: Option<String>,
    /// Only packets of associations with this SPI.
    #[arg(long, value_name = "SPI", conflicts_with = "app", add = ArgValueCandidates::new(complete::spis))]
    sa: Option<Spi>,
    /// Only packets that end, with the reason.
    #[arg(long)]
    dropped: bool,
    /// Write a new capture file, mode 0600; one that is there already is left alone. `-`: to standard output.
    #[arg(short = 'w', long, value_name = "FILE", conflicts_with = "text")]
    write: Option<PathBuf>,
    /// Lines, even into a pipe.
    #[arg(long)]
    text: bool,
    /// End after so many packets.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time: 30s, 10m, 2h.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    duration: Option<u64>,
    /// Keep so many octets of each packet [default: all].
    #[arg(short = 's', long, value_name = "OCTETS", value_parser = clap::value_parser!(u32).range(1..))]
    snaplen: Option<u32>,
    /// Show the captures that run, and the last that ended.
    #[arg(long, conflicts_with_all = ["app", "sa", "dropped", "write", "text", "count", "duration", "stop"])]
    list: bool,
    /// End a capture that somebody runs.
    #[arg(long, value_name = "ID")]
    stop: Option<u64>,
}

impl Capture {
    pub fn execute(self) -> anyhow::Result<()> {
        if self.list {
            let list: CaptureList = self.ask.connect.get(path::CAPTURE)?;
            return self.ask.show(&list, |list| table(&list.captures));
        }
        if let Some(id) = self.stop {
            let at = path::CAPTURE_ONE.replace("{id}", &id.to_string());
            let stopped: CaptureStopped = self.ask.connect.delete(&at)?;
            return self.ask.show(&stopped, |_| format!("capture {id} ends\n"));
        }
        self.capture()
    }

    fn capture(self) -> anyhow::Result<()> {
        let lines = self.text || self.write.is_none() && std::io::stdout().is_terminal();
        let request = CaptureRequest {
            app: self.app,
            sa: self.sa,
            dropped: self.dropped,
            count: self.count,
            seconds: self.duration,
            snaplen: self.snaplen,
            form: if lines { CaptureForm::Text } else { CaptureForm::Pcapng },
        };
        let mut sink: Box<dyn Write> = match self.write.filter(|path| path.as_os_str() != "-") {
            // Through the lock, for every line is to be seen at once.
            None => Box::new(std::io::stdout()),
            // What programs say in clear is nobody else's business.
            Some(path) => Box::new(BufWriter::new(export::make(&path, "packets in clear")?)),
        };
        let id = self.ask.connect.capture(&request, &mut |octets| {
            output::take();
            sink.write_all(octets)?;
            Ok(sink.flush()?)
        })?;
        let list: CaptureList = self.ask.connect.get(path::CAPTURE)?;
        if let Some(done) = list.captures.iter().find(|capture| capture.id == id) {
            eprintln!("{} packets captured, {} lost since the reader was too slow", done.packets, done.lost);
        }
        Ok(())
    }
}

fn table(captures: &[CaptureInfo]) -> String {
    if captures.is_empty() {
        return "no captures\n".to_owned();
    }
    let rows: Vec<Vec<String>> = captures.iter().map(row).collect();
    output::table(&["ID", "STATE", "UID", "PID", "PACKETS", "LOST", "OF"], &rows)
}

fn row(capture: &CaptureInfo) -> Vec<String> {
    let request = &capture.request;
    let mut of = Vec::new();
    of.extend(request.app.clone());
    of.extend(request.sa.map(|spi| format!("SPI {spi}")));
    of.extend(request.dropped.then(|| "what ends".to_owned()));
    vec![
        capture.id.to_string(),
        if capture.running { "runs" } else { "ended" }.to_owned(),
        capture.uid.to_string(),
        capture.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        capture.packets.to_string(),
        capture.lost.to_string(),
        if of.is_empty() { "everything".to_owned() } else { of.join(", ") },
    ]
}
