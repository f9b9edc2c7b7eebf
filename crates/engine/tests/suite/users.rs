//! Tests of rules that name users: the user that the kernel half tells decides, even where the answer was remembered
//! for another.

use crate::support;

use engine::Outcome;
use proptest::prelude::*;
use sadb::rules::{Action, Direction, Place, Protection, Rule, RuleKey, RuleTable, Template};
use sadb::spd::{Level, Spd};
use sadb::{Mode, SaConfig, Spi, TrafficSelector};
use support::*;
use wire::{AppId, Buf, DropReason, Meta, Packet, Services, record, stage};

fn protect() -> Action {
    let bundle = vec![Template::ANY];
    Action::Protect(Protection {
        bundle,
        services: Services::ENCRYPTED,
        level: Level::Mandatory,
        suite: None,
    })
}

fn alice(rules: &[(String, Action)]) -> Sender {
    let mut table: RuleTable = RuleTable::new(0);
    for (number, (selector, action)) in (1..).zip(rules) {
        let selector: TrafficSelector = selector.parse().unwrap();
        let rule = Rule::new(RuleKey(number), Direction::Out, selector, action.clone());
        table.add(Place::Last, rule).unwrap();
    }
    let config = SaConfig { spi: Spi(0x1000), ..outbound_config(Mode::Tunnel, SUITES[0], false) };
    let mut alice = Sender::new(Spd::new(1), &[config]);
    alice.engine.set_rules(Some(table.snapshot()));
    alice
}

/// A packet with the mark that the TUN's egress program writes: STAMPED and no application. It has a user that the
/// record tells, or none.
fn of(user: Option<u32>, port: u16) -> Packet<stage::Inner> {
    let (alice, bob) = hosts(false);
    let bytes = udp_packet((alice, 40000), (bob, port), 0, true, b"payload");
    let (mark, cookie) = match user {
        Some(user) => (record::STAMPED | record::USER, 77 << 32 | u64::from(user)),
        None => (record::STAMPED, 77),
    };
    let meta = Meta { mark, cookie, app: AppId::NONE, ..Meta::default() };
    Packet::from_host(Buf::from_slice(&bytes, 128, 128), meta)
}

/// The outcome of the packet: whether it is protected or clear, or why it was dropped.
fn fate(alice: &mut Sender, packet: Packet<stage::Inner>) -> Result<bool, DropReason> {
    match &alice.handle(packet)[..] {
        [Outcome::Send(_)] => Ok(true),
        [Outcome::Clear(_)] => Ok(false),
        [Outcome::Drop(dropped)] => Err(dropped.reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_user_has_what_the_rules_say() {
    let rules = [
        ("uid 1000 proto udp remote-port 53".to_owned(), Action::Bypass),
        ("uid 1000-1009".to_owned(), protect()),
        ("uid 65534".to_owned(), Action::Discard),
        ("uid opaque".to_owned(), Action::Discard),
    ];
    let mut alice = alice(&rules);
    // Twice: the second time it is remembered.
    for _ in 0..2 {
        assert_eq!(fate(&mut alice, of(Some(1000), 53)), Ok(false));
        assert_eq!(fate(&mut alice, of(Some(1001), 53)), Ok(true));
        assert_eq!(fate(&mut alice, of(Some(1000), 54)), Ok(true));
        assert_eq!(fate(&mut alice, of(Some(65534), 53)), Err(DropReason::RuleDiscard));
        assert_eq!(fate(&mut alice, of(Some(0), 53)), Err(DropReason::NoSpdEntry));
        assert_eq!(fate(&mut alice, of(None, 53)), Err(DropReason::RuleDiscard));
    }
    let counts: Vec<_> = alice.engine.rule_counts().iter().map(|(_, count)| count.packets).collect();
    assert_eq!(counts, [2, 4, 2, 2]);
}

#[test]
fn only_a_stamped_record_tells_a_user() {
    let mut alice = alice(&[("uid 1000".to_owned(), Action::Bypass)]);
    let (a, b) = hosts(false);
    let bytes = udp_packet((a, 40000), (b, 53), 0, true, b"payload");
    for mark in [record::USER, record::USER | record::FORWARDED] {
        let meta = Meta { mark, cookie: 1000, ..Meta::default() };
        let packet = Packet::from_host(Buf::from_slice(&bytes, 128, 128), meta);
        assert_eq!(fate(&mut alice, packet), Err(DropReason::NoSpdEntry), "{mark:#x}");
    }
}

#[derive(Clone, Debug)]
struct Decisions {
    users: Option<(u32, u32)>,
    port: Option<u16>,
    action: u8,
}

impl Decisions {
    fn text(&self) -> String {
        let users = self.users.map(|(first, last)| format!("uid {first}-{last} "));
        let port = self.port.map(|port| format!("proto udp remote-port {port}"));
        let text = format!("{}{}", users.unwrap_or_default(), port.unwrap_or_default());
        if text.is_empty() { "any".to_owned() } else { text }
    }

    /// Whether the values that it says match, compared without the selectors under test.
    fn matches(&self, user: Option<u32>, port: u16) -> bool {
        let by_user =
            self.users.is_none_or(|(first, last)| user.is_some_and(|user| first <= user && user <= last));
        by_user && self.port.is_none_or(|own| own == port)
    }
}

fn said() -> impl Strategy<Value = Decisions> {
    let users = proptest::option::of((0..5u32, 0..3u32).prop_map(|(first, more)| (first, first + more)));
    (users, proptest::option::of(50..53u16), 0..3u8).prop_map(|(users, port, action)| Decisions {
        users,
        port,
        action,
    })
}

proptest! {
    #[test]
    fn the_first_rule_for_the_user_decides(
        rules in proptest::collection::vec(said(), 1..8),
        packets in proptest::collection::vec((proptest::option::of(0..7u32), 50..53u16), 1..40),
    ) {
        let actions = [protect(), Action::Bypass, Action::Discard];
        let table: Vec<_> =
            rules.iter().map(|said| (said.text(), actions[usize::from(said.action)].clone())).collect();
        let mut alice = alice(&table);
        for (user, port) in packets {
            let wanted = match rules.iter().find(|said| said.matches(user, port)) {
                Some(Decisions { action: 0, .. }) => Ok(true),
                Some(Decisions { action: 1, .. }) => Ok(false),
                Some(_) => Err(DropReason::RuleDiscard),
                None => Err(DropReason::NoSpdEntry),
            };
            prop_assert_eq!(fate(&mut alice, of(user, port)), wanted, "user {:?}, port {}", user, port);
        }
    }
}

/// Two users send fragments with one identification. Neither's is joined with the other's.
#[test]
fn pieces_of_different_users_never_make_one_packet() {
    let mut alice = alice(&[("any".to_owned(), Action::Bypass)]);
    let (a, b) = hosts(false);
    let whole = udp_packet((a, 40000), (b, 53), 0, true, &[7; 1000]);
    let headers = wire::ip::Headers::parse(&whole).unwrap();
    let mut pieces = wire::fragment::fragments(&whole, &headers, 9, 600).unwrap();
    let mut list = Vec::new();
    loop {
        let mut piece = Buf::with_capacity(2000, 128);
        match pieces.next_into(&mut piece) {
            Some(made) => made.unwrap(),
            None => break,
        }
        list.push(piece.as_slice().to_vec());
    }
    assert_eq!(list.len(), 2);
    let send = |alice: &mut Sender, at: usize, user: u32| {
        let mark = record::STAMPED | record::USER;
        let meta = Meta { mark, cookie: 77 << 32 | u64::from(user), ..Meta::default() };
        let outcomes = alice.handle(Packet::from_host(Buf::from_slice(&list[at], 128, 2000), meta));
        matches!(outcomes[..], [Outcome::Clear(_), ..])
    };
    assert!(!send(&mut alice, 0, 1000));
    assert!(!send(&mut alice, 1, 1001), "joined with the piece of another user");
    assert!(send(&mut alice, 1, 1000));
}
