//! Writing a capture file with a word about each packet: pcapng, nanoseconds, interfaces with a direction, comments, and
//! statistics at the end (draft-ietf-opsawg-pcapng sections 4.2, 4.3, 4.6).

use super::LinkType;
use crate::error::{Error, Result};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

/// The longest comment that is written; option lengths have 16 bits.
const LONGEST_COMMENT: usize = 4096;

/// An interface at which packets of a file were captured.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// The name of the interface.
    pub name: &'a str,
    /// A description of what is seen at the interface.
    pub description: &'a str,
    /// The link type of its packets.
    pub link: LinkType,
    /// The octets that are kept of each packet; 0 if all are kept.
    pub snaplen: u32,
}

/// The facts that a file states about a packet beside its octets.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    /// The interface, by its place among those that the file was made with.
    pub interface: u32,
    /// The time of the packet, since 1970.
    pub time: Duration,
    /// The direction of the packet: `true` came in.
    pub inbound: bool,
    /// The comment in words; cut at 4096 octets.
    pub comment: &'a str,
    /// The length of the packet in octets before it was cut.
    pub original_len: u32,
}

/// The counts of a capture at one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The time when the capture began, since 1970.
    pub start: Duration,
    /// The time when the capture ended, since 1970.
    pub end: Duration,
    /// Packets that were to be captured.
    pub received: u64,
    /// Packets of these that found no room.
    pub lost: u64,
}

/// Writes annotated packets as they come.
pub struct NgWriter<W: Write> {
    name: String,
    writer: PcapNgWriter<W>,
}

impl<W: Write> NgWriter<W> {
    /// Write to `sink`, beginning with the interfaces; `name` stands for it in errors, `application` for us in the file.
    pub fn new(name: &str, sink: W, application: &str, interfaces: &[Interface<'_>]) -> Result<Self> {
        let section = SectionHeaderBlock {
            options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed(application))],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(sink, section).map_err(|e| failed(name, &e))?;
        let mut file = NgWriter { name: name.to_owned(), writer };
        for interface in interfaces {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(interface.name)),
                InterfaceDescriptionOption::IfDescription(Cow::Borrowed(interface.description)),
                InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            ];
            let linktype = DataLink::from(interface.link.number());
            file.block(InterfaceDescriptionBlock { linktype, snaplen: interface.snaplen, options })?;
        }
        Ok(file)
    }

    /// Write a packet with its note.
    pub fn packet(&mut self, note: &Note<'_>, octets: &[u8]) -> Result<()> {
        let comment = Cow::Borrowed(cut(note.comment));
        self.block(EnhancedPacketBlock {
            interface_id: note.interface,
            timestamp: note.time,
            original_len: note.original_len.max(u32::try_from(octets.len()).unwrap_or(u32::MAX)),
            data: Cow::Borrowed(octets),
            options: vec![
                EnhancedPacketOption::Common(CommonOption::Comment(comment)),
                // The lowest two bits: 1 inbound, 2 outbound.
                EnhancedPacketOption::Flags(if note.inbound { 1 } else { 2 }),
            ],
        })
    }

    /// Write the counts of an interface.
    pub fn statistics(&mut self, interface: u32, statistics: &Statistics) -> Result<()> {
        let Statistics { start, end, received, lost } = *statistics;
        self.block(InterfaceStatisticsBlock {
            interface_id: interface,
            timestamp: end,
            options: vec![
                InterfaceStatisticsOption::IsbStartTime(start),
                InterfaceStatisticsOption::IsbEndTime(end),
                InterfaceStatisticsOption::IsbIfRecv(received),
                InterfaceStatisticsOption::IsbIfDrop(lost),
            ],
        })
    }

    /// The sink that the file is written to.
    pub fn sink_mut(&mut self) -> &mut W {
        self.writer.get_mut()
    }

    fn block<'b>(&mut self, block: impl PcapNgBlock<'b>) -> Result<()> {
        self.writer.write_block(&block.into_block()).map(drop).map_err(|e| failed(&self.name, &e))
    }
}

impl<W: Write> std::fmt::Debug for NgWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NgWriter({})", self.name)
    }
}

/// The beginning of a text, at most as long as [`LONGEST_COMMENT`], cut between characters.
fn cut(text: &str) -> &str {
    let end = (0..=LONGEST_COMMENT.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

fn failed(name: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    Error::System { doing: format!("writing {name}"), source: io::Error::other(error.to_string()) }
}
