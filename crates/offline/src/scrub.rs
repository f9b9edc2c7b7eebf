//! The scrubber offline: a capture in, a capture out, in the capture's own time, without root, daemon or clock.
//!
//! What enters: a capture of any kind that [`netio::pcap`] reads, and [`Settings`]. What leaves: the same capture with its IP packets
//! scrubbed, link headers as they were, and a [`ScrubLine`] for each frame that a rule met. What is no IP passes, or is dropped; a
//! packet of which the capture did not keep all passes if what is there contradicts nothing. The same input gives the same output, octet for octet.

mod frame;
mod networks;
mod settings;
mod sides;
mod sums;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use api::{ScrubReason, ScrubSummary, ScrubVerdict};
use netio::pcap::{Frame, Reader, Rewriter};
use scrub::{Arrival, Config, Emitted, Outcome, Scrubber, Side, Verdict};
pub use scrub::{Midstream, Profile, Protect, Urgent};
pub use wire::Prefix;
use wire::ip::Headers;
use wire::link::Place;
use wire::{Buf, Time, protocol};

use crate::text::different;
use documents::scrub_changes;
use documents::scrub_report;
pub use documents::scrub_report::{ScrubRun, explain, rules};
use frame::Inside;
use networks::Networks;
pub use settings::Settings;
use sides::Sides;

/// Room around a packet for what a scrubber puts there.
const ROOM: usize = 128;
/// The tables' key: it need not be secret where everything that comes is known before, and the output must not depend on chance.
const SEED: [u8; 16] = *b"offline scrubber";

/// Why a capture was not scrubbed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScrubError {
    /// A file or an argument is not as it must be.
    #[error("{0}")]
    BadInput(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// Whoever takes the lines does not.
    #[error("{0}")]
    Line(#[from] io::Error),
}

/// From where to where; `-`: standard input and output.
#[derive(Clone, Debug)]
pub struct Files {
    /// The path of the capture.
    pub input: PathBuf,
    /// The path of the scrubbed capture.
    pub output: PathBuf,
}

/// Hears of every frame.
pub type OnFrame<'f> = &'f mut dyn FnMut(&ScrubRun<'_>) -> io::Result<()>;

/// Scrub a capture file into another.
///
/// A file that breaks off gives what comes before that, and [`ScrubSummary::broken`].
///
/// # Errors
/// [`ScrubError`].
pub fn run(files: &Files, settings: Settings, on: OnFrame<'_>) -> Result<ScrubSummary, ScrubError> {
    let dash = Path::new("-");
    let reader =
        if files.input == dash { Reader::new("<stdin>", io::stdin())? } else { Reader::open(&files.input)? };
    let name = files.output.display().to_string();
    let sink: Box<dyn Write> = if files.output == dash {
        Box::new(io::stdout())
    } else {
        different(&files.input, &files.output, "OUT").map_err(ScrubError::BadInput)?;
        let file = File::create(&files.output)
            .map_err(|error| ScrubError::BadInput(format!("making {name}: {error}")))?;
        Box::new(file)
    };
    let rewriter = Rewriter::new(reader, &name, BufWriter::new(sink))?;
    let (summary, _) = stream(rewriter, settings, on)?;
    Ok(summary)
}

/// Scrub what a rewriter reads; what it wrote to comes back.
///
/// # Errors
/// [`ScrubError`].
pub fn stream<W: Write>(
    mut rewriter: Rewriter<W>,
    settings: Settings,
    on: OnFrame<'_>,
) -> Result<(ScrubSummary, W), ScrubError> {
    let mut offline = Offline::new(settings);
    loop {
        match rewriter.next_frame() {
            Ok(Some(frame)) => offline.frame(&frame, &mut rewriter, on)?,
            Ok(None) => break,
            // The kind says whose fault it is: a file that cannot be read any further, or an output that does not take it.
            Err(error @ netio::Error::Unfit { .. }) => {
                offline.summary.broken = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let sink = rewriter.finish()?;
    Ok((offline.finish(), sink))
}

/// A scrubber, and what a capture needs beside it.
struct Offline {
    scrubber: Scrubber,
    settings: Settings,
    sides: Sides,
    networks: Networks,
    /// Never goes back, whatever the capture says.
    now: Time,
    summary: ScrubSummary,
}

impl Offline {
    fn new(settings: Settings) -> Offline {
        Offline {
            scrubber: Scrubber::new(settings.config.clone(), SEED),
            sides: Sides::new(settings.inside.clone()),
            networks: Networks::default(),
            settings,
            now: Time::default(),
            summary: ScrubSummary::default(),
        }
    }

    fn config(&self) -> &Config {
        &self.settings.config
    }

    /// Scrub one frame, write what becomes of it to `file`, and tell `on`.
    fn frame<W: Write>(
        &mut self,
        frame: &Frame,
        file: &mut Rewriter<W>,
        on: OnFrame<'_>,
    ) -> Result<(), ScrubError> {
        self.summary.packets += 1;
        self.pass_time(frame, file, on)?;
        let (place, packet) = match frame::look(frame) {
            Inside::NotIp => {
                self.summary.not_ip += 1;
                return self.unscrubbed(frame, &[], ScrubReason::NotIp, !self.settings.ip_only, file, on);
            }
            Inside::Unread => {
                self.summary.unscrubbed_ip += 1;
                let keep = !self.settings.ip_only && !self.settings.drop_unread;
                return self.unscrubbed(frame, &[], ScrubReason::UnscrubbedIp, keep, file, on);
            }
            Inside::Truncated(place, packet) => return self.cut_off(frame, place, packet, file, on),
            Inside::Contradiction(packet) => {
                self.summary.ip_version += 1;
                return self.unscrubbed(frame, packet, ScrubReason::IpVersion, false, file, on);
            }
            Inside::Ip(place, packet) => (place, packet),
        };
        let link_header = frame.data.get(..place.at).unwrap_or_default();
        let finished = frame::finished(packet);
        self.summary.unfinished += u64::from(finished.is_some());
        let came = finished.as_deref().filter(|_| self.settings.offload).unwrap_or(packet);
        let headers = Headers::parse(came).ok();
        let from = match &headers {
            Some(headers) => self.sides.of(came, headers, link_header),
            // Nothing tells; the scrubber says what is wrong with it.
            None => Side::Outside,
        };
        let mut buf = Buf::from_slice(came, ROOM, ROOM);
        let mut gso = frame::gso(came, headers.as_ref(), self.config().mtu);
        let vlan = frame::vlan(frame, &place);
        let realm = headers.as_ref().map_or(0, |headers| self.networks.of(vlan, came, headers));
        let arrival = Arrival { from, link: frame::link(frame, &place, file.interface()), realm };
        let verdict = self.scrubber.process(self.now, arrival, &mut buf, &mut gso);

        if let (Outcome::Forward | Outcome::Fragmented, Some(headers)) = (verdict.outcome, &headers) {
            self.sides.settle(came, headers);
        }
        let mut went = Vec::new();
        let mut line =
            scrub_report::line(self.summary.packets, frame.time.as_secs_f64(), packet, &verdict, from);
        match verdict.outcome {
            Outcome::Forward => {
                let out = buf.as_slice();
                let padded = place.at + packet.len() < frame.data.len() && !self.config().is_observing();
                if out == packet && !padded {
                    file.write(&frame.data, frame.original_len)?;
                } else {
                    // Padding of the link goes: a reader may take it for data.
                    let whole = frame::behind(frame, link_header, out);
                    file.write(&whole, u32::try_from(whole.len()).unwrap_or(u32::MAX))?;
                    self.summary.changed += u64::from(out != packet);
                }
                line.written = 1;
                self.summary.forwarded += 1;
                line.reassembled = headers.as_ref().is_some_and(|h| h.fragment.is_some()) && out != packet;
                if !line.reassembled {
                    (line.changes, line.more_changes) = scrub_changes::between(packet, out);
                }
                went.push(out.to_vec());
            }
            Outcome::Drop(_) => self.summary.dropped += 1,
            Outcome::Hold => self.summary.held += 1,
            Outcome::Fragmented => {
                self.summary.forwarded += 1;
                self.summary.changed += 1;
                line.reassembled = headers.as_ref().is_some_and(|h| h.fragment.is_some());
            }
        }
        let own =
            self.place_emitted(frame, link_header, headers.as_ref(), &verdict, from, &mut went, file)?;
        line.written += u32::try_from(went.len()).unwrap_or(u32::MAX) - line.written;
        self.summary.written += u64::from(line.written);
        on(&ScrubRun { line: &line, came: packet, went: &went })?;
        self.report_own(frame, own, on)
    }

    /// A packet of which the capture did not keep all. Of a segment or datagram the part that is there is looked at like one that was sent
    /// so, and passes as it is if nothing in it contradicts what is known: its flow goes on.
    fn cut_off<W: Write>(
        &mut self,
        frame: &Frame,
        place: Place,
        packet: &[u8],
        file: &mut Rewriter<W>,
        on: OnFrame<'_>,
    ) -> Result<(), ScrubError> {
        self.summary.truncated_by_capture += 1;
        let reason = ScrubReason::TruncatedByCapture;
        let keep = self.settings.keep_truncated;
        let Some((part, headers, mut gso)) = frame::kept_part(packet) else {
            return self.unscrubbed(frame, packet, reason, keep, file, on);
        };
        let link_header = frame.data.get(..place.at).unwrap_or_default();
        let from = self.sides.of(&part, &headers, link_header);
        let mut buf = Buf::from_slice(&part, ROOM, ROOM);
        let realm = self.networks.of(frame::vlan(frame, &place), &part, &headers);
        let arrival = Arrival { from, link: frame::link(frame, &place, file.interface()), realm };
        let verdict = self.scrubber.process(self.now, arrival, &mut buf, &mut gso);
        // Whatever is said because of it would be about another packet than the one in the capture.
        while self.scrubber.poll_emitted().is_some() {}
        let passes = verdict.outcome == Outcome::Forward && buf.as_slice() == part;
        if passes {
            self.sides.settle(&part, &headers);
            self.summary.cut_passed += 1;
        }
        self.unscrubbed(frame, packet, reason, keep || passes, file, on)
    }

    /// A frame that nobody looks into. Where nothing is changed it passes in any case.
    fn unscrubbed<W: Write>(
        &mut self,
        frame: &Frame,
        packet: &[u8],
        reason: ScrubReason,
        keep: bool,
        file: &mut Rewriter<W>,
        on: OnFrame<'_>,
    ) -> Result<(), ScrubError> {
        let keep = keep || self.config().is_observing();
        let verdict = if keep { ScrubVerdict::Pass } else { ScrubVerdict::Drop };
        let mut line = scrub_report::bare(self.summary.packets, frame.time.as_secs_f64(), verdict);
        line.reason = Some(reason);
        line.flow = scrub_report::flow(packet);
        if keep {
            file.write(&frame.data, frame.original_len)?;
            line.written = 1;
            self.summary.written += 1;
        } else {
            self.summary.dropped += 1;
        }
        Ok(on(&ScrubRun { line: &line, came: packet, went: &[] })?)
    }

    /// Let the capture's time pass.
    fn pass_time<W: Write>(
        &mut self,
        frame: &Frame,
        file: &mut Rewriter<W>,
        on: OnFrame<'_>,
    ) -> Result<(), ScrubError> {
        self.now = self.now.max(frame.clock());
        if self.scrubber.poll_timeout().is_some_and(|at| at <= self.now) {
            self.scrubber.expire(self.now);
            let mut own = Vec::new();
            while let Some(emitted) = self.scrubber.poll_emitted() {
                own.extend(self.place(frame, None, emitted, file)?);
            }
            self.report_own(frame, own, on)?;
        }
        Ok(())
    }

    /// Write what the scrubber made of a packet: fragments of it count as the packet, the rest is its own and comes back.
    #[allow(clippy::too_many_arguments, reason = "all of them are the one packet at work")]
    fn place_emitted<W: Write>(
        &mut self,
        frame: &Frame,
        link_header: &[u8],
        headers: Option<&Headers>,
        verdict: &Verdict,
        from: Side,
        went: &mut Vec<Vec<u8>>,
        file: &mut Rewriter<W>,
    ) -> Result<Vec<MadeFrame>, ScrubError> {
        let mut own = Vec::new();
        while let Some(emitted) = self.scrubber.poll_emitted() {
            let piece = Headers::parse(emitted.buf.as_slice()).is_ok_and(|h| {
                h.fragment.is_some() && headers.is_some_and(|of| (of.src, of.dst) == (h.src, h.dst))
            });
            if verdict.outcome == Outcome::Fragmented && emitted.to == from.other() && piece {
                let whole = frame::behind(frame, link_header, emitted.buf.as_slice());
                file.write(&whole, u32::try_from(whole.len()).unwrap_or(u32::MAX))?;
                went.push(emitted.buf.as_slice().to_vec());
            } else {
                own.extend(self.place(
                    frame,
                    headers.map(|headers| (link_header, headers)),
                    emitted,
                    file,
                )?);
            }
        }
        Ok(own)
    }

    /// Write a packet of the scrubber's own, with the link header of its flow, or, for one about the packet at work that comes from
    /// somewhere else, of that packet. It is only reported, and not written, if none is known, or if it is an ICMP error: that is about
    /// a packet which is not in the output, where nobody could tell what it answers.
    fn place<W: Write>(
        &mut self,
        frame: &Frame,
        cause: Option<(&[u8], &Headers)>,
        emitted: Emitted,
        file: &mut Rewriter<W>,
    ) -> Result<Option<MadeFrame>, ScrubError> {
        let packet = emitted.buf.as_slice();
        let Ok(headers) = Headers::parse(packet) else { return Ok(None) };
        self.summary.emitted += 1;
        let own = MadeFrame { rule: emitted.why, to: emitted.to, packet: packet.to_vec(), written: false };
        if matches!(headers.protocol, protocol::ICMP | protocol::ICMPV6) {
            return Ok(Some(own));
        }
        let (header, same_way) = match cause {
            Some((header, of)) if of.dst == headers.dst || of.src == headers.src => (header.to_vec(), true),
            Some((header, _)) => (header.to_vec(), false),
            None => match self.sides.header(packet, &headers) {
                Some((header, same_way)) => (header.to_vec(), same_way),
                None => return Ok(Some(own)),
            },
        };
        let mut header = header;
        if !same_way {
            frame::turn(frame, &mut header);
        }
        file.write_beside(&frame::behind(frame, &header, packet))?;
        self.summary.written += 1;
        Ok(Some(MadeFrame { written: true, ..own }))
    }

    fn report_own(&self, frame: &Frame, own: Vec<MadeFrame>, on: OnFrame<'_>) -> Result<(), ScrubError> {
        for MadeFrame { rule, to, packet, written } in own {
            let mut line =
                scrub_report::bare(self.summary.packets, frame.time.as_secs_f64(), ScrubVerdict::Emitted);
            line.rule = Some(rule.id().to_owned());
            line.from = Some(to.other().name().to_owned());
            line.flow = scrub_report::flow(&packet);
            line.written = u32::from(written);
            on(&ScrubRun { line: &line, came: &[], went: &[packet] })?;
        }
        Ok(())
    }

    fn finish(self) -> ScrubSummary {
        let Offline { mut scrubber, settings, mut summary, .. } = self;
        // Nothing more comes: what waits for the rest of its packet waits in vain, and each fragment is counted once.
        scrubber.expire(Time(u64::MAX));
        let given_up = scrubber.counters().given_up;
        summary.held = summary.held.saturating_sub(given_up);
        summary.dropped += given_up;
        sums::close(&mut summary, scrubber.counters(), &settings);
        summary
    }
}

/// A packet of the scrubber's own.
struct MadeFrame {
    rule: scrub::Rule,
    to: Side,
    packet: Vec<u8>,
    written: bool,
}
