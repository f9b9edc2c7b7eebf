//! The `[audit]` section of the configuration: a file for what must leave a trace, and `[audit.remote]`: a collector on
//! another machine that is told the same (RFC 5424 over TLS, RFC 5425).

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;

use super::read::{Reader, Value};

const AUDIT: [&str; 4] = ["file", "size", "per_second", "remote"];
const REMOTE: [&str; 9] =
    ["server", "port", "name", "ca", "certificate", "key", "spool", "size", "heartbeat"];

/// The size in MiB beyond which the file is rotated, unless told otherwise.
const SIZE: u64 = 16;
/// The packets of each kind that are told in full in a second, unless told otherwise.
const PER_SECOND: u32 = 32;
/// The port of syslog over TLS (RFC 5425 section 4.1).
const PORT: u16 = 6514;
/// The seconds between two heartbeat messages, unless told otherwise.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// The longest host name (RFC 1035 section 2.3.4).
const NAME_MAX: usize = 253;

/// The settings of the audit log, from `[audit]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The path of the audit log.
    pub file: PathBuf,
    /// The size in octets beyond which the audit log is rotated.
    pub size: u64,
    /// The packets of each kind that are told in full in a second; the others are counted.
    pub per_second: u32,
    /// The collector that is told the same; `None`: the file is all.
    pub remote: Option<RemoteAudit>,
}

/// The collector of audit lines, from `[audit.remote]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAudit {
    /// The address and port of the collector.
    pub server: SocketAddr,
    /// The name or address that the collector's certificate must be for.
    pub name: String,
    /// The path of the certificates (PEM) that may sign the collector's one.
    pub ca: PathBuf,
    /// The path of this host's certificate (PEM).
    pub certificate: PathBuf,
    /// The path of the private key to it (PEM).
    pub key: PathBuf,
    /// The folder for lines that the collector has not read yet.
    pub spool: PathBuf,
    /// The size in octets that the spool may have.
    pub size: u64,
    /// The time between two heartbeat messages.
    pub heartbeat: Duration,
}

impl Reader<'_> {
    pub(super) fn audit(&mut self, value: Option<&Value<'_>>, instance: &str) -> Option<AuditConfig> {
        let table = self.table(value, "audit", &AUDIT)?;
        let why = "MiB of the file; there is one more of before, so twice that is the most on the disk";
        let size = table.get("size").and_then(|v| self.integer(v, "size", 1..=4096, why));
        let why = "packets of each kind that are told in full in a second; the others are counted";
        let per_second = table.get("per_second").and_then(|v| self.integer(v, "per_second", 0..=10_000, why));
        let remote = table.get("remote").and_then(|value| self.remote(value, instance));
        let Some(file) = table.get("file") else {
            let at = value.map_or(0..0, |value| value.span());
            self.fault(at, "[audit] names no file", "add: file = \"/var/log/ravelin/audit.jsonl\"");
            return None;
        };
        Some(AuditConfig {
            file: self.path(file, "file")?,
            size: size.and_then(|n| u64::try_from(n).ok()).unwrap_or(SIZE) << 20,
            per_second: per_second.and_then(|n| u32::try_from(n).ok()).unwrap_or(PER_SECOND),
            remote,
        })
    }

    fn remote(&mut self, value: &Value<'_>, instance: &str) -> Option<RemoteAudit> {
        let table = self.table(Some(value), "audit.remote", &REMOTE)?;
        let mut needed = |key: &str, example: &str| {
            let found = table.get(key);
            if found.is_none() {
                let remedy = format!("add: {key} = \"{example}\"");
                self.fault(value.span(), format!("[audit.remote] has no `{key}`"), remedy);
            }
            found
        };
        let server = needed("server", "192.0.2.7");
        let name = needed("name", "collector.example");
        let ca = needed("ca", "/etc/ravelin/audit-ca.pem");
        let certificate = needed("certificate", "/etc/ravelin/audit.pem");
        let key = needed("key", "/etc/ravelin/audit.key");
        let server = server.and_then(|value| self.collector(value));
        let name = name.and_then(|value| self.collector_name(value));
        let ca = ca.and_then(|value| self.path(value, "ca"));
        let own = certificate.and_then(|value| self.path(value, "certificate"));
        let key = key.and_then(|value| self.path(value, "key"));
        if let (Some(ca), Some(certificate)) = (&ca, &own)
            && ca == certificate
        {
            let remedy = "`ca` has the certificate of the authority that signed the collector's one";
            self.fault(value.span(), "`ca` and `certificate` are one file", remedy);
        }
        let why = "the port of syslog over TLS is 6514";
        let port = self.number(table, "port", 1..=65_535, why).and_then(|port| u16::try_from(port).ok());
        let why = "MiB of the spool: what the collector has not read stays there, the oldest first";
        let size = self.number(table, "size", 1..=1024, why).unwrap_or(SIZE) << 20;
        let why = "seconds between two heartbeat messages; three without an answer are a problem in `ravelin status`";
        let heartbeat = self.number(table, "heartbeat", 5..=3600, why);
        let spool = match table.get("spool") {
            Some(value) => self.path(value, "spool"),
            None => Some(Path::new("/var/lib/ravelin").join(instance).join("audit-spool")),
        };
        Some(RemoteAudit {
            server: SocketAddr::new(server?, port.unwrap_or(PORT)),
            name: name?,
            ca: ca?,
            certificate: own?,
            key: key?,
            spool: spool?,
            size,
            heartbeat: heartbeat.map_or(HEARTBEAT, Duration::from_secs),
        })
    }

    fn number(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        range: RangeInclusive<i64>,
        why: &str,
    ) -> Option<u64> {
        let number = table.get(key).and_then(|value| self.integer(value, key, range, why))?;
        u64::try_from(number).ok()
    }

    /// The address of one host. A name is refused: whoever answers for it would decide where audit lines go, and the
    /// running daemon asks no name server for itself.
    fn collector(&mut self, value: &Value<'_>) -> Option<IpAddr> {
        let text = self.string(value, "server")?;
        let fault = match text.parse::<IpAddr>() {
            Ok(address) if address.is_unspecified() || address.is_multicast() => "is no host's address",
            Ok(address) => return Some(address),
            Err(_) => "is no address",
        };
        let remedy = "write the collector's IPv4 or IPv6 address alone; its port is `port`, the name in its \
                      certificate `name`";
        self.fault(value.span(), format!("`server` {fault}: {text:?}"), remedy);
        None
    }

    fn collector_name(&mut self, value: &Value<'_>) -> Option<String> {
        let text = self.string(value, "name")?;
        let label = |label: &str| {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            !label.is_empty() && label.chars().all(is_of_name)
        };
        if text.parse::<IpAddr>().is_err() && (text.len() > NAME_MAX || !text.split('.').all(label)) {
            let remedy = "write the host name or the address that stands in the collector's certificate";
            self.fault(value.span(), format!("`name` is no host name: {text:?}"), remedy);
            return None;
        }
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests;
