//! The offline door and packets that arrive in clear: the inbound half of the SPD, ICMP errors about outer packets; and files
//! whose associations share an SPI or contradict themselves.

use crate::replay_kit;

use api::{ReplayDirection, ReplayVerdict};
use offline::replay::{EngineOptions, HalfChoice, Replay};
use replay_kit::{Line, datagram, hosts, inner_hosts, ip, replay, same, step};
use wire::icmp;
use wire::ip::Headers;

fn local(text: &str) -> EngineOptions {
    EngineOptions { local: vec![ip(text)], ..EngineOptions::default() }
}

fn verdict(engine: &mut Replay, packet: &[u8]) -> (ReplayDirection, ReplayVerdict, Option<String>) {
    let (line, _) = step(engine, packet);
    (line.direction, line.verdict, line.reason)
}

/// From the peer to us.
fn towards((ours, theirs): (std::net::IpAddr, std::net::IpAddr), port: u16) -> Vec<u8> {
    datagram((theirs, ours), port, b"in clear")
}

#[test]
fn inbound_rules_decide_about_what_arrives_in_clear() {
    let inbound = "{\"rule\":{\"name\":\"web\",\"direction\":\"in\",\"selectors\":[\"remote-port 40000 local-port 443\"],\"action\":\"protect\"}}\n\
        {\"rule\":{\"name\":\"dns\",\"direction\":\"in\",\"selectors\":[\"local-port 53\"],\"action\":\"bypass\"}}\n\
        {\"rule\":{\"name\":\"no\",\"direction\":\"in\",\"selectors\":[\"local-port 80\"],\"action\":\"discard\"}}\n";
    let outbound = "{\"rule\":{\"direction\":\"out\",\"selectors\":[\"any\"],\"action\":\"bypass\"}}\n";
    let sa = Line::new(false, "transport", "aes128gcm", 20).text("out");
    let setkey = "spdadd 192.0.2.2 192.0.2.1[443] udp -P in ipsec esp/transport//require;\n\
        spdadd 192.0.2.2 192.0.2.1[53] udp -P in none;\nspdadd 192.0.2.2 192.0.2.1[80] udp -P in discard;\n";
    for file in [inbound.to_owned() + outbound + &sa, inbound.to_owned() + &sa, setkey.to_owned()] {
        let mut alice = replay(&local("192.0.2.1"), &file).unwrap();
        for (port, want, reason) in [
            (443, ReplayVerdict::Drop, Some("clear_refused")),
            (53, ReplayVerdict::Bypass, None),
            (80, ReplayVerdict::Drop, Some("rule_discard")),
            (8080, ReplayVerdict::Drop, Some("no_spd_entry")),
        ] {
            let packet = towards(hosts(false), port);
            let (direction, seen, why) = verdict(&mut alice, &packet);
            assert_eq!((direction, seen, why.as_deref()), (ReplayDirection::Inbound, want, reason), "{port}");
            let mut alice =
                replay(&EngineOptions { way: HalfChoice::In, ..local("192.0.2.1") }, &file).unwrap();
            assert_eq!(verdict(&mut alice, &packet).2.as_deref(), reason);
        }
    }
    // With rules for one way only, what goes the other way matches none.
    let mut alice = replay(&local("192.0.2.1"), &(inbound.to_owned() + &sa)).unwrap();
    let (direction, _, why) = verdict(&mut alice, &datagram(hosts(false), 443, b"x"));
    assert_eq!((direction, why.as_deref()), (ReplayDirection::Outbound, Some("no_spd_entry")));
}

#[test]
fn without_rules_what_an_association_covers_must_not_arrive_in_clear() {
    let line = Line::new(false, "tunnel", "aes128gcm", 20);
    let (ours, theirs) = inner_hosts(false);
    let line = line.with("selector_local", ours.to_string()).with("selector_remote", theirs.to_string());
    // The receiver of what alice sends.
    let options = EngineOptions { way: HalfChoice::In, ..local("192.0.2.2") };
    let mut bob = replay(&options, &line.text("in")).unwrap();
    let covered = datagram(inner_hosts(false), 443, b"forged");
    assert_eq!(verdict(&mut bob, &covered).2.as_deref(), Some("clear_refused"));
    let (direction, seen, _) = verdict(&mut bob, &datagram(hosts(false), 443, b"other"));
    assert_eq!((direction, seen), (ReplayDirection::Inbound, ReplayVerdict::Bypass));
    // What the association itself carries is delivered as before.
    let mut alice = replay(&EngineOptions::default(), &line.text("out")).unwrap();
    let (_, outer) = step(&mut alice, &covered);
    let (opened, inner) = step(&mut bob, &outer[0]);
    assert_eq!(opened.verdict, ReplayVerdict::Deliver, "{opened:?}");
    assert!(same(&inner[0], &covered));
}

#[test]
fn addresses_say_which_way_packets_go() {
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let mut alice = replay(&local("192.0.2.1"), &line.text("out")).unwrap();
    let ours = datagram(hosts(false), 443, b"out");
    assert_eq!(verdict(&mut alice, &ours).1, ReplayVerdict::Protect);
    let (direction, ..) = verdict(&mut alice, &towards(hosts(false), 443));
    assert_eq!(direction, ReplayDirection::Inbound);
    // Without them the kind of packet does.
    let mut alice = replay(&EngineOptions::default(), &line.text("out")).unwrap();
    assert_eq!(verdict(&mut alice, &towards(hosts(false), 443)).0, ReplayDirection::Outbound);
}

#[test]
fn an_error_about_an_outer_packet_teaches_the_path() {
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let mut alice = replay(&local("192.0.2.1"), &line.text("out")).unwrap();
    let packet = datagram(hosts(false), 443, &[1; 1300]);
    let (_, outer) = step(&mut alice, &packet);
    let headers = Headers::parse(&outer[0]).unwrap();
    let error = icmp::too_big(&outer[0], &headers, 1000, None).unwrap();
    let (learned, written) = step(&mut alice, error.as_slice());
    assert_eq!((learned.verdict, learned.reason.as_deref()), (ReplayVerdict::Learn, Some("icmp_taken")));
    assert_eq!((learned.spi, learned.sequence, written.len()), (Some(api::Spi(0x1001)), Some(1), 0));
    let (refused, answer) = step(&mut alice, &packet);
    assert_eq!((refused.verdict, refused.reason.as_deref()), (ReplayVerdict::Reply, Some("too_big")));
    assert_eq!(answer[0][9], 1);
    // One that nobody who saw the packet sent.
    let mut forged = outer[0].clone();
    forged[31] ^= 1;
    let error = icmp::too_big(&forged, &headers, 800, None).unwrap();
    assert_eq!(step(&mut alice, error.as_slice()).0.reason.as_deref(), Some("icmp_unrelated"));
}

#[test]
fn one_spi_may_name_associations_of_both_directions_and_of_several_hosts() {
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let mut back = line.clone();
    back.ends = (line.ends.1, line.ends.0);
    let mut third = line.clone();
    third.ends = (ip("192.0.2.3"), line.ends.1);
    let pairs: String = [&line, &back].iter().flat_map(|line| [line.text("out"), line.text("in")]).collect();
    let file = pairs + &third.text("in");
    let setkey = "add 192.0.2.1 192.0.2.2 esp 0x1001 -E aes-gcm-16 0x000102030405060708090a0b0c0d0e0f10111213;\n\
        add 192.0.2.2 192.0.2.1 esp 0x1001 -E aes-gcm-16 0x100102030405060708090a0b0c0d0e0f10111213;\n";
    for (file, all) in [(file.as_str(), vec![&line, &back]), (setkey, vec![&line, &back])] {
        let mut both = replay(&EngineOptions::default(), file).unwrap();
        for line in all {
            let packet = datagram(line.ends, 443, b"both ways");
            let (sealed, outer) = step(&mut both, &packet);
            assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{sealed:?}");
            let (opened, inner) = step(&mut both, &outer[0]);
            assert_eq!(opened.verdict, ReplayVerdict::Deliver, "{opened:?}");
            assert!(same(&inner[0], &packet));
        }
    }
}

#[test]
fn files_that_contradict_themselves_are_refused_by_line() {
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let ah = Line::new(false, "transport", "sha256", 32).with("type", "ah");
    let legacy = Line::new(false, "transport", "des-md5", 24);
    for (text, number, part) in [
        (line.text("in") + &ah.text("in"), 2, "line 1 has it"),
        (line.text("out") + &ah.text("out"), 2, "ESP and AH share"),
        (line.clone().with("next", "0x1002").text("out"), 1, "no outbound association of this file"),
        (line.clone().with("next", "0x1002").text("in"), 1, "outbound associations"),
        (line.clone().with("replay_window", 64).text("out"), 1, "inbound associations"),
        (line.clone().with("sequence", 1u64 << 32).text("in"), 1, "extended sequence numbers"),
        (legacy.text("out"), 1, "--legacy"),
        (line.clone().with("mode", "tunel").text("out"), 1, "\"mode\" cannot be \"tunel\""),
    ] {
        let Err(error) = replay(&EngineOptions::default(), &text) else { panic!("{text}") };
        let error = error.to_string();
        assert!(error.starts_with(&format!("file:{number}: ")) && error.contains(part), "{error}");
    }
}

/// RFC 4301 section 6.1.1: what an error quotes is compared with the rules for what leaves, where there are any.
#[test]
fn an_error_in_clear_passes_by_inbound_rules_alone() {
    let bypass = "{\"rule\":{\"direction\":\"in\",\"selectors\":[\"any\"],\"action\":\"bypass\"}}\n";
    let protect = "{\"rule\":{\"direction\":\"out\",\"selectors\":[\"any\"],\"action\":\"protect\"}}\n";
    let quoted = datagram(hosts(false), 443, &[7; 1400]);
    let error = icmp::too_big(&quoted, &Headers::parse(&quoted).unwrap(), 1000, None).unwrap();
    let mut alice =
        replay(&EngineOptions { way: HalfChoice::In, ..EngineOptions::default() }, bypass).unwrap();
    assert_eq!(
        verdict(&mut alice, error.as_slice()),
        (ReplayDirection::Inbound, ReplayVerdict::Bypass, None)
    );
    let both = bypass.to_owned() + protect;
    let mut alice =
        replay(&EngineOptions { way: HalfChoice::In, ..EngineOptions::default() }, &both).unwrap();
    assert_eq!(verdict(&mut alice, error.as_slice()).2.as_deref(), Some("clear_refused"));
}

#[test]
fn esp_in_udp_arrives_at_the_port_that_associations_say() {
    let line =
        Line::new(false, "transport", "aes128gcm", 20).with("local_port", 4600).with("remote_port", 4501);
    let there = line.clone().with("local_port", 4501).with("remote_port", 4600);
    let (mut alice, mut bob) = (
        replay(&EngineOptions::default(), &line.text("out")).unwrap(),
        replay(&EngineOptions::default(), &there.text("in")).unwrap(),
    );
    let packet = datagram(hosts(false), 443, b"by another port");
    let (_, outer) = step(&mut alice, &packet);
    let (opened, inner) = step(&mut bob, &outer[0]);
    assert_eq!(opened.verdict, ReplayVerdict::Deliver, "{opened:?}");
    assert!(same(&inner[0], &packet));
    let other = Line::new(false, "tunnel", "aes128gcm", 20).with("spi", "0x1002");
    let Err(error) = replay(&EngineOptions::default(), &(there.text("in") + &other.text("in"))) else {
        panic!("two ports")
    };
    let error = error.to_string();
    assert!(
        error.starts_with("file:2: \"local_port\" is 4500, and ESP in UDP arrives at 4501 here"),
        "{error}"
    );
}

#[test]
fn a_peer_is_followed_in_a_replay_as_well() {
    let line =
        Line::new(false, "tunnel", "aes128gcm", 20).with("encapsulation", "udp").with("follow_peer", true);
    let mut back = line.clone().with("spi", "0x2001").with("keymat", "11".repeat(20));
    back.ends = (line.ends.1, line.ends.0);
    let mut alice = replay(&EngineOptions::default(), &line.text("out")).unwrap();
    let mut bob = replay(&local("192.0.2.2"), &(line.text("in") + &back.text("out"))).unwrap();
    let packet = datagram(hosts(false), 443, b"from elsewhere");
    let (_, mut outer) = step(&mut alice, &packet);
    // The source address and port of a NAT.
    outer[0][12..16].copy_from_slice(&[203, 0, 113, 9]);
    outer[0][20..22].copy_from_slice(&20_001u16.to_be_bytes());
    outer[0][26..28].fill(0);
    outer[0][10..12].fill(0);
    let check = wire::checksum::ip_checksum(&outer[0][..20]);
    outer[0][10..12].copy_from_slice(&check.to_be_bytes());
    let (opened, _) = step(&mut bob, &outer[0]);
    assert_eq!(opened.verdict, ReplayVerdict::Deliver, "{opened:?}");
    let (sealed, sent) = step(&mut bob, &datagram((line.ends.1, line.ends.0), 443, b"and back"));
    assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{sealed:?}");
    let headers = Headers::parse(&sent[0]).unwrap();
    assert_eq!((headers.dst, &sent[0][22..24]), (ip("203.0.113.9"), &20_001u16.to_be_bytes()[..]));
}

#[test]
fn a_policy_of_setkey_with_two_requests_makes_a_bundle() {
    let file = "add 192.0.2.1 192.0.2.2 esp 0x1003 -E aes-cbc 0x000102030405060708090a0b0c0d0e0f -A hmac-sha256\n\
        0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f;\n\
        add 192.0.2.1 192.0.2.2 ah 0x1004 -A hmac-sha1 \"twenty octets of key\";\n\
        spdadd 192.0.2.1 192.0.2.2 udp -P out ipsec esp/transport//require ah/transport//require;\n";
    let mut alice = replay(&local("192.0.2.1"), file).unwrap();
    let packet = datagram(hosts(false), 443, b"in a bundle");
    let (sealed, outer) = step(&mut alice, &packet);
    assert_eq!((sealed.verdict, sealed.spd_rule.as_deref()), (ReplayVerdict::Protect, Some("setkey-4")));
    // IP, AH, ESP.
    assert_eq!((outer[0][9], outer[0][20]), (51, 50));
    let theirs = file.replace("-P out", "-P in");
    let mut bob = replay(&local("192.0.2.2"), &theirs).unwrap();
    let (opened, inner) = step(&mut bob, &outer[0]);
    assert_eq!(opened.verdict, ReplayVerdict::Deliver, "{opened:?}");
    assert!(same(&inner[0], &packet));
    // In clear, or with one of the two only, is not enough.
    assert_eq!(verdict(&mut bob, &packet).2.as_deref(), Some("clear_refused"));
    let half = file.replace(" ah/transport//require", "");
    let (_, outer) = step(&mut replay(&local("192.0.2.1"), &half).unwrap(), &packet);
    assert_eq!(outer[0][9], 50);
    let mut bob = replay(&local("192.0.2.2"), &theirs).unwrap();
    assert_eq!(verdict(&mut bob, &outer[0]).2.as_deref(), Some("inbound_policy"));
}
