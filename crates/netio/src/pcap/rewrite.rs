//! A capture file written again with other packets: form, octet order, resolution of time, interfaces, names and comments stay.

use super::read::{Beginning, FileItem};
use super::{Frame, Reader};
use crate::error::{Error, IoContext, Result};
use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::SectionHeaderBlock;
use pcap_file::pcapng::{Block, PcapNgBlock, PcapNgState, PcapNgWriter, RawBlock};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::io::{self, Write};

/// The octets that tcpdump keeps of a frame. A file's own limit may be too low for a packet that was put together from
/// fragments.
const SNAPLEN: u32 = 262_144;
/// Block types of pcapng.
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Octets of interface and time at the front of a packet block's body. Two lengths follow, up to [`FIXED_LEN`], then
/// the packet's octets and the options.
const STAMP_LEN: usize = 12;
const FIXED_LEN: usize = 20;
/// The option of packet blocks that holds a hash of the octets.
const HASH: u16 = 3;

/// Reads a capture and writes one of the same form. What is no packet goes from one to the other as it is; packets are written by
/// whoever calls, in the place of the frame that was read last.
///
/// Changed are: the limit on a frame's length, if it is low; lengths of frame check sequences, which are cut off (they would be wrong);
/// hashes of packets; and packets without a time (simple packet blocks), which get the time zero.
pub struct Rewriter<W: Write> {
    reader: Reader,
    out: FileWriter<W>,
    name: String,
    place: Place,
}

enum FileWriter<W: Write> {
    Pcap { writer: PcapWriter<W>, fcs: usize },
    PcapNg { writer: PcapNgWriter<W>, fcs: Vec<usize> },
}

/// The place in its file of the frame that was read last.
#[derive(Default)]
enum Place {
    #[default]
    Nowhere,
    Pcap {
        seconds: u32,
        fraction: u32,
    },
    PcapNg {
        kind: u32,
        stamp: [u8; STAMP_LEN],
        options: Vec<u8>,
        interface: u32,
    },
}

impl<W: Write> Rewriter<W> {
    /// A rewriter from `reader` to `sink`; `name` stands for the latter in errors.
    pub fn new(reader: Reader, name: &str, sink: W) -> Result<Rewriter<W>> {
        let out = match reader.beginning() {
            Beginning::Pcap(header) => {
                let number = u32::from(header.datalink);
                let header = PcapHeader {
                    datalink: DataLink::from(number & 0xffff),
                    snaplen: raised(header.snaplen),
                    ..header
                };
                let writer = PcapWriter::with_header(sink, header).map_err(|e| failed(name, &e))?;
                // Bit 26: the upper four bits are the check sequence's length in units of two octets.
                let fcs = if number & 1 << 26 == 0 { 0 } else { (number >> 28) as usize * 2 };
                FileWriter::Pcap { writer, fcs }
            }
            Beginning::PcapNg(section) => {
                let section = unbounded(section.clone());
                let writer =
                    PcapNgWriter::with_section_header(sink, section).map_err(|e| failed(name, &e))?;
                FileWriter::PcapNg { writer, fcs: Vec::new() }
            }
        };
        Ok(Rewriter { reader, out, name: name.to_owned(), place: Place::Nowhere })
    }

    /// The next frame, without frame check sequence; what stands before it in the file is in the output then.
    pub fn next_frame(&mut self) -> Result<Option<Frame>> {
        let Rewriter { reader, out, name, place } = self;
        let frame = reader.next_frame_with(&mut |met| match (met, &mut *out) {
            (FileItem::Packet { seconds, fraction }, _) => {
                *place = Place::Pcap { seconds, fraction };
                Ok(())
            }
            (FileItem::Block(raw, state), FileWriter::PcapNg { writer, fcs }) => {
                block(writer, fcs, place, raw, state).map_err(|error| failed(name, error.as_ref()))
            }
            (FileItem::Block(..), FileWriter::Pcap { .. }) => Ok(()),
        })?;
        Ok(frame.map(|mut frame| {
            let fcs = self.fcs();
            if frame.is_whole() && frame.data.len() >= fcs {
                frame.data.truncate(frame.data.len() - fcs);
                frame.original_len = frame.original_len.saturating_sub(u32::try_from(fcs).unwrap_or(0));
            }
            frame
        }))
    }

    fn fcs(&self) -> usize {
        match (&self.out, &self.place) {
            (FileWriter::Pcap { fcs, .. }, _) => *fcs,
            (FileWriter::PcapNg { fcs, .. }, Place::PcapNg { interface, .. }) => {
                fcs.get(*interface as usize).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// The interface of the frame that was read last, by its place in the file; a pcap file has one, 0.
    pub fn interface(&self) -> u32 {
        match self.place {
            Place::PcapNg { interface, .. } => interface,
            _ => 0,
        }
    }

    /// Write octets in the place of the frame that was read last, with its time, interface and comments; `original_len` is their number
    /// on the wire.
    pub fn write(&mut self, data: &[u8], original_len: u32) -> Result<()> {
        self.put(data, original_len, true)
    }

    /// Write a frame of our own behind it, with its time and interface.
    pub fn write_beside(&mut self, data: &[u8]) -> Result<()> {
        self.put(data, u32::try_from(data.len()).unwrap_or(u32::MAX), false)
    }

    fn put(&mut self, data: &[u8], original_len: u32, with_options: bool) -> Result<()> {
        let name = &self.name;
        let too_long = |_| Error::unfit(format!("a frame too long for {name}"), "leave it out");
        let len = u32::try_from(data.len()).map_err(too_long)?;
        match (&mut self.out, &self.place) {
            (FileWriter::Pcap { writer, .. }, Place::Pcap { seconds, fraction }) => {
                let packet = RawPcapPacket {
                    ts_sec: *seconds,
                    ts_frac: *fraction,
                    incl_len: len,
                    orig_len: original_len,
                    data: Cow::Borrowed(data),
                };
                writer.write_raw_packet(&packet).map(drop).map_err(|e| failed(name, &e))
            }
            (FileWriter::PcapNg { writer, .. }, Place::PcapNg { kind, stamp, options, .. }) => {
                let word = |value: u32| match writer.state().endianness() {
                    Endianness::Big => value.to_be_bytes(),
                    Endianness::Little => value.to_le_bytes(),
                };
                let mut body = Vec::with_capacity(FIXED_LEN + data.len() + 4 + options.len());
                body.extend_from_slice(stamp);
                body.extend(word(len));
                // The format does not allow fewer than are there.
                body.extend(word(original_len.max(len)));
                body.extend_from_slice(data);
                body.resize(body.len().next_multiple_of(4), 0);
                if with_options {
                    body.extend_from_slice(options);
                }
                let whole = u32::try_from(body.len() + 12).map_err(too_long)?;
                let raw =
                    RawBlock { type_: *kind, initial_len: whole, body: Cow::Owned(body), trailer_len: whole };
                writer.write_raw_block(&raw).map(drop).map_err(|e| failed(name, &e))
            }
            _ => Err(Error::unfit(format!("no frame was read before one was written to {name}"), "read one")),
        }
    }

    /// Hand everything to the system.
    pub fn finish(self) -> Result<W> {
        let name = self.name;
        let mut sink = match self.out {
            FileWriter::Pcap { writer, .. } => writer.into_inner(),
            FileWriter::PcapNg { writer, .. } => writer.into_inner(),
        };
        sink.flush().doing(|| format!("writing {name}"))?;
        Ok(sink)
    }
}

impl<W: Write> std::fmt::Debug for Rewriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rewriter({:?} to {})", self.reader, self.name)
    }
}

/// Take a block of a pcapng file: a packet's is kept for the one that is written in its place, any other is written.
fn block<W: Write>(
    writer: &mut PcapNgWriter<W>,
    fcs: &mut Vec<usize>,
    place: &mut Place,
    raw: &RawBlock<'_>,
    state: &PcapNgState,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let big = matches!(state.endianness(), Endianness::Big);
    match raw.type_ {
        ENHANCED_PACKET | OLD_PACKET => *place = packet_place(raw, big).ok_or("a packet block too short")?,
        SIMPLE_PACKET => {
            *place = Place::PcapNg {
                kind: ENHANCED_PACKET,
                stamp: [0; STAMP_LEN],
                options: Vec::new(),
                interface: 0,
            };
        }
        _ => match raw.clone().try_into_block(state)? {
            Block::SectionHeader(section) => {
                fcs.clear();
                writer.write_block(&unbounded(section).into_block())?;
            }
            Block::InterfaceDescription(interface) => {
                let (interface, length) = without_fcs(interface);
                fcs.push(length);
                writer.write_block(&interface.into_block())?;
            }
            _ => drop(writer.write_raw_block(raw)?),
        },
    }
    Ok(())
}

fn packet_place(raw: &RawBlock<'_>, big: bool) -> Option<Place> {
    let stamp: [u8; STAMP_LEN] = *raw.body.first_chunk()?;
    let word = |at: usize| {
        let octets = *raw.body.get(at..)?.first_chunk()?;
        Some(if big { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) })
    };
    let mut interface = word(0)?;
    if raw.type_ == OLD_PACKET {
        // Sixteen bits of interface, sixteen of packets lost before it.
        interface = if big { interface >> 16 } else { interface & 0xffff };
    }
    let at = FIXED_LEN + (word(STAMP_LEN)? as usize).next_multiple_of(4);
    let options = without_hash(raw.body.get(at..).unwrap_or_default(), big);
    Some(Place::PcapNg { kind: raw.type_, stamp, options, interface })
}

/// The options of a packet block without hashes of it.
fn without_hash(mut options: &[u8], big: bool) -> Vec<u8> {
    let mut kept = Vec::new();
    while let Some(head) = options.first_chunk::<4>() {
        let half =
            |octets: [u8; 2]| if big { u16::from_be_bytes(octets) } else { u16::from_le_bytes(octets) };
        let (code, len) = (half([head[0], head[1]]), usize::from(half([head[2], head[3]])));
        let whole = (4 + len).next_multiple_of(4).min(options.len());
        let (option, rest) = options.split_at(whole);
        if code != HASH {
            kept.extend_from_slice(option);
        }
        if code == 0 {
            break;
        }
        options = rest;
    }
    kept
}

/// The length of a section is not known before its end.
fn unbounded(section: SectionHeaderBlock<'_>) -> SectionHeaderBlock<'_> {
    SectionHeaderBlock { section_length: -1, ..section }
}

fn without_fcs(mut interface: InterfaceDescriptionBlock<'_>) -> (InterfaceDescriptionBlock<'_>, usize) {
    let mut fcs = 0;
    interface.options.retain(|option| match option {
        InterfaceDescriptionOption::IfFcsLen(octets) => {
            fcs = usize::from(*octets);
            false
        }
        _ => true,
    });
    interface.snaplen = raised(interface.snaplen);
    (interface, fcs)
}

/// A file's limit on frames; 0 means none.
const fn raised(snaplen: u32) -> u32 {
    if snaplen == 0 || snaplen > SNAPLEN { snaplen } else { SNAPLEN }
}

fn failed(name: &str, error: &(dyn std::error::Error + '_)) -> Error {
    Error::System { doing: format!("writing {name}"), source: io::Error::other(error.to_string()) }
}
