//! Public keys of tokens: from files, from what a token says of its objects; and their ids.

use ring::digest::{SHA256, digest};
use rsa::BoxedUint;
use rsa::pkcs8::der::asn1::{AnyRef, BitStringRef, OctetStringRef};
use rsa::pkcs8::der::{Decode, Encode, SecretDocument};
use rsa::pkcs8::spki::{AlgorithmIdentifier, SubjectPublicKeyInfoRef};
use rsa::pkcs8::spki::{DecodePublicKey, EncodePublicKey, ObjectIdentifier};
use rsa::traits::PublicKeyParts;

use crate::error::{Fault, TokenError};
use crate::file::{KeyId, Method};

/// The hash function of RSA-OAEP, and of its MGF1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OaepHash {
    /// The hash function SHA-256, the default.
    #[default]
    Sha256,
    /// The hash function SHA-1, where a token has no other (SoftHSM up to 2.6).
    Sha1,
}

/// A public key that key files can be sealed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    numbers: Numbers,
    /// The SubjectPublicKeyInfo in DER.
    der: Vec<u8>,
}

/// The numbers of a public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// RSA, 2048 to 8192 bits.
    Rsa(Box<rsa::PublicKey>),
    /// An uncompressed point on P-256.
    P256([u8; 65]),
    /// An uncompressed point on P-384.
    P384([u8; 97]),
}

/// id-ecPublicKey (RFC 5480 section 2.1.1).
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// secp256r1 (RFC 5480 section 2.1.1.1).
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// secp384r1 (RFC 5480 section 2.1.1.1).
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");

/// The shortest RSA key, in bits (NIST SP 800-57 part 1, table 2: 112 bits of security).
const FEWEST_RSA_BITS: usize = 2048;

fn wrong(why: impl Into<String>) -> TokenError {
    TokenError::new(
        Fault::PublicKey,
        why,
        "give a SubjectPublicKeyInfo of an RSA key of 2048 to 8192 bits or of one on P-256 or P-384, as `openssl pkey \
         -pubin` prints it",
    )
}

impl PublicKey {
    /// The most octets of a file with a public key.
    pub const MOST_OCTETS: usize = 16 * 1024;

    /// Read a public key from the octets of a file: a SubjectPublicKeyInfo, in PEM (`PUBLIC KEY`) or DER.
    ///
    /// # Errors
    /// It is something else, or a key that cannot seal.
    pub fn parse(octets: &[u8]) -> Result<PublicKey, TokenError> {
        if octets.len() > PublicKey::MOST_OCTETS {
            return Err(wrong("the file is too long for a public key"));
        }
        if !octets.starts_with(b"-----") {
            return PublicKey::from_der(octets);
        }
        // It may be a private key by mistake: the document that takes it wipes itself.
        let text = std::str::from_utf8(octets).map_err(|_| wrong("the file is neither PEM nor DER"))?;
        let (label, document) =
            SecretDocument::from_pem(text).map_err(|_| wrong("the file begins like PEM and is not"))?;
        match label {
            "PUBLIC KEY" => PublicKey::from_der(document.as_bytes()),
            "CERTIFICATE" => Err(TokenError::new(
                Fault::PublicKey,
                "the file is a certificate",
                "take its public key: openssl x509 -in FILE -pubkey -noout",
            )),
            label if label.contains("PRIVATE KEY") => Err(TokenError::new(
                Fault::PublicKey,
                "the file is a private key, which should not leave its token",
                "give the public key: openssl pkey -in FILE -pubout",
            )),
            _ => Err(wrong("the PEM file is no PUBLIC KEY")),
        }
    }

    /// Read a SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// As [`PublicKey::parse`].
    pub fn from_der(der: &[u8]) -> Result<PublicKey, TokenError> {
        let info = SubjectPublicKeyInfoRef::from_der(der)
            .map_err(|_| wrong("the public key is no SubjectPublicKeyInfo in DER"))?;
        if info.algorithm.oid != EC {
            let key = rsa::PublicKey::from_public_key_der(der)
                .map_err(|_| wrong("the public key is neither of RSA nor of an elliptic curve"))?;
            return PublicKey::rsa(key);
        }
        let curve = info.algorithm.parameters_oid().map_err(|_| wrong("the elliptic curve has no name"))?;
        PublicKey::on_curve(curve, info.subject_public_key.raw_bytes())
    }

    /// An RSA key by its numbers, big-endian.
    pub(crate) fn from_rsa_numbers(modulus: &[u8], exponent: &[u8]) -> Result<PublicKey, TokenError> {
        let number = BoxedUint::from_be_slice_vartime;
        let key = rsa::PublicKey::new(number(modulus), number(exponent))
            .map_err(|_| wrong("the numbers of the RSA key are out of bounds"))?;
        PublicKey::rsa(key)
    }

    /// An elliptic-curve key by CKA_EC_PARAMS (the name of a curve in DER) and CKA_EC_POINT (an OCTET STRING in DER,
    /// which some tokens leave out around the point).
    pub(crate) fn from_ec_attributes(params: &[u8], point: &[u8]) -> Result<PublicKey, TokenError> {
        let curve =
            ObjectIdentifier::from_der(params).map_err(|_| wrong("the elliptic curve has no name"))?;
        // A bare point may look like an OCTET STRING by chance.
        let inner = <&OctetStringRef>::from_der(point).ok();
        match inner.map(|inner| PublicKey::on_curve(curve, inner.as_bytes())) {
            Some(Ok(key)) => Ok(key),
            _ => PublicKey::on_curve(curve, point),
        }
    }

    fn rsa(key: rsa::PublicKey) -> Result<PublicKey, TokenError> {
        let bits = key.n().bit_width_vartime() as usize;
        if bits < FEWEST_RSA_BITS {
            return Err(wrong(format!("the RSA key has {bits} bits")));
        }
        let der = key.to_public_key_der().map_err(|_| wrong("the RSA key has no encoding"))?.into_vec();
        Ok(PublicKey { numbers: Numbers::Rsa(Box::new(key)), der })
    }

    fn on_curve(curve: ObjectIdentifier, point: &[u8]) -> Result<PublicKey, TokenError> {
        if point.first() != Some(&4) {
            return Err(wrong("the point of the public key is compressed or none"));
        }
        let length = |_| wrong("the point of the public key has another length than the curve's");
        let numbers = match curve {
            P256 => Numbers::P256(point.try_into().map_err(length)?),
            P384 => Numbers::P384(point.try_into().map_err(length)?),
            other => return Err(wrong(format!("the elliptic curve {other} is neither P-256 nor P-384"))),
        };
        let encoded = BitStringRef::from_bytes(point).and_then(|subject_public_key| {
            let algorithm = AlgorithmIdentifier { oid: EC, parameters: Some(AnyRef::from(&curve)) };
            SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der()
        });
        let der = encoded.map_err(|_| wrong("the public key has no encoding"))?;
        Ok(PublicKey { numbers, der })
    }

    /// The SubjectPublicKeyInfo in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The id of the key.
    pub fn id(&self) -> KeyId {
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, &self.der).as_ref());
        KeyId(id)
    }

    /// The way in which a content key is sealed to this key.
    pub(crate) fn method(&self, oaep: OaepHash) -> Method {
        match (&self.numbers, oaep) {
            (Numbers::Rsa(_), OaepHash::Sha256) => Method::RsaOaepSha256,
            (Numbers::Rsa(_), OaepHash::Sha1) => Method::RsaOaepSha1,
            (Numbers::P256(_), _) => Method::EcdhP256,
            (Numbers::P384(_), _) => Method::EcdhP384,
        }
    }
}
