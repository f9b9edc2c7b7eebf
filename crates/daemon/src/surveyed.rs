//! What the kernel half is told of the host beside its uplinks: the devices that are neither uplinks nor ours, by which packet sockets
//! send too, and the addresses of the host, which may be the source of a packet on `lo`.

use netio::link::Links;
use wire::Prefix;

use config::Config;

/// Devices and addresses of the calling thread's network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surveyed {
    /// Indices of every device but `lo`, those in `known` and ours.
    pub(crate) others: Vec<u32>,
    /// The addresses of this host.
    pub(crate) locals: Vec<Prefix>,
}

impl Surveyed {
    /// What there is now; `known` are the uplinks and the interfaces of networks behind this host.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(crate) fn look(config: &Config, known: &[u32]) -> netio::Result<Surveyed> {
        let mut links = Links::open()?;
        let is_ours = |name: &str| name == config.tun.name || config.enc.as_deref() == Some(name);
        let all = links.list()?;
        let others = all.iter().filter(|link| !link.loopback && !is_ours(&link.name));
        let others = others.map(|link| link.index).filter(|index| !known.contains(index)).collect();
        let addresses = links.local_addresses()?;
        let locals = addresses.into_iter().filter_map(|(addr, len)| Prefix::new(addr, len)).collect();
        Ok(Surveyed { others, locals })
    }
}
