//! Inbound associations of one cipher of one's own beside items that name another one.

use crate::common;

use std::net::IpAddr;
use std::sync::OnceLock;

use common::prefix;
use crypto::custom::{CustomDescription, Primitive};
use crypto::{Secret, SuiteId, Suites};
use sadb::sa::{SaOptions, SaProtocol};
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RivalSuite, RuleId, Spd, Terms};
use sadb::{Direction, Endpoints, Mode, SaConfig, Selectors, Spi};
use wire::{AppId, Services};

const ONE: AppId = AppId(1);
const TWO: AppId = AppId(2);

/// A suite of the catalogue with the ciphers `toya` and `toyb`.
fn suite(text: &str) -> SuiteId {
    static SUITES: OnceLock<Suites> = OnceLock::new();
    let suites = SUITES.get_or_init(|| {
        let mut suites = Suites::standard();
        for (name, id) in [("toya", 50_000), ("toyb", 50_010)] {
            let description = CustomDescription {
                name: name.to_owned(),
                version: "1".to_owned(),
                vendor: "tests".to_owned(),
                primitive: Primitive::Block { block_len: 16 },
                key_len: 16,
                max_octets: None,
            };
            suites.register(&description, id, false).unwrap();
        }
        suites
    });
    suites.find(text).unwrap()
}

fn config(suite: SuiteId, app: Option<AppId>, remote: &str) -> SaConfig {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    SaConfig {
        spi: Spi(0x1000),
        direction: Direction::Inbound,
        mode: Mode::Tunnel,
        suite,
        keymat: Secret::new(vec![0; suite.keymat_len()]),
        endpoints: Endpoints {
            local: ip("192.0.2.1"),
            remote: ip("192.0.2.2"),
            local_port: 4500,
            remote_port: 4500,
        },
        selectors: Selectors { app, remote: prefix(remote), ..Selectors::ANY },
        replay_window: 64,
        path_mtu: 1500,
        options: SaOptions::default(),
    }
}

fn item(suite: Option<SuiteId>, services: Services, level: Level, line: u32) -> Item {
    let terms = Terms { suite, ..Terms::of(level) };
    let services = terms.demanding(services);
    Item { terms, ..Item::new(PortRange::ANY, PortRange::one(22), services, level, RuleId(line)) }
}

/// Application one: 10/8 by toya, 10.9/16 by toyb, 172.16/12 without a suite, 198.51.100/24 by a cascade of toya. Two:
/// 10/8 by toyb, and authentication alone.
fn spd() -> Spd {
    let (a, b) = (suite("toyactr-sha256"), suite("toybctr-sha256"));
    let network = |text, class| Network { prefix: prefix(text), class, rule: RuleId(90) };
    let (encryption, mandatory) = (Services::ENCRYPTED, Level::Mandatory);
    let one = AppPolicy::new(
        vec![
            network("10.0.0.0/8", Class::Protected(0)),
            network("10.9.0.0/16", Class::Protected(1)),
            network("172.16.0.0/12", Class::Protected(2)),
            network("198.51.100.0/24", Class::Protected(3)),
            network("203.0.113.0/24", Class::Trusted),
        ],
        vec![
            vec![item(None, encryption, mandatory, 1), item(Some(a), encryption, mandatory, 2)],
            vec![item(Some(b), encryption, Level::Optional, 3)],
            vec![item(None, encryption, mandatory, 4)],
            vec![item(Some(suite("toyactr-aes256gcm")), encryption, mandatory, 5)],
        ],
    );
    let two = AppPolicy::new(
        vec![network("10.0.0.0/8", Class::Protected(0))],
        vec![vec![item(Some(b), Services::AUTHENTICATED, mandatory, 6)]],
    );
    let mut spd = Spd::new(1);
    spd.insert(ONE, one);
    spd.insert(TWO, two);
    spd
}

#[test]
fn an_association_that_an_item_of_another_cipher_may_meet_is_found() {
    let (a, b) = ("toyactr-sha256", "toybctr-sha256");
    // The suite of the association, its application, its remote selector, the line of the item.
    let table = [
        (a, Some(ONE), "10.1.0.0/16", None),
        (b, Some(ONE), "10.1.0.0/16", Some(2)),
        ("toyacbc-sha256", Some(ONE), "10.1.0.0/16", Some(2)),
        ("toyactr-sha512", Some(ONE), "10.1.0.0/16", Some(2)),
        // The more specific network decides about all of this, and about a part of that.
        (b, Some(ONE), "10.9.1.0/24", None),
        (a, Some(ONE), "10.9.1.0/24", Some(3)),
        (a, Some(ONE), "10.8.0.0/15", Some(3)),
        (b, Some(ONE), "10.8.0.0/15", Some(2)),
        (a, Some(ONE), "0.0.0.0/0", Some(3)),
        // Nothing names a suite there, or nothing is protected.
        (b, Some(ONE), "172.16.0.0/16", None),
        (b, Some(ONE), "203.0.113.0/24", None),
        (b, Some(ONE), "192.0.2.0/24", None),
        (b, Some(ONE), "2001:db8::/32", None),
        // A cascade is named like any standard suite, and is none that may be taken for another.
        (b, Some(ONE), "198.51.100.0/24", None),
        ("toyactr-aes256gcm", Some(ONE), "10.0.0.0/8", None),
        ("aes128gcm", Some(ONE), "10.0.0.0/8", None),
        // Associations of another application, of one without a policy, and of none.
        (b, Some(TWO), "10.0.0.0/8", None),
        (a, Some(TWO), "10.0.0.0/8", Some(6)),
        (a, Some(AppId(9)), "10.0.0.0/8", None),
        (a, None, "10.1.0.0/16", Some(6)),
        (b, None, "10.1.0.0/16", Some(2)),
    ];
    let spd = spd();
    for (suite_word, app, remote, line) in table {
        let config = config(suite(suite_word), app, remote);
        let found = spd.rival_suite(&config);
        let case = format!("{suite_word} for {app:?} with {remote}");
        assert_eq!(found.map(|RivalSuite { rule, .. }| rule.0), line, "{case}");
        if let Some(found) = found {
            assert!(app.is_none_or(|app| app == found.app) && found.suite != config.suite, "{case}");
        }
        // What leaves is chosen by its suite; AH has nothing of the cipher.
        let outbound = SaConfig { direction: Direction::Outbound, ..config.clone() };
        assert_eq!(spd.rival_suite(&outbound), None, "{case}");
        let options = SaOptions { protocol: SaProtocol::Ah, ..config.options.clone() };
        assert_eq!(spd.rival_suite(&SaConfig { options, ..config }), None, "{case}");
    }
}

#[test]
fn in_transport_mode_the_peer_itself_is_the_selector() {
    let mut config = config(suite("toybctr-sha256"), Some(ONE), "0.0.0.0/0");
    config.mode = Mode::Transport;
    assert_eq!(spd().rival_suite(&config), None);
    config.endpoints.remote = "10.1.2.3".parse().unwrap();
    assert_eq!(spd().rival_suite(&config).map(|found| found.rule), Some(RuleId(2)));
}

#[test]
fn networks_that_are_names_may_be_anywhere() {
    let config = config(suite("toybctr-sha256"), Some(ONE), "192.0.2.0/24");
    let mut spd = spd();
    assert_eq!(spd.rival_suite(&config), None);
    spd.changing.insert(TWO);
    assert_eq!(spd.rival_suite(&config), None);
    spd.changing.insert(ONE);
    assert_eq!(spd.rival_suite(&config).map(|found| found.rule), Some(RuleId(2)));
}
