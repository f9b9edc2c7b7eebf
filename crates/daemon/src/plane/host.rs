//! The host that the daemon is on: its devices and addresses, as the kernel half and the data threads were told of them.
//!
//! What enters: what the network stack says, once a second and at each news of a device. What leaves: the devices that the kernel half
//! guards, the addresses and sizes that the data threads use, and what is wrong with them. Gateway mode: docs/gateway.md.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netio::link::Links;
use sadb::sa::DEFAULT_PATH_MTU;

use super::halves::Halves;
use super::report;
use crate::device::Device;
use crate::gateway::{self, HostAddresses, Mtus, among};
use crate::host::{self, TunFault};
use crate::monitor::Monitor;
use crate::network_stack::NetworkStack;
use crate::surveyed::Surveyed;
use crate::uplinks::{self, Uplink, UplinkFault};
use config::{Config, GatewayConfig};
use documents::api_error::{ApiError, Blame};

/// What is known of the host.
#[derive(Debug)]
pub struct Host {
    /// Where devices and routes are looked up.
    network: NetworkStack,
    /// The TUN device of the daemon.
    tun: Device,
    /// The network devices that are guarded as uplinks.
    uplinks: Vec<Device>,
    /// Interfaces of networks behind this host.
    insides: Vec<Device>,
    /// Uplinks whose frames are taken, as they were at the start; `None`: the kernel's sockets are used.
    framed: Option<Vec<Device>>,
    /// The MTU of the first uplink in octets, or what is configured, for associations whose peer has no route.
    path_mtu: Option<u16>,
    /// The addresses and inside interfaces that the inbound thread knows.
    surroundings: HostAddresses,
    /// The sizes that the outbound thread knows.
    mtus: Mtus,
    /// The other devices and the addresses that the kernel half knows.
    surveyed: Surveyed,
    /// Queues of the TUN that this daemon holds.
    queues: u32,
}

impl Host {
    /// A host with these devices, of which the kernel half has been told.
    pub(crate) fn new(
        network: NetworkStack,
        tun: Device,
        uplinks: Vec<Device>,
        insides: Vec<Device>,
    ) -> Host {
        Host {
            network,
            tun,
            uplinks,
            insides,
            framed: None,
            path_mtu: None,
            surroundings: HostAddresses::default(),
            mtus: Mtus::default(),
            surveyed: Surveyed::default(),
            queues: 1,
        }
    }

    /// The same host, of whose TUN this daemon holds so many queues.
    pub(crate) fn holding_queues(self, queues: usize) -> Host {
        Host { queues: u32::try_from(queues).unwrap_or(u32::MAX), ..self }
    }

    /// The same host, whose associations have this path MTU in octets where the peer has no route.
    pub(crate) fn with_path_mtu(self, path_mtu: Option<u16>) -> Host {
        Host { path_mtu, ..self }
    }

    /// The same host, whose other devices and addresses the kernel half knows.
    pub(crate) fn with_surveyed(self, surveyed: Surveyed) -> Host {
        Host { surveyed, ..self }
    }

    /// The same host, on whose uplinks frames are taken in the place of the kernel's sockets.
    pub(crate) fn taking_frames(self) -> Host {
        Host { framed: Some(self.uplinks.clone()), ..self }
    }

    /// The TUN device of the daemon.
    pub(crate) fn tun(&self) -> &Device {
        &self.tun
    }

    /// The network devices that are guarded as uplinks.
    pub(crate) fn uplinks(&self) -> &[Device] {
        &self.uplinks
    }

    /// Interfaces of networks behind this host.
    pub(crate) fn insides(&self) -> &[Device] {
        &self.insides
    }

    /// What an association between these addresses begins with, in octets, where nothing is configured: what the route takes.
    pub(crate) fn path_mtu_to(&self, local: IpAddr, remote: IpAddr) -> u16 {
        self.network.route_mtu(local, remote).or(self.path_mtu).unwrap_or(DEFAULT_PATH_MTU)
    }

    /// The sizes that the outbound thread begins with.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(crate) fn first_mtus(&mut self) -> netio::Result<Mtus> {
        self.mtus = Mtus::of(self.path_mtu, &self.insides)?;
        Ok(self.mtus)
    }

    /// Tell the data threads of addresses and sizes that changed.
    ///
    /// # Errors
    /// If the kernel does not say, or a data thread does not answer.
    pub(super) async fn follow_surroundings(&mut self, halves: &Halves) -> Result<(), ApiError> {
        let failed = |error: netio::Error| ApiError::new(Blame::Failed, error.to_string());
        let now = HostAddresses::look(&self.insides).map_err(failed)?;
        let mtus = Mtus::new(self.path_mtu, now.mtu);
        if mtus != self.mtus {
            halves.ask_outbound(move |half| half.mtus = mtus).await?;
            self.mtus = mtus;
        }
        if now != self.surroundings {
            let own = now.by_interface().clone();
            halves.ask_outbound(move |half| half.engine.set_own_addresses(own)).await?;
            let id = netio::random::number().map_err(|e| ApiError::new(Blame::Failed, e.to_string()))?;
            let told = now.clone();
            halves.ask_inbound(move |half| half.fragmenter.set(told, id)).await?;
            // Both threads know it: one that had no time is asked again at the next look.
            self.surroundings = now;
        }
        Ok(())
    }

    /// Have the kernel half guard the devices that there are now; what is wrong.
    pub(super) fn follow_devices(&mut self, config: &Config, monitor: &Monitor) -> Vec<String> {
        let mut wrong = Vec::new();
        wrong.extend(self.follow_uplinks(config, monitor));
        wrong.extend(self.follow_insides(config, monitor));
        wrong.extend(self.follow_others(config, monitor));
        wrong
    }

    /// Guard the uplinks that there are now.
    fn follow_uplinks(&mut self, config: &Config, monitor: &Monitor) -> Option<String> {
        let chosen = match uplinks::present(config) {
            Ok(chosen) => chosen,
            Err(error) => return Some(error.to_string()),
        };
        // For associations to come; a device's MTU may change without anything else.
        self.path_mtu = uplinks::path_mtu(config, &chosen);
        let devices: Vec<Device> = chosen.iter().map(Uplink::device).collect();
        if devices == self.uplinks {
            return None;
        }
        if let Err(error) = monitor.get().set_uplinks(&indices(&devices)) {
            return Some(format!("{error}; {}", error.remedy()));
        }
        tracing::info!("guarded uplinks: {}", names(&devices));
        self.uplinks = devices;
        None
    }

    /// Guard the inside interfaces that there are now.
    fn follow_insides(&mut self, config: &Config, monitor: &Monitor) -> Option<String> {
        let gateway = config.gateway.as_ref()?;
        let all = match self.network.links() {
            Ok(all) => all,
            Err(error) => return Some(error.to_string()),
        };
        let there = GatewayConfig {
            inside: gateway.inside.iter().filter(|n| all.iter().any(|l| l.name == **n)).cloned().collect(),
            ..gateway.clone()
        };
        let devices = among(&there, &all).unwrap_or_default();
        if devices != self.insides {
            if let Err(error) = monitor.get().set_insides(&indices(&devices)) {
                return Some(format!("{error}; {}", error.remedy()));
            }
            tracing::info!("inside interfaces: {}", names(&devices));
            self.insides = devices;
        }
        gateway::fault(config, &all)
    }

    /// Tell the kernel half of the host beside its uplinks and inside interfaces.
    fn follow_others(&mut self, config: &Config, monitor: &Monitor) -> Option<String> {
        let known: Vec<u32> = self.uplinks.iter().chain(&self.insides).map(|device| device.index).collect();
        let now = match Surveyed::look(config, &known) {
            Ok(now) => now,
            Err(error) => return Some(error.to_string()),
        };
        if now == self.surveyed {
            return None;
        }
        let mut monitor = monitor.get();
        match monitor.set_others(&now.others).and_then(|()| monitor.set_locals(&now.locals)) {
            Ok(()) => self.surveyed = now,
            Err(error) => return Some(format!("{error}; {}", error.remedy())),
        }
        None
    }

    /// Attach again what is missing of the kernel half, set again what was changed on the host; what remains wrong.
    pub(super) fn repair(&self, monitor: &Monitor) -> Option<String> {
        for (name, want, is) in host::wrong_settings() {
            tracing::warn!("{name} was changed to {is}; set to {want} again");
        }
        if let Err(error) = host::apply_settings() {
            return Some(error.to_string());
        }
        if let Err(fault) = host::revive_tun(&self.network, &self.tun) {
            return Some(fault);
        }
        let mut monitor = monitor.get();
        let faults = monitor.health();
        if faults.is_empty() {
            return None;
        }
        for fault in &faults {
            tracing::warn!("{}: {}; attaching again", fault.what, fault.detail);
        }
        match monitor.repair() {
            Ok(adopted) => {
                report(&adopted);
                None
            }
            Err(error) => Some(format!("{error}; {}", error.remedy())),
        }
    }

    /// What is wrong with the TUN's device, if anything.
    pub(crate) fn tun_fault(&self) -> Option<TunFault> {
        host::tun_fault(&self.network, &self.tun)
    }

    /// What is wrong with who may attach to the TUN, if anything.
    pub(crate) fn tun_owner_fault(&self) -> Option<String> {
        host::tun_owner_fault(&self.network, &self.tun.name)
    }

    /// Whether others hold queues of the TUN beside this daemon.
    pub(crate) fn foreign_queues(&self) -> Option<String> {
        host::foreign_queues(&self.network, &self.tun, self.queues)
    }

    /// What is wrong with the uplinks.
    pub(crate) fn uplink_faults(&self) -> Vec<UplinkFault> {
        uplinks::faults(&self.network, &self.uplinks)
    }

    /// What keeps this host from being the gateway that it is to be, as it is now.
    pub(crate) fn gateway_fault(&self, config: &Config) -> Option<String> {
        config.gateway.as_ref()?;
        match self.network.links() {
            Ok(all) => gateway::fault(config, &all),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Uplinks that came, or were made anew, when the sockets for frames had been opened: those of the kernel are deaf.
    pub(crate) fn unheard(&self) -> impl Iterator<Item = &Device> {
        let framed = self.framed.as_deref();
        self.uplinks.iter().filter(move |uplink| framed.is_some_and(|framed| !framed.contains(uplink)))
    }

    /// The peers among these that an ordinary packet of this host reaches by an uplink.
    pub(super) fn by_uplink(&self, peers: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        if peers.is_empty() {
            return peers;
        }
        let Ok(mut links) = Links::open() else { return BTreeSet::new() };
        let is_uplink = |index: u32| self.uplinks.iter().any(|uplink| uplink.index == index);
        let leads = |peer: &IpAddr| links.route_to(*peer).is_ok_and(|route| is_uplink(route.index));
        peers.into_iter().filter(leads).collect()
    }
}

fn indices(devices: &[Device]) -> Vec<u32> {
    devices.iter().map(|device| device.index).collect()
}

fn names(devices: &[Device]) -> String {
    devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::recorder::{Call, Recorder};

    fn device(name: &str, index: u32) -> Device {
        Device { name: name.to_owned(), index }
    }

    #[test]
    fn a_kernel_half_that_does_not_take_an_uplink_is_asked_again() {
        let file = std::path::Path::new("/nonexistent/ravelin.toml");
        let config = Config::parse(file, "policy = \"policy\"\n").unwrap();
        // The one device that every network namespace has.
        let config = Config { uplinks: Some(vec!["lo".to_owned()]), ..config };
        let recorder = Recorder::default();
        let monitor = Monitor::new(recorder.clone());
        let network = NetworkStack::Fixed(Vec::new());
        let mut host = Host::new(network, device("rvl0", 7), vec![device("eth0", 2)], Vec::new());
        recorder.fail(&["set_uplinks"]);
        let wrong = host.follow_uplinks(&config, &monitor).unwrap();
        assert!(wrong.contains("set_uplinks"), "{wrong}");
        assert_eq!(host.uplinks(), [device("eth0", 2)]);
        recorder.fail(&[]);
        assert_eq!(host.follow_uplinks(&config, &monitor), None);
        assert_eq!(host.follow_uplinks(&config, &monitor), None, "it is guarded already");
        assert_eq!(recorder.take_calls(), [Call::SetUplinks(vec![1]), Call::SetUplinks(vec![1])]);
        assert_eq!(host.uplinks(), [device("lo", 1)]);
    }
}
