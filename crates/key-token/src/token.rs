//! A token behind its vendor's PKCS#11 module: reads a public key, opens a key file.
//!
//! A module is loaded once, used, and finalised, all in the process of one command.

mod keys;
mod module;

use crypto::Secret;
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::elliptic_curve::{EcKdf, Ecdh1DeriveParams};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsOaepParams, PkcsOaepSource};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use zeroize::Zeroize;

use crate::error::{Fault, TokenError};
use crate::file::{KeyFile, Method, Recipient};
use crate::open::{altered, open_with};
use crate::pin::Pin;
use crate::public_key::PublicKey;
use crate::uri::TokenUri;
use keys::PrivateKey;
use module::Module;

/// The public key that a URI names on a token. No PIN is needed where the token shows public keys to everybody, as most
/// do.
///
/// # Errors
/// The module cannot be loaded; no token, or more than one, is as the URI says; no public key is, or more than one;
/// or the key cannot seal.
pub fn public_key_of(uri: &TokenUri) -> Result<PublicKey, TokenError> {
    let module = Module::load(uri)?;
    let session = module.session(uri)?;
    keys::public_key(&session, uri)
}

/// The keying material of a key file.
///
/// # Errors
/// As [`public_key_of`], and: the PIN is wrong, the file is sealed to other keys, the token refuses, or the file is
/// altered.
pub(crate) fn open(file: &KeyFile, uri: &TokenUri, pin: Option<&Pin>) -> Result<Secret, TokenError> {
    let module = Module::load(uri)?;
    let session = module.session(uri)?;
    module.log_in(&session, uri, pin)?;
    let found = keys::private_keys(&session, uri)?;
    let pairs = pairs(file, &found, uri)?;
    let mut last = None;
    for (recipient, key) in pairs {
        match open_with(file, recipient, |recipient| unwrap(&session, uri, recipient, key)) {
            Ok(keymat) => return Ok(keymat),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(altered))
}

/// The private keys to try, each with the recipient that it is for. Where a key's public half is known, only its own
/// recipient counts. A key of an elliptic curve whose public half the token does not show may be any recipient's.
fn pairs<'a>(
    file: &'a KeyFile,
    found: &'a [PrivateKey],
    uri: &TokenUri,
) -> Result<Vec<(&'a Recipient, &'a PrivateKey)>, TokenError> {
    let all = || file.recipients().iter().flat_map(|recipient| found.iter().map(move |key| (recipient, key)));
    let sure: Vec<_> = all().filter(|(recipient, key)| key.public == Some(recipient.key)).collect();
    if !sure.is_empty() {
        return Ok(sure);
    }
    let ec = |method: Method| method.point_len().is_some();
    let possible: Vec<_> = all()
        .filter(|(recipient, key)| key.public.is_none() && ec(recipient.method) == (key.kind == KeyType::EC))
        .collect();
    if !possible.is_empty() {
        return Ok(possible);
    }
    let sealed: Vec<String> = file.recipients().iter().map(|recipient| recipient.key.to_string()).collect();
    let has: Vec<String> = found.iter().filter_map(|key| key.public).map(|id| id.to_string()).collect();
    let text = format!(
        "the key file {} is sealed to other keys than those of the token ({}; {}): to {}; the token has {}",
        file.id(),
        uri.token_words(),
        uri.key_words(),
        sealed.join(", "),
        if has.is_empty() { "none that is known".to_owned() } else { has.join(", ") }
    );
    let remedy =
        "name the token that the file was made for, or make a file for this one with `ravelin key wrap`";
    Err(TokenError::new(Fault::OtherToken, text, remedy))
}

/// What the token makes of a recipient's octets with its private key.
fn unwrap(
    session: &Session,
    uri: &TokenUri,
    recipient: &Recipient,
    key: &PrivateKey,
) -> Result<Secret, TokenError> {
    if key.always_authenticates {
        let text = format!(
            "the key on the token ({}; {}) asks for its PIN at each use (CKA_ALWAYS_AUTHENTICATE)",
            uri.token_words(),
            uri.key_words()
        );
        let remedy = "use a key that does not, such as the one for key management (PIV slot 9d)";
        return Err(TokenError::new(Fault::Token, text, remedy));
    }
    match recipient.method {
        Method::RsaOaepSha256 => {
            decrypt(session, recipient, key.handle, MechanismType::SHA256, PkcsMgfType::MGF1_SHA256)
        }
        Method::RsaOaepSha1 => {
            decrypt(session, recipient, key.handle, MechanismType::SHA1, PkcsMgfType::MGF1_SHA1)
        }
        Method::EcdhP256 | Method::EcdhP384 => derive(session, recipient, key.handle),
    }
    .map_err(|error| refused(uri, recipient.method, &error))
}

fn decrypt(
    session: &Session,
    recipient: &Recipient,
    key: ObjectHandle,
    hash: MechanismType,
    mgf: PkcsMgfType,
) -> Result<Secret, Error> {
    let params = PkcsOaepParams::new(hash, mgf, PkcsOaepSource::empty());
    session.decrypt(&Mechanism::RsaPkcsOaep(params), key, &recipient.sealed).map(Secret::new)
}

/// The x coordinate that both sides agree on, without the vendor's key derivation: tokens have different ones.
fn derive(session: &Session, recipient: &Recipient, key: ObjectHandle) -> Result<Secret, Error> {
    let point_len = recipient.method.point_len().unwrap_or_default();
    let point = recipient.sealed.get(..point_len).ok_or(Error::InvalidValue)?;
    let x_len = point_len.saturating_sub(1) / 2;
    let template = [
        Attribute::Class(ObjectClass::SECRET_KEY),
        Attribute::KeyType(KeyType::GENERIC_SECRET),
        Attribute::ValueLen((x_len as u64).into()),
        Attribute::Token(false),
        Attribute::Sensitive(false),
        Attribute::Extractable(true),
    ];
    let params = Ecdh1DeriveParams::new(EcKdf::null(), point);
    let shared = session.derive_key(&Mechanism::Ecdh1Derive(params), key, &template)?;
    let read = session.get_attributes(shared, &[AttributeType::Value]);
    // It ends with the session in any case.
    let _ = session.destroy_object(shared);
    let mut value = Vec::new();
    for attribute in read? {
        if let Attribute::Value(octets) = attribute {
            value = octets;
        }
    }
    if value.len() != x_len {
        value.zeroize();
        return Err(Error::InvalidValue);
    }
    Ok(Secret::new(value))
}

/// A token that did not do what it was asked for.
fn refused(uri: &TokenUri, method: Method, error: &Error) -> TokenError {
    use RvError::{
        ArgumentsBad, DomainParamsInvalid, KeyFunctionNotPermitted, KeyTypeInconsistent, MechanismInvalid,
        MechanismParamInvalid,
    };
    let token = uri.token_words();
    let said = module::said(error);
    match error {
        Error::Pkcs11(MechanismInvalid | MechanismParamInvalid | ArgumentsBad, _)
            if method == Method::RsaOaepSha256 =>
        {
            let text = format!("the token ({token}) does not do {}: {said}", method.name());
            let remedy = "make a file with `ravelin key wrap --oaep sha1`, if the token has OAEP with SHA-1 (SoftHSM has no other)";
            TokenError::new(Fault::Token, text, remedy)
        }
        Error::Pkcs11(
            MechanismInvalid
            | MechanismParamInvalid
            | KeyFunctionNotPermitted
            | KeyTypeInconsistent
            | DomainParamsInvalid,
            _,
        ) => {
            let text = format!("the token ({token}) does not do {} with this key: {said}", method.name());
            let remedy = "use a key that may decrypt (RSA) or derive (elliptic curve), on a token that has this mechanism";
            TokenError::new(Fault::Token, text, remedy)
        }
        _ => {
            let text = format!("the token ({token}) does not open the key file by {}: {said}", method.name());
            let remedy = "the file was altered or is for another key (copy it again), or the token failed (look at it with \
                          its vendor's tools)";
            TokenError::new(Fault::KeyFile, text, remedy)
        }
    }
}
