//! PKCS#11 URIs (RFC 7512): which module, which token, which key.
//!
//! Every attribute that a URI may have either selects, or is refused: one that was left out of account would select
//! more than was asked for. A PIN in a URI (`pin-value`, RFC 7512 section 2.4) is refused, since every user of a host
//! may read the arguments of a process.

use std::path::{Path, PathBuf};

use crate::error::{Fault, TokenError};
use crate::names::quoted;

/// A PKCS#11 URI that names a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUri {
    /// The label of the token (`token`).
    pub token: Option<String>,
    /// The maker of the token (`manufacturer`).
    pub manufacturer: Option<String>,
    /// The serial number of the token (`serial`).
    pub serial: Option<String>,
    /// The model of the token (`model`).
    pub model: Option<String>,
    /// The number of the slot (`slot-id`).
    pub slot: Option<u64>,
    /// The label of the key, CKA_LABEL (`object`).
    pub object: Option<String>,
    /// The identifier of the key, CKA_ID (`id`).
    pub id: Option<Vec<u8>>,
    /// The path of the vendor's PKCS#11 module (`module-path`), which is absolute.
    pub module: PathBuf,
}

const REMEDY: &str = "write it as in RFC 7512: 'pkcs11:token=gateway;object=ipsec?module-path=/usr/lib/softhsm/libsofthsm2.so'";

/// The longest URI, in octets.
const LONGEST: usize = 2048;

/// The attributes of a URI that have been read.
#[derive(Default)]
struct Attributes {
    text: [Option<String>; 5],
    slot: Option<u64>,
    id: Option<Vec<u8>>,
    module: Option<PathBuf>,
    kind: Option<()>,
}

impl TokenUri {
    /// Read a URI from its text.
    ///
    /// # Errors
    /// It is no PKCS#11 URI, has an attribute twice or one that selects nothing here, has a PIN, or names no module.
    pub fn parse(text: &str) -> Result<TokenUri, TokenError> {
        if text.len() > LONGEST {
            return Err(wrong(format!("it has {} octets, and {LONGEST} are possible", text.len())));
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(wrong("it has no scheme".to_owned()));
        };
        if !scheme.eq_ignore_ascii_case("pkcs11") {
            return Err(wrong(format!("its scheme is {}, not pkcs11", quoted(scheme))));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut read = Attributes::default();
        for pair in path.split(';').filter(|pair| !pair.is_empty()) {
            let (name, value) = attribute(pair)?;
            read.path(name, value)?;
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = attribute(pair)?;
            read.query(name, value)?;
        }
        let Attributes { text: [token, manufacturer, serial, model, object], slot, id, module, .. } = read;
        let Some(module) = module else {
            return Err(wrong(
                "it has no module-path: whose PKCS#11 module talks to the token is not known".to_owned(),
            ));
        };
        Ok(TokenUri { token, manufacturer, serial, model, slot, object, id, module })
    }

    /// The part of the URI that selects a token, as people read it.
    pub(crate) fn token_words(&self) -> String {
        let named = [
            ("token", &self.token),
            ("manufacturer", &self.manufacturer),
            ("serial", &self.serial),
            ("model", &self.model),
        ];
        let mut words: Vec<String> = named
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", quoted(value.as_ref()?))))
            .collect();
        words.extend(self.slot.map(|slot| format!("slot-id={slot}")));
        if words.is_empty() { "any token".to_owned() } else { words.join(", ") }
    }

    /// The part of the URI that selects a key, as people read it.
    pub(crate) fn key_words(&self) -> String {
        let object = self.object.as_ref().map(|object| format!("object={}", quoted(object)));
        let id = self.id.as_ref().map(|id| format!("id={}", crate::names::hex(id)));
        let words: Vec<String> = object.into_iter().chain(id).collect();
        if words.is_empty() { "any key".to_owned() } else { words.join(", ") }
    }
}

fn wrong(why: String) -> TokenError {
    TokenError::new(Fault::Uri, format!("the PKCS#11 URI cannot be used: {why}"), REMEDY)
}

/// The name of an attribute, and its value as octets.
fn attribute(pair: &str) -> Result<(&str, Vec<u8>), TokenError> {
    // Whatever stands behind `pin-value` is not repeated, and nothing of an attribute without a name.
    let Some((name, value)) = pair.split_once('=') else {
        return Err(wrong("an attribute has no `=`".to_owned()));
    };
    Ok((name, decoded(name, value)?))
}

/// Percent-decode a value (RFC 3986 section 2.1). `+` stands for itself.
fn decoded(name: &str, value: &str) -> Result<Vec<u8>, TokenError> {
    let mut octets = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(octet) = rest.next() {
        if octet != b'%' {
            // RFC 7512 section 2.3 has a list; what no URI can hold at all is refused.
            if !octet.is_ascii_graphic() {
                return Err(wrong(format!(
                    "the value of {} has an octet that must be written as %XX",
                    quoted(name)
                )));
            }
            octets.push(octet);
            continue;
        }
        let digit = |octet: Option<u8>| octet.and_then(|octet| char::from(octet).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => octets.push((high * 16 + low) as u8),
            _ => return Err(wrong(format!("the value of {} has a % without two digits", quoted(name)))),
        }
    }
    Ok(octets)
}

fn text(name: &str, value: Vec<u8>) -> Result<String, TokenError> {
    match String::from_utf8(value) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(wrong(format!("the value of {name} is not UTF-8 without zeros"))),
    }
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), TokenError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(wrong(format!("it has {name} twice"))),
    }
}

impl Attributes {
    fn path(&mut self, name: &str, value: Vec<u8>) -> Result<(), TokenError> {
        let [token, manufacturer, serial, model, object] = &mut self.text;
        match name {
            "token" => once(token, name, text(name, value)?),
            "manufacturer" => once(manufacturer, name, text(name, value)?),
            "serial" => once(serial, name, text(name, value)?),
            "model" => once(model, name, text(name, value)?),
            "object" => once(object, name, text(name, value)?),
            "id" if value.is_empty() => Err(wrong("id is empty".to_owned())),
            "id" => once(&mut self.id, name, value),
            "slot-id" => match text(name, value)?.parse() {
                Ok(slot) => once(&mut self.slot, name, slot),
                Err(_) => Err(wrong("slot-id is not a number".to_owned())),
            },
            // Both halves of a pair are looked for: the private one to open, the public one to seal.
            "type" if matches!(value.as_slice(), b"private" | b"public") => once(&mut self.kind, name, ()),
            "type" => Err(wrong("type is neither private nor public".to_owned())),
            _ => Err(wrong(format!(
                "its attribute {} is not known here; known: token, manufacturer, serial, model, slot-id, object, id, type",
                quoted(name)
            ))),
        }
    }

    fn query(&mut self, name: &str, value: Vec<u8>) -> Result<(), TokenError> {
        match name {
            "module-path" => {
                let path = text(name, value)?;
                if !Path::new(&path).is_absolute() {
                    return Err(wrong(format!("its module-path {} is not absolute", quoted(&path))));
                }
                once(&mut self.module, name, PathBuf::from(path))
            }
            "pin-value" | "pin-source" => Err(TokenError::new(
                Fault::Uri,
                format!(
                    "the PKCS#11 URI has {name}: every user of this host may read the arguments of a process"
                ),
                "leave it out and give the PIN by a descriptor, as in: --pin-fd 3 3<PINFILE; a PIN that was in an \
                 argument should be changed",
            )),
            _ => Err(wrong(format!(
                "its query attribute {} is not known here; known: module-path",
                quoted(name)
            ))),
        }
    }
}
