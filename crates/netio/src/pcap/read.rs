//! Reading a capture file, whichever form it has.

use super::{Frame, LinkType};
use crate::error::{Error, IoContext, Result};
use pcap_file::pcap::{PcapHeader, PcapReader, PcapTsResolution};
use pcap_file::pcapng::blocks::section_header::SectionHeaderBlock;
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgState, RawBlock};
use pcap_file::{DataLink, Endianness};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::time::Duration;

/// The longest block that is read: a frame of the largest size that tcpdump keeps, with its options.
const LONGEST_BLOCK: usize = 1 << 20;

/// Blocks of pcapng that have a packet and options: the obsolete one, and the enhanced one.
const PACKET_BLOCKS: [u32; 2] = [2, 6];
/// The octets of such a block in front of the packet.
const BEFORE_PACKET: usize = 20;

/// First octets of a pcapng file: a section header block.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

type Source = io::Chain<Cursor<[u8; 4]>, Box<dyn Read + Send>>;

/// A capture file, read frame by frame. A truncated or broken file is an error at the place where it breaks; every frame
/// before that was answered.
pub struct Reader {
    name: String,
    form: Form,
    frames: u64,
    broken: bool,
}

enum Form {
    Pcap(PcapReader<Source>),
    PcapNg(PcapNgReader<Source>),
}

/// The first header of a file, for code that writes the file again.
pub(super) enum Beginning<'r> {
    Pcap(PcapHeader),
    PcapNg(&'r SectionHeaderBlock<'static>),
}

/// An item that a reader passes, for code that writes the file again.
pub(super) enum FileItem<'r> {
    /// A packet's time, as it stands in a pcap file.
    Packet { seconds: u32, fraction: u32 },
    /// A block of a pcapng file, and the state that the file is in behind it.
    Block(&'r RawBlock<'r>, &'r PcapNgState),
}

type OnFileItem<'f> = &'f mut dyn FnMut(FileItem<'_>) -> Result<()>;

impl Reader {
    /// Open a capture file by its path.
    pub fn open(path: &Path) -> Result<Reader> {
        let file = File::open(path).doing(|| format!("opening {}", path.display()))?;
        Reader::new(&path.display().to_string(), file)
    }

    /// Read from `source`; `name` stands for it in errors.
    pub fn new(name: &str, mut source: impl Read + Send + 'static) -> Result<Reader> {
        let mut magic = [0; 4];
        if let Err(error) = source.read_exact(&mut magic) {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                return Err(not_a_capture(name, &"it has fewer than four octets"));
            }
            return Err(error).doing(|| format!("reading {name}"));
        }
        let source: Source = Cursor::new(magic).chain(Box::new(source));
        let unfit = |why: &dyn std::fmt::Display| not_a_capture(name, why);
        let form = if magic == PCAPNG_MAGIC {
            Form::PcapNg(PcapNgReader::with_capacity(source, LONGEST_BLOCK).map_err(|e| unfit(&e))?)
        } else {
            Form::Pcap(PcapReader::with_capacity(source, LONGEST_BLOCK).map_err(|e| unfit(&e))?)
        };
        Ok(Reader { name: name.to_owned(), form, frames: 0, broken: false })
    }

    /// The next frame; `None` at the end. After an error the file has ended.
    pub fn next_frame(&mut self) -> Result<Option<Frame>> {
        self.next_frame_with(&mut |_| Ok(()))
    }

    /// The next frame, like [`Reader::next_frame`]; `on` hears of everything on the way to the frame, and of the frame.
    pub(super) fn next_frame_with(&mut self, on: OnFileItem<'_>) -> Result<Option<Frame>> {
        if self.broken {
            return Ok(None);
        }
        let answer = match &mut self.form {
            Form::Pcap(reader) => pcap_frame(reader, on),
            Form::PcapNg(reader) => pcapng_frame(reader, on),
        };
        match answer {
            Ok(frame) => {
                self.frames += u64::from(frame.is_some());
                Ok(frame)
            }
            Err(Stop::Listener(error)) => {
                self.broken = true;
                Err(error)
            }
            Err(Stop::File(why)) => {
                self.broken = true;
                Err(Error::unfit(
                    format!("{} is broken behind frame {}: {why}", self.name, self.frames),
                    "capture it again, or go on with the frames before that",
                ))
            }
        }
    }

    /// The first header of the file.
    pub(super) fn beginning(&self) -> Beginning<'_> {
        match &self.form {
            Form::Pcap(reader) => Beginning::Pcap(reader.header()),
            Form::PcapNg(reader) => Beginning::PcapNg(reader.section()),
        }
    }
}

/// The reason why there is no next frame.
enum Stop {
    File(String),
    Listener(Error),
}

impl From<&str> for Stop {
    fn from(why: &str) -> Stop {
        Stop::File(why.to_owned())
    }
}

fn broken(error: &dyn std::error::Error) -> Stop {
    Stop::File(describe(error))
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({}, {} frames read)", self.name, self.frames)
    }
}

impl Iterator for Reader {
    type Item = Result<Frame>;

    fn next(&mut self) -> Option<Result<Frame>> {
        self.next_frame().transpose()
    }
}

fn not_a_capture(name: &str, why: &dyn std::fmt::Display) -> Error {
    Error::unfit(format!("{name} is not a capture file ({why})"), "give a pcap or pcapng file")
}

fn link(data_link: DataLink) -> LinkType {
    // The upper half of the field tells the length of frame check sequences.
    LinkType::from_number(u32::from(data_link) & 0xffff)
}

/// The raw form is taken, since it is not refused for a frame longer than the file's own snap length.
fn pcap_frame(
    reader: &mut PcapReader<Source>,
    on: OnFileItem<'_>,
) -> std::result::Result<Option<Frame>, Stop> {
    let header = reader.header();
    let Some(packet) = reader.next_raw_packet() else { return Ok(None) };
    let packet = packet.map_err(|e| broken(&e))?;
    on(FileItem::Packet { seconds: packet.ts_sec, fraction: packet.ts_frac }).map_err(Stop::Listener)?;
    let nanos = match header.ts_resolution {
        PcapTsResolution::MicroSecond => u64::from(packet.ts_frac) * 1000,
        PcapTsResolution::NanoSecond => u64::from(packet.ts_frac),
    };
    Ok(Some(Frame {
        time: Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(nanos),
        link: link(header.datalink),
        original_len: packet.orig_len,
        data: packet.data.into_owned(),
    }))
}

fn pcapng_frame(
    reader: &mut PcapNgReader<Source>,
    on: OnFileItem<'_>,
) -> std::result::Result<Option<Frame>, Stop> {
    loop {
        let Some(next) = reader.next_raw_block() else { return Ok(None) };
        let (raw, state) = next.map_err(|e| broken(&e))?;
        let block = match raw.clone().try_into_block(state) {
            // The crate refuses a packet for one option of a length that is not its kind's; nothing here reads those options.
            Err(_) if PACKET_BLOCKS.contains(&raw.type_) => without_options(&raw, state)
                .ok_or("a packet block too short")?
                .try_into_block(state)
                .map_err(|e| broken(&e))?,
            block => block.map_err(|e| broken(&e))?,
        };
        on(FileItem::Block(&raw, state)).map_err(Stop::Listener)?;
        let link_of = |interface: usize| {
            state
                .interfaces()
                .get(interface)
                .map(|i| link(i.linktype))
                .ok_or("a frame of an unknown interface")
        };
        // Every other block describes the file or its machine.
        return Ok(Some(match block {
            Block::EnhancedPacket(packet) => Frame {
                time: packet.timestamp,
                link: link_of(packet.interface_id as usize)?,
                original_len: packet.original_len,
                data: packet.data.into_owned(),
            },
            Block::Packet(packet) => Frame {
                time: packet.timestamp,
                link: link_of(usize::from(packet.interface_id))?,
                original_len: packet.original_len,
                data: packet.data.into_owned(),
            },
            // Has no time of its own.
            Block::SimplePacket(packet) => Frame {
                time: Duration::ZERO,
                link: link_of(0)?,
                original_len: packet.original_len,
                data: packet.data.into_owned(),
            },
            _ => continue,
        }));
    }
}

/// A packet block without its options.
fn without_options(raw: &RawBlock<'_>, state: &PcapNgState) -> Option<RawBlock<'static>> {
    let octets = *raw.body.get(BEFORE_PACKET - 8..)?.first_chunk()?;
    let len = match state.endianness() {
        Endianness::Big => u32::from_be_bytes(octets),
        Endianness::Little => u32::from_le_bytes(octets),
    };
    let end = BEFORE_PACKET.checked_add(usize::try_from(len).ok()?.next_multiple_of(4))?;
    let body = raw.body.get(..end)?.to_vec();
    let whole = u32::try_from(end + 12).ok()?;
    Some(RawBlock { type_: raw.type_, initial_len: whole, body: body.into(), trailer_len: whole })
}

/// An error with its causes, on one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        out = format!("{out}: {inner}");
        cause = inner.source();
    }
    out
}
