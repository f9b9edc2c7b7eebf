//! The reader of PKCS#11 URIs.

use key_token::{Fault, TokenUri};
use proptest::prelude::*;

#[test]
fn the_attributes_select() {
    let uri = TokenUri::parse(
        "pkcs11:token=The%20Software%20PKCS%2311;manufacturer=Snake%20Oil,%20Inc.;model=1.0;serial=42;slot-id=7;\
         object=my-key;type=private;id=%69%95%3E%00?module-path=/usr/lib/a%20b.so",
    )
    .unwrap();
    assert_eq!(uri.token.as_deref(), Some("The Software PKCS#11"));
    assert_eq!(uri.manufacturer.as_deref(), Some("Snake Oil, Inc."));
    assert_eq!((uri.model.as_deref(), uri.serial.as_deref()), (Some("1.0"), Some("42")));
    assert_eq!((uri.slot, uri.object.as_deref()), (Some(7), Some("my-key")));
    assert_eq!(uri.id.as_deref(), Some(&[0x69, 0x95, 0x3e, 0][..]));
    assert_eq!(uri.module.to_str(), Some("/usr/lib/a b.so"));
    let least = TokenUri::parse("PKCS11:?module-path=/m.so").unwrap();
    assert_eq!((least.token, least.object, least.id), (None, None, None));
}

#[test]
fn what_selects_nothing_is_refused() {
    for (text, word) in [
        ("", "no scheme"),
        ("token=a", "no scheme"),
        ("https://example.org/", "not pkcs11"),
        ("pkcs11:token=a", "no module-path"),
        ("pkcs11:token=a?module-path=m.so", "not absolute"),
        ("pkcs11:token=a;token=a?module-path=/m.so", "token twice"),
        ("pkcs11:token=a?module-path=/m.so&module-path=/m.so", "module-path twice"),
        ("pkcs11:token?module-path=/m.so", "no `=`"),
        ("pkcs11:tokne=a?module-path=/m.so", "tokne"),
        ("pkcs11:token=a?module-path=/m.so&module-name=m", "module-name"),
        ("pkcs11:token=a?token=b&module-path=/m.so", "query attribute"),
        ("pkcs11:token=%4?module-path=/m.so", "without two digits"),
        ("pkcs11:token=%+41?module-path=/m.so", "without two digits"),
        ("pkcs11:token=%ff?module-path=/m.so", "UTF-8"),
        ("pkcs11:token=a%00?module-path=/m.so", "UTF-8"),
        ("pkcs11:token=a b?module-path=/m.so", "%XX"),
        ("pkcs11:id=?module-path=/m.so", "id is empty"),
        ("pkcs11:slot-id=-1?module-path=/m.so", "slot-id"),
        ("pkcs11:type=cert?module-path=/m.so", "type"),
    ] {
        let error = TokenUri::parse(text).unwrap_err();
        assert!(error.to_string().contains(word), "{text}: {error}");
        assert_eq!(error.fault(), Fault::Uri);
        assert!(error.remedy().contains("RFC 7512"));
    }
    assert!(TokenUri::parse(&format!("pkcs11:token={}?module-path=/m.so", "a".repeat(3000))).is_err());
}

#[test]
fn a_pin_in_a_uri_is_refused_and_not_repeated() {
    for text in [
        "pkcs11:token=a?module-path=/m.so&pin-value=1234-secret",
        "pkcs11:token=a?pin-value=1234-secret&module-path=/m.so",
        "pkcs11:token=a?pin-source=file:1234-secret&module-path=/m.so",
    ] {
        let error = TokenUri::parse(text).unwrap_err();
        assert!(error.remedy().contains("--pin-fd"), "{error}");
        assert!(!format!("{error:?}").contains("1234"), "{error:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(pkcs11:)?[ -~%;?&=é]{0,80}") {
        if let Err(error) = TokenUri::parse(&text) {
            prop_assert!(!error.to_string().contains(char::is_control));
        }
    }

    #[test]
    fn what_was_encoded_is_decoded(label in "\\PC{1,32}", id in prop::collection::vec(any::<u8>(), 1..20)) {
        let encoded = |octets: &[u8]| octets.iter().map(|octet| format!("%{octet:02X}")).collect::<String>();
        let text = format!("pkcs11:token={};id={}?module-path=/m.so", encoded(label.as_bytes()), encoded(&id));
        let uri = TokenUri::parse(&text).unwrap();
        prop_assert_eq!(uri.token, Some(label));
        prop_assert_eq!(uri.id, Some(id));
    }
}
