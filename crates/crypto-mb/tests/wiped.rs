//! A dropped key of the wide unit leaves nothing of itself in the memory it had.

#[path = "../../crypto-std/tests/suite/packet/looking.rs"]
mod looking;
#[path = "../../crypto-std/tests/suite/packet.rs"]
mod packet;
#[path = "suite/widths.rs"]
mod widths;

use crypto::{Provider, Registry, SuiteId, Suites};
use looking::{keys_leave_nothing, left_while, sees};
use packet::keymat;
use sadb::sa::{Direction, Endpoints, Mode, SaOptions, Selectors};
use sadb::{OutboundSa, SaConfig, Spi};
use widths::widths;

#[test]
fn a_dropped_key_leaves_nothing_of_itself() {
    let widths = widths();
    let providers: Vec<&dyn Provider> = widths.iter().map(|wide| wide as &dyn Provider).collect();
    sees();
    keys_leave_nothing(&providers, &Suites::standard());
    for suite in [SuiteId::AES_128_GCM, SuiteId::AES_256_GCM, SuiteId::CHACHA20_POLY1305] {
        associations_leave_nothing(suite);
    }
}

/// An association moves the key that a unit made to no other place, and leaves nothing of it when it is made and dropped.
fn associations_leave_nothing(suite: SuiteId) {
    let registry = widths()
        .into_iter()
        .fold(Registry::new(), |registry, wide| registry.with(wide))
        .with(crypto_std::RustCrypto);
    let [one, two] = [1, 0xc7].map(|seed| {
        let config = SaConfig {
            spi: Spi(0x1000),
            direction: Direction::Outbound,
            mode: Mode::Tunnel,
            suite,
            keymat: keymat(suite.keymat_len(), seed),
            endpoints: Endpoints {
                local: [198, 51, 100, 1].into(),
                remote: [203, 0, 113, 1].into(),
                local_port: 4500,
                remote_port: 4500,
            },
            selectors: Selectors::ANY,
            replay_window: 0,
            path_mtu: 1500,
            options: SaOptions::default(),
        };
        left_while(|| drop(OutboundSa::new(config, &registry).unwrap()))
    });
    assert!(!one.is_empty(), "{suite}");
    assert_eq!(one, two, "{suite}");
}
