//! Capture files: our own, and those of other people's test suites.

use netio::pcap::{Frame, LinkType, Reader, Writer};
use proptest::prelude::*;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn frame(nanos: u64, data: &[u8]) -> Frame {
    Frame {
        time: Duration::from_nanos(nanos),
        link: LinkType::Raw,
        data: data.to_vec(),
        original_len: data.len() as u32,
    }
}

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut writer = Writer::new("memory", Vec::new(), LinkType::Raw).unwrap();
    for frame in frames {
        writer.write_frame(frame).unwrap();
    }
    writer.finish().unwrap()
}

fn read(octets: Vec<u8>) -> netio::Result<Vec<Frame>> {
    Reader::new("memory", Cursor::new(octets))?.collect()
}

#[test]
fn what_is_written_is_read_to_the_nanosecond() {
    let frames =
        [frame(1_700_000_000_123_456_789, &[0x45, 1, 2]), frame(0, &[]), frame(999_999_999, &[0x60; 3000])];
    assert_eq!(read(written(&frames)).unwrap(), frames);
    let path = std::env::temp_dir().join(format!("netio-pcap-{}.pcap", std::process::id()));
    let mut writer = Writer::create(&path).unwrap();
    writer.write_frame(&frames[0]).unwrap();
    let wrong = Frame { link: LinkType::Ethernet, ..frames[0].clone() };
    assert!(writer.write_frame(&wrong).unwrap_err().to_string().contains("Ethernet"));
    writer.finish().unwrap();
    let back: Vec<_> = Reader::open(&path).unwrap().map(Result::unwrap).collect();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(back, frames[..1]);
}

#[test]
fn microseconds_and_the_other_byte_order() {
    let header = |magic: u32| {
        let mut out = magic.to_be_bytes().to_vec();
        out.extend([0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 101]);
        out.extend([0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 60, 0x45]);
        out
    };
    for (magic, nanos) in [(0xa1b2_c3d4_u32, 9000), (0xa1b2_3c4d, 9)] {
        let frames = read(header(magic)).unwrap();
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].time, Duration::new(7, nanos));
        assert_eq!((frames[0].original_len, frames[0].is_whole()), (60, false));
        assert_eq!(frames[0].ip(), Some(&[0x45][..]));
    }
}

/// A section, one interface with nanosecond timestamps (if_tsresol 9), one enhanced packet block.
#[test]
fn pcapng_honours_the_resolution_of_its_interface() {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let len = (12 + body.len()) as u32;
        file.extend(kind.to_le_bytes());
        file.extend(len.to_le_bytes());
        file.extend(body);
        file.extend(len.to_le_bytes());
    };
    let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    block(0x0a0d_0d0a, &section);
    let interface = [101, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    block(1, &interface);
    let stamp = 1_700_000_000_123_456_789_u64;
    let mut packet = 0u32.to_le_bytes().to_vec();
    packet.extend(((stamp >> 32) as u32).to_le_bytes());
    packet.extend((stamp as u32).to_le_bytes());
    packet.extend([3, 0, 0, 0, 3, 0, 0, 0, 0x45, 1, 2, 0]);
    block(6, &packet);
    assert_eq!(read(file).unwrap(), [frame(stamp, &[0x45, 1, 2])]);
}

#[test]
fn a_cut_file_gives_its_frames_and_then_an_error() {
    let mut octets = written(&[frame(1, &[0x45; 40]), frame(2, &[0x45; 40])]);
    octets.truncate(octets.len() - 5);
    let mut reader = Reader::new("cut.pcap", Cursor::new(octets)).unwrap();
    assert!(reader.next_frame().unwrap().is_some());
    let error = reader.next_frame().unwrap_err().to_string();
    assert!(error.starts_with("cut.pcap is broken behind frame 1"), "{error}");
    assert!(reader.next_frame().unwrap().is_none(), "it has ended");
}

#[test]
fn other_files_are_refused_with_a_remedy() {
    for octets in
        [&b"GET / HTTP/1.1\r\n\r\n and more than a header's worth"[..], b"\x0a\x0d\x0d\x0atoo short", b"abc"]
    {
        let error = Reader::new("notes.txt", Cursor::new(octets.to_vec())).unwrap_err().to_string();
        assert!(error.contains("notes.txt"), "{error}");
    }
    assert!(Reader::open(Path::new("/nonexistent/file.pcap")).is_err());
}

/// Captures of tcpdump's test suite, many of them malformed on purpose.
#[test]
fn every_capture_of_others_is_read_or_refused() {
    let Some(folder) = shared("captures/tcpdump-tests") else { return };
    let (mut files, mut frames, mut with_ip, mut broken) = (0, 0, 0, Vec::new());
    let mut without = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".pcap") && !name.ends_with(".pcapng") {
            continue;
        }
        files += 1;
        let reader = match Reader::open(&path) {
            Ok(reader) => reader,
            Err(e) => {
                broken.push(format!("{name}: {e}"));
                continue;
            }
        };
        for answer in reader {
            match answer {
                Ok(frame) => {
                    frames += 1;
                    match frame.ip() {
                        Some(_) => with_ip += 1,
                        None => *without.entry(format!("{:?}", frame.link)).or_insert(0) += 1,
                    }
                }
                Err(e) => broken.push(format!("{name}: {e}")),
            }
        }
    }
    println!("{files} files, {frames} frames, {with_ip} with IP, without: {without:?}; broken: {broken:#?}");
    assert!(files > 500 && frames > 5_000 && with_ip > 2_500, "{files} {frames} {with_ip}");
    assert!(broken.len() < files / 20, "{broken:#?}");
}

/// The folder of shared material; prints why it is skipped if there is none.
fn shared(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("RAVELIN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join(part);
    if !path.is_dir() {
        println!("skipped: {} is not there (set RAVELIN_SHARED)", path.display());
        return None;
    }
    Some(path)
}

proptest! {
    #[test]
    fn any_octets_behind_any_magic_are_survived(
        magic in prop::sample::select(vec![[0xa1, 0xb2, 0xc3, 0xd4], [0x4d, 0x3c, 0xb2, 0xa1], [0x0a, 0x0d, 0x0d, 0x0a]]),
        octets in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let _ = read([&magic[..], &octets].concat());
    }

    #[test]
    fn a_changed_octet_is_survived(at in 0usize..200, octet: u8) {
        let mut octets = written(&[frame(1, &[0x45; 40]), frame(2, &[0x60; 60])]);
        if let Some(place) = octets.get_mut(at) {
            *place = octet;
        }
        let _ = read(octets);
    }
}
