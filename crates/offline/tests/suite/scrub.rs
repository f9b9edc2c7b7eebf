//! Captures through the offline scrubber: what comes out is a capture, scrubbing it again changes nothing, observing changes nothing.

use crate::scrub_kit;

use api::{ScrubReason, ScrubSummary, ScrubVerdict};
use lab::Corpus;
use netio::pcap::LinkType;
use offline::scrub::{Profile, Settings};
use scrub_kit::{Packet, pcap, read, scrub, scrub_with, tcp, udp};
use wire::tcp::Flags;

const PROFILES: [Profile; 4] = Profile::ALL;

/// Every capture file of tcpdump's tests with its name, or none if they are not there.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let Some(corpus) = Corpus::tcpdump() else { return Vec::new() };
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some((name, std::fs::read(path).ok()?))
    };
    let files: Vec<_> = corpus.files().iter().filter_map(read).collect();
    assert!(files.len() > 500, "the corpus has {} files", files.len());
    files
}

#[test]
fn any_capture_gives_a_capture_and_scrubbing_it_again_changes_nothing() {
    let mut faults = Vec::new();
    for (name, octets) in corpus() {
        for profile in PROFILES {
            let Some((once, summary)) = scrub_with(&octets, Settings::new(profile)) else { continue };
            let frames = read(&once);
            assert_eq!(frames.len() as u64, summary.written, "{name} {profile:?}");
            let (twice, again) = scrub_with(&once, Settings::new(profile)).expect("the output is a capture");
            assert_eq!(again.broken, None, "{name} {profile:?}");
            if once != twice {
                let pairs = read(&twice).into_iter().zip(&frames).position(|(a, b)| a != *b);
                faults.push(format!("{name} {}: frame {:?}", profile.name(), pairs.map(|at| at + 1)));
            }
        }
    }
    assert!(faults.is_empty(), "{} are not as they were:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn observing_changes_no_packet_of_any_capture() {
    let mut faults = Vec::new();
    for (name, octets) in corpus() {
        let Some((out, summary)) = scrub_with(&octets, Settings::new(Profile::Observe)) else { continue };
        let (before, after) = (read(&octets), read(&out));
        if before != after {
            let at = before.iter().zip(&after).position(|(a, b)| a != b);
            faults.push(format!(
                "{name}: frame {:?} of {} and {}",
                at.map(|at| at + 1),
                before.len(),
                after.len()
            ));
        }
        if (summary.dropped, summary.changed, summary.emitted) != (0, 0, 0) {
            faults.push(format!("{name}: {summary:?}"));
        }
    }
    assert!(faults.is_empty(), "{} are not as they were:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn an_empty_capture_stays_empty_and_garbage_is_refused() {
    let empty = pcap(LinkType::Ethernet, &[]);
    let (out, summary) = scrub(&empty);
    assert_eq!((read(&out).len(), summary), (0, ScrubSummary::default()));
    assert!(scrub_with(b"", Settings::new(Profile::Standard)).is_none());
    assert!(scrub_with(&[0x55; 4096], Settings::new(Profile::Standard)).is_none());
}

#[test]
fn a_file_that_breaks_off_gives_what_comes_before() {
    let whole = pcap(LinkType::Raw, &[udp(1, b"one"), udp(2, b"two")]);
    for cut in 1..43 {
        let (out, summary) = scrub(&whole[..whole.len() - cut]);
        assert_eq!(read(&out).len(), 1, "{cut} octets less");
        assert!(summary.broken.unwrap().contains("behind frame 1"));
    }
}

#[test]
fn link_headers_stay_and_the_packet_in_them_is_scrubbed() {
    let mut tagged = vec![0x02; 12];
    tagged.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x08, 0]);
    let mut cooked = vec![0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0];
    cooked.extend([0x08, 0]);
    let cooked2 = [vec![8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 2, 2, 2, 2, 2, 0, 0]].concat();
    let headers = [
        (LinkType::Raw, Vec::new()),
        (LinkType::Ipv4, Vec::new()),
        (LinkType::Null, vec![2, 0, 0, 0]),
        (LinkType::Ethernet, [vec![0x02; 12], vec![0x08, 0]].concat()),
        (LinkType::Ethernet, tagged),
        (LinkType::LinuxSll, cooked),
        (LinkType::LinuxSll2, cooked2),
    ];
    for (link, header) in headers {
        // A reset with data: rule T.7 cuts them, Q.1 drops it where nothing was opened.
        let syn = tcp(1, Flags::SYN, 100, b"");
        let null = tcp(2, Flags(0), 101, b"x");
        let frames: Vec<Packet> = [syn.clone(), null].map(|p| p.behind(&header)).into();
        let (out, summary) = scrub(&pcap(link, &frames));
        let out = read(&out);
        assert_eq!((out.len(), summary.dropped), (1, 1), "{link:?} {summary:?}");
        assert_eq!(out[0].data, [&header[..], &syn.octets].concat(), "{link:?}");
        assert_eq!(
            summary.rules.iter().map(|r| (r.id.as_str(), r.dropped)).collect::<Vec<_>>(),
            [("T.5", 1)]
        );
    }
}

/// pcapng by the draft's letter (draft-ietf-opsawg-pcapng sections 3 and 4), in either octet order: sections, interfaces, packets with
/// options, a block that nobody knows.
#[derive(Default)]
struct Ng {
    big: bool,
    octets: Vec<u8>,
}

impl Ng {
    fn u16(&self, number: u16) -> [u8; 2] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn u32(&self, number: u32) -> [u8; 4] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let len = self.u32(12 + body.len() as u32);
        self.octets.extend(self.u32(kind));
        self.octets.extend(len);
        self.octets.extend_from_slice(body);
        self.octets.extend(len);
    }

    fn section(&mut self) {
        let version =
            [self.u32(0x1a2b_3c4d).to_vec(), self.u16(1).to_vec(), self.u16(0).to_vec(), vec![0xff; 8]];
        self.block(0x0a0d_0d0a, &version.concat());
    }

    /// Write an interface block whose timestamps have nanoseconds.
    fn interface(&mut self, link: u16) {
        let resolution = [self.u16(9).to_vec(), self.u16(1).to_vec(), vec![9, 0, 0, 0], vec![0; 4]].concat();
        let body = [self.u16(link).to_vec(), vec![0; 2], self.u32(262_144).to_vec(), resolution].concat();
        self.block(1, &body);
    }

    fn packet(&mut self, interface: u32, at: u64, data: &[u8]) {
        let comment =
            [self.u16(1).to_vec(), self.u16(6).to_vec(), b"noted\0\0\0".to_vec(), vec![0; 4]].concat();
        let len = self.u32(data.len() as u32);
        let (high, low) = (self.u32((at >> 32) as u32), self.u32(at as u32));
        let mut body = [self.u32(interface), high, low, len, len].concat();
        body.extend_from_slice(data);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(comment);
        self.block(6, &body);
    }
}

#[test]
fn pcapng_of_either_octet_order_stays_what_it_was_but_for_what_a_rule_changes() {
    let second = 1_700_000_000_000_000_000_u64;
    let talk = [
        tcp(1, Flags::SYN, 99, b""),
        tcp(2, Flags(Flags::SYN.0 | Flags::ACK.0), 499, b"").turned(100),
        tcp(3, Flags::ACK, 100, b"attack").acknowledging(500),
        tcp(4, Flags::ACK, 100, b"benign").acknowledging(500),
    ];
    for orders in [vec![false], vec![true], vec![true, false], vec![false, true]] {
        let file = |of_last: &Packet| {
            let mut octets = Vec::new();
            for big in &orders {
                let mut ng = Ng { big: *big, octets: std::mem::take(&mut octets) };
                ng.section();
                ng.interface(101);
                ng.interface(1);
                ng.block(0x0bad_cafe, b"whatever");
                for (at, packet) in talk[..3].iter().chain([of_last]).enumerate() {
                    let header: &[u8] =
                        if at % 2 == 0 { &[] } else { &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 8, 0] };
                    let data = [header, &packet.octets].concat();
                    ng.packet((at % 2) as u32, second + at as u64, &data);
                }
                octets = ng.octets;
            }
            octets
        };
        let (out, summary) = scrub(&file(&talk[3]));
        assert_eq!(summary.broken, None, "{orders:?}");
        assert_eq!(read(&out).len() as u64, summary.written, "{orders:?}");
        let magics = out.windows(4).filter_map(|four| match four {
            [0x1a, 0x2b, 0x3c, 0x4d] => Some(true),
            [0x4d, 0x3c, 0x2b, 0x1a] => Some(false),
            _ => None,
        });
        assert_eq!(magics.collect::<Vec<_>>(), orders);
        if orders.len() == 1 {
            let mut clean = talk[2].clone();
            clean.octets.copy_from_slice(&read(&out)[3].data[14..]);
            assert!(clean.octets.ends_with(b"attack"));
            assert!(out == file(&clean), "{orders:?}");
        }
    }
}

#[test]
fn what_is_no_ip_passes_unless_only_ip_is_wanted() {
    let arp = Packet::at(1, [&[0xff; 12][..], &[0x08, 0x06, 0, 1]].concat());
    let short = Packet::at(2, vec![1, 2, 3]);
    let nothing = Packet::at(3, Vec::new());
    let capture = pcap(LinkType::Ethernet, &[arp, short, nothing]);
    let (out, summary) = scrub(&capture);
    assert_eq!((read(&out), summary.not_ip, summary.dropped), (read(&capture), 3, 0));
    let mut settings = Settings::new(Profile::Standard);
    settings.ip_only = true;
    let (out, summary) = scrub_with(&capture, settings).unwrap();
    assert_eq!((read(&out).len(), summary.not_ip, summary.dropped), (0, 3, 3));
    let (_, summary) = scrub(&pcap(LinkType::Other(147), &[udp(1, b"x")]));
    assert_eq!((summary.unscrubbed_ip, summary.written), (1, 1), "a link type that may carry IP");
    let (_, summary) = scrub(&pcap(LinkType::Other(227), &[udp(1, b"x")]));
    assert_eq!((summary.not_ip, summary.written), (1, 1), "one that carries none");
}

#[test]
fn a_link_header_that_contradicts_the_packet_is_no_way_past() {
    let header = [vec![0x02; 12], vec![0x86, 0xdd]].concat();
    let capture = pcap(LinkType::Ethernet, &[udp(1, b"x").behind(&header)]);
    let (out, summary) = scrub(&capture);
    assert_eq!((read(&out).len(), summary.ip_version, summary.dropped), (0, 1, 1));
    // Neither is a version that nobody knows.
    let mut strange = udp(1, b"x").behind(&[vec![0x02; 12], vec![0x08, 0]].concat());
    strange.octets[14] = 0x95;
    let (out, summary) = scrub(&pcap(LinkType::Ethernet, &[strange]));
    assert_eq!((read(&out).len(), summary.not_ip, summary.dropped), (0, 0, 1), "{summary:?}");
}

#[test]
fn packets_that_the_capture_cut_off_are_not_judged() {
    let mut cut = udp(1, &[7; 500]);
    cut.octets.truncate(24);
    let capture = pcap(LinkType::Raw, &[cut]);
    let mut lines = Vec::new();
    let (out, summary) =
        scrub_kit::scrub_lines(&capture, Settings::new(Profile::Standard), &mut |line| lines.push(line))
            .unwrap();
    assert_eq!((read(&out).len(), summary.truncated_by_capture, summary.dropped), (0, 1, 1));
    assert_eq!(lines[0].reason, Some(ScrubReason::TruncatedByCapture));
    assert!(summary.hints[0].contains("--keep-truncated"));
    let mut settings = Settings::new(Profile::Standard);
    settings.keep_truncated = true;
    let (out, summary) = scrub_with(&capture, settings).unwrap();
    assert_eq!((read(&out), summary.dropped), (read(&capture), 0));
    // What was cut off behind the packet is nothing that is missed.
    let mut padding = udp(1, b"x");
    padding.len += 20;
    let (out, _) = scrub(&pcap(LinkType::Raw, &[padding]));
    assert_eq!(read(&out).len(), 1);
}

#[test]
fn zeros_that_fill_a_frame_up_are_cut_and_change_no_packet() {
    let header = [vec![0x02; 12], vec![0x08, 0]].concat();
    let mut padded = udp(1, b"x").behind(&header);
    padded.octets.resize(60, 0);
    padded.len = 60;
    let capture = pcap(LinkType::Ethernet, &[padded.clone()]);
    let (out, summary) = scrub(&capture);
    let whole = 14 + 20 + 8 + 1;
    assert_eq!((read(&out)[0].data.as_slice(), summary.changed), (&padded.octets[..whole], 0));
    let mut ttl = Settings::new(Profile::Standard);
    ttl.config.least_ttl = 200;
    let (out, _) = scrub_with(&capture, ttl).unwrap();
    assert_eq!(read(&out)[0].data.len(), whole);
    // Who only looks changes no frame.
    let (out, _) = scrub_with(&capture, Settings::new(Profile::Observe)).unwrap();
    assert_eq!(read(&out), read(&capture));
}

#[test]
fn a_time_that_goes_back_breaks_nothing() {
    let packets: Vec<Packet> = [5, 4, 9, 1, 7].iter().map(|second| udp(*second, b"tick")).collect();
    let capture = pcap(LinkType::Raw, &packets);
    let (out, _) = scrub(&capture);
    let times = |octets: &[u8]| read(octets).iter().map(|f| f.time).collect::<Vec<_>>();
    assert_eq!(times(&out), times(&capture));
}

#[test]
fn the_longest_packets_are_taken() {
    let longest = udp(1, &vec![3; 65535 - 28]);
    assert_eq!(longest.octets.len(), 65535);
    let capture = pcap(LinkType::Raw, &[longest]);
    for profile in PROFILES {
        let (once, summary) = scrub_with(&capture, Settings::new(profile)).unwrap();
        assert_eq!(summary.packets, 1);
        assert_eq!(scrub_with(&once, Settings::new(profile)).unwrap().0, once, "{profile:?}");
    }
}

#[test]
fn a_connection_whose_start_is_missing_is_dropped_or_picked_up() {
    let capture = pcap(LinkType::Raw, &[tcp(1, Flags::ACK, 100, b"data")]);
    let (out, summary) = scrub(&capture);
    assert_eq!((read(&out).len(), summary.dropped), (0, 1));
    assert!(summary.hints.iter().any(|hint| hint.contains("--midstream pick-up")), "{summary:?}");
    let mut settings = Settings::new(Profile::Standard);
    settings.config.midstream = offline::scrub::Midstream::PickUp;
    let (out, _) = scrub_with(&capture, settings).unwrap();
    assert_eq!(read(&out).len(), 1);
}

#[test]
fn a_second_copy_with_other_octets_is_rewritten_and_the_line_says_so() {
    let capture = pcap(
        LinkType::Raw,
        &[
            tcp(1, Flags::SYN, 99, b""),
            tcp(2, Flags(Flags::SYN.0 | Flags::ACK.0), 499, b"").turned(100),
            tcp(3, Flags::ACK, 100, b"attack").acknowledging(500),
            tcp(4, Flags::ACK, 100, b"benign").acknowledging(500),
        ],
    );
    let mut lines = Vec::new();
    let (out, summary) =
        scrub_kit::scrub_lines(&capture, Settings::new(Profile::Standard), &mut |line| lines.push(line))
            .unwrap();
    assert_eq!((summary.forwarded, summary.changed), (4, 1), "{summary:?}");
    assert!(read(&out)[3].data.ends_with(b"attack"));
    let line = &lines[3];
    assert_eq!((line.verdict, line.acted.as_slice()), (ScrubVerdict::Forward, &["Q.8".to_owned()][..]));
    let fields: Vec<_> = line.changes.iter().flat_map(|change| &change.fields).collect();
    assert_eq!(fields.first().map(|f| f.as_str()), Some("tcp.checksum"), "{line:?}");
    assert_eq!(fields.last().map(|f| f.as_str()), Some("payload"));
    assert!(lines[..3].iter().all(|line| line.acted.is_empty()));
}
