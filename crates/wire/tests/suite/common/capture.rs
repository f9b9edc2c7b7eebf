//! The shared captures: those of RAVELIN_SHARED, or of `shared` beside the repository. Every packet is there as far as
//! its file can be read.
#![allow(clippy::disallowed_methods, reason = "tests read captures that other people made")]

use std::fs;
use std::path::{Path, PathBuf};
use wire::eth::{self, Ethernet};

/// Their files; `None` if there are none.
pub fn captures() -> Option<Vec<PathBuf>> {
    let shared = std::env::var_os("RAVELIN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let mut files = Vec::new();
    let mut folders = vec![shared.join("captures")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).ok()? {
            let path = entry.ok()?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Some(files)
}

/// Numbers of a capture file in its byte order.
struct Order {
    big: bool,
}

impl Order {
    fn u32(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let field = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.big { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) } as usize)
    }
}

/// (link type, packet) of a pcap file, as far as it can be read.
fn pcap(file: &[u8], order: &Order) -> Vec<(usize, Vec<u8>)> {
    let mut packets = Vec::new();
    let Some(link) = order.u32(file, 20) else { return packets };
    let mut at = 24;
    while let Some(len) = order.u32(file, at + 8) {
        let Some(packet) = file.get(at + 16..at + 16 + len) else { break };
        packets.push((link & 0xffff, packet.to_vec()));
        at += 16 + len;
    }
    packets
}

/// The same of a pcapng file: enhanced and simple packet blocks.
fn pcapng(file: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut packets = Vec::new();
    let mut order = Order { big: false };
    let mut links = Vec::new();
    let mut at = 0;
    while at + 12 <= file.len() {
        if file[at..at + 4] == [0x0a, 0x0d, 0x0d, 0x0a] {
            order.big = file[at + 8..at + 12] == [0x1a, 0x2b, 0x3c, 0x4d];
            links.clear();
        }
        let (Some(kind), Some(len)) = (order.u32(file, at), order.u32(file, at + 4)) else { break };
        let Some(block) = file.get(at..at + len).filter(|_| len >= 12) else { break };
        match kind {
            1 => links.push(order.u32(block, 8).unwrap_or(0) & 0xffff),
            3 => {
                let (link, data) = (links.first().copied(), block.get(12..len - 4));
                if let (Some(link), Some(data)) = (link, data) {
                    packets.push((link, data.to_vec()));
                }
            }
            6 => {
                let link = order.u32(block, 8).and_then(|i| links.get(i)).copied();
                let data = order.u32(block, 20).and_then(|n| block.get(28..28 + n));
                if let (Some(link), Some(data)) = (link, data) {
                    packets.push((link, data.to_vec()));
                }
            }
            _ => {}
        }
        at += len;
    }
    packets
}

/// (link type, frame) of each packet of a file.
pub fn read(path: &Path) -> Vec<(usize, Vec<u8>)> {
    let file = fs::read(path).unwrap();
    match file.get(..4) {
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => pcap(&file, &Order { big: false }),
        Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]) => pcap(&file, &Order { big: true }),
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(&file),
        _ => Vec::new(),
    }
}

/// The IP packet in a frame of a known link type.
pub fn ip_packet(link: usize, frame: &[u8]) -> Option<&[u8]> {
    let at = match link {
        1 => {
            let view = Ethernet::new_checked(frame).ok()?;
            [eth::IPV4, eth::IPV6].contains(&view.ethertype()).then(|| view.header_len())?
        }
        0 => 4,
        101 | 228 | 229 => 0,
        113 => match frame.get(14..16)? {
            [0x08, 0x00] | [0x86, 0xdd] => 16,
            _ => return None,
        },
        _ => return None,
    };
    frame.get(at..)
}
