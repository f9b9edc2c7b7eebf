//! Tests of the outbound database: which association serves a flow, and that the cache never says anything else.

use crate::common;

use common::{config, flow, ip, near_flow, near_selectors, outbound, prefix};
use crypto::Secret;
use proptest::prelude::*;
use sadb::sa::Encapsulation;
use sadb::spd::PortRange;
use sadb::{Direction, FlowCache, FlowKey, MAX_SAS, Mode, OutboundSad, SaConfig, SadError, Selectors, Spi};
use wire::{AggregateId, AppId, DropReason, Flow, Services};

const ENCRYPTED: Services = Services::ENCRYPTED;

type Change = fn(&mut SaConfig);

fn with(spi: u32, change: impl FnOnce(&mut SaConfig)) -> SaConfig {
    let mut config = config(Direction::Outbound, spi);
    change(&mut config);
    config
}

/// The SPI that serves the flow, by cache and by search, which must agree.
fn serves(sad: &mut OutboundSad, app: AppId, flow: &Flow) -> Result<u32, DropReason> {
    let searched = sad.search(app, flow, ENCRYPTED);
    for _ in 0..2 {
        assert_eq!(sad.find(app, flow, ENCRYPTED), searched);
    }
    Ok(sad.get_mut(searched?).unwrap().spi().0)
}

/// The SPI that serves any program with these services.
fn served(sad: &mut OutboundSad, flow: &Flow, need: Services) -> Result<u32, DropReason> {
    let at = sad.find(AppId::NONE, flow, need)?;
    Ok(sad.get_mut(at).unwrap().spi().0)
}

#[test]
fn those_of_one_spi_are_one_to_each_peer() {
    let mut sad = OutboundSad::new(1);
    let peers = ["192.0.2.9", "0.0.0.1", "2001:db8::9", "255.255.255.254"].map(ip);
    for spi in [0x1000, 0x1001, 0x1002] {
        for peer in peers {
            let local = if peer.is_ipv4() { ip("192.0.2.1") } else { ip("2001:db8::1") };
            let ends = |c: &mut SaConfig| (c.endpoints.local, c.endpoints.remote) = (local, peer);
            sad.insert(outbound(with(spi, ends))).unwrap();
        }
    }
    let mut of =
        sad.of_spi(Spi(0x1001)).map(|sa| (sa.spi(), sa.config().endpoints.remote)).collect::<Vec<_>>();
    let mut want = peers.map(|peer| (Spi(0x1001), peer));
    of.sort();
    want.sort();
    assert_eq!(of, want);
    assert_eq!(sad.of_spi(Spi(0x1003)).count(), 0);
    assert!(sad.before(Spi(0x1001)).is_none());
    sad.insert(outbound(with(0x2000, |c| c.options.next = Some(Spi(0x1001))))).unwrap();
    assert_eq!(sad.before(Spi(0x1001)).map(|sa| sa.spi()), Some(Spi(0x2000)));
    assert!(sad.before(Spi(0x1002)).is_none());
}

#[test]
fn the_most_specific_association_serves() {
    let app = AppId(7);
    let web = flow("10.0.0.1", "192.0.2.9", 6, 40_000, 443);
    // Each more specific than all before it.
    let ladder: Vec<Change> = vec![
        |_| (),
        |c| c.selectors.remote_ports = PortRange::one(443),
        |c| c.selectors.protocol = Some(6),
        |c| c.selectors.local = prefix("10.0.0.0/24"),
        |c| (c.selectors.local, c.selectors.protocol) = (prefix("10.0.0.1/32"), Some(6)),
        |c| c.selectors.remote = prefix("192.0.2.0/24"),
        |c| (c.selectors.remote, c.selectors.protocol) = (prefix("192.0.2.0/24"), Some(6)),
        |c| c.selectors.remote = prefix("192.0.2.9/32"),
        |c| c.selectors.app = Some(AppId(7)),
        |c| (c.selectors.app, c.selectors.remote) = (Some(AppId(7)), prefix("192.0.2.0/25")),
    ];
    // Whatever the order of insertion.
    for turn in 0..ladder.len() {
        let mut sad = OutboundSad::new(1);
        assert_eq!(serves(&mut sad, app, &web), Err(DropReason::NoSa));
        let mut best = 0;
        for step in 0..ladder.len() {
            let rung = (step + turn) % ladder.len();
            sad.insert(outbound(with(1000 + rung as u32, ladder[rung]))).unwrap();
            best = best.max(1000 + rung as u32);
            assert_eq!(serves(&mut sad, app, &web), Ok(best), "turn {turn}");
        }
        // And down again.
        for rung in (0..ladder.len()).rev() {
            assert_eq!(serves(&mut sad, app, &web), Ok(1000 + rung as u32));
            sad.remove(Spi(1000 + rung as u32), ip("203.0.113.1")).unwrap();
        }
        assert_eq!(serves(&mut sad, app, &web), Err(DropReason::NoSa));
    }
}

/// A policy may encrypt one class of traffic and authenticate another: AH and ESP to one peer.
#[test]
fn who_asks_for_authentication_only_gets_no_more_if_there_is_that() {
    let of = |spi, suite: &str| {
        outbound(with(spi, |c| {
            c.suite = suite.parse().unwrap();
            c.keymat = Secret::new(vec![7; c.suite.keymat_len()]);
        }))
    };
    let (esp, null, young) = (0x1000, 0x1001, 0x1002);
    let web = flow("10.0.0.1", "192.0.2.9", 6, 40_000, 443);
    for order in [[esp, null], [null, esp]] {
        let mut sad = OutboundSad::new(1);
        for spi in order {
            sad.insert(of(spi, if spi == esp { "aes128gcm" } else { "null-sha256" })).unwrap();
        }
        assert_eq!(served(&mut sad, &web, Services::AUTHENTICATED), Ok(null));
        assert_eq!(served(&mut sad, &web, ENCRYPTED), Ok(esp));
        // A new key for either takes over from its own kind only.
        sad.insert(of(young, "aes128gcm")).unwrap();
        assert_eq!(served(&mut sad, &web, Services::AUTHENTICATED), Ok(null));
        assert_eq!(served(&mut sad, &web, ENCRYPTED), Ok(young));
        // Encryption gives authentication where there is nothing less.
        sad.remove(Spi(null), ip("203.0.113.1")).unwrap();
        assert_eq!(served(&mut sad, &web, Services::AUTHENTICATED), Ok(young));
    }
}

#[test]
fn an_association_serves_only_what_it_selects() {
    let table: &[(Change, AppId, Flow, bool)] = &[
        (|c| c.selectors.app = Some(AppId(7)), AppId(7), flow("10.0.0.1", "192.0.2.9", 6, 1, 2), true),
        (|c| c.selectors.app = Some(AppId(7)), AppId(8), flow("10.0.0.1", "192.0.2.9", 6, 1, 2), false),
        (|c| c.selectors.app = Some(AppId(7)), AppId::NONE, flow("10.0.0.1", "192.0.2.9", 6, 1, 2), false),
        (|_| (), AppId::NONE, flow("10.0.0.1", "192.0.2.9", 6, 1, 2), true),
        (
            |c| c.selectors.remote = prefix("192.0.2.8/31"),
            AppId(1),
            flow("10.0.0.1", "192.0.2.9", 6, 1, 2),
            true,
        ),
        (
            |c| c.selectors.remote = prefix("192.0.2.8/31"),
            AppId(1),
            flow("10.0.0.1", "192.0.2.10", 6, 1, 2),
            false,
        ),
        (
            |c| c.selectors.remote = prefix("2001:db8::/32"),
            AppId(1),
            flow("2001:db8::1", "2001:db8::2", 17, 1, 2),
            true,
        ),
        (
            |c| c.selectors.remote = prefix("2001:db8::/32"),
            AppId(1),
            flow("10.0.0.1", "192.0.2.10", 17, 1, 2),
            false,
        ),
        (
            |c| c.selectors.local = prefix("10.0.0.1/32"),
            AppId(1),
            flow("10.0.0.2", "192.0.2.10", 17, 1, 2),
            false,
        ),
        (
            |c| c.selectors.remote_ports = PortRange::one(2),
            AppId(1),
            flow("10.0.0.2", "192.0.2.10", 17, 2, 1),
            false,
        ),
        (
            |c| c.selectors.local_ports = PortRange::one(2),
            AppId(1),
            flow("10.0.0.2", "192.0.2.10", 17, 2, 1),
            true,
        ),
        // Packets without ports have port 0 in their flow: only ANY carries them.
        (
            |c| c.selectors.remote_ports = PortRange::one(2),
            AppId(1),
            flow("10.0.0.2", "192.0.2.10", 17, 0, 0),
            false,
        ),
        // Transport mode: between the endpoints alone.
        (|c| c.mode = Mode::Transport, AppId(1), flow("198.51.100.1", "203.0.113.1", 6, 1, 2), true),
        (|c| c.mode = Mode::Transport, AppId(1), flow("198.51.100.1", "203.0.113.2", 6, 1, 2), false),
        (|c| c.mode = Mode::Transport, AppId(1), flow("198.51.100.2", "203.0.113.1", 6, 1, 2), false),
    ];
    for (row, (change, app, flow, want)) in table.iter().enumerate() {
        let mut sad = OutboundSad::new(3);
        sad.insert(outbound(with(1000, change))).unwrap();
        let want = if *want { Ok(1000) } else { Err(DropReason::NoSa) };
        assert_eq!(serves(&mut sad, *app, flow), want, "row {row}");
    }
}

#[test]
fn a_new_key_beside_the_old_one_takes_over_and_its_removal_gives_back() {
    let mut sad = OutboundSad::new(5);
    let any = flow("10.0.0.1", "192.0.2.9", 6, 1, 2);
    for spi in [5000, 4000, 6000] {
        sad.insert(outbound(with(spi, |_| ()))).unwrap();
        assert_eq!(serves(&mut sad, AppId(1), &any), Ok(spi));
    }
    sad.remove(Spi(6000), ip("203.0.113.1")).unwrap();
    assert_eq!(serves(&mut sad, AppId(1), &any), Ok(4000));
}

#[test]
fn a_peer_has_an_spi_once_but_two_peers_may_choose_alike() {
    let mut sad = OutboundSad::new(5);
    sad.insert(outbound(with(1000, |_| ()))).unwrap();
    assert_eq!(sad.insert(outbound(with(1000, |_| ()))), Err(SadError::DuplicateSpi(Spi(1000))));
    sad.insert(outbound(with(1000, |c| c.endpoints.remote = ip("203.0.113.2")))).unwrap();
    assert_eq!(sad.len(), 2);
    assert_eq!(sad.remove(Spi(1000), ip("203.0.113.3")).err(), Some(SadError::UnknownSpi(Spi(1000))));
    let gone = sad.remove(Spi(1000), ip("203.0.113.2")).unwrap();
    assert_eq!(gone.config().endpoints.remote, ip("203.0.113.2"));
    assert_eq!(
        sad.list().map(|(_, sa)| sa.config().endpoints.remote).collect::<Vec<_>>(),
        [ip("203.0.113.1")]
    );
}

/// The case of RFC 3948 section 5.1: Ari's and Bob's laptops, each behind a NAT of its own, have one address.
#[test]
fn who_would_take_flows_from_another_peer_is_its_rival() {
    let laptop = |c: &mut SaConfig| c.selectors.remote = prefix("10.1.2.3/32");
    let ari = |c: &mut SaConfig| {
        (laptop(c), c.endpoints.remote = ip("203.0.113.1"), c.endpoints.remote_port = 1024).0
    };
    let bob = |c: &mut SaConfig| (laptop(c), c.endpoints.remote = ip("203.0.113.2")).0;
    let mut sad = OutboundSad::new(5);
    sad.insert(outbound(with(1000, ari))).unwrap();
    let rival = |sad: &OutboundSad, change: &dyn Fn(&mut SaConfig)| {
        sad.rival(&with(2000, |c| (bob(c), change(c)).1)).map(|sa| sa.spi().0)
    };
    type Edit<'a> = &'a dyn Fn(&mut SaConfig);
    let changes: [(&str, Edit<'_>, bool); 11] = [
        ("the same", &|_| (), true),
        ("some of it", &|c| c.selectors.protocol = Some(6), true),
        ("from a part of our side", &|c| c.selectors.local = prefix("192.0.2.0/28"), true),
        ("by another port of the same NAT", &|c| c.endpoints.remote = ip("203.0.113.1"), true),
        ("in transport mode, between other hosts", &|c| c.mode = Mode::Transport, false),
        ("a new key for the same peer", &ari, false),
        ("another laptop", &|c| c.selectors.remote = prefix("10.1.2.4/32"), false),
        ("a network around it", &|c| c.selectors.remote = prefix("10.1.2.0/24"), false),
        ("of an application", &|c| c.selectors.app = Some(AppId(3)), false),
        ("no UDP, no NAT", &|c| c.options.encapsulation = Encapsulation::None, false),
        ("the next of its bundle", &|c| c.options.next = Some(Spi(1000)), false),
    ];
    for (what, change, is) in changes {
        assert_eq!(rival(&sad, change), is.then_some(1000), "{what}");
    }
    // Disjoint traffic is none (section 5.2: all UDP to Ari, all TCP to Bob), in transport mode through one NAT.
    let through = |port: u16, protocol, local_port: u16| {
        move |c: &mut SaConfig| {
            c.mode = Mode::Transport;
            (c.endpoints.remote, c.endpoints.remote_port) = (ip("203.0.113.7"), port);
            (c.selectors.protocol, c.selectors.local_ports) =
                (protocol, PortRange { first: local_port, last: local_port + 9 });
        }
    };
    sad.insert(outbound(with(3000, through(1024, Some(17), 50)))).unwrap();
    let through_it = |port, protocol, local_port| {
        sad.rival(&with(4000, through(port, protocol, local_port))).map(|sa| sa.spi().0)
    };
    assert_eq!(through_it(1025, Some(6), 50), None);
    assert_eq!(through_it(1025, Some(17), 60), None);
    assert_eq!(through_it(1025, Some(17), 59), Some(3000));
    assert_eq!(through_it(1025, None, 50), Some(3000));
    assert_eq!(through_it(1024, None, 50), None);
    // The outer part of a bundle claims nothing.
    sad.insert(outbound(with(999, |c| c.options.next = Some(Spi(1000))))).unwrap();
    assert_eq!(rival(&sad, &|_| ()), None);
}

#[test]
fn the_name_of_a_removed_association_is_dead_though_its_slot_lives() {
    let mut sad = OutboundSad::new(5);
    let old = sad.insert(outbound(with(1000, |_| ()))).unwrap();
    sad.remove(Spi(1000), ip("203.0.113.1")).unwrap();
    let new = sad.insert(outbound(with(1001, |_| ()))).unwrap();
    assert!(sad.get_mut(old).is_none());
    assert!(sad.get(old).is_none());
    assert_eq!(sad.get(new).unwrap().spi(), Spi(1001));
    assert_ne!(old, new);
}

#[test]
fn there_is_a_most_and_it_still_finds_its_way() {
    let mut sad = OutboundSad::new(5);
    let remote = |n: usize| ip(&format!("{}.{}.{}.1", 10 + n / 65_536, n / 256 % 256, n % 256));
    for n in 0..MAX_SAS {
        let index = sad.insert(outbound(with(1000 + n as u32, |c| {
            c.selectors.remote = wire::Prefix::host(remote(n));
        })));
        assert!(index.is_ok());
    }
    assert_eq!(sad.insert(outbound(with(1, |c| c.spi = Spi(200_000)))), Err(SadError::TooMany(MAX_SAS)));
    for n in (0..MAX_SAS).step_by(61) {
        let flow = Flow { remote: remote(n), ..flow("10.0.0.1", "10.0.0.1", 6, 1, 2) };
        assert_eq!(serves(&mut sad, AppId(1), &flow), Ok(1000 + n as u32));
    }
    sad.remove(Spi(1500), ip("203.0.113.1")).unwrap();
    assert!(sad.insert(outbound(with(200_000, |_| ()))).is_ok());
}

/// The rule of the search in words, tried on every association.
fn by_hand(held: &[(u32, Selectors)], app: AppId, flow: &Flow) -> Result<u32, DropReason> {
    let width = |p: PortRange| u32::from(p.last) - u32::from(p.first);
    held.iter()
        .enumerate()
        .filter(|(_, (_, s))| s.covers(flow) && s.serves(app))
        .max_by_key(|(age, (_, s))| {
            let ports = u32::MAX - width(s.local_ports) - width(s.remote_ports);
            (s.app.is_some(), s.remote.len(), s.local.len(), s.protocol.is_some(), ports, *age)
        })
        .map(|(_, (spi, _))| *spi)
        .ok_or(DropReason::NoSa)
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Box<Selectors>),
    Remove(prop::sample::Index),
    Ask(Flow, AppId),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => near_selectors().prop_map(|s| Step::Insert(Box::new(s))),
        1 => any::<prop::sample::Index>().prop_map(Step::Remove),
        8 => (near_flow(), (0u16..4).prop_map(AppId)).prop_map(|(flow, app)| Step::Ask(flow, app)),
    ]
}

proptest! {
    #[test]
    fn cache_search_and_rule_agree_under_change(seed in any::<u64>(), steps in prop::collection::vec(step(), 1..120)) {
        let mut sad = OutboundSad::new(seed);
        let (mut held, mut asked, mut next) = (Vec::<(u32, Selectors)>::new(), Vec::new(), 1000);
        for step in steps {
            match step {
                Step::Insert(selectors) => {
                    next += 1;
                    sad.insert(outbound(with(next, |c| c.selectors = *selectors))).unwrap();
                    held.push((next, *selectors));
                }
                Step::Remove(at) if !held.is_empty() => {
                    let (spi, _) = held.remove(at.index(held.len()));
                    prop_assert_eq!(sad.remove(Spi(spi), ip("203.0.113.1")).unwrap().spi(), Spi(spi));
                }
                Step::Remove(_) => {}
                Step::Ask(flow, app) => asked.push((flow, app)),
            }
            // What was asked before is in the cache, and must still be right.
            for (flow, app) in &asked {
                prop_assert_eq!(serves(&mut sad, *app, flow), by_hand(&held, *app, flow), "{} of {:?}", flow, app);
            }
            prop_assert_eq!(sad.len(), held.len());
        }
    }

    #[test]
    fn a_small_cache_forgets_but_never_mistakes(seed in any::<u64>(), keys in prop::collection::vec((near_flow(), 0u16..3, 0u8..2, 0u64..3), 1..300)) {
        // One set of four: every key meets every other.
        let mut cache = FlowCache::new(1, seed);
        let mut said: Vec<((Flow, u16, u8), u64, usize)> = Vec::new();
        for (count, (flow, app, tag, epoch)) in keys.into_iter().enumerate() {
            let key = FlowKey::new(AppId(app), &flow, tag);
            let want = said.iter().rev().find(|((f, a, t), ..)| (*f, *a, *t) == (flow, app, tag));
            if let Some(answer) = cache.get(epoch, &key) {
                let (_, given, last) = want.expect("only what was said can be remembered");
                prop_assert_eq!((epoch, answer), (*given, *last));
            }
            cache.put(epoch, &key, count);
            prop_assert_eq!(cache.get(epoch, &key), Some(count));
            prop_assert_eq!(cache.get(epoch + 1, &key), None);
            said.push(((flow, app, tag), epoch, count));
        }
    }
}

#[test]
fn the_cache_keeps_four_flows_of_a_set_and_replaces_stale_ones_first() {
    let key = |n: u16| FlowKey::new(AppId(1), &flow("10.0.0.1", "10.0.0.2", 6, n, 443), 0);
    let kept =
        |cache: &FlowCache<u16>, epoch| (0..10).filter(|n| cache.get(epoch, &key(*n)) == Some(*n)).count();
    let mut cache = FlowCache::new(1, 9);
    for n in 0..4 {
        cache.put(1, &key(n), n);
    }
    assert_eq!(kept(&cache, 1), 4);
    cache.put(1, &key(4), 4);
    assert_eq!(kept(&cache, 1), 4, "a fifth pushes out one");
    assert_eq!(cache.get(1, &key(4)), Some(4));
    // In a new epoch all are stale, and none comes back.
    assert_eq!(kept(&cache, 2), 0);
    for n in 5..9 {
        cache.put(2, &key(n), n);
        assert_eq!(kept(&cache, 2), usize::from(n) - 4, "stale ones go before current ones");
    }
}

#[test]
fn flows_spread_over_the_sets_whatever_the_seed() {
    for seed in [0, 1, 0x5555_5555_5555_5555, u64::MAX] {
        let mut cache = FlowCache::new(256, seed);
        let keys: Vec<_> = (0..256u16)
            .map(|n| FlowKey::new(AppId(1), &flow("10.0.0.1", "10.0.0.2", 6, 32_768 + n, 443), 0))
            .collect();
        for key in &keys {
            cache.put(0, key, ());
        }
        let kept = keys.iter().filter(|key| cache.get(0, key).is_some()).count();
        // 256 flows in 256 sets of four: a set with more than four is rare (expected loss below 1 in 250).
        assert!(kept >= 240, "seed {seed:#x}: {kept} of 256");
    }
}

#[test]
fn associations_that_differ_in_their_class_alone_stand_beside_each_other() {
    let (ef, be) = (AggregateId(8), AggregateId(9));
    let of = |spi: u32, class: AggregateId| {
        let mut config = config(Direction::Outbound, 0x1000 + spi);
        config.options.aggregate = class;
        (config.options.follow_peer, config.options.encapsulation) = (true, Encapsulation::Udp);
        config
    };
    let mut sad = OutboundSad::new(1);
    let plain = sad.insert(outbound(of(1, AggregateId::DEFAULT))).unwrap();
    // Nobody has a class: what was found serves.
    assert_eq!(sad.of_class(plain, ef), plain);
    // The slot of one that is removed is used again, so that the newest has the lowest.
    let first = sad.insert(outbound(of(2, ef))).unwrap();
    let second = sad.insert(outbound(of(3, ef))).unwrap();
    let remote = of(2, ef).endpoints.remote;
    sad.remove(Spi(0x1001), remote).unwrap();
    let newest = sad.insert(outbound(of(4, ef))).unwrap();
    for index in [first, second, newest] {
        assert_eq!(sad.of_class(index, ef), newest);
        // No association is for the class, or for none: the one that was found.
        assert_eq!(sad.of_class(index, be), index);
    }
    // They move with their peer, the newest first.
    for index in [newest, second, first] {
        sad.move_peer(index, remote, 4501).unwrap();
    }
    assert_eq!(sad.of_class(first, ef), newest);
    // One that goes elsewhere stands beside nothing.
    sad.move_peer(newest, remote, 4502).unwrap();
    assert_eq!((sad.of_class(first, ef), sad.of_class(newest, ef)), (second, newest));
    for spi in [2, 3, 4] {
        sad.remove(Spi(0x1000 + spi), remote).unwrap();
    }
    let alone = sad.insert(outbound(of(5, AggregateId::DEFAULT))).unwrap();
    assert_eq!(sad.of_class(alone, ef), alone);
}
