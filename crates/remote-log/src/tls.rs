//! The TLS side: whom the sender trusts, and who it is. Files are read again for each connection, so that a renewed
//! certificate is used without a restart.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use zeroize::{Zeroize, Zeroizing};

use crate::error::RemoteLogError;
use crate::settings::Settings;

/// The octets of a PEM file at most.
const LARGEST: u64 = 1 << 20;
/// Plain octets that wait for the socket at most.
const BUFFER: usize = 64 << 10;

/// A connection that has not begun: TLS 1.2 or 1.3, the collector's certificate verified, the own one at hand.
///
/// # Errors
/// [`RemoteLogError`], if a file cannot be used.
pub(crate) fn connection(settings: &Settings) -> Result<ClientConnection, RemoteLogError> {
    let refused = |error: rustls::Error| RemoteLogError::Tls(error.to_string());
    let name = ServerName::try_from(settings.name.clone())
        .map_err(|_| RemoteLogError::Name(settings.name.clone()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates("CA file", &settings.ca)? {
        roots.add(certificate).map_err(|error| RemoteLogError::Content {
            what: "CA file",
            path: settings.ca.clone(),
            why: format!("{error}; it must hold certificates of authorities alone"),
        })?;
    }
    let own = Arc::new(SingleCertAndKey::from(own(settings)?));
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(refused)?
        .with_root_certificates(roots)
        .with_client_cert_resolver(own);
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(refused)?;
    connection.set_buffer_limit(Some(BUFFER));
    Ok(connection)
}

/// The own certificate with its key.
fn own(settings: &Settings) -> Result<CertifiedKey, RemoteLogError> {
    let chain = certificates("certificate", &settings.certificate)?;
    let (what, path) = ("key file", settings.key.as_path());
    let bad = |why: String| RemoteLogError::Content { what, path: path.to_owned(), why };
    let text = Zeroizing::new(read(what, path, 0o077)?);
    let mut key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        bad("it holds no private key in PEM (PKCS #8, PKCS #1 or SEC 1, without a password)".into())
    })?;
    let signer = ring::sign::any_supported_type(&key);
    key.zeroize();
    let signer = signer.map_err(|_| bad("it is no RSA, ECDSA (P-256, P-384) or Ed25519 key".into()))?;
    let own = CertifiedKey::new(chain, signer);
    match own.keys_match() {
        Ok(()) => Ok(own),
        Err(error) => Err(bad(format!(
            "it does not belong to the certificate {}: {error}",
            settings.certificate.display()
        ))),
    }
}

/// The certificates of a PEM file, one at least.
fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, RemoteLogError> {
    let text = read(what, path, 0o022)?;
    let bad = |why: String| RemoteLogError::Content { what, path: path.to_owned(), why };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(bad("it holds no certificate in PEM".to_owned())),
        Err(error) => Err(bad(format!("it is no PEM file: {error}"))),
    }
}

/// A regular file of root's, or of whoever runs this, without these permissions.
fn read(what: &'static str, path: &Path, forbidden: u32) -> Result<Vec<u8>, RemoteLogError> {
    let failed = |source: io::Error| RemoteLogError::File { what, path: path.to_owned(), source };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    safe(&file, what, path, forbidden)?;
    let mut text = Vec::with_capacity(usize::try_from(LARGEST).unwrap_or_default());
    file.take(LARGEST).read_to_end(&mut text).map_err(failed)?;
    Ok(text)
}

fn safe(file: &File, what: &'static str, path: &Path, forbidden: u32) -> Result<(), RemoteLogError> {
    let about =
        file.metadata().map_err(|source| RemoteLogError::File { what, path: path.to_owned(), source })?;
    let refused = |why: String| Err(RemoteLogError::Unsafe { what, path: path.to_owned(), why });
    let at = path.display();
    if !about.is_file() {
        return refused("it is no regular file".to_owned());
    }
    if about.uid() != 0 {
        return refused(format!("it belongs to user {}: chown root:root {at}", about.uid()));
    }
    if about.mode() & forbidden != 0 {
        let (does, mode) = if forbidden & 0o044 == 0 { ("write", "go-w") } else { ("read or write", "0600") };
        return refused(format!(
            "mode {:04o} lets others {does} it: chmod {mode} {at}",
            about.mode() & 0o7777
        ));
    }
    Ok(())
}
