//! Capture files as `ravelin replay` reads them: frames out of the file's own octets, or an error behind those that were whole;
//! and what is read and written again, as pcap and as pcapng, reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netio::pcap::{Frame, Interface, LinkType, NgWriter, Note, Reader, Writer};
use std::io::Cursor;
use std::time::Duration;

/// The pcapng format has nanoseconds of 64 bits.
const NG_END: Duration = Duration::from_nanos(u64::MAX);

fuzz_target!(|bytes: &[u8]| {
    let Some((frames, whole)) = read(bytes) else { return };
    let kept: usize = frames.iter().map(|frame| frame.data.len()).sum();
    assert!(kept <= bytes.len(), "{kept} octets from {}", bytes.len());
    for frame in &frames {
        if let Some(ip) = frame.ip() {
            assert!(frame.data.ends_with(ip) && matches!(ip[0] >> 4, 4 | 6));
        }
        assert_eq!(LinkType::from_number(frame.link.number()), frame.link);
        let _ = (frame.clock(), frame.is_whole());
    }
    // A file that breaks off later has the same frames up to there.
    let (before, _) = read(&[bytes, &[0xff; 3]].concat()).expect("its head is the same");
    assert!(before.len() >= frames.len() && (!whole || before[..frames.len()] == frames));

    let mut links: Vec<LinkType> = frames.iter().map(|frame| frame.link).collect();
    links.dedup();
    for link in links {
        let of_link = |frame: &&Frame| frame.link == link;
        // pcap ends in 2106.
        let in_time = |frame: &&Frame| frame.time.as_secs() <= u64::from(u32::MAX);
        let mut file = Writer::new("again", Vec::new(), link).expect("memory takes everything");
        let wanted: Vec<&Frame> = frames.iter().filter(of_link).filter(in_time).collect();
        wanted.iter().for_each(|frame| file.write_frame(frame).expect("of this type"));
        check(&file.finish().expect("memory"), &wanted);

        let all = Interface { name: "all", description: "", link, snaplen: 0 };
        let mut file = NgWriter::new("again", Vec::new(), "fuzz", &[all]).expect("memory");
        let wanted: Vec<Frame> =
            frames.iter().filter(of_link).filter(|frame| frame.time <= NG_END).cloned().map(longer).collect();
        for Frame { time, data, original_len, .. } in &wanted {
            let comment = "with a word about it";
            let note =
                Note { interface: 0, time: *time, inbound: true, comment, original_len: *original_len };
            file.packet(&note, data).expect("memory");
        }
        check(file.sink_mut(), &wanted.iter().collect::<Vec<_>>());
    }
});

/// A frame is at least as long as what was kept of it.
fn longer(mut frame: Frame) -> Frame {
    frame.original_len = frame.original_len.max(frame.data.len() as u32);
    frame
}

fn check(file: &[u8], wanted: &[&Frame]) {
    let (again, whole) = read(file).expect("a capture file");
    assert!(whole && again.iter().eq(wanted.iter().copied()), "{again:?} instead of {wanted:?}");
}

/// The frames, and whether the file ended behind the last of them; `None`: it is no capture file.
fn read(bytes: &[u8]) -> Option<(Vec<Frame>, bool)> {
    let mut reader = Reader::new("fuzz", Cursor::new(bytes.to_vec())).ok()?;
    let mut frames = Vec::new();
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return Some((frames, true)),
            Err(error) => {
                let place = format!("behind frame {}:", frames.len());
                assert!(error.to_string().contains(&place), "{error}");
                assert!(matches!(reader.next_frame(), Ok(None)), "after an error the file has ended");
                return Some((frames, false));
            }
        }
    }
}
