//! What the control plane knows of the host names in the policy.

use std::net::IpAddr;

use config::NamesConfig;
use tokio::sync::mpsc::{Receiver, channel};
use wire::Time;

use crate::names::{self, Asker, Book, ResolvedName};

/// Answers on their way to the control plane.
const ROOM: usize = 64;

/// What the control plane knows of names.
pub struct Hosts {
    /// What is known of each.
    pub(super) book: Book,
    pub(super) asker: Asker,
    pub(super) observe: bool,
    /// What the kernel half was told.
    pub(super) observing: bool,
    /// Servers whose answers count whoever asked, other than an application of the policy.
    pub(super) trusted: Vec<IpAddr>,
    /// When the sockets were last looked at.
    pub(super) looked: Time,
    /// Answers of applications that were looked at, and that said something new.
    pub(super) observed: (u64, u64),
}

impl Hosts {
    /// Without names yet; what is heard of them comes out of the receiver.
    pub fn new(config: &NamesConfig) -> (Hosts, Receiver<ResolvedName>) {
        let (told, heard) = channel(ROOM);
        let configured = config.resolvers.iter().map(std::net::SocketAddr::ip).collect::<Vec<_>>();
        let trusted = match configured.is_empty() {
            true => names::system_servers().unwrap_or_default(),
            false => configured,
        };
        let hosts = Hosts {
            book: Book::new(config.limits),
            asker: Asker::new(&config.resolvers, config.timeout, told),
            observe: config.observe,
            observing: false,
            trusted,
            looked: Time::default(),
            observed: (0, 0),
        };
        (hosts, heard)
    }
}
