//! The keys on a token: which ones a URI names, and which public key each of them has.

use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;

use super::module::asked;
use crate::error::{Fault, TokenError};
use crate::file::KeyId;
use crate::names::{hex, quoted};
use crate::public_key::PublicKey;
use crate::uri::TokenUri;

/// The most keys of a token that are looked at.
const MOST: usize = 256;

/// A private key that a URI names.
pub(super) struct PrivateKey {
    pub(super) handle: ObjectHandle,
    pub(super) kind: KeyType,
    /// The id of its public half, where the token shows that.
    pub(super) public: Option<KeyId>,
    pub(super) always_authenticates: bool,
}

/// What is read of a key.
#[derive(Default)]
struct KeyAttributes {
    kind: Option<KeyType>,
    id: Vec<u8>,
    label: String,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
    params: Vec<u8>,
    point: Vec<u8>,
    info: Vec<u8>,
    always_authenticates: bool,
}

/// All of it is public, also in a private key.
const SHOWN: [AttributeType; 9] = [
    AttributeType::KeyType,
    AttributeType::Id,
    AttributeType::Label,
    AttributeType::Modulus,
    AttributeType::PublicExponent,
    AttributeType::EcParams,
    AttributeType::EcPoint,
    AttributeType::PublicKeyInfo,
    AttributeType::AlwaysAuthenticate,
];

impl KeyAttributes {
    fn of(session: &Session, key: ObjectHandle) -> KeyAttributes {
        let mut shown = KeyAttributes::default();
        // One by one: some modules answer nothing at all where one attribute is not known.
        for kind in SHOWN {
            let Ok(attributes) = session.get_attributes(key, &[kind]) else { continue };
            for attribute in attributes {
                match attribute {
                    Attribute::KeyType(kind) => shown.kind = Some(kind),
                    Attribute::Id(octets) => shown.id = octets,
                    Attribute::Label(octets) => shown.label = String::from_utf8_lossy(&octets).into_owned(),
                    Attribute::Modulus(octets) => shown.modulus = octets,
                    Attribute::PublicExponent(octets) => shown.exponent = octets,
                    Attribute::EcParams(octets) => shown.params = octets,
                    Attribute::EcPoint(octets) => shown.point = octets,
                    Attribute::PublicKeyInfo(octets) => shown.info = octets,
                    Attribute::AlwaysAuthenticate(always) => shown.always_authenticates = always,
                    _ => {}
                }
            }
        }
        shown
    }

    /// The public key; `None` where the object does not show it.
    fn public_key(&self) -> Option<Result<PublicKey, TokenError>> {
        if !self.info.is_empty() {
            return Some(PublicKey::from_der(&self.info));
        }
        match self.kind {
            Some(KeyType::RSA) if !self.modulus.is_empty() && !self.exponent.is_empty() => {
                Some(PublicKey::from_rsa_numbers(&self.modulus, &self.exponent))
            }
            Some(KeyType::EC) if !self.params.is_empty() && !self.point.is_empty() => {
                Some(PublicKey::from_ec_attributes(&self.params, &self.point))
            }
            _ => None,
        }
    }
}

/// The keys of a class that a URI names.
fn find(session: &Session, uri: &TokenUri, class: ObjectClass) -> Result<Vec<ObjectHandle>, TokenError> {
    let mut template = vec![Attribute::Class(class)];
    template.extend(uri.object.as_ref().map(|label| Attribute::Label(label.as_bytes().to_vec())));
    template.extend(uri.id.as_ref().map(|id| Attribute::Id(id.clone())));
    let mut found =
        session.find_objects(&template).map_err(|error| asked(uri, "no keys are listed", &error))?;
    found.truncate(MOST);
    Ok(found)
}

/// The one public key that a URI names and that can seal.
pub(super) fn public_key(session: &Session, uri: &TokenUri) -> Result<PublicKey, TokenError> {
    let mut keys: Vec<PublicKey> = Vec::new();
    let mut seen = Vec::new();
    let mut last = None;
    for handle in find(session, uri, ObjectClass::PUBLIC_KEY)? {
        let shown = KeyAttributes::of(session, handle);
        seen.push(described(&shown.id, &shown.label));
        match shown.public_key() {
            Some(Ok(key)) if !keys.contains(&key) => keys.push(key),
            Some(Err(error)) => last = Some(error),
            _ => {}
        }
    }
    let place = format!("{}; {}", uri.token_words(), uri.key_words());
    match (keys.len(), last) {
        (1, _) => keys.pop().ok_or_else(|| crate::seal::cannot("count")),
        (0, Some(error)) => Err(error.at(place)),
        (0, None) => Err(TokenError::new(
            Fault::PublicKey,
            format!("the token ({place}) shows no public key without a PIN"),
            "name a key that is there by object= or id=, or give its public key with --public-key FILE",
        )),
        _ => Err(TokenError::new(
            Fault::PublicKey,
            format!("the token ({place}) has more than one such key: {}", seen.join("; ")),
            "name one of them by object= or id= in the URI",
        )),
    }
}

/// The private keys that a URI names.
pub(super) fn private_keys(session: &Session, uri: &TokenUri) -> Result<Vec<PrivateKey>, TokenError> {
    let mut keys = Vec::new();
    for handle in find(session, uri, ObjectClass::PRIVATE_KEY)? {
        let shown = KeyAttributes::of(session, handle);
        let Some(kind) = shown.kind.filter(|kind| [KeyType::RSA, KeyType::EC].contains(kind)) else {
            continue;
        };
        let public = match shown.public_key() {
            Some(key) => key.ok(),
            None => other_half(session, &shown),
        };
        let public = public.map(|key| key.id());
        keys.push(PrivateKey { handle, kind, public, always_authenticates: shown.always_authenticates });
    }
    if keys.is_empty() {
        let text = format!(
            "the token ({}; {}) has no private key of RSA or an elliptic curve",
            uri.token_words(),
            uri.key_words()
        );
        return Err(TokenError::new(
            Fault::Token,
            text,
            "name a key that is there by object= or id=, or leave both out",
        ));
    }
    Ok(keys)
}

/// The public key object with the same CKA_ID: PKCS#11 gives the point of an elliptic curve to public keys only.
fn other_half(session: &Session, private: &KeyAttributes) -> Option<PublicKey> {
    let kind = private.kind.filter(|_| !private.id.is_empty())?;
    let template = [
        Attribute::Class(ObjectClass::PUBLIC_KEY),
        Attribute::KeyType(kind),
        Attribute::Id(private.id.clone()),
    ];
    let found = session.find_objects(&template).ok()?;
    found.into_iter().find_map(|handle| KeyAttributes::of(session, handle).public_key()?.ok())
}

/// What a key is called in messages: its CKA_ID and CKA_LABEL.
fn described(id: &[u8], label: &str) -> String {
    let id = if id.is_empty() { "none".to_owned() } else { hex(id) };
    format!("id={id} object={}", quoted(label))
}
