//! Associations with keys by hand: from a request to a checked configuration, and what is told about one.
//!
//! What enters: [`api::SaAdd`]. What leaves: [`sadb::SaConfig`] for the thread that will own the association,
//! [`api::SaInfo`] for people. Shared by the control plane and by replay. docs/design/0003.

mod defaults;
mod options;

pub use defaults::Defaults;
use defaults::bad;
pub use options::{check_lifetime, class, limits, state};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::{ClassOrMatch, Direction, Mode, SaAdd, SaCounters, SaInfo, SaType, SelectorInfo, SpiRequest};
use crypto::{Secret, SuiteId, Suites, UnknownSuite};
use qos::graph::Aggregates;
use sadb::sa::{DEFAULT_PATH_MTU, DEFAULT_REPLAY_WINDOW, LifeState, Padding};
use sadb::{Endpoints, InboundSa, OutboundSa, SaConfig, Selectors, Spi};
use wire::{AggregateId, AppId, DropReason, Prefix, Time};
use zeroize::Zeroizing;

use crate::api_error::{ApiError, Blame};
use crate::ciphers::isolation_of;
use crate::classes::{Classes, class_name};
use config::{CiphersConfig, KEEPALIVE};

/// The suite of a chain's member without key; it is never used.
const NO_SUITE: SuiteId = SuiteId::AES_128_GCM;

/// Examples of names of suites, for remedies.
const SUITES: &str = "for example aes128gcm, chacha20poly1305, aes256cbc-sha256; for AH sha256";

/// The configuration that a request asks for, under this SPI. Consumes the request: its text of the key is wiped.
///
/// # Errors
/// What is wrong with the request; nothing that it says is repeated where it could be a key.
pub fn configuration(request: SaAdd, spi: Spi, defaults: &Defaults<'_>) -> Result<SaConfig, ApiError> {
    contradictions(&request)?;
    let keyless = matches!(request.kind, SaType::Ipcomp | SaType::Ipip);
    let suite = match request.suite.as_str() {
        "" if keyless => NO_SUITE,
        "" => return Err(bad("no suite was given").remedy(SUITES)),
        "null" => {
            return Err(bad(
                "the suite null alone neither encrypts nor authenticates, which is always refused",
            )
            .remedy("name what authenticates: sha256, or null-sha256, which is the same"));
        }
        name => defaults.suites.find(name).map_err(|error| bad(error.to_string()).remedy(SUITES))?,
    };
    let octets = if keyless && request.keymat.is_empty() {
        Zeroizing::default()
    } else {
        request.keymat.octets().map_err(|error| {
            bad(error.to_string()).remedy(format!("give {} hexadecimal digits", 2 * suite.keymat_len()))
        })?
    };
    let options = options::read(&request, defaults)?;
    let app = match &request.app {
        None => None,
        Some(name) => Some((defaults.app)(name).ok_or_else(|| {
            ApiError::new(Blame::NotFound, format!("the policy has no block for application {name:?}"))
                .remedy("name an application as the policy does (`ravelin policy check FILE` lists them)")
        })?),
    };
    let config = SaConfig {
        spi,
        direction: match request.direction {
            Direction::In => sadb::Direction::Inbound,
            Direction::Out => sadb::Direction::Outbound,
        },
        mode: match request.mode {
            Mode::Transport => sadb::Mode::Transport,
            Mode::Tunnel => sadb::Mode::Tunnel,
            Mode::Beet => sadb::Mode::Beet,
        },
        suite,
        keymat: Secret::new(octets.to_vec()),
        endpoints: Endpoints {
            local: request.local,
            remote: request.remote,
            local_port: request.local_port,
            remote_port: request.remote_port,
        },
        selectors: Selectors {
            local: prefix(request.selector_local.as_deref(), request.local)?,
            remote: prefix(request.selector_remote.as_deref(), request.remote)?,
            protocol: request.protocol.as_deref().map(protocol).transpose()?,
            app,
            local_ports: options::ports(request.local_ports.as_deref())?,
            remote_ports: options::ports(request.remote_ports.as_deref())?,
        },
        replay_window: request.replay_window.unwrap_or(DEFAULT_REPLAY_WINDOW),
        path_mtu: request.path_mtu.or(defaults.path_mtu).unwrap_or(DEFAULT_PATH_MTU),
        options,
    };
    config.check()?;
    Ok(config)
}

/// What the request says and no association of its kind has: silence would let its author believe that it does something.
fn contradictions(request: &SaAdd) -> Result<(), ApiError> {
    let inbound = request.direction == Direction::In;
    if inbound && request.next.is_some() {
        return Err(bad(
            "\"next\" belongs to outbound associations: inbound, each packet says itself what it is inside",
        )
        .remedy("leave it out here, and give it to the outbound one"));
    }
    if !inbound && request.replay_window.is_some() {
        return Err(bad("a replay window belongs to inbound associations: an outbound one only counts")
            .remedy("leave \"replay_window\" (`--replay-window`) out here"));
    }
    if request.found_by.is_some() && matches!(request.class, Some(ClassOrMatch::Match(_))) {
        return Err(bad(
            "\"match\" is there, and \"class\" with one of its words, which still means the same",
        )
        .remedy("leave \"class\" out, or name a class of the graph in it"));
    }
    if !inbound && request.match_word().is_some() {
        return Err(bad("\"match\" says what an inbound association is found by; an outbound one is found by its selectors")
            .remedy("leave it out here"));
    }
    if !request.esn && request.sequence.is_some_and(|number| number > u64::from(u32::MAX)) {
        return Err(bad("a sequence number of more than 32 bits needs extended sequence numbers")
            .remedy("give \"esn\": true, or a number below 4294967296"));
    }
    if !inbound && request.sequence == Some(0) {
        return Err(bad("sequence number 0 is never sent (RFC 4303 section 2.2)").remedy("give 1 or more"));
    }
    let word = match request.kind {
        SaType::Ipcomp => "ipcomp",
        SaType::Ipip => "ipip",
        SaType::Esp | SaType::Ah => return Ok(()),
    };
    if !request.suite.is_empty() || !request.keymat.is_empty() {
        return Err(bad(format!(
            "an association of type {word} has neither suite nor key: it protects nothing by itself"
        ))
        .remedy("leave \"suite\" and \"keymat\" out, and let an ESP or AH association follow (\"next\")"));
    }
    Ok(())
}

/// Whether a daemon could take the request; what depends on its state (an application's name, an SPI or key in use) it says
/// itself.
///
/// Without `suites`, a suite that is no standard one is left to the daemon, which knows the ciphers of one's own. So is
/// the class, for the daemon knows its graph.
///
/// # Errors
/// What is wrong with the request.
pub fn check(request: &SaAdd, suites: Option<&Suites>) -> Result<(), ApiError> {
    let standard = Suites::standard();
    // Which ciphers of one's own there are is the daemon's to say.
    if suites.is_none()
        && let Err(UnknownSuite::Cipher(_)) = standard.find(&request.suite)
        && !request.suite.is_empty()
    {
        return Ok(());
    }
    let suites = suites.unwrap_or(&standard);
    if request.sequence.is_some() {
        return Err(bad("a daemon counts from 1, never from elsewhere")
            .remedy("leave \"sequence\" out; only `ravelin replay` takes it"));
    }
    // Stands for the one that the daemon will choose.
    let spi = requested_spi(request)?.unwrap_or(Spi(0x1000));
    let app = |_: &str| Some(AppId(1));
    configuration(
        request.clone(),
        spi,
        &Defaults {
            suites,
            classes: &Classes::OfWhoeverTakesIt,
            path_mtu: None,
            keepalive: KEEPALIVE,
            app: &app,
            random: 0,
            padding: Padding::Least,
        },
    )
    .map(drop)
}

/// The SPI that a request names, `None` for one that the daemon is to choose.
///
/// # Errors
/// An outbound SPI is the peer's choice.
pub fn requested_spi(request: &SaAdd) -> Result<Option<Spi>, ApiError> {
    match (request.spi, request.direction) {
        (SpiRequest::This(spi), _) => Ok(Some(Spi(spi.0))),
        (SpiRequest::Auto, Direction::In) => Ok(None),
        (SpiRequest::Auto, Direction::Out) => {
            Err(bad("the SPI of an outbound association is the peer's choice")
                .remedy("give the SPI of the peer's inbound association"))
        }
    }
}

fn prefix(text: Option<&str>, host: IpAddr) -> Result<Prefix, ApiError> {
    let Some(text) = text else { return Ok(Prefix::host(host)) };
    let wrong = || {
        bad(format!("{:?} is not a prefix", text.chars().take(64).collect::<String>()))
            .remedy("write an address, or an address, a slash and a length: 10.0.0.0/8, 2001:db8::/32")
    };
    match text.split_once('/') {
        None => text.parse().map(Prefix::host).map_err(|_| wrong()),
        Some((address, length)) => {
            let address = address.parse().map_err(|_| wrong())?;
            Prefix::new(address, length.parse().map_err(|_| wrong())?).ok_or_else(wrong)
        }
    }
}

/// The words for IP protocols that the commands understand.
const PROTOCOLS: [(&str, u8); 5] = [("icmp", 1), ("tcp", 6), ("udp", 17), ("icmpv6", 58), ("sctp", 132)];

/// A protocol's number from its word or its digits.
///
/// # Errors
/// If it is neither.
pub fn protocol(text: &str) -> Result<u8, ApiError> {
    let known = PROTOCOLS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, number)| *number);
    known.or_else(|| text.parse().ok()).ok_or_else(|| {
        bad(format!("{:?} is no IP protocol", text.chars().take(32).collect::<String>()))
            .remedy("write tcp, udp, icmp, icmpv6, sctp or a number from 0 to 255")
    })
}

/// A protocol's word, or its digits.
pub fn protocol_word(number: u8) -> String {
    let known = PROTOCOLS.iter().find(|(_, n)| *n == number);
    known.map_or_else(|| number.to_string(), |(word, _)| (*word).to_owned())
}

/// A direction as the API says it.
pub fn direction(direction: sadb::Direction) -> Direction {
    match direction {
        sadb::Direction::Inbound => Direction::In,
        sadb::Direction::Outbound => Direction::Out,
    }
}

/// What is told about an association, before its application has a name: the threads know only numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct SaView {
    info: SaInfo,
    app: Option<AppId>,
    served: Selectors,
    aggregate: AggregateId,
}

impl SaView {
    /// What is told about an outbound association.
    pub fn outbound(sa: &OutboundSa, now: Time) -> SaView {
        let sequence = sa.next_sequence().saturating_sub(1);
        let mut view = SaView::new(sa.config(), sequence, sa.life.state(), &sa.counters);
        view.info.pmtu = Some(options::pmtu(sa.path(), now));
        view
    }

    /// What is told about an inbound association.
    pub fn inbound(sa: &InboundSa) -> SaView {
        SaView::new(sa.config(), sa.replay.top(), sa.life.state(), &sa.counters)
    }

    /// The flows that it serves.
    pub fn served(&self) -> Selectors {
        self.served
    }

    /// The application that it is bound to.
    pub fn app(&self) -> Option<AppId> {
        self.app
    }

    /// What is told about the association, with the names of its application and its class, and the place of its cipher.
    pub fn named(
        self,
        name: impl FnOnce(AppId) -> String,
        ciphers: &CiphersConfig,
        classes: &Aggregates,
    ) -> SaInfo {
        let mut info = self.info;
        info.class = class_name(classes, self.aggregate);
        info.selectors.app = self.app.map(name);
        info.isolation = isolation_of(ciphers, &info.suite).map(str::to_owned);
        info
    }

    fn new(config: &SaConfig, sequence: u64, life: LifeState, counters: &sadb::Counters) -> SaView {
        let selectors = config.effective_selectors();
        let direction = direction(config.direction);
        let info = SaInfo {
            spi: api::Spi(config.spi.0),
            direction,
            mode: match config.mode {
                sadb::Mode::Transport => Mode::Transport,
                sadb::Mode::Tunnel => Mode::Tunnel,
                sadb::Mode::Beet => Mode::Beet,
            },
            kind: options::kind(config.options.protocol),
            encapsulation: options::encapsulation(config.options.encapsulation),
            suite: if config.options.protocol.is_keyed() { config.suite.to_string() } else { String::new() },
            isolation: None,
            esn: config.options.extended_sequence,
            lifetime: options::lifetime_info(config.options.lifetime),
            state: options::state(life),
            next: config.options.next.map(|spi| api::Spi(spi.0)),
            found_by: options::class_word(config.options.class),
            class: None,
            local: config.endpoints.local,
            remote: config.endpoints.remote,
            local_port: config.endpoints.local_port,
            remote_port: config.endpoints.remote_port,
            selectors: SelectorInfo {
                local: selectors.local.to_string(),
                remote: selectors.remote.to_string(),
                protocol: selectors.protocol,
                local_ports: options::ports_text(selectors.local_ports),
                remote_ports: options::ports_text(selectors.remote_ports),
                app: None,
            },
            replay_window: (direction == Direction::In).then_some(config.replay_window),
            path_mtu: config.path_mtu,
            pmtu: None,
            keepalive: Some(config.options.keepalive).filter(|seconds| *seconds > 0),
            dummy: Some(config.options.dummy).filter(|rate| *rate > 0),
            follow_peer: config.options.follow_peer,
            inner_mtu: u32::try_from(ipsec::inner_mtu(config)).unwrap_or(u32::MAX),
            sequence,
            counters: SaCounters {
                packets: counters.packets,
                bytes: counters.bytes,
                auth_failed: counters.drops_for(DropReason::AuthFailed),
                replayed: counters.drops_for(DropReason::Replayed)
                    + counters.drops_for(DropReason::ReplayTooOld),
                keepalives: counters.keepalives,
                dummies: counters.dummies,
                drops: counters.drops().map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
            },
        };
        SaView { info, app: selectors.app, served: selectors, aggregate: config.options.aggregate }
    }
}

/// The part of selectors that speaks of multicast groups: none of an association between two hosts.
pub fn groups_of(selectors: Selectors) -> impl Iterator<Item = Selectors> {
    let all = [
        Prefix::new(Ipv4Addr::new(224, 0, 0, 0).into(), 4),
        Prefix::new(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0).into(), 8),
    ];
    all.into_iter().flatten().filter_map(move |groups| {
        let remote = if selectors.remote.covers(groups) { groups } else { selectors.remote };
        groups.covers(remote).then_some(Selectors { remote, ..selectors })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Keymat;

    fn request() -> SaAdd {
        SaAdd {
            kind: SaType::Esp,
            encapsulation: None,
            esn: false,
            lifetime: api::Lifetime::default(),
            headers: None,
            tfc: None,
            padding: None,
            keepalive: None,
            dummy: None,
            follow_peer: false,
            takes_over: false,
            next: None,
            found_by: None,
            class: None,
            sequence: None,
            local_ports: None,
            remote_ports: None,
            direction: Direction::Out,
            spi: SpiRequest::This(api::Spi(0x1000)),
            local: "192.0.2.1".parse().unwrap(),
            remote: "192.0.2.2".parse().unwrap(),
            local_port: 4500,
            remote_port: 4500,
            mode: Mode::Tunnel,
            suite: "aes128gcm".into(),
            selector_local: None,
            selector_remote: None,
            protocol: None,
            app: None,
            replay_window: None,
            path_mtu: None,
            keymat: Keymat::new("00".repeat(20)),
        }
    }

    fn configure(request: SaAdd) -> Result<SaConfig, ApiError> {
        let mut graph = Aggregates::default().only(|name| name == "ef");
        graph.number("voice").unwrap();
        let app = |name: &str| (name == "curl").then_some(AppId(7));
        let spi = requested_spi(&request)?.unwrap_or(Spi(4096));
        configuration(
            request,
            spi,
            &Defaults {
                suites: &Suites::standard(),
                classes: &Classes::Of(graph),
                path_mtu: Some(1400),
                keepalive: 20,
                app: &app,
                random: 0,
                padding: Padding::Least,
            },
        )
    }

    #[test]
    fn what_a_request_leaves_out_is_filled_in() {
        let config = configure(request()).unwrap();
        assert_eq!(config.selectors.local, Prefix::host(config.endpoints.local));
        assert_eq!(config.selectors.remote, Prefix::host(config.endpoints.remote));
        assert_eq!((config.replay_window, config.path_mtu), (1024, 1400));
        assert_eq!(config.selectors.app, None);
    }

    #[test]
    fn what_it_says_is_used() {
        let config = configure(SaAdd {
            direction: Direction::In,
            selector_local: Some("10.1.0.0/16".into()),
            selector_remote: Some("10.2.0.0/16".into()),
            protocol: Some("TCP".into()),
            app: Some("curl".into()),
            replay_window: Some(64),
            path_mtu: Some(1300),
            ..request()
        })
        .unwrap();
        assert_eq!(config.selectors.local.to_string(), "10.1.0.0/16");
        assert_eq!(config.selectors.remote.to_string(), "10.2.0.0/16");
        assert_eq!((config.selectors.protocol, config.selectors.app), (Some(6), Some(AppId(7))));
        assert_eq!((config.replay_window, config.path_mtu), (64, 1300));
    }

    #[test]
    fn what_keeps_and_follows_a_peer_is_read() {
        let on = |keepalive| SaAdd { keepalive, dummy: Some(9), follow_peer: true, ..request() };
        let options = configure(on(Some(api::WordOr::Word("on".into())))).unwrap().options;
        assert_eq!((options.keepalive, options.dummy, options.follow_peer), (20, 9, true));
        assert_eq!(configure(on(Some(api::WordOr::Value(5)))).unwrap().options.keepalive, 5);
        assert_eq!(configure(on(None)).unwrap().options.keepalive, 0);
        for (word, text) in [("often", "keepalive cannot be \"often\""), ("off", "off")] {
            let refused = configure(on(Some(api::WordOr::Word(word.into())))).unwrap_err();
            assert!(refused.message.contains(text) && refused.remedy.is_some(), "{refused:?}");
        }
        assert_eq!(configure(on(Some(api::WordOr::Value(0)))).unwrap_err().fault, Blame::BadRequest);
    }

    #[test]
    fn what_would_do_nothing_is_refused() {
        type Edit = fn(&mut SaAdd);
        let cases: [(Edit, &str); 12] = [
            (|r| (r.direction, r.next) = (Direction::In, Some(api::Spi(0x1001))), "outbound associations"),
            (|r| r.replay_window = Some(1024), "inbound associations"),
            (|r| r.found_by = Some("spi".into()), "found by its selectors"),
            (|r| r.class = Some(ClassOrMatch::of("spi".into())), "found by its selectors"),
            (
                |r| {
                    r.direction = Direction::In;
                    r.found_by = Some("spi".into());
                    r.class = Some(ClassOrMatch::of("spi+dst".into()));
                },
                "\"match\" is there",
            ),
            (|r| r.sequence = Some(1 << 32), "extended sequence numbers"),
            (|r| (r.direction, r.sequence) = (Direction::In, Some(1 << 32)), "extended sequence numbers"),
            (|r| r.sequence = Some(0), "never sent"),
            (|r| r.suite = "null".into(), "neither encrypts nor authenticates"),
            (|r| r.suite = String::new(), "no suite"),
            (|r| (r.kind, r.keymat) = (SaType::Ipcomp, Keymat::default()), "neither suite nor key"),
            (|r| (r.kind, r.suite) = (SaType::Ipip, String::new()), "neither suite nor key"),
        ];
        for (edit, text) in cases {
            let mut request = request();
            edit(&mut request);
            let refused = configure(request).unwrap_err();
            assert!(refused.message.contains(text) && refused.remedy.is_some(), "{refused:?}");
        }
        // With the longer numbers it is one.
        let extended = SaAdd { esn: true, sequence: Some(1 << 32), ..request() };
        assert!(configure(extended).is_ok());
    }

    #[test]
    fn an_association_is_in_the_class_that_it_names() {
        let named = |class: &str| SaAdd { class: Some(ClassOrMatch::of(class.into())), ..request() };
        let mut graph = Aggregates::default().only(|name| name == "ef");
        let voice = graph.number("voice").unwrap();
        for (request, aggregate, told) in [
            (request(), AggregateId::DEFAULT, None),
            (named("ef"), AggregateId(2), Some("ef")),
            (named("voice"), voice, Some("voice")),
        ] {
            let config = configure(request).unwrap();
            assert_eq!(config.options.aggregate, aggregate);
            let view = SaView::new(&config, 0, LifeState::Mature, &sadb::Counters::default());
            let info = view.named(|_| String::new(), &CiphersConfig::default(), &graph);
            assert_eq!((info.class.as_deref(), info.found_by), (told, None));
        }
        // The words of `match` are still these words, and name no class.
        let old = configure(SaAdd { direction: Direction::In, ..named("spi+dst") }).unwrap();
        assert_eq!(old.options.class, sadb::sa::KeyClass::SpiDestination);
        assert_eq!(old.options.aggregate, AggregateId::DEFAULT);
        for name in ["be", "vioce", "spi-destination"] {
            let refused = configure(named(name)).unwrap_err();
            assert_eq!(refused.fault, Blame::NotFound, "{refused:?}");
            assert!(refused.remedy.unwrap().contains("it has ef, voice"), "{name}");
            // A command has no graph to ask: the daemon says so.
            assert!(
                check(&named(name), None).is_ok() && check(&named(name), Some(&Suites::standard())).is_ok()
            );
        }
    }

    #[test]
    fn every_refusal_says_what_to_do_and_repeats_no_key() {
        let key = "0123456789abcdef0123456789abcdef01234567";
        type Edit = fn(&mut SaAdd);
        let cases: [(Edit, Blame, &str); 12] = [
            (|r| r.suite = key_text(), Blame::BadRequest, "no cipher is called"),
            (|r| r.keymat = Keymat::new("00".repeat(19)), Blame::BadRequest, "20 octets"),
            (|r| r.keymat = Keymat::new("xx".repeat(20)), Blame::BadRequest, "not a hexadecimal digit"),
            (|r| r.keymat = Keymat::new(String::new()), Blame::BadRequest, "no keying material"),
            (|r| r.app = Some("wget".into()), Blame::NotFound, "no block for application \"wget\""),
            (|r| r.selector_local = Some("10.0.0.0/33".into()), Blame::BadRequest, "not a prefix"),
            (|r| r.selector_remote = Some("host".into()), Blame::BadRequest, "not a prefix"),
            (|r| r.protocol = Some("tpc".into()), Blame::BadRequest, "no IP protocol"),
            (|r| r.protocol = Some("256".into()), Blame::BadRequest, "no IP protocol"),
            (|r| r.spi = SpiRequest::Auto, Blame::BadRequest, "peer's choice"),
            (|r| r.spi = SpiRequest::This(api::Spi(255)), Blame::BadRequest, "reserved"),
            (|r| r.remote = "2001:db8::1".parse().unwrap(), Blame::BadRequest, "different families"),
        ];
        fn key_text() -> String {
            "0123456789abcdef0123456789abcdef01234567".into()
        }
        for (edit, fault, text) in cases {
            let mut request = request();
            edit(&mut request);
            let refused = configure(request).unwrap_err();
            assert_eq!(refused.fault, fault, "{refused:?}");
            assert!(refused.message.contains(text), "{refused:?}");
            assert!(refused.remedy.is_some(), "{refused:?}");
            assert!(!format!("{refused:?}").contains(key));
        }
    }

    #[test]
    fn groups_are_the_part_of_selectors_that_is_multicast() {
        let of = |text: &str| {
            let (address, len) = text.split_once('/').unwrap();
            let remote = Prefix::new(address.parse().unwrap(), len.parse().unwrap()).unwrap();
            groups_of(Selectors { remote, ..Selectors::ANY }).map(|one| one.remote).collect::<Vec<_>>()
        };
        let prefix = |address: [u8; 4], len| Prefix::new(IpAddr::from(address), len).unwrap();
        assert_eq!(of("239.1.2.3/32"), [prefix([239, 1, 2, 3], 32)]);
        assert_eq!(of("0.0.0.0/0"), [prefix([224, 0, 0, 0], 4)]);
        assert_eq!(of("::/0").len(), 2, "every address of both families");
        assert_eq!(of("ff15::/16").len(), 1);
        for between_hosts in ["192.0.2.0/24", "128.0.0.0/2", "2001:db8::/32"] {
            assert_eq!(of(between_hosts), [], "{between_hosts}");
        }
    }
}
