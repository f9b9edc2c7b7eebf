//! Writing a capture file: pcap, nanoseconds, one link type.

use super::{Frame, LinkType};
use crate::error::{Error, IoContext, Result};
use pcap_file::pcap::{PcapHeader, PcapTsResolution, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// Writes frames to a file as they come.
pub struct Writer<W: Write> {
    name: String,
    writer: PcapWriter<W>,
    link: LinkType,
}

impl Writer<BufWriter<File>> {
    /// Make (or overwrite) a file of IP packets.
    pub fn create(path: &Path) -> Result<Self> {
        Self::create_with(path, LinkType::Raw)
    }

    /// Make (or overwrite) a file of frames of `link`.
    pub fn create_with(path: &Path, link: LinkType) -> Result<Self> {
        let file = File::create(path).doing(|| format!("making {}", path.display()))?;
        Writer::new(&path.display().to_string(), BufWriter::new(file), link)
    }
}

impl<W: Write> Writer<W> {
    /// Write to `sink`; `name` stands for it in errors.
    pub fn new(name: &str, sink: W, link: LinkType) -> Result<Self> {
        let header = PcapHeader {
            datalink: DataLink::from(link.number()),
            ts_resolution: PcapTsResolution::NanoSecond,
            endianness: Endianness::native(),
            snaplen: 262_144,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(sink, header).map_err(|e| failed(name, &e))?;
        Ok(Writer { name: name.to_owned(), writer, link })
    }

    /// Write octets captured at `time` since 1970; `original_len` is their number on the wire.
    pub fn write(&mut self, time: Duration, data: &[u8], original_len: u32) -> Result<()> {
        let too_long = |_| Error::unfit(format!("a frame too long for {}", self.name), "leave it out");
        let packet = RawPcapPacket {
            // The format ends in 2106.
            ts_sec: u32::try_from(time.as_secs()).unwrap_or(u32::MAX),
            ts_frac: time.subsec_nanos(),
            incl_len: u32::try_from(data.len()).map_err(too_long)?,
            orig_len: original_len,
            data: Cow::Borrowed(data),
        };
        self.writer.write_raw_packet(&packet).map(drop).map_err(|e| failed(&self.name, &e))
    }

    /// Write a frame, which must be of this file's link type.
    pub fn write_frame(&mut self, frame: &Frame) -> Result<()> {
        if frame.link != self.link {
            return Err(Error::unfit(
                format!("a frame of type {:?} for {}, which holds {:?}", frame.link, self.name, self.link),
                "convert it first",
            ));
        }
        self.write(frame.time, &frame.data, frame.original_len)
    }

    /// Hand everything to the system.
    pub fn finish(self) -> Result<W> {
        let name = self.name;
        let mut sink = self.writer.into_inner();
        sink.flush().doing(|| format!("writing {name}"))?;
        Ok(sink)
    }
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({})", self.name)
    }
}

fn failed(name: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    let source = error.source().and_then(|s| s.downcast_ref::<io::Error>());
    let source = source
        .map_or_else(|| io::Error::other(error.to_string()), |e| io::Error::new(e.kind(), e.to_string()));
    Error::System { doing: format!("writing {name}"), source }
}
