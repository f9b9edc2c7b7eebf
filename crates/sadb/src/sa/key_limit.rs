//! The octets that one key of a cipher of one's own may encrypt, as limits of an association that nobody can raise.

use crypto::{CustomMode, SuiteId};

use super::options::{Lifetime, SaOptions, Tfc};

/// The most octets that ESP adds to the data of a packet before it is encrypted: 255 of padding, the two fields behind
/// it (RFC 4303 section 2.4), and a block.
const ESP_ADDS: u64 = 255 + 2 + 16;
/// The longest packet, which padding for traffic flow confidentiality may make of a short one (RFC 4303 section 2.7).
const LONGEST_PACKET: u64 = u16::MAX as u64;

/// The octets that one key of the suite may encrypt, if there are fewer than sequence numbers allow.
fn most_octets(suite: SuiteId) -> Option<u64> {
    suite.custom().and_then(CustomMode::most_octets)
}

/// A lifetime where one key of the suite may encrypt only so many octets. Half of them are for data: a hard limit. The
/// other half is for what ESP adds ([`packets_within`]). A soft limit stands before the hard one, so that a key manager
/// hears of the end in time.
pub(super) fn lifetime_within(suite: SuiteId, mut lifetime: Lifetime) -> Lifetime {
    let Some(most) = most_octets(suite) else { return lifetime };
    let most = (most / 2).max(1);
    let at_most = |limit: u64, most: u64| if limit == 0 { most } else { limit.min(most) };
    lifetime.hard.bytes = at_most(lifetime.hard.bytes, most);
    lifetime.soft.bytes = at_most(lifetime.soft.bytes, most - most / 8);
    lifetime
}

/// The packets that one key of the suite may encrypt, so that what ESP adds to them stays below half of the octets that
/// the key may encrypt. `None`: as many as there are sequence numbers.
pub(super) fn packets_within(suite: SuiteId, options: &SaOptions) -> Option<u64> {
    let adds = if options.tfc == Tfc::None { ESP_ADDS } else { LONGEST_PACKET };
    Some((most_octets(suite)? / 2 / adds).max(1))
}

#[cfg(test)]
mod tests {
    use crypto::Suites;
    use crypto::custom::{CustomDescription, Primitive};

    use super::super::options::Limits;
    use super::*;

    fn suite(most: Option<u64>) -> SuiteId {
        let mut suites = Suites::standard();
        let description = CustomDescription {
            name: "box".to_owned(),
            version: "1".to_owned(),
            vendor: "test".to_owned(),
            primitive: Primitive::Stream,
            key_len: 32,
            max_octets: most,
        };
        suites.register(&description, 40_000, false).unwrap();
        suites.find("box-sha256").unwrap()
    }

    #[test]
    fn a_limit_of_the_cipher_is_never_raised() {
        let bytes = |soft, hard| Lifetime {
            soft: Limits { bytes: soft, ..Limits::default() },
            hard: Limits { bytes: hard, ..Limits::default() },
        };
        let limited = suite(Some(1 << 20));
        for (asked, want) in [
            (bytes(0, 0), bytes(7 << 16, 1 << 19)),
            (bytes(u64::MAX, u64::MAX), bytes(7 << 16, 1 << 19)),
            (bytes(100, 1000), bytes(100, 1000)),
            (bytes(0, 1000), bytes(7 << 16, 1000)),
        ] {
            assert_eq!(lifetime_within(limited, asked), want);
            assert_eq!(lifetime_within(suite(None), asked), asked);
            assert_eq!(lifetime_within(SuiteId::AES_128_GCM, asked), asked);
        }
    }

    #[test]
    fn what_esp_adds_is_counted() {
        let mut options = SaOptions::default();
        assert_eq!(packets_within(SuiteId::AES_128_GCM, &options), None);
        assert_eq!(packets_within(suite(None), &options), None);
        for most in [1, 1000, 8 << 20, 1 << 40] {
            let packets = packets_within(suite(Some(most)), &options).unwrap();
            assert!(packets == 1 || packets * ESP_ADDS + most / 2 <= most, "{most}: {packets}");
            options.tfc = Tfc::Full;
            let padded = packets_within(suite(Some(most)), &options).unwrap();
            assert!(padded == 1 || padded * LONGEST_PACKET + most / 2 <= most, "{most}: {padded}");
            options.tfc = Tfc::None;
        }
    }
}
