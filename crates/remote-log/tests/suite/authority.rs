//! Certificates for a test: an authority, and who it vouches for.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::support::write;

/// One who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// The files of one who has a certificate.
#[derive(Clone, Debug)]
pub struct Papers {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Files in `folder` for a host of this name, who trusts this authority.
    pub fn papers(&self, folder: &Path, name: &str) -> Papers {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |what: &str| folder.join(format!("{name}.{what}.pem"));
        let papers = Papers { ca: path("ca"), certificate: path("certificate"), key: path("key") };
        write(&papers.ca, &self.pem, 0o644);
        write(&papers.certificate, &certificate.pem(), 0o644);
        write(&papers.key, &key.serialize_pem(), 0o600);
        papers
    }
}
