//! Which collector, by which certificates, and how much is kept for it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a sender.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address and port of the collector. It is an address and no name: a name server must not decide where audit
    /// lines go, and nothing is resolved behind the filter of system calls.
    pub server: SocketAddr,
    /// The name or address that the collector's certificate must be for.
    pub name: String,
    /// PEM file of the certificates that may sign the collector's one. Root's, written by nobody else.
    pub ca: PathBuf,
    /// PEM file of the sender's own certificate, those that signed it after it.
    pub certificate: PathBuf,
    /// PEM file of the private key to it. Root's, with mode 0600 or less.
    pub key: PathBuf,
    /// The folder of the spool. It is made if it is not there.
    pub spool: PathBuf,
    /// The octets that the spool may have.
    pub size: u64,
    /// Between two heartbeat messages.
    pub heartbeat: Duration,
    /// The APP-NAME of the messages. Each chain needs one of its own on its host.
    pub app_name: String,
    /// How long the collector may leave the sender without progress: at connecting, and while it takes nothing. Six
    /// times as long it may take to read what it was sent, and to end the connection.
    pub patience: Duration,
    /// The first and the longest wait before another attempt to connect.
    pub back_off: (Duration, Duration),
    /// What the sender's thread does first, for example to give up rights.
    pub at_start: fn(),
}

impl Settings {
    /// The octets of a spool, unless told otherwise.
    pub const SIZE: u64 = 16 << 20;
    /// The least size of a spool, in octets: a few of the longest messages.
    pub const LEAST: u64 = 64 << 10;
    /// Between two heartbeat messages, unless told otherwise.
    pub const HEARTBEAT: Duration = Duration::from_secs(60);

    /// Settings with the usual sizes and times. Paths are those of the CA's certificates, the own certificate, its
    /// private key and the spool's folder.
    pub fn new(server: SocketAddr, name: &str, [ca, certificate, key, spool]: [PathBuf; 4]) -> Settings {
        Settings {
            server,
            name: name.to_owned(),
            ca,
            certificate,
            key,
            spool,
            size: Settings::SIZE,
            heartbeat: Settings::HEARTBEAT,
            app_name: "ravelin".to_owned(),
            patience: Duration::from_secs(10),
            back_off: (Duration::from_secs(1), Duration::from_secs(60)),
            at_start: || (),
        }
    }
}
