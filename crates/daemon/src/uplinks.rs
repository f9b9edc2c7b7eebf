//! Which devices lead to other hosts: those that the configuration names, else those of the default routes, else every
//! device that is up and is neither `lo` nor a device of ours.

use netio::link::{Link, Links};

use crate::device::Device;
use crate::network_stack::NetworkStack;
use config::Config;

/// Why there are no uplinks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UplinkError {
    /// The configuration names one that is not there.
    #[error("there is no interface {0:?}, which `uplinks` names")]
    Missing(String),
    /// There is none to choose.
    #[error("no interface is up beside lo")]
    None,
    /// The kernel does not say.
    #[error(transparent)]
    Netio(#[from] netio::Error),
}

/// An uplink with what the daemon wants to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// The name of the device.
    pub name: String,
    /// The index of the device.
    pub index: u32,
    /// The MTU of the device.
    pub mtu: u32,
}

impl Uplink {
    /// The uplink as a device, without its MTU.
    pub fn device(&self) -> Device {
        Device { name: self.name.clone(), index: self.index }
    }
}

/// The uplinks of this network namespace.
///
/// # Errors
/// [`UplinkError`].
pub fn choose(config: &Config) -> Result<Vec<Uplink>, UplinkError> {
    let mut links = Links::open()?;
    let all = links.list()?;
    let defaults: Vec<u32> = match config.uplinks {
        Some(_) => Vec::new(),
        None => links.default_routes()?.into_iter().map(|route| route.index).collect(),
    };
    among(config, &all, &defaults)
}

/// The uplinks as [`choose`] gives them, but a named device that is gone for now is passed over: the others stay
/// guarded.
///
/// # Errors
/// If the kernel does not say, or nothing is left.
pub fn present(config: &Config) -> Result<Vec<Uplink>, UplinkError> {
    let Some(names) = &config.uplinks else { return choose(config) };
    let all = Links::open()?.list()?;
    let there: Vec<String> =
        names.iter().filter(|n| all.iter().any(|link| link.name == **n)).cloned().collect();
    if there.is_empty() {
        return Err(UplinkError::Missing(names.join(", ")));
    }
    among(&Config { uplinks: Some(there), ..config.clone() }, &all, &[])
}

fn among(config: &Config, all: &[Link], defaults: &[u32]) -> Result<Vec<Uplink>, UplinkError> {
    let uplink = |link: &Link| Uplink { name: link.name.clone(), index: link.index, mtu: link.mtu };
    if let Some(names) = &config.uplinks {
        let find = |name: &String| all.iter().find(|link| link.name == *name);
        return names
            .iter()
            .map(|n| find(n).map(uplink).ok_or_else(|| UplinkError::Missing(n.clone())))
            .collect();
    }
    let is_inside =
        |name: &String| config.gateway.as_ref().is_some_and(|gateway| gateway.inside.contains(name));
    let is_ours =
        |name: &String| *name == config.tun.name || config.enc.as_ref() == Some(name) || is_inside(name);
    let leads_out = |link: &&Link| !link.loopback && link.up && !is_ours(&link.name);
    let mut chosen: Vec<Uplink> =
        all.iter().filter(leads_out).filter(|link| defaults.contains(&link.index)).map(uplink).collect();
    if chosen.is_empty() {
        // A bridge's ports carry its packets, not packets of sockets.
        chosen = all.iter().filter(leads_out).filter(|link| link.master.is_none()).map(uplink).collect();
    }
    if chosen.is_empty() { Err(UplinkError::None) } else { Ok(chosen) }
}

/// The path MTU in octets for associations whose peer has no route: what is configured, else that of the first uplink.
pub(crate) fn path_mtu(config: &Config, uplinks: &[Uplink]) -> Option<u16> {
    let first = uplinks.first().and_then(|uplink| u16::try_from(uplink.mtu).ok());
    config.esp.path_mtu.or(first)
}

/// Why protected packets cannot leave or arrive by the uplinks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UplinkFault {
    /// The text that says what is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
    /// Nothing leaves this host.
    pub closed: bool,
}

/// What is wrong with the uplinks. An uplink can be a port of another device (a bridge, a bond), by which packets leave
/// instead; or no uplink is up.
pub(crate) fn faults(network: &NetworkStack, uplinks: &[Device]) -> Vec<UplinkFault> {
    match network.links() {
        Ok(all) => faults_among(uplinks, &all),
        Err(error) => {
            let (message, remedy) = (format!("cannot look at the uplinks: {error}"), "try again".to_owned());
            vec![UplinkFault { message, remedy, closed: false }]
        }
    }
}

fn faults_among(uplinks: &[Device], all: &[Link]) -> Vec<UplinkFault> {
    let by_index = |index: u32| all.iter().find(|link| link.index == index);
    let mut faults = Vec::new();
    for link in uplinks.iter().filter_map(|uplink| by_index(uplink.index)) {
        let Some(master) = link.master.and_then(by_index) else { continue };
        // A VRF only chooses the table of routes: packets leave by its port.
        if master.kind.as_deref() == Some("vrf") || uplinks.iter().any(|uplink| uplink.index == master.index)
        {
            continue;
        }
        let (port, whole) = (&link.name, &master.name);
        let kind = master.kind.as_deref().unwrap_or("device");
        faults.push(UplinkFault {
            message: format!("the uplink {port} is a port of the {kind} {whole}: this host's packets leave by {whole}, which is not guarded"),
            remedy: format!("write {whole} for {port} in `uplinks` of the configuration, and restart the daemon"),
            closed: false,
        });
    }
    let mut links = uplinks.iter().filter_map(|uplink| by_index(uplink.index));
    // One that was deleted is not up either.
    if !uplinks.is_empty() && links.all(|link| !link.up || !link.running) {
        let names: Vec<&str> = uplinks.iter().map(|uplink| uplink.name.as_str()).collect();
        faults.push(UplinkFault {
            message: format!("no uplink is up: {}", names.join(", ")),
            remedy: "`ip link` shows them; nothing reaches another host meanwhile".to_owned(),
            closed: true,
        });
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn link(index: u32, name: &str, up: bool) -> Link {
        Link {
            index,
            name: name.to_owned(),
            up,
            running: up,
            loopback: name == "lo",
            mtu: 1500,
            queue_len: 1000,
            master: None,
            kind: None,
            address: Vec::new(),
            xdp: None,
            multicast: true,
            tun_owner: None,
        }
    }

    #[test]
    fn named_ones_else_default_routes_else_all_that_are_up() {
        let all = [link(1, "lo", true), link(2, "eth0", true), link(3, "eth1", true), link(4, "eth2", false)];
        let names = |config: &str, defaults: &[u32]| {
            let config = Config::parse(Path::new("/c"), &format!("policy = \"p\"\n{config}")).unwrap();
            among(&config, &all, defaults)
                .map(|chosen| chosen.into_iter().map(|u| u.name).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(names("uplinks = [\"eth2\"]", &[2]).unwrap(), ["eth2"]);
        assert!(names("uplinks = [\"eth9\"]", &[]).unwrap_err().contains("eth9"));
        assert_eq!(names("", &[3]).unwrap(), ["eth1"]);
        assert_eq!(names("", &[]).unwrap(), ["eth0", "eth1"]);
        assert_eq!(names("tun.name = \"eth0\"", &[]).unwrap(), ["eth1"]);
        assert_eq!(names("enc_name = \"eth1\"", &[]).unwrap(), ["eth0"]);
        assert_eq!(names("[gateway]\ninside = [\"eth1\"]", &[3]).unwrap(), ["eth0"]);
    }

    #[test]
    fn a_port_of_another_device_and_uplinks_that_are_all_down_are_named() {
        let of_kind =
            |index, name: &str, kind: &str| Link { kind: Some(kind.to_owned()), ..link(index, name, true) };
        let port = |index, name: &str, master| Link { master: Some(master), ..link(index, name, true) };
        let all = [
            of_kind(5, "br0", "bridge"),
            of_kind(6, "blue", "vrf"),
            port(2, "eth0", 5),
            port(3, "eth1", 6),
            link(4, "eth2", false),
        ];
        let devices = |indices: &[u32]| -> Vec<Device> {
            let of = |index: &u32| all.iter().find(|link| link.index == *index).unwrap();
            indices.iter().map(|index| Device { name: of(index).name.clone(), index: *index }).collect()
        };
        let [fault] = &faults_among(&devices(&[2, 3]), &all)[..] else { panic!() };
        assert!(fault.message.contains("eth0 is a port of the bridge br0"), "{fault:?}");
        assert!(fault.remedy.contains("br0") && !fault.closed, "{fault:?}");
        assert_eq!(faults_among(&devices(&[5, 3, 4]), &all), []);
        // The bridge is an uplink as well as its port.
        assert_eq!(faults_among(&devices(&[5, 2]), &all), []);
        let [fault] = &faults_among(&devices(&[4]), &all)[..] else { panic!() };
        assert!(fault.message.contains("no uplink is up: eth2") && fault.closed, "{fault:?}");
        let gone = Device { name: "eth9".to_owned(), index: 9 };
        let [fault] = &faults_among(&[gone], &all)[..] else { panic!() };
        assert!(fault.message.contains("no uplink is up: eth9") && fault.closed, "{fault:?}");
        assert_eq!(faults_among(&[], &all), []);
    }
}
