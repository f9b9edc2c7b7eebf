//! Ciphers of one's own count as encryption where an item or a rule names their suite, and as authentication elsewhere
//! (issue 23 item 4).

use std::sync::{Arc, LazyLock};

use crate::auth;
use crate::support;

use auth::{ah_config, bare_config, sha256};
use crypto::custom::{BlockKey, CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError};
use crypto::{Registry, SuiteId, Suites, UnitFailed};
use crypto_std::CustomProvider;
use engine::{Dropped, Event, HoldLimits, Inbound, Outbound, Outcome};
use sadb::rules::{Action, Direction, Place, Protection, Rule, RuleKey, RuleTable, Template};
use sadb::sa::{Encapsulation, SaProtocol};
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RuleId, Spd, Terms};
use sadb::{InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi, TrafficSelector};
use support::*;
use wire::{AppId, DropReason, Packet, Prefix, Services, protocol, record, stage};

/// No cipher that hides anything: XOR with the key, and a number that tells two of them apart.
struct Toy {
    description: CustomDescription,
    number: u8,
}

struct ToyKey([u8; 16], u8);

impl CustomCipher for Toy {
    fn description(&self) -> &CustomDescription {
        &self.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let key = key.try_into().map_err(|_| SetKeyError::Length)?;
        Ok(CustomKey::Block(Box::new(ToyKey(key, self.number))))
    }
}

impl BlockKey for ToyKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        blocks.chunks_mut(16).for_each(|block| {
            block.iter_mut().zip(self.0).for_each(|(octet, key)| *octet ^= key ^ self.1);
        });
        Ok(())
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.encrypt_blocks(blocks)
    }
}

/// The standard suites, and those of the ciphers `toya` and `toyb`.
fn toys() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let toy = |name: &str, number| Toy {
            description: CustomDescription {
                name: name.to_owned(),
                version: "1".to_owned(),
                vendor: "tests".to_owned(),
                primitive: Primitive::Block { block_len: 16 },
                key_len: 16,
                max_octets: None,
            },
            number,
        };
        let ciphers = [toy("toya", 1), toy("toyb", 2)];
        let mut suites = Suites::standard();
        for (toy, id) in ciphers.iter().zip([50_000, 50_010]) {
            suites.register(&toy.description, id, false).unwrap();
        }
        let registry = crypto_std::registry().unwrap().with_suites(suites.clone());
        ciphers.into_iter().fold(registry, |registry, toy| {
            registry.with(CustomProvider::new(Arc::new(toy), &suites).unwrap())
        })
    });
    &REGISTRY
}

fn suite(text: &str) -> SuiteId {
    toys().suites().find(text).unwrap()
}

/// The suites of the tables here: two of ciphers of one's own, a cascade, a standard one, one that only authenticates.
fn suites() -> [SuiteId; 5] {
    ["toyactr-sha256", "toybctr-sha256", "toyactr-aes256gcm", "aes128gcm", "null-sha256"].map(suite)
}

/// What each of [`suites`] gives.
const GIVEN: [Services; 5] =
    [Services::CUSTOM, Services::CUSTOM, Services::ENCRYPTED, Services::ENCRYPTED, Services::AUTHENTICATED];

fn config(spi: u32, suite: SuiteId) -> SaConfig {
    SaConfig {
        spi: Spi(spi),
        keymat: keymat(suite, spi as u8),
        ..outbound_config(Mode::Tunnel, suite, false)
    }
}

/// An item for datagrams to this port, as the compiler of policies makes it.
fn item(port: PortRange, services: Services, level: Level, suite: Option<SuiteId>) -> Item {
    let terms = Terms { suite, ..Terms::of(level) };
    Item { terms, ..Item::new(PortRange::ANY, port, terms.demanding(services), level, RuleId(2)) }
}

fn spd(items: Vec<Item>) -> Spd {
    let network = Network { prefix: Prefix::ANY, class: Class::Protected(0), rule: RuleId(1) };
    let mut spd = Spd::new(1);
    spd.insert(APP, AppPolicy::new(vec![network], vec![items]));
    spd
}

fn any(services: Services, level: Level, suite: Option<SuiteId>) -> Spd {
    spd(vec![item(PortRange::ANY, services, level, suite)])
}

fn sender(spd: Spd, configs: &[SaConfig]) -> Sender {
    let mut engine = Outbound::new(Arc::new(spd), 1);
    for config in configs {
        engine.add_sa(OutboundSa::new(config.clone(), toys()).unwrap()).unwrap();
    }
    Sender { engine, pool: pool() }
}

fn receiver(configs: &[SaConfig]) -> Receiver {
    let mut engine = Inbound::new(PORT);
    for config in configs {
        engine.add_sa(InboundSa::new(mirror(config), toys()).unwrap()).unwrap();
    }
    Receiver { engine, pool: pool() }
}

fn datagram(port: u16) -> Vec<u8> {
    let (alice, bob) = hosts(false);
    udp_packet((alice, 40000), (bob, port), 0, true, b"payload")
}

fn result(alice: &mut Sender, packet: Packet<stage::Inner>) -> Result<Packet<stage::Outer>, DropReason> {
    match alice.handle(packet).remove(0) {
        Outcome::Send(outer) => Ok(outer),
        Outcome::Drop(Dropped { reason, .. }) => Err(reason),
        other => panic!("{other:?}"),
    }
}

/// Packets of [`APP`] that left authenticated, and encrypted.
fn left(alice: &Sender) -> [u64; 2] {
    let of = alice.engine.stats().left_by_app().find(|(app, _)| *app == APP);
    of.map_or([0; 2], |(_, of)| of.map(|traffic| traffic.packets))
}

#[test]
fn what_an_association_gives() {
    for (suite, services) in suites().into_iter().zip(GIVEN) {
        assert_eq!(config(SPI, suite).services(), services, "{suite}");
    }
    assert_eq!(config(SPI, suite("toyacbc-sha256")).services(), Services::CUSTOM);
    // AH has the integrity of the suite and nothing of the cipher.
    assert_eq!(ah_config(Mode::Tunnel, sha256(), false).services(), Services::AUTHENTICATED);
}

type Verdict = Result<(), DropReason>;

const SERVED: Verdict = Ok(());
const WEAK: Verdict = Err(DropReason::SaTooWeak);
const NONE: Verdict = Err(DropReason::NoSa);

/// What is demanded, the suite that is named for it, and what becomes of a packet where an association of each of
/// [`suites`] is the only one. Items and rules decide alike.
fn served_outbound() -> [(Services, Option<SuiteId>, [Verdict; 5]); 6] {
    let (authentication, encryption) = (Services::AUTHENTICATED, Services::ENCRYPTED);
    let [a, _, cascade, gcm, _] = suites();
    [
        (encryption, None, [WEAK, WEAK, SERVED, SERVED, WEAK]),
        (authentication, None, [SERVED; 5]),
        (encryption, Some(a), [SERVED, NONE, NONE, NONE, NONE]),
        (authentication, Some(a), [SERVED, NONE, NONE, NONE, NONE]),
        (encryption, Some(cascade), [NONE, NONE, SERVED, NONE, NONE]),
        (encryption, Some(gcm), [NONE, NONE, NONE, SERVED, NONE]),
    ]
}

#[test]
fn outbound_an_item_takes_a_cipher_of_ones_own_where_it_names_the_suite() {
    for (services, named, expected) in served_outbound() {
        for ((suite, given), expected) in suites().into_iter().zip(GIVEN).zip(expected) {
            let case = format!("{services:?} suite {named:?}, association {suite}");
            let mut alice = sender(any(services, Level::Mandatory, named), &[config(SPI, suite)]);
            let got = result(&mut alice, stamped(APP, &datagram(53)));
            assert_eq!(got.as_ref().map(|_| ()).map_err(|reason| *reason), expected, "{case}");
            let Ok(outer) = got else { continue };
            assert_eq!(outer.meta.services, given, "{case}");
            // Counted as what it counts for: encryption where the suite is named or standard.
            let encrypted = given.encrypts() || given == Services::CUSTOM && named == Some(suite);
            assert_eq!(left(&alice), if encrypted { [0, 1] } else { [1, 0] }, "{case}");
        }
    }
}

#[test]
fn below_mandatory_it_is_better_than_clear_and_counts_as_authentication() {
    let a = suite("toyactr-sha256");
    let mut alice = sender(any(Services::ENCRYPTED, Level::Optional, None), &[config(SPI, a)]);
    assert!(result(&mut alice, stamped(APP, &datagram(53))).is_ok());
    assert_eq!(left(&alice), [1, 0]);
}

#[test]
fn outbound_a_socket_that_asks_for_encryption_gets_it_where_the_item_names_the_suite() {
    let a = suite("toyactr-sha256");
    let asking = |app| {
        let mut packet = stamped(app, &datagram(53));
        packet.meta.mark |= record::AUTHENTICATED | record::ENCRYPTED;
        packet
    };
    let authentication = Services::AUTHENTICATED;
    for (named, expected) in [(None, WEAK), (Some(a), SERVED)] {
        let mut alice = sender(any(authentication, Level::Mandatory, named), &[config(SPI, a)]);
        assert!(result(&mut alice, stamped(APP, &datagram(53))).is_ok());
        assert_eq!(result(&mut alice, asking(APP)).map(|_| ()), expected, "{named:?}");
        // Nobody's policy names a suite for it.
        assert_eq!(result(&mut alice, asking(AppId(99))).map(|_| ()), WEAK);
    }
}

#[test]
fn an_answer_leaves_with_no_less_than_what_it_answers() {
    let answer = |services: Services| reflected(record::PROOF | 7 | services.in_mark(), &datagram(53));
    for (suite, given) in suites().into_iter().zip(GIVEN) {
        for came in [Services::AUTHENTICATED, Services::CUSTOM, Services::ENCRYPTED] {
            let mut alice = sender(Spd::new(1), &[config(SPI, suite)]);
            let expected = if given.bits() >= came.bits() { SERVED } else { WEAK };
            assert_eq!(result(&mut alice, answer(came)).map(|_| ()), expected, "{came:?} by {suite}");
        }
    }
    // The strongest of several associations decides.
    let [a, _, _, gcm, null] = suites();
    let mut alice = sender(Spd::new(1), &[config(1000, gcm), config(1001, a), config(1002, null)]);
    assert_eq!(result(&mut alice, answer(Services::CUSTOM)).unwrap().meta.spi, 1000);
}

#[test]
fn inbound_the_mark_says_what_a_packet_had() {
    for (suite, given) in suites().into_iter().zip(GIVEN) {
        let sa = [config(SPI, suite)];
        let mut alice = sender(any(Services::AUTHENTICATED, Level::Mandatory, None), &sa);
        let outer = result(&mut alice, stamped(APP, &datagram(53))).unwrap();
        let (packet, mark) = receiver(&sa).handle(outer.bytes()).unwrap();
        assert_eq!((packet.meta.services, mark), (given, record::PROOF | given.in_mark()), "{suite}");
        assert_eq!(mark & record::AUTHENTICATED != 0, given != Services::CUSTOM, "{suite}");
    }
}

fn protect(services: Services, level: Level, suite: Option<SuiteId>) -> Action {
    Action::Protect(Protection { bundle: vec![Template::ANY], services, level, suite })
}

fn rules(direction: Direction, action: Action) -> Option<Arc<sadb::Snapshot>> {
    let mut table = RuleTable::new(0);
    table.add(Place::Last, Rule::new(RuleKey(1), direction, TrafficSelector::ANY, action)).unwrap();
    Some(table.snapshot())
}

#[test]
fn outbound_a_rule_takes_a_cipher_of_ones_own_where_it_names_the_suite() {
    for (services, named, expected) in served_outbound() {
        for (suite, expected) in suites().into_iter().zip(expected) {
            let mut alice = sender(Spd::new(1), &[config(SPI, suite)]);
            alice.engine.set_rules(rules(Direction::Out, protect(services, Level::Mandatory, named)));
            let got = result(&mut alice, from_host(&datagram(53))).map(|_| ());
            assert_eq!(got, expected, "{services:?} suite {named:?}, association {suite}");
        }
    }
    // A socket that asks for encryption has it by a rule that names the suite; its own demand decides otherwise, also
    // where the rule is content with less than it demands.
    let (authentication, encryption) = (Services::AUTHENTICATED, Services::ENCRYPTED);
    let (mandatory, optional) = (Level::Mandatory, Level::Optional);
    let [a, _, _, _, null] = suites();
    for (suite, services, level, named, expected) in [
        (a, encryption, mandatory, Some(a), SERVED),
        (a, encryption, optional, Some(a), SERVED),
        (a, authentication, mandatory, Some(a), WEAK),
        (a, authentication, mandatory, None, WEAK),
        (a, encryption, optional, None, WEAK),
        (null, encryption, optional, None, WEAK),
    ] {
        let mut alice = sender(Spd::new(1), &[config(SPI, suite)]);
        alice.engine.set_rules(rules(Direction::Out, protect(services, level, named)));
        let mut packet = stamped(AppId::NONE, &datagram(53));
        packet.meta.mark |= record::AUTHENTICATED | record::ENCRYPTED;
        let got = result(&mut alice, packet).map(|_| ());
        assert_eq!(got, expected, "{services:?} {level:?} {named:?}, association {suite}");
    }
}

#[test]
fn a_rule_without_its_association_asks_for_the_suite() {
    let a = suite("toyactr-sha256");
    let mut alice = sender(Spd::new(1), &[config(SPI, suite("toybctr-sha256"))]);
    alice.engine.set_hold(Some(HoldLimits::default()));
    alice.engine.set_rules(rules(Direction::Out, protect(Services::ENCRYPTED, Level::Mandatory, Some(a))));
    assert!(matches!(alice.handle(from_host(&datagram(53)))[..], [Outcome::Held(..)]));
    let Some(Event::Acquire(asked)) = alice.engine.poll_event() else { panic!("no acquire") };
    assert_eq!((asked.suite, asked.services.encrypts()), (Some(a), true));
}

#[test]
fn inbound_a_rule_tells_two_ciphers_of_ones_own_apart() {
    let (authentication, encryption) = (Services::AUTHENTICATED, Services::ENCRYPTED);
    let (good, bad) = (Ok(()), Err(DropReason::InboundPolicy));
    let [a, _, cascade, gcm, _] = suites();
    let table = [
        (encryption, None, Level::Mandatory, [bad, bad, good, good, bad]),
        (authentication, None, Level::Mandatory, [good; 5]),
        (encryption, Some(a), Level::Mandatory, [good, bad, good, good, bad]),
        (authentication, Some(a), Level::Mandatory, [good, bad, good, good, good]),
        (encryption, Some(cascade), Level::Mandatory, [bad, bad, good, good, bad]),
        (encryption, Some(gcm), Level::Mandatory, [bad, bad, good, good, bad]),
        (encryption, None, Level::Optional, [good; 5]),
        (encryption, Some(a), Level::Optional, [good; 5]),
    ];
    for (services, named, level, expected) in table {
        for (suite, expected) in suites().into_iter().zip(expected) {
            let sa = [config(SPI, suite)];
            let mut alice = sender(any(authentication, Level::Mandatory, None), &sa);
            let outer = result(&mut alice, stamped(APP, &datagram(53))).unwrap();
            let mut bob = receiver(&sa);
            bob.engine.set_rules(rules(Direction::In, protect(services, level, named)));
            let got = bob.handle(outer.bytes()).map(|_| ()).map_err(|dropped| dropped.reason);
            assert_eq!(got, expected, "{services:?} suite {named:?} {level:?}, association {suite}");
        }
    }
}

/// Two members in the order in which a packet passes them; flows choose the first.
fn bundle(mut inner: SaConfig, mut outer: SaConfig) -> [SaConfig; 2] {
    (inner.spi, outer.spi) = (Spi(0x1000), Spi(0x1001));
    inner.options.next = Some(outer.spi);
    (inner.options.encapsulation, outer.options.encapsulation) = (Encapsulation::None, Encapsulation::None);
    let upper = if inner.options.protocol == SaProtocol::Ah { protocol::AH } else { protocol::ESP };
    outer.selectors = Selectors { protocol: Some(upper), ..Selectors::ANY };
    [inner, outer]
}

#[test]
fn members_of_a_bundle_do_not_add_up_to_encryption() {
    let [a, b, _, gcm, _] = suites();
    let esp = |suite| {
        let config = bare_config(SaProtocol::Esp, Mode::Transport, suite, false);
        SaConfig { keymat: keymat(suite, 9), ..config }
    };
    let ah = || ah_config(Mode::Transport, sha256(), false);
    // Authenticated (1) and under a cipher of one's own (2) are not encrypted (3).
    for (what, members, given) in [
        ("AH over toya", bundle(esp(a), ah()), Services::CUSTOM),
        ("toya over AH", bundle(ah(), esp(a)), Services::CUSTOM),
        ("toyb over toya", bundle(esp(a), esp(b)), Services::CUSTOM),
        ("AES-GCM over toya", bundle(esp(a), esp(gcm)), Services::ENCRYPTED),
        ("AH over AES-GCM", bundle(esp(gcm), ah()), Services::ENCRYPTED),
    ] {
        let mut strict = sender(any(Services::ENCRYPTED, Level::Mandatory, None), &members);
        let got = result(&mut strict, stamped(APP, &datagram(53))).map(|_| ());
        assert_eq!(got, if given == Services::ENCRYPTED { SERVED } else { WEAK }, "{what}");
        let mut alice = sender(any(Services::AUTHENTICATED, Level::Mandatory, None), &members);
        let outer = result(&mut alice, stamped(APP, &datagram(53))).unwrap();
        assert_eq!(outer.meta.services, given, "{what}");
        assert_eq!(left(&alice), if given == Services::ENCRYPTED { [0, 1] } else { [1, 0] }, "{what}");
        let (packet, mark) = receiver(&members).handle(outer.bytes()).unwrap();
        assert_eq!((packet.meta.services, mark), (given, record::PROOF | given.in_mark()), "{what}");

        // Every one of these bundles has toya in it, so a rule that names toya takes it; one has toyb as well.
        let by = |action| {
            let mut bob = receiver(&members);
            bob.engine.set_rules(rules(Direction::In, action));
            bob.handle(outer.bytes()).is_ok()
        };
        let strong = given == Services::ENCRYPTED;
        assert_eq!(by(protect(Services::ENCRYPTED, Level::Mandatory, None)), strong, "{what}");
        assert!(by(protect(Services::ENCRYPTED, Level::Mandatory, Some(a))), "{what}");
        let names_b = strong || what == "toyb over toya";
        assert_eq!(by(protect(Services::ENCRYPTED, Level::Mandatory, Some(b))), names_b, "{what}");
    }
}

/// An association of one's own cipher between two hosts, around a tunnel that carries other addresses: its selectors say
/// nothing of these, so it is not held against items for them (`Spd::rival_suite`), and counts as authentication.
#[test]
fn compression_in_front_of_the_suite_that_an_item_names_serves() {
    let [a, b, ..] = suites();
    let (demanded, mandatory) = (Services::ENCRYPTED, Level::Mandatory);
    for (with, expected) in [(a, SERVED), (b, NONE)] {
        let compress =
            SaConfig { spi: Spi(0x300), ..bare_config(SaProtocol::IpComp, Mode::Transport, a, false) };
        let mut members = bundle(compress, SaConfig { mode: Mode::Transport, ..config(0x4000, with) });
        // What does not become shorter is not compressed.
        members[1].selectors = Selectors::ANY;
        let mut alice = sender(any(demanded, mandatory, Some(a)), &members);
        let mut bob = receiver(&members);
        let bytes = datagram(53);
        let got = result(&mut alice, stamped(APP, &bytes));
        assert_eq!(got.as_ref().map(|_| ()).map_err(|reason| *reason), expected, "{with}");
        let Ok(outer) = got else { continue };
        assert_eq!(left(&alice), [0, 1], "it counts as the encryption that the item names");
        assert_eq!(bob.handle(outer.bytes()).unwrap().0.bytes(), bytes);
    }
    // The suite field of compression alone is no cipher.
    let compress = SaConfig { spi: Spi(0x300), ..bare_config(SaProtocol::IpComp, Mode::Transport, a, false) };
    let mut alice = sender(any(demanded, mandatory, Some(a)), &[compress]);
    assert!(result(&mut alice, stamped(APP, &datagram(53))).is_err());
}

#[test]
fn a_cipher_of_ones_own_vouches_for_peers_of_its_own_selectors_alone() {
    let esp = |mode| {
        let config = bare_config(SaProtocol::Esp, mode, suite("toybctr-sha256"), false);
        SaConfig { keymat: keymat(config.suite, 9), ..config }
    };
    let arrived = |members: &[SaConfig]| {
        let mut alice = sender(any(Services::AUTHENTICATED, Level::Mandatory, None), members);
        // Neither of these is an end of the associations.
        let [local, remote] = ["203.0.113.1", "203.0.113.2"].map(|text| text.parse().unwrap());
        let inner = udp_packet((local, 40000), (remote, 53), 0, true, b"payload");
        let outer = result(&mut alice, stamped(APP, &inner)).unwrap();
        let (packet, mark) = receiver(members).handle(outer.bytes()).unwrap();
        assert_eq!(mark, record::PROOF | packet.meta.services.in_mark());
        packet.meta.services
    };
    let around = esp(Mode::Transport);
    assert_eq!(arrived(&bundle(ah_config(Mode::Tunnel, sha256(), false), around)), Services::AUTHENTICATED);
    // The tunnel is the cipher's own here, and its selectors cover the peer.
    assert_eq!(
        arrived(&bundle(esp(Mode::Tunnel), ah_config(Mode::Transport, sha256(), false))),
        Services::CUSTOM
    );
}

#[test]
fn packets_that_leave_together_are_counted_as_their_own_items_demand() {
    let a = suite("toyactr-sha256");
    let items = vec![
        item(PortRange::one(53), Services::ENCRYPTED, Level::Mandatory, Some(a)),
        item(PortRange::ANY, Services::AUTHENTICATED, Level::Mandatory, None),
    ];
    let alice = sender(spd(items), &[config(SPI, a)]);
    let mut alice = Sender { engine: alice.engine.gathering(), pool: alice.pool };
    let mut out = Vec::new();
    for port in [53, 53, 54, 53, 54, 54, 54] {
        alice.engine.handle(NOW, stamped(APP, &datagram(port)), &mut alice.pool, &mut out);
    }
    alice.engine.flush(&mut alice.pool, &mut out);
    assert_eq!(left(&alice), [4, 3], "{out:?}");
}
