//! The offline door as a library: out and in again for every suite there is, rules, files of setkey, and captures that nobody
//! here made.

use crate::replay_kit;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use api::{ReplayDirection, ReplayVerdict};
use crypto::{Integrity, Secret, SuiteId};
use netio::pcap::Reader;
use offline::replay::{EngineOptions, HalfChoice};
use replay_kit::{Line, datagram, hosts, inner_hosts, ip, replay, same, step, there_and_back, with_legacy};

#[test]
fn every_suite_mode_family_and_encapsulation_there_and_back() {
    let (mut count, mut legacy) = (0, 0);
    for suite in SuiteId::all() {
        for (v6, inner_v6) in [(false, false), (false, true), (true, false), (true, true)] {
            for (mode, encapsulation) in
                ["transport", "tunnel", "beet"].into_iter().flat_map(|mode| [(mode, "udp"), (mode, "none")])
            {
                let mut line = Line::new(v6, mode, &suite.to_string(), suite.keymat_len());
                let mut ends = hosts(v6);
                if mode == "tunnel" {
                    ends = inner_hosts(inner_v6);
                    let selector = |line: Line, side, end: IpAddr| line.with(side, end.to_string());
                    line = selector(selector(line, "selector_local", ends.0), "selector_remote", ends.1);
                } else if v6 != inner_v6 {
                    continue;
                }
                let packet = datagram(ends, 443, &[0xa5; 100]);
                let name = format!("{suite} {mode} v6 {v6} inner v6 {inner_v6} {encapsulation}");
                let back =
                    there_and_back(&line.with("encapsulation", encapsulation), &packet, !suite.encrypts());
                assert!(same(&back.unwrap_or_else(|error| panic!("{name}: {error}")), &packet), "{name}");
                count += 1;
                legacy += u32::from(suite.is_legacy());
            }
        }
    }
    // Tunnel mode in four pairs of families, transport mode and BEET in two; in UDP and without.
    assert_eq!((count, legacy), (106 * 16, 24 * 16));
}

#[test]
fn every_integrity_algorithm_in_ah_there_and_back() {
    let key = |integrity: Integrity| Secret::new(vec![1; integrity.keymat_len()]);
    let offered = |integrity: &Integrity| with_legacy().authenticator(*integrity, &key(*integrity)).is_ok();
    let mut count = 0;
    for integrity in Integrity::ALL.iter().copied().filter(offered) {
        for (v6, mode) in [(false, "transport"), (true, "transport"), (false, "tunnel"), (true, "tunnel")] {
            let line = Line::new(v6, mode, integrity.name(), integrity.keymat_len()).with("type", "ah");
            let packet = datagram(hosts(v6), 443, &[0xa5; 100]);
            let back = there_and_back(&line, &packet, true);
            let back = back.unwrap_or_else(|error| panic!("{integrity:?} {mode}: {error}"));
            assert!(same(&back, &packet), "{integrity:?} {mode}");
            count += 1;
        }
    }
    assert_eq!(count, 10 * 4);
}

#[test]
fn extended_numbers_go_on_where_the_file_says() {
    let line = Line::new(false, "transport", "aes128gcm", 20).with("esn", true);
    let packet = datagram(hosts(false), 443, &[0x11; 40]);
    let options = EngineOptions::default();
    let sender = line.clone().with("sequence", 0x1_0000_0005u64).text("out");
    let (sealed, outer) = step(&mut replay(&options, &sender).unwrap(), &packet);
    assert_eq!(sealed.sequence, Some(0x1_0000_0005));
    for (highest, want) in [
        (0x1_0000_0004u64, Ok(0x1_0000_0005)),
        (0xffff_fff0, Ok(0x1_0000_0005)),
        (0x1_0000_0005, Err("replayed")),
        // From far below, the upper half is taken for zero, and the ICV is wrong.
        (0, Err("auth_failed")),
    ] {
        let receiver = line.clone().with("sequence", highest).text("in");
        let (opened, inner) = step(&mut replay(&options, &receiver).unwrap(), &outer[0]);
        match want {
            Ok(sequence) => {
                assert_eq!((opened.verdict, opened.sequence), (ReplayVerdict::Deliver, Some(sequence)));
                assert!(same(&inner[0], &packet));
            }
            Err(reason) => assert_eq!(opened.reason.as_deref(), Some(reason), "{highest:#x}"),
        }
    }
}

#[test]
fn without_policy_and_rules_the_selectors_of_associations_decide() {
    let line = Line::new(false, "tunnel", "aes256gcm", 36);
    let line = line.with("selector_local", "10.1.0.0/16").with("selector_remote", "10.2.0.0/16");
    let options = EngineOptions { hex: true, ..EngineOptions::default() };
    let mut alice = replay(&options, &line.text("out")).unwrap();
    let (covered, outer) = step(&mut alice, &datagram(inner_hosts(false), 443, b"inside"));
    assert_eq!((covered.verdict, covered.spd_rule), (ReplayVerdict::Protect, None));
    assert_eq!(covered.packets.len(), 1);
    assert_eq!(covered.packets[0].len(), 2 * outer[0].len());
    let clear = datagram(hosts(false), 443, b"elsewhere");
    let (other, written) = step(&mut alice, &clear);
    assert_eq!((other.verdict, &written[0]), (ReplayVerdict::Bypass, &clear));
}

#[test]
fn rules_of_the_file_decide_and_are_named() {
    let rules = "{\"rule\":{\"name\":\"web\",\"direction\":\"out\",\"selectors\":[\"remote-port 443\"],\"action\":\"protect\"}}\n\
         {\"rule\":{\"name\":\"dns\",\"selectors\":[\"remote-port 53\"],\"action\":\"bypass\"}}\n\
         {\"rule\":{\"name\":\"no\",\"selectors\":[\"remote-port 1-1023\"],\"action\":\"discard\"}}\n";
    let file = rules.to_owned() + &Line::new(false, "transport", "aes128gcm", 20).text("out");
    let mut alice = replay(&EngineOptions::default(), &file).unwrap();
    for (port, verdict, reason, rule) in [
        (443, ReplayVerdict::Protect, None, Some("web")),
        (53, ReplayVerdict::Bypass, None, Some("dns")),
        (80, ReplayVerdict::Drop, Some("rule_discard"), Some("no")),
        (8080, ReplayVerdict::Drop, Some("no_spd_entry"), None),
    ] {
        let (line, _) = step(&mut alice, &datagram(hosts(false), port, b"x"));
        assert_eq!((line.verdict, line.reason.as_deref(), line.spd_rule.as_deref()), (verdict, reason, rule));
    }
}

const SETKEY: &str = "# both hosts have this file\nflush; spdflush;\n\
    add 192.0.2.1 192.0.2.2 esp 0x1001 -m tunnel -E aes-gcm-16 0x000102030405060708090a0b0c0d0e0f10111213;\n\
    add 192.0.2.2 192.0.2.1 esp 0x1002 -m tunnel -E aes-gcm-16 0x100102030405060708090a0b0c0d0e0f10111213;\n";
const POLICIES: &str = "spdadd 10.1.0.0/16 10.2.0.0/16 any -P out ipsec esp/tunnel/192.0.2.1-192.0.2.2/require;\n\
    spdadd 10.2.0.0/16 10.1.0.0/16 any -P in ipsec esp/tunnel/192.0.2.2-192.0.2.1/require;\n";

#[test]
fn a_file_of_setkey_says_what_is_protected() {
    let local = |text: &str| EngineOptions { local: vec![ip(text)], ..EngineOptions::default() };
    let packet = datagram(inner_hosts(false), 443, &[7; 64]);
    let mut alice = replay(&local("192.0.2.1"), &[SETKEY, POLICIES].concat()).unwrap();
    let (sealed, outer) = step(&mut alice, &packet);
    assert_eq!((sealed.verdict, sealed.spi), (ReplayVerdict::Protect, Some(api::Spi(0x1001))));
    assert_eq!(sealed.spd_rule.as_deref(), Some("setkey-5"));
    assert_eq!(outer[0][9], 50, "bare");
    // The other host has the same associations and its own policies.
    let theirs = POLICIES.replace("-P out", "-P x").replace("-P in", "-P out").replace("-P x", "-P in");
    let mut bob = replay(&local("192.0.2.2"), &[SETKEY, &theirs].concat()).unwrap();
    let (opened, inner) = step(&mut bob, &outer[0]);
    assert_eq!((opened.verdict, opened.spd_rule.as_deref()), (ReplayVerdict::Deliver, Some("setkey-5")));
    assert_eq!(inner[0], packet);
    let (other, _) = step(&mut alice, &datagram(hosts(false), 443, b"x"));
    assert_eq!(other.reason.as_deref(), Some("no_spd_entry"));
    // Policies are one host's, which expects nothing from its own side.
    let mut both = replay(&EngineOptions::default(), &[SETKEY, POLICIES].concat()).unwrap();
    assert_eq!(step(&mut both, &packet).0.spi, Some(api::Spi(0x1001)));
    assert_eq!(step(&mut both, &outer[0]).0.reason.as_deref(), Some("no_spd_entry"));
    // Associations alone are both hosts'.
    let mut both = replay(&EngineOptions::default(), SETKEY).unwrap();
    let (opened, inner) = step(&mut both, &outer[0]);
    assert_eq!((opened.verdict, &inner[0]), (ReplayVerdict::Deliver, &packet));
}

#[test]
fn the_way_can_be_said() {
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let packet = datagram(hosts(false), 443, b"clear");
    let engine = |way| replay(&EngineOptions { way, ..EngineOptions::default() }, &line.text("out")).unwrap();
    for (way, direction, reason) in [
        (HalfChoice::In, ReplayDirection::Inbound, None),
        (HalfChoice::Out, ReplayDirection::Outbound, None),
        (HalfChoice::Auto, ReplayDirection::Outbound, None),
    ] {
        let (line, _) = step(&mut engine(way), &packet);
        assert_eq!((line.direction, line.reason.as_deref()), (direction, reason), "{way:?}");
    }
    // ESP can be made to go out, through an association that covers it.
    let mut alice = engine(HalfChoice::Out);
    let (_, outer) = step(&mut alice, &packet);
    assert_eq!(step(&mut alice, &outer[0]).0.verdict, ReplayVerdict::Protect);
}

#[test]
fn faults_are_named_by_line_and_without_keys() {
    let good = Line::new(false, "transport", "aes128gcm", 20).text("out");
    let rule = "{\"rule\":{\"selectors\":[\"colour red\"],\"action\":\"bypass\"}}";
    let reserved = "add 192.0.2.1 192.0.2.2 esp 10 -E null -A hmac-sha1 \"twenty octets of key\";";
    for (text, line, part) in [
        (format!("{good}{good}"), 2, "in use"),
        (format!("{good}{rule}"), 2, "not a selector field"),
        (SETKEY.replacen("10111213;", "1011121314;", 1), 3, "octets, salt included"),
        (reserved.to_owned(), 1, "reserved"),
    ] {
        let Err(error) = replay(&EngineOptions::default(), &text) else { panic!("{text}") };
        let error = error.to_string();
        assert!(error.starts_with(&format!("file:{line}: ")) && error.contains(part), "{error}");
        assert!(!error.contains("0b0c0d") && !error.contains("twenty octets"), "{error}");
    }
    let app = EngineOptions { app: Some("curl".into()), ..EngineOptions::default() };
    let Err(error) = replay(&app, &good) else { panic!("--app without --config") };
    assert!(error.to_string().contains("--config"), "{error}");
}

/// tcpdump's test suite, if it is there: under `RAVELIN_SHARED`, or beside the repository.
fn captures() -> Option<Vec<PathBuf>> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("RAVELIN_SHARED").map_or_else(beside, PathBuf::from);
    let Ok(entries) = std::fs::read_dir(root.join("captures/tcpdump-tests")) else {
        println!("skipped: no captures under {} (set RAVELIN_SHARED)", root.display());
        return None;
    };
    let is_capture = |path: &PathBuf| path.extension().is_some_and(|e| e == "pcap" || e == "pcapng");
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_capture).collect();
    files.sort();
    Some(files)
}

#[test]
fn every_captured_packet_goes_through_both_halves() {
    let Some(files) = captures() else { return };
    let anything = |line: Line| line.with("selector_local", "::/0").with("selector_remote", "::/0");
    let tunnel = anything(Line::new(false, "tunnel", "aes128gcm", 20));
    let into = anything(Line::new(true, "tunnel", "aes256gcm", 36)).text("in");
    let rules = "{\"rule\":{\"selectors\":[\"proto icmp type 8\",\"proto icmpv6 type 128\"],\"action\":\"discard\"}}\n\
        {\"rule\":{\"selectors\":[\"remote-port 1-1023\"],\"action\":\"protect\"}}\n\
        {\"rule\":{\"selectors\":[\"any\"],\"action\":\"bypass\"}}\n";
    let engine = |way, rules: &str| {
        let options = EngineOptions { way, hex: true, ..EngineOptions::default() };
        replay(&options, &[rules, &tunnel.text("out"), &into].concat()).unwrap()
    };
    let mut engines =
        [engine(HalfChoice::Auto, ""), engine(HalfChoice::Out, rules), engine(HalfChoice::In, rules)];
    let mut bob = replay(&EngineOptions::default(), &tunnel.text("in")).unwrap();
    let (mut packets, mut opened) = (0u64, 0u64);
    for file in &files {
        let Ok(mut reader) = Reader::open(file) else { continue };
        while let Ok(Some(frame)) = reader.next_frame() {
            packets += 1;
            for (index, engine) in engines.iter_mut().enumerate() {
                let mut made = Vec::new();
                let line = engine.frame(packets, &frame, &mut |packet| {
                    made.push(packet.to_vec());
                    Ok(())
                });
                let line = line.unwrap();
                assert_eq!((line.written as usize, line.packets.len()), (made.len(), made.len()));
                let quiet =
                    matches!(line.verdict, ReplayVerdict::Drop | ReplayVerdict::Skip | ReplayVerdict::Hold);
                assert!(line.written > 0 || quiet, "{}: {line:?}", file.display());
                // What the first engine sealed opens at the peer.
                if index == 0 && line.verdict == ReplayVerdict::Protect {
                    for outer in &made {
                        let (back, _) = step(&mut bob, outer);
                        let delivered = back.verdict == ReplayVerdict::Deliver;
                        let held = matches!(back.reason.as_deref(), Some("fragment_held" | "nesting_limit"));
                        assert!(delivered || held, "{}: {line:?} {back:?}", file.display());
                        opened += u64::from(delivered);
                    }
                }
            }
        }
    }
    println!("{packets} packets of {} captures; {opened} were sealed, and opened by the peer", files.len());
    // Of the collection's commit 39b50f76.
    assert_eq!((files.len(), packets, opened), (534, 6952, 2721));
}
