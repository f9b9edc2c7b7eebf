//! Captures in memory, and scrubbing them.

use std::io::Cursor;
use std::time::Duration;

use api::{ScrubLine, ScrubSummary};
use netio::pcap::{Frame, LinkType, Reader, Rewriter, Writer};
use offline::scrub::{Profile, Settings, stream};
use wire::ipv4::{self, Ipv4Repr};
use wire::tcp::Flags;

/// A frame to be written; `len` on the wire.
#[derive(Clone)]
pub struct Packet {
    pub second: u64,
    pub octets: Vec<u8>,
    pub len: usize,
}

impl Packet {
    pub fn at(second: u64, octets: Vec<u8>) -> Packet {
        Packet { second, len: octets.len(), octets }
    }

    /// With a link header.
    pub fn behind(self, header: &[u8]) -> Packet {
        Packet::at(self.second, [header, &self.octets].concat())
    }

    /// The other way, with an acknowledgment.
    pub fn turned(mut self, ack: u32) -> Packet {
        self.octets[12..20].rotate_left(4);
        self.octets[20..24].rotate_left(2);
        self.acknowledging(ack)
    }

    pub fn acknowledging(mut self, ack: u32) -> Packet {
        self.octets[28..32].copy_from_slice(&ack.to_be_bytes());
        self.octets[36..38].fill(0);
        summed(&mut self.octets);
        self
    }
}

fn summed(packet: &mut [u8]) {
    let headers = wire::ip::Headers::parse(packet).unwrap();
    wire::checksum::complete_transport(packet, &headers).unwrap();
}

fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    let repr = Ipv4Repr {
        src: "192.0.2.1".parse().unwrap(),
        dst: "198.51.100.2".parse().unwrap(),
        protocol,
        ttl: 64,
        tos: 0,
        id: 0,
        df: payload.len() < 1400,
        payload_len: payload.len(),
    };
    ipv4::emit(&mut packet, &repr).unwrap();
    packet.extend_from_slice(payload);
    summed(&mut packet);
    packet
}

pub fn tcp(second: u64, flags: Flags, seq: u32, data: &[u8]) -> Packet {
    let mut segment = vec![0; 20];
    segment[0..2].copy_from_slice(&40000u16.to_be_bytes());
    segment[2..4].copy_from_slice(&80u16.to_be_bytes());
    segment[4..8].copy_from_slice(&seq.to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = flags.0 as u8;
    segment[14..16].copy_from_slice(&[0xff, 0xff]);
    segment.extend_from_slice(data);
    Packet::at(second, ip(6, &segment))
}

pub fn udp(second: u64, data: &[u8]) -> Packet {
    let len = u16::try_from(8 + data.len()).unwrap();
    let mut datagram = [40000u16.to_be_bytes(), 4000u16.to_be_bytes(), len.to_be_bytes(), [0, 0]].concat();
    datagram.extend_from_slice(data);
    Packet::at(second, ip(17, &datagram))
}

pub fn pcap(link: LinkType, packets: &[Packet]) -> Vec<u8> {
    let mut writer = Writer::new("memory", Vec::new(), link).unwrap();
    for packet in packets {
        let len = u32::try_from(packet.len).unwrap();
        writer.write(Duration::from_secs(packet.second), &packet.octets, len).unwrap();
    }
    writer.finish().unwrap()
}

/// Every frame, as far as the file can be read.
pub fn read(octets: &[u8]) -> Vec<Frame> {
    Reader::new("memory", Cursor::new(octets.to_vec())).unwrap().map_while(Result::ok).collect()
}

pub fn scrub(octets: &[u8]) -> (Vec<u8>, ScrubSummary) {
    scrub_with(octets, Settings::new(Profile::Standard)).unwrap()
}

/// Scrub a capture in memory. `None`: the octets are no capture.
pub fn scrub_with(octets: &[u8], settings: Settings) -> Option<(Vec<u8>, ScrubSummary)> {
    scrub_lines(octets, settings, &mut drop)
}

pub fn scrub_lines(
    octets: &[u8],
    settings: Settings,
    on: &mut dyn FnMut(ScrubLine),
) -> Option<(Vec<u8>, ScrubSummary)> {
    let reader = Reader::new("memory", Cursor::new(octets.to_vec())).ok()?;
    let rewriter = Rewriter::new(reader, "memory", Vec::new()).unwrap();
    let (summary, out) = stream(rewriter, settings, &mut |done| {
        on(done.line.clone());
        Ok(())
    })
    .unwrap();
    Some((out, summary))
}
