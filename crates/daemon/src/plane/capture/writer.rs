//! The thread of one capture: records come in, a capture file or lines go out.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use api::CaptureForm;
use axum::body::Bytes;
use netio::pcap::{Interface, LinkType, NgWriter, Note, Statistics};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use wire::ip::Headers;
use wire::{AppId, Buf, Flow, GsoKind, segment};

use super::names::Names;
use super::text;
use crate::capture::{Direction, Record};
use crate::plane::observers::captures::CaptureState;

/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// Octets that are sent together.
const CHUNK: usize = 64 << 10;
/// Flows of an application that are remembered, twice.
const FLOWS: usize = 8192;

/// One capture, as its thread runs it.
pub(super) struct Job {
    pub form: CaptureForm,
    /// Only this application's packets.
    pub app: Option<AppId>,
    pub count: Option<u64>,
    pub until: Option<Instant>,
    pub snaplen: usize,
    pub records: Receiver<Record>,
    pub state: Arc<CaptureState>,
    pub names: Names,
    /// The runtime of the control plane's thread, where the reader is.
    pub runtime: Handle,
    pub out: Sender<Bytes>,
}

/// Why it ends: somebody who reads has gone, or it is done.
struct Ended;

impl Job {
    /// Until it is told to stop, has what it was asked for, nobody reads any more, or the data threads have ended.
    pub(super) fn run(mut self) {
        let start = netio::clock::wall();
        let Ok(mut sheet) = Sheet::new(self.form, self.snaplen) else { return };
        let mut flows = Flows::default();
        let mut written = [0; 2];
        // The head of the file goes out at once: who reads it knows that the capture runs.
        let mut going = self.send(&mut sheet, true);
        while going.is_ok() && !self.is_over() {
            match self.records.recv_timeout(LOOK) {
                Ok(record) => {
                    going = self.take(&record, &mut sheet, &mut flows, &mut written);
                    // What follows at once goes along.
                    while going.is_ok()
                        && !self.is_over()
                        && let Ok(record) = self.records.try_recv()
                    {
                        going = self.take(&record, &mut sheet, &mut flows, &mut written);
                    }
                    going = going.and_then(|()| self.send(&mut sheet, true));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let end = netio::clock::wall();
        for (interface, lost) in self.state.gauge.lost.iter().enumerate() {
            let lost = lost.load(Ordering::Relaxed);
            let received = written.get(interface).copied().unwrap_or(0) + lost;
            sheet.statistics(interface as u32, &Statistics { start, end, received, lost });
        }
        let _ = self.send(&mut sheet, true);
    }

    /// Whether somebody ended the capture, or its time is over.
    fn is_told_to_end(&self) -> bool {
        *self.state.stop.borrow() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn is_over(&self) -> bool {
        self.is_told_to_end()
            || self.out.is_closed()
            || self.count.is_some_and(|count| self.state.packets.load(Ordering::Relaxed) >= count)
    }

    fn take(
        &mut self,
        record: &Record,
        sheet: &mut Sheet,
        flows: &mut Flows,
        written: &mut [u64; 2],
    ) -> Result<(), Ended> {
        self.state.gauge.waiting.fetch_sub(record.octets.len(), Ordering::Relaxed);
        if self.app.is_some_and(|app| !flows.admit(app, record)) {
            return Ok(());
        }
        let comment = text::comment(&record.facts, &mut self.names);
        let mut left =
            self.count.map_or(u64::MAX, |count| count - self.state.packets.load(Ordering::Relaxed));
        each_packet(record, &mut |octets, len| {
            if left > 0 {
                left -= 1;
                let octets = octets.get(..self.snaplen).unwrap_or(octets);
                sheet.packet(record, octets, len, &comment);
                self.state.packets.fetch_add(1, Ordering::Relaxed);
                if let Some(written) = written.get_mut(usize::from(record.facts.outer)) {
                    *written += 1;
                }
            }
        });
        self.send(sheet, false)
    }

    /// Hand on what was written, if there is enough of it or it is time.
    fn send(&self, sheet: &mut Sheet, now: bool) -> Result<(), Ended> {
        let octets = sheet.octets();
        if octets.is_empty() || !now && octets.len() < CHUNK {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(octets));
        let mut stop = self.state.stop.subscribe();
        let end = async {
            match self.until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        // Who does not read for a while loses packets at the taps; who is to end does not wait for that, but takes what room
        // there is.
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                sent = self.out.send(chunk) => sent.map_err(|_| Ended),
                _ = stop.wait_for(|stop| *stop) => Err(Ended),
                () = end => Err(Ended),
            }
        })
    }
}

/// Each packet of a record as it is on a wire: super-packets cut, checksums right.
fn each_packet(record: &Record, then: &mut dyn FnMut(&[u8], usize)) {
    let gso = &record.facts.gso;
    let whole = record.octets.len() == record.len;
    if whole && (gso.kind != GsoKind::None || gso.needs_checksum) {
        let headers = Headers::parse(&record.octets);
        let pieces = headers
            .and_then(|headers| segment::segments(&record.octets, &headers, gso, usize::from(u16::MAX)));
        if let Ok(mut pieces) = pieces {
            loop {
                let Some(len) = pieces.next_len() else { return };
                let mut piece = Buf::with_capacity(len, 0);
                match pieces.next_into(&mut piece) {
                    Some(Ok(())) => then(piece.as_slice(), piece.as_slice().len()),
                    // What cannot be cut was shown as far as it could.
                    Some(Err(_)) | None => return,
                }
            }
        }
    }
    then(&record.octets, record.len);
}

/// The flows of an application: what comes out of an association that is not bound to one is told by them.
#[derive(Default)]
struct Flows {
    now: HashSet<Flow>,
    before: HashSet<Flow>,
}

impl Flows {
    fn admit(&mut self, app: AppId, record: &Record) -> bool {
        let facts = &record.facts;
        if facts.app == app {
            if let (Direction::Out, Some(flow)) = (facts.way, facts.flow) {
                if self.now.len() >= FLOWS {
                    self.before = std::mem::take(&mut self.now);
                }
                self.now.insert(flow);
            }
            return true;
        }
        facts.app == AppId::NONE
            && facts.flow.is_some_and(|flow| self.now.contains(&flow) || self.before.contains(&flow))
    }
}

/// What is written on.
enum Sheet {
    Pcapng(NgWriter<Vec<u8>>),
    Text(Vec<u8>),
}

impl Sheet {
    fn new(form: CaptureForm, snaplen: usize) -> netio::Result<Sheet> {
        let snaplen = u32::try_from(snaplen).unwrap_or(0);
        let link = LinkType::Raw;
        let inner = Interface {
            name: "inner",
            description: "packets of programs, in clear, before they are sealed and after they were opened",
            link,
            snaplen,
        };
        let outer = Interface {
            name: "outer",
            description: "packets from the wire that ended before they could be opened",
            link,
            snaplen,
        };
        Ok(match form {
            CaptureForm::Pcapng => {
                let application = concat!("ravelin ", env!("CARGO_PKG_VERSION"));
                Sheet::Pcapng(NgWriter::new("a capture", Vec::new(), application, &[inner, outer])?)
            }
            CaptureForm::Text => Sheet::Text(Vec::new()),
        })
    }

    fn packet(&mut self, record: &Record, octets: &[u8], len: usize, comment: &str) {
        match self {
            Sheet::Pcapng(file) => {
                let note = Note {
                    interface: u32::from(record.facts.outer),
                    time: record.time,
                    inbound: record.facts.way == Direction::In,
                    comment,
                    original_len: u32::try_from(len).unwrap_or(u32::MAX),
                };
                // Memory takes every octet.
                let _ = file.packet(&note, octets);
            }
            Sheet::Text(out) => out.extend_from_slice(text::line(record, len, comment).as_bytes()),
        }
    }

    fn statistics(&mut self, interface: u32, statistics: &Statistics) {
        if let Sheet::Pcapng(file) = self {
            let _ = file.statistics(interface, statistics);
        }
    }

    fn octets(&mut self) -> &mut Vec<u8> {
        match self {
            Sheet::Pcapng(file) => file.sink_mut(),
            Sheet::Text(out) => out,
        }
    }
}
