//! Tables of settings: what is read, and which faults are reported where; and the ring of what rules met.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use scrub::{Arrival, Config, Mode, Profile, Protect, Rule, Scrubber, Side};
use wire::{Buf, Gso, Time};

use super::LineSettings;
use config::ConfigError;
use documents::scrub_record::{Head, KEPT, Ring};

fn parse(text: &str) -> Result<LineSettings, String> {
    LineSettings::parse(Path::new("/etc/ravelin/inline.toml"), text).map_err(|error| match error {
        ConfigError::Bad(report) => report.to_string(),
        other => panic!("{other}"),
    })
}

const SIDES: &str = "outside = \"eth0\"\ninside = \"eth1\"\n";

#[test]
fn the_shortest_file_takes_every_default() {
    let settings = parse(SIDES).unwrap();
    assert_eq!((settings.instance.as_str(), settings.interfaces), ("main", ["eth0".into(), "eth1".into()]));
    assert_eq!((settings.profile, settings.ethertypes), (Profile::Standard, vec![0x0806]));
    assert_eq!(settings.control_socket, Path::new("/run/ravelin-inline/main/control.sock"));
    assert_eq!(settings.scrub.flows, Config::new(Profile::Standard).flows);
    assert!((1..=8).contains(&settings.workers) && settings.mtu.is_none() && !settings.bare);
}

#[test]
fn every_key_is_read() {
    let text = format!(
        "{SIDES}instance = \"lan\"\nprofile = \"strict\"\nprotect = \"both\"\nmidstream = \"pick-up\"\nurgent = \"drop\"\nworkers = 3\n\
         ethertypes = [\"arp\", 0x88cc]\nlog = \"warn\"\n[rules]\n\"Q.8\" = \"observe\"\ntcp_small_segments = \"off\"\n\
         [packets]\nmtu = 9000\nmss = 1400\nttl = 4\nflow_labels = true\nfast_open = true\nsanctioned = [\"192.0.2.0/24=198.51.100.7\"]\nprotocols = [2, 103]\nipv6_options = [49]\ntcp_options = [30]\n\
         [limits]\nconnections = 3000\nhalf_open = 300\nhalf_open_per_source = 30\nhandshake = 5\nidle = 600\nclosing = 60\nsessions = 900\n\
         sessions_per_source = 90\nsession_idle = 120\nstore = 6291456\nbeyond_hole = 8192\npieces = 16\nfragmented_packets = 30\n\
         fragment_octets = 1048576\nfragment_timeout = 7\n"
    );
    let settings = parse(&text).unwrap();
    assert_eq!(settings.control_socket, Path::new("/run/ravelin-inline/lan/control.sock"));
    assert_eq!((settings.workers, settings.ethertypes.as_slice()), (3, &[0x0806, 0x88cc][..]));
    // A worker has its share.
    let share = settings.share([1500, 1500]);
    assert_eq!((share.flows.established, share.flows.half_open), (1000, 100));
    assert_eq!(
        (share.flows.half_open_per_source, share.sessions.count, share.sessions.per_source),
        (30, 300, 90)
    );
    assert_eq!((share.store.memory, share.store.beyond_hole, share.store.pieces), (2 << 20, 8192, 16));
    assert_eq!((share.fragments.datagrams, share.fragments.timeout), (10, Duration::from_secs(7)));
    assert_eq!(
        (share.flows.handshake, share.flows.closing),
        (Duration::from_secs(5), Duration::from_secs(60))
    );
    assert_eq!((share.mtu, share.max_segment, share.least_ttl), ([9000; 2], Some(1400), 4));
    assert_eq!((share.mode(Rule::FirstWins), share.mode(Rule::SmallSegments)), (Mode::Observe, Mode::Off));
    assert_eq!((share.protect, share.sanctioned.len()), (Protect::Both, 1));
    let has = |set: scrub::Octets, values: [u8; 3]| values.map(|value| set.contains(value));
    assert_eq!(has(share.protocols, [2, 6, 47]), [true, true, false]);
    assert_eq!(has(share.ipv6_options, [5, 49, 4]), [true, true, false]);
    assert_eq!(has(share.tcp_options, [30, 31, 0]), [true, false, false]);
    assert_eq!(parse(SIDES).unwrap().share([1400, 9000]).mtu, [1400, 9000]);
}

#[test]
fn faults_are_reported_where_they_are() {
    for (lines, says) in [
        ("profile = \"strickt\"", "/etc/ravelin/inline.toml:3:11: error: `profile` has no value \"strickt\""),
        ("profile = \"none\"", "use one of: observe, minimal, standard, strict"),
        ("ethertypes = [\"ipv4\"]", "no type of frame is called \"ipv4\""),
        ("ethertypes = [0x0800]", "0x0800 cannot pass unscrubbed"),
        ("ethertypes = [0x8100]", "0x8100 cannot pass unscrubbed"),
        ("ethertypes = 3", "must be a list"),
        ("workers = 0", "from 1 to 64"),
        ("[rules]\n\"T.1\" = \"off\"", ":4:"),
        ("[rules]\ntcp_first_win = \"on\"", "did you mean tcp_first_wins?"),
        ("[packets]\nmtu = 1000", "from 1280 to 65535"),
        ("[packets]\nprotocols = [256]", "from 0 to 255"),
        ("[packets]\nsanctioned = [\"192.0.2.0/24\"]", "not two networks"),
        ("[limits]\nconections = 3", "did you mean `connections`?"),
        ("policy = \"p\"", "unknown key `policy`"),
    ] {
        let report = parse(&format!("{SIDES}{lines}\n")).unwrap_err();
        assert!(report.contains(says), "{lines}:\n{report}");
        assert!(report.contains("help: "), "{report}");
    }
    let report = parse("").unwrap_err();
    assert!(report.contains("`outside` is missing") && report.contains("`inside` is missing"), "{report}");
    assert!(parse("outside = \"a\"\ninside = \"a\"\n").unwrap_err().contains("are one interface"));
}

/// A datagram with the reserved flag set.
fn evil(len: usize) -> Vec<u8> {
    let udp = len - 20;
    let mut out = vec![0x45, 0, 0, 0, 0, 1, 0x80, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    out[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let sum = !wire::checksum::fold(wire::checksum::sum(&out));
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend([0x15, 0xb3, 0, 9, (udp >> 8) as u8, udp as u8, 0, 0]);
    out.resize(len, b'x');
    out
}

#[test]
fn the_ring_tells_what_came_and_went_and_is_bounded() {
    let mut scrubber = Scrubber::new(Config::new(Profile::Standard), [1; 16]);
    let mut ring = Ring::new(3, Arc::new(AtomicU64::new(0)));
    let arrival = Arrival { from: Side::Outside, link: 0, realm: 0 };
    for second in 0..3 {
        for _ in 0..700 {
            let came = evil(1000);
            let mut buf = Buf::from_slice(&came, 64, 64);
            let now = Time::from_secs(10 + second);
            let verdict = scrubber.process(now, arrival, &mut buf, &mut Gso::default());
            ring.note(now, Side::Outside, verdict, &Head::of(&came), Some(buf.as_slice()));
        }
    }
    let all = ring.since(0, usize::MAX, &|_| true);
    assert_eq!((all.len(), ring.unrecorded), (KEPT, 0));
    assert_eq!(
        all.iter().map(|event| event.explained.line.index).collect::<Vec<_>>(),
        (1077..=2100).collect::<Vec<_>>()
    );
    let last = &all[KEPT - 1];
    assert_eq!(
        (last.worker, last.octets, last.explained.line.acted.as_slice()),
        (3, 1000, &["4.5".to_owned(), "U.1".into()][..])
    );
    let fields: Vec<&str> =
        last.explained.line.changes.iter().flat_map(|c| c.fields.iter().map(String::as_str)).collect();
    assert!(fields.contains(&"ip.flags_and_offset"), "{fields:?}");
    assert!(last.explained.decoded.contains("udp 5555 -> 9"), "{}", last.explained.decoded);
    assert!(last.explained.came.len() < 1000 && !last.explained.rules.is_empty());
    assert_eq!(ring.since(2090, 4, &|_| true).len(), 4);
    // Too many in one second are counted.
    let came = evil(100);
    let mut buf = Buf::from_slice(&came, 64, 64);
    let verdict = scrubber.process(Time::from_secs(20), arrival, &mut buf, &mut Gso::default());
    (0..1500).for_each(|_| ring.note(Time::from_secs(20), Side::Outside, verdict, &Head::of(&came), None));
    assert_eq!(ring.unrecorded, 500);
}
