//! The offline door: rooms in buffers, ends of associations, fragments, packets that arrive in clear.

use crate::replay_kit;

use api::ReplayVerdict;
use offline::replay::{EngineOptions, Replay};
use replay_kit::{Line, datagram, hosts, inner_hosts, replay, same, step, step_at};
use serde_json::json;

fn door(file: &str) -> Replay {
    replay(&EngineOptions::default(), file).unwrap()
}

/// `line` with the inner hosts of both families' tests as selectors.
fn inside(line: Line, v6: bool) -> Line {
    let (ours, theirs) = inner_hosts(v6);
    line.with("selector_local", ours.to_string()).with("selector_remote", theirs.to_string())
}

#[test]
fn padding_that_hides_lengths_has_room_at_every_size() {
    for tfc in [json!("full"), json!(256)] {
        let line = inside(Line::new(false, "tunnel", "aes128gcm", 20).with("tfc", tfc.clone()), false);
        let (mut alice, mut bob) = (door(&line.text("out")), door(&line.text("in")));
        for len in [0, 1, 40, 64, 100, 200, 201, 255, 256, 600, 1000, 1300, 1380] {
            let packet = datagram(inner_hosts(false), 443, &vec![0x5a; len]);
            let (sealed, outer) = step(&mut alice, &packet);
            assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{tfc} {len}: {sealed:?}");
            let (opened, inner) = step(&mut bob, &outer[0]);
            assert_eq!(opened.verdict, ReplayVerdict::Deliver, "{tfc} {len}: {opened:?}");
            assert_eq!(inner[0], packet);
        }
    }
}

#[test]
fn bundles_have_room_at_every_size() {
    let bare = |mode, suite: &str, len, spi: &str| {
        Line::new(false, mode, suite, len).with("spi", spi).with("encapsulation", "none")
    };
    let tunnel = || inside(bare("tunnel", "aes128gcm", 20, "0x1001").with("next", "0x1002"), false);
    let around = || {
        let (ours, theirs) = hosts(false);
        bare("tunnel", "aes256gcm", 36, "0x1002")
            .with("selector_local", ours.to_string())
            .with("selector_remote", theirs.to_string())
    };
    let ah = |suite, len| bare("transport", suite, len, "0x1002").with("type", "ah");
    let cbc = || bare("transport", "aes256cbc-sha512", 96, "0x1001").with("next", "0x1002");
    for (name, first, second, ends) in [
        ("tunnel, AH", tunnel(), ah("sha256", 32), inner_hosts(false)),
        ("tunnel, tunnel", tunnel(), around(), inner_hosts(false)),
        ("CBC, AH", cbc(), ah("sha512", 64), hosts(false)),
    ] {
        let mut alice = door(&[second.text("out"), first.text("out")].concat());
        let mut receiver = first.clone();
        receiver.fields.as_object_mut().unwrap().remove("next");
        let mut bob = door(&[receiver.text("in"), second.text("in")].concat());
        for len in [0, 1, 16, 100, 500, 1000, 1200] {
            let packet = datagram(ends, 443, &vec![0xa5; len]);
            let (sealed, outer) = step(&mut alice, &packet);
            assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{name} {len}: {sealed:?}");
            assert_eq!(sealed.spi, Some(api::Spi(0x1002)), "{name}: the last member is outside");
            let (opened, inner) = step(&mut bob, &outer[0]);
            assert_eq!(opened.verdict, ReplayVerdict::Deliver, "{name} {len}: {opened:?}");
            assert_eq!(opened.spi, Some(api::Spi(0x1001)), "{name}: the first member is inside");
            assert!(same(&inner[0], &packet), "{name} {len}");
        }
    }
}

#[test]
fn what_was_compressed_has_room_to_grow() {
    let bare = |suite: &str, len, spi: &str| {
        Line::new(false, "transport", suite, len).with("spi", spi).with("encapsulation", "none")
    };
    let compress = || bare("", 0, "0x1001").with("type", "ipcomp");
    let esp = bare("aes128gcm", 20, "0x1002");
    let mut alice = door(&[esp.text("out"), compress().with("next", "0x1002").text("out")].concat());
    let mut bob = door(&[compress().text("in"), esp.text("in")].concat());
    for len in [600, 1372] {
        let packet = datagram(hosts(false), 443, &vec![b'a'; len]);
        let (sealed, outer) = step(&mut alice, &packet);
        assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{sealed:?}");
        assert!(outer[0].len() < 200, "{}", outer[0].len());
        let (opened, inner) = step(&mut bob, &outer[0]);
        assert_eq!(opened.verdict, ReplayVerdict::Deliver, "{opened:?}");
        assert!(same(&inner[0], &packet));
    }
}

/// What became of a packet at each of these seconds, and why.
fn verdicts(engine: &mut Replay, packets: &[(u64, &[u8])]) -> Vec<(ReplayVerdict, Option<String>)> {
    let each = packets.iter().map(|(at, packet)| {
        let (line, _) = step_at(engine, *at, packet);
        (line.verdict, line.reason)
    });
    each.collect()
}

fn expired() -> (ReplayVerdict, Option<String>) {
    (ReplayVerdict::Drop, Some("sa_expired".to_owned()))
}

#[test]
fn behind_a_hard_limit_nothing_passes_in_clear() {
    let packet = datagram(hosts(false), 443, &[7; 100]);
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let protect = (ReplayVerdict::Protect, None);
    for (hard, protected) in
        [(json!({"packets": 2}), 2), (json!({"bytes": 256}), 2), (json!({"seconds": 2}), 2)]
    {
        let limited = line.clone().with("lifetime", json!({ "hard": hard }));
        let packets: Vec<_> = (1000..1005).map(|at| (at, packet.as_slice())).collect();
        let seen = verdicts(&mut door(&limited.text("out")), &packets);
        let mut want = vec![protect.clone(); protected];
        want.resize(5, expired());
        assert_eq!(seen, want, "{hard}");
        // The same at the receiver: what comes after the end is not of an unknown SPI.
        let mut alice = door(&line.text("out"));
        let sealed: Vec<_> = (0..5).map(|_| step(&mut alice, &packet).1.remove(0)).collect();
        let packets: Vec<_> = (1000..1005).zip(&sealed).map(|(at, p)| (at, p.as_slice())).collect();
        let seen = verdicts(&mut door(&limited.text("in")), &packets);
        let mut want = vec![(ReplayVerdict::Deliver, None); protected];
        want.resize(5, expired());
        assert_eq!(seen, want, "{hard}");
    }
}

#[test]
fn a_successor_takes_over_from_the_dead() {
    let packet = datagram(hosts(false), 443, &[7; 100]);
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let first = line.clone().with("lifetime", json!({"hard": {"packets": 1}}));
    // The newer one is chosen first.
    let file = [line.with("spi", "0x1002").text("out"), first.text("out")].concat();
    let mut alice = door(&file);
    let spis: Vec<_> = (0..4).map(|_| step(&mut alice, &packet).0).map(|l| (l.verdict, l.spi)).collect();
    let of = |spi| Some(api::Spi(spi));
    assert_eq!(spis[0], (ReplayVerdict::Protect, of(0x1001)));
    assert_eq!(spis[1], (ReplayVerdict::Drop, of(0x1001)));
    assert_eq!(spis[2..], [(ReplayVerdict::Protect, of(0x1002)), (ReplayVerdict::Protect, of(0x1002))]);
    // What no association ever covered still passes.
    assert_eq!(step(&mut alice, &datagram(inner_hosts(false), 443, b"x")).0.verdict, ReplayVerdict::Bypass);
}

#[test]
fn a_life_begins_with_the_first_frame() {
    let packet = datagram(hosts(false), 443, &[7; 100]);
    let line =
        Line::new(false, "transport", "aes128gcm", 20).with("lifetime", json!({"hard": {"seconds": 10}}));
    let start = 1_795_296_859;
    let packets: Vec<_> = [0, 9, 10].into_iter().map(|after| (start + after, packet.as_slice())).collect();
    let protect = (ReplayVerdict::Protect, None);
    assert_eq!(verdicts(&mut door(&line.text("out")), &packets), [protect.clone(), protect, expired()]);
    let later = line.clone().with("sequence", 77).text("out");
    assert_eq!(verdicts(&mut door(&later), &packets)[1].0, ReplayVerdict::Protect);
    let mut alice = door(&Line::new(false, "transport", "aes128gcm", 20).text("out"));
    let sealed: Vec<_> = (0..3).map(|_| step(&mut alice, &packet).1.remove(0)).collect();
    let packets: Vec<_> = packets.iter().zip(&sealed).map(|((at, _), p)| (*at, p.as_slice())).collect();
    let seen = verdicts(&mut door(&line.text("in")), &packets);
    assert_eq!(seen[..2], [(ReplayVerdict::Deliver, None), (ReplayVerdict::Deliver, None)]);
    assert_eq!(seen[2], expired());
}
